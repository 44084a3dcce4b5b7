//! What a request is answered with, and the reply that stays owed until it was handed over.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::oneshot;

use super::confirmer::{Confirmer, Watched};
use crate::domain::{ConversationId, TurnId};

/// Bytes for the response.
pub struct Answer {
    /// A rendered Dynamic Block.
    pub body: Vec<u8>,
    /// The reply these bytes carry; `None` for a silent answer, a holding line or a handoff.
    pub owed: Option<OwedReply>,
}

/// Where an answer is awaited.
pub type Outgoing = oneshot::Sender<Answer>;

/// A settled reply on its way into the response. It ends in exactly one of two ways: handed over, or, when it is
/// dropped before that, through the outbox (ARC-46, GAP-CH-7).
pub struct OwedReply {
    turn: TurnId,
    confirmer: Confirmer,
    watched: Watched,
}

impl OwedReply {
    /// Tracks the reply of `turn` in the conversation's counts. `freed`: the conversation, when another process waits
    /// for its lane.
    pub(super) fn new(
        turn: TurnId,
        confirmer: Confirmer,
        counts: &ReplyCounts,
        freed: Option<ConversationId>,
    ) -> Self {
        let unconfirmed = Some(Counted::new(&counts.unconfirmed));
        let in_hand = Some(Counted::new(&counts.in_hand));
        Self { turn, confirmer, watched: Watched { unconfirmed, in_hand, freed } }
    }

    /// The last byte was taken by a socket that is not known to be closed.
    pub fn handed_over(mut self) {
        self.watched.in_hand = None;
    }
}

impl Drop for OwedReply {
    fn drop(&mut self) {
        let watched = std::mem::take(&mut self.watched);
        match watched.in_hand {
            None => self.confirmer.confirm(self.turn, watched),
            // Only when it stands in the outbox may the contact's next reply be settled (ARC-43).
            Some(_) => self.confirmer.queue(self.turn, watched),
        }
    }
}

/// Replies of one conversation on their way.
#[derive(Default)]
pub(super) struct ReplyCounts {
    /// Neither confirmed nor queued.
    pub(super) unconfirmed: Arc<AtomicUsize>,
    /// Given to a response, and not known yet whether they went out or into the outbox.
    pub(super) in_hand: Arc<AtomicUsize>,
}

impl ReplyCounts {
    pub(super) fn any_unconfirmed(&self) -> bool {
        self.unconfirmed.load(Ordering::Acquire) > 0
    }

    pub(super) fn any_in_hand(&self) -> bool {
        self.in_hand.load(Ordering::Acquire) > 0
    }
}

/// One more while it lives.
pub(super) struct Counted(Arc<AtomicUsize>);

impl Counted {
    pub(super) fn new(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::AcqRel);
        Self(Arc::clone(count))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}
