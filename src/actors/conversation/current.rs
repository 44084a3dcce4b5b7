//! A turn under way, as its actor holds it: the request, the callers that wait, and what the steps came to.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tracing::Span;

use super::actor::Shared;
use super::events::{Playing, Telling, Ticket};
use super::mailbox::{Arrival, Mailbox, Slot, repeats};
use super::steps::Copy;
use crate::actors::answer::{Answer, HandoffReceipt, Holder, Owed, OwedReply, Told};
use crate::actors::resolver::{Failure, Left};
use crate::domain::{ConversationId, Deadline, MessageId, ProcessId, TurnId};
use crate::store::open::OpenTurn;
use crate::tools::TurnTools;
use crate::turn::{self, Run, TurnError, TurnRequest, Verdict};

/// The turn under way.
pub(super) struct Current {
    pub(super) request: Arc<TurnRequest>,
    /// Of the request that gets the reply.
    pub(super) span: Span,
    /// The callers of its messages, in order; the last one gets the reply.
    callers: Vec<Caller>,
    pub(super) opened: Option<Arc<OpenTurn>>,
    /// What the turn may do, and has done: known here however its call ends (STAGE-1).
    pub(super) tools: Option<Arc<TurnTools>>,
    /// Until when a flow of the turn plays; known with the verdict.
    pub(super) plays_until: Option<Instant>,
    /// What is to be settled.
    pub(super) verdict: Option<Verdict>,
    pub(super) rendered: Option<Vec<u8>>,
    /// Another process waits for the lane.
    pub(super) others_wait: bool,
    /// The request was answered without a message.
    pub(super) silenced: bool,
    /// Whether the contact has the escalation copy.
    pub(super) told: Told,
    /// How the turn failed, if it is known.
    pub(super) error: Option<TurnError>,
    /// How often the turn has waited for the reply before it to leave our hands.
    pub(super) in_hand_waits: u32,
}

struct Caller {
    ticket: Ticket,
    deadline: Deadline,
    slot: Slot,
}

impl Current {
    /// A turn of these messages for `process`; `None` without any.
    pub(super) fn of(arrivals: Vec<Arrival>, process: ProcessId) -> Option<Self> {
        let (first, last) = (arrivals.first()?, arrivals.last()?);
        let (id, snapshot) = (TurnId::from(first.row.id), Arc::clone(&last.snapshot));
        let (presented_secret, span) = (last.slot.presented_secret.clone(), last.slot.span.clone());
        let mut request = TurnRequest {
            id,
            process,
            run: Run::Asked,
            messages: Vec::with_capacity(arrivals.len()),
            rows: Vec::with_capacity(arrivals.len()),
            known_digest: None,
            snapshot,
            presented_secret,
        };
        let mut callers = Vec::with_capacity(arrivals.len());
        for arrival in arrivals {
            request.messages.push(arrival.inbound);
            request.rows.push(arrival.row);
            callers.push(Caller { ticket: arrival.ticket, deadline: arrival.deadline, slot: arrival.slot });
        }
        Some(Self {
            request: Arc::new(request),
            span,
            callers,
            opened: None,
            tools: None,
            plays_until: None,
            verdict: None,
            rendered: None,
            others_wait: false,
            silenced: false,
            told: Told::No,
            error: None,
            in_hand_waits: 0,
        })
    }

    /// Takes the messages after the first `count` out, to go back to where they waited.
    pub(super) fn split_off(&mut self, count: usize) -> Vec<Arrival> {
        if count >= self.callers.len() {
            return Vec::new();
        }
        let callers = self.callers.split_off(count);
        let messages = self.request.messages.iter().zip(&self.request.rows).skip(count);
        let left = callers
            .into_iter()
            .zip(messages)
            .map(|(caller, (inbound, row))| Arrival {
                ticket: caller.ticket,
                row: *row,
                inbound: inbound.clone(),
                snapshot: Arc::clone(&caller.slot.snapshot),
                deadline: caller.deadline,
                slot: caller.slot,
            })
            .collect();
        let mut request = self.request.first(count);
        if let Some(live) = self.callers.last() {
            self.span = live.slot.span.clone();
            request.presented_secret = live.slot.presented_secret.clone();
        }
        self.request = Arc::new(request);
        left
    }

    /// All of its messages, to go back to where they waited; `kept` are those that stand in the inbox.
    pub(super) fn into_arrivals(mut self, kept: &[MessageId]) -> Vec<Arrival> {
        let mut arrivals = self.split_off(0);
        for arrival in &mut arrivals {
            arrival.row.stored = kept.contains(&arrival.row.id);
        }
        arrivals
    }

    /// True when every message stands in the inbox: losing the flight loses none.
    pub(super) fn is_stored(&self) -> bool {
        self.request.rows.iter().all(|row| row.stored)
    }

    /// The conversation, when another process is to be told that its lane is free.
    pub(super) fn freed(&self) -> Option<ConversationId> {
        self.opened.as_ref().filter(|_| self.others_wait).map(|opened| opened.conversation)
    }

    /// The message whose request gets the reply.
    pub(super) fn live(&self) -> Option<Ticket> {
        self.callers.last().map(|live| live.ticket)
    }

