//! What a turn reaches outside while its model runs: its contact's sends, one after the other, and the contact read.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared};
use tracing::Instrument;

use super::action::Action;
use super::limits::READ_LIMIT;
use super::perform::{PER_ACTION, Performer, Place, failed};
use super::reach::{ActionNumber, Reach, ReadFailure};
use super::record::Entry;
use crate::domain::{ConversationId, ProcessId, SubscriberId, TurnId};
use crate::manychat::{ContactInfo, LostBy, ManyChatError};
use crate::store::attempts::Under;

/// Numbers of a second run begin here: it may take other actions on than the first, whose attempts stay (ARC-46).
const SECOND_RUN: i32 = 4096;

/// The turn whose actions go out while its model runs.
#[derive(Clone, Debug)]
pub struct TurnPlace {
    /// The turn.
    pub turn: TurnId,
    /// Its conversation.
    pub conversation: ConversationId,
    /// Its contact.
    pub subscriber: SubscriberId,
    /// The process that runs it.
    pub process: ProcessId,
    /// True when a dead process had begun it.
    pub second_run: bool,
    /// Ids of the flows that a contact gets once (FN-ONCE-1).
    pub once: Vec<String>,
}

impl Performer {
    /// What a turn reaches outside while its model runs.
    #[must_use]
    pub fn reach(&self, turn: TurnPlace) -> Arc<dyn Reach> {
        let place = Place {
            conversation: turn.conversation,
            subscriber: turn.subscriber,
            process: turn.process,
            under: Under::Turn(turn.turn),
            once: turn.once.into(),
            marks: self.marks.clone(),
        };
        let first = if turn.second_run { SECOND_RUN } else { 0 };
        Arc::new(ContactReach { performer: self.clone(), place, first, sends: Mutex::default() })
    }
}

type Sent = Shared<BoxFuture<'static, Vec<Entry>>>;

/// The contact of one turn.
struct ContactReach {
    performer: Performer,
    place: Place,
    first: i32,
    sends: Mutex<Sends>,
}

#[derive(Default)]
struct Sends {
    by_number: HashMap<ActionNumber, Sent>,
    /// The next one waits for it: they reach ManyChat in the order in which they were taken on (LIM-6).
    last: Option<Sent>,
}

impl Reach for ContactReach {
    fn send(&self, number: ActionNumber, action: Action) -> BoxFuture<'static, Vec<Entry>> {
        let mut sends = self.sends.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = sends.by_number.get(&number) {
            return known.clone().boxed();
        }
        let (performer, place, before) = (self.performer.clone(), self.place.clone(), sends.last.clone());
        let first = self.first + i32::from(number.0) * PER_ACTION;
        let lost = vec![failed(&action, "outcome unknown: the part that sends it failed")];
        // A task of its own: a lost race or an abort does not end it (FLOW-5).
        let work = async move {
            if let Some(before) = before {
                before.await;
            }
            performer.send(&place, first, &action).await
        };
        let task = tokio::spawn(work.in_current_span());
        let sent = async move { task.await.unwrap_or(lost) }.boxed().shared();
        sends.by_number.insert(number, sent.clone());
        sends.last = Some(sent.clone());
        sent.boxed()
    }

    fn read(&self) -> BoxFuture<'static, Result<ContactInfo, ReadFailure>> {
        let (manychat, subscriber) = (self.performer.manychat.clone(), self.place.subscriber.clone());
        async move {
            let read = manychat.read_contact(&subscriber, READ_LIMIT).await;
            read.map_err(|error| read_failure(&error))
        }
        .boxed()
    }
}

fn read_failure(error: &ManyChatError) -> ReadFailure {
    let lost = match error {
        ManyChatError::Connection { reason, .. } => Some(*reason),
        _ => None,
    };
    let timed_out = matches!(lost, Some(LostBy::Timeout | LostBy::Aborted));
    ReadFailure { class: error.name(), timed_out }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manychat::{Endpoint, Said};

    /// READ-6: a class of ours, and whether it took too long.
    #[test]
    fn a_failed_read_tells_its_class_only() {
        let lost = |reason| ManyChatError::Connection { endpoint: Endpoint::GetInfo, reason, sent: true };
        let read = |class, timed_out| ReadFailure { class, timed_out };
        assert_eq!(read_failure(&lost(LostBy::Aborted)), read("connection_error", true));
        assert_eq!(read_failure(&lost(LostBy::Network)), read("connection_error", false));
        let refused = ManyChatError::Api {
            endpoint: Endpoint::GetInfo,
            status: 404,
            code: None,
            said: Said::default(),
            retry_after: None,
        };
        assert_eq!(read_failure(&refused), read("api_error", false));
    }
}
