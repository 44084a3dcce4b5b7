//! Takes over what dead processes left behind (ARC-40, ARC-42, ARC-45a, ARC-46): replies that were said go through the
//! outbox, turns that never ended run once more, actions left open are ended, messages still waiting are answered late.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::runtime::Handle;
use uuid::Uuid;

use super::late::LateTurns;
use super::places::Places;
use super::supervised::Restarts;
use crate::domain::TurnId;
use crate::store::orphans::{self, Left, Orphan, Search};
use crate::store::{StoreError, actions, inbox, processes};
use crate::telemetry::Seldom;

/// Most replies of one look that go through the outbox or are confirmed; another look follows.
const MOST_SAID: usize = 500;

/// Looks for the dead when it is told to; cheap to clone.
#[derive(Clone)]
pub(super) struct Recoverer {
    late: LateTurns,
    io: Handle,
    restarts: Restarts,
    places: Arc<Mutex<Places>>,
}

/// Work on one turn or contact, as long as it lives. Its end makes room for the next.
struct AtWork {
    id: Uuid,
    recoverer: Recoverer,
}

impl Drop for AtWork {
    fn drop(&mut self) {
        let is_waited_for = self.recoverer.places().end(self.id);
        if is_waited_for {
            self.recoverer.look_on(false);
        }
    }
}

/// A look under way; over also when it panics.
struct Looking(Recoverer);

impl Drop for Looking {
    fn drop(&mut self) {
        let again = self.0.places().end_look();
        if again {
            self.0.look_on(false);
        }
    }
}

impl Recoverer {
    /// `most`: takeovers at the same time; each may call the model.
    pub(super) fn new(late: LateTurns, most: usize, io: Handle, restarts: Restarts) -> Self {
        Self { late, io, restarts, places: Arc::new(Mutex::new(Places::new(most))) }
    }

    /// How often to look: a dead process is noticed a quarter of its time late at most.
    pub(super) fn every(&self) -> Duration {
        let dead = self.late.context.settings.process_dead;
        (dead / 4).clamp(Duration::from_millis(200), Duration::from_secs(5))
    }

    /// Takes nothing over from now on.
    pub(super) fn stop(&self) {
        self.places().stop();
    }

    /// True when nothing is being taken over.
    pub(super) fn is_quiet(&self) -> bool {
        self.places().is_quiet()
    }

    /// A contact's new message waits for this turn of a dead process: it is the next to run (DEC-35).
    pub(super) fn run_first(&self, turn: TurnId) {
        let is_new = self.late.context.pulse.may_judge() && self.places().put_first(turn);
        if is_new {
            self.look_on(false);
        }
    }

    /// Looks once, in the background. Does nothing before this process has beaten long enough without a break: an
    /// outage of the database makes nobody dead (ARC-44).
    pub(super) fn look(&self) {
        self.look_on(true);
    }

    /// `round`: what was tried before may be tried again.
    fn look_on(&self, round: bool) {
        if !self.late.context.pulse.may_judge() || !self.places().begin_look(round, Instant::now()) {
            return;
        }
        let looking = Looking(self.clone());
        self.io.spawn(async move {
            let recoverer = &looking.0;
            let looked = recoverer.restarts.supervise("recoverer", || recoverer.recover()).await;
            if let Err(error) = looked {
                static TOLD: Seldom = Seldom::new();
                if TOLD.now() {
                    tracing::warn!(err = %error, "recovery of dead processes not finished");
                }
            }
        });
    }

    /// Takes processes that died long ago off the list, in the background.
    pub(super) fn forget(&self) {
        let context = Arc::clone(&self.late.context);
        self.io.spawn(async move {
            let forgotten = processes::forget_silent(&context.database, &context.settings.tenant).await;
            if let Err(error) = forgotten {
                tracing::warn!(err = %error, "dead processes not taken off the list");
            }
        });
    }

    /// A step that fails stops none of the others.
    async fn recover(&self) -> Result<(), StoreError> {
        let context = &self.late.context;
        let pulled = processes::pull_back(&context.database, &context.settings.tenant).await.map(|_| ());
        let said = self.hand_on_replies().await;
        let ran = self.run_turns().await;
        let acted = self.take_actions().await;
        let answered = self.take_messages().await;
        pulled.and(said).and(ran).and(acted).and(answered)
    }

