//! Notices between processes that a contact's lane is free, or that something is due in the outbox (ARC-47a): sent after
//! the commit that made it so, in a transaction of their own, and heard on a connection of their own. They carry
//! conversation ids or the tenant's name, nothing of a contact.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use tokio::sync::{Notify, mpsc};
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Notification};
use uuid::Uuid;

use super::address::{Address, unreachable_because};
use super::outbox_operator::WAKE_CHANNEL;
use super::pool::in_time;
use super::{Database, StoreError};
use crate::domain::{ConversationId, TenantId};

/// Most conversations of one notice; the server takes 8000 bytes.
pub const MOST_IN_NOTICE: usize = 200;
const _: () = assert!(MOST_IN_NOTICE * 37 < 8000, "an id and a comma each");

/// Conversations whose lane this process has freed while another one waits for it, until they have been told.
#[derive(Debug, Default)]
pub struct Freed {
    lanes: Mutex<BTreeSet<ConversationId>>,
    bell: Notify,
}

impl Freed {
    /// The lane is free, and another process has messages of the contact.
    pub fn add(&self, conversation: ConversationId) {
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner).insert(conversation);
        self.bell.notify_one();
    }

    /// Waits for some, and takes as many as one notice holds.
    pub async fn next(&self) -> Vec<ConversationId> {
        loop {
            let taken = self.take();
            if !taken.is_empty() {
                return taken;
            }
            self.bell.notified().await;
        }
    }

    fn take(&self) -> Vec<ConversationId> {
        let mut lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        let taken: Vec<ConversationId> = lanes.iter().copied().take(MOST_IN_NOTICE).collect();
        for conversation in &taken {
            lanes.remove(conversation);
        }
        taken
    }
}

/// Sends a notice. Its commit waits for no disk: a notice that is lost with the server costs a second (ARC-47a).
///
/// # Errors
/// When it may not have been sent: the others find out by asking.
pub async fn notify(database: &Database, conversations: &[ConversationId]) -> Result<(), StoreError> {
    let ids: Vec<String> = conversations.iter().map(ToString::to_string).collect();
    let lease = database.lease().await?;
    // Made of nothing but ids, so that it can be one message without parameters.
    let statements = format!(
        "begin; set local synchronous_commit = off; select pg_notify('rs_lane', '{}'); commit",
        ids.join(",")
    );
    lease.client()?.batch_execute(&statements).await?;
    lease.give_back();
    Ok(())
}

/// Tells the workers of other processes that something is due in the tenant's outbox. As asynchronous as [`notify`].
///
/// # Errors
/// When it may not have been sent: the workers find out by asking.
pub async fn notify_outbox(database: &Database, tenant: &TenantId) -> Result<(), StoreError> {
    let lease = database.lease().await?;
    let client = lease.client()?;
    let statement = lease.prepared(NOTIFY).await?;
    let values: &[&(dyn ToSql + Sync)] = &[&WAKE_CHANNEL, &tenant.as_str()];
    let (begun, told, committed) = tokio::join!(
        client.batch_execute("begin; set local synchronous_commit = off"),
        client.execute(&statement, values),
        client.batch_execute("commit"),
    );
    begun?;
    told?;
    committed?;
    lease.give_back();
    Ok(())
}

const NOTIFY: &str = "select pg_notify($1, $2)";
const LANE_CHANNEL: &str = "rs_lane";

/// What a process hears from the others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Heard {
    /// The lanes of these conversations are free.
    Lanes(Vec<ConversationId>),
    /// Something is due in this tenant's outbox.
    Outbox(String),
}

/// Listens until the connection ends.
pub struct Listener {
    /// Keeps the connection open.
    _client: Client,
    notices: mpsc::UnboundedReceiver<Notification>,
}

impl Listener {
    /// Opens a connection of its own and listens. Through a transaction pooler this would hear nothing, or not for long.
    ///
    /// # Errors
    /// When the server cannot be reached, or does not answer within 10 s.
    pub async fn open(address: &Address) -> Result<Self, StoreError> {
        let (heard, notices) = mpsc::unbounded_channel();
        in_time(async {
            let opening = address.open_listening(heard);
            let (client, driver) = opening.await.map_err(|error| unreachable_because(&error))?;
            tokio::spawn(driver);
            client.batch_execute("listen rs_lane; listen rs_outbox").await?;
            Ok(Self { _client: client, notices })
        })
        .await
    }

    /// The next notice; `None` when the connection has ended.
    pub async fn next(&mut self) -> Option<Heard> {
        let notice = self.notices.recv().await?;
        Some(if notice.channel() == LANE_CHANNEL {
            Heard::Lanes(conversations_in(notice.payload()))
        } else {
            Heard::Outbox(notice.payload().to_owned())
        })
    }
}

/// Whatever else stands in a notice is not ours.
fn conversations_in(payload: &str) -> Vec<ConversationId> {
    payload.split(',').filter_map(|id| Uuid::parse_str(id).ok()).map(ConversationId::from).collect()
}

#[cfg(test)]
mod tests {
    use tokio::runtime::Handle;

    use super::*;
    use crate::store::PoolLimits;
    use crate::store::embedded::testing::TestServer;

    /// ARC-47a: what one process sends another hears, and a payload of somebody else harms nobody.
    #[tokio::test]
    async fn a_notice_is_heard_on_the_listeners_own_connection() {
        let server = TestServer::database().unwrap();
        let address: Address = server.config().clone().into();
        let mut listener = Listener::open(&address).await.unwrap();
        let database = Database::new(address, Handle::current(), PoolLimits::default()).unwrap();
        let ids = [ConversationId::fresh(), ConversationId::fresh()];
        notify(&database, &ids).await.unwrap();
        assert_eq!(listener.next().await.unwrap(), Heard::Lanes(ids.to_vec()));
        let other = server.connect().await.unwrap();
        other.batch_execute("notify rs_lane, 'something else'").await.unwrap();
        assert_eq!(listener.next().await.unwrap(), Heard::Lanes(Vec::new()));
        notify_outbox(&database, &TenantId::new("test").unwrap()).await.unwrap();
        assert_eq!(listener.next().await.unwrap(), Heard::Outbox("test".to_owned()));
    }
}
