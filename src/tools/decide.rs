//! The decision about one call: refused, staged, sent or read. Taken at once, in the order of the calls (STAGE-7).

use std::time::Duration;

use serde_json::{Value, json};

use super::action::{Action, FlowOrigin};
use super::arguments::{Wanted, parse};
use super::counters::{COUNTERS, named};
use super::ledger::{Ledger, Taken};
use super::limits::MOST_READS;
use super::menu::Menu;
use super::note;
use super::reach::ActionNumber;
use super::sending::{Sender, Sending};
use super::turn_tools::{Call, CallResult};
use crate::config::{FieldTool, FlowTool, NoteTool, TagTool};
use crate::domain::{ContactText, Intent, Stage};
use crate::funnel;

const OVER_LIMIT: &str = "over the per-turn limit";
const NOT_PROSPECT: &str = "not_prospect";
const NOT_PREPARED: &str = "not_prepared";

/// What is left to do for a call.
pub(super) enum Step {
    /// Nothing.
    Over(CallResult),
    /// Wait for a flow, then say what became of it.
    Wait { number: ActionNumber, sending: Option<Sending>, telling: Telling },
    /// Read the contact.
    Read,
}

/// How the outcome of a flow is told.
pub(super) enum Telling {
    /// The model called for the flow.
    Sent,
    /// A stage brought it with it.
    Tied(String),
}

impl Telling {
    /// What the model is told of a flow that ManyChat accepted, or did not.
    pub(super) fn answer(self, accepted: bool) -> Value {
        match self {
            Self::Sent => json!({ "sent": accepted }),
            Self::Tied(flow) if accepted => json!({ "staged": true, "flowSent": flow }),
            Self::Tied(flow) => json!({ "staged": true, "flowRefused": flow }),
        }
    }
}

/// What came of a flow that passed all rules.
enum Outgoing {
    Sending(ActionNumber),
    Staged,
    Full,
}

/// The turn as one call finds it.
pub(super) struct Decider<'turn> {
    pub(super) menu: &'turn Menu,
    pub(super) ledger: &'turn mut Ledger,
    /// `None` where flows are staged (FLOW-1).
    pub(super) sender: Option<&'turn Sender>,
}

