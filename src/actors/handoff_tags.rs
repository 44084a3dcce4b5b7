//! Calls a person through ManyChat (DEC-25): adds the tenant's tag to the contact of every open handoff whose text is
//! out, and takes it off when the handoff is closed. One attempt to add, written to the database when its call starts; taking
//! off, which does no harm twice, is tried again for a day.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use tokio::runtime::Handle;
use uuid::Uuid;

use super::outbox::{delay, random_share};
use crate::domain::ProcessId;
use crate::manychat::{Action, Class, Gate, ManyChatError, Priority};
use crate::store::handoff_tags::{self as tags, Attempt, Attempted, Change, Claimer};
use crate::store::{Database, Pulse, StoreError};
use crate::telemetry::Seldom;
use crate::turn::{Snapshots, TurnContext};

/// How often to look. A person who is called a second later answers no later.
pub(super) const EVERY: Duration = Duration::from_secs(1);
/// Most attempts of one look each way: two seconds of ManyChat's rate.
const MOST: i64 = 20;
/// Tries to write an outcome down, and the pause between two. After that it becomes unknown.
const RECORD_TRIES: u32 = 20;
const RECORD_PAUSE: Duration = Duration::from_millis(500);
/// Longest writing that an addition begins, while it holds its place in the rate.
const BEGIN_LIMIT: Duration = Duration::from_secs(5);
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
                static TOLD: Seldom = Seldom::new();
                if TOLD.now() {
                    tracing::warn!(err = %error, "handoff tags not looked for");
                }
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
        let database = &self.context.database;
        let claimer = Claimer {
            tenant: self.context.settings.tenant.clone(),
            process: self.pulse.process(),
            dead_secs: self.pulse.others_dead_secs(),
        };
        let snapshot = self.snapshots.current();
        let rule = snapshot.tenant.rules.handoff.as_ref();
        self.tidy(rule.is_some()).await?;
        let mut attempts = tags::claim_removals(database, &claimer, MOST).await?;
        if let Some(rule) = rule {
            attempts.extend(tags::claim_additions(database, &claimer, &rule.tag, MOST).await?);
        }
        join_all(attempts.iter().map(|attempt| self.attempt(attempt, claimer.process))).await;
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
        let (manychat, tag) = (&self.context.manychat, attempt.tag.clone());
        let result = match attempt.change {
            Change::Add => {
                let gate = Gate::new(begun(self.context.database.clone(), process, attempt.handoff));
                manychat
                    .perform_through(&attempt.subscriber, Action::AddTag { tag }, Priority::Background, gate)
                    .await
            }
            Change::Remove => {
                let action = Action::RemoveTag { tag };
                manychat.perform(&attempt.subscriber, action, Priority::Background).await
            }
        };
        let again = result.as_ref().err().and_then(|error| again_after(attempt, error));
        report(attempt, &result, again);
        self.record(attempt, process, &outcome_of(result), again).await;
    }

    /// `process`: the id under which the attempt was claimed.
    async fn record(
        &self,
        attempt: &Attempt,
        process: ProcessId,
        outcome: &Attempted,
        again: Option<Duration>,
    ) {
        for _ in 0..RECORD_TRIES {
            match tags::record(&self.context.database, process, attempt, outcome, again).await {
                Ok(()) => return,
                Err(error) => tracing::warn!(err = %error, "handoff tag not recorded yet"),
            }
            tokio::time::sleep(RECORD_PAUSE).await;
        }
        tracing::error!(conversation = %attempt.conversation, "handoff tag not recorded");
    }
}

/// Whether the call that adds a tag may start: that it does is written down first. In doubt it does not, and the claim is
/// given back.
async fn begun(database: Database, process: ProcessId, handoff: Uuid) -> bool {
    match tokio::time::timeout(BEGIN_LIMIT, tags::begin(&database, process, handoff)).await {
        Ok(Ok(begun)) => begun,
        Ok(Err(error)) => {
            tracing::warn!(err = %error, "handoff tag not begun");
            false
        }
        Err(_) => false,
    }
}

/// When a failed removal is tried again (BOX-13): a failure that may pass, or one after which nobody knows.
fn again_after(attempt: &Attempt, error: &ManyChatError) -> Option<Duration> {
    let may_help = error.class() == Class::Retryable || error.may_have_acted();
    let wanted = attempt.change == Change::Remove && may_help;
    wanted.then(|| delay(attempt.number, error.retry_after(), random_share()))
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

fn report(attempt: &Attempt, result: &Result<(), ManyChatError>, again: Option<Duration>) {
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
        (Change::Remove, Err(error)) if again.is_some() => {
            tracing::warn!(%conversation, err = %error, "handoff tag not removed yet");
        }
        (Change::Remove, Err(error)) => {
            tracing::error!(%conversation, err = %error, "handoff tag not removed");
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

    /// BOX-13, DEC-25: taking off is tried again after a failure that may pass or may have been none; adding never is.
    #[test]
    fn only_removals_are_tried_again() {
        let attempt = |change, number| Attempt {
            handoff: Uuid::nil(),
            conversation: crate::domain::ConversationId::from(Uuid::nil()),
            subscriber: crate::domain::SubscriberId::stored("7"),
            tag: "needs-person".to_owned(),
            change,
            number,
        };
        let refused = |status| ManyChatError::Api {
            endpoint: Endpoint::RemoveTag,
            status,
            code: None,
            said: crate::manychat::Said::default(),
            retry_after: None,
        };
        for status in [429, 503] {
            let pause = again_after(&attempt(Change::Remove, 3), &refused(status)).unwrap();
            assert!((7.0..9.0).contains(&pause.as_secs_f64()), "{pause:?}");
            assert_eq!(again_after(&attempt(Change::Add, 1), &refused(status)), None);
        }
        assert_eq!(again_after(&attempt(Change::Remove, 1), &refused(400)), None);
        let garbage = ManyChatError::Response {
            endpoint: Endpoint::RemoveTag,
            status: 200,
            problem: "the body is not JSON",
        };
        assert!(again_after(&attempt(Change::Remove, 1), &garbage).is_some());
    }
}
