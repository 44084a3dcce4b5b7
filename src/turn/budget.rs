//! The tenant's day: what turns under way are expected to add to it, and the warning before a cap (02 section 14).

use rust_decimal::Decimal;
use rust_decimal::prelude::{FromPrimitive, ToPrimitive};

use super::context::TurnContext;
use crate::config::Rules;
use crate::model::TypicalTurn;
use crate::store::open::OpenTurn;

/// From how much of a cap on the log warns, in percent.
const WARNS_AT: u32 = 80;

/// What the day has cost so far, and what the turns that began before this one will add.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Day {
    /// Tokens that were reported.
    pub(super) spent_tokens: u64,
    /// Their cost in US dollars.
    pub(super) spent_usd: Decimal,
    /// Tokens with those of the turns under way.
    pub(super) expected_tokens: u64,
    /// The same in US dollars.
    pub(super) expected_usd: Decimal,
}

impl Day {
    /// What Open has read. A turn under way counts as a typical one, and only for turns that began after it: of many
    /// that begin together, as many go on as fit.
    pub(super) fn of(opened: &OpenTurn, typical: TypicalTurn) -> Self {
        let running = u64::try_from(opened.running_before).unwrap_or(0);
        let spent_tokens = u64::try_from(opened.spent_tokens).unwrap_or(0);
        let reserved_usd = typical.cost.get().checked_mul(Decimal::from(running)).unwrap_or(Decimal::MAX);
        Self {
            spent_tokens,
            spent_usd: opened.spent_usd,
            expected_tokens: spent_tokens.saturating_add(typical.tokens.saturating_mul(running)),
            expected_usd: opened.spent_usd.checked_add(reserved_usd).unwrap_or(Decimal::MAX),
        }
    }
}

/// `budget.dailyCostCapUsd` as a decimal.
pub(super) fn cost_cap(rules: &Rules) -> Decimal {
    Decimal::from_f64(rules.budget.daily_cost_cap_usd).unwrap_or(Decimal::MAX)
}

/// Says once a day that a cap is near, so that the operator hears of it before every contact is handed off.
pub(super) fn warn_before_a_cap(context: &TurnContext, rules: &Rules, day: &Day) {
    let token_cap = Decimal::from(rules.budget.daily_token_cap);
    let uses = [
        ("daily token cap", percent(Decimal::from(day.spent_tokens), token_cap)),
        ("daily cost cap", percent(day.spent_usd, cost_cap(rules))),
    ];
    let today = context.clock.now().to_zoned(jiff::tz::TimeZone::UTC).date();
    for (cap, used) in uses {
        if used >= WARNS_AT && context.said_today.is_first(cap, today) {
            tracing::warn!(cap, used_percent = used, "daily budget nearly used");
        }
    }
}

/// How much of the cap is used, rounded down.
fn percent(spent: Decimal, cap: Decimal) -> u32 {
    let share = spent.checked_mul(Decimal::ONE_HUNDRED).and_then(|hundredfold| hundredfold.checked_div(cap));
    share.and_then(|share| share.floor().to_u32()).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 02 section 14: the warning comes at four fifths, not before.
    #[test]
    fn the_share_of_a_cap_is_rounded_down() {
        let cases = [(7999, 79), (8000, 80), (10_000, 100), (0, 0), (25_000, 250)];
        for (spent, expected) in cases {
            assert_eq!(percent(Decimal::from(spent), Decimal::from(10_000)), expected, "{spent}");
        }
        assert_eq!(percent(Decimal::MAX, Decimal::new(1, 9)), u32::MAX, "absurd amounts are survived");
    }
}
