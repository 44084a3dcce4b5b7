//! The record of a turn's actions, `turns.actions` (08 section 12). It never holds a name of ManyChat, a note or a
//! contact's id (REC-3).

use serde::{Deserialize, Serialize};

use super::action::FlowOrigin;

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
