//! Runs one turn of a case: prompt, tools, loop and guardrails of production, and nothing outside (07 section 3).

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use super::assertions::Standard;
use super::case::{Case, Contact, PastTurn};
use crate::channel;
use crate::config::Tenant;
use crate::domain::{ChannelName, ContactText, ConversationId, EscalationReason, Usd};
use crate::funnel::Standing;
use crate::model::{
    self, Bill, Figures, HistoryTurn, Intervention, Reply, Runner, Spent, SystemPrompt, TurnInput, TurnResult,
};
use crate::tools::{Action, Ending, FlowMode, Known, Offer, TurnTools};
use crate::turn::{Decision, Draft};

/// Since when the contact of a follow-up case is quiet, so that every run sends the same prompt (CASE-6).
const QUIET_SINCE: Timestamp = Timestamp::constant(1_768_471_200, 0);

/// How the names of models begin that cost nothing.
const MOCK: &str = "mock:";

/// Times a turn is held to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Latency a case may take.
    pub max_latency: Duration,
    /// When a call that never ends is given up; at least `max_latency`.
    pub abort: Duration,
}

/// What one turn came to: the reply a contact would get, and what went with it (07/RUN-4).
#[derive(Clone, Debug, PartialEq)]
pub struct Observed {
    /// Texts in the channel's marks, in order.
    pub messages: Vec<String>,
    /// Whether a person is called.
    pub escalate: bool,
    /// Why.
    pub reason: Option<EscalationReason>,
    /// What was staged, whether or not the reply escalates (07/RUN-5), as 07/RUN-10 writes it.
    pub actions: Vec<String>,
    /// Whether the model was offered tools.
    pub tools_offered: bool,
    /// What the guardrails did, or why the call failed (07/RUN-8).
    pub interventions: Vec<Intervention>,
    /// Time of the whole turn (07/RUN-7).
    pub latency: Duration,
    /// Estimate of its price.
    pub cost: Usd,
}

impl Observed {
    /// True when the turn is the handoff of a call that failed: such a reply says nothing about the prompt.
    #[must_use]
    pub fn had_no_model(&self) -> bool {
        self.interventions.iter().any(|noted| matches!(noted, Intervention::ModelError(_)))
    }
}

/// One configuration and one model, ready for any number of turns.
pub struct Bench {
    runner: Runner,
    tenant: Arc<Tenant>,
    system: SystemPrompt,
    figures: Figures,
    channel: ChannelName,
    limits: Limits,
}

impl Bench {
    /// The configuration and the model that `runner` asks.
    #[must_use]
    pub fn new(runner: Runner, tenant: Arc<Tenant>, channel: ChannelName, limits: Limits) -> Self {
        let system = SystemPrompt::build(&tenant);
        let figures = Figures::of_catalog(&tenant.catalog);
        Self { runner, tenant, system, figures, channel, limits }
    }

    /// The model string.
    #[must_use]
    pub fn model(&self) -> &str {
        self.runner.model()
    }

    /// What replies are held against.
    #[must_use]
    pub fn standard(&self) -> Standard<'_> {
        Standard {
            catalog: &self.tenant.catalog,
            figures: &self.figures,
            leaks: self.system.leaks(),
            max_latency: self.limits.max_latency,
        }
    }

    /// One turn. A model that fails or hangs ends in the handoff, as in production (07/RUN-8). The mock is free: its
    /// tokens are counted in production to try budgets with, and nobody bills them.
    pub async fn observe(&self, case: &Case) -> Observed {
        let seen = self.turn(case).await;
        if is_free(self.model()) { Observed { cost: Usd::ZERO, ..seen } } else { seen }
    }

    async fn turn(&self, case: &Case) -> Observed {
        let (tools, spent) = (Arc::new(TurnTools::new(self.offer(case))), Spent::default());
        let run = self.runner.run(self.input(case, &tools, &spent));
        let result = tokio::time::timeout(self.limits.abort, run).await;
        let actions = staged(&tools).await;
        let escalation = &self.tenant.rules.messages.escalation;
        match result {
            Ok(result) => {
                let marks = channel::profile(self.channel).marks;
                observed(Draft::of_model(result, marks, escalation, self.system.leaks()), actions)
            }
            Err(_) => aborted(escalation, self.limits.abort, &spent.bill(), actions),
        }
    }

    fn input(&self, case: &Case, tools: &Arc<TurnTools>, spent: &Spent) -> TurnInput {
        let texts = if case.nudge { Vec::new() } else { vec![ContactText::new(case.text.as_str())] };
        let known = known(case.contact.as_ref());
        let named = self.tenant.tools.as_ref();
        let standing = named
            .map(|named| Standing::at_start(named, known.stage, known.intent, known.offering.as_deref()));
        let facts = model::state_lines(named, &standing.unwrap_or_default(), None);
        TurnInput {
            tenant: Arc::clone(&self.tenant),
            system: self.system.clone(),
            state_lines: facts.into_iter().chain(case.nudge.then(quiet_note)).collect(),
            texts,
            history: case.history.iter().map(past_turn).collect(),
            tools: Some(Arc::clone(tools)),
            spent: spent.clone(),
        }
    }

    /// Everything is staged and nothing can be read: there is no account (07/RUN-2, 07/RUN-3).
    fn offer(&self, case: &Case) -> Offer {
        let known = known(case.contact.as_ref());
        Offer {
            conversation: ConversationId::fresh(),
            tenant: Arc::clone(&self.tenant),
            offering: known.offering.clone(),
            known,
            window_from: Timestamp::UNIX_EPOCH,
            may_read: false,
            nudge: case.nudge,
            follow_ups: crate::config::CARRIES_OUT_FOLLOW_UPS,
            flows: FlowMode::Staged,
            earlier: Vec::new(),
        }
    }
}

