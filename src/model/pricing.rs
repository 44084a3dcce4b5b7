//! What a turn costs: prices as data, arithmetic in decimals (01 section 12).

use std::sync::{Arc, LazyLock};

use jiff::civil::Date;
use jiff::tz::TimeZone;
use rust_decimal::Decimal;
use serde::Deserialize;
use serde_json::Value;

use super::port::Usage;
use crate::domain::{Clock, Usd};

/// Prices of one model in US dollars for a million tokens.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Prices {
    input: Decimal,
    output: Decimal,
    cache_read: Decimal,
    cache_write: Decimal,
}

/// The table: see the file for what its fields mean (USE-3).
static TABLE: LazyLock<Table> = LazyLock::new(|| {
    // A test reads the same file, so it never fails here; without a table every model would be dear.
    serde_json::from_str(include_str!("prices.json")).unwrap_or_default()
});

#[derive(Deserialize, Default)]
struct Table {
    rows: Vec<Row>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Row {
    model: String,
    valid_from: Date,
    input: Decimal,
    output: Decimal,
    cache_read: Decimal,
    cache_write: Decimal,
}

/// For a model nobody priced: dear on purpose, so that a cap errs toward stopping early (USE-4).
const UNKNOWN: Prices = Prices {
    input: Decimal::from_parts(5, 0, 0, false, 0),
    output: Decimal::from_parts(25, 0, 0, false, 0),
    cache_read: Decimal::from_parts(5, 0, 0, false, 1),
    cache_write: Decimal::from_parts(625, 0, 0, false, 2),
};

/// What writing to Anthropic's five-minute cache costs, in parts of the input price; the only cache we ask for (RUN-12).
const ANTHROPIC_CACHE_WRITE: Decimal = Decimal::from_parts(125, 0, 0, false, 2);

/// Stands in for a cost no decimal can hold; the largest that `numeric(12,6)` can store.
pub(super) const LARGEST_COST: Decimal = Decimal::from_parts(0xd4a5_0fff, 0xe8, 0, false, 6);

impl Default for Prices {
    /// Those of a model nobody priced (USE-4).
    fn default() -> Self {
        UNKNOWN
    }
}

impl Prices {
    /// Prices of `model`, a whole model string, as of today. `overrides` is `PRICING_OVERRIDES` as the configuration
    /// checked it: its row for the model goes before the table (USE-6).
    #[must_use]
    pub fn of(model: &str, overrides: Option<&Value>) -> Self {
        Self::overridden(model, overrides)
            .or_else(|| TABLE.prices(model, date(jiff::Timestamp::now())))
            .unwrap_or(UNKNOWN)
    }

    fn overridden(model: &str, overrides: Option<&Value>) -> Option<Self> {
        Self::from_override(model, overrides?.get(model)?)
    }

    /// Cost of the tokens; unknown counts are 0 (USE-2). What was written to a cache is a part of the input with a
    /// price of its own.
    #[must_use]
    pub fn cost(&self, usage: &Usage) -> Usd {
        let (cached, written) = (usage.cache_read.unwrap_or(0), usage.cache_write.unwrap_or(0));
        let fresh = usage.input.unwrap_or(0).saturating_sub(cached).saturating_sub(written);
        let counts = [
            (fresh, self.input),
            (cached, self.cache_read),
            (written, self.cache_write),
            (usage.output.unwrap_or(0), self.output),
        ];
        let total = counts.into_iter().try_fold(Decimal::ZERO, |total, (tokens, price)| {
            total.checked_add(Decimal::from(tokens).checked_mul(price)?)
        });
        let cost = total.and_then(|total| total.checked_div(Decimal::from(1_000_000)));
        Usd::new(cost.unwrap_or(LARGEST_COST).min(LARGEST_COST))
    }

    /// A row may leave out what writing to the cache costs: for Anthropic it follows from the input price, elsewhere it
    /// is the input price.
    fn from_override(model: &str, row: &Value) -> Option<Self> {
        let price = |key: &str| {
            let number = row.get(key)?.as_number()?.to_string();
            number.parse().or_else(|_| Decimal::from_scientific(&number)).ok()
        };
        let input: Decimal = price("input")?;
        let factor = if model.starts_with("anthropic:") { ANTHROPIC_CACHE_WRITE } else { Decimal::ONE };
        let cache_write = price("cacheWrite").or_else(|| input.checked_mul(factor))?;
        Some(Self { input, output: price("output")?, cache_read: price("cacheRead")?, cache_write })
    }
}

/// The prices of one model from day to day, for a process that outlives a change of them.
#[derive(Clone, Copy)]
pub(super) struct Tariff {
    overridden: Option<Prices>,
    table: &'static Table,
}

impl Tariff {
    /// As for [`Prices::of`].
    pub(super) fn of(model: &str, overrides: Option<&Value>) -> Self {
        Self { overridden: Prices::overridden(model, overrides), table: &TABLE }
    }

