//! Why an attempt failed, in words that the record and the log may hold (08 section 12, PERF-10).

use super::action::Action;
use super::record::OUTCOME_UNKNOWN;
use crate::domain::SubscriberId;
use crate::manychat::ManyChatError;
use crate::telemetry::scrub_text;

/// Longest recorded error, in UTF-16 units (PERF-10).
const LONGEST_ERROR: usize = 200;
/// How the error of an action begins that made no request: it stays unsent (ARC-41, FLOW-11).
pub(super) const NOT_ATTEMPTED: &str = "not attempted";
/// What stands for a note, a name of ManyChat and the contact's id in an error.
const HIDDEN: &str = "[removed]";

/// Why an attempt failed, cleaned.
pub(super) struct Failure {
    pub(super) text: String,
}

/// An error as the record and the log may hold it: without the note, names of ManyChat, the contact's id, without shapes of personal
/// data, at most 200 characters. One after which ManyChat may have acted says so, and so does one of which no request was
/// made, in the word of everything that was not attempted (PERF-10, ARC-41).
pub(super) fn failure_of(error: &ManyChatError, action: &Action, contact: &SubscriberId) -> Failure {
    let mut text = match error {
        ManyChatError::NotStarted { reason } => format!("{NOT_ATTEMPTED}: {reason}"),
        error => error.to_string(),
    };
    if let Action::WriteNote { text: note, .. } = action {
        text = without(&text, note.expose());
    }
    text = without(&text, contact.expose());
    for name in names_of(action) {
        text = without_name(&text, name);
    }
    let text = scrub_text(&text);
    Failure {
        text: if error.may_have_acted() { cut(&format!("{OUTCOME_UNKNOWN}: {text}")) } else { cut(&text) },
    }
}

fn without(text: &str, part: &str) -> String {
    if part.is_empty() { text.to_owned() } else { text.replace(part, HIDDEN) }
}

/// ManyChat's names in it, which stand on no record and in no log (REC-3).
fn names_of(action: &Action) -> Vec<&str> {
    match action {
        Action::SendFlow { flow_ns, .. } | Action::SendEvent { flow_ns, .. } => vec![flow_ns],
        Action::AddTag { tag, .. } | Action::RemoveTag { tag, .. } => vec![tag],
        Action::SetField { field, .. } | Action::WriteNote { field, .. } => vec![field],
        Action::ScheduleNudge { .. } => Vec::new(),
    }
}

/// Without the name, however ManyChat writes its letters. A name of one or two letters is left:
/// cut out of every word, it would leave nothing to read.
fn without_name(text: &str, name: &str) -> String {
    if name.chars().count() < 3 {
        return text.to_owned();
    }
    let pattern = regex::RegexBuilder::new(&regex::escape(name)).case_insensitive(true).build();
    pattern.map_or_else(|_| without(text, name), |found| found.replace_all(text, HIDDEN).into_owned())
}

/// At most 200 UTF-16 units, never half a character.
pub(super) fn cut(text: &str) -> String {
    let mut left = LONGEST_ERROR;
    text.chars()
        .take_while(|letter| {
            let fits = letter.len_utf16() <= left;
            left = left.saturating_sub(letter.len_utf16());
            fits
        })
        .collect()
}
