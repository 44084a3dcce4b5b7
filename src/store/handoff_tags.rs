//! The tag that calls a person, as the handoff's row remembers it (DEC-25): who attempts it, and what came of it. One
//! attempt each way; a claim is written before the call, so that nobody attempts it again after a crash (ARC-41).

use uuid::Uuid;

use super::{Database, StoreError};
use crate::domain::{ConversationId, ProcessId, SubscriberId, TenantId};

/// Open handoffs whose tag was never attempted and whose text is out: nothing is owed for the turn any longer and no
/// reply of the contact is queued. The text comes first, so that the person who is called finds it in the chat.
const CLAIM_ADDITIONS: &str = "
    with due as (
      select h.id from rs_handoffs h join conversations c on c.id = h.conversation_id
      where c.tenant_id = $1 and h.closed_at is null and h.tag_state is null
        and h.opened_at > now() - interval '24 hours'
        and not exists (select 1 from rs_owed o where o.turn_id = h.turn_id)
        and not exists (select 1 from outbox x
                        where x.tenant_id = c.tenant_id and x.subscriber_id = c.subscriber_id
                          and x.kind = 'reply' and x.status in ('pending', 'delivering'))
      order by h.opened_at limit $3 for update of h skip locked)
    update rs_handoffs h set tag_state = 'attempting', tag = $4, tag_process_id = $2, tag_at = now()
    from due, conversations c where h.id = due.id and c.id = h.conversation_id
    returning h.id, h.conversation_id, c.subscriber_id, h.tag";

/// Closed handoffs whose tag may still be there. While another handoff of the contact is open the person is still
/// needed; of several with the same tag the newest takes it off for all.
const CLAIM_REMOVALS: &str = "
    with due as (
      select h.id from rs_handoffs h join conversations c on c.id = h.conversation_id
      where c.tenant_id = $1 and h.closed_at is not null and h.tag_state in ('added', 'unknown')
        and h.untag_state is null
        and not exists (select 1 from rs_handoffs o
                        where o.conversation_id = h.conversation_id
                          and (o.closed_at is null or o.tag_state = 'attempting'))
        and not exists (select 1 from rs_handoffs n
                        where n.conversation_id = h.conversation_id and n.tag = h.tag
                          and n.tag_state in ('added', 'unknown') and (n.opened_at, n.id) > (h.opened_at, h.id))
      order by h.closed_at limit $3 for update of h skip locked)
    update rs_handoffs h set untag_state = 'attempting', tag_process_id = $2, tag_at = now()
    from due, conversations c where h.id = due.id and c.id = h.conversation_id
    returning h.id, h.conversation_id, c.subscriber_id, h.tag";

const ADDED: &str = "
    update rs_handoffs set tag_state = $3, tag_error = $4
    where id = $1 and tag_process_id = $2 and tag_state = 'attempting'";
const REMOVED: &str = "
    update rs_handoffs set untag_state = $3, tag_error = $4
    where id = $1 and tag_process_id = $2 and untag_state = 'attempting'";

/// An attempt of a process that died, or that could not write its outcome down, stays unknown; a call for a person
/// that is a day old is not made any more.
const TIDY: &str = "
    with lost as (
      select h.id from rs_handoffs h join conversations c on c.id = h.conversation_id
      where c.tenant_id = $1 and (h.tag_state = 'attempting' or h.untag_state = 'attempting')
        and (h.tag_at < now() - interval '5 minutes'
          or not exists (select 1 from rs_processes p where p.id = h.tag_process_id
                         and p.beat_at > clock_timestamp() - make_interval(secs => $2)))
      for update of h skip locked),
    unknown as (
      update rs_handoffs h
      set tag_state = case h.tag_state when 'attempting' then 'unknown' else h.tag_state end,
          untag_state = case h.untag_state when 'attempting' then 'unknown' else h.untag_state end,
          tag_error = 'process ended first'
      from lost where h.id = lost.id
      returning 1),
    old as (
      select h.id from rs_handoffs h join conversations c on c.id = h.conversation_id
      where c.tenant_id = $1 and $3 and h.closed_at is null and h.tag_state is null
        and h.opened_at <= now() - interval '24 hours'
      limit 500 for update of h skip locked),
    expired as (
      update rs_handoffs h set tag_state = 'expired' from old where h.id = old.id)
    select count(*) as unknown from unknown";

/// Which way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// The handoff is open: call a person.
    Add,
    /// It is closed: the person is not needed any longer.
    Remove,
}

/// One attempt that is this process's to make, now and never again.
#[derive(Debug)]
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

/// Claims up to `most` tags to add.
///
/// # Errors
/// When the database does not answer. What was claimed all the same becomes unknown.
pub async fn claim_additions(
    database: &Database,
    tenant: &TenantId,
    process: ProcessId,
    tag: &str,
    most: i64,
) -> Result<Vec<Attempt>, StoreError> {
    let lease = database.lease().await?;
    let statement = lease.prepared(CLAIM_ADDITIONS).await?;
    let rows = lease.client()?.query(&statement, &[&tenant.as_str(), process.as_uuid(), &most, &tag]).await?;
    lease.give_back();
    rows.iter().map(|row| attempt_of(row, Change::Add)).collect()
}

/// Claims up to `most` tags to take off.
///
/// # Errors
/// As [`claim_additions`].
pub async fn claim_removals(
    database: &Database,
    tenant: &TenantId,
    process: ProcessId,
    most: i64,
) -> Result<Vec<Attempt>, StoreError> {
    let lease = database.lease().await?;
    let statement = lease.prepared(CLAIM_REMOVALS).await?;
    let rows = lease.client()?.query(&statement, &[&tenant.as_str(), process.as_uuid(), &most]).await?;
    lease.give_back();
    rows.iter().map(|row| attempt_of(row, Change::Remove)).collect()
}

fn attempt_of(row: &tokio_postgres::Row, change: Change) -> Result<Attempt, StoreError> {
    Ok(Attempt {
        handoff: row.try_get("id")?,
        conversation: ConversationId::from(row.try_get::<_, Uuid>("conversation_id")?),
        subscriber: SubscriberId::stored(row.try_get("subscriber_id")?),
        tag: row.try_get::<_, Option<String>>("tag")?.unwrap_or_default(),
        change,
    })
}

/// Writes down what came of an attempt, unless somebody has declared it unknown meanwhile.
///
/// # Errors
/// When the write may not have arrived: write it again.
pub async fn record(
    database: &Database,
    process: ProcessId,
    attempt: &Attempt,
    outcome: &Attempted,
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
    let lease = database.lease().await?;
    let statement = lease.prepared(sql).await?;
    lease.client()?.execute(&statement, &[&attempt.handoff, process.as_uuid(), &state, &error]).await?;
    lease.give_back();
    Ok(())
}

/// Gives up what dead processes had claimed and, with `expire`, calls that are more than a day old. Returns how many
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