    /// What `model` costs today, by business time.
    pub(super) fn prices(&self, model: &str, clock: &Arc<dyn Clock>) -> Prices {
        let of_today = || self.table.prices(model, date(clock.now()));
        self.overridden.or_else(of_today).unwrap_or(UNKNOWN)
    }
}

/// Prices change with the UTC day, like the budget (BUD-1).
fn date(at: jiff::Timestamp) -> Date {
    at.to_zoned(TimeZone::UTC).date()
}

impl Table {
    /// The model's own rows, else those of all models of its provider.
    fn prices(&self, model: &str, today: Date) -> Option<Prices> {
        let provider = model.split_once(':').map(|(provider, _)| format!("{provider}:*"));
        self.row(model, today).or_else(|| self.row(&provider?, today)).map(Row::prices)
    }

    /// The newest row of that name whose day has come; before the first of them, the first.
    fn row(&self, name: &str, today: Date) -> Option<&Row> {
        let named = || self.rows.iter().filter(|row| row.model == name);
        let current = named().filter(|row| row.valid_from <= today).max_by_key(|row| row.valid_from);
        current.or_else(|| named().min_by_key(|row| row.valid_from))
    }
}

impl Row {
    const fn prices(&self) -> Prices {
        let Self { input, output, cache_read, cache_write, .. } = *self;
        Prices { input, output, cache_read, cache_write }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::domain::TestClock;

    fn usage(input: u64, cache_read: u64, output: u64) -> Usage {
        Usage { input: Some(input), output: Some(output), cache_read: Some(cache_read), cache_write: None }
    }

    fn cost(model: &str, usage: &Usage) -> String {
        Prices::of(model, None).cost(usage).get().normalize().to_string()
    }

    /// USE-2, USE-3, USE-5: the worked examples of the document and one of each row.
    #[test]
    fn costs_follow_the_table() {
        let cases = [
            ("anthropic:claude-haiku-4-5", usage(2000, 1800, 100), "0.00088"),
            ("anthropic:claude-sonnet-5", usage(1_000_000, 500_000, 1_000_000), "11.1"),
            ("anthropic:claude-opus-5", usage(0, 0, 1_000_000), "25"),
            ("openai:whatever", usage(1_000_000, 0, 0), "5"),
            ("mock:demo", usage(1200, 1000, 60), "0.003"),
            ("ollama:llama3.1:8b", usage(1_000_000, 0, 1_000_000), "0"),
        ];
        for (model, usage, expected) in cases {
            assert_eq!(cost(model, &usage), expected, "{model}");
        }
    }

    /// USE-2: more cached than read does not go below nothing; unknown counts are 0.
    #[test]
    fn odd_counts_cost_what_is_known() {
        assert_eq!(cost("mock:demo", &usage(100, 1_000_000, 0)), "0.5");
        assert_eq!(cost("mock:demo", &Usage::default()), "0");
        assert_eq!(cost("mock:demo", &Usage { output: Some(1_000_000), ..Usage::default() }), "25");
    }

    /// USE-6: a row is replaced or added, by the whole model string; others keep theirs.
    #[test]
    fn overrides_go_before_the_table() {
        let overrides = json!({
            "anthropic:claude-haiku-4-5": { "input": 3, "output": 0, "cacheRead": 0 },
            "openai:gpt-5-mini": { "input": 0.25, "output": 2, "cacheRead": 2.5e-2 },
            "ollama:local": { "input": 1e-7, "output": 0, "cacheRead": 0 },
        });
        let million = usage(1_000_000, 0, 0);
        let price = |model: &str, usage: &Usage| Prices::of(model, Some(&overrides)).cost(usage).get();
        assert_eq!(price("anthropic:claude-haiku-4-5", &million), Decimal::from(3));
        assert_eq!(price("openai:gpt-5-mini", &usage(1_000_000, 1_000_000, 0)), Decimal::new(25, 3));
        assert_eq!(price("ollama:local", &usage(10_000_000_000, 0, 0)), Decimal::new(1, 3));
        assert_eq!(price("anthropic:claude-opus-5", &million), Decimal::from(5));
    }

    /// A count or price beyond all reason must neither panic nor be refused by the database.
    #[test]
    fn an_absurd_cost_stops_at_what_can_be_stored() {
        let overrides = json!({ "mock:demo": { "input": 1e20, "output": 1e20, "cacheRead": 0 } });
        let absurd = Prices::of("mock:demo", Some(&overrides)).cost(&usage(u64::MAX, 0, u64::MAX));
        assert_eq!(absurd.get().to_string(), "999999.999999");
        assert_eq!(cost("mock:demo", &usage(u64::MAX, 0, u64::MAX)), "999999.999999");
    }

    /// Prices are data: the file reads, every model string in it is one, and no price of a model is above the one for
    /// models nobody knows.
    #[test]
    fn the_table_can_be_read() {
        assert!(TABLE.rows.len() >= 4);
        for row in &TABLE.rows {
            let (provider, model) = row.model.split_once(':').unwrap();
            assert!(
                provider.parse::<crate::domain::Provider>().is_ok() && !model.is_empty(),
                "{}",
                row.model
            );
            assert!(row.input <= UNKNOWN.input && row.output <= UNKNOWN.output, "{}", row.model);
        }
    }

    /// A price that changes on a day is right before and after it.
    #[test]
    fn the_newest_row_that_is_valid_counts() {
        let row = |model: &str, day: &str, input: &str| {
            json!({ "model": model, "validFrom": day, "input": input, "output": "1", "cacheRead": "0",
                "cacheWrite": "0" })
        };
        let rows = [
            row("openai:a", "2026-03-01", "2"),
            row("openai:a", "2026-01-01", "1"),
            row("openai:a", "2027-01-01", "3"),
            row("openai:*", "2026-01-01", "9"),
        ];
        let table: Table = serde_json::from_value(json!({ "rows": rows })).unwrap();
        let input = |model: &str, day: &str| {
            table.prices(model, day.parse().unwrap()).map(|prices| prices.input.to_string())
        };
        for (day, expected) in [
            ("2025-01-01", "1"),
            ("2026-02-28", "1"),
            ("2026-03-01", "2"),
            ("2026-12-31", "2"),
            ("2030-01-01", "3"),
        ] {
            assert_eq!(input("openai:a", day).as_deref(), Some(expected), "{day}");
        }
        assert_eq!(input("openai:b", "2026-02-01").as_deref(), Some("9"), "a provider's own row");
        assert_eq!(input("google:a", "2026-02-01"), None);
    }

    /// USE-3, USE-6: a process that runs over a change of prices charges the new ones from that day on; an override has
    /// no days.
    #[test]
    fn a_price_changes_while_the_process_runs() {
        let row = |day: &str, input: &str| {
            json!({ "model": "openai:a", "validFrom": day, "input": input, "output": "1", "cacheRead": "0",
                "cacheWrite": "0" })
        };
        let rows = json!({ "rows": [row("2026-01-01", "1"), row("2026-12-01", "2")] });
        let table: &'static Table = Box::leak(Box::new(serde_json::from_value(rows).unwrap()));
        let overrides = json!({ "openai:a": { "input": 7, "output": 0, "cacheRead": 0 } });
        let hand = Arc::new(TestClock::at("2026-11-30T23:59:59Z".parse().unwrap()));
        let clock: Arc<dyn Clock> = Arc::<TestClock>::clone(&hand);
        let listed = Tariff { overridden: None, table };
        let own = Tariff { table, ..Tariff::of("openai:a", Some(&overrides)) };
        let now = || [listed, own].map(|tariff| tariff.prices("openai:a", &clock).input.to_string());
        assert_eq!(now(), ["1", "7"]);
        hand.advance(std::time::Duration::from_secs(1));
        assert_eq!(now(), ["2", "7"]);
        assert_eq!(listed.prices("google:a", &clock), UNKNOWN);
    }

    /// USE-2: tokens written to a cache are input with a price of their own, once.
    #[test]
    fn writing_to_a_cache_has_its_price() {
        let written = Usage { cache_write: Some(1_000_000), ..usage(1_500_000, 200_000, 0) };
        assert_eq!(
            cost("anthropic:claude-haiku-4-5", &written),
            "1.57",
            "0.3 fresh, 0.02 read, 1.25 written"
        );
        let row = |model: &str, row: Value| {
            let overrides = json!({ model: row });
            Prices::of(model, Some(&overrides)).cost(&written).get().normalize().to_string()
        };
        let bare = json!({ "input": 4, "output": 0, "cacheRead": 0 });
        assert_eq!(row("anthropic:next", bare.clone()), "6.2", "1.25 times the input price");
        assert_eq!(row("openai:next", bare), "5.2", "the input price");
        assert_eq!(
            row("openai:next", json!({ "input": 4, "output": 0, "cacheRead": 0, "cacheWrite": 0.5 })),
            "1.7"
        );
    }
}
