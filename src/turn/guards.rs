//! Guards before the model: a denied turn costs no tokens and becomes a handoff (02 section 7).

use rust_decimal::Decimal;
use rust_decimal::prelude::FromPrimitive;

use crate::config::Rules;
use crate::domain::EscalationReason;
use crate::store::open::OpenTurn;

/// Why a turn never reaches the model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denial {
    /// Reason of the handoff (ESC-3).
    pub reason: EscalationReason,
    /// Names the guard and its number or word, never the contact's text (LOG-6).
    pub detail: String,
}

/// Judges the four guards in order; the first denial wins (GRD-1). Counting has happened in Open for all of
/// them, denied or not (GRD-2). `texts` are the messages of the turn, media left out.
#[must_use]
pub fn judge(rules: &Rules, texts: &[&str], opened: &OpenTurn) -> Option<Denial> {
    keyword(rules, texts)
        .or_else(|| turn_cap(rules, opened.turn_count))
        .or_else(|| hourly_limit(rules, opened.hourly_count))
        .or_else(|| daily_budget(rules, opened))
}

/// A keyword as a substring, letter case ignored, blanks significant (KEY-1). Blank keywords are ignored (KEY-3).
fn keyword(rules: &Rules, texts: &[&str]) -> Option<Denial> {
    let said: Vec<String> = texts.iter().map(|text| text.to_lowercase()).collect();
    let found =
        rules.escalation_keywords.iter().filter(|keyword| !keyword.trim().is_empty()).find(|keyword| {
            let wanted = keyword.to_lowercase();
            said.iter().any(|text| text.contains(&wanted))
        })?;
    Some(Denial { reason: EscalationReason::ExplicitRequest, detail: format!("escalation keyword: {found}") })
}

/// More turns than allowed since the last idle gap (CAP-1). An uncounted turn is not checked (CAP-4).
fn turn_cap(rules: &Rules, turn_count: Option<i32>) -> Option<Denial> {
    let count = u32::try_from(turn_count?).unwrap_or(0);
    let cap = rules.max_turns_per_conversation;
    (count > cap).then(|| Denial {
        reason: EscalationReason::ExplicitRequest,
        detail: format!("turn cap: {cap} turns"),
    })
}

/// More messages in this UTC hour than allowed, this one included (02/RATE-1).
fn hourly_limit(rules: &Rules, hourly_count: Option<i32>) -> Option<Denial> {
    let count = u32::try_from(hourly_count?).unwrap_or(0);
    let limit = rules.rate_limit.turns_per_subscriber_per_hour;
    (count > limit).then(|| Denial {
        reason: EscalationReason::ExplicitRequest,
        detail: format!("hourly limit: {count} messages in this hour"),
    })
}

/// The tenant's spend of the UTC day has reached a cap (BUD-2).
fn daily_budget(rules: &Rules, opened: &OpenTurn) -> Option<Denial> {
    let spent_tokens = u64::try_from(opened.spent_tokens).unwrap_or(0);
    let cost_cap = Decimal::from_f64(rules.budget.daily_cost_cap_usd).unwrap_or(Decimal::MAX);
    let detail = if spent_tokens >= rules.budget.daily_token_cap {
        "daily token cap"
    } else if opened.spent_usd >= cost_cap {
        "daily cost cap"
    } else {
        return None;
    };
    Some(Denial { reason: EscalationReason::OutOfScope, detail: detail.to_owned() })
}

#[cfg(test)]
#[path = "guards_tests.rs"]
mod tests;
