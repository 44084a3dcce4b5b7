//! A staged action: the shape that an outbox row and an owed reply hold (08 section 4).

use serde::{Deserialize, Serialize};

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
