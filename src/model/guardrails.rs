//! The guardrails: what must hold whatever the model produced (01 section 9). Pure: an object and the tenant's rules
//! in, a checked reply out.

mod echo;
mod machine;
mod wording;

use serde_json::Value;

pub use wording::ends_with_question;

use self::wording::normalise;
use super::blank::is_blank;
use super::intervention::Intervention;
use super::leak::LeakCheck;
use super::reply::{Bounds, MAX_MESSAGE_UNITS, MAX_MODEL_MESSAGES, Reply, utf16_units};
use crate::config::Rules;
use crate::domain::EscalationReason;

/// Why a reply escalates (GUARD-14). Only [`Cause::Model`] and [`Cause::Confidence`] leave a note for colleagues
/// standing; every other cause discards all that was staged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cause {
    /// The model chose to hand off.
    Model,
    /// Its confidence is below the tenant's threshold.
    Confidence,
    /// Its object is not a valid reply.
    Schema,
    /// It holds parts of the prompt or of the reply's own structure.
    Leak,
    /// The call failed.
    Error,
}

impl Cause {
    /// The word of GUARD-14.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Model => "model",
            Self::Confidence => "confidence",
            Self::Schema => "schema",
            Self::Leak => "leak",
            Self::Error => "error",
        }
    }
}

/// What the guardrails make of an object.
#[derive(Clone, PartialEq, Debug)]
pub struct Checked {
    /// What may reach the contact.
    pub reply: Reply,
    /// What was changed or noticed, in order, for the log (LOG-5); holds no word of the reply.
    pub interventions: Vec<Intervention>,
    /// Present exactly when `reply` escalates.
    pub cause: Option<Cause>,
}

/// Checks a model's object. `earlier_agent_texts` are the stored texts of the agent turns in this turn's history
/// (GUARD-12); `leaks` belongs to the same configuration as the rules. The steps run in the order of the document.
#[must_use]
pub fn check(object: &Value, rules: &Rules, earlier_agent_texts: &[&str], leaks: &LeakCheck) -> Checked {
    let reply = match Reply::parse(object, Bounds::Validated) {
        Ok(reply) => reply,
        Err(faults) => return handoff(rules, vec![Intervention::SchemaInvalid(faults)], Cause::Schema),
    };
    let mut interventions = Vec::new();
    let Some(reply) = without_echo_lines(reply, leaks, &mut interventions) else {
        return handoff(rules, interventions, Cause::Leak);
    };
    let Some(reply) = without_blanks(reply, &mut interventions) else {
        return handoff(rules, interventions, Cause::Schema);
    };
    // GUARD-4, GUARD-5
    if leaks.finds(reply.messages.iter().chain(&reply.closing_question).map(String::as_str)) {
        return handoff(rules, vec![Intervention::PromptLeakDetected], Cause::Leak);
    }
    let (mut reply, cause) = judge_confidence(reply, rules, &mut interventions);
    // What stands there now may be the tenant's own copy, which goes out as it is (ESC-4).
    if cause != Some(Cause::Confidence) {
        clamp(&mut reply, &mut interventions);
    }
    if !reply.escalate {
        let body = reply.messages.len();
        append_question(&mut reply, &mut interventions);
        replace_repetition(&mut reply, body, rules, earlier_agent_texts, &mut interventions);
    }
    Checked { reply, interventions, cause }
}

/// Whether a text has a line that names a field of the reply or copies a note of the server, or holds a reply's object, a
/// call of a tool or a model's thoughts (GUARD-2). `leaks` belongs to the configuration under which it was written.
#[must_use]
pub fn echoes(text: &str, leaks: &LeakCheck) -> bool {
    echo::has_line(text, leaks)
}

/// The text without all that; `None` when nothing sensible is left, the text itself when it has none (GUARD-2, GUARD-3).
#[must_use]
pub fn without_echoes(text: String, leaks: &LeakCheck) -> Option<String> {
    echo::strip(text, leaks)
}

fn handoff(rules: &Rules, interventions: Vec<Intervention>, cause: Cause) -> Checked {
    Checked { reply: low_confidence(rules), interventions, cause: Some(cause) }
}

