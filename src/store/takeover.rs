//! The end of a turn that says nothing because a person has taken over (DEC-9): its messages stay recorded, nothing is
//! owed, the lane is free.

use super::{Database, StoreError};
use crate::domain::{ConversationId, Fence, TurnId};

/// Under the fence, as Settle; locks the conversation's row first, as Open and Settle do.
const HUSH: &str = "
    with contact as (
      select id from conversations where id = $1 for no key update),
    lane as (
      update rs_lanes l set turn_id = null, process_id = null, expires_at = null
      from contact where l.conversation_id = contact.id and l.turn_id = $2 and l.fence = $3
      returning 1)
    delete from rs_owed o
    where o.turn_id = $2 and o.status = 'running' and ($3::bigint is null or exists (select 1 from lane))";

/// Ends the turn without an agent row. False when it was superseded.
///
/// # Errors
/// [`StoreError::InDoubt`] when it may have been committed all the same; otherwise nothing has changed.
pub async fn hush(
    database: &Database,
    conversation: ConversationId,
    turn: TurnId,
    fence: Option<Fence>,
) -> Result<bool, StoreError> {
    let lease = database.lease().await?;
    let statement = lease.prepared(HUSH).await?;
    let fence = fence.map(Fence::get);
    let ended =
        lease.client()?.execute(&statement, &[conversation.as_uuid(), turn.as_uuid(), &fence]).await?;
    lease.give_back();
    Ok(ended > 0)
}

#[cfg(test)]
#[path = "takeover_tests.rs"]
mod tests;
