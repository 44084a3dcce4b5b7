//! The runner: one turn's input in, a checked reply and its account out (01 section 11). Everyone who needs the model
//! goes through it.

mod steps;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;
use tracing::Instrument;

use self::steps::Steps;
use super::blank::is_blank;
use super::candidate::Candidate;
use super::guardrails::{self, Cause, Checked};
use super::intervention::Intervention;
use super::port::{ModelError, ModelOutput, ModelProvider, Usage};
use super::prompt::{HistoryTurn, SystemPrompt};
use super::reply::{Bounds, Faults, Reply};
use super::report::{ModelReport, ModelsReport};
use super::slots::Slots;
use super::spent::{Bill, Spent};
use super::typical::{Typical, TypicalTurn};
use crate::config::{ModelName, ModelSettings, ReasoningEffort, Tenant};
use crate::domain::{Clock, ContactText, EscalationReason, Role, Usd};
use crate::tools::TurnTools;

/// What one turn gives the model. All of it belongs to one loaded configuration (PROMPT-5). `Debug` shows no text.
#[derive(Clone)]
pub struct TurnInput {
    /// The configuration of the turn.
    pub tenant: Arc<Tenant>,
    /// Its system part, built once when it was loaded.
    pub system: SystemPrompt,
    /// What the server knows about the contact, one line each (01 section 7).
    pub state_lines: Vec<String>,
    /// The messages this turn answers, in order; more than one in a burst (DEC-33).
    pub texts: Vec<ContactText>,
    /// Earlier turns, oldest first (02 section 4).
    pub history: Vec<HistoryTurn>,
    /// What the model may do besides answering. The caller keeps a share, so that it knows what was done when this turn
    /// is aborted, and ends it with [`TurnTools::finish`] (RUN-1). `None`, or no definition in it, offers nothing.
    pub tools: Option<Arc<TurnTools>>,
    /// The turn's bill; a new one for each turn. The caller keeps a share for a turn that is aborted (DEC-19).
    pub spent: Spent,
}

impl fmt::Debug for TurnInput {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("TurnInput")
            .field("texts", &self.texts)
            .field("history", &self.history.len())
            .field("state_lines", &self.state_lines.len())
            .finish_non_exhaustive()
    }
}

/// What became of a turn (RUN-2).
#[derive(Clone, PartialEq, Debug)]
pub struct TurnResult {
    /// What may reach the contact; the tenant's escalation text when the call failed.
    pub reply: Reply,
    /// Tokens of all steps; unknown when the provider reported none (USE-1, DEC-19).
    pub usage: Usage,
    /// Their cost.
    pub cost: Usd,
    /// What the guardrails did, or the failure of the call, for the log (LOG-5).
    pub interventions: Vec<Intervention>,
    /// Name of the failure when the call failed (FAIL-17); the turn is then an error, not an escalation of the model
    /// (REP-9).
    pub error: Option<String>,
    /// The same failure in words for the operator: what is wrong and what to look at. Safe for a log.
    pub error_detail: Option<String>,
    /// Time in the runner, waiting for a free call included.
    pub latency: Duration,
    /// The model string of the model that was asked last, so the fallback's when that was tried (PROV-9, DEC-10).
    pub model: String,
    /// Whether the model was offered tools.
    pub tools_offered: bool,
    /// Why the reply escalates, when it does.
    pub cause: Option<Cause>,
}

/// Runs turns on one model, and on a second one when the first is down. The caller aborts a turn by dropping the future
/// of [`Runner::run`] and reports the abort itself, so that "too slow" and "misbehaved" stay apart (RUN-13, RUN-14).
pub struct Runner {
    first: Candidate,
    fallback: Option<Candidate>,
    max_output_tokens: u32,
    reasoning_effort: Option<ReasoningEffort>,
    calls: Slots,
    typical: Typical,
}

impl Runner {
    /// A runner of `model`, which `provider` runs, with the limits of `settings` (RUN-10, USE-6, DEC-27).
    #[must_use]
    pub fn new(provider: Arc<dyn ModelProvider>, model: &ModelName, settings: &ModelSettings) -> Self {
        Self {
            first: Candidate::new(provider, model, settings),
            fallback: None,
            max_output_tokens: settings.max_output_tokens,
            reasoning_effort: settings.reasoning_effort,
            calls: Slots::new(settings.max_concurrent),
            typical: Typical::default(),
        }
    }

    /// The same with a second model, tried once when the call of the first fails through no fault of the request
    /// (DEC-10).
    #[must_use]
    pub fn with_fallback(
        self,
        provider: Arc<dyn ModelProvider>,
        model: &ModelName,
        settings: &ModelSettings,
    ) -> Self {
        Self { fallback: Some(Candidate::new(provider, model, settings).tried_once()), ..self }
    }

