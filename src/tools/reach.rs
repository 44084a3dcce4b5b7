//! What tools reach outside while the model runs: flows sent at the call, and the contact read.

use futures_util::future::BoxFuture;

use super::action::Action;
use super::record::Entry;
use crate::manychat::ContactInfo;

/// Tells the actions of one turn apart, in the order in which they were taken on; the key of `rs_attempts` (ARC-46a).
/// Follow-ons have no number of their own here: an implementation numbers their requests itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
pub struct ActionNumber(pub u8);

/// Whoever carries out, for the contact of one turn, what cannot wait until the reply is out. An implementation knows
/// the contact; no caller can name one (TSET-12).
pub trait Reach: Send + Sync {
    /// One attempt: the action, then its follow-ons while each is accepted (PERF-2, PERF-3). Once begun it goes on when
    /// the future is dropped (FLOW-5), and its outcome is kept for whoever asks with the same number again. The group is
    /// never empty: the action's own entry first, then those of the follow-ons that were tried. Each failed entry has been
    /// logged, once, as `action failed` (FLOW-6). The one exception is an opening flow that another turn has claimed: nothing
    /// was sent, and the group is empty (FN-OPEN-9).
    fn send(&self, number: ActionNumber, action: Action) -> BoxFuture<'static, Vec<Entry>>;

    /// Reads the contact within 1500 ms (READ-6).
    fn read(&self) -> BoxFuture<'static, Result<ContactInfo, ReadFailure>>;
}

/// Why a read gave nothing. Holds none of ManyChat's words (READ-6).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadFailure {
    /// Class of the error, for the log.
    pub class: &'static str,
    /// True when it took too long.
    pub timed_out: bool,
}
