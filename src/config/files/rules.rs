//! `rules.json` from JSON (05 section 5), with the keys our decisions add (DEC-5, DEC-9, DEC-13, DEC-25).

use super::check::{Object, Report, Spot};
use super::hints::rules_hints;
use super::parsers::{MAX_INTEGER, counted, dollars, filled, flag, list, number, small, some, text};
use crate::config::{
    Budget, Burst, HandoffRule, Learning, Messages, OpeningTrigger, RateLimit, Rules, Takeover,
};

const RULES: &[&str] = &[
    "messages",
    "confidenceThreshold",
    "maxTurnsPerConversation",
    "idleResetHours",
    "historyDays",
    "escalationKeywords",
    "openingTrigger",
    "budget",
    "rateLimit",
    "learning",
    "burst",
    "takeover",
    "handoff",
    "retentionDays",
    "unboundTools",
];
const MESSAGES: &[&str] = &["acknowledgement", "escalation", "mediaFallback", "closer"];
const OPENING: &[&str] = &["keywords", "message"];
const BUDGET: &[&str] = &["dailyTokenCap", "dailyCostCapUsd"];
const RATE_LIMIT: &[&str] = &["turnsPerSubscriberPerHour"];
const LEARNING: &[&str] = &["language", "convertedTag", "maxRunCostUsd"];
const BURST: &[&str] = &["answerTogether", "quietMs"];
const TAKEOVER: &[&str] = &["pauseMinutes", "tag"];
const HANDOFF: &[&str] = &["tag"];

/// All keys of the file.
#[cfg(test)]
pub(super) const KEYS: &[&[&str]] =
    &[RULES, MESSAGES, OPENING, BUDGET, RATE_LIMIT, LEARNING, BURST, TAKEOVER, HANDOFF];

/// A hundred years in days: with it every date stays one that the database and the clock can hold.
const MOST_DAYS: u32 = 36_500;
const MOST_HOURS: u32 = MOST_DAYS * 24;
const MOST_MINUTES: u32 = MOST_HOURS * 60;
/// Counters are 32-bit columns (06 section 2).
const MOST_COUNT: u32 = i32::MAX as u32;
const NO_BURST_KEYS: Burst = Burst { answer_together: true, quiet_ms: 0 };

/// The whole file.
pub(in crate::config) fn rules(root: &Spot<'_>, report: &mut Report) -> Option<Rules> {
    let object = Object::open(root, RULES, report)?;
    let messages = object.required("messages", report, messages);
    let confidence_threshold = object.or_default("confidenceThreshold", 0.6, report, number(0.0..=1.0));
    let max_turns = object.or_default("maxTurnsPerConversation", 25, report, counted(MOST_COUNT));
    let idle_reset_hours = object.or_default("idleResetHours", 24, report, counted(MOST_HOURS));
    let history_days = object.or_default("historyDays", 30, report, counted(MOST_DAYS));
    let escalation_keywords = object.or_default("escalationKeywords", Vec::new(), report, list(text));
    let opening_trigger = object.optional("openingTrigger", report, opening_trigger);
    let budget = object.required("budget", report, budget);
    let rate_limit = object.required("rateLimit", report, rate_limit);
    let learning = object.optional("learning", report, learning);
    let burst = object.or_default("burst", NO_BURST_KEYS, report, burst);
    let takeover = object.optional("takeover", report, takeover);
    let handoff = object.optional("handoff", report, handoff);
    let retention_days = object.optional("retentionDays", report, small(1..=MOST_DAYS));
    let unbound_tools = object.or_default("unboundTools", true, report, flag);
    let rules = Rules {
        messages: messages?,
        confidence_threshold: confidence_threshold?,
        max_turns_per_conversation: max_turns?,
        idle_reset_hours: idle_reset_hours?,
        history_days: history_days?,
        escalation_keywords: escalation_keywords?,
        opening_trigger: opening_trigger?,
        budget: budget?,
        rate_limit: rate_limit?,
        learning: learning?,
        burst: burst?,
        takeover: takeover?,
        handoff: handoff?,
        retention_days: retention_days?,
        unbound_tools: unbound_tools?,
    };
    check_retention(&rules, report);
    rules_hints(&rules, report);
    Some(rules)
}

