//! Money: a price in minor units of its currency, and model spend in US dollars.

use rust_decimal::Decimal;

/// A price in minor units (cents), never negative (CAT-1).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct MinorUnits(u64);

impl MinorUnits {
    /// `amount` minor units, for example 45000 for 450.00.
    #[must_use]
    pub const fn new(amount: u64) -> Self {
        Self(amount)
    }

    /// The number of minor units.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }
}

/// Cost of model calls in US dollars, rounded to the six decimals of `numeric(12,6)` (WRITE-4).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Usd(Decimal);

impl Usd {
    /// No cost.
    pub const ZERO: Self = Self(Decimal::ZERO);

    /// Rounds to six decimals.
    #[must_use]
    pub fn new(amount: Decimal) -> Self {
        Self(amount.round_dp(6))
    }

    /// The amount for a database parameter or a comparison.
    #[must_use]
    pub const fn get(self) -> Decimal {
        self.0
    }
}
