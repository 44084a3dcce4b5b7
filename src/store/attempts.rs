//! Attempts of actions (ARC-46a): written before each request to ManyChat, finished after it, so that nobody tries one a
//! second time and what a dead process has done is known (ARC-41).

use serde_json::Value;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use super::{Database, StoreError};
use crate::domain::{ConversationId, ProcessId};

/// What became of the attempt `a`, as an entry of the record. Nobody knows of one that was not finished.
macro_rules! attempted {
    () => {
        "jsonb_strip_nulls(a.entry || case
           when a.finished_at is null then jsonb_build_object(
             'status', 'failed', 'error', 'outcome unknown: the process ended before ManyChat answered')
           else jsonb_build_object('status', a.outcome, 'error', a.error) end)"
    };
}
pub(super) use attempted;

/// The entries of all attempts of the turn `$1`, in order; null without any. Those of a second run have numbers of their
/// own behind the first's.
macro_rules! attempts_of {
    ($turn:literal) => {
        concat!(
            "(select jsonb_agg(",
            crate::store::attempts::attempted!(),
            " order by a.action) from rs_attempts a where a.turn_id = ",
            $turn,
            " and a.entry is not null)"
        )
    };
}
pub(super) use attempts_of;

/// Writes the attempt when `held` has a row that is not `outrun`, and claims the opening with it where that is asked for
/// (FN-OPEN-9).
macro_rules! begin {
    ($held:literal) => {
        concat!(
            "with held as (",
            $held,
            "),
            opening as (
              update conversations c set opening_sent_at = now(), updated_at = now()
              from held where $5 and c.id = held.conversation_id and c.opening_sent_at is null and not held.outrun
              returning 1),
            begun as (
              insert into rs_attempts (turn_id, action, conversation_id, process_id, entry)
              select $1::uuid, $2::integer, held.conversation_id, $3::uuid, $4::jsonb from held
              where not held.outrun and (not $5 or exists (select 1 from opening))
              on conflict (turn_id, action) do nothing
              returning 1)
            select exists (select 1 from held) as held, exists (select 1 from begun) as begun,
                   exists (select 1 from opening) as opened, exists (select 1 from held where outrun) as outrun"
        )
    };
}

/// While the model runs: under the fence of the turn's lane, and as long as the turn is this process's own.
const BEGIN_IN_TURN: &str = begin!(
    "select o.conversation_id, false as outrun from rs_owed o
     where o.turn_id = $1 and o.process_id = $3 and o.status = 'running'
       and (o.fence is null
         or exists (select 1 from rs_lanes l where l.conversation_id = o.conversation_id and l.turn_id = o.turn_id
                      and l.fence = o.fence))"
);

/// After the reply: as long as the open actions are this process's own.
const BEGIN_AFTER: &str = begin!(
    "select x.conversation_id, false as outrun from rs_actions x where x.turn_id = $1 and x.process_id = $3"
);

/// For recovered actions, which may have waited long: as long as no later turn of the contact has settled, too (ARC-41).
const BEGIN_RECOVERED: &str = begin!(
    "select x.conversation_id,
            exists (select 1 from turns later join turns own on own.id = x.turn_id
                    where later.conversation_id = x.conversation_id and later.role = 'agent'
                      and later.seq > own.seq) as outrun
     from rs_actions x where x.turn_id = $1 and x.process_id = $3"
);

/// Finishes an attempt, with what an accepted action changes here: a written `link_sent` ends the pending follow-up
/// (PERF-8), a written offering is the contact's (PERF-7). `$5` and `$6` are set for accepted ones only.
const FINISH: &str = "
    with done as (
      update rs_attempts set finished_at = now(), outcome = $3, error = $4
      where turn_id = $1 and action = $2 and finished_at is null
      returning 1),
    nudged as (
      update nudges set status = 'cancelled', cancel_reason = 'link_sent', updated_at = now()
      where $5 and conversation_id = $7 and status = 'pending'),
    offered as (
      update conversations set offering = $6, updated_at = now() where id = $7 and $6::text is not null)
    select count(*) as done from done";

/// Plans a follow-up and moves the pending one, if there is one (NTAB-3).
const SCHEDULE: &str = "
    insert into nudges (conversation_id, due_at) values ($1, now() + make_interval(mins => $2))
    on conflict (conversation_id) where status = 'pending'
    do update set due_at = excluded.due_at, scheduled_at = now(), updated_at = now()";

