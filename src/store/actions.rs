//! Actions behind a reply that is out: whose they are, taking over a dead process's, and their end on the record (ARC-41,
//! ARC-46, LIM-1, LIM-4).

use std::time::Duration;

use serde_json::Value;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use super::attempts::attempted;
use super::processes::dead;
use super::{Database, StoreError};
use crate::domain::{AgentRowId, ConversationId, ProcessId, Redacted, SubscriberId, TenantId};

/// Actions of the tenant whose process is dead.
const ORPHANED: &str = concat!(
    "select x.turn_id, x.conversation_id from rs_actions x
    where x.tenant_id = $1
      and ",
    dead!("x.process_id", own: "$3", after: "$2"),
    " order by x.created_at limit 100"
);

/// What is known of the actions `taken`: what was attempted of them, and whether a later turn of the contact has settled.
macro_rules! found {
    () => {
        concat!(
            "select taken.turn_id, taken.conversation_id, c.subscriber_id, taken.actions,
           exists (select 1 from turns later join turns own on own.id = taken.turn_id
                   where later.conversation_id = taken.conversation_id and later.role = 'agent'
                     and later.seq > own.seq) as outrun,
           (select coalesce(jsonb_agg(jsonb_build_object('action', a.action, 'entry', ",
            attempted!(),
            ") order by a.action), '[]')
            from rs_attempts a where a.turn_id = taken.turn_id and a.entry is not null) as attempted
    from taken join conversations c on c.id = taken.conversation_id"
        )
    };
}

/// Actions of this process that it does not know of: the answer to the statement that opened them, or took them over, was
/// lost, or their outcomes could not be recorded. A younger row's answer may still be under way.
const FORGOTTEN: &str = concat!(
    "with taken as (
      select x.turn_id, x.conversation_id, x.actions from rs_actions x
      where x.process_id = $1 and x.turn_id <> all ($2::uuid[])
        and x.created_at < clock_timestamp() - make_interval(secs => $3)
      order by x.created_at limit 100)
    ",
    found!()
);

/// Makes a dead process's actions this process's own; only one process can.
const TAKE_OVER: &str = concat!(
    "with taken as (
      update rs_actions x set process_id = $3
      where x.turn_id = $1 and x.tenant_id = $2
        and ",
    dead!("x.process_id", own: "$3", after: "$4"),
    "
      returning x.turn_id, x.conversation_id, x.actions)
    ",
    found!()
);

/// After how long open actions that this process does not know of are forgotten: longer than anybody waits for the answer
/// to a statement that opens some.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(15);

/// Puts the outcomes on the record: the n-th `staged` entry gives way to the n-th group, every other entry stays, and an
/// entry without a group stays `staged` (REC-6). The row is locked before it is read, and only whoever holds the actions
/// can do it, once (LIM-4).
const RESOLVE: &str = "
    with held as (
      delete from rs_actions where turn_id = $1 and process_id = $2 returning turn_id),
    own as (
      select t.id, t.actions from turns t join held on held.turn_id = t.id for update of t),
    entries as (
      select e.value, e.place,
             case when e.value ->> 'status' = 'staged'
                  then count(*) filter (where e.value ->> 'status' = 'staged') over (order by e.place) end as nth
      from own, jsonb_array_elements(case when jsonb_typeof(own.actions) = 'array' then own.actions else '[]' end)
           with ordinality as e(value, place)),
    resolved as (
      select jsonb_agg(o.value order by entries.place, o.place) as actions
      from entries, jsonb_array_elements(
             case when entries.nth is not null and jsonb_typeof($3::jsonb -> (entries.nth - 1)::integer) = 'array'
                  then $3::jsonb -> (entries.nth - 1)::integer else jsonb_build_array(entries.value) end)
           with ordinality as o(value, place)),
    written as (
      update turns t set actions = resolved.actions from resolved
      where t.id = $1 and resolved.actions is not null and exists (select 1 from own))
    select exists (select 1 from held) as held";

/// Actions that this process performs now. `Debug` shows none of them.
#[derive(Debug)]
pub struct OpenActions {
    /// The reply they are behind.
    pub row: AgentRowId,
    /// The contact's conversation.
    pub conversation: ConversationId,
    /// Whom they are for.
    pub subscriber: SubscriberId,
    /// The process that holds them.
    pub process: ProcessId,
    /// As the outbox payload has them (08 section 4).
    pub actions: Redacted<Value>,
    /// What was attempted of them already: number of the request and entry of the record.
    pub attempted: Vec<(i32, Value)>,
    /// They were found where nobody was at work on them: each attempt asks anew whether a later turn has settled.
    pub recovered: bool,
    /// A later turn of the contact has settled since: what was never attempted is not any more (ARC-41).
    pub outrun: bool,
}

/// Replies with open actions of processes that are dead to `process`, oldest first, at most 100.
///
/// # Errors
/// When the database does not answer.
pub async fn orphaned(
    database: &Database,
    tenant: &TenantId,
    process: ProcessId,
    dead_secs: f64,
) -> Result<Vec<(AgentRowId, ConversationId)>, StoreError> {
    let lease = database.lease().await?;
    let statement = lease.prepared(ORPHANED).await?;
    let values: &[&(dyn ToSql + Sync)] = &[&tenant.as_str(), &dead_secs, process.as_uuid()];
    let rows = lease.client()?.query(&statement, values).await?;
    lease.give_back();
    rows.iter()
        .map(|row| {
            let (agent, conversation): (Uuid, Uuid) =
                (row.try_get("turn_id")?, row.try_get("conversation_id")?);
            Ok((AgentRowId::from(agent), ConversationId::from(conversation)))
        })
        .collect()
}

/// Takes the actions of a dead process over; `None` when they are no dead process's any more.
///
/// # Errors
/// When they may have been taken over all the same: they wait until this process is gone too.
pub async fn take_over(
    database: &Database,
    row: AgentRowId,
    tenant: &TenantId,
    process: ProcessId,
    dead_secs: f64,
) -> Result<Option<OpenActions>, StoreError> {
    let lease = database.lease().await?;
    let statement = lease.prepared(TAKE_OVER).await?;
    let values: &[&(dyn ToSql + Sync)] = &[row.as_uuid(), &tenant.as_str(), process.as_uuid(), &dead_secs];
    let taken = lease.client()?.query_opt(&statement, values).await?;
    lease.give_back();
    taken.map(|taken| recovered_of(&taken, process)).transpose()
}

/// Open actions of this process that are old enough to be known and are not among those `known`; at most 100.
///
/// # Errors
/// When the database does not answer.
pub async fn forgotten(
    database: &Database,
    process: ProcessId,
    known: &[AgentRowId],
) -> Result<Vec<OpenActions>, StoreError> {
    let known = AgentRowId::uuids(known);
    let lease = database.lease().await?;
    let statement = lease.prepared(FORGOTTEN).await?;
    let values: &[&(dyn ToSql + Sync)] = &[process.as_uuid(), &known, &FORGOTTEN_AFTER.as_secs_f64()];
    let rows = lease.client()?.query(&statement, values).await?;
    lease.give_back();
    rows.iter().map(|row| recovered_of(row, process)).collect()
}

fn recovered_of(row: &Row, process: ProcessId) -> Result<OpenActions, StoreError> {
    let (agent, conversation): (Uuid, Uuid) = (row.try_get("turn_id")?, row.try_get("conversation_id")?);
    Ok(OpenActions {
        row: AgentRowId::from(agent),
        conversation: ConversationId::from(conversation),
        subscriber: SubscriberId::stored(row.try_get("subscriber_id")?),
        process,
        actions: Redacted::new(row.try_get("actions")?),
        attempted: attempted_of(row)?,
        recovered: true,
        outrun: row.try_get("outrun")?,
    })
}

fn attempted_of(row: &Row) -> Result<Vec<(i32, Value)>, StoreError> {
    let found: Value = row.try_get("attempted")?;
    let attempts = found.as_array().into_iter().flatten();
    Ok(attempts
        .filter_map(|one| {
            let action = i32::try_from(one.get("action")?.as_i64()?).ok()?;
            Some((action, one.get("entry")?.clone()))
        })
        .collect())
}

/// The actions that a statement has just opened, from its column `opened`: an array of objects.
pub(super) fn opened_of(row: &Row, process: ProcessId) -> Result<Vec<OpenActions>, StoreError> {
    let found: Option<Value> = row.try_get("opened")?;
    let Some(Value::Array(rows)) = found else { return Ok(Vec::new()) };
    rows.into_iter()
        .map(|mut one| {
            let id =
                |name: &str| one.get(name).and_then(Value::as_str).and_then(|id| id.parse::<Uuid>().ok());
            let unexpected = StoreError::Unexpected { what: "rs_actions" };
            let (Some(agent), Some(conversation)) = (id("turn"), id("conversation")) else {
                return Err(unexpected);
            };
            let subscriber = one.get("subscriber").and_then(Value::as_str).map(SubscriberId::stored);
            Ok(OpenActions {
                row: AgentRowId::from(agent),
                conversation: ConversationId::from(conversation),
                subscriber: subscriber.ok_or(unexpected)?,
                process,
                actions: Redacted::new(one.get_mut("actions").map(Value::take).unwrap_or_default()),
                attempted: Vec::new(),
                recovered: false,
                outrun: false,
            })
        })
        .collect()
}

/// Ends the actions: `groups` has one list of entries for each, in order. False when they are somebody else's now.
///
/// # Errors
/// When the write may not have arrived: try again.
pub async fn resolve(
    database: &Database,
    row: AgentRowId,
    process: ProcessId,
    groups: &Value,
) -> Result<bool, StoreError> {
    let lease = database.lease().await?;
    let statement = lease.prepared(RESOLVE).await?;
    let ended = lease.client()?.query_one(&statement, &[row.as_uuid(), process.as_uuid(), groups]).await?;
    lease.give_back();
    Ok(ended.try_get("held")?)
}

#[cfg(test)]
#[path = "actions_tests.rs"]
mod tests;
