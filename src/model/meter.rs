//! Where a call puts the tokens of attempts that failed, so that they are charged whoever answers in the end (FAIL-13,
//! DEC-19).

use super::port::Usage;
use super::pricing::Prices;
use super::spent::Spent;

/// A turn's bill, with the prices of the model that is asked.
#[derive(Clone, Debug, Default)]
pub struct Meter {
    spent: Spent,
    prices: Prices,
}

impl Meter {
    /// Puts tokens on that bill, at the prices of a model nobody priced until [`Meter::at`] says which.
    #[must_use]
    pub fn of(spent: &Spent) -> Self {
        Self { spent: spent.clone(), prices: Prices::default() }
    }

    /// The same bill at other prices.
    #[must_use]
    pub fn at(&self, prices: Prices) -> Self {
        Self { spent: self.spent.clone(), prices }
    }

    /// Adds what an attempt has used.
    pub fn add(&self, usage: &Usage) {
        self.spent.add(*usage, self.prices.cost(usage));
    }

    /// The model that is asked took no tools, so it answers as if none had been offered.
    pub fn tools_refused(&self) {
        self.spent.offered_nothing();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// USE-1, DEC-19, FAIL-13: everybody's tokens stand on one bill, each at the prices of their model.
    #[test]
    fn attempts_at_two_models_are_charged_at_their_prices() {
        let spent = Spent::default();
        let meter = Meter::of(&spent);
        let usage = Usage { input: Some(1_000_000), ..Usage::default() };
        meter.at(Prices::of("anthropic:claude-haiku-4-5", None)).add(&usage);
        meter.at(Prices::of("anthropic:claude-sonnet-5", None)).add(&usage);
        let bill = spent.bill();
        assert_eq!((bill.usage.input, bill.usage.output), (Some(2_000_000), None));
        assert_eq!(bill.cost.get().normalize().to_string(), "3");
    }
}
