//! What dead processes have left of their turns: replies that were said and not handed over, and turns that never ended
//! (ARC-46). The two are looked for apart, so that neither hides the other.

use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use super::processes::dead;
use super::{Database, StoreError};
use crate::domain::{ConversationId, ProcessId, TenantId, TurnId};
use crate::telemetry::crash_points::{self, Sabotage};

macro_rules! orphans_where {
    ($status:literal) => {
        concat!(
            "select o.turn_id, o.conversation_id, o.queued from rs_owed o
             where o.tenant_id = $1 and o.status = '",
            $status,
            "' and o.turn_id <> all ($3)
               and ",
            dead!("o.process_id", own: "$5", after: "$2"),
            "
             order by o.created_at limit $4"
        )
    };
}

const SAID: &str = orphans_where!("said");
const RUNNING: &str = orphans_where!("running");

/// What a dead process owed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Orphan {
    /// The turn.
    pub turn: TurnId,
    /// Whose it is.
    pub conversation: ConversationId,
    /// Its reply stands in the outbox already.
    pub queued: bool,
}

/// How far a turn of a dead process came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    /// A reply that is not known to be handed over (ARC-43).
    Said,
    /// A turn that never ended.
    Running,
}

/// What to look for.
#[derive(Clone, Copy, Debug)]
pub struct Search<'look> {
    /// Which of the two.
    pub left: Left,
    /// The tenant.
    pub tenant: &'look TenantId,
    /// Who looks: what it holds itself is nobody's orphan.
    pub process: ProcessId,
    /// After how many seconds without a beat a process is dead.
    pub dead_secs: f64,
    /// Turns that are known.
    pub known: &'look [Uuid],
    /// Most of them, the oldest.
    pub most: usize,
}

/// Finds what dead processes have left.
///
/// # Errors
/// When the database does not answer.
pub async fn find(database: &Database, search: &Search<'_>) -> Result<Vec<Orphan>, StoreError> {
    if crash_points::is_sabotaged(Sabotage::Owed) {
        return Ok(Vec::new());
    }
    let sql = match search.left {
        Left::Said => SAID,
        Left::Running => RUNNING,
    };
    let lease = database.lease().await?;
    let statement = lease.prepared(sql).await?;
    let most = i64::try_from(search.most).unwrap_or(i64::MAX);
    let values: &[&(dyn ToSql + Sync)] =
        &[&search.tenant.as_str(), &search.dead_secs, &search.known, &most, search.process.as_uuid()];
    let rows = lease.client()?.query(&statement, values).await?;
    lease.give_back();
    rows.iter().map(orphan_of).collect()
}

fn orphan_of(row: &Row) -> Result<Orphan, StoreError> {
    Ok(Orphan {
        turn: TurnId::from(row.try_get::<_, Uuid>("turn_id")?),
        conversation: ConversationId::from(row.try_get::<_, Uuid>("conversation_id")?),
        queued: row.try_get("queued")?,
    })
}

#[cfg(test)]
mod tests {
    use tokio::runtime::Handle;

    use super::*;
    use crate::store::PoolLimits;
    use crate::store::embedded::testing::TestServer;

    /// ARC-42, ARC-46: replies that were said are found behind any number of older turns that still ran, and what is
    /// known hides nothing.
    #[tokio::test]
    async fn running_turns_hide_no_reply_that_was_said() {
        let server = TestServer::database().unwrap();
        let client = server.connect().await.unwrap();
        let address = server.config().clone().into();
        let database = Database::new(address, Handle::current(), PoolLimits::default()).unwrap();
        let sql = "
            insert into conversations (tenant_id, subscriber_id, channel)
              select 't', n::text, 'whatsapp' from generate_series(1, 203) n;
            insert into rs_owed (turn_id, conversation_id, tenant_id, process_id, status, binding, user_turn_ids,
                                 received_at, created_at, queued)
              select gen_random_uuid(), id, 't', gen_random_uuid(),
                     case when subscriber_id::int > 200 then 'said' else 'running' end, 'bound', '{}', now(),
                     now() + make_interval(secs => subscriber_id::int), subscriber_id = '203'
              from conversations;
            insert into rs_processes (id, tenant_id) select process_id, 't' from rs_owed o
              join conversations c on c.id = o.conversation_id where c.subscriber_id in ('1', '201')";
        client.batch_execute(sql).await.unwrap();
        let tenant = TenantId::new("t").unwrap();
        let process = ProcessId::fresh();
        let search =
            |left, known, most| Search { left, tenant: &tenant, process, dead_secs: 20.0, known, most };
        let found = find(&database, &search(Left::Said, &[], 100)).await.unwrap();
        assert_eq!(found.iter().map(|orphan| orphan.queued).collect::<Vec<_>>(), [false, true]);
        let first = find(&database, &search(Left::Running, &[], 30)).await.unwrap();
        let known: Vec<Uuid> = first.iter().map(|orphan| *orphan.turn.as_uuid()).collect();
        let rest = find(&database, &search(Left::Running, &known, 1000)).await.unwrap();
        assert_eq!((first.len(), rest.len()), (30, 169), "the living one's is nobody else's");
        assert!(rest.iter().all(|orphan| !first.contains(orphan)));
    }
}
