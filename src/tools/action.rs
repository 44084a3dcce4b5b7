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

    /// What it changes. Of two actions with one target the later one decides how that ends (FLD-4, NOTE-5, NTOOL-5).
    pub(super) fn target(&self) -> (&'static str, &str) {
        match self {
            Self::SendFlow { id, .. } => ("flow", id),
            Self::AddTag { id, .. } | Self::RemoveTag { id, .. } => ("tag", id),
            Self::SetField { id, .. } => ("field", id),
            Self::WriteNote { id, .. } => ("note", id),
            // There is one follow-up at most, and the last call moves it.
            Self::ScheduleNudge { .. } => ("follow-up", ""),
            Self::SendEvent { id, .. } => ("event", id),
        }
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

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::{ActionNumber, StagedAction};
    use super::*;

    fn read(written: &Value) -> Action {
        serde_json::from_value(written.clone()).unwrap()
    }

    /// FN-DB-1, the table of 08 section 4: the shapes of an outbox row, as the reference implementation writes them too.
    #[test]
    fn actions_have_the_shapes_of_an_outbox_row() {
        let event = json!({ "tool": "send_event", "id": "link_out", "flowNs": "ns_2" });
        let write = json!({
            "tool": "set_field", "id": "sale_stage", "field": "stage", "value": "link_sent", "followOn": event,
        });
        let shapes = [
            json!({ "tool": "send_flow", "id": "tour", "flowNs": "ns_1" }),
            json!({
                "tool": "send_flow", "id": "pay", "flowNs": "ns_1", "followOn": write, "contactAsked": true, "origin": "stage",
            }),
            json!({ "tool": "add_tag", "id": "kiln", "tag": "has-kiln" }),
            json!({ "tool": "remove_tag", "id": "kiln", "tag": "has-kiln" }),
            json!({ "tool": "set_field", "id": "class", "field": "mc", "value": "wheel", "offering": true }),
            json!({ "tool": "write_note", "id": "goal", "field": "mc", "text": "Sail.", "onEscalation": false }),
            json!({ "tool": "schedule_nudge", "id": "tonight", "minutes": 240 }),
        ];
        for shape in shapes {
            assert_eq!(serde_json::to_value(read(&shape)).unwrap(), shape);
        }
        let staged = StagedAction { number: ActionNumber(3), action: read(&event) };
        let flat = json!({ "number": 3, "tool": "send_event", "id": "link_out", "flowNs": "ns_2" });
        assert_eq!(serde_json::to_value(&staged).unwrap(), flat);
        assert_eq!(serde_json::from_value::<StagedAction>(flat).unwrap(), staged);
    }

    /// NOTE-6, REC-3: nothing of a note in the record or in what can be printed.
    #[test]
    fn a_note_is_neither_printed_nor_recorded() {
        let note = read(&json!({
            "tool": "write_note", "id": "goal", "field": "mc", "text": "Zanzibar 😀", "onEscalation": true,
        }));
        assert!(!format!("{note:?}").contains("Zanzibar"));
        let entry = serde_json::to_value(note.entry(Status::Staged, None)).unwrap();
        assert_eq!(entry, json!({ "tool": "write_note", "id": "goal", "length": 11, "status": "staged" }));
    }

    /// STAGE-2, LIM-16, FN-TIED-11: what counts as the same action.
    #[test]
    fn sameness_is_by_id_for_flows_and_by_content_for_the_rest() {
        let same = |left: Value, right: Value| read(&left).repeats(&read(&right));
        let flow = json!({ "tool": "send_flow", "id": "pay", "flowNs": "ns" });
        let tied = json!({ "tool": "send_flow", "id": "pay", "flowNs": "ns", "contactAsked": true, "origin": "stage" });
        assert!(same(flow.clone(), tied));
        assert!(!same(flow, json!({ "tool": "send_flow", "id": "tour", "flowNs": "ns" })));
        let note = |text: &str| json!({ "tool": "write_note", "id": "goal", "field": "mc", "text": text, "onEscalation": false });
        assert!(
            same(note("abc"), note("abc")) && !same(note("abc"), note("abd")),
            "equal length is not enough"
        );
        let tag = |tool: &str| json!({ "tool": tool, "id": "kiln", "tag": "has-kiln" });
        assert!(!same(tag("add_tag"), tag("remove_tag")));
        let write = |value: &str| json!({ "tool": "set_field", "id": "day", "field": "mc", "value": value });
        assert!(same(write("a"), write("a")) && !same(write("a"), write("b")), "FLD-4");
    }
}
