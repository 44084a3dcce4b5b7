//! Replies that are owed: confirming that one was handed over, sending one through the outbox after all, and
//! finding out what became of a flight that did not answer (ARC-31, ARC-46).

use jiff::Timestamp;
use serde_json::Value;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use super::actions::{OpenActions, opened_of};
use super::attempts::attempts_of;
use super::binding::binding_of;
use super::open::day_of;
use super::pool::Lease;
use super::{Database, StoreError};
use crate::domain::{ConversationId, MessageId, ProcessId, SubscriberId, TenantId, TurnId};

/// When a reply of the contact `c` that is queued now is due: never before one that is queued already (BOX-3). Whoever queues
/// one writes it after the wait for the conversation's lock: its number is its place (ARC-43).
macro_rules! due_behind {
    () => {
        "greatest(now(), (select max(x.next_attempt_at) from outbox x
                          where x.tenant_id = c.tenant_id and x.subscriber_id = c.subscriber_id
                            and x.kind = 'reply' and x.status in ('pending', 'delivering')))"
    };
}

/// The place of what is queued for the reply `$said` of the contact `c`: the one that Settle has drawn. A reply that an older
/// version has said has none, and goes before what was queued since, by their dates: of one place the older comes first.
macro_rules! place_of {
    ($said:literal) => {
        concat!(
            "coalesce(",
            $said,
            ".place, (select min(coalesce(x.rs_seq, 0)) from outbox x
                      where x.tenant_id = c.tenant_id and x.subscriber_id = c.subscriber_id
                        and x.kind = 'reply' and x.status in ('pending', 'delivering') and x.created_at > ",
            $said,
            ".said_at), nextval('outbox_rs_seq_seq'))"
        )
    };
}

/// Deletes confirmed rows and adds their spend to the tenant's day, in one statement for a whole batch: the one
/// hot row is never touched while a turn waits (ARC-33). What follows a long reply's beginning enters the outbox in
/// the same statement, in the place of its reply, so that it stands before everything that was queued since (GAP-CH-11). A
/// reply that stands behind a confirmed one may be claimed from now on.
///
/// The reply is out, so its actions are open: they move to `rs_actions` in the name of this process (ARC-46, AFTER-2).
pub(super) const CONFIRM: &str = concat!(
    "
    with gone as (
      delete from rs_owed where turn_id = any ($1) and status = 'said'
      returning tenant_id, conversation_id, tokens, cost_usd, charged, rest, said_at, place, actions, payload),
    opened as (
      insert into rs_actions (turn_id, conversation_id, tenant_id, process_id, actions)
      select (payload ->> 'turnId')::uuid, conversation_id, tenant_id, $3::uuid, actions
      from gone where actions is not null
      on conflict (turn_id) do nothing
      returning turn_id, conversation_id, actions),
    following as (
      insert into outbox (tenant_id, subscriber_id, conversation_id, kind, payload, created_at, next_attempt_at, rs_seq)
      select c.tenant_id, c.subscriber_id, c.id, 'reply', gone.rest, gone.said_at, now(), ",
    place_of!("gone"),
    "
      from gone join conversations c on c.id = gone.conversation_id where gone.rest is not null
      returning 1),
    spend as (
      select tenant_id, sum(tokens) as tokens, sum(cost_usd) as cost_usd from gone where charged group by tenant_id),
    added as (
      insert into budget_counters as b (tenant_id, day, tokens, cost_usd)
      select tenant_id, $2, least(tokens, 2147483647)::integer, least(cost_usd, 999999.999999) from spend
      on conflict (tenant_id, day) do update
        set tokens = least(b.tokens::bigint + excluded.tokens, 2147483647)::integer,
            cost_usd = least(b.cost_usd + excluded.cost_usd, 999999.999999))
    select exists (select 1 from following) or exists (
      select 1 from gone join conversations c on c.id = gone.conversation_id
      join outbox x on x.tenant_id = c.tenant_id and x.subscriber_id = c.subscriber_id
      where x.kind = 'reply' and x.status in ('pending', 'delivering')) as queued,
      (select jsonb_agg(jsonb_build_object('turn', opened.turn_id, 'conversation', opened.conversation_id,
                                           'subscriber', c.subscriber_id, 'actions', opened.actions))
       from opened join conversations c on c.id = opened.conversation_id) as opened"
);

