//! The tag that calls a person, as the handoff's row remembers it (DEC-25): who attempts it, and what came of it. Adding is
//! attempted once, and its beginning is written before the call, so that nobody repeats it after a crash (ARC-41). Taking
//! off is idempotent and is tried again.

use std::time::Duration;

use tokio_postgres::types::ToSql;
use uuid::Uuid;

use super::{Database, StoreError};
use crate::domain::{ConversationId, ProcessId, SubscriberId, TenantId};

/// Whether the process in `tag_process_id` of the row is alive; `$dead` is the parameter with the limit in seconds.
macro_rules! alive {
    ($row:literal, $dead:literal) => {
        concat!(
            "exists (select 1 from rs_processes p where p.id = ",
            $row,
            ".tag_process_id and p.beat_at > statement_timestamp() - make_interval(secs => ",
            $dead,
            "))"
        )
    };
}

/// Whether the tag of the closed handoff may still be at the contact and somebody will take it off, for itself and for
/// every older handoff with the same tag.
macro_rules! removal_to_come {
    ($row:literal) => {
        concat!(
            "(",
            $row,
            ".closed_at is not null and ",
            $row,
            ".tag_state in ('added', 'unknown')
              and (",
            $row,
            ".untag_state is null or ",
            $row,
            ".untag_state = 'attempting'
                or ",
            $row,
            ".untag_due_at is not null)
              and not exists (select 1 from rs_handoffs n
                              where n.conversation_id = ",
            $row,
            ".conversation_id and n.tag = ",
            $row,
            ".tag
                                and n.tag_state in ('added', 'unknown')
                                and (n.opened_at, n.id) > (",
            $row,
            ".opened_at, ",
            $row,
            ".id)))"
        )
    };
}

pub(super) use removal_to_come;

/// Whether a removal comes before the addition of `$tag` for the handoff `h`: ManyChat starts an automation only when
/// the contact did not have the tag. A handoff that is open and called keeps it there; nothing is waited for then.
macro_rules! removal_first {
    ($tag:literal) => {
        concat!(
            "exists (select 1 from rs_handoffs r
                     where r.conversation_id = h.conversation_id and r.tag = ",
            $tag,
            " and (r.untag_state = 'attempting' or ",
            removal_to_come!("r"),
            "          and not exists (select 1 from rs_handoffs o
                                       where o.conversation_id = h.conversation_id and o.closed_at is null
                                         and o.tag_state in ('attempting', 'added', 'unknown'))))"
        )
    };
}

/// Open handoffs whose tag was never attempted and whose text is out: nothing is owed for the turn any longer and no
/// reply of the contact is queued. The text comes first, so that the person who is called finds it in the chat.
///
/// First, in their order, those of the last ten minutes: whoever has just asked for a person must not wait behind a day of
/// older handoffs when the rule is turned on. Then the others.
///
/// A claim is not an attempt: it may wait for ManyChat's rate. That of a dead process is free, and so is what this process
/// still has from an earlier look, which has ended.
const CLAIM_ADDITIONS: &str = concat!(
    "with due as (
      select h.id from rs_handoffs h join conversations c on c.id = h.conversation_id
      where c.tenant_id = $1 and h.closed_at is null and h.tag_state is null
        and h.opened_at > now() - interval '24 hours'
        and (h.tag_process_id is null or h.tag_process_id = $2 or not ",
    alive!("h", "$5"),
    ")
        and not exists (select 1 from rs_owed o where o.turn_id = h.turn_id)
        and not exists (select 1 from outbox x
                        where x.tenant_id = c.tenant_id and x.subscriber_id = c.subscriber_id
                          and x.kind = 'reply' and x.status in ('pending', 'delivering'))
        and not ",
    removal_first!("$4"),
    "
      order by h.opened_at < now() - interval '10 minutes', h.opened_at limit $3 for update of h skip locked)
    update rs_handoffs h set tag = $4, tag_process_id = $2, tag_at = now()
    from due, conversations c where h.id = due.id and c.id = h.conversation_id
    returning h.id, h.conversation_id, c.subscriber_id, h.tag, 1 as number"
);

/// The call starts now: from here on it may have been made. Not if the handoff was closed, the claim was lost, or a
/// removal has to come first.
const BEGIN: &str = concat!(
    "update rs_handoffs h set tag_state = 'attempting', tag_at = now()
     where h.id = $1 and h.tag_process_id = $2 and h.tag_state is null and h.closed_at is null and not ",
    removal_first!("h.tag")
);

