//! Confirms handed-over replies in batches, off the request path (ARC-33, ARC-46): a batch is sent at once when
//! none is under way, and everything that arrives meanwhile makes the next one.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::mpsc;

use super::answer::Counted;
use super::outbox::OutboxWaker;
use crate::domain::{Clock, TurnId};
use crate::store::{Database, StoreError, owed};
use crate::telemetry::crash_points::{self, Point};

/// Most replies one statement confirms.
const BATCH: usize = 512;
/// What one statement may take.
const LIMIT: Duration = Duration::from_secs(10);
/// First and longest pause after a failed statement.
const PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));

/// Hands replies to the confirming task; cheap to clone. The task ends when the last handle is gone and all work
/// is done.
#[derive(Clone)]
pub struct Confirmer {
    work: mpsc::UnboundedSender<Work>,
    open: Arc<AtomicU64>,
}

enum Work {
    Confirm(TurnId, Option<Counted>),
    /// The second count is lowered as soon as the reply stands in the outbox.
    Queue(TurnId, Option<Counted>, Option<Counted>),
}

impl Confirmer {
    /// Starts the task on the shared runtime.
    #[must_use]
    pub(super) fn start(database: Database, clock: Arc<dyn Clock>, waker: OutboxWaker, io: &Handle) -> Self {
        let (work, jobs) = mpsc::unbounded_channel();
        let open = Arc::new(AtomicU64::new(0));
        io.spawn(run(database, clock, waker, jobs, Arc::clone(&open)));
        Self { work, open }
    }

    /// A confirmer that forgets what it is given, for tests without a database.
    #[cfg(test)]
    pub(super) fn detached() -> Self {
        Self { work: mpsc::unbounded_channel().0, open: Arc::new(AtomicU64::new(0)) }
    }

    /// Replies that are neither confirmed nor queued yet.
    #[must_use]
    pub fn open(&self) -> u64 {
        self.open.load(Ordering::Acquire)
    }

    /// The reply was handed over, or is in the outbox.
    pub(super) fn confirm(&self, turn: TurnId, count: Option<Counted>) {
        self.send(Work::Confirm(turn, count));
    }

    /// The reply could not be handed over: it goes through the outbox.
    pub(super) fn queue(&self, turn: TurnId, count: Option<Counted>, in_hand: Option<Counted>) {
        self.send(Work::Queue(turn, count, in_hand));
    }

    fn send(&self, work: Work) {
        self.open.fetch_add(1, Ordering::AcqRel);
        if self.work.send(work).is_err() {
            // The runtime is going down: the row stays `said`, and the next process delivers it.
            self.open.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

async fn run(
    database: Database,
    clock: Arc<dyn Clock>,
    waker: OutboxWaker,
    mut jobs: mpsc::UnboundedReceiver<Work>,
    open: Arc<AtomicU64>,
) {
    let mut batch = Vec::new();
    while jobs.recv_many(&mut batch, BATCH).await > 0 {
        let done = batch.len() as u64;
        work_off(&database, clock.as_ref(), &waker, &mut batch).await;
        open.fetch_sub(done, Ordering::AcqRel);
    }
}

async fn work_off(database: &Database, clock: &dyn Clock, waker: &OutboxWaker, batch: &mut Vec<Work>) {
    let mut confirmed = Vec::new();
    let mut counts = Vec::new();
    for work in batch.drain(..) {
        let (turn, count) = match work {
            Work::Confirm(turn, count) => (turn, count),
            Work::Queue(turn, count, in_hand) => {
                until_done(|| owed::queue(database, turn)).await;
                drop(in_hand);
                waker.wake();
                (turn, count)
            }
        };
        confirmed.push(turn);
        counts.extend(count);
    }
    crash_points::passed_late(Point::BytesOut).await;
    if confirm_all(database, clock, &confirmed).await {
        waker.wake();
    }
}

/// Confirms a batch; when the database refuses it, one by one, so that a single bad row holds nothing else up. True
/// when the rest of a long reply was queued.
async fn confirm_all(database: &Database, clock: &dyn Clock, turns: &[TurnId]) -> bool {
    if let Ok(queued) = until_answered(|| owed::confirm(database, turns, clock.now())).await {
        return queued;
    }
    let mut any = false;
    for turn in turns {
        let one = std::slice::from_ref(turn);
        match until_answered(|| owed::confirm(database, one, clock.now())).await {
            Ok(queued) => any |= queued,
            Err(error) => {
                tracing::error!(turn = %turn, err = %error, "reply not confirmed: its spend is not counted");
            }
        }
    }
    any
}

/// Repeats a statement that can be repeated until the database has carried it out: a reply is never dropped.
async fn until_done<F: Future<Output = Result<(), StoreError>>>(statement: impl Fn() -> F) {
    let mut pause = PAUSES.0;
    while let Err(error) = until_answered(&statement).await {
        tracing::error!(err = %error, "reply not queued yet");
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(PAUSES.1);
    }
}

/// Repeats a statement until the database has answered it, with yes or no.
async fn until_answered<T, F: Future<Output = Result<T, StoreError>>>(
    statement: impl Fn() -> F,
) -> Result<T, StoreError> {
    let mut pause = PAUSES.0;
    loop {
        // A connection that hangs is given up and closed with its statement (ARC-31).
        match tokio::time::timeout(LIMIT, statement()).await.unwrap_or(Err(StoreError::InDoubt)) {
            Ok(done) => return Ok(done),
            Err(error @ StoreError::Refused { .. }) if !error.is_deadlock() => return Err(error),
            Err(error) => tracing::warn!(err = %error, "reply not confirmed yet"),
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(PAUSES.1);
    }
}
