//! What a turn has used so far, known also when its future is dropped (USE-1, DEC-19).

use std::sync::{Arc, Mutex, PoisonError};

use super::port::Usage;
use super::pricing::LARGEST_COST;
use crate::domain::Usd;

/// The bill of one turn. Clones share it: the caller keeps one and reads it when the turn is aborted.
#[derive(Clone, Debug, Default)]
pub struct Spent(Arc<Mutex<Bill>>);

/// Everything that was asked and answered so far.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Bill {
    /// Tokens of all answered calls; unknown when no provider reported any.
    pub usage: Usage,
    /// Their cost, each call at the prices of its own model.
    pub cost: Usd,
    /// The model string of the model that was asked last; empty before the first call.
    pub model: String,
    /// Whether tools were offered in a call.
    pub tools_offered: bool,
}

impl Spent {
    /// The bill as it stands.
    #[must_use]
    pub fn bill(&self) -> Bill {
        self.with(|bill| bill.clone())
    }

    /// A call begins.
    pub(super) fn ask(&self, model: &str, tools_offered: bool) {
        self.with(|bill| {
            model.clone_into(&mut bill.model);
            bill.tools_offered |= tools_offered;
        });
    }

    /// The model did not take the tools it was offered.
    pub(super) fn offered_nothing(&self) {
        self.with(|bill| bill.tools_offered = false);
    }

    /// A call was answered.
    pub(super) fn add(&self, usage: Usage, cost: Usd) {
        self.with(|bill| {
            bill.usage += usage;
            let total = bill.cost.get().checked_add(cost.get()).unwrap_or(LARGEST_COST);
            bill.cost = Usd::new(total.min(LARGEST_COST));
        });
    }

    fn with<T>(&self, use_it: impl FnOnce(&mut Bill) -> T) -> T {
        use_it(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use rust_decimal::Decimal;

    use super::*;

    /// USE-1, WRITE-4: tokens and cost add up, to no more than the column holds.
    #[test]
    fn a_bill_adds_up() {
        let spent = Spent::default();
        let shared = spent.clone();
        spent.ask("mock:demo", true);
        spent.ask("mock:other", false);
        let usage = Usage { input: Some(2), output: None, cache_read: Some(1), cache_write: None };
        spent.add(usage, Usd::new(Decimal::new(15, 4)));
        spent.add(Usage { output: Some(3), ..usage }, Usd::new(Decimal::new(5, 4)));
        let bill = shared.bill();
        assert_eq!(
            bill.usage,
            Usage { input: Some(4), output: Some(3), cache_read: Some(2), cache_write: None }
        );
        assert_eq!((bill.cost.get(), bill.model.as_str()), (Decimal::new(2, 3), "mock:other"));
        assert!(bill.tools_offered);
        spent.add(usage, Usd::new(LARGEST_COST));
        assert_eq!(shared.bill().cost.get(), LARGEST_COST);
    }
}
