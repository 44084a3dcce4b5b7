//! Confirms handed-over replies in batches, off the request path (ARC-33, ARC-46): a batch is sent at once when
//! none is under way, and everything that arrives meanwhile makes the next one.

use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use tokio::runtime::Handle;
use tokio::sync::mpsc;

use super::acting::{Acting, Path};
use super::answer::Counted;
use super::outbox::OutboxWaker;
use super::places::HANDED_ON;
use super::supervised::Restarts;
use crate::domain::{Clock, ConversationId, TurnId};
use crate::store::notices::Freed;
use crate::store::owed::{self, Confirmed};
use crate::store::{Database, Pulse, StoreError};
use crate::telemetry::crash_points::{self, Point};

/// Most replies one statement confirms.
const BATCH: usize = 512;
/// What one statement may take.
const LIMIT: Duration = Duration::from_secs(10);
/// First and longest pause after a statement that was not answered.
const PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));
/// First and longest pause of a reply that the database refuses: the others go on meanwhile.
const REFUSED_PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));

/// Hands replies to the confirming task; cheap to clone. The task ends when the last handle is gone and all work
/// is done.
#[derive(Clone)]
pub struct Confirmer {
    work: mpsc::UnboundedSender<Work>,
    open: Arc<AtomicU64>,
}

/// Who waits for a reply to be worked off.
#[derive(Default)]
pub(super) struct Watched {
    /// Counts it as neither confirmed nor queued.
    pub(super) unconfirmed: Option<Counted>,
    /// Counts it as in our hands until it stands in the outbox.
    pub(super) in_hand: Option<Counted>,
    /// Its conversation, when another process waits for the lane: it is told then (ARC-47a).
    pub(super) freed: Option<ConversationId>,
}

/// A reply to work off.
struct Work {
    turn: TurnId,
    /// It goes into the outbox first.
    queue: bool,
    /// The pause before its next try, when the database has refused it.
    pause: Duration,
    /// The database has refused it this time.
    refused: AtomicBool,
    /// When it is let go although it was refused: a dead process's is looked for again by whoever lives then (ARC-46).
    until: Option<Instant>,
    watched: Mutex<Watched>,
}

impl Work {
    const fn new(turn: TurnId, queue: bool, watched: Watched) -> Self {
        let (pause, refused) = (REFUSED_PAUSES.0, AtomicBool::new(false));
        Self { turn, queue, pause, refused, until: None, watched: Mutex::new(watched) }
    }

    /// Whether it is tried once more after its pause: not when others may take it on by then.
    fn goes_on(&self, now: Instant) -> bool {
        self.until.is_none_or(|until| now + self.pause < until)
    }

    /// It is tried again later: one bad row holds nobody else's reply up.
    fn refuse(&self, error: &StoreError) {
        tracing::error!(turn = %self.turn, err = %error, "reply refused by the database: tried again later");
        self.refused.store(true, Ordering::Release);
    }