/// DEC-13, DEC-35: what history still reads is never deleted.
fn check_retention(rules: &Rules, report: &mut Report) {
    if rules.retention_days.is_some_and(|days| days < rules.history_days) {
        let reason = format!("must not be below historyDays, which is {}", rules.history_days);
        report.fault("retentionDays", reason);
    }
}

/// CFG-7: no text a contact can receive has a default.
fn messages(spot: &Spot<'_>, report: &mut Report) -> Option<Messages> {
    let object = Object::open(spot, MESSAGES, report)?;
    let acknowledgement = object.required("acknowledgement", report, filled);
    let escalation = object.required("escalation", report, filled);
    let media_fallback = object.optional("mediaFallback", report, filled);
    let closer = object.optional("closer", report, filled);
    Some(Messages {
        acknowledgement: acknowledgement?,
        escalation: escalation?,
        media_fallback: media_fallback?,
        closer: closer?,
    })
}

fn opening_trigger(spot: &Spot<'_>, report: &mut Report) -> Option<OpeningTrigger> {
    let object = Object::open(spot, OPENING, report)?;
    let keywords = object.required("keywords", report, some(filled));
    let message = object.required("message", report, filled);
    Some(OpeningTrigger { keywords: keywords?, message: message? })
}

fn budget(spot: &Spot<'_>, report: &mut Report) -> Option<Budget> {
    let object = Object::open(spot, BUDGET, report)?;
    let daily_token_cap = object.or_default("dailyTokenCap", 1_000_000, report, counted(MAX_INTEGER));
    let daily_cost_cap_usd = object.or_default("dailyCostCapUsd", 5.0, report, dollars);
    Some(Budget { daily_token_cap: daily_token_cap?, daily_cost_cap_usd: daily_cost_cap_usd? })
}

fn rate_limit(spot: &Spot<'_>, report: &mut Report) -> Option<RateLimit> {
    let object = Object::open(spot, RATE_LIMIT, report)?;
    let turns = object.or_default("turnsPerSubscriberPerHour", 60, report, counted(MOST_COUNT));
    Some(RateLimit { turns_per_subscriber_per_hour: turns? })
}

fn learning(spot: &Spot<'_>, report: &mut Report) -> Option<Learning> {
    let object = Object::open_strict(spot, LEARNING, report)?;
    let language = object.required("language", report, filled);
    let converted_tag = object.required("convertedTag", report, filled);
    let max_run_cost_usd = object.required("maxRunCostUsd", report, dollars);
    Some(Learning { language: language?, converted_tag: converted_tag?, max_run_cost_usd: max_run_cost_usd? })
}

fn burst(spot: &Spot<'_>, report: &mut Report) -> Option<Burst> {
    let object = Object::open(spot, BURST, report)?;
    let answer_together = object.or_default("answerTogether", NO_BURST_KEYS.answer_together, report, flag);
    let quiet_ms = object.or_default("quietMs", NO_BURST_KEYS.quiet_ms, report, small(0..=5000));
    Some(Burst { answer_together: answer_together?, quiet_ms: quiet_ms? })
}

fn takeover(spot: &Spot<'_>, report: &mut Report) -> Option<Takeover> {
    let object = Object::open(spot, TAKEOVER, report)?;
    let pause_minutes = object.optional("pauseMinutes", report, small(1..=MOST_MINUTES));
    let tag = object.optional("tag", report, filled);
    let takeover = Takeover { pause_minutes: pause_minutes?, tag: tag? };
    if takeover.pause_minutes.is_none() && takeover.tag.is_none() {
        return report
            .refuse(&spot.path, "needs pauseMinutes, tag or both: they say when the agent answers again");
    }
    Some(takeover)
}

fn handoff(spot: &Spot<'_>, report: &mut Report) -> Option<HandoffRule> {
    let object = Object::open(spot, HANDOFF, report)?;
    Some(HandoffRule { tag: object.required("tag", report, filled)? })
}
