//! Ends turns whose flight did not answer: behind the request, repeated until the database knows (ARC-31).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::Semaphore;

use super::answer::Counted;
use super::confirmer::{Confirmer, Watched};
use super::outbox::OutboxWaker;
use super::supervised::Restarts;
use crate::store::StoreError;
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
/// What one question may take.
const LIMIT: Duration = Duration::from_secs(10);

/// Resolves turns in the background; cheap to clone.
#[derive(Clone)]
pub(super) struct Resolver {
    context: Arc<TurnContext>,
    confirmer: Confirmer,
    waker: OutboxWaker,
    io: Handle,
    open: Arc<AtomicUsize>,
    /// One question at a time: after an outage there can be thousands.
    places: Arc<Semaphore>,
    restarts: Restarts,
}

impl Resolver {
    pub(super) fn new(
        context: Arc<TurnContext>,
        confirmer: Confirmer,
        waker: OutboxWaker,
        io: Handle,
        restarts: Restarts,
    ) -> Self {
        let places = Arc::new(Semaphore::new(1));
        Self { context, confirmer, waker, io, open: Arc::default(), places, restarts }
    }

    /// Turns of which the database has not said anything yet. What it says later is found by whoever sweeps up after
    /// this process.
    pub(super) fn open(&self) -> usize {
        self.open.load(Ordering::Acquire)
    }

    /// Resolves a turn. `told`: the contact has read the escalation copy. `recorded`: the turn is known to have been
    /// opened, so when nothing is left of it, somebody else has ended it.
    pub(super) fn resolve_later(&self, request: Arc<TurnRequest>, told: bool, recorded: bool) {
        let resolver = self.clone();
        let mut unanswered = Some(Counted::new(&self.open));
        self.io.spawn(async move {
            let resolving = || {
                let unanswered = unanswered.take().unwrap_or_else(|| Counted::new(&resolver.open));
                resolver.resolve(&request, told, recorded, unanswered)
            };
            resolver.restarts.supervise("resolver", resolving).await;
        });
    }

    async fn resolve(&self, request: &TurnRequest, told: bool, recorded: bool, unanswered: Counted) {
        let mut unanswered = Some(unanswered);
        for pause in ASK_AFTER {
            tokio::time::sleep(pause).await;
            match self.ask(request, told).await {
                Resolved::NothingThere => unanswered = unanswered.filter(|_| !told),
                Resolved::TakenOver => return,
                Resolved::Abandoned => return self.ended(request, "abandoned"),
                Resolved::Queued => {
                    // It stands in the outbox now: nothing is owed any longer.
                    self.confirmer.confirm(request.id, Watched::default());
                    return self.ended(request, "queued");
                }
            }
        }
        if !recorded {
            self.hand_off(request, told).await;
        }
        drop(unanswered);
    }

    fn ended(&self, request: &TurnRequest, found: &'static str) {
        self.waker.wake();
        tracing::warn!(turn = %request.id, found, "failed turn resolved");
    }

    async fn ask(&self, request: &TurnRequest, told: bool) -> Resolved {
        loop {
            let Ok(_place) = self.places.acquire().await else { return Resolved::NothingThere };
            let asking = turn::resolve(&self.context, request, told);
            match tokio::time::timeout(LIMIT, asking).await.unwrap_or(Err(StoreError::InDoubt)) {
                Ok(resolved) => return resolved,
                // An outage leaves many turns behind: the first of them says so, the others wait behind it.
                Err(error) => {
                    tracing::warn!(err = %error, waiting = self.open(), "failed turns not resolved yet");
                    tokio::time::sleep(RETRY).await;
                }
            }
        }
    }

    /// The message was never recorded: a person is called all the same, and a contact who was told nothing hears from
    /// us (LANE-9, ARC-40).
    async fn hand_off(&self, request: &TurnRequest, told: bool) {
        let Some(handoff) = turn::handoff(&self.context, request, told) else { return };
        while let Err(error) = owed::hand_off_without_turn(&self.context.database, &handoff).await {
            tracing::error!(turn = %request.id, err = %error, "waiting turn handoff not queued");
            tokio::time::sleep(RETRY).await;
        }
        tracing::error!(turn = %request.id, "waiting turn failed");
        self.waker.wake();
    }
}
