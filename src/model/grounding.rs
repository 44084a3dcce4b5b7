//! Whether the prices in a delivered reply were published or asked about (01 section 17, FN-PRICE-2). Beside the exact rule
//! of the eval suite, in `amounts`: it knows more currencies and forgives more, because what it counts is told of at night.

use std::collections::HashSet;
use std::sync::LazyLock;

use regex::Regex;

use crate::config::{Catalog, Price, Tenant};
use crate::domain::decimals_of;

/// A number as people write it: grouped by points, commas, apostrophes or narrow spaces, with or without decimals.
const NUMBER: &str = r"[0-9]{1,3}(?:[.,'’ \u{a0}\u{202f}][0-9]{3})+(?:[.,][0-9]{1,2})?|[0-9]+(?:[.,][0-9]+)?";

/// The figures that a tenant publishes: in the catalog, in the texts it has sent, and in its persona, which it wrote so
/// that the agent may say what is in it. Built once for each loaded configuration.
#[derive(Clone, Debug, Default)]
pub struct Figures {
    /// Every number that is published, as digits alone.
    published: HashSet<String>,
    /// A number with a currency beside it; the tenant's own currency codes count.
    price: Option<Regex>,
}

impl Figures {
    /// Of this tenant (FN-PRICE-2).
    #[must_use]
    pub fn of(tenant: &Tenant) -> Self {
        let catalog = &tenant.catalog;
        let prices = catalog.offerings.iter().flat_map(|offering| forms_of_price(&offering.price));
        let copy = tenant.rules.copy().chain([tenant.prompt.as_str()]);
        let said = texts(catalog).into_iter().chain(copy).flat_map(numbers);
        let published = prices.chain(said).collect();
        Self { published, price: price_pattern(catalog) }
    }

    /// How many prices in a text are neither published nor numbers that the contact has `said`. The
    /// rule for delivered replies (01 section 17, FN-PRICE-2): any currency counts, and in doubt a price is grounded.
    #[must_use]
    pub fn unheard_of<'text>(&self, text: &str, said: impl IntoIterator<Item = &'text str>) -> usize {
        let Some(price) = &self.price else { return 0 };
        let unknown: Vec<Vec<String>> = price
            .find_iter(text)
            .map(|found| numbers(found.as_str()).collect::<Vec<_>>())
            .filter(|forms| !forms.iter().any(|form| self.published.contains(form)))
            .collect();
        if unknown.is_empty() {
            return 0;
        }
        let said: HashSet<String> = said.into_iter().flat_map(numbers).collect();
        unknown.iter().filter(|forms| !forms.iter().any(|form| said.contains(form))).count()
    }
}

/// PRICE-3
fn digits(text: &str) -> String {
    text.chars().filter(char::is_ascii_digit).collect()
}

/// PRICE-4: the amount in major units, the same whatever the grouping, and in minor units.
fn forms_of_price(price: &Price) -> [String; 2] {
    let amount = price.amount.get();
    let decimals = decimals_of(&price.currency);
    let in_major = 10_u64.pow(u32::from(decimals));
    let fraction = match decimals {
        0 => String::new(),
        _ => format!("{:0width$}", amount % in_major, width = usize::from(decimals)),
    };
    [format!("{}{}", amount / in_major, fraction.trim_end_matches('0')), amount.to_string()]
}

/// Every text of a catalog that may name a figure.
fn texts(catalog: &Catalog) -> Vec<&str> {
    let mut texts = Vec::new();
    for offering in &catalog.offerings {
        texts.extend([offering.name.as_str(), &offering.description]);
        texts.extend(offering.schedule.as_deref());
    }
    texts.extend(catalog.faq.iter().flat_map(|entry| [entry.question.as_str(), &entry.answer]));
    texts.extend(catalog.payment_options.iter().map(|option| option.description.as_str()));
    texts
}

/// The numbers of a text, as digits alone; one with empty decimals also without them.
fn numbers(text: &str) -> impl Iterator<Item = String> {
    static PATTERN: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(NUMBER).ok());
    let found = PATTERN.iter().flat_map(move |pattern| pattern.find_iter(text)).map(|found| found.as_str());
    found.flat_map(|number| {
        let whole = [".00", ",00", ".0", ",0"].iter().find_map(|end| number.strip_suffix(end));
        [Some(digits(number)), whole.map(digits)].into_iter().flatten()
    })
}

