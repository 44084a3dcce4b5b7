//! The calls of one turn: up to three in which the model may act, and one in which it must reply (01 section 11).

use std::sync::Arc;

use serde_json::{Value, json};
use tokio::time::Instant;

use super::{Runner, TurnInput, model_object};
use crate::model::candidate::Candidate;
use crate::model::leak::LeakCheck;
use crate::model::meter::Meter;
use crate::model::port::{
    MessageRole, ModelError, ModelMessage, ModelOutput, ModelRequest, Part, ToolCall, ToolCalls, ToolResult,
};
use crate::model::prompt::{self, NoteEnd};
use crate::model::reply;
use crate::model::slots::Slot;
use crate::tools::{Call, ToolDefinition, TurnTools};

/// Calls of a turn that acts; the last one offers nothing (RUN-4, LOOP-1).
const MOST_STEPS: u8 = 4;

/// The one tool with words of the model's own (08/NOTE-1).
const WRITE_NOTE: &str = "write_note";

/// Where a turn stands between two calls.
pub(super) struct Steps<'a> {
    runner: &'a Runner,
    input: &'a TurnInput,
    /// Who is asked next.
    candidate: &'a Candidate,
    /// Who is asked when that one is down; none once it was (DEC-10).
    fallback: Option<&'a Candidate>,
    /// What every step begins with.
    original: Vec<ModelMessage>,
    /// What the model called so far, and what came of it.
    transcript: Vec<ModelMessage>,
    begun: Instant,
}

/// What one step offers and whether it must end the turn.
struct Step {
    tools: Arc<[ToolDefinition]>,
    /// The turn acted before and now must reply (RUN-6).
    is_reply_step: bool,
}

impl<'a> Steps<'a> {
    pub(super) fn new(runner: &'a Runner, input: &'a TurnInput) -> Self {
        input.spent.ask(runner.first.name(), false);
        let mut steps = Self {
            runner,
            input,
            candidate: &runner.first,
            fallback: runner.fallback.as_ref(),
            original: prompt::messages(&input.history, &input.state_lines, &input.texts),
            transcript: Vec::new(),
            begun: Instant::now(),
        };
        steps.begin();
        steps
    }

    /// A model that was not there when something was done is told of it: the second one when the first is down, and any
    /// in the second run of a turn (DEC-10, ARC-46).
    fn begin(&mut self) {
        self.transcript = self.note(NoteEnd::GoOn).into_iter().collect();
    }

    /// Runs the turn up to the model's object, which satisfies the schema it was given. What was used stands on the
    /// input's bill, however the turn ends (USE-1).
    ///
    /// # Errors
    /// The failure of a call, or of the last answer (LOOP-3).
    pub(super) async fn object(mut self) -> Result<Value, ModelError> {
        for number in 1..=MOST_STEPS {
            let tools = self.offered(number);
            let has_acted = number > 1 || !self.transcript.is_empty();
            let step = Step { is_reply_step: tools.is_empty() && has_acted, tools };
            match (self.call(&step).await?, &self.input.tools) {
                (ModelOutput::Calls(calls), Some(tools)) if !step.tools.is_empty() => {
                    self.act(tools, calls).await;
                }
                (output, _) => return model_object(output),
            }
        }
        Err(ModelError::ReplyMissing)
    }

    /// RUN-5, TSET-7: nothing in the last step, and before it whatever there is to offer now.
    fn offered(&self, number: u8) -> Arc<[ToolDefinition]> {
        match &self.input.tools {
            Some(tools) if number < MOST_STEPS => tools.definitions(),
            _ => Arc::new([]),
        }
    }

    /// One call, at most `MODEL_MAX_CONCURRENT` of them at a time; flows are sent without holding a place (DEC-27).
    async fn call(&mut self, step: &Step) -> Result<ModelOutput, ModelError> {
        let slot = self.runner.calls.slot();
        slot.take().await;
        match self.ask(step, &slot).await {
            Err(error) if error.is_providers_fault() && self.falls_back() => {
                tracing::warn!(model = self.candidate.name(), err = error.name(), "fallback model called");
                // The first one's retries may have left the place.
                slot.take().await;
                self.ask(step, &slot).await
            }
            outcome => outcome,
        }
    }

