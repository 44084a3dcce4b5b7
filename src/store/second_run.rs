//! Taking over a turn that a dead process has left unfinished, for its second and last run (ARC-46, DEC-35).

use jiff::Timestamp;
use rust_decimal::Decimal;
use serde::Deserialize;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use super::acted::{acted_columns, acted_of};
use super::attempts::attempts_of;
use super::open::{HISTORY_TURNS, OpenTurn, back, history_of, open_handoff, parse_binding};
use super::pool::Lease;
use super::processes::dead;
use super::statements::{BEGIN, COMMIT};
use super::takeover::{pause_columns, pause_join};
use super::{Database, StoreError};
use crate::domain::{
    ContactText, ConversationId, Fence, MediaKind, MessageId, ProcessId, SubscriberId, TenantId, TurnId,
};
use crate::telemetry::crash_points::{self, Sabotage};

/// Makes a dead process's running turn this process's own: its lane with a new fence, and the owed row with it. Only
/// one process can: the row is changed as long as the dead one still stands in it. A turn beside the lane needs none.
const TAKE_OVER: &str = concat!(
    "
    with owed as (
      select o.turn_id, o.conversation_id, o.fence, o.process_id, o.second_run, c.subscriber_id, c.channel,
             c.last_message_at
      from rs_owed o join conversations c on c.id = o.conversation_id
      where o.turn_id = $1 and o.tenant_id = $2 and o.status = 'running'
        and ",
    dead!("o.process_id", own: "$3", after: "$5"),
    "
      for no key update of c),
    lane as (
      insert into rs_lanes as l (conversation_id, process_id, turn_id, fence, expires_at)
      select conversation_id, $3::uuid, turn_id, 1, clock_timestamp() + make_interval(secs => $4)
      from owed where fence is not null
      on conflict (conversation_id) do update
        set process_id = excluded.process_id, turn_id = excluded.turn_id,
            fence = l.fence + 1, expires_at = excluded.expires_at
        where l.turn_id is null or l.expires_at <= clock_timestamp()
           or ",
    dead!("l.process_id", own: "$3", after: "$5"),
    "
      returning fence)
    update rs_owed o set process_id = $3, second_run = true, fence = (select fence from lane)
    from owed
    where o.turn_id = owed.turn_id and o.status = 'running' and o.process_id = owed.process_id
      and (owed.fence is null or exists (select 1 from lane))
    returning o.conversation_id, o.binding, o.fence, o.user_turn_ids, o.received_at, owed.process_id as dead,
              owed.second_run as again, owed.subscriber_id, owed.channel, owed.last_message_at"
);

/// The messages of the turn $1 that $2 holds now, and the turns before them when it may read those, by the rules of Open:
/// a `first` turn under enforcement reads nothing from before the contact's first token was issued (TOK-14, DEC-24). $5:
/// whether tokens are enforced. With it what its first run has attempted.
const READ: &str = concat!(
    "select (select coalesce(json_agg(json_build_object('id', u.id, 'text', u.text, 'media', u.media_kind)
                                     order by u.seq), '[]'::json)
            from turns u where u.conversation_id = c.id and u.id = any (o.user_turn_ids)) as messages,
      case when o.binding <> 'unbound' or not $5 then (
        select coalesce(json_agg(json_build_object('role', h.role, 'text', h.text, 'actions', h.actions)
                                 order by h.seq), '[]'::json)
        from (select t.seq, t.role, t.text, t.actions from turns t
              where t.conversation_id = c.id and t.bound
                and t.created_at >= case
                      when o.binding = 'bound' or not $5 then $3::timestamptz
                      when c.token_hash is null then 'infinity'
                      else greatest($3, coalesce(c.token_issued_at, 'infinity')) end
                and t.seq < (select min(u.seq) from turns u
                             where u.conversation_id = c.id and u.id = any (o.user_turn_ids))
                and t.outcome is distinct from 'nudge_skipped'
              order by t.seq desc limit greatest(0, $4::bigint - cardinality(o.user_turn_ids))) h) end as history,
      exists (select 1 from outbox x where x.conversation_id = c.id and x.kind = 'reply'
                and x.status in ('pending', 'delivering')) as reply_queued,
      ",
    attempts_of!("$1"),
    " as attempted,
      ",
    acted_columns!("$6"),
    ",
      ",
    pause_columns!(),
    " from rs_owed o join conversations c on c.id = o.conversation_id ",
    pause_join!(),
    "where o.turn_id = $1 and o.process_id = $2"
);