/// Puts a said reply into the outbox, once and whole. It keeps its place among the contact's replies: another process may
/// have queued a later one meanwhile (LANE-6, ARC-43). It is due behind those that were queued before it (BOX-3), and when
/// the turn's flow has played (WAIT-2). Its actions go with it (AFTER-9).
const QUEUE: &str = concat!(
    "
    with late as (
      update rs_owed set queued = true, rest = null, actions = null
      where turn_id = $1 and status = 'said' and not queued
      returning conversation_id, payload, said_at, place, not_before)
    insert into outbox (tenant_id, subscriber_id, conversation_id, kind, payload, created_at, next_attempt_at, rs_seq)
    select c.tenant_id, c.subscriber_id, c.id, 'reply', late.payload, late.said_at,
           greatest(now(), late.not_before,
                    (select max(x.next_attempt_at) from outbox x
                     where x.tenant_id = c.tenant_id and x.subscriber_id = c.subscriber_id
                       and x.kind = 'reply' and x.status in ('pending', 'delivering')
                       and case when late.place is null then x.created_at <= late.said_at
                                else coalesce(x.rs_seq, 0) < late.place end)), ",
    place_of!("late"),
    "
    from late join conversations c on c.id = late.conversation_id"
);

/// Ends a turn of this process that never settled: its lane is released, the handoff is recorded and, when the contact
/// has not been told yet, queued; the owed reply is paid. A turn that another process has taken over is left alone. Its
/// messages end with it, those that Open has left in the inbox included. What it has sent stays on the record (FLOW-10).
const ABANDON: &str = concat!(
    "with contact as (
      select c.id from conversations c join rs_owed o on o.conversation_id = c.id
      where o.turn_id = $1 for no key update of c),
    lane as (
      update rs_lanes l set turn_id = null, process_id = null, expires_at = null
      from contact where l.conversation_id = contact.id and l.turn_id = $1 and l.process_id = $7),
    gone as (
      delete from rs_owed o using contact
      where o.conversation_id = contact.id and o.turn_id = $1 and o.status = 'running' and o.process_id = $7
      returning o.conversation_id, (o.binding <> 'unbound' or not $2) as bound),
    left_inbox as (
      delete from rs_inbox i using gone
      where i.conversation_id = gone.conversation_id and i.message_id = any ($8::uuid[])),
    agent as (
      insert into turns (conversation_id, role, text, outcome, bound, actions, created_at)
      select conversation_id, 'agent', $3::text, 'error', bound, ",
    attempts_of!("$1"),
    ", $4::timestamptz from gone),
    marked as (
      update conversations c set escalated_at = now(), updated_at = now()
      from gone where c.id = gone.conversation_id and gone.bound),
    called as (
      insert into rs_handoffs (conversation_id, turn_id, reason)
      select conversation_id, $1::uuid, 'low_confidence' from gone where bound),
    told as (
      insert into outbox (tenant_id, subscriber_id, conversation_id, kind, payload, next_attempt_at, created_at)
      select c.tenant_id, c.subscriber_id, c.id, 'reply', $6::jsonb, ",
    due_behind!(),
    ", clock_timestamp()",
    " from gone join conversations c on c.id = gone.conversation_id where not $5),
    nudged as (
      update nudges n set status = 'cancelled', cancel_reason = 'escalated', updated_at = now()
      from gone where n.conversation_id = gone.conversation_id and n.status = 'pending')
    select 1 as gone from gone"
);

/// Ends a message that never became a turn with a person (LANE-9): it leaves the inbox, and the contact is marked, a
/// person is called and the escalation copy is queued. A message that does not prove its contact changes nothing of the
/// contact's own (ESCS-2, TURN-12). What is written takes the turn's id, so that it is written once (ARC-43).
///
/// A contact who has no conversation is not handed off here: [`FIRST_HEARD`] comes before.
///
/// With $11 the message is known not to be a turn. Without, only finding it in the inbox says so: once it is deleted
/// there, an Open that is still on its way finds it gone and records nothing.
const HANDOFF_WITHOUT_TURN: &str = concat!(
    "with contact as (
      select c.id, (",
    binding_of!("$6", "$7", "$8"),
    ") <> 'unbound' or not $9 as bound
      from conversations c where c.tenant_id = $1 and c.subscriber_id = $2 for no key update),
    left_inbox as (
      delete from rs_inbox i using contact
      where i.conversation_id = contact.id and i.message_id = any ($10::uuid[])
        and not exists (select 1 from turns t where t.id = $3)
      returning i.message_id),
    earlier as (
      select 1 from rs_handoffs h where h.id = $3 union all select 1 from outbox x where x.id = $3),
    go as (
      select 1 from contact where ($11 or exists (select 1 from left_inbox))
        and not exists (select 1 from turns t where t.id = $3) and not exists (select 1 from earlier)),
    marked as (
      update conversations c set escalated_at = now(), updated_at = now()
      from contact, go where c.id = contact.id and contact.bound),
    called as (
      insert into rs_handoffs (id, conversation_id, turn_id, reason)
      select $3, id, $3, 'low_confidence' from contact, go where bound
      on conflict (id) do nothing),
    nudged as (
      update nudges n set status = 'cancelled', cancel_reason = 'escalated', updated_at = now()
      from contact, go where n.conversation_id = contact.id and contact.bound and n.status = 'pending'),
    told as (
      insert into outbox (id, tenant_id, subscriber_id, conversation_id, kind, payload, next_attempt_at, created_at)
      select $3, c.tenant_id, c.subscriber_id, (select id from contact), 'reply', $4::jsonb, ",
    due_behind!(),
    ", clock_timestamp()",
    " from go, (select $1::text as tenant_id, $2::text as subscriber_id) c where not $5
      on conflict (id) do nothing)
    select exists (select 1 from go) or exists (select 1 from earlier) as handed_off,
           (select id from contact) as conversation_id"
);

/// The conversation of a contact whose first message never became a turn: without it nothing could hold the call for a
/// person (LANE-9, DEC-25).
const FIRST_HEARD: &str = "
    insert into conversations (tenant_id, subscriber_id, channel, turn_count, last_message_at)
    values ($1, $2, $3, 0, $4) on conflict (tenant_id, subscriber_id) do nothing";

/// Says what became of an owed reply.
const STATUS: &str =
    "select status, conversation_id, process_id = $2 as ours from rs_owed where turn_id = $1";

/// What confirming led to.
#[derive(Debug, Default)]
pub struct Confirmed {
    /// Something was queued that follows one of the replies: wake the worker.
    pub queued: bool,
    /// Actions whose reply is out: perform them now.
    pub opened: Vec<OpenActions>,
}

/// Confirms that replies were handed over or are safely in the outbox. `now` dates their spend (BUD-6). Actions that are
/// open now are `process`'s.
///
/// # Errors
/// When the statement may not have run: confirm the same turns again.
pub async fn confirm(
    database: &Database,
    turns: &[TurnId],
    process: ProcessId,
    now: Timestamp,
) -> Result<Confirmed, StoreError> {
    let ids = TurnId::uuids(turns);
    let lease = database.lease().await?;
    let statement = lease.prepared(CONFIRM).await?;
    let row = lease.client()?.query_one(&statement, &[&ids, &day_of(now), process.as_uuid()]).await?;
    lease.give_back();
    Ok(Confirmed { queued: row.try_get("queued")?, opened: opened_of(&row, process)? })
}

/// Puts a said reply into the outbox because it could not be handed over (GAP-CH-7). Doing it twice queues it
/// once.
///
/// # Errors
/// When the statement may not have run: call again.
pub async fn queue(database: &Database, turn: TurnId) -> Result<(), StoreError> {
    let lease = database.lease().await?;
    let statement = lease.prepared(QUEUE).await?;
    lease.client()?.execute(&statement, &[turn.as_uuid()]).await?;
    lease.give_back();
    Ok(())
}

/// What a flight without an answer left behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resolved {
    /// It never happened.
    NothingThere,
    /// It never happened, and its message, which waited in the inbox, has ended with a person.
    HandedOff,
    /// It was open; it is now ended as a handoff.
    Abandoned,
    /// It had settled; its reply is now in the outbox.
    Queued,
    /// Another process has it: what it leads to is decided there.
    TakenOver,
}

