//! Ends turns whose flight did not answer: behind the request, repeated until the database knows (ARC-31).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::runtime::Handle;

use super::answer::Counted;
use super::confirmer::Confirmer;
use super::outbox::OutboxWaker;
use crate::store::owed::{self, Resolved};
use crate::turn::{self, TurnContext, TurnRequest};

/// When the database is asked. A flight that was cut off may still be carried out by the server for a while, so
/// "nothing there" is believed only at the end.
const ASK_AFTER: [Duration; 5] = [
    Duration::from_millis(50),
    Duration::from_secs(1),
    Duration::from_secs(5),
    Duration::from_secs(15),
    Duration::from_secs(40),
];
const RETRY: Duration = Duration::from_secs(2);

/// Resolves turns in the background; cheap to clone.
#[derive(Clone)]
pub(super) struct Resolver {
    context: Arc<TurnContext>,
    confirmer: Confirmer,
    waker: OutboxWaker,
    io: Handle,
    open: Arc<AtomicUsize>,
}

impl Resolver {
    pub(super) fn new(
        context: Arc<TurnContext>,
        confirmer: Confirmer,
        waker: OutboxWaker,
        io: Handle,
    ) -> Self {
        Self { context, confirmer, waker, io, open: Arc::default() }
    }

    /// Turns of which the database has not said anything yet. What it says later is found by whoever sweeps up after
    /// this process.
    pub(super) fn open(&self) -> usize {
        self.open.load(Ordering::Acquire)
    }

    /// Resolves a turn. `told`: the contact has read the escalation copy.
    pub(super) fn resolve_later(&self, request: Arc<TurnRequest>, told: bool) {
        let resolver = self.clone();
        let unanswered = Counted::new(&self.open);
        self.io.spawn(async move { resolver.resolve(&request, told, unanswered).await });
    }

    async fn resolve(&self, request: &TurnRequest, told: bool, unanswered: Counted) {
        let mut unanswered = Some(unanswered);
        for pause in ASK_AFTER {
            tokio::time::sleep(pause).await;
            match self.ask(request, told).await {
                Resolved::NothingThere => unanswered = unanswered.filter(|_| !told),
                Resolved::Abandoned => return self.ended(request, "abandoned"),
                Resolved::Queued => {
                    // It stands in the outbox now: nothing is owed any longer.
                    self.confirmer.confirm(request.id, None);
                    return self.ended(request, "queued");
                }
            }
        }
        if !told {
            self.hand_off(request).await;
        }
        drop(unanswered);
    }

    fn ended(&self, request: &TurnRequest, found: &'static str) {
        self.waker.wake();
        tracing::warn!(turn = %request.id, found, "failed turn resolved");
    }

    async fn ask(&self, request: &TurnRequest, told: bool) -> Resolved {
        loop {
            match turn::resolve(&self.context, request, told).await {
                Ok(resolved) => return resolved,
                Err(error) => {
                    tracing::warn!(turn = %request.id, err = %error, "failed turn not resolved yet");
                    tokio::time::sleep(RETRY).await;
                }
            }
        }
    }

    /// The message was never recorded and nobody was told: the contact still hears from us (LANE-9).
    async fn hand_off(&self, request: &TurnRequest) {
        let Some(handoff) = turn::handoff(&self.context, request, false) else { return };
        while let Err(error) = owed::hand_off_without_turn(&self.context.database, &handoff).await {
            tracing::error!(turn = %request.id, err = %error, "waiting turn handoff not queued");
            tokio::time::sleep(RETRY).await;
        }
        tracing::error!(turn = %request.id, "waiting turn failed");
        self.waker.wake();
    }
}
