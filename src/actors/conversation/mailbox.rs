//! What waits for a contact's conversation. It outlives the actor, so that a failing actor loses nothing.

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tracing::Span;

use super::events::{BurstKey, Ticket};
use crate::actors::answer::{Answer, Counted, Outgoing, ReplyCounts};
use crate::actors::directory::{IsGone, Message};
use crate::actors::observe::Face;
use crate::channel::InboundMessage;
use crate::domain::{Deadline, MessageId, ProcessId, Redacted, TurnId};
use crate::turn::{MessageRow, Run, Snapshot, TurnRequest, is_opening};

/// Messages of one contact in order of arrival.
pub(in crate::actors) struct Mailbox {
    inner: Mutex<Inner>,
    /// What the conversation shows of itself.
    pub(in crate::actors) face: Face,
    /// Replies given to a response.
    pub(in crate::actors) replies: ReplyCounts,
}

struct Inner {
    waiting: VecDeque<Arrival>,
    next_ticket: u64,
    last_used: Instant,
}

/// A message with its ticket.
pub(super) struct Arrival {
    pub(super) ticket: Ticket,
    pub(super) row: MessageRow,
    pub(super) inbound: InboundMessage,
    pub(super) snapshot: Arc<Snapshot>,
    pub(super) deadline: Deadline,
    pub(super) slot: Slot,
}

/// Where a request's one answer goes.
pub(super) struct Slot {
    outgoing: Option<Outgoing>,
    is_gone: IsGone,
    pub(super) presented_secret: Redacted<Arc<str>>,
    pub(super) snapshot: Arc<Snapshot>,
    pub(super) span: Span,
    /// Counts the message as open until it is answered or dropped.
    open: Option<Counted>,
}

/// What the machine needs to know of a message.
pub(super) struct Notice {
    pub(super) ticket: Ticket,
    pub(super) deadline: Deadline,
    pub(super) burst: Option<BurstKey>,
    pub(super) answered: bool,
    /// It stands in the inbox.
    pub(super) stored: bool,
    /// It may be the repetition of another (DEC-30).
    pub(super) repeatable: bool,
    /// `rules.burst.quietMs`.
    pub(super) quiet: Duration,
}

impl Mailbox {
    pub(in crate::actors) fn new() -> Self {
        let inner = Inner { waiting: VecDeque::new(), next_ticket: 1, last_used: Instant::now() };
        Self { inner: Mutex::new(inner), face: Face::new(), replies: ReplyCounts::default() }
    }

    /// Puts a message behind the others.
    pub(in crate::actors) fn put(&self, message: Message, open: &Arc<AtomicUsize>) {
        let slot = Slot {
            outgoing: Some(message.outgoing),
            is_gone: message.is_gone,
            presented_secret: message.presented_secret,
            snapshot: Arc::clone(&message.snapshot),
            span: message.span,
            open: Some(Counted::new(open)),
        };
        let mut inner = self.lock();
        let ticket = Ticket::new(inner.next_ticket);
        inner.next_ticket += 1;
        inner.last_used = Instant::now();
        inner.waiting.push_back(Arrival {
            ticket,
            row: MessageRow { id: MessageId::fresh(), stored: false },
            inbound: message.inbound,
            snapshot: message.snapshot,
            deadline: message.deadline,
            slot,
        });
    }

    /// Messages that wait with the same proof of their contact as this one. Whether a proof is right, only the database
    /// knows: who sends wrong ones uses up a bound of its own, not the contact's (LANE-3).
    pub(in crate::actors) fn len_beside(&self, message: &InboundMessage) -> usize {
        let inner = self.lock();
        inner.waiting.iter().filter(|arrival| arrival.inbound.token == message.token).count()
    }

    /// Messages that wait.
    pub(in crate::actors) fn len(&self) -> usize {
        self.lock().waiting.len()
    }

    /// True when nothing waits and no reply is under way. Whether a turn runs, its actor knows.
    pub(in crate::actors) fn is_at_rest(&self) -> bool {
        self.len() == 0 && !self.replies.any_unconfirmed()
    }

