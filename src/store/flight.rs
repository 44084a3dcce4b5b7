//! A statement about one conversation that depends on what others have done to it: it is sent behind the lock, in one
//! flight (ARC-30).

use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::StoreError;
use super::pool::Lease;
use super::statements::{BEGIN, COMMIT};
use crate::domain::ConversationId;

/// The first lock of every flight that changes a contact: in one order nobody waits for each other.
pub(super) const LOCK: &str = "select 1 from conversations where id = $1 for no key update";

/// Sends `BEGIN · lock · statement · COMMIT` at once and then looks at every result. A statement that took the lock itself
/// would decide by the snapshot from before its wait; this one sees what was committed meanwhile.
///
/// # Errors
/// [`StoreError::InDoubt`] when it may have been committed all the same; otherwise nothing has changed.
pub(super) async fn behind_lock(
    lease: &Lease,
    conversation: ConversationId,
    sql: &'static str,
    values: &[&(dyn ToSql + Sync)],
) -> Result<Option<Row>, StoreError> {
    let (begin, lock) = (lease.prepared(BEGIN).await?, lease.prepared(LOCK).await?);
    let (statement, commit) = (lease.prepared(sql).await?, lease.prepared(COMMIT).await?);
    let (client, id): (_, &[&(dyn ToSql + Sync)]) = (lease.client()?, &[conversation.as_uuid()]);
    let (begun, locked, row, committed) = tokio::join!(
        lease.begin(&begin),
        client.execute(&lock, id),
        client.query_opt(&statement, values),
        client.execute(&commit, &[]),
    );
    begun?;
    locked?;
    let row = row?;
    committed.map(|_| row)
}
