//! The record of a turn's actions, `turns.actions` (08 section 12). It never holds a name of ManyChat, a note or a
//! contact's id (REC-3).

use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use super::action::FlowOrigin;

/// How an error begins when nobody knows whether ManyChat did it (ARC-41).
pub const OUTCOME_UNKNOWN: &str = "outcome unknown";

/// What became of one action (REC-2).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Entry {
    /// Name of the tool, or `send_event`.
    pub tool: String,
    /// Configured id.
    pub id: String,
    /// The value of a `set_field`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// Length of a note, in UTF-16 units.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub length: Option<usize>,
    /// What became of it.
    pub status: Status,
    /// Why it failed, cleaned and at most 200 characters (PERF-10).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Why the service sent it by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<FlowOrigin>,
    /// Present, and true, when the contact's question opened the gate of the payment link.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub contact_asked: bool,
}

impl Entry {
    /// `tool id` or `tool id=value`, as notes for the model name an action (01/HIST-3).
    #[must_use]
    pub fn item(&self) -> String {
        match &self.value {
            Some(value) => format!("{} {}={value}", self.tool, self.id),
            None => format!("{} {}", self.tool, self.id),
        }
    }
}

/// REC-4
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// To be performed after the reply.
    Staged,
    /// ManyChat accepted it.
    Performed,
    /// It was tried, or could not be tried; `error` says why.
    Failed,
    /// The turn ended so that it may not be performed.
    Discarded,
    /// One action too many.
    DroppedOverCap,
    /// Its reply could not be delivered.
    DeadLettered,
}

impl Status {
    /// The word as the record holds it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Staged => "staged",
            Self::Performed => "performed",
            Self::Failed => "failed",
            Self::Discarded => "discarded",
            Self::DroppedOverCap => "dropped_over_cap",
            Self::DeadLettered => "dead_lettered",
        }
    }
}

/// Why a record could not be edited: `turns.actions` of that row is not a list of JSON values. The row is to be left
/// alone and the fault logged.
#[derive(Debug, thiserror::Error)]
#[error("turns.actions is not a list: {0}")]
pub struct RecordError(#[from] serde_json::Error);

/// Puts outcomes in the place of staged entries: the n-th group replaces the n-th of them, the action's own entry first,
/// then its follow-ons (REC-6). Where a group is empty or missing, the entry stays staged. Every other entry stays byte
/// for byte, whoever wrote it.
///
/// # Errors
/// When the record is not a JSON list.
pub fn resolve(record: &str, outcomes: &[Vec<Entry>]) -> Result<String, RecordError> {
    let mut outcomes = outcomes.iter();
    edit(record, |entry| match outcomes.next() {
        Some(group) if !group.is_empty() => group.iter().map(serde_json::value::to_raw_value).collect(),
        _ => Ok(vec![entry.to_owned()]),
    })
}

/// Gives every entry that is still staged this status, with the reason when there is one: `dead_lettered` for a reply
/// nobody will deliver (PERF-6), `failed` for what a dead process left behind (ARC-41).
///
/// # Errors
/// When the record is not a JSON list.
pub fn end_staged(record: &str, status: Status, error: Option<&str>) -> Result<String, RecordError> {
    edit(record, |entry| {
        let mut keys: serde_json::Map<String, Value> = serde_json::from_str(entry.get())?;
        keys.insert("status".to_owned(), status.as_str().into());
        if let Some(error) = error {
            keys.insert("error".to_owned(), error.into());
        }
        Ok(vec![serde_json::value::to_raw_value(&keys)?])
    })
}

/// How many entries wait for an outcome. The summary of a conversation never passes such a turn (ARC-34).
#[must_use]
pub fn staged_count(record: &str) -> usize {
    let entries: Vec<Box<RawValue>> = serde_json::from_str(record).unwrap_or_default();
    entries.iter().filter(|entry| is_staged(entry)).count()
}

type RawEntries = Vec<Box<RawValue>>;

fn edit(
    record: &str,
    mut of_staged: impl FnMut(&RawValue) -> Result<RawEntries, serde_json::Error>,
) -> Result<String, RecordError> {
    let entries: RawEntries = serde_json::from_str(record)?;
    let mut edited = Vec::with_capacity(entries.len());
    for entry in entries {
        if is_staged(&entry) {
            edited.extend(of_staged(&entry)?);
        } else {
            edited.push(entry);
        }
    }
    Ok(serde_json::to_string(&edited)?)
}

#[derive(Deserialize)]
struct OnlyStatus {
    #[serde(default)]
    status: Option<String>,
}

fn is_staged(entry: &RawValue) -> bool {
    let read: Result<OnlyStatus, _> = serde_json::from_str(entry.get());
    read.is_ok_and(|entry| entry.status.as_deref() == Some(Status::Staged.as_str()))
}

#[cfg(test)]
#[path = "record_tests.rs"]
mod tests;