fn price_pattern(catalog: &Catalog) -> Option<Regex> {
    let mut codes: Vec<String> = vec![regex::escape(&catalog.currency)];
    codes.extend(catalog.offerings.iter().map(|offering| regex::escape(&offering.price.currency)));
    codes.sort();
    codes.dedup();
    let codes = codes.join("|");
    let sign = r"\p{Sc}";
    let pattern = format!(
        r"(?i)(?:{sign}|\b(?:{codes}))\s?(?:{NUMBER})|(?:{NUMBER})\s?(?:{sign}|(?:{codes}|usd|eur|pesos?|dollars?|euros?|reais)\b)"
    );
    Regex::new(&pattern).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{OpeningTrigger, PaymentOption};
    use crate::domain::MinorUnits;
    use crate::model::test_support::{tenant, tenant_with};

    /// A catalog whose one entry costs this, with this payment option.
    fn figures(amount: u64, currency: &str, option: &str) -> Figures {
        let mut tenant = tenant();
        let catalog = &mut tenant.catalog;
        catalog.currency = currency.to_owned();
        catalog.offerings[0].price = Price { amount: MinorUnits::new(amount), currency: currency.to_owned() };
        catalog.payment_options =
            vec![PaymentOption { id: "parts".to_owned(), description: option.to_owned() }];
        Figures::of(&tenant)
    }

    /// PRICE-4, 01 section 17: not every currency has hundredths.
    #[test]
    fn minor_units_are_the_currencys_own() {
        assert_eq!(figures(5_000, "JPY", "").unheard_of("It is ¥5,000 and not ¥50.", []), 1);
        assert_eq!(figures(12_500, "KWD", "").unheard_of("It is 12.5 KWD or KWD 12.500.", []), 0);
    }

    /// 01 section 17, FN-PRICE-2: currencies of every kind, before and behind the number.
    #[test]
    fn a_price_nobody_has_heard_of_is_counted() {
        let figures = figures(32_000, "EUR", "Two payments of 160 euros.");
        let count = |text: &str| figures.unheard_of(text, []);
        for text in [
            "$99",
            "99 €",
            "€ 99,50",
            "EUR 99",
            "99 eur",
            "1.299 euros",
            "£12",
            "1 299,00 €",
            "R$ 75",
            "₹900",
        ] {
            assert_eq!(count(text), 1, "{text}");
        }
        assert_eq!(count("It is €299 or $150, with 10 % off."), 2);
    }

    /// FN-PRICE-2: what the tenant has its agent say is published, wherever it stands.
    #[test]
    fn prices_in_persona_and_copy_are_published() {
        let tenant = tenant_with(|tenant| {
            tenant.prompt = "A lost key costs $35.".to_owned();
            tenant.rules.messages.closer = Some("Gift cards from 20 USD.".to_owned());
            tenant.rules.opening_trigger = Some(OpeningTrigger {
                keywords: vec!["hi".to_owned()],
                message: "Trial day: $ 15".to_owned(),
            });
        });
        let figures = Figures::of(&tenant);
        assert_eq!(figures.unheard_of("$35, $20 or 15 usd.", []), 0);
        assert_eq!(figures.unheard_of("$36", []), 1);
    }

    /// 01 section 17: what the catalog or the contact says is grounded, and so is everything in doubt.
    #[test]
    fn published_and_quoted_figures_are_not_counted() {
        let figures = figures(4_500_000, "ARS", "Deposit of $ 5.000, rest in 3 parts.");
        let published =
            "$45.000, $45,000.00, 45000 ARS, 45 000 pesos, 5000 pesos, ARS 5,000.00 and 18 lessons, 7 pm";
        assert_eq!(figures.unheard_of(published, []), 0);
        let told = "So $ 30.000 is too much for you.";
        assert_eq!(figures.unheard_of(told, ["hello"]), 1);
        assert_eq!(figures.unheard_of(told, ["hello", "i only have 30.000 for it"]), 0);
        assert_eq!(figures.unheard_of(told, ["i have 30000,00"]), 0);
        for text in
            ["", "Call 555 1234.", "Room 12, 3 places", "100 %", "it costs nothing", "use 3 eurythmics"]
        {
            assert_eq!(figures.unheard_of(text, []), 0, "{text}");
        }
    }
}
