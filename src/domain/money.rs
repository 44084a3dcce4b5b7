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

    /// The amount as contacts read it in this currency: `45,000.00 ARS`, `1,500 JPY` (PROMPT-9, 01 section 17).
    #[must_use]
    pub fn printed(self, currency: &str) -> String {
        self.printed_with(decimals_of(currency), currency)
    }

    /// As [`MinorUnits::printed`], with this many decimals, at most 18, whatever the currency has.
    #[must_use]
    pub fn printed_with(self, decimals: u8, currency: &str) -> String {
        let in_major = 10_u64.pow(u32::from(decimals.min(18)));
        let (major, minor) = (self.0 / in_major, self.0 % in_major);
        let fraction = match decimals {
            0 => String::new(),
            _ => format!(".{minor:0width$}", width = usize::from(decimals)),
        };
        format!("{}{fraction} {currency}", grouped(major))
    }
}

/// Thousands separated by commas.
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
            assert_eq!(MinorUnits::new(amount).printed("ARS"), format!("{expected} ARS"));
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
            assert_eq!(MinorUnits::new(amount).printed(currency), expected);
        }
        assert_eq!(MinorUnits::new(4_500_000).printed_with(2, "CLP"), "45,000.00 CLP");
    }
}
