//! What a turn usually takes, so that turns under way can be counted before they have reported anything (02 section
//! 14).

use std::sync::{Mutex, PoisonError};

use rust_decimal::Decimal;

use super::port::Usage;
use super::pricing::Prices;
use super::spent::Bill;
use crate::domain::Usd;

/// How much of the average a new turn makes: the last dozen or so turns decide.
const SHARE: u32 = 8;
/// Digits that an average keeps; far more than a bill has.
const DIGITS: u32 = 9;
/// Bytes of a prompt that make a token, by a common rule of thumb.
const BYTES_PER_TOKEN: usize = 4;

/// Tokens and cost of a usual turn.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TypicalTurn {
    /// Input and output together, as a cap counts them (BUD-3).
    pub tokens: u64,
    /// US dollars.
    pub cost: Usd,
}

/// The running average of a process.
#[derive(Debug, Default)]
pub(super) struct Typical(Mutex<Option<Average>>);

#[derive(Clone, Copy, Debug)]
struct Average {
    tokens: Decimal,
    cost: Decimal,
}

impl Typical {
    /// A turn has ended with this bill. One that reported no tokens says nothing.
    pub(super) fn note(&self, bill: &Bill) {
        let Usage { input, output, .. } = bill.usage;
        if input.is_none() && output.is_none() {
            return;
        }
        let tokens = Decimal::from(input.unwrap_or(0).saturating_add(output.unwrap_or(0)));
        let turn = Average { tokens, cost: bill.cost.get() };
        let mut average = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *average = Some(average.map_or(turn, |before| Average {
            tokens: moved(before.tokens, turn.tokens),
            cost: moved(before.cost, turn.cost),
        }));
    }

    /// The average of the last turns. Before the first, a turn with a system part of that many bytes is expected to use
    /// up its output limit, at these prices.
    pub(super) fn turn(&self, system_bytes: usize, max_output_tokens: u32, prices: &Prices) -> TypicalTurn {
        let average = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(Average { tokens, cost }) = average {
            let tokens = u64::try_from(tokens.ceil()).unwrap_or(u64::MAX);
            return TypicalTurn { tokens, cost: Usd::new(cost) };
        }
        let input = u64::try_from(system_bytes / BYTES_PER_TOKEN).unwrap_or(u64::MAX);
        let output = u64::from(max_output_tokens);
        let usage = Usage { input: Some(input), output: Some(output), ..Usage::default() };
        TypicalTurn { tokens: input.saturating_add(output), cost: prices.cost(&usage) }
    }
}

fn moved(average: Decimal, turn: Decimal) -> Decimal {
    let step = turn.checked_sub(average).and_then(|gap| gap.checked_div(Decimal::from(SHARE)));
    step.and_then(|step| average.checked_add(step)).map_or(turn, |moved| moved.round_dp(DIGITS))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bill(tokens: u64, cents: i64) -> Bill {
        let usage = Usage { input: Some(tokens), output: Some(0), ..Usage::default() };
        Bill { usage, cost: Usd::new(Decimal::new(cents, 2)), ..Bill::default() }
    }

    /// 02 section 14: an estimate at first, then what turns really take; a failed call without tokens says nothing.
    #[test]
    fn the_estimate_gives_way_to_what_turns_take() {
        let prices = Prices::of("anthropic:claude-haiku-4-5", None);
        let typical = Typical::default();
        let guess = typical.turn(8000, 400, &prices);
        assert_eq!((guess.tokens, guess.cost.get().normalize().to_string()), (2400, "0.004".to_owned()));
        typical.note(&Bill::default());
        assert_eq!(typical.turn(8000, 400, &prices), guess);
        typical.note(&bill(1000, 10));
        assert_eq!(typical.turn(8000, 400, &prices).tokens, 1000);
        for _ in 0..60 {
            typical.note(&bill(3000, 50));
        }
        let settled = typical.turn(8000, 400, &prices);
        assert!((2990..=3000).contains(&settled.tokens), "{settled:?}");
        assert!(settled.cost > Usd::new(Decimal::new(49, 2)), "{settled:?}");
    }

    /// Absurd counts must not panic.
    #[test]
    fn absurd_counts_are_survived() {
        let typical = Typical::default();
        for _ in 0..3 {
            typical.note(&bill(u64::MAX, i64::MAX));
            typical.note(&bill(0, 0));
        }
        assert!(typical.turn(0, 0, &Prices::default()).tokens > 0);
    }
}
