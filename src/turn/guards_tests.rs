use rust_decimal::Decimal;

use super::*;
use crate::config::{Budget, Burst, Messages, RateLimit};
use crate::domain::{Binding, ConversationId, Usd};
use crate::model::TypicalTurn;

fn rules() -> Rules {
    Rules {
        messages: Messages {
            acknowledgement: "One moment.".to_owned(),
            escalation: "A colleague will answer.".to_owned(),
            media_fallback: None,
            closer: None,
        },
        confidence_threshold: 0.6,
        max_turns_per_conversation: 25,
        idle_reset_hours: 24,
        history_days: 30,
        escalation_keywords: Vec::new(),
        opening_trigger: None,
        budget: Budget { daily_token_cap: 1000, daily_cost_cap_usd: 0.5 },
        rate_limit: RateLimit { turns_per_subscriber_per_hour: 60 },
        learning: None,
        burst: Burst { answer_together: true, quiet_ms: 0 },
        takeover: None,
        handoff: None,
        retention_days: None,
        unbound_tools: true,
    }
}

fn opened() -> OpenTurn {
    OpenTurn {
        conversation: ConversationId::fresh(),
        binding: Binding::First,
        fence: None,
        taken: 1,
        turn_count: Some(1),
        hourly_count: Some(1),
        spent_tokens: 0,
        spent_usd: Decimal::ZERO,
        running_before: 0,
        reply_queued: false,
        handoff: None,
        token_row: None,
        history: Vec::new(),
        offering: None,
        offering_before: None,
        acted: None,
        attempted: Vec::new(),
    }
}

/// As a turn is judged while turns take 100 tokens and a cent.
fn judged(rules: &Rules, texts: &[&str], opened: &OpenTurn) -> Option<Denial> {
    let typical = TypicalTurn { tokens: 100, cost: Usd::new(Decimal::new(1, 2)) };
    judge(rules, texts, opened, &Day::of(opened, typical))
}

fn detail(rules: &Rules, texts: &[&str], opened: &OpenTurn) -> Option<String> {
    judged(rules, texts, opened).map(|denial| denial.detail)
}

/// KEY-1, KEY-2, RUL-5, 02/AC-11
#[test]
fn a_keyword_matches_as_a_substring_whatever_the_case() {
    let mut rules = rules();
    rules.escalation_keywords = vec!["Talk to a Person".to_owned(), " now ".to_owned()];
    let said = "please, I want to TALK TO A PERSON today";
    let denial = judged(&rules, &[said], &opened()).unwrap();
    assert_eq!(denial.reason, EscalationReason::ExplicitRequest);
    assert_eq!(denial.detail, "escalation keyword: Talk to a Person");
    assert_eq!(detail(&rules, &["I know it"], &opened()), None, "blanks of a keyword are significant");
    assert!(detail(&rules, &["first", "do it now please"], &opened()).is_some(), "DEC-23: any of a burst");
}

/// KEY-3, RUL-6
#[test]
fn blank_keywords_are_ignored() {
    let mut rules = rules();
    rules.escalation_keywords = vec![String::new(), "  ".to_owned()];
    assert_eq!(detail(&rules, &["anything  at all"], &opened()), None);
}

/// 02/CAP-1, CAP-4
#[test]
fn the_turn_after_the_cap_is_denied() {
    let at = |count| OpenTurn { turn_count: count, ..opened() };
    assert_eq!(detail(&rules(), &["hello"], &at(Some(25))), None);
    assert_eq!(detail(&rules(), &["hello"], &at(Some(26))).as_deref(), Some("turn cap: 25 turns"));
    assert_eq!(detail(&rules(), &["hello"], &at(None)), None);
}

/// 02/RATE-1
#[test]
fn the_message_after_the_hourly_limit_is_denied() {
    let at = |count| OpenTurn { hourly_count: Some(count), ..opened() };
    assert_eq!(detail(&rules(), &["hello"], &at(60)), None);
    assert!(detail(&rules(), &["hello"], &at(61)).unwrap().starts_with("hourly limit"));
}

/// BUD-2, 02/AC-10: equal to a cap denies.
#[test]
fn a_reached_budget_denies_as_out_of_scope() {
    let spent =
        |tokens, cents| OpenTurn { spent_tokens: tokens, spent_usd: Decimal::new(cents, 2), ..opened() };
    assert_eq!(judged(&rules(), &["hello"], &spent(999, 49)), None);
    let tokens = judged(&rules(), &["hello"], &spent(1000, 0)).unwrap();
    assert_eq!((tokens.reason, tokens.detail.as_str()), (EscalationReason::OutOfScope, "daily token cap"));
    assert_eq!(detail(&rules(), &["hello"], &spent(0, 50)).as_deref(), Some("daily cost cap"));
}

/// 02 section 14: turns under way count as typical ones, and only as far as they fit.
#[test]
fn turns_under_way_count_against_the_caps() {
    let with = |tokens, cents, running_before| OpenTurn {
        spent_tokens: tokens,
        spent_usd: Decimal::new(cents, 2),
        running_before,
        ..opened()
    };
    let said = |opened: &OpenTurn| detail(&rules(), &["hello"], opened);
    assert_eq!(said(&with(500, 0, 4)), None);
    assert_eq!(said(&with(500, 0, 5)).as_deref(), Some("daily token cap, with the turns under way"));
    assert_eq!(said(&with(0, 48, 1)), None);
    assert_eq!(said(&with(0, 48, 2)).as_deref(), Some("daily cost cap, with the turns under way"));
    assert_eq!(said(&with(0, 50, 9)).as_deref(), Some("daily cost cap"));
}

/// GRD-1, TURN-10, LOG-6: the first denial in the fixed order decides.
#[test]
fn the_first_guard_that_denies_decides() {
    let mut rules = rules();
    rules.escalation_keywords = vec!["refund".to_owned()];
    let all = OpenTurn { turn_count: Some(99), hourly_count: Some(99), spent_tokens: 5000, ..opened() };
    assert!(detail(&rules, &["refund"], &all).unwrap().starts_with("escalation keyword"));
    assert!(detail(&rules, &["hello"], &all).unwrap().starts_with("turn cap"));
    assert!(detail(&rules, &["hello"], &OpenTurn { turn_count: None, ..all }).unwrap().starts_with("hourly"));
}
