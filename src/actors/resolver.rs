//! Ends turns whose flight did not answer: behind the request, repeated until the database knows (ARC-31).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::{Semaphore, SemaphorePermit, watch};

use super::answer::{Counted, Told, Undecided};
use super::confirmer::{Confirmer, Watched};
use super::outbox::OutboxWaker;
use super::supervised::Restarts;
use crate::domain::ConversationId;
use crate::store::StoreError;
use crate::store::owed::{self, Resolution, Resolved};
use crate::telemetry::Seldom;
use crate::telemetry::crash_points::{self, Sabotage};
use crate::turn::{self, TurnContext, TurnError, TurnRequest};

/// When the database is asked. A flight that was cut off may still be carried out by the server for a while, so
/// "nothing there" is believed only at the end.
const ASK_AFTER: [Duration; 5] = [
    Duration::from_millis(50),
    Duration::from_secs(1),
    Duration::from_secs(5),
    Duration::from_secs(15),
    Duration::from_secs(40),
];
/// Longest of these pauses once the process is to end: it can wait for its turns only so long (ARC-49).
const ASK_AT_THE_END: Duration = Duration::from_secs(1);
/// First and longest pause while the database is away.
const RETRY: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(1));
/// What one question may take.
const LIMIT: Duration = Duration::from_secs(10);

/// How a turn failed.
#[derive(Debug)]
pub(super) struct Failure {
    /// What it left in the database.
    pub(super) left: Left,
    /// Why.
    pub(super) cause: TurnError,
    /// Whose turn it was, where that is known.
    pub(super) conversation: Option<ConversationId>,
}

/// What a failed turn left in the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Left {
    /// Certainly nothing but, if it waited, its message in the inbox.
    Nothing,
    /// Nobody knows yet.
    Unknown,
    /// It was opened: when nothing is left of it, somebody else has ended it.
    Opened,
}

impl Failure {
    /// A failure before the turn is known to have been opened.
    pub(super) fn before_open(cause: TurnError, conversation: Option<ConversationId>) -> Self {
        let left = if cause.wrote_nothing() { Left::Nothing } else { Left::Unknown };
        Self { left, cause, conversation }
    }
}

/// Resolves turns in the background; cheap to clone.
#[derive(Clone)]
pub(super) struct Resolver {
    context: Arc<TurnContext>,
    confirmer: Confirmer,
    waker: OutboxWaker,
    io: Handle,
    open: Arc<AtomicUsize>,
    unrecorded: Arc<AtomicUsize>,
    /// One question at a time: after an outage there can be thousands.
    places: Arc<Semaphore>,
    ending: Arc<watch::Sender<bool>>,
    restarts: Restarts,
}

