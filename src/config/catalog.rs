//! `catalog.json`: the facts the agent may state (05 section 4).

use crate::domain::MinorUnits;

/// The only source of factual claims.
#[derive(Clone, Debug, PartialEq)]
pub struct Catalog {
    /// Name of the business, at least one character.
    pub business_name: String,
    /// Currency code, exactly three characters.
    pub currency: String,
    /// What can be bought, in file order; never empty.
    pub offerings: Vec<Offering>,
    /// Frequently asked questions.
    pub faq: Vec<Faq>,
    /// Published payment arrangements; ids are unique.
    pub payment_options: Vec<PaymentOption>,
}

/// One sellable entry of the catalog.
#[derive(Clone, Debug, PartialEq)]
pub struct Offering {
    /// Id used in tools and records.
    pub id: String,
    /// Name shown to contacts.
    pub name: String,
    /// May be empty.
    pub description: String,
    /// What it costs.
    pub price: Price,
    /// Length in hours, above zero.
    pub duration_hours: Option<f64>,
    /// When it takes place.
    pub schedule: Option<String>,
    /// Where to read on or join.
    pub url: Option<String>,
}

/// An amount in minor units of a currency.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Price {
    /// Minor units, for example cents.
    pub amount: MinorUnits,
    /// Currency code, exactly three characters.
    pub currency: String,
}

/// One question and its answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Faq {
    /// May be empty.
    pub question: String,
    /// May be empty.
    pub answer: String,
}

/// A payment arrangement the agent may present (CAT-5).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PaymentOption {
    /// Unique id.
    pub id: String,
    /// What it is, in the tenant's language.
    pub description: String,
}
