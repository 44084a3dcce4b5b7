//! A staged action: the shape that an outbox row and an owed reply hold (08 section 4).

use serde::{Deserialize, Serialize};

use super::note;
use super::record::{Entry, Status};
use crate::domain::ContactText;

/// One action with the names of ManyChat it was staged with, so that a later reload changes nothing of it (TCFG-5).
/// Two actions are the same when they are equal (STAGE-2). `Debug` shows no note.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "tool", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub enum Action {
    /// Play a flow.
    SendFlow {
        /// Configured id.
        id: String,
        /// ManyChat's name of the flow.
        flow_ns: String,
        /// What is done when the flow was accepted: the write of `link_sent` (SEND-5).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        follow_on: Option<Box<Action>>,
        /// True when the contact's own question opened the gate of the payment link (SEND-3).
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        contact_asked: bool,
        /// Why the service sends it by itself; `None` when the model called for it (SEND-6).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        origin: Option<FlowOrigin>,
    },
    /// Add a tag.
    AddTag {
        /// Configured id.
        id: String,
        /// ManyChat's name of the tag.
        tag: String,
    },
    /// Remove a tag.
    RemoveTag {
        /// Configured id.
        id: String,
        /// ManyChat's name of the tag.
        tag: String,
    },
    /// Write a field.
    SetField {
        /// Configured id.
        id: String,
        /// ManyChat's name of the field.
        field: String,
        /// One of the configured values.
        value: String,
        /// True for the field that holds the offering (PERF-7).
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        offering: bool,
        /// What is done when the write was accepted: the event of the stage (FLD-1).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        follow_on: Option<Box<Action>>,
    },
    /// Write a note for colleagues.
    WriteNote {
        /// Configured id.
        id: String,
        /// ManyChat's name of the field.
        field: String,
        /// The cleaned text (NOTE-2).
        #[serde(serialize_with = "exposed", deserialize_with = "hidden")]
        text: ContactText,
        /// Written even when the turn escalates (08 section 8).
        on_escalation: bool,
    },
    /// Plan a follow-up.
    ScheduleNudge {
        /// Configured id of the delay.
        id: String,
        /// 1 to 1380.
        minutes: u16,
    },
    /// Play the flow of a stage; only ever a follow-on.
    SendEvent {
        /// Configured id.
        id: String,
        /// ManyChat's name of the flow.
        flow_ns: String,
    },
}

impl Action {
    /// Name of the tool, or `send_event`.
    #[must_use]
    pub const fn tool(&self) -> &'static str {
        match self {
            Self::SendFlow { .. } => "send_flow",
            Self::AddTag { .. } => "add_tag",
            Self::RemoveTag { .. } => "remove_tag",
            Self::SetField { .. } => "set_field",
            Self::WriteNote { .. } => "write_note",
            Self::ScheduleNudge { .. } => "schedule_nudge",
            Self::SendEvent { .. } => "send_event",
        }
    }

    /// The configured id.
    #[must_use]
    pub fn id(&self) -> &str {
        match self {
            Self::SendFlow { id, .. }
            | Self::AddTag { id, .. }
            | Self::RemoveTag { id, .. }
            | Self::SetField { id, .. }
            | Self::WriteNote { id, .. }
            | Self::ScheduleNudge { id, .. }
            | Self::SendEvent { id, .. } => id,
        }
    }

    /// What is done when this was accepted (PERF-3).
    #[must_use]
    pub fn follow_on(&self) -> Option<&Self> {
        match self {
            Self::SendFlow { follow_on, .. } | Self::SetField { follow_on, .. } => follow_on.as_deref(),
            _ => None,
        }
    }

    /// What the record says of it, without its follow-ons (REC-2, REC-3).
    #[must_use]
    pub fn entry(&self, status: Status, error: Option<String>) -> Entry {
        let (value, length) = match self {
            Self::SetField { value, .. } => (Some(value.clone()), None),
            Self::WriteNote { text, .. } => (None, Some(note::units(text.expose()))),
            _ => (None, None),
        };
        let (origin, contact_asked) = match self {
            Self::SendFlow { origin, contact_asked, .. } => (*origin, *contact_asked),
            _ => (None, false),
        };
        let (tool, id) = (self.tool().to_owned(), self.id().to_owned());
        Entry { tool, id, value, length, status, error, origin, contact_asked }
    }

    /// Whether taking on both would do one thing twice (STAGE-2). A flow is the same by its id (LIM-16, FN-TIED-11), a write
    /// of a field by id and value, so that the write that repeats a move is none of its own; everything else when all of it
    /// is equal.
    #[must_use]
    pub(super) fn repeats(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::SendFlow { id, .. }, Self::SendFlow { id: known, .. }) => id == known,
            (Self::SetField { id, value, .. }, Self::SetField { id: known, value: earlier, .. }) => {
                (id, value) == (known, earlier)
            }
            _ => self == other,
        }
    }
}

/// Why the service sends a flow that the model did not call for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FlowOrigin {
    /// The greeting.
    Opening,
    /// It is tied to the stage just written.
    Stage,
}

fn exposed<S: serde::Serializer>(text: &ContactText, out: S) -> Result<S::Ok, S::Error> {
    out.serialize_str(text.expose())
}

fn hidden<'de, D: serde::Deserializer<'de>>(input: D) -> Result<ContactText, D::Error> {
    String::deserialize(input).map(ContactText::new)
}
