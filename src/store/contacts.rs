//! What is asked about the contact of a conversation: who it is, for an operator, while everything else names
//! conversations only (LOG-2), and when it last wrote.

use jiff::Timestamp;
use tokio_postgres::Client;

use super::{Database, StoreError};
use crate::domain::{ConversationId, SubscriberId, TenantId};

const FIND: &str = "select subscriber_id from conversations where tenant_id = $1 and id = $2";

const LAST_MESSAGE: &str = "select last_message_at from conversations where id = $1";

/// When the contact last wrote, by business time; `None` when nothing is known of it.
///
/// # Errors
/// When the database does not answer.
pub async fn last_message(
    database: &Database,
    conversation: ConversationId,
) -> Result<Option<Timestamp>, StoreError> {
    let lease = database.lease().await?;
    let statement = lease.prepared(LAST_MESSAGE).await?;
    let row = lease.client()?.query_opt(&statement, &[conversation.as_uuid()]).await?;
    lease.give_back();
    Ok(row.map(|row| row.try_get("last_message_at")).transpose()?.flatten())
}

/// The contact of a conversation; `None` when the tenant has no such conversation.
///
/// # Errors
/// [`StoreError::NoTables`] on a database that no process has migrated; otherwise what the server answers.
pub async fn find(
    client: &Client,
    tenant: &TenantId,
    conversation: ConversationId,
) -> Result<Option<SubscriberId>, StoreError> {
    let found = client.query_opt(FIND, &[&tenant.as_str(), conversation.as_uuid()]).await;
    let row = found.map_err(StoreError::of_command)?;
    Ok(row.map(|row| row.try_get("subscriber_id").map(SubscriberId::stored)).transpose()?)
}