/// What was found, and whose it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resolution {
    /// What was found.
    pub found: Resolved,
    /// The conversation, where it is known.
    pub conversation: Option<ConversationId>,
}

/// A failed turn, and how it ends with a person where it was opened.
#[derive(Debug)]
pub struct Failed<'turn> {
    /// The turn.
    pub turn: TurnId,
    /// The process that opened it.
    pub process: ProcessId,
    /// False when others may have taken that process for dead: what it left is theirs, but for a running turn whose
    /// contact has been told of a person already.
    pub held: bool,
    /// The escalation copy.
    pub text: &'turn str,
    /// True when the contact has read the escalation copy already.
    pub told: bool,
    /// `CONTACT_TOKENS_ENFORCED`.
    pub tokens_enforced: bool,
    /// Ids of its messages, as far as they are known.
    pub messages: Vec<MessageId>,
    /// Business time.
    pub now: Timestamp,
}

/// A failed turn whose contact is known: it ends with a person also where it was never opened.
#[derive(Debug)]
pub struct Handoff<'turn> {
    /// The turn.
    pub failed: Failed<'turn>,
    /// Its tenant.
    pub tenant: &'turn TenantId,
    /// Its contact.
    pub subscriber: &'turn SubscriberId,
    /// Channel stored when the contact's conversation has to be created.
    pub channel: &'turn str,
    /// Whether all of them are known to stand in the inbox: one that is not found there has been erased, or joined another.
    pub stored: bool,
    /// SHA-256 of the token they presented, in lower-case hex; `None` when none was presented.
    pub token_digest: Option<String>,
    /// When the last of them arrived: a message is judged as of then (DEC-24).
    pub arrived: Timestamp,
}