/// Gives back a lane that was taken without its turn, because somebody else took the turn during the wait for its contact.
const GIVE_BACK: &str = "
    update rs_lanes l set turn_id = null, process_id = null, expires_at = null
    where l.turn_id = $1 and l.process_id = $2
      and not exists (select 1 from rs_owed o where o.turn_id = $1 and o.process_id = $2)";

/// Ends a turn that came too late for any message: the contact is marked and a person is called, nothing is sent.
/// What the turn has sent, or may have, stays on record as for any turn that is given up, so that it is not offered again
/// (ARC-41). Nobody has read a word of it, so that row is no part of the history.
const END_SILENTLY: &str = concat!(
    "with contact as (
      select c.id from conversations c join rs_owed o on o.conversation_id = c.id
      where o.turn_id = $1 for no key update of c),
    lane as (
      update rs_lanes l set turn_id = null, process_id = null, expires_at = null
      from contact where l.conversation_id = contact.id and l.turn_id = $1),
    gone as (
      delete from rs_owed o using contact
      where o.conversation_id = contact.id and o.turn_id = $1 and o.status = 'running' and o.process_id = $2
      returning o.conversation_id, (o.binding <> 'unbound' or not $3) as bound),
    agent as (
      insert into turns (conversation_id, role, text, outcome, bound, actions, created_at)
      select gone.conversation_id, 'agent', '', 'error', false, tried.actions, $4::timestamptz
      from gone, (select ",
    attempts_of!("$1"),
    " as actions) tried where tried.actions is not null),
    marked as (
      update conversations c set escalated_at = now(), updated_at = now()
      from gone where c.id = gone.conversation_id and gone.bound)
    insert into rs_handoffs (conversation_id, turn_id, reason)
    select conversation_id, $1::uuid, 'low_confidence' from gone where bound"
);

/// Who takes a turn over, and by which measures.
#[derive(Clone, Debug)]
pub struct Taker {
    /// The tenant.
    pub tenant: TenantId,
    /// This process.
    pub process: ProcessId,
    /// How long the lane may be held.
    pub lane_secs: f64,
    /// After how long without a beat a process is dead.
    pub dead_secs: f64,
    /// `CONTACT_TOKENS_ENFORCED`.
    pub tokens_enforced: bool,
    /// Now, by the business clock.
    pub now: Timestamp,
    /// `rules.historyDays`.
    pub history_days: u32,
    /// As [`super::open::OpenRequest::acted_by`].
    pub acted_by: Option<String>,
}

/// A turn that this process has taken over.
#[derive(Debug)]
pub struct SecondRun {
    /// The turn, as if it had just been opened; nothing was counted.
    pub opened: OpenTurn,
    /// The contact.
    pub subscriber: SubscriberId,
    /// The stored channel.
    pub channel: String,
    /// The messages it answers, in order.
    pub messages: Vec<RecordedMessage>,
    /// When the first of them arrived.
    pub received_at: Timestamp,
    /// When the contact last wrote.
    pub last_message_at: Timestamp,
    /// True when this would be its third run.
    pub again: bool,
    /// The process that died over it.
    pub dead: ProcessId,
}

/// A message among `turns`.
#[derive(Clone, Debug)]
pub struct RecordedMessage {
    /// Id of its row.
    pub id: MessageId,
    /// The words, or the marker of a media message.
    pub text: ContactText,
    /// What kind of file it was.
    pub media: Option<MediaKind>,
}

#[derive(Deserialize)]
struct MessageJson {
    id: Uuid,
    text: String,
    media: Option<String>,
}

/// Takes a turn over; `None` when it is no dead process's any more, or its lane is held.
///
/// # Errors
/// When it may have been taken over all the same: it then belongs to this process, which has to die before anybody else
/// finds it. Take it for failed and resolve it by its id.
pub async fn take_over(
    database: &Database,
    turn: TurnId,
    taker: &Taker,
) -> Result<Option<SecondRun>, StoreError> {
    let lease = database.lease().await?;
    let (taken, found) = fly(&lease, turn, taker).await?;
    lease.give_back();
    let Some(taken) = taken else { return Ok(None) };
    let found = found.ok_or(StoreError::Unexpected { what: "rs_owed" })?;
    run_of(&taken, &found).map(Some)
}

/// Sends everything at once, as Open does: no answer of ours is waited for while the contact's row is locked (ARC-30).
async fn fly(lease: &Lease, turn: TurnId, taker: &Taker) -> Result<(Option<Row>, Option<Row>), StoreError> {
    let begin = lease.prepared(BEGIN).await?;
    let take_over = lease.prepared(TAKE_OVER).await?;
    let give_back = lease.prepared(GIVE_BACK).await?;
    let read = lease.prepared(READ).await?;
    let commit = lease.prepared(COMMIT).await?;
    let client = lease.client()?;
    let since = back(taker.now, i64::from(taker.history_days).saturating_mul(24));
    let most = i64::try_from(HISTORY_TURNS).unwrap_or(0);
    let (turn, process) = (turn.as_uuid(), taker.process.as_uuid());
    let take_values: &[&(dyn ToSql + Sync)] =
        &[turn, &taker.tenant.as_str(), process, &taker.lane_secs, &taker.dead_secs];
    let own_values: &[&(dyn ToSql + Sync)] = &[turn, process];
    let read_values: &[&(dyn ToSql + Sync)] =
        &[turn, process, &since, &most, &taker.tokens_enforced, &taker.acted_by];
    let (begun, taken, given_back, found, committed) = tokio::join!(
        lease.begin(&begin),
        client.query_opt(&take_over, take_values),
        client.execute(&give_back, own_values),
        client.query_opt(&read, read_values),
        client.execute(&commit, &[]),
    );
    begun?;
    let rows = (taken?, found?);
    given_back?;
    committed.map(|_| rows)
}

fn run_of(taken: &Row, found: &Row) -> Result<SecondRun, StoreError> {
    let messages = messages_of(found)?;
    let opened = OpenTurn {
        conversation: ConversationId::from(taken.try_get::<_, Uuid>("conversation_id")?),
        binding: parse_binding(taken)?,
        fence: taken.try_get::<_, Option<i64>>("fence")?.map(Fence::new),
        taken: messages.len(),
        turn_count: None,
        hourly_count: None,
        spent_tokens: 0,
        spent_usd: Decimal::ZERO,
        running_before: 0,
        reply_queued: found.try_get("reply_queued")?,
        handoff: open_handoff(found)?,
        token_row: None,
        history: history_of(found)?,
        offering: found.try_get("offering")?,
        offering_before: found.try_get("offering")?,
        acted: acted_of(found)?,
        attempted: attempted_of(found)?,
    };
    Ok(SecondRun {
        opened,
        subscriber: SubscriberId::stored(taken.try_get("subscriber_id")?),
        channel: taken.try_get("channel")?,
        messages,
        received_at: taken.try_get("received_at")?,
        last_message_at: taken.try_get("last_message_at")?,
        again: taken.try_get("again")?,
        dead: ProcessId::from(taken.try_get::<_, Uuid>("dead")?),
    })
}

fn attempted_of(row: &Row) -> Result<Vec<serde_json::Value>, StoreError> {
    if crash_points::is_sabotaged(Sabotage::Attempts) {
        return Ok(Vec::new());
    }
    let found: Option<serde_json::Value> = row.try_get("attempted")?;
    Ok(found.and_then(|list| list.as_array().cloned()).unwrap_or_default())
}

fn messages_of(row: &Row) -> Result<Vec<RecordedMessage>, StoreError> {
    let unexpected = StoreError::Unexpected { what: "turns" };
    let rows: Vec<MessageJson> = match serde_json::from_value(row.try_get("messages")?) {
        Ok(rows) => rows,
        Err(_) => return Err(unexpected),
    };
    rows.into_iter()
        .map(|message| {
            let media = message.media.as_deref().map(str::parse).transpose();
            Ok(RecordedMessage {
                id: MessageId::from(message.id),
                text: ContactText::new(message.text),
                media: media.map_err(|_| StoreError::Unexpected { what: "turns.media_kind" })?,
            })
        })
        .collect()
}

/// Ends a turn of this process that is too late for any message to the contact (ARC-46); `now` by the business clock.
///
/// # Errors
/// When it may still be there.
pub async fn end_silently(
    database: &Database,
    turn: TurnId,
    process: ProcessId,
    tokens_enforced: bool,
    now: Timestamp,
) -> Result<(), StoreError> {
    let lease = database.lease().await?;
    let statement = lease.prepared(END_SILENTLY).await?;
    let values: &[&(dyn ToSql + Sync)] = &[turn.as_uuid(), process.as_uuid(), &tokens_enforced, &now];
    lease.client()?.execute(&statement, values).await?;
    lease.give_back();
    Ok(())
}

#[cfg(test)]
#[path = "second_run_tests.rs"]
mod tests;