/// Whether a model string is that of the mock (07/MOCK-1).
pub(super) fn is_free(model: &str) -> bool {
    model.starts_with(MOCK)
}

fn past_turn(turn: &PastTurn) -> HistoryTurn {
    HistoryTurn { role: turn.role, text: ContactText::new(turn.text.as_str()), actions: None }
}

/// CASE-7: an absent contact is a new one, to whom nothing was sent. The opening is due only where the case says so.
fn known(contact: Option<&Contact>) -> Known {
    let Some(contact) = contact else { return Known { opening_spent: true, ..Known::default() } };
    Known {
        sent_flows: contact.sent_flows.iter().map(|id| (id.clone(), QUIET_SINCE)).collect(),
        stage: contact.funnel_stage,
        intent: contact.intent,
        offering: contact.offering.clone(),
        opening_spent: !contact.opening_due,
        ..Known::default()
    }
}

/// PROMPT-15: what stands in the place of the contact's message in a follow-up turn.
fn quiet_note() -> String {
    format!("[no reply from the contact since {QUIET_SINCE}; decide whether to follow up]")
}

async fn staged(tools: &TurnTools) -> Vec<String> {
    // Asked as after an answer, so that a handoff discards nothing (07/RUN-5).
    let finished = tools.finish(Ending::Answered).await;
    finished.staged.iter().map(|staged| notation(&staged.action)).collect()
}

/// 07/RUN-10
fn notation(action: &Action) -> String {
    match action {
        Action::SendFlow { id, .. } => format!("send_flow {id}"),
        Action::AddTag { id, .. } => format!("add_tag {id}"),
        Action::RemoveTag { id, .. } => format!("remove_tag {id}"),
        Action::SetField { id, value, .. } => format!("set_field {id}={value}"),
        Action::WriteNote { id, .. } => format!("write_note {id}"),
        Action::ScheduleNudge { id, .. } => format!("schedule_nudge {id}"),
        Action::SendEvent { id, .. } => format!("send_event {id}"),
    }
}

fn observed(draft: Draft, actions: Vec<String>) -> Observed {
    let reason = draft.escalation();
    let Draft { reply, texts, decision, .. } = draft;
    let mut seen = Observed {
        messages: texts,
        escalate: reply.escalate,
        reason,
        actions,
        tools_offered: false,
        interventions: Vec::new(),
        latency: Duration::ZERO,
        cost: Usd::ZERO,
    };
    if let Decision::Model(result) = decision {
        let TurnResult { interventions, latency, cost, tools_offered, .. } = *result;
        seen = Observed { interventions, latency, cost, tools_offered, ..seen };
    }
    seen
}

/// The turn of a call that never ended.
fn aborted(escalation: &str, after: Duration, bill: &Bill, actions: Vec<String>) -> Observed {
    let reply = Reply::handoff(escalation, EscalationReason::LowConfidence);
    Observed {
        messages: reply.messages,
        escalate: true,
        reason: reply.escalation_reason,
        actions,
        tools_offered: bill.tools_offered,
        interventions: vec![Intervention::ModelError("aborted".to_owned())],
        latency: after,
        cost: bill.cost,
    }
}

#[cfg(test)]
#[path = "bench_tests.rs"]
mod tests;
