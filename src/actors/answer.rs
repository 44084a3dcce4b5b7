//! What a request is answered with, and the reply that stays owed until it was handed over.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::oneshot;

use super::confirmer::Confirmer;
use crate::domain::TurnId;

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
    unconfirmed: Arc<AtomicUsize>,
    handed_over: bool,
}

impl OwedReply {
    /// Tracks the reply of `turn`; `unconfirmed` counts the conversation's replies that are under way.
    pub(super) fn new(turn: TurnId, confirmer: Confirmer, unconfirmed: Arc<AtomicUsize>) -> Self {
        unconfirmed.fetch_add(1, Ordering::AcqRel);
        Self { turn, confirmer, unconfirmed, handed_over: false }
    }

    /// The last byte was taken by a socket that is not known to be closed.
    pub fn handed_over(mut self) {
        self.handed_over = true;
    }
}

impl Drop for OwedReply {
    fn drop(&mut self) {
        let count = UnconfirmedCount(Arc::clone(&self.unconfirmed));
        if self.handed_over {
            self.confirmer.confirm(self.turn, Some(count));
        } else {
            self.confirmer.queue(self.turn, Some(count));
        }
    }
}

/// Lowers the conversation's count when the confirmation is done, however it ends.
pub(super) struct UnconfirmedCount(Arc<AtomicUsize>);

impl Drop for UnconfirmedCount {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}
