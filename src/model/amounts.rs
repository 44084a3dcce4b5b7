//! Which prices in a reply the catalog does not hold (01 section 10). A heuristic: it looks at numbers with a currency
//! beside them.

use std::collections::HashSet;
use std::sync::LazyLock;

use regex::Regex;

use super::grounding::{digits, forms_of_price};
use crate::config::Catalog;

/// The amounts in `text` that the catalog does not hold, as they are written but without their currency, each once
/// (PRICE-1 to PRICE-5). Amounts inside descriptions, answers and payment options are grounded.
#[must_use]
pub fn ungrounded_amounts(text: &str, catalog: &Catalog) -> Vec<String> {
    let grounded = grounded(catalog);
    let mut found: Vec<String> = Vec::new();
    for amount in candidates(text).filter(|amount| !grounded.contains(&digits(amount))) {
        if !found.iter().any(|known| known == amount) {
            found.push(amount.to_owned());
        }
    }
    found
}

/// PRICE-4: the amounts of the entries in major and in minor units, and every amount in the catalog's texts.
fn grounded(catalog: &Catalog) -> HashSet<String> {
    let entries = catalog.offerings.iter().flat_map(|offering| {
        // Grouping and decimal marks do not count, so one form of the major amount stands for those of all countries.
        forms_of_price(&offering.price)
    });
    let described = catalog.offerings.iter().map(|offering| offering.description.as_str());
    let answers = catalog.faq.iter().map(|faq| faq.answer.as_str());
    let options = catalog.payment_options.iter().map(|option| option.description.as_str());
    let texts = described.chain(answers).chain(options).flat_map(candidates).map(digits);
    entries.chain(texts).collect()
}

/// PRICE-2: numbers of three characters and more with a currency before or behind them. The pattern is a constant that
/// a test compiles; should it ever not compile, nothing is a price.
fn candidates(text: &str) -> impl Iterator<Item = &str> {
    static PRICE: LazyLock<Option<Regex>> = LazyLock::new(|| {
        Regex::new(r"(?i)\$ ?([0-9][0-9.,]{2,})|([0-9][0-9.,]{2,}) ?(?:pesos|ars|usd)").ok()
    });
    let found = PRICE.as_ref().into_iter().flat_map(|pattern| pattern.captures_iter(text));
    found
        .filter_map(|found| found.get(1).or_else(|| found.get(2)))
        .map(|amount| amount.as_str().trim_end_matches(['.', ',']))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Price;
    use crate::domain::MinorUnits;
    use crate::model::test_support::tenant;

    fn invented(minor: u64, text: &str) -> Vec<String> {
        let mut catalog = tenant().catalog;
        catalog.offerings[0].price.amount = MinorUnits::new(minor);
        ungrounded_amounts(text, &catalog)
    }

    /// PRICE-1, PRICE-3, PRICE-5 and the forms of PRICE-4: what the catalog lacks is listed; grouping does not count.
    #[test]
    fn the_forms_of_a_price_are_one() {
        let forms = "$45.000, 45000 pesos, $45,000.00, 45.000 ARS, $ 45000; 4500000 usd.";
        assert_eq!(invented(4_500_000, forms), Vec::<String>::new());
        assert_eq!(invented(4_500_000, "$30.000."), ["30.000"]);
        assert_eq!(invented(1950, "$19.50 or $19.5"), Vec::<String>::new());
        assert_eq!(invented(45_000, "It is $450."), Vec::<String>::new());
    }

    /// PRICE-4, 01 section 17: the major amount has the decimals of its currency.
    #[test]
    fn major_units_are_the_currencys_own() {
        let mut catalog = tenant().catalog;
        catalog.offerings[0].price = Price { amount: MinorUnits::new(4_500_000), currency: "CLP".to_owned() };
        let said = "$4.500.000 or 4,500,000 pesos, not $45.000.";
        assert_eq!(ungrounded_amounts(said, &catalog), ["45.000"]);
        catalog.offerings[0].price = Price { amount: MinorUnits::new(12_500), currency: "KWD".to_owned() };
        assert_eq!(ungrounded_amounts("$12.5, $12.500, $13.00", &catalog), ["13.00"]);
    }

    /// PRICE-2: without a currency a number is no price; short ones are none either.
    #[test]
    fn numbers_without_a_currency_are_ignored() {
        assert_eq!(invented(45_000, "Room 999, 24 hours, $12 or 12 usd, 999 people"), Vec::<String>::new());
        assert_eq!(invented(45_000, "999USD and 999 Pesos, $999 again"), ["999"]);
    }

    /// PRICE-4: what the catalog's texts say is grounded.
    #[test]
    fn amounts_in_the_catalogs_texts_are_grounded() {
        let mut catalog = tenant().catalog;
        catalog.payment_options[0].description = "$155 now, 155 USD later.".to_owned();
        catalog.faq[0].answer = "A bag is $1,200.".to_owned();
        let said = "$155, then 1200 usd, or 156 usd.";
        assert_eq!(ungrounded_amounts(said, &catalog), ["156"]);
    }
}