    /// The same for turns that are aborted after `abort` (`MODEL_ABORT_MS`). When there is a fallback, a call of the first
    /// model that has not answered after half of that has timed out, so that the fallback can still answer inside the
    /// same bound (DEC-10). Without a fallback only the abort ends a call.
    #[must_use]
    pub fn within(mut self, abort: Duration) -> Self {
        self.first.within(abort, self.fallback.is_some());
        if let Some(fallback) = &mut self.fallback {
            fallback.within(abort, false);
        }
        self
    }

    /// The same with business time from that clock: prices change with its days.
    #[must_use]
    pub fn by(mut self, clock: &Arc<dyn Clock>) -> Self {
        for candidate in std::iter::once(&mut self.first).chain(&mut self.fallback) {
            candidate.by(Arc::clone(clock));
        }
        self
    }

    /// What can be seen of the models from outside (ARC-24, DEC-27).
    #[must_use]
    pub fn report(&self) -> ModelsReport {
        let models: Vec<ModelReport> =
            std::iter::once(&self.first).chain(&self.fallback).map(Candidate::report).collect();
        ModelsReport { running: self.calls.running(), waiting: self.calls.waiting(), models }
    }

    /// What a turn under this configuration usually takes: the average of the last turns, before the first an estimate on
    /// the high side (02 section 14).
    #[must_use]
    pub fn typical_turn(&self, system: &SystemPrompt) -> TypicalTurn {
        self.typical.turn(system.text().len(), self.max_output_tokens, &self.first.prices())
    }

    /// The model string of the model that is asked first.
    #[must_use]
    pub fn model(&self) -> &str {
        self.first.name()
    }

    /// Runs one turn: its calls and actions, schema, guardrails, cost. A failure of the model is a result like any other:
    /// the handoff, with the failure's name (FAIL-2, FAIL-3, LOOP-3).
    pub async fn run(&self, input: TurnInput) -> TurnResult {
        // No field: whoever collects spans gets nothing of prompts and answers (RUN-15).
        self.run_turn(input).instrument(tracing::info_span!("agent-turn")).await
    }

    async fn run_turn(&self, input: TurnInput) -> TurnResult {
        let started = Instant::now();
        let (checked, error) = match Steps::new(self, &input).object().await {
            Ok(object) => (self.check(&object, &input), None),
            Err(error) => (failed(&input.tenant, &error), Some(error)),
        };
        let bill = input.spent.bill();
        self.typical.note(&bill);
        let Bill { usage, cost, model, tools_offered } = bill;
        TurnResult {
            reply: checked.reply,
            usage,
            cost,
            interventions: checked.interventions,
            error: error.as_ref().map(ModelError::name),
            error_detail: error.as_ref().map(ToString::to_string),
            latency: started.elapsed(),
            model,
            tools_offered,
            cause: checked.cause,
        }
    }

    fn check(&self, object: &Value, input: &TurnInput) -> Checked {
        let agent_turns = input.history.iter().filter(|turn| turn.role == Role::Agent);
        let earlier: Vec<&str> = agent_turns.map(|turn| turn.text.expose()).collect();
        guardrails::check(object, &input.tenant.rules, &earlier, input.system.leaks())
    }
}

impl fmt::Debug for Runner {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Runner").field("model", &self.first.name()).finish_non_exhaustive()
    }
}

/// The model's object once it satisfies the schema it was given and says something (REP-5, FAIL-3).
fn model_object(output: ModelOutput) -> Result<Value, ModelError> {
    let object = match output {
        ModelOutput::Json(object) => object,
        ModelOutput::Text(text) if text.trim().is_empty() => return Err(ModelError::ReplyMissing),
        ModelOutput::Text(text) => {
            serde_json::from_str(&text).map_err(|_| ModelError::ReplyInvalid(Faults::at("(root)")))?
        }
        ModelOutput::Calls(_) | ModelOutput::Missing => return Err(ModelError::ReplyMissing),
    };
    match Reply::parse(&object, Bounds::Model) {
        Ok(reply) if reply.messages.iter().all(|text| is_blank(text)) => Err(ModelError::ReplyMissing),
        Ok(_) => Ok(object),
        Err(faults) => Err(ModelError::ReplyInvalid(faults)),
    }
}

/// FAIL-2, FAIL-3: the handoff of a failed call.
fn failed(tenant: &Tenant, error: &ModelError) -> Checked {
    Checked {
        reply: Reply::handoff(&tenant.rules.messages.escalation, EscalationReason::LowConfidence),
        interventions: vec![Intervention::ModelError(error.name())],
        cause: Some(Cause::Error),
    }
}

#[cfg(test)]
mod span_tests;
#[cfg(test)]
mod tests;