    async fn ask(&self, step: &Step, slot: &Slot) -> Result<ModelOutput, ModelError> {
        let spent = &self.input.spent;
        spent.ask(self.candidate.name(), !step.tools.is_empty());
        let answer = self.candidate.step(self.request(step, slot), self.begun.elapsed()).await?;
        spent.add(answer.usage, self.candidate.cost(&answer.usage));
        Ok(answer.output)
    }

    /// Turns to the second model for the rest of the turn, once. It cannot read what the first one called, so it begins
    /// again; what was done is done.
    fn falls_back(&mut self) -> bool {
        let Some(fallback) = self.fallback.take() else { return false };
        self.candidate = fallback;
        self.begin();
        true
    }

    fn request(&self, step: &Step, slot: &Slot) -> ModelRequest {
        ModelRequest {
            system: self.input.system.text(),
            messages: self.messages(step),
            response_schema: reply::schema(),
            tools: Arc::clone(&step.tools),
            max_output_tokens: self.runner.max_output_tokens,
            temperature: None,
            reasoning_effort: self.runner.reasoning_effort,
            meter: Meter::of(&self.input.spent),
            retry_within: None,
            place: slot.place(),
        }
    }

    /// RUN-6: the reply step sees a note in place of the calls.
    fn messages(&self, step: &Step) -> Vec<ModelMessage> {
        let mut messages = self.original.clone();
        if step.is_reply_step {
            messages.extend(self.note(NoteEnd::Reply));
        } else {
            messages.extend(self.transcript.iter().cloned());
        }
        messages
    }

    fn note(&self, end: NoteEnd) -> Option<ModelMessage> {
        prompt::step_note(&self.input.tools.as_ref()?.summary(), end)
    }

    /// Carries out the calls of a step. Their results are what the next step goes on from; an answer that tried to call
    /// and named nothing leaves things as they were (RUN-7).
    async fn act(&mut self, tools: &TurnTools, calls: ToolCalls) {
        if calls.calls.is_empty() {
            return;
        }
        let results = results(tools, &calls.calls, self.input.system.leaks()).await;
        let called = ModelMessage { role: MessageRole::Assistant, parts: vec![Part::Calls(calls)] };
        let answered = ModelMessage { role: MessageRole::ToolResults, parts: results };
        self.transcript.extend([called, answered]);
    }
}

/// One result for each call, in their order; a call that cannot be read is answered here (RUN-7, LOOP-6), and so is a note
/// that gives the prompt away: ManyChat would keep it (GUARD-4, PROMPT-7).
async fn results(tools: &TurnTools, calls: &[ToolCall], leaks: &LeakCheck) -> Vec<Part> {
    let wanted: Vec<Wanted> = calls.iter().map(|call| Wanted::of(call, leaks)).collect();
    let taken = calls.iter().zip(&wanted).filter(|(_, wanted)| **wanted == Wanted::Taken);
    let taken = taken
        .filter_map(|(call, _)| Some(Call { name: call.name.clone(), arguments: call.arguments.clone()? }));
    let mut answered = tools.call_all(taken.collect()).await.into_iter();
    let mut results = Vec::with_capacity(calls.len());
    for (call, wanted) in calls.iter().zip(wanted) {
        let (content, is_error) = match wanted {
            Wanted::Taken => answered.next().map_or_else(unreadable, prompt::tool_result),
            Wanted::Refused => (json!({ "staged": false }), false),
            Wanted::Unreadable => unreadable(),
        };
        let (call_id, name) = (call.id.clone(), call.name.clone());
        results.push(Part::Result(ToolResult { call_id, name, content, is_error }));
    }
    results
}

/// What is done about a call.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wanted {
    Taken,
    Refused,
    Unreadable,
}

impl Wanted {
    fn of(call: &ToolCall, leaks: &LeakCheck) -> Self {
        let Some(arguments) = &call.arguments else { return Self::Unreadable };
        let text = arguments.get("text").and_then(Value::as_str).filter(|_| call.name == WRITE_NOTE);
        if text.is_some_and(|text| leaks.finds([text])) { Self::Refused } else { Self::Taken }
    }
}

fn unreadable() -> (Value, bool) {
    (json!({ "error": "the arguments are not a JSON object; nothing was done" }), true)
}

#[cfg(test)]
#[path = "steps_tests.rs"]
mod tests;
