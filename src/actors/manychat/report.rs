//! What can be seen of the calls to ManyChat (ARC-24).

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use serde::Serialize;

use crate::manychat::{Answer, Endpoint, ManyChatError};

/// Part of the answer of `GET /admin/actors`.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ManyChatReport {
    /// Tokens in the bucket, at most 5; negative while ManyChat has asked us to pause.
    pub bucket_level: f64,
    /// False while the database is silent and the process keeps to its own share of the rate.
    pub shared_rate: bool,
    /// Orders not answered yet, those under way and those that keep a gap included.
    pub open: usize,
    /// How many of them only wait for a token.
    pub waiting_for_rate: usize,
    /// Calls under way.
    pub in_flight: usize,
    /// Contacts with an open order or a gap to keep.
    pub contacts: usize,
    /// How often the actor failed and was replaced.
    pub restarts: u64,
    /// Calls since the start of the process, by endpoint and outcome: `accepted`, an HTTP status, or the kind of
    /// failure.
    pub calls: BTreeMap<&'static str, BTreeMap<String, u64>>,
}

/// Counts of calls; they outlive the actor.
#[derive(Debug, Default)]
pub(super) struct Totals(Mutex<BTreeMap<(Endpoint, String), u64>>);

impl Totals {
    pub(super) fn count(&self, endpoint: Endpoint, result: &Result<Answer, ManyChatError>) {
        let outcome = match result {
            Ok(_) => "accepted".to_owned(),
            Err(error @ ManyChatError::Api { .. }) => {
                error.status().map_or_else(|| error.name().to_owned(), |status| status.to_string())
            }
            Err(error @ ManyChatError::Connection { .. }) => {
                error.reason().unwrap_or_else(|| error.name()).to_owned()
            }
            Err(error) => error.name().to_owned(),
        };
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *counts.entry((endpoint, outcome)).or_insert(0) += 1;
    }

    pub(super) fn calls(&self) -> BTreeMap<&'static str, BTreeMap<String, u64>> {
        let mut calls: BTreeMap<_, BTreeMap<_, _>> = BTreeMap::new();
        for ((endpoint, outcome), count) in &*self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            calls.entry(endpoint.path()).or_default().insert(outcome.clone(), *count);
        }
        calls
    }
}