/// A turn on its way to its end.
struct Case<'turn> {
    request: &'turn TurnRequest,
    failure: &'turn Failure,
    told: bool,
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
        let ending = Arc::new(watch::Sender::new(false));
        let (open, unrecorded) = (Arc::default(), Arc::default());
        Self { context, confirmer, waker, io, open, unrecorded, places, ending, restarts }
    }

    /// Turns that are not known to have ended yet.
    pub(super) fn open(&self) -> usize {
        self.open.load(Ordering::Acquire)
    }

    /// Those of them whose messages may stand nowhere but in this process: nobody else could end them.
    pub(super) fn unrecorded(&self) -> usize {
        self.unrecorded.load(Ordering::Acquire)
    }

    /// The process is to end: asks sooner, and hands off what the database knows nothing of (ARC-49).
    pub(super) fn hurry(&self) {
        self.ending.send_replace(true);
    }

    /// Resolves a turn. `told`: whether the contact has read the escalation copy. `reply`: kept until it is known what became
    /// of the turn.
    pub(super) fn resolve_later(
        &self,
        request: Arc<TurnRequest>,
        told: Told,
        failure: Failure,
        reply: Option<Undecided>,
    ) {
        let resolver = self.clone();
        let open = Counted::new(&self.open);
        let is_kept = request.rows.iter().all(|row| row.stored) || failure.left == Left::Opened;
        let unrecorded = (!is_kept).then(|| Counted::new(&self.unrecorded));
        self.io.spawn(async move {
            let case = Case { request: &request, failure: &failure, told: told.known().await };
            resolver.restarts.supervise("resolver", || resolver.resolve(&case)).await;
            drop((open, unrecorded, reply));
        });
    }

    async fn resolve(&self, case: &Case<'_>) {
        if crash_points::is_sabotaged(Sabotage::Resolver) {
            return;
        }
        if case.failure.left == Left::Nothing {
            return self.hand_off(case).await;
        }
        for pause in ASK_AFTER {
            self.sleep(pause).await;
            let Resolution { found, conversation } = self.ask(case).await;
            match found {
                // What was opened is not there because somebody has ended it.
                Resolved::NothingThere if case.failure.left == Left::Opened && pause > ASK_AFTER[0] => return,
                Resolved::NothingThere => {}
                Resolved::TakenOver => return,
                Resolved::Abandoned => return self.ended(case, "abandoned", conversation),
                Resolved::HandedOff => return self.handed_off(case, conversation),
                Resolved::Queued => {
                    // It stands in the outbox now: nothing is owed any longer.
                    self.confirmer.confirm(case.request.id, Watched::default());
                    return self.ended(case, "queued", conversation);
                }
            }
        }
        self.hand_off(case).await;
    }

    /// Sleeps, but not for long once the process is to end.
    async fn sleep(&self, pause: Duration) {
        let mut ending = self.ending.subscribe();
        let to_end = async { ending.wait_for(|ending| *ending).await.is_ok() };
        if tokio::time::timeout(pause, to_end).await.is_ok() {
            tokio::time::sleep(pause.min(ASK_AT_THE_END)).await;
        }
    }

    fn ended(&self, case: &Case<'_>, found: &'static str, conversation: Option<ConversationId>) {
        self.waker.wake();
        let conversation = conversation.or(case.failure.conversation).map(tracing::field::display);
        let err = &case.failure.cause;
        tracing::warn!(turn = %case.request.id, conversation, found, %err, "failed turn resolved");
    }

    async fn ask(&self, case: &Case<'_>) -> Resolution {
        let mut pause = RETRY.0;
        loop {
            let nothing = Resolution { found: Resolved::NothingThere, conversation: None };
            let Ok(place) = self.places.acquire().await else { return nothing };
            let asking = turn::resolve(&self.context, case.request, case.told);
            match tokio::time::timeout(LIMIT, asking).await.unwrap_or(Err(StoreError::InDoubt)) {
                Ok(resolved) => return resolved,
                // An outage leaves many turns behind: the first of them says so, the others wait behind it.
                Err(error) => {
                    tracing::warn!(err = %error, waiting = self.open(), "failed turns not resolved yet");
                    wait(&mut pause, &error, place).await;
                }
            }
        }
    }

    /// The message was never recorded: a person is called all the same, and a contact who was told nothing hears from
    /// us (LANE-9, ARC-40).
    async fn hand_off(&self, case: &Case<'_>) {
        let Some(handoff) = turn::handoff(&self.context, case.request, case.told) else { return };
        let mut pause = RETRY.0;
        loop {
            let Ok(place) = self.places.acquire().await else { return };
            let ending = owed::hand_off_without_turn(&self.context.database, &handoff);
            match tokio::time::timeout(LIMIT, ending).await.unwrap_or(Err(StoreError::InDoubt)) {
                Ok(conversation) => return self.handed_off(case, conversation),
                Err(error) => {
                    self.report_retry(case, &error);
                    wait(&mut pause, &error, place).await;
                }
            }
        }
    }

    /// One line for all that wait: while the database is away, every one of them tries again and again.
    fn report_retry(&self, case: &Case<'_>, error: &StoreError) {
        static TOLD: Seldom = Seldom::new();
        if TOLD.now() {
            let conversation = case.failure.conversation.map(tracing::field::display);
            tracing::error!(turn = %case.request.id, conversation, err = %error, waiting = self.open(),
                "waiting turn handoff not queued");
        }
    }

    fn handed_off(&self, case: &Case<'_>, conversation: Option<ConversationId>) {
        let conversation = conversation.or(case.failure.conversation).map(tracing::field::display);
        tracing::error!(turn = %case.request.id, conversation, err = %case.failure.cause, "waiting turn failed");
        self.waker.wake();
    }
}

/// Waits before the next try, longer each time. Who was refused lets the others pass: the refusal may be about its turn
/// alone.
async fn wait(pause: &mut Duration, error: &StoreError, place: SemaphorePermit<'_>) {
    let place = Some(place).filter(|_| !matches!(error, StoreError::Refused { .. }));
    tokio::time::sleep(*pause).await;
    *pause = (*pause * 2).min(RETRY.1);
    drop(place);
}
