//! Maps a contact to its conversation actor, starts it on demand and lets it go when it is idle (ARC-20).
//!
//! Why no message is lost: a message is put into the contact's mailbox while the map's shard is locked, and an
//! actor may only leave under that same lock, with an empty mailbox. The mailbox outlives the actor: when an
//! actor fails, its successor finds everything that was waiting. Messages between actors carry no data that
//! could be lost with them.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use actix::{Actor, Addr};
use actix_rt::ArbiterHandle;
use dashmap::DashMap;
use dashmap::mapref::entry::Entry as Place;
use tracing::Span;

use super::conversation::{ConversationActor, Leave, Mailbox, Poke, Shared};
use super::observe::{ActorsReport, BusyConversation};
use crate::channel::InboundMessage;
use crate::domain::{Deadline, Redacted, SubscriberId, TenantId};
use crate::turn::Snapshot;

use super::answer::Outgoing;

/// Bounds of what is accepted (ARC-23, DEC-35). actix mailboxes are no bound, so these are counted by us.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Messages of one contact that may wait, those with another token counted apart (LANE-3).
    pub waiting_per_contact: usize,
    /// Messages accepted by this process and not answered yet, or answered by a turn that failed and is not on record yet.
    pub open_messages: usize,
    /// After how long without work a conversation leaves memory.
    pub idle: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self { waiting_per_contact: 20, open_messages: 10_000, idle: Duration::from_secs(300) }
    }
}

/// Whether the caller of a request is known to have closed the connection.
pub type IsGone = Arc<dyn Fn() -> bool + Send + Sync>;

/// One request, checked, with the place its answer is awaited at.
pub struct Message {
    /// What the contact wrote.
    pub inbound: InboundMessage,
    /// The secret this caller presented; the callback must carry it back (AUTH-6).
    pub presented_secret: Redacted<Arc<str>>,
    /// The configuration at the start of the request (TURN-19).
    pub snapshot: Arc<Snapshot>,
    /// By when it must be answered.
    pub deadline: Deadline,
    /// Where the answer goes.
    pub outgoing: Outgoing,
    /// Whether its caller is gone (DEC-30).
    pub is_gone: IsGone,
    /// The request's span: its fields stand on the log lines of the turn (OPS-1).
    pub span: Span,
}

/// Whether a message was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accepted {
    /// It waits for its turn or runs.
    Yes,
    /// A bound is reached: the request gets the overload answer (SHED-2).
    Overloaded,
}

/// A contact, as the directory knows it.
pub(super) type ContactKey = (TenantId, SubscriberId);

struct Resident {
    address: Addr<ConversationActor>,
    /// Tells this actor from its predecessors and successors.
    generation: u64,
    mailbox: Arc<Mailbox>,
}

/// The conversations of this process.
pub struct Directory {
    residents: DashMap<ContactKey, Resident>,
    arbiters: Vec<ArbiterHandle>,
    placement: RandomState,
    shared: Arc<Shared>,
    limits: Limits,
    generations: AtomicU64,
    open_messages: Arc<AtomicUsize>,
    passivated: AtomicU64,
    failed: AtomicU64,
}

impl Directory {
    /// An empty directory over these arbiters; with none, actors run where the directory is used, as tests need.
    #[must_use]
    pub(super) fn new(arbiters: Vec<ArbiterHandle>, shared: Arc<Shared>, limits: Limits) -> Arc<Self> {
        Arc::new(Self {
            residents: DashMap::with_shard_amount(64),
            arbiters,
            placement: RandomState::new(),
            shared,
            limits,
            generations: AtomicU64::new(0),
            open_messages: Arc::new(AtomicUsize::new(0)),
            passivated: AtomicU64::new(0),
            failed: AtomicU64::new(0),
        })
    }

    /// Hands a message to its conversation, starting the actor when there is none.
    pub fn deliver(self: &Arc<Self>, message: Message) -> Accepted {
        if self.is_full() {
            return Accepted::Overloaded;
        }
        let key = (message.inbound.tenant.clone(), message.inbound.subscriber.clone());
        let mut resident = match self.residents.entry(key.clone()) {
            Place::Occupied(place) => place.into_ref(),
            Place::Vacant(place) => place.insert(self.start(&key, Arc::new(Mailbox::new()))),
        };
        if resident.mailbox.len_beside(&message.inbound) >= self.limits.waiting_per_contact {
            return Accepted::Overloaded;
        }
        resident.mailbox.put(message, &self.open_messages);
        self.wake(&key, &mut resident);
        Accepted::Yes
    }

