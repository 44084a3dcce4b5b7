//! Tells other processes that a contact's lane is free or that something is due in the outbox, and hears it from them
//! (ARC-47a, GAP-DL-6). Whoever waits asks once a second in any case: a notice only saves time, and is allowed to be lost.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use actix::Addr;
use tokio::sync::Notify;

use super::conversation::{ConversationActor, LaneFree};
use super::outbox::OutboxWaker;
use crate::domain::{ConversationId, TenantId};
use crate::store::notices::{self, Heard};
use crate::store::{Address, StoreError};
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

/// Tells the workers of other processes when the bell rings; for a process that has none.
pub(super) async fn tell_workers(context: &TurnContext, bell: &Notify) {
    loop {
        bell.notified().await;
        let sending = notices::notify_outbox(&context.database, &context.settings.tenant);
        let sent = tokio::time::timeout(LIMIT, sending).await.unwrap_or(Err(StoreError::InDoubt));
        if let Err(error) = sent {
            tracing::debug!(err = %error, "other processes not woken");
        }
        tokio::time::sleep(BETWEEN_NOTICES).await;
    }
}

/// Wakes conversations whose lane another process has freed, and this process's worker for what another has queued. The database can be away: the rest is asked for then.
pub(super) async fn hear(address: &Address, tenant: &TenantId, lanes: &LaneWatch, worker: &OutboxWaker) {
    // Nobody listens through a transaction pooler (DEC-29).
    if address.is_behind_pooler() {
        return;
    }
    let mut pause = PAUSES.0;
    loop {
        if let Ok(mut listener) = notices::Listener::open(address).await {
            pause = PAUSES.0;
            while let Some(heard) = listener.next().await {
                match heard {
                    Heard::Lanes(conversations) => lanes.wake(&conversations),
                    Heard::Outbox(of) if of == tenant.as_str() => worker.wake_own(),
                    Heard::Outbox(_) => {}
                }
            }
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(PAUSES.1);
    }
}
