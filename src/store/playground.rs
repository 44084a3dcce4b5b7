//! What the playground shows of a contact beside the chat: the last turn, waiting replies, the open handoff (DEC-16).

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio_postgres::Row;

use super::{Database, StoreError};
use crate::domain::TenantId;

/// Longest wait for the answer: the page is refreshed often and must not pile up work.
const LIMIT: Duration = Duration::from_secs(2);

/// Times as milliseconds since 1970, by the database's clock.
const RECORDS: &str = "
    select c.subscriber_id, c.turn_count,
           t.seq, t.outcome, t.model, t.latency_ms, t.input_tokens, t.output_tokens, t.cost_usd::float8 as cost_usd,
           h.reason as handoff,
           o.waiting, o.attempts, o.last_error, (extract(epoch from o.due) * 1000)::float8 as due_ms,
           f.given_up, f.last_error as given_up_error,
           exists (select 1 from rs_owed w where w.conversation_id = c.id and w.status = 'running') as running,
           t.actions is not null as tools_offered, a.actions
    from conversations c
    left join lateral (
      select * from turns where conversation_id = c.id and role = 'agent' order by seq desc limit 1) t on true
    left join lateral (
      select reason from rs_handoffs where conversation_id = c.id and closed_at is null
      order by opened_at desc limit 1) h on true
    cross join lateral (
      select count(*) as waiting, max(attempts) as attempts, min(next_attempt_at) as due,
             (array_agg(last_error order by created_at))[1] as last_error
      from outbox where tenant_id = c.tenant_id and subscriber_id = c.subscriber_id and kind = 'reply'
        and status in ('pending', 'delivering')) o
    cross join lateral (
      select count(*) as given_up, (array_agg(last_error order by created_at desc))[1] as last_error
      from outbox where tenant_id = c.tenant_id and subscriber_id = c.subscriber_id and kind = 'reply'
        and status = 'failed') f
    cross join lateral (
      select coalesce(jsonb_agg(jsonb_build_object('at_ms', r.at_ms, 'entries', r.actions) order by r.seq desc), '[]')
             as actions
      from (
        select seq, actions, floor(extract(epoch from created_at) * 1000)::int8 as at_ms from turns
        where conversation_id = c.id and role = 'agent' and actions <> '[]'::jsonb order by seq desc limit 5) r) a
    where c.tenant_id = $1 and c.subscriber_id = any($2)";

/// The record of one contact.
#[derive(Clone, Debug, PartialEq)]
pub struct ContactRecord {
    /// ManyChat's id of the contact.
    pub subscriber: String,
    /// Turns so far.
    pub turns: i64,
    /// Whether a turn is running now.
    pub running: bool,
    /// The last answer, if there is one.
    pub last: Option<LastTurn>,
    /// Why a person was called, while the handoff is open.
    pub handoff: Option<String>,
    /// Replies in the outbox that are not out yet.
    pub waiting: i64,
    /// Attempts of the most often tried of them.
    pub attempts: i32,
    /// When the next attempt is due, in milliseconds since 1970.
    pub due_ms: Option<f64>,
    /// Why the last attempt failed; cleaned when it was stored (DEC-35).
    pub last_error: Option<String>,
    /// Replies that were given up.
    pub given_up: i64,
    /// Why the last of them was.
    pub given_up_error: Option<String>,
    /// What the five latest turns with actions did, newest first.
    pub actions: Vec<TurnActions>,
    /// Whether the last turn was offered tools (08 REC-1).
    pub tools_offered: bool,
}

/// The actions of one turn, `turns.actions` as it stands: it holds configured ids and no name of ManyChat (08 REC-3).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TurnActions {
    /// When the turn was recorded, in milliseconds since 1970.
    pub at_ms: i64,
    /// Its entries (08 REC-2).
    pub entries: Value,
}

/// The agent's last turn row.
#[derive(Clone, Debug, PartialEq)]
pub struct LastTurn {
    /// Its place in the order of turns.
    pub seq: i32,
    /// What became of it.
    pub outcome: Option<String>,
    /// Which model answered.
    pub model: Option<String>,
    /// How long the turn took, in milliseconds.
    pub latency_ms: Option<i32>,
    /// Tokens read.
    pub input_tokens: Option<i32>,
    /// Tokens written.
    pub output_tokens: Option<i32>,
    /// US dollars.
    pub cost_usd: Option<f64>,
}

/// The records of these contacts; a contact without a conversation has none.
///
/// # Errors
/// When the database does not answer within two seconds: show what was known before.
pub async fn records(
    database: &Database,
    tenant: &TenantId,
    subscribers: &[String],
) -> Result<Vec<ContactRecord>, StoreError> {
    let asking = async {
        let lease = database.lease().await?;
        let rows = lease.client()?.query(RECORDS, &[&tenant.as_str(), &subscribers]).await?;
        lease.give_back();
        rows.iter().map(record).collect()
    };
    tokio::time::timeout(LIMIT, asking).await.unwrap_or(Err(StoreError::InDoubt))
}

fn record(row: &Row) -> Result<ContactRecord, StoreError> {
    let seq: Option<i32> = row.try_get("seq")?;
    let turns: i32 = row.try_get("turn_count")?;
    let attempts: Option<i32> = row.try_get("attempts")?;
    Ok(ContactRecord {
        subscriber: row.try_get("subscriber_id")?,
        turns: i64::from(turns),
        running: row.try_get("running")?,
        last: seq.map(|seq| last_turn(row, seq)).transpose()?,
        handoff: row.try_get("handoff")?,
        waiting: row.try_get("waiting")?,
        attempts: attempts.unwrap_or(0),
        due_ms: row.try_get("due_ms")?,
        last_error: row.try_get("last_error")?,
        given_up: row.try_get("given_up")?,
        given_up_error: row.try_get("given_up_error")?,
        actions: serde_json::from_value(row.try_get("actions")?).unwrap_or_default(),
        tools_offered: row.try_get("tools_offered")?,
    })
}

fn last_turn(row: &Row, seq: i32) -> Result<LastTurn, StoreError> {
    Ok(LastTurn {
        seq,
        outcome: row.try_get("outcome")?,
        model: row.try_get("model")?,
        latency_ms: row.try_get("latency_ms")?,
        input_tokens: row.try_get("input_tokens")?,
        output_tokens: row.try_get("output_tokens")?,
        cost_usd: row.try_get("cost_usd")?,
    })
}