    /// What a flight may take: the rest of the deadline, or no limit of a request that is answered already.
    pub(super) fn limit(&self) -> Option<Duration> {
        let live = self.callers.last().filter(|live| !live.slot.is_answered())?;
        Some(live.deadline.budget())
    }

    /// How the turn failed. Without an error it was cut short, by a panic or by the end of its actor.
    pub(super) fn failure(&mut self, conversation: Option<ConversationId>) -> Failure {
        let cause = self.error.take().unwrap_or(TurnError::CutShort);
        match &self.opened {
            Some(opened) => Failure { left: Left::Opened, cause, conversation: Some(opened.conversation) },
            None => Failure::before_open(cause, conversation),
        }
    }

    /// Gives the place of a caller who is gone to the one who repeats its message (DEC-30). Returns the message's
    /// ticket.
    pub(super) fn join(&mut self, repeated: &mut Arrival) -> Option<Ticket> {
        let callers = self.callers.iter_mut().zip(&self.request.messages);
        let (first, _) = callers.into_iter().find(|(caller, message)| {
            caller.slot.is_gone()
                && caller.slot.presented_secret == repeated.slot.presented_secret
                && repeats(message, &repeated.inbound)
        })?;
        std::mem::swap(&mut first.slot, &mut repeated.slot);
        first.deadline = repeated.deadline;
        Some(first.ticket)
    }

    /// Answers the request of one of its messages; false when it is none of them.
    pub(super) fn tell(
        &mut self,
        ticket: Ticket,
        telling: Telling,
        shared: &Shared,
        mailbox: &Mailbox,
    ) -> bool {
        self.silenced |= self.live() == Some(ticket) && telling == Telling::Silent;
        let Some(place) = self.callers.iter().position(|caller| caller.ticket == ticket) else {
            return false;
        };
        let answer = self.answer(place, telling, shared, mailbox);
        if let Some(caller) = self.callers.get_mut(place) {
            caller.slot.send(answer);
        }
        true
    }

    /// A reply that is still on its way tells enough (LANE-7), a flow that plays speaks for itself (WAIT-5), and where a
    /// person has taken over nothing is said (DEC-9).
    fn says_no_holding_line(&self) -> bool {
        let opened = self.opened.as_ref();
        let plays = self.tools.as_ref().and_then(|tools| turn::plays_for(tools.plays_until()));
        plays.is_some()
            || opened.is_some_and(|opened| opened.reply_queued || turn::may_be_silent(&self.request, opened))
    }

    /// Takes in what was decided, and says whether a flow plays before it (WAIT-2).
    pub(super) fn decided(&mut self, verdict: Verdict) -> Playing {
        self.plays_until = verdict.plays_until();
        self.verdict = Some(verdict);
        let deadline = self.callers.last().map(|live| live.deadline.at());
        match (self.plays_until, deadline) {
            (Some(until), Some(deadline)) if turn::plays_for(Some(until)).is_some() => {
                if until <= deadline {
                    Playing::UntilDeadline
                } else {
                    Playing::Longer
                }
            }
            _ => Playing::No,
        }
    }

    fn answer(
        &mut self,
        place: usize,
        telling: Telling,
        shared: &Shared,
        mailbox: &Mailbox,
    ) -> Option<Answer> {
        let Some(copy) = copy_of(telling) else {
            let body = self.rendered.take()?;
            let (confirmer, freed) = (shared.confirmer.clone(), self.freed());
            let holder = Holder { pulse: shared.pulse.clone(), process: self.request.process };
            let owed = OwedReply::new(self.request.id, holder, confirmer, &mailbox.replies, freed);
            return Some(Answer { body, owed: Some(Owed::Reply(owed)) });
        };
        let slot = &self.callers.get(place)?.slot;
        match copy {
            Copy::Handoff => {
                let (answer, told) = handoff_answer(slot, shared)?;
                self.told = told;
                Some(answer)
            }
            Copy::HoldingLine if self.says_no_holding_line() => copy_answer(Copy::Silent, slot, shared),
            copy => copy_answer(copy, slot, shared),
        }
    }
}

/// The tenant copy of a telling; `None` for the reply itself.
pub(super) const fn copy_of(telling: Telling) -> Option<Copy> {
    match telling {
        Telling::Silent => Some(Copy::Silent),
        Telling::HoldingLine => Some(Copy::HoldingLine),
        Telling::Handoff => Some(Copy::Handoff),
        Telling::Reply => None,
    }
}

/// The escalation copy, and how to know whether it was handed over.
fn handoff_answer(slot: &Slot, shared: &Shared) -> Option<(Answer, Told)> {
    let answer = copy_answer(Copy::Handoff, slot, shared)?;
    let (receipt, told) = HandoffReceipt::new();
    Some((Answer { owed: Some(Owed::Handoff(receipt)), ..answer }, told))
}

pub(super) fn copy_answer(copy: Copy, slot: &Slot, shared: &Shared) -> Option<Answer> {
    let body = shared.steps.render(copy, &slot.snapshot, slot.presented_secret.expose())?;
    Some(Answer { body, owed: None })
}
