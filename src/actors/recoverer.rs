//! Takes over what dead processes owed (ARC-40, ARC-42, ARC-46): replies that were said go through the outbox, turns
//! that never ended end with a person.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::runtime::Handle;

use super::confirmer::Confirmer;
use super::heartbeat::Pulse;
use crate::store::StoreError;
use crate::store::owed::{self, Orphan};
use crate::telemetry::crash_points::{self, Sabotage};
use crate::turn::{Snapshots, TurnContext};

/// Looks for the dead when it is told to; cheap to clone.
#[derive(Clone)]
pub(super) struct Recoverer {
    pub(super) context: Arc<TurnContext>,
    pub(super) snapshots: Arc<Snapshots>,
    pub(super) confirmer: Confirmer,
    pub(super) pulse: Pulse,
    pub(super) io: Handle,
    /// One look at a time.
    pub(super) looking: Arc<AtomicBool>,
}

impl Recoverer {
    /// How often to look: a dead process is noticed a quarter of its time late at most.
    pub(super) fn every(&self) -> Duration {
        (self.context.settings.process_dead / 4).clamp(Duration::from_millis(200), Duration::from_secs(5))
    }

    /// Looks once, in the background. Does nothing before this process has beaten long enough without a break: an
    /// outage of the database makes nobody dead (ARC-44).
    pub(super) fn look(&self) {
        if crash_points::is_sabotaged(Sabotage::Recovery)
            || !self.pulse.unbroken_for(self.context.settings.process_dead)
            || self.looking.swap(true, Ordering::AcqRel)
        {
            return;
        }
        let recoverer = self.clone();
        self.io.spawn(async move {
            if let Err(error) = recoverer.recover().await {
                tracing::warn!(err = %error, "recovery of dead processes not finished");
            }
            recoverer.looking.store(false, Ordering::Release);
        });
    }

    async fn recover(&self) -> Result<(), StoreError> {
        let settings = &self.context.settings;
        let dead = settings.process_dead.as_secs_f64();
        for orphan in owed::orphans(&self.context.database, &settings.tenant, dead).await? {
            self.take_over(orphan).await?;
        }
        Ok(())
    }

    async fn take_over(&self, orphan: Orphan) -> Result<(), StoreError> {
        let database = &self.context.database;
        let turn = match orphan {
            Orphan::Said(turn) => {
                self.confirmer.queue(turn, None, None);
                turn
            }
            Orphan::Queued(turn) => {
                self.confirmer.confirm(turn, None);
                turn
            }
            Orphan::Running(turn) => {
                let snapshot = self.snapshots.current();
                let text = &snapshot.tenant.rules.messages.escalation;
                let enforced = self.context.settings.tokens_enforced;
                owed::abandon_orphan(database, turn, text, enforced, self.context.clock.now()).await?;
                turn
            }
        };
        tracing::warn!(turn = %turn, found = ?orphan, "reply of a dead process taken over");
        Ok(())
    }
}
