//! What a turn has used so far, noted as it is reported: whatever ends the turn, and whoever answered it, these tokens
//! are recorded and charged (USE-1, FAIL-13, DEC-19).

use std::sync::{Arc, Mutex, PoisonError};

use super::port::Usage;
use super::pricing::Prices;
use crate::domain::Usd;

/// Counts the tokens of one turn. Clones count together; each has the prices of whoever is asked at the moment.
#[derive(Clone, Debug, Default)]
pub struct Meter {
    spent: Arc<Mutex<Spent>>,
    prices: Prices,
}

/// Tokens and what they cost.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Spent {
    /// Sums of what was reported; unknown when nothing was.
    pub usage: Usage,
    /// Their cost, each call at the prices of its model.
    pub cost: Usd,
}

impl Meter {
    /// The same count, for calls with other prices.
    #[must_use]
    pub(super) fn at(&self, prices: Prices) -> Self {
        Self { spent: Arc::clone(&self.spent), prices }
    }

    /// Adds what one attempt has used.
    pub fn add(&self, usage: &Usage) {
        let mut spent = self.spent.lock().unwrap_or_else(PoisonError::into_inner);
        spent.usage += *usage;
        spent.cost = spent.cost + self.prices.cost(usage);
    }

    /// What was reported until now.
    #[must_use]
    pub fn spent(&self) -> Spent {
        *self.spent.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// USE-1, DEC-19, FAIL-13: everybody's tokens count together, each at the prices of their model.
    #[test]
    fn calls_of_two_models_are_charged_at_their_prices() {
        let meter = Meter::default();
        assert_eq!(meter.spent(), Spent::default());
        let usage = Usage { input: Some(1_000_000), output: None, ..Usage::default() };
        meter.at(Prices::of("anthropic:claude-haiku-4-5", None)).add(&usage);
        meter.at(Prices::of("anthropic:claude-sonnet-5", None)).add(&usage);
        let spent = meter.spent();
        assert_eq!((spent.usage.input, spent.usage.output), (Some(2_000_000), None));
        assert_eq!(spent.cost.get().normalize().to_string(), "3");
    }
}