    /// How long nothing has arrived.
    pub(in crate::actors) fn idle_for(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.lock().last_used)
    }

    /// The messages behind `seen`, for the machine; they stay until their turn takes them.
    pub(super) fn news(&self, seen: Ticket) -> Vec<Notice> {
        self.lock().waiting.iter().filter(|arrival| arrival.ticket > seen).map(Arrival::notice).collect()
    }

    /// How long to wait for another message behind `first`: the quiet time, cut to half of what is left of the
    /// deadline (DEC-35).
    pub(super) fn quiet_time(&self, first: Ticket) -> Duration {
        let inner = self.lock();
        let found = inner.waiting.iter().find(|arrival| arrival.ticket == first);
        found.map_or(Duration::ZERO, |arrival| {
            let left = arrival.deadline.at().saturating_duration_since(Instant::now());
            arrival.notice().quiet.min(left / 2)
        })
    }

    /// Takes the messages of a turn out.
    pub(super) fn take(&self, tickets: &[Ticket]) -> Vec<Arrival> {
        let mut inner = self.lock();
        let (taken, left) =
            inner.waiting.drain(..).partition::<Vec<_>, _>(|arrival| tickets.contains(&arrival.ticket));
        // A new queue instead of the old one's capacity: idle conversations must stay small (ARC-25).
        inner.waiting = left.into();
        taken
    }

    /// Puts messages back where they stood before their turn took them.
    pub(super) fn put_back(&self, arrivals: Vec<Arrival>) {
        let mut inner = self.lock();
        for arrival in arrivals {
            let place = inner.waiting.partition_point(|other| other.ticket < arrival.ticket);
            inner.waiting.insert(place, arrival);
        }
    }

    /// Notes that a message stands in the inbox, for whoever takes it, a successor of this actor included.
    pub(super) fn mark_stored(&self, ticket: Ticket) {
        let mut inner = self.lock();
        if let Some(arrival) = inner.waiting.iter_mut().find(|arrival| arrival.ticket == ticket) {
            arrival.row.stored = true;
        }
    }

    /// Looks at a message that still waits.
    pub(super) fn look_at<T>(&self, ticket: Ticket, look: impl FnOnce(&Arrival) -> T) -> Option<T> {
        self.lock().waiting.iter().find(|arrival| arrival.ticket == ticket).map(look)
    }

    /// Gives the place of a waiting message whose caller is gone to a repetition of it (DEC-30). Returns its ticket.
    pub(super) fn join(&self, repeated: &mut Arrival) -> Option<Ticket> {
        let mut inner = self.lock();
        let first = inner.waiting.iter_mut().find(|first| first.may_be_joined_by(repeated))?;
        std::mem::swap(&mut first.slot, &mut repeated.slot);
        first.deadline = repeated.deadline;
        Some(first.ticket)
    }

    /// Answers a message that still waits.
    pub(super) fn tell(&self, ticket: Ticket, answer: impl FnOnce(&Slot) -> Option<Answer>) {
        let mut inner = self.lock();
        if let Some(arrival) = inner.waiting.iter_mut().find(|arrival| arrival.ticket == ticket) {
            let answer = answer(&arrival.slot);
            arrival.slot.send(answer);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Arrival {
    fn notice(&self) -> Notice {
        Notice {
            ticket: self.ticket,
            deadline: self.deadline,
            burst: self.burst_key(),
            answered: self.slot.is_answered(),
            stored: self.row.stored,
            repeatable: self.inbound.media.is_none(),
            quiet: Duration::from_millis(u64::from(self.snapshot.tenant.rules.burst.quiet_ms)),
        }
    }

    /// A turn of this message alone.
    pub(super) fn as_request(&self, process: ProcessId) -> TurnRequest {
        TurnRequest {
            id: TurnId::from(self.row.id),
            process,
            run: Run::Asked,
            messages: vec![self.inbound.clone()],
            rows: vec![self.row],
            known_digest: None,
            snapshot: Arc::clone(&self.snapshot),
            presented_secret: self.slot.presented_secret.clone(),
        }
    }

    /// Whether `repeated` is this message once more, sent because its caller is gone (DEC-30).
    fn may_be_joined_by(&self, repeated: &Self) -> bool {
        self.slot.is_gone()
            && self.slot.presented_secret == repeated.slot.presented_secret
            && repeats(&self.inbound, &repeated.inbound)
    }

    /// Messages under one configuration with the same proof of their contact belong together; media and the
    /// scripted opening run alone (DEC-5, DEC-23).
    fn burst_key(&self) -> Option<BurstKey> {
        let rules = &self.snapshot.tenant.rules;
        let alone = self.inbound.media.is_some()
            || is_opening(rules.opening_trigger.as_ref(), self.inbound.text.expose());
        if alone || !rules.burst.answer_together {
            return None;
        }
        let mut hasher = DefaultHasher::new();
        self.inbound.token.as_ref().map(Redacted::expose).hash(&mut hasher);
        Arc::as_ptr(&self.snapshot).hash(&mut hasher);
        Some(BurstKey::new(hasher.finish()))
    }
}

/// How long after a message an equal one can be its repetition (DEC-30).
const REPEAT_WITHIN: jiff::SignedDuration = jiff::SignedDuration::from_secs(30);

/// Equal words with an equal proof within 30 s.
pub(super) fn repeats(first: &InboundMessage, second: &InboundMessage) -> bool {
    let later = second.received_at.duration_since(first.received_at);
    first.text == second.text && first.token == second.token && later <= REPEAT_WITHIN
}

impl Slot {
    pub(super) fn is_answered(&self) -> bool {
        self.outgoing.is_none()
    }

    /// True when nobody reads the answer any more. A caller who has been answered is not gone, whatever became of the
    /// connection (DEC-35).
    pub(super) fn is_gone(&self) -> bool {
        self.outgoing.as_ref().is_some_and(|outgoing| outgoing.is_closed() || (self.is_gone)())
    }

    /// Sends the answer. Without one the channel closes and the request answers the handoff by itself; an answer
    /// whose request is gone is dropped, and a reply in it goes through the outbox.
    pub(super) fn send(&mut self, answer: Option<Answer>) {
        self.open = None;
        if let (Some(outgoing), Some(answer)) = (self.outgoing.take(), answer) {
            drop(outgoing.send(answer));
        }
    }
}
