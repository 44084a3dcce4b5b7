//! A shop with every kind of tool, and a stand-in for what tools reach.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use super::*;
use crate::config::{
    Delay, Event, FieldTool, FlowRole, FlowTool, NoteTool, Nudge, Readable, ReadableField, TagTool, Tenant,
    Tools, demo,
};
use crate::domain::{ConversationId, Intent, Stage};
use crate::manychat::ContactInfo;

fn flow(id: &str) -> FlowTool {
    FlowTool {
        id: id.to_owned(),
        description: format!("About {id}."),
        flow_ns: format!("ns_{id}"),
        repeatable: false,
        role: None,
        on_stage: None,
        offering: None,
        settle_seconds: 0,
    }
}

fn field(id: &str, name: &str, values: &[&str]) -> FieldTool {
    FieldTool {
        id: id.to_owned(),
        field: name.to_owned(),
        values: values.iter().map(|value| (*value).to_owned()).collect(),
        description: format!("About {id}."),
        funnel: false,
        offering: false,
        intent: false,
    }
}

fn tag(id: &str, name: &str) -> TagTool {
    TagTool { id: id.to_owned(), tag: name.to_owned(), description: format!("About {id}.") }
}

fn note(id: &str, max_length: u16, on_escalation: bool) -> NoteTool {
    NoteTool {
        id: id.to_owned(),
        description: format!("About {id}."),
        field: format!("agent_{id}"),
        max_length,
        on_escalation,
    }
}

/// Flows of every role, a funnel, an intent, an offering, events, notes, readable things, follow-ups.
pub(super) fn shop() -> Tools {
    let stages: Vec<_> = Stage::ALL.iter().map(|stage| stage.as_str()).collect();
    let intents: Vec<_> = Intent::ALL.iter().map(|intent| intent.as_str()).collect();
    let event = |id: &str, stage| Event { id: id.to_owned(), stage, flow_ns: format!("ev_{id}") };
    Tools {
        flows: vec![
            FlowTool { offering: Some("wheel".to_owned()), settle_seconds: 6, ..flow("wheel_brochure") },
            FlowTool { offering: Some("glaze".to_owned()), ..flow("glaze_brochure") },
            FlowTool { on_stage: Some(Stage::Nurturing), ..flow("studio_tour") },
            FlowTool { role: Some(FlowRole::Opening), ..flow("hello_card") },
            FlowTool { role: Some(FlowRole::PaymentLink), repeatable: true, ..flow("pay_page") },
        ],
        tags: vec![tag("likes_glaze", "likes-glazing"), tag("has_kiln", "has-kiln")],
        fields: vec![
            field("day_choice", "pottery_day", &["weekday", "saturday"]),
            FieldTool { funnel: true, ..field("sale_stage", "pottery_stage", &stages) },
            FieldTool { offering: true, ..field("what_class", "pottery_class", &["wheel", "glaze"]) },
            FieldTool { intent: true, ..field("purpose", "pottery_purpose", &intents) },
        ],
        readable: Readable {
            tags: vec![tag("walked_in", "src-door")],
            fields: vec![ReadableField {
                id: "newsletter".to_owned(),
                field: "newsletter_on".to_owned(),
                values: vec!["yes".to_owned(), "no".to_owned()],
                description: "Newsletter choice.".to_owned(),
            }],
        },
        notes: vec![note("goal", 40, false), note("handover", 400, true)],
        nudge: Some(Nudge {
            delays: vec![
                Delay { id: "tonight".to_owned(), minutes: 240 },
                Delay { id: "noon".to_owned(), minutes: 1140 },
            ],
            human_active_tag: Some("desk-took-over".to_owned()),
        }),
        events: vec![event("offer_made", Stage::Offered), event("link_out", Stage::LinkSent)],
        window_closing: None,
    }
}

/// The shop without a sale: no funnel, no intent, no offering.
pub(super) fn plain_shop() -> Tools {
    let mut tools = shop();
    tools.fields.truncate(1);
    tools.events.clear();
    for flow in &mut tools.flows {
        (flow.on_stage, flow.offering) = (None, None);
    }
    tools.flows.retain(|flow| flow.role != Some(FlowRole::Opening));
    tools
}

pub(super) fn tenant(tools: Tools) -> Arc<Tenant> {
    Arc::new(Tenant { tools: Some(tools), ..demo::tenant().unwrap() })
}

/// A contact who means to buy and stands at `stage`.
pub(super) fn prospect(stage: Option<Stage>) -> Known {
    Known { stage, intent: Some(Intent::Prospect), ..Known::default() }
}

pub(super) fn offer(tools: Tools, known: Known, flows: FlowMode) -> Offer {
    Offer {
        conversation: ConversationId::fresh(),
        tenant: tenant(tools),
        known,
        offering: None,
        window_from: Timestamp::from_second(1_000_000).unwrap(),
        may_read: true,
        nudge: false,
        follow_ups: true,
        flows,
        earlier: Vec::new(),
    }
}

pub(super) fn call(name: &str, arguments: Value) -> Call {
    Call { name: name.to_owned(), arguments }
}

