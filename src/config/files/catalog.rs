//! `catalog.json` from JSON (05 section 4).

use super::check::{Object, Report, Spot};
use super::hints::catalog_hints;
use super::parsers::{
    MAX_INTEGER, above_zero, currency, filled, list, repeated, some, text, web_address, whole,
};
use crate::config::{Catalog, Faq, Offering, PaymentOption, Price};
use crate::domain::MinorUnits;

const CATALOG: &[&str] = &["businessName", "currency", "offerings", "faq", "paymentOptions"];
const OFFERING: &[&str] = &["id", "name", "description", "price", "durationHours", "schedule", "url"];
const PRICE: &[&str] = &["amount", "currency"];
const FAQ: &[&str] = &["question", "answer"];
const PAYMENT_OPTION: &[&str] = &["id", "description"];

/// All keys of the file.
#[cfg(test)]
pub(super) const KEYS: &[&[&str]] = &[CATALOG, OFFERING, PRICE, FAQ, PAYMENT_OPTION];

/// The whole file.
pub(in crate::config) fn catalog(root: &Spot<'_>, report: &mut Report) -> Option<Catalog> {
    let object = Object::open(root, CATALOG, report)?;
    let business_name = object.required("businessName", report, filled);
    let currency = object.required("currency", report, currency);
    let offerings = object.required("offerings", report, some(offering));
    let faq = object.or_default("faq", Vec::new(), report, list(faq));
    let payment_options = object.or_default("paymentOptions", Vec::new(), report, list(payment_option));
    let catalog = Catalog {
        business_name: business_name?,
        currency: currency?,
        offerings: offerings?,
        faq: faq?,
        payment_options: payment_options?,
    };
    // CAT-3
    for id in repeated(catalog.payment_options.iter().map(|option| option.id.as_str())) {
        report.fault("paymentOptions", format!("the id `{id}` occurs more than once"));
    }
    catalog_hints(&catalog, report);
    Some(catalog)
}

fn offering(spot: &Spot<'_>, report: &mut Report) -> Option<Offering> {
    let object = Object::open(spot, OFFERING, report)?;
    let id = object.required("id", report, filled);
    let name = object.required("name", report, filled);
    let description = object.required("description", report, text);
    let price = object.required("price", report, price);
    let duration_hours = object.nullable("durationHours", report, above_zero);
    let schedule = object.nullable("schedule", report, text);
    let url = object.nullable("url", report, web_address);
    Some(Offering {
        id: id?,
        name: name?,
        description: description?,
        price: price?,
        duration_hours: duration_hours?,
        schedule: schedule?,
        url: url?,
    })
}

/// CAT-1: whole minor units.
fn price(spot: &Spot<'_>, report: &mut Report) -> Option<Price> {
    let object = Object::open(spot, PRICE, report)?;
    let amount = object.required("amount", report, whole(0..=MAX_INTEGER));
    let currency = object.required("currency", report, currency);
    Some(Price { amount: MinorUnits::new(amount?), currency: currency? })
}

fn faq(spot: &Spot<'_>, report: &mut Report) -> Option<Faq> {
    let object = Object::open(spot, FAQ, report)?;
    let question = object.required("question", report, text);
    let answer = object.required("answer", report, text);
    Some(Faq { question: question?, answer: answer? })
}

fn payment_option(spot: &Spot<'_>, report: &mut Report) -> Option<PaymentOption> {
    let object = Object::open(spot, PAYMENT_OPTION, report)?;
    let id = object.required("id", report, filled);
    let description = object.required("description", report, filled);
    Some(PaymentOption { id: id?, description: description? })
}
