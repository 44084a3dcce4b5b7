//! Who a conversation is with, for an operator who asks: everything else names conversations only (LOG-2).

use tokio_postgres::Client;

use super::StoreError;
use crate::domain::{ConversationId, SubscriberId, TenantId};

const FIND: &str = "select subscriber_id from conversations where tenant_id = $1 and id = $2";

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