/// Ends a turn whose Open or Settle did not answer (ARC-31). [`Resolved::NothingThere`] can still change while
/// the server works on a flight that was cut off: ask again later.
///
/// # Errors
/// When the database still does not answer: call again.
pub async fn resolve(database: &Database, handoff: &Handoff<'_>) -> Result<Resolution, StoreError> {
    let lease = database.lease().await?;
    let ended = end_on(&lease, &handoff.failed).await?;
    let resolution = match ended {
        Some(resolution) => resolution,
        None => {
            let waited = without_turn(&lease, handoff, false).await?;
            let found = if waited.handed_off { Resolved::HandedOff } else { Resolved::NothingThere };
            Resolution { found, conversation: waited.conversation }
        }
    };
    lease.give_back();
    Ok(resolution)
}

/// The same for a turn of which nothing is known but that it may have been opened: without that there is nothing to end.
///
/// # Errors
/// When the database still does not answer: call again.
pub async fn end_opened(database: &Database, failed: &Failed<'_>) -> Result<Resolution, StoreError> {
    let lease = database.lease().await?;
    let ended = end_on(&lease, failed).await?;
    lease.give_back();
    Ok(ended.unwrap_or(NOTHING_THERE))
}

const NOTHING_THERE: Resolution = Resolution { found: Resolved::NothingThere, conversation: None };

/// `None` when no reply is owed by the turn.
async fn end_on(lease: &Lease, failed: &Failed<'_>) -> Result<Option<Resolution>, StoreError> {
    let mut found = look(lease, failed).await?;
    if found == Look::SettledMeanwhile {
        // What settles once stays settled: the second look finds it.
        found = look(lease, failed).await?;
    }
    Ok(match found {
        Look::Known(resolution) => Some(resolution),
        Look::NotOwed => None,
        Look::SettledMeanwhile => Some(NOTHING_THERE),
    })
}

/// What one look at a turn has found.
#[derive(PartialEq, Eq)]
enum Look {
    Known(Resolution),
    /// It was never opened, or has ended.
    NotOwed,
    /// It was running, and its Settle came through while this look waited behind it.
    SettledMeanwhile,
}

