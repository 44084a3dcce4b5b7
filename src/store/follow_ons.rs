//! What was to follow an accepted action of a running turn, and was never begun because the turn's process died (ARC-41,
//! FN-LINK-1): the attempt of the action names it. Whoever takes the turn over finds it here.

use serde_json::Value;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use super::attempts::{Attempt, attempts_of};
use super::{Database, StoreError};
use crate::domain::{ConversationId, ProcessId, SubscriberId, TurnId};

/// Behind the attempts of the turn `$1` that were accepted: what hangs on them, where nobody has begun it. The number behind
/// an attempt's own is that of its follow-on.
const LEFT: &str = "
    select a.action + 1 as action, a.entry -> 'followOn' as follow_on, o.conversation_id, c.subscriber_id
    from rs_owed o join conversations c on c.id = o.conversation_id join rs_attempts a on a.turn_id = o.turn_id
    where o.turn_id = $1 and o.process_id = $2 and o.status = 'running'
      and a.outcome = 'performed' and a.entry ? 'followOn'
      and not exists (select 1 from rs_attempts b where b.turn_id = a.turn_id and b.action = a.action + 1)
    order by a.action";

/// An attempt that is given up before its request, so that the record says so however the turn ends. One that was begun
/// after all stays as it is.
const GIVE_UP: &str = "
    insert into rs_attempts (turn_id, action, conversation_id, process_id, entry, finished_at, outcome, error)
    select o.turn_id, $3::integer, o.conversation_id, o.process_id, $4::jsonb, now(), 'failed', $5::text
    from rs_owed o where o.turn_id = $1 and o.process_id = $2 and o.status = 'running'
    on conflict (turn_id, action) do nothing";

const ATTEMPTED: &str = concat!("select ", attempts_of!("$1"), " as attempted");

/// What was to follow an action and was not begun.
#[derive(Debug)]
pub struct FollowOn {
    /// Number of its attempt within the turn.
    pub number: i32,
    /// The action, in the shape of an outbox payload, with what hangs on it (08 section 4).
    pub action: Value,
    /// The contact's conversation.
    pub conversation: ConversationId,
    /// Whom it is for.
    pub subscriber: SubscriberId,
}

/// What is left of the running turn of this process, in order; nothing of a turn that is not its own.
///
/// # Errors
/// When the database does not answer.
pub async fn left(
    database: &Database,
    turn: TurnId,
    process: ProcessId,
) -> Result<Vec<FollowOn>, StoreError> {
    let lease = database.lease().await?;
    let statement = lease.prepared(LEFT).await?;
    let rows = lease.client()?.query(&statement, &[turn.as_uuid(), process.as_uuid()]).await?;
    lease.give_back();
    rows.iter().map(follow_on_of).collect()
}

fn follow_on_of(row: &Row) -> Result<FollowOn, StoreError> {
    Ok(FollowOn {
        number: row.try_get("action")?,
        action: row.try_get("follow_on")?,
        conversation: ConversationId::from(row.try_get::<_, Uuid>("conversation_id")?),
        subscriber: SubscriberId::stored(row.try_get("subscriber_id")?),
    })
}

/// Writes down that an attempt is not made, and why. Nothing changes where it was begun, or where the turn is another's.
///
/// # Errors
/// When the write may not have arrived: doing it twice does it once.
pub async fn give_up(database: &Database, attempt: &Attempt, error: &str) -> Result<(), StoreError> {
    let lease = database.lease().await?;
    let statement = lease.prepared(GIVE_UP).await?;
    let values: &[&(dyn ToSql + Sync)] =
        &[attempt.under.as_uuid(), attempt.process.as_uuid(), &attempt.action, &attempt.entry, &error];
    lease.client()?.execute(&statement, values).await?;
    lease.give_back();
    Ok(())
}

/// What the turn has attempted so far, as entries of the record in order; see
/// [`OpenTurn::attempted`](super::open::OpenTurn::attempted).
///
/// # Errors
/// When the database does not answer.
pub async fn attempted(database: &Database, turn: TurnId) -> Result<Vec<Value>, StoreError> {
    let lease = database.lease().await?;
    let statement = lease.prepared(ATTEMPTED).await?;
    let row = lease.client()?.query_one(&statement, &[turn.as_uuid()]).await?;
    lease.give_back();
    let found: Option<Value> = row.try_get("attempted")?;
    Ok(match found {
        Some(Value::Array(entries)) => entries,
        _ => Vec::new(),
    })
}

#[cfg(test)]
#[path = "follow_ons_tests.rs"]
mod tests;
