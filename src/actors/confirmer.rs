//! Confirms handed-over replies in batches, off the request path (ARC-33, ARC-46): a batch is sent at once when
//! none is under way, and everything that arrives meanwhile makes the next one.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::mpsc;

use super::answer::UnconfirmedCount;
use super::outbox::OutboxWaker;
use crate::domain::{Clock, TurnId};
use crate::store::{Database, StoreError, owed};

/// Most replies one statement confirms.
const BATCH: usize = 512;
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
    Confirm(TurnId, Option<UnconfirmedCount>),
    Queue(TurnId, Option<UnconfirmedCount>),
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
    pub(super) fn confirm(&self, turn: TurnId, count: Option<UnconfirmedCount>) {
        self.send(Work::Confirm(turn, count));
    }

    /// The reply could not be handed over: it goes through the outbox.
    pub(super) fn queue(&self, turn: TurnId, count: Option<UnconfirmedCount>) {
        self.send(Work::Queue(turn, count));
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
            Work::Queue(turn, count) => {
                until_done(|| owed::queue(database, turn)).await;
                waker.wake();
                (turn, count)
            }
        };
        confirmed.push(turn);
        counts.extend(count);
    }
    if until_done(|| owed::confirm(database, &confirmed, clock.now())).await {
        waker.wake();
    }
}

/// Repeats a statement that can be repeated until the database has answered it: a reply is never dropped.
async fn until_done<T, F: Future<Output = Result<T, StoreError>>>(statement: impl Fn() -> F) -> T {
    let mut pause = PAUSES.0;
    loop {
        match statement().await {
            Ok(done) => return done,
            Err(error) => tracing::warn!(err = %error, "reply not confirmed yet"),
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(PAUSES.1);
    }
}
