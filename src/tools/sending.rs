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

/// What became of a send: of the writes that went first, and of the flow.
pub(super) struct Sent {
    /// An action that was not begun because the turn had ended has no entries.
    pub(super) groups: Vec<(ActionNumber, Option<Vec<Entry>>)>,
    /// When the flow's outcome was known, its follow-ons included (WAIT-1).
    pub(super) returned: Instant,
    /// How long the requests took, the wait for earlier sends not counted.
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

    /// The actions of one send, in order, behind an earlier send. One that fails does not stop the next (FLOW-2).
    pub(super) fn begin(&self, earlier: Option<Sending>, actions: Vec<(ActionNumber, Action)>) -> Sending {
        let (reach, closed) = (Arc::clone(&self.reach), Arc::clone(&self.closed));
        let sending = async move {
            if let Some(earlier) = earlier {
                earlier.await;
            }
            let begun = Instant::now();
            let mut groups = Vec::with_capacity(actions.len());
            for (number, action) in actions {
                let entries = if closed.load(Ordering::Acquire) {
                    None
                } else {
                    Some(attempt(reach.as_ref(), number, action).await)
                };
                groups.push((number, entries));
            }
            Arc::new(Sent { groups, returned: Instant::now(), took: begun.elapsed() })
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
