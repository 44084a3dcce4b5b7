//! What waits for a contact's conversation. It outlives the actor, so that a failing actor loses nothing.

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tracing::Span;

use super::machine::{BurstKey, Ticket};
use crate::actors::answer::{Answer, Counted, Outgoing, ReplyCounts};
use crate::actors::directory::Message;
use crate::actors::observe::Face;
use crate::channel::InboundMessage;
use crate::domain::{Deadline, Redacted};
use crate::turn::{Snapshot, is_opening};

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
    pub(super) inbound: InboundMessage,
    pub(super) snapshot: Arc<Snapshot>,
    pub(super) deadline: Deadline,
    pub(super) slot: Slot,
}

/// Where a request's one answer goes.
pub(super) struct Slot {
    outgoing: Option<Outgoing>,
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
            inbound: message.inbound,
            snapshot: message.snapshot,
            deadline: message.deadline,
            slot,
        });
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
            quiet: Duration::from_millis(u64::from(self.snapshot.tenant.rules.burst.quiet_ms)),
        }
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

impl Slot {
    pub(super) fn is_answered(&self) -> bool {
        self.outgoing.is_none()
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
