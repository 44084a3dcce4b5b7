//! Whether the prices in a delivered reply were published or asked about (01 section 17, FN-PRICE-2). Beside the exact rule
//! of the eval suite, in `amounts`: it knows more currencies and forgives more, because what it counts is told of at night.
//! A suite asks both, and grounds this one by the catalog alone (07/A-5).

use std::collections::HashSet;
use std::sync::LazyLock;

use regex::Regex;

use crate::config::{Catalog, Price, Tenant};
use crate::domain::decimals_of;

/// A number as people write it: grouped by points, commas, apostrophes or narrow spaces, with or without decimals.
const NUMBER: &str = r"[0-9]{1,3}(?:[.,'’ \u{a0}\u{202f}][0-9]{3})+(?:[.,][0-9]{1,2})?|[0-9]+(?:[.,][0-9]+)?";

/// What makes thousands of a number: `45k`, `45 mil`.
const THOUSANDS: &str = r"(?:\s?(?:k|mil)\b)?";

/// Signs, the longest first: `U$S 99` is no `$S`.
const SIGN: &str = r"(?:u\$s|us\$|\p{Sc})";

/// Codes that are a currency in every tenant's replies, in capitals only. Those that are words or trades too are left out
/// (`PHP 8`, `CAD 2030`, `TRY 3`): as the tenant's own they count.
const CODES: &str = "USD|EUR|GBP|ARS|MXN|CLP|COP|BRL|PEN|UYU|PYG|BOB|VES|DOP|CRC|GTQ|HNL|NIO|CHF|SEK|NOK|DKK|PLN|CZK|HUF\
                     |AUD|NZD|JPY|CNY|KRW|INR|IDR|THB|SGD|HKD|ZAR|NGN|KES|AED|KWD|ILS|RUB|UAH";

/// Names that stand behind a number in every tenant's replies.
const NAMES: &str = "usd|eur|pesos?|d[oó]l(?:lars?|ar(?:es)?)|euros?|reais|bucks";

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
        let mut figures = Self::of_catalog(&tenant.catalog);
        let copy = tenant.rules.copy().chain([tenant.prompt.as_str()]);
        figures.published.extend(copy.flat_map(numbers));
        figures
    }

    /// Of the catalog alone: what a suite holds a reply against (07/A-5).
    #[must_use]
    pub fn of_catalog(catalog: &Catalog) -> Self {
        let prices = catalog.offerings.iter().flat_map(|offering| forms_of_price(&offering.price));
        let said = texts(catalog).into_iter().flat_map(numbers);
        Self { published: prices.chain(said).collect(), price: price_pattern(catalog) }
    }

    /// The prices in a text that are not published, in order, each once, as they are written but without their currency.
    #[must_use]
    pub fn unpublished(&self, text: &str) -> Vec<String> {
        let mut found: Vec<String> = Vec::new();
        for Amount { written, .. } in self.unknown(text) {
            if !found.contains(&written) {
                found.push(written);
            }
        }
        found
    }

    /// How many prices in a text are neither published nor numbers that the contact has `said`. The
    /// rule for delivered replies (01 section 17, FN-PRICE-2): any currency counts, and in doubt a price is grounded.
    #[must_use]
    pub fn unheard_of<'text>(&self, text: &str, said: impl IntoIterator<Item = &'text str>) -> usize {
        let unknown = self.unknown(text);
        if unknown.is_empty() {
            return 0;
        }
        let said: HashSet<String> = said.into_iter().flat_map(numbers).collect();
        unknown.iter().filter(|amount| !amount.forms.iter().any(|form| said.contains(form))).count()
    }

    fn unknown(&self, text: &str) -> Vec<Amount> {
        let Some(price) = &self.price else { return Vec::new() };
        let amounts = prices(price, text).into_iter().map(Amount::of);
        amounts.filter(|amount| !amount.forms.iter().any(|form| self.published.contains(form))).collect()
    }
}

/// One price of a reply.
struct Amount {
    /// Without its currency.
    written: String,
    /// What it may be, as digits alone.
    forms: Vec<String>,
}

impl Amount {
    /// Of a number with its currency.
    fn of(price: &str) -> Self {
        let number = number_pattern().and_then(|pattern| pattern.find(price));
        let (number, behind) =
            number.map_or(("", ""), |found| (found.as_str(), price.get(found.end()..).unwrap_or_default()));
        match thousands_in(behind) {
            Some(mark) => Self {
                written: format!("{number}{mark}"),
                forms: vec![digits(number) + zeros_of_thousands(number)],
            },
            None => Self { written: number.to_owned(), forms: numbers(number).collect() },
        }
    }
}

/// The `k` or `mil` that follows a number and is a word of its own.
fn thousands_in(behind: &str) -> Option<&str> {
    let word = behind.trim_start().split(|letter: char| !letter.is_alphanumeric()).next().unwrap_or_default();
    (word.eq_ignore_ascii_case("k") || word.eq_ignore_ascii_case("mil"))
        .then(|| behind.get(..behind.len() - behind.trim_start().len() + word.len()).unwrap_or_default())
}

