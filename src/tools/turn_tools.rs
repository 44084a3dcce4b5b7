//! The tools of one turn.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::counters::COUNTERS;
use super::decide::{Decider, Step};
use super::definitions::{ToolDefinition, definitions};
use super::finish::{Ending, Finished, finish};
use super::known::Known;
use super::ledger::{Item, Ledger, State};
use super::limits::{IN_FLIGHT_LIMIT, READ_LIMIT};
use super::menu::Menu;
use super::reach::{Reach, ReadFailure};
use super::record::{Entry, Status};
use super::sending::Sender;
use super::view::ContactView;
use crate::config::Tenant;
use crate::domain::ConversationId;

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

/// What a turn may do (TSET-1).
pub struct Offer {
    /// Names the contact in the log (LOG-2).
    pub conversation: ConversationId,
    /// The configuration of the turn.
    pub tenant: Arc<Tenant>,
    /// What was done before.
    pub known: Known,
    /// What the contact is buying as the turn starts: the request's offering, else one that an earlier turn is about to write,
    /// else the stored one (FN-OFF-5).
    pub offering: Option<String>,
    /// Flows sent before this do not count as sent (TSET-8).
    pub window_from: Timestamp,
    /// TSET-10
    pub may_read: bool,
    /// True for a turn the service started (TSET-11).
    pub nudge: bool,
    /// True where follow-ups that are planned go out; otherwise none can be planned (TSET-6).
    pub follow_ups: bool,
    /// Whether flows go out at the call.
    pub flows: FlowMode,
    /// What a first run of this turn, which a dead process began, has sent: the entries as they ended, in order. They
    /// count as this turn's own: they stand first in its record, a flow among them is not sent again (ARC-41, ARC-46).
    pub earlier: Vec<Entry>,
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

/// The stage and the tools of one turn. It belongs to the turn, not to the model's call, so that what was staged is
/// known when the call never returns (STAGE-1). Shared by reference; all methods take `&self`.
pub struct TurnTools {
    conversation: ConversationId,
    menu: Menu,
    definitions: Arc<[ToolDefinition]>,
    sender: Option<Sender>,
    ledger: Mutex<Ledger>,
    ended: AtomicBool,
    reported: AtomicBool,
}

impl TurnTools {
    /// The tools of a turn.
    #[must_use]
    pub fn new(offer: Offer) -> Self {
        let menu = Menu::of(&offer);
        let definitions = definitions(&menu);
        let sender = match offer.flows {
            FlowMode::AtCall(reach) => Some(Sender::new(reach)),
            FlowMode::Staged => None,
        };
        let (conversation, ledger) = (offer.conversation, Mutex::new(Ledger::after(offer.earlier)));
        let (ended, reported) = (AtomicBool::new(false), AtomicBool::new(false));
        Self { conversation, menu, definitions, sender, ledger, ended, reported }
    }

    /// What the model is offered; empty when there is nothing (TSET-7). The same for every step of the turn: a flow that
    /// was sent stays in the list, and naming it again answers what became of it.
    #[must_use]
    pub fn definitions(&self) -> Arc<[ToolDefinition]> {
        Arc::clone(&self.definitions)
    }

    /// Takes the calls of one step: decides in their order, then waits for what was sent or read (STAGE-7). One result for
    /// each call, in the same order. When the future is dropped, requests that have begun go on, and [`Self::finish`] waits
    /// for them. After the end of the turn no call is taken.
    pub async fn call_all(&self, calls: Vec<Call>) -> Vec<CallResult> {
        if self.ended.load(Ordering::Acquire) {
            return calls.iter().map(|_| CallResult::Invalid("the turn has ended".to_owned())).collect();
        }
        let steps: Vec<_> = {
            let mut ledger = self.ledger();
            let mut decider = Decider { menu: &self.menu, ledger: &mut ledger, sender: self.sender.as_ref() };
            calls.iter().map(|call| decider.decide(call)).collect()
        };
        join_all(steps.into_iter().map(|step| self.carry_out(step))).await
    }

    async fn carry_out(&self, step: Step) -> CallResult {
        match step {
            Step::Over(result) => result,
            Step::Wait { number, sending, telling } => {
                if let Some(sending) = sending {
                    sending.await;
                }
                CallResult::Answer(telling.answer(self.ledger().was_accepted(number)))
            }
            Step::Read => self.read().await,
        }
    }

