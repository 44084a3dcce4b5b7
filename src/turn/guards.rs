//! Guards before the model: a denied turn costs no tokens and becomes a handoff (02 section 7).

use super::budget::{Day, cost_cap};
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
/// them, denied or not (GRD-2). `texts` are the messages of the turn, media left out; `day` is what the tenant has spent.
#[must_use]
pub(super) fn judge(rules: &Rules, texts: &[&str], opened: &OpenTurn, day: &Day) -> Option<Denial> {
    keyword(rules, texts)
        .or_else(|| turn_cap(rules, opened.turn_count))
        .or_else(|| hourly_limit(rules, opened.hourly_count))
        .or_else(|| daily_budget(rules, day))
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

/// The tenant's spend of the UTC day has reached a cap (BUD-2), or will when the turns under way have reported theirs:
/// otherwise all that begin together would pass (02 section 14).
fn daily_budget(rules: &Rules, day: &Day) -> Option<Denial> {
    let (token_cap, cost_cap) = (rules.budget.daily_token_cap, cost_cap(rules));
    let detail = if day.spent_tokens >= token_cap {
        "daily token cap"
    } else if day.spent_usd >= cost_cap {
        "daily cost cap"
    } else if day.expected_tokens >= token_cap {
        "daily token cap, with the turns under way"
    } else if day.expected_usd >= cost_cap {
        "daily cost cap, with the turns under way"
    } else {
        return None;
    };
    Some(Denial { reason: EscalationReason::OutOfScope, detail: detail.to_owned() })
}

#[cfg(test)]
#[path = "guards_tests.rs"]
mod tests;
