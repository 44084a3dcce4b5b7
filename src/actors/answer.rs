//! What a request is answered with, and the reply that stays owed until it was handed over.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::oneshot;

use super::confirmer::{Confirmer, Watched};
use crate::domain::{ConversationId, ProcessId, TurnId};
use crate::store::Pulse;

/// Bytes for the response.
pub struct Answer {
    /// A rendered Dynamic Block.
    pub body: Vec<u8>,
    /// What depends on these bytes reaching the caller; `None` for a silent answer or a holding line.
    pub owed: Option<Owed>,
}

/// Something that must be known to have been handed over. Dropping it says that it was not.
pub enum Owed {
    /// A settled reply.
    Reply(OwedReply),
    /// The escalation copy of a turn that failed.
    Handoff(HandoffReceipt),
}

impl Owed {
    /// The last byte was taken by a socket that is not known to be closed.
    pub fn handed_over(self) {
        match self {
            Self::Reply(reply) => reply.handed_over(),
            Self::Handoff(receipt) => receipt.handed_over(),
        }
    }

    /// Whether this process may still hand it over. After a silence others may have sent the reply (ARC-44).
    #[must_use]
    pub fn is_ours(&self) -> bool {
        match self {
            Self::Reply(reply) => reply.holder.holds(),
            Self::Handoff(_) => true,
        }
    }
}

/// The process that a reply was settled in, and whether it still is that one.
pub(super) struct Holder {
    pub(super) pulse: Pulse,
    pub(super) process: ProcessId,
}

impl Holder {
    fn holds(&self) -> bool {
        self.pulse.holds(self.process)
    }
}

/// Tells whoever ends a failed turn that the contact has the escalation copy; dropped before that, that it has not, so
/// that the copy goes through the outbox (ARC-32, ARC-40, GAP-CH-7).
pub struct HandoffReceipt(oneshot::Sender<()>);

impl HandoffReceipt {
    /// A receipt and where it arrives.
    pub(super) fn new() -> (Self, Told) {
        let (receipt, told) = oneshot::channel();
        (Self(receipt), Told::OnReceipt(told))
    }

    fn handed_over(self) {
        // Nobody waits for it when the process is going down.
        let _ = self.0.send(());
    }
}

/// Whether a contact has read the escalation copy.
pub(super) enum Told {
    /// It has not.
    No,
    /// If the copy was handed over.
    OnReceipt(oneshot::Receiver<()>),
}

/// How long a receipt is waited for: a response takes its one chunk at once or is dropped.
const RECEIPT: Duration = Duration::from_secs(10);

impl Told {
    /// Waits until it is known.
    pub(super) async fn known(self) -> bool {
        match self {
            Self::No => false,
            Self::OnReceipt(receipt) => matches!(tokio::time::timeout(RECEIPT, receipt).await, Ok(Ok(()))),
        }
    }
}

/// Where an answer is awaited.
pub type Outgoing = oneshot::Sender<Answer>;

/// A settled reply on its way into the response. It ends in exactly one of two ways: handed over, or, when it is
/// dropped before that, through the outbox (ARC-46, GAP-CH-7).
pub struct OwedReply {
    turn: TurnId,
    holder: Holder,
    confirmer: Confirmer,
    watched: Watched,
}

impl OwedReply {
    /// Tracks the reply of `turn` in the conversation's counts. `freed`: the conversation, when another process waits
    /// for its lane.
    pub(super) fn new(
        turn: TurnId,
        holder: Holder,
        confirmer: Confirmer,
        counts: &ReplyCounts,
        freed: Option<ConversationId>,
    ) -> Self {
        let unconfirmed = Some(Counted::new(&counts.unconfirmed));
        let in_hand = Some(Counted::new(&counts.in_hand));
        Self { turn, holder, confirmer, watched: Watched { unconfirmed, in_hand, freed } }
    }

    fn handed_over(mut self) {
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

/// A reply whose Settle did not answer: said or not, nobody knows yet. While this lives, the contact's next reply does not go
/// inline, where it could come before this one (ARC-43).
pub(super) struct Undecided {
    _unconfirmed: Counted,
    _in_hand: Counted,
}

impl Undecided {
    pub(super) fn new(counts: &ReplyCounts) -> Self {
        Self { _unconfirmed: Counted::new(&counts.unconfirmed), _in_hand: Counted::new(&counts.in_hand) }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::boot_clock_ms;

    /// ARC-43, ARC-44: a reply that was settled before its process took a new id is no longer this process's to give.
    #[test]
    fn a_settled_reply_is_given_by_the_process_that_settled_it() {
        let process = ProcessId::fresh();
        let pulse = Pulse::new(process, Duration::from_secs(20));
        let holder = Holder { pulse: pulse.clone(), process };
        let reply =
            OwedReply::new(TurnId::fresh(), holder, Confirmer::detached(), &ReplyCounts::default(), None);
        let owed = Owed::Reply(reply);
        assert!(pulse.confirmed(boot_clock_ms()) && owed.is_ours());
        assert!(pulse.take_new_id(ProcessId::fresh(), boot_clock_ms()));
        assert!(!owed.is_ours());
    }
}