pub(super) fn send(flow: &str) -> Call {
    call("send_flow", json!({ "flow": flow }))
}

pub(super) fn set(field: &str, value: &str) -> Call {
    call("set_field", json!({ "field": field, "value": value }))
}

pub(super) fn tagged(tag: &str) -> Call {
    call("add_tag", json!({ "tag": tag }))
}

pub(super) fn noted(note: &str, text: &str) -> Call {
    call("write_note", json!({ "note": note, "text": text }))
}

/// The answers of ours among the results; anything else is shown as what it is.
pub(super) fn answers(results: Vec<CallResult>) -> Vec<Value> {
    let shown = |result| match result {
        CallResult::Answer(answer) => answer,
        CallResult::Invalid(_) => json!("invalid"),
        CallResult::Contact(_) => json!("contact"),
    };
    results.into_iter().map(shown).collect()
}

/// A record in short: `tool id[=value] status`.
pub(super) fn short(entries: &[Entry]) -> Vec<String> {
    let value = |entry: &Entry| entry.value.as_ref().map(|value| format!("={value}")).unwrap_or_default();
    let status = |entry: &Entry| serde_json::to_value(entry.status).unwrap().as_str().unwrap().to_owned();
    entries
        .iter()
        .map(|entry| format!("{} {}{} {}", entry.tool, entry.id, value(entry), status(entry)))
        .collect()
}

/// A ManyChat that does what the test says, and keeps what it was asked.
#[derive(Default)]
pub(super) struct World {
    /// Names that are refused, flows and fields alike.
    pub(super) refused: Mutex<HashSet<String>>,
    /// Requests in order, by ManyChat's name.
    pub(super) asked: Mutex<Vec<String>>,
    /// Most requests that were open at once.
    pub(super) open: Mutex<(usize, usize)>,
    /// Answers of reads; none left: never answers.
    pub(super) reads: Mutex<VecDeque<Result<ContactInfo, ReadFailure>>>,
    /// How many reads were begun.
    pub(super) read_count: Mutex<usize>,
    /// When set, a request of this name waits for a permit before it is answered.
    pub(super) gates: Mutex<HashMap<String, Arc<Semaphore>>>,
}

impl World {
    pub(super) fn new() -> Arc<Self> {
        Arc::default()
    }

    pub(super) fn refuse(self: &Arc<Self>, name: &str) -> Arc<Self> {
        self.refused.lock().unwrap().insert(name.to_owned());
        Arc::clone(self)
    }

    /// Requests of this name stay unanswered until the returned semaphore gets a permit.
    pub(super) fn hold(&self, name: &str) -> Arc<Semaphore> {
        let gate = Arc::new(Semaphore::new(0));
        self.gates.lock().unwrap().insert(name.to_owned(), Arc::clone(&gate));
        gate
    }

    pub(super) fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }

    pub(super) fn mode(self: &Arc<Self>) -> FlowMode {
        FlowMode::AtCall(Arc::new(Reached(Arc::clone(self))))
    }

    fn name(action: &Action) -> String {
        match action {
            Action::SendFlow { flow_ns, .. } | Action::SendEvent { flow_ns, .. } => flow_ns.clone(),
            Action::SetField { field, value, .. } => format!("{field}={value}"),
            other => other.id().to_owned(),
        }
    }

    async fn perform(self: Arc<Self>, mut action: Action) -> Vec<Entry> {
        let mut entries = Vec::new();
        loop {
            let name = Self::name(&action);
            let refused = self.refused.lock().unwrap().contains(&name);
            self.asked.lock().unwrap().push(name.clone());
            let gate = self.gates.lock().unwrap().get(&name).cloned();
            if let Some(gate) = gate {
                gate.acquire().await.unwrap().forget();
            }
            let status = if refused { Status::Failed } else { Status::Performed };
            entries.push(action.entry(status, refused.then(|| "no".to_owned())));
            match action.follow_on().filter(|_| !refused).cloned() {
                Some(next) => action = next,
                None => return entries,
            }
        }
    }
}

struct Reached(Arc<World>);

impl Reach for Reached {
    fn send(&self, _: ActionNumber, action: Action) -> BoxFuture<'static, Vec<Entry>> {
        let world = Arc::clone(&self.0);
        async move {
            {
                let mut open = world.open.lock().unwrap();
                open.0 += 1;
                open.1 = open.1.max(open.0);
            }
            tokio::task::yield_now().await;
            let entries = Arc::clone(&world).perform(action).await;
            world.open.lock().unwrap().0 -= 1;
            entries
        }
        .boxed()
    }

    fn read(&self) -> BoxFuture<'static, Result<ContactInfo, ReadFailure>> {
        *self.0.read_count.lock().unwrap() += 1;
        let answer = self.0.reads.lock().unwrap().pop_front();
        async move {
            match answer {
                Some(answer) => answer,
                None => std::future::pending().await,
            }
        }
        .boxed()
    }
}

/// Log lines, kept.
#[derive(Clone, Default)]
pub(super) struct Kept(Arc<Mutex<Vec<u8>>>);

impl Kept {
    pub(super) fn written(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

impl std::io::Write for Kept {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
