//! Makes what a dead process has left behind an accepted action of its running turn (ARC-41, FN-LINK-1): the write of
//! `link_sent` behind a payment link, the event behind a stage.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::action::Action;
use super::perform::{PER_ACTION, Performer, Place, Stopped, Tried, attempt_of, report, unreadable};
use super::record::Status;
use crate::domain::{ProcessId, TurnId};
use crate::manychat::Priority;
use crate::store::StoreError;
use crate::store::attempts::{Attempt, Under};
use crate::store::follow_ons::{self, FollowOn};

/// How long one of them waits for another write of its field, or for ManyChat, and how often it looks.
const WAIT_LIMIT: Duration = Duration::from_secs(13);
const WAIT_PAUSE: Duration = Duration::from_secs(1);

impl Performer {
    /// Makes what was to follow the accepted actions of this process's running turn, whose process died before it began it:
    /// each once, with an attempt of its own, in order, while each is accepted (PERF-3). When a turn of the contact has settled
    /// since, it is `failed: process ended first` instead (ARC-41); what ManyChat cannot be asked for is `failed` as well.
    /// Without `plays_flows` no event is sent. Returns how many chains were gone on with; nothing is done for a turn that is
    /// another process's.
    ///
    /// # Errors
    /// When the database does not answer: call again, what was begun is not made once more.
    pub async fn complete_follow_ons(
        &self,
        turn: TurnId,
        process: ProcessId,
        plays_flows: bool,
    ) -> Result<usize, StoreError> {
        let left = follow_ons::left(&self.database, turn, process).await?;
        let mut begun = 0;
        for one in &left {
            begun += usize::from(self.complete(turn, process, one, plays_flows).await?);
        }
        Ok(begun)
    }

    /// False when it is left as it is.
    async fn complete(
        &self,
        turn: TurnId,
        process: ProcessId,
        left: &FollowOn,
        plays_flows: bool,
    ) -> Result<bool, StoreError> {
        let place = Place {
            conversation: left.conversation,
            subscriber: left.subscriber.clone(),
            process,
            under: Under::Inherited(turn),
            once: Arc::default(),
            marks: self.marks.clone(),
        };
        let Ok(first) = serde_json::from_value::<Action>(left.action.clone()) else {
            report(&place, &unreadable(&left.action));
            return Ok(false);
        };
        let chain = std::iter::successors(Some(&first), |action| action.follow_on())
            .take_while(|action| plays_flows || !matches!(action, Action::SendEvent { .. }));
        let mut begun = false;
        for (depth, action) in (0..PER_ACTION).zip(chain) {
            let attempt = attempt_of(&place, left.number + depth, action);
            let entry = match self.made(&place, attempt.clone(), action).await {
                Tried::Entry(entry) => entry,
                Tried::Stopped(Stopped::Superseded, _) | Tried::Nothing => return Ok(begun),
                Tried::Stopped(_, entry) => {
                    report(&place, &entry);
                    entry
                }
            };
            begun = true;
            if entry.status != Status::Performed {
                let error = entry.error.as_deref().unwrap_or_default();
                follow_ons::give_up(&self.database, &attempt, error).await?;
                break;
            }
        }
        Ok(begun)
    }

    /// One attempt. What keeps it back is waited for.
    async fn made(&self, place: &Place, mut attempt: Attempt, action: &Action) -> Tried {
        let until = Instant::now() + WAIT_LIMIT;
        loop {
            match self.once(place, &attempt, action, Priority::Background).await {
                Tried::Stopped(why, _) if why != Stopped::Superseded && Instant::now() < until => {
                    // Its request was not made, whether it stands there or not.
                    attempt.again |= why == Stopped::NotNow;
                    tokio::time::sleep(WAIT_PAUSE).await;
                }
                tried => return tried,
            }
        }
    }
}

#[cfg(test)]
#[path = "follow_ons_tests.rs"]
mod tests;
