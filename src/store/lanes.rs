//! A lane that its turn needs for longer than it was taken for (ARC-45).

use std::time::Duration;

use tokio_postgres::types::ToSql;

use super::{Database, StoreError};
use crate::domain::{ConversationId, Fence, TurnId};

/// Nobody has to wait for it: the row changes only as long as the lane is still the turn's.
const HOLD: &str = "
    update rs_lanes set expires_at = greatest(expires_at, clock_timestamp() + make_interval(secs => $4))
    where conversation_id = $1 and turn_id = $2 and fence = $3";

/// Holds the lane of a turn from now on for at least `time`, never for less than it was taken for. False when it is not the
/// turn's any more. A process that dies meanwhile holds it no longer than before (ARC-42).
///
/// # Errors
/// When it may not be held: act as if it were not.
pub async fn hold(
    database: &Database,
    conversation: ConversationId,
    turn: TurnId,
    fence: Fence,
    time: Duration,
) -> Result<bool, StoreError> {
    let lease = database.lease().await?;
    let statement = lease.prepared(HOLD).await?;
    let (fence, seconds) = (fence.get(), time.as_secs_f64());
    let values: &[&(dyn ToSql + Sync)] = &[conversation.as_uuid(), turn.as_uuid(), &fence, &seconds];
    let changed = lease.client()?.execute(&statement, values).await?;
    lease.give_back();
    Ok(changed == 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::testing::ActingTurn;

    /// ARC-45, ARC-42: a lane is held for longer, never for less, and only by the turn that has it.
    #[tokio::test]
    async fn a_lane_is_held_for_longer_by_its_turn_alone() {
        let acting = ActingTurn::of("7").await;
        let conversation = ConversationId::from(*acting.turn.as_uuid());
        let sql = "insert into rs_lanes (conversation_id, turn_id, process_id, fence, expires_at)
                   values ($1, $1, gen_random_uuid(), 5, now() + interval '20 seconds')";
        acting.client.execute(sql, &[acting.turn.as_uuid()]).await.unwrap();
        let left = || async {
            let sql = "select extract(epoch from expires_at - now())::float8 from rs_lanes";
            acting.client.query_one(sql, &[]).await.unwrap().get::<_, f64>(0)
        };
        let held = |turn, fence, seconds| {
            hold(&acting.database, conversation, turn, Fence::new(fence), Duration::from_secs(seconds))
        };
        assert!(!held(TurnId::fresh(), 5, 60).await.unwrap(), "another turn's");
        assert!(!held(acting.turn, 4, 60).await.unwrap(), "it was taken since");
        assert!(left().await < 21.0);
        assert!(held(acting.turn, 5, 60).await.unwrap());
        assert!((55.0..61.0).contains(&left().await));
        assert!(held(acting.turn, 5, 3).await.unwrap());
        assert!(left().await > 55.0, "never for less");
    }
}
