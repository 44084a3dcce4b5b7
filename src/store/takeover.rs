//! The end of a turn that says nothing because a person has taken over (DEC-9): its messages stay recorded, nothing is
//! owed, the lane is free.

use tokio_postgres::types::ToSql;

use super::{Database, StoreError};
use crate::domain::{ConversationId, Fence, ProcessId, TurnId};

/// Under the fence, as Settle; locks the conversation's row first, as Open and Settle do.
const HUSH: &str = "
    with contact as (
      select id from conversations where id = $1 for no key update),
    lane as (
      update rs_lanes l set turn_id = null, process_id = null, expires_at = null
      from contact, rs_owed o
      where l.conversation_id = contact.id and l.turn_id = $2 and l.fence = $3
        and o.turn_id = $2 and o.status = 'running' and o.process_id = $4
      returning 1),
    ended as (
      delete from rs_owed o
      where o.turn_id = $2 and o.status = 'running' and o.process_id = $4
        and ($3::bigint is null or exists (select 1 from lane))
      returning 1)
    select exists (select 1 from rs_inbox i where i.conversation_id = $1 and i.process_id <> $4) as others_wait
    from ended";

/// How a turn without a word ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hushed {
    /// It is over. `others_wait`: another process has messages of the contact.
    Ended {
        /// True when another process is to be told that the lane is free (ARC-47a).
        others_wait: bool,
    },
    /// Somebody else ended this turn.
    Superseded,
}

/// Ends the turn of `process` without an agent row.
///
/// # Errors
/// [`StoreError::InDoubt`] when it may have been committed all the same; otherwise nothing has changed.
pub async fn hush(
    database: &Database,
    conversation: ConversationId,
    turn: TurnId,
    fence: Option<Fence>,
    process: ProcessId,
) -> Result<Hushed, StoreError> {
    let lease = database.lease().await?;
    let statement = lease.prepared(HUSH).await?;
    let fence = fence.map(Fence::get);
    let values: &[&(dyn ToSql + Sync)] = &[conversation.as_uuid(), turn.as_uuid(), &fence, process.as_uuid()];
    let ended = lease.client()?.query_opt(&statement, values).await?;
    lease.give_back();
    match ended {
        Some(row) => Ok(Hushed::Ended { others_wait: row.try_get("others_wait")? }),
        None => Ok(Hushed::Superseded),
    }
}

#[cfg(test)]
#[path = "takeover_tests.rs"]
mod tests;
