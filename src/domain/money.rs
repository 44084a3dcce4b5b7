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

/// Decimals of a currency by ISO 4217: how many digits of an amount in minor units stand behind the point. A code that
/// is not listed here has two, as most do (01 section 17).
#[must_use]
pub fn decimals_of(currency: &str) -> u8 {
    match currency.to_ascii_uppercase().as_str() {
        "BIF" | "CLP" | "DJF" | "GNF" | "ISK" | "JPY" | "KMF" | "KRW" | "PYG" | "RWF" | "UGX" | "UYI"
        | "VND" | "VUV" | "XAF" | "XOF" | "XPF" => 0,
        "BHD" | "IQD" | "JOD" | "KWD" | "LYD" | "OMR" | "TND" => 3,
        "CLF" | "UYW" => 4,
        _ => 2,
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

#[cfg(test)]
mod tests {
    use super::*;

    /// 01 section 17: not every currency has hundredths.
    #[test]
    fn decimals_are_the_currencys_own() {
        for (currency, decimals) in [
            ("ARS", 2),
            ("USD", 2),
            ("EUR", 2),
            ("JPY", 0),
            ("CLP", 0),
            ("KWD", 3),
            ("CLF", 4),
            ("jpy", 0),
            ("", 2),
        ] {
            assert_eq!(decimals_of(currency), decimals, "{currency}");
        }
    }
}
