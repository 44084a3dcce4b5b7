//! Flows that go out while the model runs: one request after the other, in the order they were taken on (LIM-6).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared};

use super::action::{Action, FlowOrigin};
use super::reach::{ActionNumber, Reach};
use super::record::{Entry, OUTCOME_UNKNOWN, Status};

/// A send under way. Whoever waits for it drives it; all get the same outcome (STAGE-5).
pub(super) type Sending = Shared<BoxFuture<'static, Arc<Sent>>>;

/// What became of one action and what hangs on it.
pub(super) struct Sent {
    /// `None`: it was not begun, because the turn had ended.
    pub(super) entries: Option<Vec<Entry>>,
    /// When its outcome was known, its follow-ons included (WAIT-1).
    pub(super) returned: Instant,
    /// How long its requests took, the wait for earlier sends not counted.
    pub(super) took: Duration,
}

/// Sends for one contact, one turn.
pub(super) struct Sender {
    reach: Arc<dyn Reach>,
    closed: Arc<AtomicBool>,
}

impl Sender {
    pub(super) fn new(reach: Arc<dyn Reach>) -> Self {
        Self { reach, closed: Arc::default() }
    }

    pub(super) fn reach(&self) -> &dyn Reach {
        self.reach.as_ref()
    }

    /// From now on no further request begins. What has begun goes on (FLOW-5, FLOW-9).
    pub(super) fn close(&self) {
        self.closed.store(true, Ordering::Release);
    }

    /// One action behind an earlier one, whose failure does not stop it (FLOW-2). Each has an outcome of its own: what has
    /// ended is known while the next is still under way (FLOW-7).
    pub(super) fn begin(&self, earlier: Option<Sending>, number: ActionNumber, action: Action) -> Sending {
        let (reach, closed) = (Arc::clone(&self.reach), Arc::clone(&self.closed));
        let sending = async move {
            if let Some(earlier) = earlier {
                earlier.await;
            }
            let begun = Instant::now();
            let entries = if closed.load(Ordering::Acquire) {
                None
            } else {
                Some(attempt(reach.as_ref(), number, action).await)
            };
            Arc::new(Sent { entries, returned: Instant::now(), took: begun.elapsed() })
        };
        sending.boxed().shared()
    }
}

/// An implementation that answers nothing has left it open whether it did anything, but for an opening, which is then
/// another turn's (FN-OPEN-9).
async fn attempt(reach: &dyn Reach, number: ActionNumber, action: Action) -> Vec<Entry> {
    let unanswered = unanswered(&action);
    let entries = reach.send(number, action).await;
    let may_be_empty = unanswered.origin == Some(FlowOrigin::Opening);
    if entries.is_empty() && !may_be_empty { vec![unanswered] } else { entries }
}

/// The entry of a request that was begun and not answered when the turn ended (FLOW-7, ARC-41).
pub(super) fn unanswered(action: &Action) -> Entry {
    action.entry(Status::Failed, Some(format!("{OUTCOME_UNKNOWN}: no answer before the turn ended")))
}