    async fn take_actions(&self) -> Result<(), StoreError> {
        let (context, settings) = (&self.late.context, &self.late.context.settings);
        let (process, dead) = (context.pulse.process(), settings.process_dead.as_secs_f64());
        for (row, _) in actions::orphaned(&context.database, &settings.tenant, process, dead).await? {
            if let Some(at_work) = self.begin(*row.as_uuid()) {
                let late = self.late.clone();
                self.spawn(at_work, async move { late.act_for_the_dead(row).await });
            }
        }
        Ok(())
    }

    async fn take_messages(&self) -> Result<(), StoreError> {
        let (context, settings) = (&self.late.context, &self.late.context.settings);
        let (process, dead) = (context.pulse.process(), settings.process_dead.as_secs_f64());
        let known = self.places().tried();
        let free = self.places().free();
        let most = i64::try_from(free).unwrap_or(i64::MAX);
        let contacts = match free {
            0 => Vec::new(),
            _ => inbox::orphaned(&context.database, &settings.tenant, process, dead, &known, most).await?,
        };
        if contacts.len() >= free {
            self.places().expect_more();
        }
        for contact in contacts {
            if let Some(at_work) = self.begin(*contact.conversation.as_uuid()) {
                let late = self.late.clone();
                self.spawn(at_work, async move { late.answer_waiting(contact).await });
            }
        }
        Ok(())
    }

    /// Replies that were said need no model: all of them, at once. Each is the confirmer's then, for as long as it keeps it.
    async fn hand_on_replies(&self) -> Result<(), StoreError> {
        loop {
            let orphans = self.search(Left::Said, MOST_SAID).await?;
            // The search may have waited long; what a silent process takes is anybody's (ARC-44).
            if !self.late.context.pulse.may_judge() {
                return Ok(());
            }
            for Orphan { turn, conversation, queued } in orphans.iter().copied() {
                if !self.places().hand_on(*turn.as_uuid(), Instant::now()) {
                    return Ok(());
                }
                self.late.confirmer.take_over(turn, queued);
                let found = if queued { "queued" } else { "said" };
                tracing::warn!(%turn, %conversation, found, "reply of a dead process taken over");
            }
            if orphans.len() < MOST_SAID {
                return Ok(());
            }
        }
    }

    /// Fills the places that are free, first with the turns that contacts wait for, then with the oldest.
    async fn run_turns(&self) -> Result<(), StoreError> {
        while let Some(turn) = self.next_urgent() {
            self.run_again(turn);
        }
        let free = self.places().free();
        let orphans = if free == 0 { Vec::new() } else { self.search(Left::Running, free).await? };
        if orphans.len() >= free {
            self.places().expect_more();
        }
        for orphan in orphans {
            self.run_again(orphan.turn);
        }
        Ok(())
    }

    fn run_again(&self, turn: TurnId) {
        if let Some(at_work) = self.begin(*turn.as_uuid()) {
            let late = self.late.clone();
            self.spawn(at_work, async move { late.run_again(turn).await });
        }
    }

    fn next_urgent(&self) -> Option<TurnId> {
        self.places().next_urgent()
    }

    async fn search(&self, left: Left, most: usize) -> Result<Vec<Orphan>, StoreError> {
        let (context, known) = (&self.late.context, self.places().tried());
        let (tenant, dead_secs) = (&context.settings.tenant, context.settings.process_dead.as_secs_f64());
        let search =
            Search { left, tenant, process: context.pulse.process(), dead_secs, known: &known, most };
        orphans::find(&context.database, &search).await
    }

    /// `None` when it is at work on that already, was so a moment ago, or is on enough.
    fn begin(&self, id: Uuid) -> Option<AtWork> {
        self.places().begin(id).then(|| AtWork { id, recoverer: self.clone() })
    }

    fn places(&self) -> MutexGuard<'_, Places> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn spawn(&self, at_work: AtWork, work: impl Future<Output = Result<(), StoreError>> + Send + 'static) {
        self.io.spawn(async move {
            if let Err(error) = work.await {
                tracing::warn!(orphan = %at_work.id, err = %error, "recovery of a contact not finished");
            }
            drop(at_work);
        });
    }
}