/// Closed handoffs whose tag may still be there. While another handoff of the contact is open and called, or about to be,
/// it stays; of several with the same tag the newest takes it off for all. A dead process's removal is made again: taking
/// off twice does no harm.
const CLAIM_REMOVALS: &str = concat!(
    "with due as (
      select h.id from rs_handoffs h join conversations c on c.id = h.conversation_id
      where c.tenant_id = $1 and ",
    removal_to_come!("h"),
    "   and (h.untag_state is null or h.untag_due_at <= now()
          or h.untag_state = 'attempting' and (h.tag_process_id = $2 or not ",
    alive!("h", "$4"),
    "))
        and not exists (select 1 from rs_handoffs o
                        where o.conversation_id = h.conversation_id
                          and (o.tag_state = 'attempting'
                            or o.closed_at is null
                               and (o.tag_state in ('attempting', 'added', 'unknown')
                                 or o.tag_state is null and o.tag_process_id <> $2 and ",
    alive!("o", "$4"),
    ")))
      order by h.closed_at limit $3 for update of h skip locked)
    update rs_handoffs h
    set untag_state = 'attempting', untag_attempts = coalesce(h.untag_attempts, 0) + 1, untag_due_at = null,
        tag_process_id = $2, tag_at = now()
    from due, conversations c where h.id = due.id and c.id = h.conversation_id
    returning h.id, h.conversation_id, c.subscriber_id, h.tag, h.untag_attempts as number"
);

/// What came of an addition; null: it was never started, and the claim is given back.
const ADDED: &str = "
    update rs_handoffs
    set tag_state = $3::text, tag_error = $4, tag = case when $3 is not null then tag end,
        tag_process_id = case when $3 is not null then tag_process_id end
    where id = $1 and tag_process_id = $2 and (tag_state is null or tag_state = 'attempting')";

/// What came of a removal; null: it was never started. $5: in how many seconds to try again, at most until the handoff has
/// been closed for a day.
const REMOVED: &str = "
    update rs_handoffs
    set untag_state = $3::text, tag_error = $4,
        untag_attempts = case when $3 is null then untag_attempts - 1 else untag_attempts end,
        untag_due_at = case when clock_timestamp() + make_interval(secs => $5) < closed_at + interval '24 hours'
                            then clock_timestamp() + make_interval(secs => $5) end
    where id = $1 and tag_process_id = $2 and untag_state = 'attempting'";

/// An addition that a dead process had begun, or whose outcome could not be written down, stays unknown; a call for a
/// person that is a day old, and that no living process is about to make, is not made any more.
const TIDY: &str = concat!(
    "with lost as (
      select h.id from rs_handoffs h join conversations c on c.id = h.conversation_id
      where c.tenant_id = $1 and h.tag_state = 'attempting'
        and (h.tag_at < now() - interval '5 minutes' or not ",
    alive!("h", "$2"),
    ")
      for update of h skip locked),
    unknown as (
      update rs_handoffs h set tag_state = 'unknown', tag_error = 'process ended first'
      from lost where h.id = lost.id
      returning 1),
    old as (
      select h.id from rs_handoffs h join conversations c on c.id = h.conversation_id
      where c.tenant_id = $1 and $3 and h.closed_at is null and h.tag_state is null
        and h.opened_at <= now() - interval '24 hours'
        and (h.tag_process_id is null or not ",
    alive!("h", "$2"),
    ")
      limit 500 for update of h skip locked),
    expired as (
      update rs_handoffs h set tag_state = 'expired' from old where h.id = old.id)
    select count(*) as unknown from unknown"
);

/// Which way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// The handoff is open: call a person.
    Add,
    /// It is closed: the person is not needed any longer.
    Remove,
}

/// One attempt that is this process's to make.
#[derive(Clone, Debug)]
pub struct Attempt {
    /// Id of the handoff.
    pub handoff: Uuid,
    /// Its conversation, for the log.
    pub conversation: ConversationId,
    /// Whom ManyChat knows the contact as.
    pub subscriber: SubscriberId,
    /// The tag's name in ManyChat.
    pub tag: String,
    /// Which way.
    pub change: Change,
    /// 1 for the first; only a removal has others.
    pub number: i32,
}

/// What came of an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Attempted {
    /// ManyChat accepted it.
    Done,
    /// ManyChat did not do it; the text names the kind of failure.
    Failed(String),
    /// It may have been done; the text names the kind of failure.
    Unknown(String),
    /// The call was never started: it may be claimed again.
    NotStarted,
}

/// Who claims, and by which measure.
#[derive(Clone, Debug)]
pub struct Claimer {
    /// Rows of this tenant only (PROC-7).
    pub tenant: TenantId,
    /// This process.
    pub process: ProcessId,
    /// After how long without a beat another process counts as dead.
    pub dead_secs: f64,
}

/// Claims up to `most` tags to add. [`begin`] each right before its call.
///
/// # Errors
/// When the database does not answer. What was claimed all the same is free at the next look.
pub async fn claim_additions(
    database: &Database,
    claimer: &Claimer,
    tag: &str,
    most: i64,
) -> Result<Vec<Attempt>, StoreError> {
    let Claimer { tenant, process, dead_secs } = claimer;
    let values: &[&(dyn ToSql + Sync)] = &[&tenant.as_str(), process.as_uuid(), &most, &tag, dead_secs];
    claim(database, CLAIM_ADDITIONS, values, Change::Add).await
}

/// Claims up to `most` tags to take off.
///
/// # Errors
/// As [`claim_additions`].
pub async fn claim_removals(
    database: &Database,
    claimer: &Claimer,
    most: i64,
) -> Result<Vec<Attempt>, StoreError> {
    let Claimer { tenant, process, dead_secs } = claimer;
    let values: &[&(dyn ToSql + Sync)] = &[&tenant.as_str(), process.as_uuid(), &most, dead_secs];
    claim(database, CLAIM_REMOVALS, values, Change::Remove).await
}

async fn claim(
    database: &Database,
    sql: &'static str,
    values: &[&(dyn ToSql + Sync)],
    change: Change,
) -> Result<Vec<Attempt>, StoreError> {
    let lease = database.lease().await?;
    let statement = lease.prepared(sql).await?;
    let rows = lease.client()?.query(&statement, values).await?;
    lease.give_back();
    rows.iter().map(|row| attempt_of(row, change)).collect()
}

/// Writes down that the call which adds the tag starts now. False: do not make it.
///
/// # Errors
/// When it may be written all the same: do not make the call, and record that it was not started.
pub async fn begin(database: &Database, process: ProcessId, handoff: Uuid) -> Result<bool, StoreError> {
    let lease = database.lease().await?;
    let statement = lease.prepared(BEGIN).await?;
    let begun = lease.client()?.execute(&statement, &[&handoff, process.as_uuid()]).await?;
    lease.give_back();
    Ok(begun == 1)
}

fn attempt_of(row: &tokio_postgres::Row, change: Change) -> Result<Attempt, StoreError> {
    Ok(Attempt {
        handoff: row.try_get("id")?,
        conversation: ConversationId::from(row.try_get::<_, Uuid>("conversation_id")?),
        subscriber: SubscriberId::stored(row.try_get("subscriber_id")?),
        tag: row.try_get::<_, Option<String>>("tag")?.unwrap_or_default(),
        change,
        number: row.try_get("number")?,
    })
}

/// Writes down what came of an attempt, unless somebody has declared it unknown meanwhile. `again`: when to try a removal
/// again; an addition is never tried again.
///
/// # Errors
/// When the write may not have arrived: write it again.
pub async fn record(
    database: &Database,
    process: ProcessId,
    attempt: &Attempt,
    outcome: &Attempted,
    again: Option<Duration>,
) -> Result<(), StoreError> {
    let (sql, done) = match attempt.change {
        Change::Add => (ADDED, "added"),
        Change::Remove => (REMOVED, "removed"),
    };
    let (state, error) = match outcome {
        Attempted::Done => (Some(done), None),
        Attempted::Failed(kind) => (Some("failed"), Some(kind.as_str())),
        Attempted::Unknown(kind) => (Some("unknown"), Some(kind.as_str())),
        Attempted::NotStarted => (None, None),
    };
    let again = again.map(|pause| pause.as_secs_f64());
    let values: &[&(dyn ToSql + Sync)] = &[&attempt.handoff, process.as_uuid(), &state, &error, &again];
    let count = if attempt.change == Change::Add { 4 } else { 5 };
    let lease = database.lease().await?;
    let statement = lease.prepared(sql).await?;
    lease.client()?.execute(&statement, values.get(..count).unwrap_or(values)).await?;
    lease.give_back();
    Ok(())
}

/// Gives up what dead processes had begun and, with `expire`, calls that are more than a day old. Returns how many
/// attempts became unknown.
///
/// # Errors
/// When the database does not answer: call again.
pub async fn tidy(
    database: &Database,
    tenant: &TenantId,
    dead_secs: f64,
    expire: bool,
) -> Result<i64, StoreError> {
    let lease = database.lease().await?;
    let statement = lease.prepared(TIDY).await?;
    let row = lease.client()?.query_one(&statement, &[&tenant.as_str(), &dead_secs, &expire]).await?;
    lease.give_back();
    Ok(row.try_get("unknown")?)
}

#[cfg(test)]
#[path = "handoff_tags_tests.rs"]
mod tests;
