//! Calls a person through ManyChat (DEC-25): adds the tenant's tag to the contact of every open handoff whose text is
//! out, and takes it off when the handoff is closed. One attempt each way, claimed in the database before the call.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use tokio::runtime::Handle;

use crate::domain::ProcessId;
use crate::manychat::{Action, ManyChatError, Priority};
use crate::store::handoff_tags::{self as tags, Attempt, Attempted, Change};
use crate::store::{Pulse, StoreError};
use crate::turn::{Snapshots, TurnContext};

/// How often to look. A person who is called a second later answers no later.
pub(super) const EVERY: Duration = Duration::from_secs(1);
/// Most attempts of one look each way: two seconds of ManyChat's rate.
const MOST: i64 = 20;
/// Tries to write an outcome down, and the pause between two. After that it becomes unknown.
const RECORD_TRIES: u32 = 20;
const RECORD_PAUSE: Duration = Duration::from_millis(500);
/// How often a stop looks whether it is done.
const STOP_STEP: Duration = Duration::from_millis(10);

/// Looks when it is told to; cheap to clone.
#[derive(Clone)]
pub(super) struct HandoffTags {
    context: Arc<TurnContext>,
    snapshots: Arc<Snapshots>,
    pulse: Pulse,
    io: Handle,
    /// One look at a time.
    looking: Arc<AtomicBool>,
    stopping: Arc<AtomicBool>,
}

/// Ends a look, also one that panics.
struct Look(Arc<AtomicBool>);

impl Drop for Look {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

impl HandoffTags {
    pub(super) fn new(context: &Arc<TurnContext>, snapshots: &Arc<Snapshots>, io: &Handle) -> Self {
        Self {
            context: Arc::clone(context),
            snapshots: Arc::clone(snapshots),
            pulse: context.pulse.clone(),
            io: io.clone(),
            looking: Arc::default(),
            stopping: Arc::default(),
        }
    }

    /// Looks once, in the background.
    pub(super) fn look(&self) {
        if self.stopping.load(Ordering::Acquire) || self.looking.swap(true, Ordering::AcqRel) {
            return;
        }
        let (tags, look) = (self.clone(), Look(Arc::clone(&self.looking)));
        self.io.spawn(async move {
            if let Err(error) = tags.work().await {
                tracing::warn!(err = %error, "handoff tags not looked for");
            }
            drop(look);
        });
    }

    /// Claims nothing more and waits for what is under way. False when `limit` passed first.
    pub(super) async fn stop(&self, limit: Duration) -> bool {
        let until = Instant::now() + limit;
        self.stopping.store(true, Ordering::Release);
        while self.looking.load(Ordering::Acquire) {
            if Instant::now() >= until {
                return false;
            }
            tokio::time::sleep(STOP_STEP).await;
        }
        true
    }

    async fn work(&self) -> Result<(), StoreError> {
        let (database, tenant) = (&self.context.database, &self.context.settings.tenant);
        let process = self.pulse.process();
        let snapshot = self.snapshots.current();
        let rule = snapshot.tenant.rules.handoff.as_ref();
        self.tidy(rule.is_some()).await?;
        let mut attempts = tags::claim_removals(database, tenant, process, MOST).await?;
        if let Some(rule) = rule {
            attempts.extend(tags::claim_additions(database, tenant, process, &rule.tag, MOST).await?);
        }
        join_all(attempts.iter().map(|attempt| self.attempt(attempt, process))).await;
        Ok(())
    }

    /// Only after this process has beaten long enough without a break: an outage of the database makes nobody dead
    /// (ARC-44).
    async fn tidy(&self, expire: bool) -> Result<(), StoreError> {
        let settings = &self.context.settings;
        if !self.pulse.may_judge() {
            return Ok(());
        }
        let dead = settings.process_dead.as_secs_f64();
        let unknown = tags::tidy(&self.context.database, &settings.tenant, dead, expire).await?;
        if unknown > 0 {
            tracing::warn!(unknown, "handoff tags of an ended process stay unknown");
        }
        Ok(())
    }

    async fn attempt(&self, attempt: &Attempt, process: ProcessId) {
        let action = match attempt.change {
            Change::Add => Action::AddTag { tag: attempt.tag.clone() },
            Change::Remove => Action::RemoveTag { tag: attempt.tag.clone() },
        };
        let result = self.context.manychat.perform(&attempt.subscriber, action, Priority::Background).await;
        report(attempt, &result);
        self.record(attempt, process, &outcome_of(result)).await;
    }

    /// `process`: the id under which the attempt was claimed.
    async fn record(&self, attempt: &Attempt, process: ProcessId, outcome: &Attempted) {
        for _ in 0..RECORD_TRIES {
            match tags::record(&self.context.database, process, attempt, outcome).await {
                Ok(()) => return,
                Err(error) => tracing::warn!(err = %error, "handoff tag not recorded yet"),
            }
            tokio::time::sleep(RECORD_PAUSE).await;
        }
        tracing::error!(conversation = %attempt.conversation, "handoff tag not recorded");
    }
}

/// The row keeps the kind of a failure only; ManyChat's own words go to the log, cleaned.
fn outcome_of(result: Result<(), ManyChatError>) -> Attempted {
    let Err(error) = result else { return Attempted::Done };
    if matches!(error, ManyChatError::NotStarted { .. }) {
        return Attempted::NotStarted;
    }
    let detail =
        error.status().map(|status| status.to_string()).or_else(|| error.reason().map(str::to_owned));
    let kind = detail.map_or_else(|| error.name().to_owned(), |detail| format!("{} {detail}", error.name()));
    if error.may_have_acted() { Attempted::Unknown(kind) } else { Attempted::Failed(kind) }
}

fn report(attempt: &Attempt, result: &Result<(), ManyChatError>) {
    let conversation = attempt.conversation;
    match (attempt.change, result) {
        (Change::Add, Ok(())) => tracing::info!(%conversation, "person called"),
        (Change::Remove, Ok(())) => tracing::info!(%conversation, "handoff tag removed"),
        (_, Err(error @ ManyChatError::NotStarted { .. })) => {
            tracing::warn!(%conversation, err = %error, "handoff tag not attempted yet");
        }
        (Change::Add, Err(error)) => {
            tracing::error!(%conversation, err = %error, "person not called: the tag was not added");
        }
        (Change::Remove, Err(error)) => {
            tracing::warn!(%conversation, err = %error, "handoff tag not removed")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manychat::{Endpoint, LostBy, Unstarted};

    /// ARC-41, DEC-25: only a call that was never started may be made later; one that may have acted stays unknown.
    #[test]
    fn an_outcome_says_whether_the_tag_can_be_there() {
        let lost =
            |sent| ManyChatError::Connection { endpoint: Endpoint::AddTag, reason: LostBy::Timeout, sent };
        assert_eq!(outcome_of(Ok(())), Attempted::Done);
        assert_eq!(outcome_of(Err(lost(true))), Attempted::Unknown("connection_error timeout".to_owned()));
        assert_eq!(outcome_of(Err(lost(false))), Attempted::Failed("connection_error timeout".to_owned()));
        assert_eq!(outcome_of(Err(ManyChatError::NoToken)), Attempted::Failed("no_token".to_owned()));
        let unstarted = ManyChatError::NotStarted { reason: Unstarted::HeartbeatTooOld };
        assert_eq!(outcome_of(Err(unstarted)), Attempted::NotStarted);
    }
}