    /// Pokes the actor; one that has failed is replaced. The caller holds the shard.
    fn wake(self: &Arc<Self>, key: &ContactKey, resident: &mut Resident) {
        // A fresh clone of an address is never full, so an error means that the actor is gone.
        if resident.address.clone().try_send(Poke).is_err() {
            let mailbox = Arc::clone(&resident.mailbox);
            *resident = self.start(key, mailbox);
            resident.address.do_send(Poke);
        }
    }

    fn start(self: &Arc<Self>, key: &ContactKey, mailbox: Arc<Mailbox>) -> Resident {
        let generation = self.generations.fetch_add(1, Ordering::Relaxed);
        let actor = ConversationActor::new(
            key.clone(),
            generation,
            Arc::clone(&mailbox),
            Arc::downgrade(self),
            Arc::clone(&self.shared),
        );
        let address = match self.arbiter_of(key) {
            Some(arbiter) => ConversationActor::start_in_arbiter(arbiter, move |_| actor),
            None => actor.start(),
        };
        Resident { address, generation, mailbox }
    }

    /// Spreads contacts over the arbiters by a hash (ARC-21).
    fn arbiter_of(&self, key: &ContactKey) -> Option<&ArbiterHandle> {
        let count = u64::try_from(self.arbiters.len()).ok().filter(|count| *count > 0)?;
        let place = self.placement.hash_one(key) % count;
        self.arbiters.get(usize::try_from(place).unwrap_or(0))
    }

    /// Lets an actor leave, unless a message has reached its mailbox meanwhile. True when it may stop.
    pub(super) fn let_go(&self, key: &ContactKey, generation: u64) -> bool {
        let left = self
            .residents
            .remove_if(key, |_, resident| resident.generation == generation && resident.mailbox.is_at_rest());
        self.passivated.fetch_add(u64::from(left.is_some()), Ordering::Relaxed);
        left.is_some()
    }

    /// An actor has ended without asking. Its successor takes over what waits, and the replies that are still under way: what
    /// comes meanwhile goes behind them (ARC-43).
    pub(super) fn ended(self: &Arc<Self>, key: &ContactKey, generation: u64) {
        let Place::Occupied(mut place) = self.residents.entry(key.clone()) else { return };
        if place.get().generation != generation {
            return;
        }
        self.failed.fetch_add(1, Ordering::Relaxed);
        if place.get().mailbox.is_at_rest() {
            place.remove();
            return;
        }
        let mailbox = Arc::clone(&place.get().mailbox);
        let successor = self.start(key, mailbox);
        successor.address.do_send(Poke);
        place.insert(successor);
    }

    /// Asks every conversation that has been idle long enough to leave.
    pub fn sweep(&self) {
        let now = Instant::now();
        for resident in &self.residents {
            if resident.mailbox.idle_for(now) >= self.limits.idle {
                // An actor that is gone already needs no asking.
                let _ = resident.address.clone().try_send(Leave);
            }
        }
    }

    /// True when no message of any contact is taken. Who was told of a person in an outage is answered, but stays in memory
    /// until that is on record (ARC-23).
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.open_messages() + self.shared.steps.unresolved() >= self.limits.open_messages
    }

    /// Messages accepted and not answered yet.
    #[must_use]
    pub fn open_messages(&self) -> usize {
        self.open_messages.load(Ordering::Acquire)
    }

    /// True when no turn runs and no message waits in any conversation.
    #[must_use]
    pub fn is_quiet(&self) -> bool {
        self.residents
            .iter()
            .all(|resident| resident.mailbox.len() == 0 && resident.mailbox.face.busy(0).is_none())
    }

    /// Conversations in memory.
    #[must_use]
    pub fn len(&self) -> usize {
        self.residents.len()
    }

    /// True when no conversation is in memory.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.residents.is_empty()
    }

    /// Totals and the conversations that have been busy longest, at most `most`.
    #[must_use]
    pub fn report(&self, most: usize) -> ActorsReport {
        let mut busy: Vec<BusyConversation> = self
            .residents
            .iter()
            .filter_map(|resident| resident.mailbox.face.busy(resident.mailbox.len()))
            .collect();
        let count = busy.len();
        busy.sort_by_key(|conversation| std::cmp::Reverse(conversation.phase_age_ms));
        busy.truncate(most);
        ActorsReport {
            conversations: self.residents.len(),
            busy: count,
            open_messages: self.open_messages(),
            started: self.generations.load(Ordering::Relaxed),
            passivated: self.passivated.load(Ordering::Relaxed),
            failed: self.failed.load(Ordering::Relaxed),
            oldest_busy: busy,
            ..ActorsReport::default()
        }
    }
}

#[cfg(test)]
#[path = "directory_tests.rs"]
mod tests;
