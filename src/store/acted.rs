//! What the contact's earlier turns have done, as Open and a second run read it (TSET-8, ARC-34).

use jiff::Timestamp;
use serde::Deserialize;
use tokio_postgres::Row;

use super::{Database, StoreError};
use crate::domain::ConversationId;

/// What the contact's earlier turns have done, for a tenant with flows or fields (TSET-8, ARC-34): the stored summary, if it
/// was made by this configuration, and every agent turn behind it, bound or not. `$config` is null for other tenants, who
/// pay nothing for it. `c` is the conversation. Of a turn whose actions are still open, `tried` is what was attempted of
/// them, so that what is done counts before all of it is on record (FN-STAGE-2).
macro_rules! acted_columns {
    ($config:literal) => {
        concat!(
            "c.offering,
       case when ",
            $config,
            "::text is not null then (
         select jsonb_build_object('known', s.known, 'upto', coalesce(s.upto_seq, 0), 'turns',
           (select coalesce(jsonb_agg(jsonb_build_object('seq', turn.seq, 'at', turn.created_at, 'actions', turn.actions,
                      'tried', case when turn.actions @> '[{\"status\": \"staged\"}]' then (
                        select jsonb_agg(jsonb_build_object('action', a.action, 'entry', ",
            crate::store::attempts::attempted!(),
            ") order by a.action)
                        from rs_attempts a
                        where a.turn_id = turn.id and a.entry is not null and a.finished_at is not null) end,
                      'open', turn.actions @> '[{\"status\": \"staged\"}]' and (
                        exists (select 1 from rs_actions x where x.turn_id = turn.id)
                        or exists (select 1 from rs_owed o
                                   where o.conversation_id = c.id and o.payload ->> 'turnId' = turn.id::text)
                        or exists (select 1 from outbox x
                                   where x.tenant_id = c.tenant_id and x.subscriber_id = c.subscriber_id
                                     and x.kind = 'reply' and x.status in ('pending', 'delivering')
                                     and x.payload ->> 'turnId' = turn.id::text)))
                                      order by turn.seq), '[]')
            from turns turn
            where turn.conversation_id = c.id and turn.role = 'agent' and jsonb_typeof(turn.actions) = 'array'
              and turn.actions <> '[]' and turn.seq > coalesce(s.upto_seq, 0)))
         from (select 1) one left join rs_summaries s on s.conversation_id = c.id and s.config = ",
            $config,
            ") end as acted"
        )
    };
}
pub(super) use acted_columns;

/// What earlier turns of a conversation have done (ARC-34).
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Acted {
    /// The stored summary; `None` when there is none of this configuration.
    pub known: Option<serde_json::Value>,
    /// The last turn it counts; 0 without one.
    pub upto: i64,
    /// Agent turns behind it that have acted, oldest first.
    pub turns: Vec<ActedTurn>,
}

/// An agent turn that has acted.
#[derive(Clone, Debug, Deserialize)]
pub struct ActedTurn {
    /// Its place in the order of turns.
    pub seq: i64,
    /// Business time of its settling.
    pub at: Timestamp,
    /// Its record.
    pub actions: serde_json::Value,
    /// True when something still holds its staged actions.
    #[serde(default)]
    pub open: bool,
    /// What was attempted of its staged actions and has ended, in order; `None` without any.
    #[serde(default)]
    pub tried: Option<Vec<Tried>>,
}

/// An attempt behind a reply that has ended.
#[derive(Clone, Debug, Deserialize)]
pub struct Tried {
    /// Its number, as [`Attempt::action`](super::attempts::Attempt::action).
    pub action: i32,
    /// What became of it, as an entry of the record.
    pub entry: serde_json::Value,
}

/// Every turn that has acted, as if nothing had been summed up yet; no configuration is called by an empty word. The summary
/// of `$2` goes with it, so that Settle stores the new one: it says nothing that the turns do not.
const ANEW: &str = concat!(
    "with unreadable as (delete from rs_summaries where conversation_id = $1 and upto_seq = $2)
     select ",
    acted_columns!("''"),
    " from conversations c where c.id = $1"
);

/// Reads what the conversation's earlier turns have done from the turns alone, and forgets the summary up to `upto`, which
/// nobody can read.
///
/// # Errors
/// When the database does not answer: what was read before stays all that is known.
pub async fn anew(database: &Database, conversation: ConversationId, upto: i64) -> Result<Acted, StoreError> {
    let lease = database.lease().await?;
    let statement = lease.prepared(ANEW).await?;
    let row = lease.client()?.query_one(&statement, &[conversation.as_uuid(), &upto]).await?;
    lease.give_back();
    acted_of(&row)?.ok_or(StoreError::Unexpected { what: "turns.actions" })
}

/// The column `acted` of a row.
pub(super) fn acted_of(row: &Row) -> Result<Option<Acted>, StoreError> {
    let found: Option<serde_json::Value> = row.try_get("acted")?;
    let acted = found.map(serde_json::from_value).transpose();
    acted.map_err(|_| StoreError::Unexpected { what: "turns.actions" })
}

#[cfg(test)]
#[path = "acted_tests.rs"]
mod tests;
