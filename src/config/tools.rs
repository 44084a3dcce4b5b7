//! `tools.json`: what the agent may act with (05 section 6). Optional.

use crate::domain::Stage;

/// Whether this version carries follow-ups out. Until then `schedule_nudge` is not offered (TSET-6) and `nudge` warns.
pub const CARRIES_OUT_FOLLOW_UPS: bool = false;
/// Whether this version sends the opening flow. Until then no contact's opening is spent by a turn on which it was due and
/// did not go out (FN-OPEN-3), and the role warns.
pub const SENDS_OPENING: bool = false;

/// All lists of the file; an absent list is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tools {
    /// Flows the agent can send.
    pub flows: Vec<FlowTool>,
    /// Tags the agent can add or remove.
    pub tags: Vec<TagTool>,
    /// Fields the agent can set.
    pub fields: Vec<FieldTool>,
    /// What `get_contact` returns.
    pub readable: Readable,
    /// Notes the agent can write.
    pub notes: Vec<NoteTool>,
    /// Follow-ups, when configured.
    pub nudge: Option<Nudge>,
    /// Flows sent on a stage; never shown to the model.
    pub events: Vec<Event>,
    /// The flow sent once before the 24-hour window closes, when configured (WCF-1).
    pub window_closing: Option<WindowClosing>,
}

/// A ManyChat flow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowTool {
    /// Id shown to the model; unique in its list (TOOL-2).
    pub id: String,
    /// Guidance for the model.
    pub description: String,
    /// ManyChat's name of the flow; never shown to the model.
    pub flow_ns: String,
    /// Lifts "at most once per contact".
    pub repeatable: bool,
    /// A part the flow plays in the sale.
    pub role: Option<FlowRole>,
    /// Stage that its sending records; neither `new` nor `link_sent`.
    pub on_stage: Option<Stage>,
    /// Catalog id of the offering it belongs to.
    pub offering: Option<String>,
    /// How long it plays, 0 to 30 seconds.
    pub settle_seconds: u8,
}

/// Parts a flow can play.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlowRole {
    /// The checkout page.
    PaymentLink,
    /// The greeting the system sends by itself.
    Opening,
}

/// A ManyChat tag.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TagTool {
    /// Id shown to the model.
    pub id: String,
    /// ManyChat's name of the tag; never shown to the model.
    pub tag: String,
    /// Guidance for the model.
    pub description: String,
}

/// A ManyChat field with a closed list of values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldTool {
    /// Id shown to the model.
    pub id: String,
    /// ManyChat's name of the field; never shown to the model.
    pub field: String,
    /// Allowed values, at least one, no repeats.
    pub values: Vec<String>,
    /// Guidance for the model.
    pub description: String,
    /// Holds the position in the sale; its values are [`Stage::ALL`].
    pub funnel: bool,
    /// Holds the offering the contact is buying; its values are the catalog's ids.
    pub offering: bool,
    /// Holds whether the contact means to buy; its values are those of [`crate::domain::Intent`].
    pub intent: bool,
}

/// What `get_contact` may return.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Readable {
    /// Tags.
    pub tags: Vec<TagTool>,
    /// Fields.
    pub fields: Vec<ReadableField>,
}

/// A field that can be read and not written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadableField {
    /// Id shown to the model.
    pub id: String,
    /// ManyChat's name of the field.
    pub field: String,
    /// Values that are passed on.
    pub values: Vec<String>,
    /// Guidance for the model.
    pub description: String,
}

/// A free-text field for colleagues that no contact ever sees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoteTool {
    /// Id shown to the model.
    pub id: String,
    /// Guidance for the model.
    pub description: String,
    /// ManyChat's name of the field.
    pub field: String,
    /// Longest note, 1 to 500 characters.
    pub max_length: u16,
    /// Written even when the turn escalates.
    pub on_escalation: bool,
}

/// Follow-ups on a quiet contact.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nudge {
    /// Delays the model can choose from; ids are unique.
    pub delays: Vec<Delay>,
    /// Tag that tells that a person is active.
    pub human_active_tag: Option<String>,
}

/// One delay of a follow-up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delay {
    /// Id shown to the model.
    pub id: String,
    /// 1 to 1380 minutes.
    pub minutes: u16,
}

/// A flow sent when a contact reaches a stage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Id used in records.
    pub id: String,
    /// Any stage but `new`.
    pub stage: Stage,
    /// ManyChat's name of the flow.
    pub flow_ns: String,
}

/// One fixed flow just before the messaging window closes; never shown to the model (WCF-1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WindowClosing {
    /// ManyChat's name of the flow.
    pub flow_ns: String,
}

impl Tools {
    /// True when the model is offered at least one tool (TOOL-5).
    #[must_use]
    pub fn offers_any(&self) -> bool {
        !(self.flows.is_empty()
            && self.tags.is_empty()
            && self.fields.is_empty()
            && self.notes.is_empty()
            && self.readable.tags.is_empty()
            && self.readable.fields.is_empty())
            || self.nudge.is_some()
    }

    /// The field marked `funnel`, when there is one.
    #[must_use]
    pub fn funnel_field(&self) -> Option<&FieldTool> {
        self.fields.iter().find(|field| field.funnel)
    }

    /// The field marked `intent`, when there is one.
    #[must_use]
    pub fn intent_field(&self) -> Option<&FieldTool> {
        self.fields.iter().find(|field| field.intent)
    }

    /// The field marked `offering`, when there is one.
    #[must_use]
    pub fn offering_field(&self) -> Option<&FieldTool> {
        self.fields.iter().find(|field| field.offering)
    }
}
