//! The tools of one turn.

use std::collections::HashMap;
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;

use super::action::Action;
use super::reach::{ActionNumber, Reach};
use super::record::Entry;
use crate::config::Tenant;
use crate::domain::{ContactText, ConversationId, Intent, Stage};

/// A tool as the model is shown it (TCFG-30).
#[derive(Clone, Debug, PartialEq)]
pub struct ToolDefinition {
    /// For example `send_flow`.
    pub name: &'static str,
    /// What it does and when to use it.
    pub description: String,
    /// JSON Schema of its parameters: an object, every property required, closed lists as `enum`.
    pub parameters: Arc<Value>,
}

/// One call of the model. `Debug` shows no argument.
#[derive(Clone, PartialEq)]
pub struct Call {
    /// What the model named; perhaps no tool of ours.
    pub name: String,
    /// What it gave; perhaps not what the schema asks for.
    pub arguments: Value,
}

impl std::fmt::Debug for Call {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("Call(hidden)")
    }
}

/// What the model is told about a call.
#[derive(Clone, Debug, PartialEq)]
pub enum CallResult {
    /// An answer of ours, such as `{"staged":true}`.
    Answer(Value),
    /// The call was not valid: unknown tool, or arguments that the schema refuses (TSET-14). Words of ours.
    Invalid(String),
    /// The contact; the model's room renders it, with the notes inside the fence (READ-1).
    Contact(ContactView),
}

/// A contact as the model may see it (READ-1 to READ-5). `Debug` shows sizes.
#[derive(Clone, PartialEq)]
pub struct ContactView {
    /// Configured ids of the tags it has, in config order.
    pub tags: Vec<String>,
    /// Configured field id and its value, one of the configured ones, `other`, or none.
    pub fields: Vec<(String, Option<String>)>,
    /// Configured note id and its text, cut to its limit; free text, to be fenced. Empty when no note is configured.
    pub notes: Vec<(String, Option<ContactText>)>,
}

impl std::fmt::Debug for ContactView {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            out,
            "ContactView({} tags, {} fields, {} notes)",
            self.tags.len(),
            self.fields.len(),
            self.notes.len()
        )
    }
}

/// What is known of the contact's earlier actions (TSET-8, ARC-34). Stored as the summary of the conversation.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Known {
    /// Flows sent, or perhaps sent, with the business time of their last turn.
    pub sent_flows: HashMap<String, Timestamp>,
    /// Last stage that was written.
    pub stage: Option<Stage>,
    /// Last intent that was written.
    pub intent: Option<Intent>,
    /// Last offering that was written.
    pub offering: Option<String>,
    /// The opening flow was spent.
    pub opening_spent: bool,
}

/// What a turn may do (TSET-1).
pub struct Offer {
    /// Names the contact in the log (LOG-2).
    pub conversation: ConversationId,
    /// The configuration of the turn.
    pub tenant: Arc<Tenant>,
    /// What was done before.
    pub known: Known,
    /// What the contact is buying as the turn starts: the request's offering, else the stored one (FN-OFF-5).
    pub offering: Option<String>,
    /// Flows sent before this do not count as sent (TSET-8).
    pub window_from: Timestamp,
    /// TSET-10
    pub may_read: bool,
    /// True for a turn the service started (TSET-11).
    pub nudge: bool,
    /// Whether flows go out at the call.
    pub flows: FlowMode,
}

/// FLOW-1
#[derive(Clone)]
pub enum FlowMode {
    /// They are sent when the model calls for them.
    AtCall(Arc<dyn Reach>),
    /// They are staged like everything else; nothing is read. Follow-ups and evaluations.
    Staged,
}

/// What a turn has done so far, for the note of the last step (01 section 8, LOOP-2). Items as in 01/HIST-3.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StepSummary {
    /// Flows ManyChat accepted.
    pub sent: Vec<String>,
    /// Flows ManyChat refused.
    pub refused: Vec<String>,
    /// Staged for after the reply.
    pub staged: Vec<String>,
    /// Over the limit.
    pub dropped: Vec<String>,
    /// The last successful read.
    pub contact: Option<ContactView>,
    /// The opening flow that goes out, by id.
    pub opening: Option<String>,
}

/// How a turn ended, for what may happen to what it staged (08 section 8).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The reply does not escalate.
    Answered,
    /// The model, or its confidence, called a person (DISC-1).
    Escalated,
    /// Everything else that ends in a reply of ours: leak, invalid reply, failed call.
    Failed,
    /// The call was aborted. As [`Ending::Failed`], but a turn that did nothing records `null` (REC-1).
    Aborted,
}

/// An action to be performed after the reply.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct StagedAction {
    /// Its number in the turn.
    pub number: ActionNumber,
    /// What to do; serialised beside the number, in one flat object.
    #[serde(flatten)]
    pub action: Action,
}

/// What remains of the tools of a turn that ended.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Finished {
    /// `turns.actions`; `None` when no tool was offered and nothing was sent (REC-1).
    pub record: Option<Vec<Entry>>,
    /// To be performed after the reply, in order.
    pub staged: Vec<StagedAction>,
    /// How many were discarded (DISC-2).
    pub discarded: usize,
    /// Until when a flow that was sent plays, on the clock that deadlines use (WAIT-1).
    pub plays_until: Option<std::time::Instant>,
}

/// The stage and the tools of one turn. It belongs to the turn, not to the model's call, so that what was staged is
/// known when the call never returns (STAGE-1). Shared by reference; all methods take `&self`.
pub struct TurnTools {
    offer: Offer,
}

impl TurnTools {
    /// The tools of a turn.
    #[must_use]
    pub fn new(offer: Offer) -> Self {
        Self { offer }
    }

    /// What the model is offered now; empty when there is nothing (TSET-7).
    #[must_use]
    pub fn definitions(&self) -> Arc<[ToolDefinition]> {
        let _ = &self.offer;
        Arc::new([])
    }

    /// Takes the calls of one step: decides in their order, then waits for what was sent or read (STAGE-7). One result for
    /// each call, in the same order.
    pub async fn call_all(&self, calls: Vec<Call>) -> Vec<CallResult> {
        calls.into_iter().map(|_| CallResult::Invalid("no tool of this name".to_owned())).collect()
    }

    /// What was done so far.
    #[must_use]
    pub fn summary(&self) -> StepSummary {
        StepSummary::default()
    }

    /// Ends the turn's tools: waits for requests in flight when the turn failed (FLOW-7), then says what is to be recorded and what
    /// to be performed.
    pub async fn finish(&self, ending: Ending) -> Finished {
        let _ = ending;
        Finished::default()
    }
}