/// Under what an attempt is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Under {
    /// The running turn.
    Turn,
    /// The actions behind a reply that is out.
    Actions,
    /// Such actions, found where nobody was at work on them.
    Recovered,
}

/// One attempt.
#[derive(Clone, Debug)]
pub struct Attempt {
    /// The turn, or behind its reply the agent's row.
    pub turn: Uuid,
    /// Number of the request within it.
    pub action: i32,
    /// The conversation.
    pub conversation: ConversationId,
    /// This process.
    pub process: ProcessId,
    /// What is attempted, as the record will name it; without a status.
    pub entry: Value,
    /// True for the opening flow: its claim is taken with the attempt.
    pub claims_opening: bool,
}

/// Whether the request may be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begun {
    /// It is written down: go on.
    Yes,
    /// It was attempted before: never again.
    Before,
    /// Another turn has claimed the opening.
    OpeningTaken,
    /// A later turn of the contact has settled: it is not made any more (ARC-41).
    Outrun,
    /// The turn, or its actions, are somebody else's now.
    Superseded,
}

/// What became of an attempt.
#[derive(Clone, Debug, Default)]
pub struct Finish<'attempt> {
    /// Why it failed; `None`: ManyChat accepted it.
    pub error: Option<&'attempt str>,
    /// The write put the contact's payment on record.
    pub link_sent: bool,
    /// The offering it wrote.
    pub offering: Option<&'attempt str>,
}

/// Writes down that the request is about to be made. Only [`Begun::Yes`] allows it.
///
/// # Errors
/// When the write may not have arrived: do not make the request.
pub async fn begin(database: &Database, attempt: &Attempt, under: Under) -> Result<Begun, StoreError> {
    let lease = database.lease().await?;
    let statement = match under {
        Under::Turn => BEGIN_IN_TURN,
        Under::Actions => BEGIN_AFTER,
        Under::Recovered => BEGIN_RECOVERED,
    };
    let values: &[&(dyn ToSql + Sync)] =
        &[&attempt.turn, &attempt.action, attempt.process.as_uuid(), &attempt.entry, &attempt.claims_opening];
    let statement = lease.prepared(statement).await?;
    let row = lease.client()?.query_one(&statement, values).await?;
    lease.give_back();
    let (held, begun, opened): (bool, bool, bool) =
        (row.try_get("held")?, row.try_get("begun")?, row.try_get("opened")?);
    let outrun: bool = row.try_get("outrun")?;
    Ok(match (held, begun) {
        (_, true) => Begun::Yes,
        _ if outrun => Begun::Outrun,
        (false, _) => Begun::Superseded,
        (true, false) if attempt.claims_opening && !opened => Begun::OpeningTaken,
        (true, false) => Begun::Before,
    })
}

/// Writes down what became of it.
///
/// # Errors
/// When the write may not have arrived: whoever finds the attempt takes its outcome for unknown.
pub async fn finish(database: &Database, attempt: &Attempt, finish: &Finish<'_>) -> Result<(), StoreError> {
    let lease = database.lease().await?;
    let statement = lease.prepared(FINISH).await?;
    let accepted = finish.error.is_none();
    let outcome = if accepted { "performed" } else { "failed" };
    let values: &[&(dyn ToSql + Sync)] = &[
        &attempt.turn,
        &attempt.action,
        &outcome,
        &finish.error,
        &(accepted && finish.link_sent),
        &finish.offering.filter(|_| accepted),
        attempt.conversation.as_uuid(),
    ];
    lease.client()?.query_one(&statement, values).await?;
    lease.give_back();
    Ok(())
}

/// Plans a follow-up (NTOOL-4).
///
/// # Errors
/// When it may not be planned.
pub async fn schedule_nudge(
    database: &Database,
    conversation: ConversationId,
    minutes: u16,
) -> Result<(), StoreError> {
    let lease = database.lease().await?;
    let statement = lease.prepared(SCHEDULE).await?;
    lease.client()?.execute(&statement, &[conversation.as_uuid(), &i32::from(minutes)]).await?;
    lease.give_back();
    Ok(())
}

#[cfg(test)]
#[path = "attempts_tests.rs"]
mod tests;
