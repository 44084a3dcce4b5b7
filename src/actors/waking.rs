//! Tells other processes that a contact's lane is free, and hears it from them (ARC-47a). Whoever waits asks once a
//! second in any case: a notice only saves time, and is allowed to be lost.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use actix::Addr;

use super::conversation::{ConversationActor, LaneFree};
use crate::domain::ConversationId;
use crate::store::{Address, StoreError, notices};
use crate::turn::TurnContext;

/// At most one notice in this time: each takes a lock of the whole cluster at its commit.
const BETWEEN_NOTICES: Duration = Duration::from_millis(20);
/// What sending one may take.
const LIMIT: Duration = Duration::from_secs(5);
/// First and longest pause before listening is tried again.
const PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));

/// Conversations of this process that wait for their lane; cheap to clone.
#[derive(Clone, Default)]
pub(super) struct LaneWatch(Arc<Mutex<HashMap<ConversationId, Addr<ConversationActor>>>>);

impl LaneWatch {
    /// Wakes this actor when the lane is heard to be free.
    pub(super) fn watch(&self, conversation: ConversationId, actor: Addr<ConversationActor>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(conversation, actor);
    }

    /// The conversation does not wait any longer.
    pub(super) fn forget(&self, conversation: ConversationId) {
        let mut watching = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        watching.remove(&conversation);
        if watching.is_empty() {
            *watching = HashMap::new();
        }
    }

    fn wake(&self, conversations: &[ConversationId]) {
        let mut watching = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for actor in conversations.iter().filter_map(|conversation| watching.remove(conversation)) {
            actor.do_send(LaneFree);
        }
    }
}

/// Sends a notice for every lane that this process frees while another one waits for it.
pub(super) async fn tell(context: &TurnContext) {
    loop {
        let freed = context.freed.next().await;
        let sending = notices::notify(&context.database, &freed);
        let sent = tokio::time::timeout(LIMIT, sending).await.unwrap_or(Err(StoreError::InDoubt));
        if let Err(error) = sent {
            tracing::debug!(err = %error, "other processes not woken");
        }
        tokio::time::sleep(BETWEEN_NOTICES).await;
    }
}

/// Wakes conversations whose lane another process has freed. The database can be away: the rest is asked for then.
pub(super) async fn hear(address: &Address, lanes: &LaneWatch) {
    // Nobody listens through a transaction pooler (DEC-29).
    if address.is_behind_pooler() {
        return;
    }
    let mut pause = PAUSES.0;
    loop {
        if let Ok(mut listener) = notices::Listener::open(address).await {
            pause = PAUSES.0;
            while let Some(conversations) = listener.next().await {
                lanes.wake(&conversations);
            }
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(PAUSES.1);
    }
}