    /// READ-6: whatever goes wrong, the turn goes on.
    async fn read(&self) -> CallResult {
        let read = async {
            match &self.sender {
                Some(sender) => sender.reach().read().await,
                None => Err(ReadFailure { class: "no reader", timed_out: false }),
            }
        };
        let answer = tokio::time::timeout(READ_LIMIT, read).await;
        match answer.unwrap_or(Err(ReadFailure { class: "time-out", timed_out: true })) {
            Ok(contact) => {
                COUNTERS.one("get_contact", "performed");
                let view = ContactView::of(self.menu.tools(), &contact);
                self.ledger().contact = Some(view.clone());
                CallResult::Contact(view)
            }
            Err(failure) => {
                COUNTERS.one("get_contact", if failure.timed_out { "timed_out" } else { "failed" });
                tracing::warn!(
                    conversation = %self.conversation,
                    tool = "get_contact",
                    error = failure.class,
                    timedOut = failure.timed_out,
                    "contact read failed"
                );
                CallResult::Answer(json!({ "available": false }))
            }
        }
    }

    /// What was done so far.
    #[must_use]
    pub fn summary(&self) -> StepSummary {
        let ledger = self.ledger();
        let flows = |accepted: bool| {
            let told = move |item: &&Item| is_told_flow(item) && item.was_accepted() == accepted;
            ledger.items().iter().filter(told).map(describe).collect()
        };
        StepSummary {
            sent: flows(true),
            refused: flows(false),
            staged: ledger
                .items()
                .iter()
                .filter(|item| matches!(item.state, State::Staged))
                .map(describe)
                .collect(),
            dropped: ledger
                .dropped()
                .iter()
                .map(|action| action.entry(Status::DroppedOverCap, None).item())
                .collect(),
            contact: ledger.contact.clone(),
            opening: None,
        }
    }

    /// Until when the flows that ManyChat has accepted so far play; a request in flight does not count (WAIT-1, WAIT-5).
    #[must_use]
    pub fn plays_until(&self) -> Option<Instant> {
        self.ledger().plays_until
    }

    /// Whether an outcome is still to come.
    #[must_use]
    pub fn is_sending(&self) -> bool {
        !self.ledger().open_sends().is_empty()
    }

    /// Ends the turn's tools: no further request begins, the one in flight is waited for, at most for
    /// [`IN_FLIGHT_LIMIT`] (FLOW-7, LIM-8); then says what is to be recorded and what to be performed. Asked again it says the
    /// same.
    pub async fn finish(&self, ending: Ending) -> Finished {
        self.finish_within(ending, IN_FLIGHT_LIMIT).await
    }

    /// As [`Self::finish`], waiting no longer than `limit`, which may be shorter (ARC-45).
    pub async fn finish_within(&self, ending: Ending, limit: Duration) -> Finished {
        self.ended.store(true, Ordering::Release);
        if let Some(sender) = &self.sender {
            sender.close();
        }
        let open = self.ledger().open_sends();
        // What has not answered by then is recorded as not known.
        let _ = tokio::time::timeout(limit.min(IN_FLIGHT_LIMIT), join_all(open)).await;
        let finished = finish(&self.ledger(), ending, !self.definitions.is_empty());
        if !self.reported.swap(true, Ordering::Relaxed) {
            self.count(&finished);
        }
        finished
    }

    fn count(&self, finished: &Finished) {
        let record = finished.record.as_deref().unwrap_or_default();
        record.iter().for_each(|entry| COUNTERS.entry(entry));
        if !self.definitions.is_empty() {
            COUNTERS.one("turn", "with_tools");
        }
        if record.iter().any(|entry| entry.status == Status::DroppedOverCap) {
            COUNTERS.one("turn", "over_cap");
        }
    }

    /// The ledger, with the outcomes of all sends that have ended.
    fn ledger(&self) -> MutexGuard<'_, Ledger> {
        let mut ledger = self.ledger.lock().unwrap_or_else(PoisonError::into_inner);
        ledger.absorb();
        ledger
    }
}

/// A flow whose outcome is known. Stage writes that went ahead of a payment link are no news (STATE-8).
fn is_told_flow(item: &Item) -> bool {
    item.action.tool() == "send_flow" && matches!(item.state, State::Done(_))
}

fn describe(item: &Item) -> String {
    item.action.entry(Status::Staged, None).item()
}

#[cfg(test)]
#[path = "turn_tools_tests.rs"]
mod tests;