fn low_confidence(rules: &Rules) -> Reply {
    Reply::handoff(&rules.messages.escalation, EscalationReason::LowConfidence)
}

/// GUARD-2, GUARD-3; `None` when no message is left.
fn without_echo_lines(
    mut reply: Reply,
    leaks: &LeakCheck,
    interventions: &mut Vec<Intervention>,
) -> Option<Reply> {
    if !reply.messages.iter().chain(&reply.closing_question).any(|text| echoes(text, leaks)) {
        return Some(reply);
    }
    interventions.push(Intervention::FieldEchoStripped);
    let strip = |text| without_echoes(text, leaks);
    reply.messages = reply.messages.into_iter().filter_map(strip).collect();
    reply.closing_question = reply.closing_question.and_then(strip);
    (!reply.messages.is_empty()).then_some(reply)
}

/// Messages and a question that show nothing are dropped; `None` when no message is left, which the runner takes for no
/// reply at all before it comes to this (FAIL-3).
fn without_blanks(mut reply: Reply, interventions: &mut Vec<Intervention>) -> Option<Reply> {
    if reply.messages.iter().chain(&reply.closing_question).any(|text| is_blank(text)) {
        interventions.push(Intervention::BlankTextDropped);
        reply.messages.retain(|text| !is_blank(text));
        reply.closing_question = reply.closing_question.filter(|question| !is_blank(question));
    }
    (!reply.messages.is_empty()).then_some(reply)
}

/// GUARD-6
fn judge_confidence(
    reply: Reply,
    rules: &Rules,
    interventions: &mut Vec<Intervention>,
) -> (Reply, Option<Cause>) {
    if reply.escalate {
        return (reply, Some(Cause::Model));
    }
    if reply.confidence < rules.confidence_threshold {
        interventions.push(Intervention::ConfidenceBelowThreshold(reply.confidence));
        return (low_confidence(rules), Some(Cause::Confidence));
    }
    (reply, None)
}

/// GUARD-7
fn clamp(reply: &mut Reply, interventions: &mut Vec<Intervention>) {
    if reply.messages.len() > MAX_MODEL_MESSAGES {
        reply.messages.truncate(MAX_MODEL_MESSAGES);
        interventions.push(Intervention::MessagesTruncated);
    }
    let mut truncated = false;
    for message in &mut reply.messages {
        if utf16_units(message) > MAX_MESSAGE_UNITS {
            message.truncate(wording::end_of_units(message, MAX_MESSAGE_UNITS));
            truncated = true;
        }
    }
    if truncated {
        interventions.push(Intervention::MessageTruncated);
    }
}

/// GUARD-8: exactly one question ends the turn.
fn append_question(reply: &mut Reply, interventions: &mut Vec<Intervention>) {
    let Some(question) = &reply.closing_question else { return };
    if reply.messages.last().is_some_and(|last| ends_with_question(last)) {
        interventions.push(Intervention::ClosingQuestionAlreadyInBody);
    } else {
        reply.messages.push(question.clone());
    }
}

/// GUARD-10, GUARD-11. `body` is the number of messages before the question was appended.
fn replace_repetition(
    reply: &mut Reply,
    body: usize,
    rules: &Rules,
    earlier_agent_texts: &[&str],
    interventions: &mut Vec<Intervention>,
) {
    if !is_repetition(reply, body, earlier_agent_texts) {
        return;
    }
    let Some(closer) = &rules.messages.closer else {
        interventions.push(Intervention::DuplicateDetected);
        return;
    };
    reply.messages = vec![closer.clone()];
    reply.closing_question = None;
    interventions.push(Intervention::DuplicateReplaced);
}

fn is_repetition(reply: &Reply, body: usize, earlier_agent_texts: &[&str]) -> bool {
    if earlier_agent_texts.is_empty() {
        return false;
    }
    let earlier: Vec<String> = earlier_agent_texts.iter().map(|text| normalise(text)).collect();
    let said_before = |text: &str| {
        let normal = normalise(text);
        !normal.is_empty() && earlier.contains(&normal)
    };
    reply.messages.iter().take(body).any(|message| said_before(message)) || said_before(&reply.text())
}

#[cfg(test)]
mod ordinary_tests;
#[cfg(test)]
mod tests;
