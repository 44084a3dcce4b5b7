//! Takes over what dead processes left behind (ARC-40, ARC-42, ARC-45a, ARC-46): replies that were said go through the
//! outbox, turns that never ended run once more, actions left open are ended, messages still waiting are answered late.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::runtime::Handle;

use super::confirmer::Watched;
use super::late::LateTurns;
use super::supervised::Restarts;
use crate::domain::ConversationId;
use crate::store::StoreError;
use crate::store::actions;
use crate::store::inbox;
use crate::store::owed::{self, Orphan, OrphanState};
use crate::store::processes;
use crate::telemetry::Seldom;

/// Late turns at the same time; each may call the model, and living contacts need it too.
const MOST_AT_ONCE: usize = 16;
/// Looks for the dead when it is told to; cheap to clone.
#[derive(Clone)]
pub(super) struct Recoverer {
    late: LateTurns,
    io: Handle,
    restarts: Restarts,
    /// One look at a time.
    looking: Arc<AtomicBool>,
    /// The process is stopping: what is found now is left to others.
    stopped: Arc<AtomicBool>,
    /// Conversations and turns whose takeover is under way.
    at_work: Arc<Mutex<HashSet<uuid::Uuid>>>,
}

/// Work on one contact, as long as it lives.
struct AtWork {
    id: uuid::Uuid,
    all: Arc<Mutex<HashSet<uuid::Uuid>>>,
}

impl Drop for AtWork {
    fn drop(&mut self) {
        self.all.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.id);
    }
}

/// Lowers the flag also when a look panics.
struct Looking(Arc<AtomicBool>);

impl Drop for Looking {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

impl Recoverer {
    pub(super) fn new(late: LateTurns, io: Handle, restarts: Restarts) -> Self {
        Self { late, io, restarts, looking: Arc::default(), stopped: Arc::default(), at_work: Arc::default() }
    }

    /// How often to look: a dead process is noticed a quarter of its time late at most.
    pub(super) fn every(&self) -> Duration {
        let dead = self.late.context.settings.process_dead;
        (dead / 4).clamp(Duration::from_millis(200), Duration::from_secs(5))
    }

    /// Takes nothing over from now on.
    pub(super) fn stop(&self) {
        self.stopped.store(true, Ordering::Release);
    }

    /// True when nothing is being taken over.
    pub(super) fn is_quiet(&self) -> bool {
        self.at_work.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    /// Looks once, in the background. Does nothing before this process has beaten long enough without a break: an
    /// outage of the database makes nobody dead (ARC-44).
    pub(super) fn look(&self) {
        if self.stopped.load(Ordering::Acquire)
            || !self.late.context.pulse.may_judge()
            || self.looking.swap(true, Ordering::AcqRel)
        {
            return;
        }
        let (recoverer, looking) = (self.clone(), Looking(Arc::clone(&self.looking)));
        self.io.spawn(async move {
            let looked = recoverer.restarts.supervise("recoverer", || recoverer.recover()).await;
            if let Err(error) = looked {
                static TOLD: Seldom = Seldom::new();
                if TOLD.now() {
                    tracing::warn!(err = %error, "recovery of dead processes not finished");
                }
            }
            drop(looking);
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

    async fn recover(&self) -> Result<(), StoreError> {
        let (context, settings) = (&self.late.context, &self.late.context.settings);
        let dead = settings.process_dead.as_secs_f64();
        for orphan in owed::orphans(&context.database, &settings.tenant, dead).await? {
            self.take_over(orphan);
        }
        for (turn, conversation) in actions::orphaned(&context.database, &settings.tenant, dead).await? {
            if let Some(at_work) = self.begin(turn) {
                let late = self.late.clone();
                self.spawn(at_work, conversation, async move { late.act_for_the_dead(turn).await });
            }
        }
        let most = i64::try_from(MOST_AT_ONCE).unwrap_or(i64::MAX);
        for contact in inbox::orphaned(&context.database, &settings.tenant, dead, most).await? {
            if let Some(at_work) = self.begin(*contact.conversation.as_uuid()) {
                let late = self.late.clone();
                self.spawn(at_work, contact.conversation, async move { late.answer_waiting(contact).await });
            }
        }
        Ok(())
    }

    fn take_over(&self, Orphan { turn, conversation, state }: Orphan) {
        let found = match state {
            OrphanState::Said => {
                self.late.confirmer.queue(turn, Watched::default());
                "said"
            }
            OrphanState::Queued => {
                self.late.confirmer.confirm(turn, Watched::default());
                "queued"
            }
            OrphanState::Running => {
                if let Some(at_work) = self.begin(*turn.as_uuid()) {
                    let late = self.late.clone();
                    self.spawn(at_work, conversation, async move { late.run_again(turn).await });
                }
                return;
            }
        };
        tracing::warn!(%turn, %conversation, found, "reply of a dead process taken over");
    }

    /// `None` when it is at work on that already, or on enough.
    fn begin(&self, id: uuid::Uuid) -> Option<AtWork> {
        let mut all = self.at_work.lock().unwrap_or_else(PoisonError::into_inner);
        let begins = !self.stopped.load(Ordering::Acquire) && all.len() < MOST_AT_ONCE && all.insert(id);
        begins.then(|| AtWork { id, all: Arc::clone(&self.at_work) })
    }

    fn spawn(
        &self,
        at_work: AtWork,
        conversation: ConversationId,
        work: impl Future<Output = Result<(), StoreError>> + Send + 'static,
    ) {
        self.io.spawn(async move {
            if let Err(error) = work.await {
                tracing::warn!(%conversation, err = %error, "recovery of a contact not finished");
            }
            drop(at_work);
        });
    }
}
