//! The catalog block that ends the system part (PROMPT-9).

use super::CATALOG;
use crate::config::{Catalog, Faq, Offering, PaymentOption, Price};
use crate::domain::decimals_of;

/// The line that heads the payment options, and nothing else does: the operating rules only mention its words
/// inside a sentence (PROMPT-9).
pub const PAYMENT_OPTIONS: &str = "PAYMENT OPTIONS";

/// The whole block: heading, offerings, questions, payment options.
#[must_use]
pub fn block(catalog: &Catalog) -> String {
    let mut lines = vec![format!("{CATALOG}{})", catalog.business_name)];
    for offering in &catalog.offerings {
        push_offering(&mut lines, offering);
    }
    push_faq(&mut lines, &catalog.faq);
    push_payment_options(&mut lines, &catalog.payment_options);
    lines.join("\n")
}

/// A label with nothing after it would invite the model to fill it in, so blank values are left out.
fn push_offering(lines: &mut Vec<String>, offering: &Offering) {
    lines.push(format!("- id: {}", offering.id));
    lines.push(format!("  name: {}", offering.name));
    lines.push(format!("  price: {}", print_price(&offering.price)));
    let duration = offering.duration_hours.map(|hours| hours.to_string());
    let optional = [
        ("description", Some(offering.description.as_str())),
        ("duration_hours", duration.as_deref()),
        ("schedule", offering.schedule.as_deref()),
        ("url", offering.url.as_deref()),
    ];
    for (label, value) in optional {
        if let Some(value) = value.filter(|value| !value.trim().is_empty()) {
            lines.push(format!("  {label}: {value}"));
        }
    }
}

fn push_faq(lines: &mut Vec<String>, faq: &[Faq]) {
    if faq.is_empty() {
        return;
    }
    lines.extend([String::new(), "FREQUENTLY ASKED".to_owned()]);
    for entry in faq {
        lines.push(format!("- Q: {}", entry.question));
        lines.push(format!("  A: {}", entry.answer));
    }
}

fn push_payment_options(lines: &mut Vec<String>, options: &[PaymentOption]) {
    if options.is_empty() {
        return;
    }
    lines.extend([String::new(), PAYMENT_OPTIONS.to_owned()]);
    lines.extend(options.iter().map(|option| format!("- {}: {}", option.id, option.description)));
}

/// Major units with thousands separated by commas, and as many decimals as the currency has: `45,000.00 ARS`,
/// `1,500 JPY`.
fn print_price(price: &Price) -> String {
    let decimals = decimals_of(&price.currency);
    let in_major = 10_u64.pow(u32::from(decimals));
    let (major, minor) = (price.amount.get() / in_major, price.amount.get() % in_major);
    let fraction = if decimals == 0 {
        String::new()
    } else {
        format!(".{minor:0width$}", width = usize::from(decimals))
    };
    format!("{}{fraction} {}", grouped(major), price.currency)
}

fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut grouped = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::MinorUnits;

    /// PROMPT-9
    #[test]
    fn prices_are_grouped_and_have_two_decimals() {
        let cases = [
            (0, "0.00"),
            (5, "0.05"),
            (31_000, "310.00"),
            (99_999, "999.99"),
            (100_000, "1,000.00"),
            (4_500_000, "45,000.00"),
            (12_345_678_901, "123,456,789.01"),
            (u64::MAX, "184,467,440,737,095,516.15"),
        ];
        for (amount, expected) in cases {
            let price = Price { amount: MinorUnits::new(amount), currency: "ARS".to_owned() };
            assert_eq!(print_price(&price), format!("{expected} ARS"));
        }
    }

    /// 01 section 17: a currency without hundredths is not divided by a hundred.
    #[test]
    fn prices_have_the_decimals_of_their_currency() {
        let cases = [
            (1_500, "JPY", "1,500 JPY"),
            (0, "CLP", "0 CLP"),
            (1_234_567, "KWD", "1,234.567 KWD"),
            (5, "KWD", "0.005 KWD"),
            (31_000, "USD", "310.00 USD"),
        ];
        for (amount, currency, expected) in cases {
            let price = Price { amount: MinorUnits::new(amount), currency: currency.to_owned() };
            assert_eq!(print_price(&price), expected);
        }
    }
}
