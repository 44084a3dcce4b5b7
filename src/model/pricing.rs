//! What a turn costs: prices as data, arithmetic in decimals (01 section 12).

use rust_decimal::Decimal;
use serde_json::Value;

use super::port::Usage;
use crate::domain::Usd;

/// Prices of one model in US dollars for a million tokens.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Prices {
    input: Decimal,
    output: Decimal,
    cache_read: Decimal,
}

/// Model string; US cents for a million tokens read, written, and read from the cache (USE-3).
const TABLE: [(&str, [u32; 3]); 3] = [
    ("anthropic:claude-haiku-4-5", [100, 500, 10]),
    ("anthropic:claude-sonnet-5", [200, 1000, 20]),
    ("anthropic:claude-opus-5", [500, 2500, 50]),
];

/// For a model nobody priced: dear on purpose, so that a cap errs toward stopping early (USE-4).
const FALLBACK: [u32; 3] = [500, 2500, 50];

/// For a local model: free, so that the dollar cap never fires on it; the token cap still counts (USE-4).
const LOCAL: [u32; 3] = [0, 0, 0];

/// Stands in for a cost no decimal can hold; the largest that `numeric(12,6)` can store.
pub(super) const LARGEST_COST: Decimal = Decimal::from_parts(0xd4a5_0fff, 0xe8, 0, false, 6);

impl Prices {
    /// Prices of `model`, a whole model string. `overrides` is `PRICING_OVERRIDES` as the configuration checked it:
    /// its row for the model goes before the table (USE-6).
    #[must_use]
    pub fn of(model: &str, overrides: Option<&Value>) -> Self {
        overrides
            .and_then(|rows| Self::from_override(rows.get(model)?))
            .unwrap_or_else(|| Self::from_table(model))
    }

    /// Cost of the tokens; unknown counts are 0 (USE-2).
    #[must_use]
    pub fn cost(&self, usage: &Usage) -> Usd {
        let cached = usage.cache_read.unwrap_or(0);
        let fresh = usage.input.unwrap_or(0).saturating_sub(cached);
        let counts =
            [(fresh, self.input), (cached, self.cache_read), (usage.output.unwrap_or(0), self.output)];
        let total = counts.into_iter().try_fold(Decimal::ZERO, |total, (tokens, price)| {
            total.checked_add(Decimal::from(tokens).checked_mul(price)?)
        });
        let cost = total.and_then(|total| total.checked_div(Decimal::from(1_000_000)));
        Usd::new(cost.unwrap_or(LARGEST_COST).min(LARGEST_COST))
    }

    fn from_table(model: &str) -> Self {
        let row = TABLE.iter().find(|(name, _)| *name == model).map(|(_, cents)| *cents);
        let other = if model.starts_with("ollama:") { LOCAL } else { FALLBACK };
        let [input, output, cache_read] = row.unwrap_or(other).map(|cents| Decimal::new(i64::from(cents), 2));
        Self { input, output, cache_read }
    }

    fn from_override(row: &Value) -> Option<Self> {
        let price = |key: &str| {
            let number = row.get(key)?.as_number()?.to_string();
            number.parse().or_else(|_| Decimal::from_scientific(&number)).ok()
        };
        Some(Self { input: price("input")?, output: price("output")?, cache_read: price("cacheRead")? })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn usage(input: u64, cache_read: u64, output: u64) -> Usage {
        Usage { input: Some(input), output: Some(output), cache_read: Some(cache_read) }
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
}