/// The noughts that a thousand adds to the digits of this number: `1.5k` is 1500.
const fn zeros_of_thousands(number: &str) -> &'static str {
    match number.as_bytes() {
        [.., b'.' | b',', _] => "00",
        [.., b'.' | b',', _, _] => "0",
        _ => "000",
    }
}

/// The numbers with a currency. Between two numbers a currency belongs to the one that it touches: `Bench 3 $450`.
fn prices<'text>(price: &Regex, text: &'text str) -> Vec<&'text str> {
    let (mut found, mut from) = (Vec::new(), 0);
    while let Some(next) = price.find_at(text, from) {
        let begins = |text: &str| text.starts_with(|letter: char| letter.is_ascii_digit());
        let cue = next.as_str().rfind(char::is_whitespace).filter(|_| begins(next.as_str()));
        let rest = text.get(next.end()..).unwrap_or_default();
        match cue.filter(|_| begins(rest)) {
            Some(cue) => from = next.start() + cue,
            None => {
                found.push(next.as_str());
                from = next.end();
            }
        }
    }
    found
}

/// PRICE-3
pub(super) fn digits(text: &str) -> String {
    text.chars().filter(char::is_ascii_digit).collect()
}

/// PRICE-4: the amount in major units, the same whatever the grouping, and in minor units.
pub(super) fn forms_of_price(price: &Price) -> [String; 2] {
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

/// A test compiles it; should it ever not compile, nothing is a number.
fn number_pattern() -> Option<&'static Regex> {
    static PATTERN: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(NUMBER).ok());
    PATTERN.as_ref()
}

/// The numbers of a text, as digits alone; one with empty decimals also without them.
fn numbers(text: &str) -> impl Iterator<Item = String> {
    let found = number_pattern().into_iter().flat_map(move |pattern| pattern.find_iter(text));
    let found = found.map(|found| found.as_str());
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
    let names: Vec<&str> = codes.iter().filter_map(|code| names_of(code)).chain([NAMES]).collect();
    let (codes, names) = (codes.join("|"), names.join("|"));
    let number = format!("(?:{NUMBER}){THOUSANDS}");
    let pattern = format!(
        r"(?i)(?:{SIGN}|\b(?:{codes}|(?-i:{CODES})))\s?{number}|{number}\s?(?:{SIGN}|(?:{codes}|(?-i:{CODES})|{names})\b)"
    );
    Regex::new(&pattern).ok()
}

/// What people call the tenant's own currency. For another tenant these can be words of their own: `3 sol`, `5 pounds`.
fn names_of(code: &str) -> Option<&'static str> {
    Some(match code.to_ascii_uppercase().as_str() {
        "PEN" => "sol(?:es)?",
        "GBP" => "pounds?|quid|libras?",
        "JPY" => "yen(?:es)?",
        "PYG" => "guaran[ií](?:es)?|gs",
        "BRL" => "real",
        "CHF" => "francs?|franken|francos?",
        "INR" => "rupees?|rupias?",
        "KRW" => "won",
        "CNY" => "yuan(?:es)?",
        "BOB" => "bolivianos?|bs",
        "CRC" => "colones",
        "GTQ" => "quetzal(?:es)?",
        "HNL" => "lempiras?",
        _ => return None,
    })
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

    /// 07/A-5: the amounts by name, of the catalog alone; thousands, codes of others, a sign between two numbers.
    #[test]
    fn unpublished_prices_are_named() {
        let mut tenant = tenant();
        tenant.prompt = "A lost key costs $35.".to_owned();
        let catalog = &mut tenant.catalog;
        catalog.offerings[0].price = Price { amount: MinorUnits::new(45_000), currency: "USD".to_owned() };
        catalog.payment_options = vec![PaymentOption {
            id: "parts".to_owned(),
            description: "Once 1.500 USD, twice $45.000".to_owned(),
        }];
        let figures = Figures::of_catalog(&tenant.catalog);
        for (text, expected) in [
            ("ARS 999, $35 and 999 USD", &["999", "35"][..]),
            ("U$S 999", &["999"]),
            ("999 U$S", &["999"]),
            ("USD999", &["999"]),
            ("MXN 998", &["998"]),
            ("998 dólares, 997 dollars, 996 bucks", &["998", "997", "996"]),
            ("999k USD, $1k, $ 46 mil", &["999k", "1k", "46 mil"]),
            ("$1.5k, $45k or 45 mil pesos", &[]),
            ("Bench 3 $450", &[]),
            ("Bench 3 $451", &["451"]),
            ("450 USD\n24 hours", &[]),
            ("999 € 24 h", &["999"]),
            ("PHP 8, CAD 2030, ars 77 and 5 pounds", &[]),
        ] {
            assert_eq!(figures.unpublished(text), expected, "{text}");
        }
        assert_eq!(Figures::of(&tenant).unpublished("$35"), Vec::<String>::new());
    }

    /// What people call a currency counts where it is the tenant's.
    #[test]
    fn the_tenants_currency_has_names() {
        for (code, text) in
            [("GBP", "99 pounds"), ("PEN", "99 soles"), ("PYG", "99.000 guaraníes"), ("JPY", "99 yen")]
        {
            assert_eq!(figures(5_000, code, "").unheard_of(text, []), 1, "{text}");
            assert_eq!(figures(5_000, "EUR", "").unheard_of(text, []), 0, "{text}");
        }
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