    fn watched(&self) -> MutexGuard<'_, Watched> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Confirmer {
    /// Starts the task on the shared runtime.
    #[must_use]
    pub(super) fn start(parts: ConfirmerParts, io: &Handle, restarts: Restarts) -> Self {
        let (work, jobs) = mpsc::unbounded_channel();
        let open = Arc::new(AtomicU64::new(0));
        let worker = Worker { parts, open: Arc::clone(&open), restarts, again: work.downgrade() };
        io.spawn(async move { worker.run(jobs).await });
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
    pub(super) fn confirm(&self, turn: TurnId, watched: Watched) {
        self.send(Work::new(turn, false, watched));
    }

    /// The reply could not be handed over: it goes through the outbox.
    pub(super) fn queue(&self, turn: TurnId, watched: Watched) {
        self.send(Work::new(turn, true, watched));
    }

    /// A dead process's reply: it goes into the outbox, unless it is there, and is confirmed. What the database refuses for
    /// [`HANDED_ON`] stays said, for the next look.
    pub(super) fn take_over(&self, turn: TurnId, queued: bool) {
        let until = Some(Instant::now() + HANDED_ON);
        self.send(Work { until, ..Work::new(turn, !queued, Watched::default()) });
    }

    fn send(&self, work: Work) {
        self.open.fetch_add(1, Ordering::AcqRel);
        if self.work.send(work).is_err() {
            // The runtime is going down: the row stays `said`, and the next process delivers it.
            self.open.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

/// What the confirmer is made of.
pub(super) struct ConfirmerParts {
    pub(super) database: Database,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) pulse: Pulse,
    /// Woken when something was queued.
    pub(super) waker: OutboxWaker,
    /// Where conversations go whose lane another process waits for.
    pub(super) freed: Arc<Freed>,
    /// Performs what follows a reply that is out.
    pub(super) acting: Acting,
}

/// Works the batches off.
struct Worker {
    parts: ConfirmerParts,
    open: Arc<AtomicU64>,
    restarts: Restarts,
    /// Where refused replies come back to; it keeps the task from ending no longer than there is a [`Confirmer`].
    again: mpsc::WeakUnboundedSender<Work>,
}

impl Worker {
    /// A panic costs no reply of the batch: each of them is then worked off by itself, and one that panics again stays
    /// `said` until another process finds it (ARC-22).
    async fn run(&self, mut jobs: mpsc::UnboundedReceiver<Work>) {
        let mut batch = Vec::new();
        while jobs.recv_many(&mut batch, BATCH).await > 0 {
            if self.survives(&batch).await.is_none() {
                for work in &batch {
                    self.survives(std::slice::from_ref(work)).await;
                }
            }
            let now = Instant::now();
            let (refused, done): (Vec<Work>, Vec<Work>) =
                batch.drain(..).partition(|work| work.refused.load(Ordering::Acquire) && work.goes_on(now));
            refused.into_iter().for_each(|work| self.try_later(work));
            // Only now are their conversations free of them.
            for work in &done {
                drop(work.watched().unconfirmed.take());
            }
            self.open.fetch_sub(done.len() as u64, Ordering::AcqRel);
        }
    }

    /// Puts a refused reply back at the end, after a pause. Who watches it goes on doing so.
    fn try_later(&self, mut work: Work) {
        let (again, open, pause) = (self.again.clone(), Arc::clone(&self.open), work.pause);
        work.pause = (pause * 2).min(REFUSED_PAUSES.1);
        work.refused = AtomicBool::new(false);
        tokio::spawn(async move {
            tokio::time::sleep(pause).await;
            let sent = again.upgrade().is_some_and(|again| again.send(work).is_ok());
            if !sent {
                // As in `Confirmer::send`: the row is recovered by another process.
                open.fetch_sub(1, Ordering::AcqRel);
            }
        });
    }

    async fn survives(&self, batch: &[Work]) -> Option<()> {
        let done = AssertUnwindSafe(self.work_off(batch)).catch_unwind().await;
        done.inspect_err(|_| self.restarts.note("confirmer")).ok()
    }

    async fn work_off(&self, batch: &[Work]) {
        let parts = &self.parts;
        let mut queued = Vec::new();
        for work in batch {
            if self.is_queued(work).await {
                queued.push(work);
            }
        }
        crash_points::passed_late(Point::BytesOut).await;
        let done = self.confirm_all(&queued).await;
        if done.queued {
            parts.waker.wake();
        }
        for open in done.opened {
            parts.acting.perform_later(open, Path::Inline);
        }
        // A refused one leaves the lane as free: what waits for it must not wait for a bad row.
        for conversation in batch.iter().filter_map(|work| work.watched().freed.take()) {
            parts.freed.add(conversation);
        }
    }

    /// Whether the reply stands in the outbox, or needs not to.
    async fn is_queued(&self, work: &Work) -> bool {
        if !work.queue {
            return true;
        }
        if let Err(error) = until_answered(|| owed::queue(&self.parts.database, work.turn)).await {
            work.refuse(&error);
            return false;
        }
        work.watched().in_hand = None;
        self.parts.waker.wake();
        true
    }

    /// Confirms a batch; when the database refuses it, one by one, so that a single bad row holds nothing else up.
    async fn confirm_all(&self, batch: &[&Work]) -> Confirmed {
        let turns: Vec<TurnId> = batch.iter().map(|work| work.turn).collect();
        if let Ok(confirmed) = until_answered(|| self.confirm(&turns)).await {
            return confirmed;
        }
        let mut all = Confirmed::default();
        for work in batch {
            let turn = [work.turn];
            match until_answered(|| self.confirm(&turn)).await {
                Ok(one) => {
                    all.queued |= one.queued;
                    all.opened.extend(one.opened);
                }
                Err(error) => work.refuse(&error),
            }
        }
        all
    }

    async fn confirm(&self, turns: &[TurnId]) -> Result<Confirmed, StoreError> {
        let parts = &self.parts;
        owed::confirm(&parts.database, turns, parts.pulse.process(), parts.clock.now()).await
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

#[cfg(test)]
mod tests {
    use super::*;

    /// ARC-46: a reply of this process is tried for as long as it lives; a dead process's only until a look may hand it on
    /// anew, so that nobody is at work on it twice.
    #[test]
    fn a_reply_of_the_dead_is_let_go_before_it_is_handed_on_again() {
        let start = Instant::now();
        let own = Work::new(TurnId::fresh(), true, Watched::default());
        assert!(own.goes_on(start + HANDED_ON * 100));
        let mut inherited = Work { until: Some(start + HANDED_ON), ..own };
        let (mut now, mut tries) = (start, 0);
        while inherited.goes_on(now) {
            now += inherited.pause;
            inherited.pause = (inherited.pause * 2).min(REFUSED_PAUSES.1);
            tries += 1;
        }
        assert!(now < start + HANDED_ON && now + REFUSED_PAUSES.1 >= start + HANDED_ON, "{tries}");
    }
}
