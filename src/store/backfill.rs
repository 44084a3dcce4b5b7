//! Contacts that have no token yet (CLI-80, CLI-85).

use jiff::{SignedDuration, Timestamp};
use tokio_postgres::Client;
use tokio_postgres::error::SqlState;

use super::StoreError;
use crate::domain::TenantId;

const WITHOUT_TOKEN: &str = "
    select count(*) from conversations c
    where c.tenant_id = $1 and c.token_hash is null
      and exists (select 1 from turns t where t.conversation_id = c.id and t.created_at >= $2)";

/// Counts the contacts without a token that have a turn within the last `days` days before `now`.
///
/// # Errors
/// [`StoreError::NoTables`] on a database that no process has migrated; otherwise what the server answers.
pub async fn contacts_without_token(
    client: &Client,
    tenant: &TenantId,
    days: u32,
    now: Timestamp,
) -> Result<i64, StoreError> {
    let span = SignedDuration::from_hours(i64::from(days).saturating_mul(24));
    let since = now.checked_sub(span).unwrap_or(Timestamp::UNIX_EPOCH);
    match client.query_one(WITHOUT_TOKEN, &[&tenant.as_str(), &since]).await {
        Ok(row) => Ok(row.try_get(0)?),
        Err(error) if error.code() == Some(&SqlState::UNDEFINED_TABLE) => Err(StoreError::NoTables),
        Err(error) => Err(error.into()),
    }
}