async fn look(lease: &Lease, failed: &Failed<'_>) -> Result<Look, StoreError> {
    let statement = lease.prepared(STATUS).await?;
    let values: &[&(dyn ToSql + Sync)] = &[failed.turn.as_uuid(), failed.process.as_uuid()];
    let Some(row) = lease.client()?.query_opt(&statement, values).await? else { return Ok(Look::NotOwed) };
    let conversation = Some(ConversationId::from(row.try_get::<_, Uuid>("conversation_id")?));
    let ours: bool = row.try_get("ours")?;
    let is_running = row.try_get::<_, &str>("status")? == "running";
    // Nobody has run it again yet, and whoever comes first has it: a reply would follow a handoff that was told (ARC-40).
    let is_promised = is_running && failed.told;
    let found = if !ours || !(failed.held || is_promised) {
        Resolved::TakenOver
    } else if is_running {
        if !abandon(lease, failed).await? {
            return Ok(Look::SettledMeanwhile);
        }
        Resolved::Abandoned
    } else {
        let queue = lease.prepared(QUEUE).await?;
        lease.client()?.execute(&queue, &[failed.turn.as_uuid()]).await?;
        Resolved::Queued
    };
    Ok(Look::Known(Resolution { found, conversation }))
}

/// False when nothing was left to abandon.
async fn abandon(lease: &Lease, failed: &Failed<'_>) -> Result<bool, StoreError> {
    let statement = lease.prepared(ABANDON).await?;
    let payload = reply_payload(&[failed.text.to_owned()]);
    let values: &[&(dyn ToSql + Sync)] = &[
        failed.turn.as_uuid(),
        &failed.tokens_enforced,
        &failed.text,
        &failed.now,
        &failed.told,
        &payload,
        failed.process.as_uuid(),
        &MessageId::uuids(&failed.messages),
    ];
    Ok(lease.client()?.execute(&statement, values).await? > 0)
}

/// Calls a person for a contact whose message is known never to have been recorded, and queues the escalation copy
/// unless the contact has read it. Doing it twice does it once. A contact who was never heard gets a conversation; one whose
/// messages stood in the inbox has been erased since, and gets none (DEC-13). Returns the conversation.
///
/// # Errors
/// When the statement may not have run: call again.
pub async fn hand_off_without_turn(
    database: &Database,
    handoff: &Handoff<'_>,
) -> Result<Option<ConversationId>, StoreError> {
    let lease = database.lease().await?;
    let sure = !handoff.stored;
    let mut ended = without_turn(&lease, handoff, sure).await?;
    if sure && ended.conversation.is_none() {
        let statement = lease.prepared(FIRST_HEARD).await?;
        let values: &[&(dyn ToSql + Sync)] =
            &[&handoff.tenant.as_str(), &handoff.subscriber.expose(), &handoff.channel, &handoff.failed.now];
        lease.client()?.execute(&statement, values).await?;
        ended = without_turn(&lease, handoff, sure).await?;
    }
    lease.give_back();
    Ok(ended.conversation)
}

struct WithoutTurn {
    handed_off: bool,
    conversation: Option<ConversationId>,
}

async fn without_turn(lease: &Lease, handoff: &Handoff<'_>, sure: bool) -> Result<WithoutTurn, StoreError> {
    let statement = lease.prepared(HANDOFF_WITHOUT_TURN).await?;
    let payload = reply_payload(&[handoff.failed.text.to_owned()]);
    let values: &[&(dyn ToSql + Sync)] = &[
        &handoff.tenant.as_str(),
        &handoff.subscriber.expose(),
        handoff.failed.turn.as_uuid(),
        &payload,
        &handoff.failed.told,
        &handoff.token_digest,
        &handoff.arrived,
        &handoff.failed.now,
        &handoff.failed.tokens_enforced,
        &MessageId::uuids(&handoff.failed.messages),
        &sure,
    ];
    let row = lease.client()?.query_one(&statement, values).await?;
    let conversation: Option<Uuid> = row.try_get("conversation_id")?;
    Ok(WithoutTurn {
        handed_off: row.try_get("handed_off")?,
        conversation: conversation.map(ConversationId::from),
    })
}

/// The payload of a reply row: the texts as the contact will read them, one delivery per text (CHC-4, DB-12).
#[must_use]
pub fn reply_payload(texts: &[String]) -> Value {
    serde_json::json!({ "messages": texts })
}

#[cfg(test)]
#[path = "owed_tests.rs"]
mod tests;