impl Decider<'_> {
    pub(super) fn decide(&mut self, call: &Call) -> Step {
        match parse(self.menu, call) {
            Ok(wanted) => self.take(wanted),
            Err(wrong) => {
                COUNTERS.one(named(&call.name), "invalid");
                Step::Over(CallResult::Invalid(wrong))
            }
        }
    }

    fn take(&mut self, wanted: Wanted<'_>) -> Step {
        match wanted {
            Wanted::Flow { flow, asked } => self.flow(flow, asked),
            Wanted::Tag { tag, add } => self.gated(tag_action(tag, add)),
            Wanted::Field { field, value } => self.field(field, value),
            Wanted::Note { note, text } => self.note(note, &text),
            Wanted::Nudge(delay) => {
                self.gated(Action::ScheduleNudge { id: delay.id.clone(), minutes: delay.minutes })
            }
            Wanted::Contact => self.read(),
        }
    }

    /// 08 section 3.1; the rows of its table in their order.
    fn flow(&mut self, flow: &FlowTool, asked: bool) -> Step {
        let tools = self.menu.tools();
        if !self.gate_is_open() {
            return self.refuse_flow(NOT_PROSPECT, Some(NOT_PROSPECT));
        }
        if !funnel::fits(flow, self.offering()) {
            return self.refuse_flow("other_offering", None);
        }
        let early = funnel::ends_the_sale(tools, flow) && !funnel::is_prepared(self.floor());
        if early && !asked {
            return self.refuse_flow(NOT_PREPARED, Some(NOT_PREPARED));
        }
        let action = self.flow_action(flow, early, None);
        match self.put_out(flow, action) {
            Outgoing::Sending(number) => self.wait(number, Telling::Sent),
            Outgoing::Staged => staged(true),
            Outgoing::Full if self.sender.is_some() => answer(json!({ "sent": false, "reason": OVER_LIMIT })),
            Outgoing::Full => staged(false),
        }
    }

    /// Sends a flow or stages it, once a turn (08 section 3.1 rows 4 and 5, LIM-16).
    fn put_out(&mut self, flow: &FlowTool, action: Action) -> Outgoing {
        if let Some(number) = self.ledger.flow(&flow.id) {
            return if self.sender.is_some() { Outgoing::Sending(number) } else { Outgoing::Staged };
        }
        if self.ledger.is_full() {
            self.ledger.drop_one(action);
            return Outgoing::Full;
        }
        let Some(sender) = self.sender else {
            self.ledger.stage(action);
            return Outgoing::Staged;
        };
        let plays = Duration::from_secs(u64::from(flow.settle_seconds));
        let mut batch = self.leading_writes(flow);
        let number = self.ledger.reserve(action.clone(), plays);
        batch.push((number, action));
        for (number, action) in batch {
            let sending = sender.begin(self.ledger.last_send(), number, action);
            self.ledger.add_send(number, sending);
        }
        Outgoing::Sending(number)
    }

    /// FLOW-3
    fn leading_writes(&mut self, flow: &FlowTool) -> Vec<(ActionNumber, Action)> {
        let tools = self.menu.tools();
        match tools.funnel_field() {
            Some(field) if funnel::ends_the_sale(tools, flow) => self.ledger.lead_with(&field.id),
            _ => Vec::new(),
        }
    }

    /// SEND-3, SEND-5
    fn flow_action(&self, flow: &FlowTool, contact_asked: bool, origin: Option<FlowOrigin>) -> Action {
        let tools = self.menu.tools();
        let link = tools.funnel_field().filter(|_| funnel::ends_the_sale(tools, flow));
        let follow_on = link
            .map(|field| Box::new(self.write(field, Stage::LinkSent.as_str(), self.event(Stage::LinkSent))));
        let (id, flow_ns) = (flow.id.clone(), flow.flow_ns.clone());
        Action::SendFlow { id, flow_ns, follow_on, contact_asked, origin }
    }

    /// 08 section 3.3
    fn field(&mut self, field: &FieldTool, value: &str) -> Step {
        if field.intent {
            return self.intent_write(field, value);
        }
        if !self.gate_is_open() {
            return refuse("set_field", NOT_PROSPECT, Some(NOT_PROSPECT));
        }
        match value.parse() {
            Ok(stage) if field.funnel => self.funnel_write(field, stage),
            _ if field.offering => self.offering_write(field, value),
            _ => self.stage(self.write(field, value, None)),
        }
    }

    /// FN-INT-7
    fn intent_write(&mut self, field: &FieldTool, value: &str) -> Step {
        if self.intent() == Some(Intent::Prospect) && value != Intent::Prospect.as_str() {
            return refuse("set_field", "intent_final", None);
        }
        self.stage(self.write(field, value, None))
    }

    /// FN-STAGE-5, FN-STAGE-6, FLD-1, FLD-2
    fn funnel_write(&mut self, field: &FieldTool, stage: Stage) -> Step {
        let floor = self.floor();
        if Some(stage) < floor {
            return refuse("set_field", "backward", None);
        }
        let moves = Some(stage) > floor;
        // A write equal to the floor has no event where its stage was recorded before, or the write stands already. Where an
        // earlier turn's write of it is still to come, the event is attached, for that write may fail; who comes first fires it.
        match self.ledger.stage(self.write(field, stage.as_str(), self.event(stage))) {
            Taken::New if moves => self.tied_flow(stage),
            Taken::New | Taken::Repeat => staged(true),
            Taken::Full => staged(false),
        }
    }

    /// FN-TIED-1 to FN-TIED-7
    fn tied_flow(&mut self, stage: Stage) -> Step {
        let tied = funnel::tied_to(self.menu.tools(), stage).filter(|flow| {
            self.menu.is_unsent(flow)
                && funnel::fits(flow, self.offering())
                && self.ledger.flow(&flow.id).is_none()
        });
        let Some(flow) = tied else { return staged(true) };
        let action = self.flow_action(flow, false, Some(FlowOrigin::Stage));
        match self.put_out(flow, action) {
            Outgoing::Sending(number) => self.wait(number, Telling::Tied(flow.id.clone())),
            Outgoing::Staged => answer(json!({ "staged": true, "flowStaged": flow.id })),
            Outgoing::Full => answer(json!({ "staged": true, "flowDropped": flow.id, "reason": OVER_LIMIT })),
        }
    }

    /// FN-OFF-12, FN-OFF-13
    fn offering_write(&mut self, field: &FieldTool, value: &str) -> Step {
        if funnel::offering_is_locked(self.floor()) {
            return refuse("set_field", "offering_locked", None);
        }
        let opens = |flow: &&FlowTool| {
            flow.offering.as_deref() == Some(value)
                && !funnel::fits(flow, self.offering())
                && self.ledger.flow(&flow.id).is_none()
        };
        let opened: Vec<_> = self
            .menu
            .unsent_flows()
            .filter(opens)
            .map(|flow| json!({ "flow": flow.id, "description": flow.description }))
            .collect();
        match self.ledger.stage(self.write(field, value, None)) {
            Taken::Full => staged(false),
            Taken::New | Taken::Repeat => answer(json!({ "staged": true, "flowsAvailable": opened })),
        }
    }

    /// NOTE-2: cleaned before it is staged.
    fn note(&mut self, note: &NoteTool, text: &str) -> Step {
        let text = note::clean(text, usize::from(note.max_length));
        if text.is_empty() {
            return refuse("write_note", "empty", None);
        }
        self.stage(Action::WriteNote {
            id: note.id.clone(),
            field: note.field.clone(),
            text: ContactText::new(text),
            on_escalation: note.on_escalation,
        })
    }

    /// READ-7
    fn read(&mut self) -> Step {
        if self.ledger.reads >= MOST_READS {
            COUNTERS.one("get_contact", "over_limit");
            return answer(json!({ "available": false }));
        }
        self.ledger.reads += 1;
        Step::Read
    }

    fn gated(&mut self, action: Action) -> Step {
        if self.gate_is_open() {
            self.stage(action)
        } else {
            refuse(action.tool(), NOT_PROSPECT, Some(NOT_PROSPECT))
        }
    }

    fn stage(&mut self, action: Action) -> Step {
        staged(self.ledger.stage(action) != Taken::Full)
    }

    fn wait(&self, number: ActionNumber, telling: Telling) -> Step {
        Step::Wait { number, sending: self.ledger.send_of(number), telling }
    }

    fn refuse_flow(&self, what: &'static str, reason: Option<&'static str>) -> Step {
        if self.sender.is_none() {
            return refuse("send_flow", what, reason);
        }
        COUNTERS.one("send_flow", what);
        answer(
            reason.map_or_else(
                || json!({ "sent": false }),
                |reason| json!({ "sent": false, "reason": reason }),
            ),
        )
    }

    fn gate_is_open(&self) -> bool {
        funnel::gate_is_open(self.menu.tools(), self.intent())
    }

    /// FN-INT-4
    fn intent(&self) -> Option<Intent> {
        let staged = self.menu.tools().intent_field().and_then(|field| self.ledger.last_staged(&field.id));
        staged.and_then(|value| value.parse().ok()).or(self.menu.start.intent)
    }

    /// FN-OFF-10
    fn offering(&self) -> Option<&str> {
        let staged = self.menu.tools().offering_field().and_then(|field| self.ledger.last_staged(&field.id));
        staged.or(self.menu.start.offering.as_deref())
    }

    /// FN-STAGE-4
    fn floor(&self) -> Option<Stage> {
        let reached = self.menu.tools().funnel_field().and_then(|field| self.ledger.stage_reached(&field.id));
        self.menu.floor.max(reached)
    }

    fn write(&self, field: &FieldTool, value: &str, event: Option<Action>) -> Action {
        Action::SetField {
            id: field.id.clone(),
            field: field.field.clone(),
            value: value.to_owned(),
            offering: field.offering,
            follow_on: event.map(Box::new),
        }
    }

    /// The event of a stage, when that stage was not recorded as performed before this turn (FN-EVT-2).
    fn event(&self, stage: Stage) -> Option<Action> {
        let event = funnel::event_of(self.menu.tools(), stage, self.menu.start.stage)?;
        Some(Action::SendEvent { id: event.id.clone(), flow_ns: event.flow_ns.clone() })
    }
}

fn tag_action(tag: &TagTool, add: bool) -> Action {
    let (id, tag) = (tag.id.clone(), tag.tag.clone());
    if add { Action::AddTag { id, tag } } else { Action::RemoveTag { id, tag } }
}

fn answer(answer: Value) -> Step {
    Step::Over(CallResult::Answer(answer))
}

fn staged(staged: bool) -> Step {
    answer(json!({ "staged": staged }))
}

/// Refused for a reason that is counted, and told when the documents say so.
fn refuse(tool: &'static str, what: &'static str, reason: Option<&'static str>) -> Step {
    COUNTERS.one(tool, what);
    answer(
        reason.map_or_else(
            || json!({ "staged": false }),
            |reason| json!({ "staged": false, "reason": reason }),
        ),
    )
}
