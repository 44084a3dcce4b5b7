//! The catalog block that ends the system part (PROMPT-9).

use super::CATALOG;
use crate::config::{Catalog, Faq, Offering, PaymentOption};

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
    lines.push(format!("  price: {}", offering.price.amount.printed(&offering.price.currency)));
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
