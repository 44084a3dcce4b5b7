//! The outbox: claims of each contact's oldest queued reply, progress inside a reply, retries, dead letters (04
//! sections 4 and 5, ARC-47). A claim is fenced by its process and attempt: a write that comes too late changes
//! nothing.

use std::time::Duration;

use serde_json::Value;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use super::actions::{OpenActions, opened_of};
use super::{Database, StoreError};
use crate::domain::{ConversationId, ProcessId, Redacted, SubscriberId, TenantId};

/// Whether nobody works on the row `o` any longer although it is `delivering`: a dead process holds it, or its lease has
/// ended.
macro_rules! let_go {
    () => {
        "(o.rs_process_id is null and o.rs_lease_until <= now()
             and o.rs_lease_until - interval '15 minutes' >= o.next_attempt_at
          or o.rs_process_id is not null
             and (o.rs_lease_until <= now()
               or not exists (select 1 from rs_processes p where p.id = o.rs_process_id
                              and p.beat_at > statement_timestamp() - make_interval(secs => $5))))"
    };
}

/// Whether the row `o` can be claimed: it is due, or whoever claimed it has let it go; then it is taken over, and the
/// attempt counts (GAP-DL-1).
macro_rules! claimable {
    () => {
        concat!(
            "(o.status = 'pending' and o.next_attempt_at <= now() or o.status = 'delivering' and ",
            let_go!(),
            ")"
        )
    };
}

/// Whether the reply `o` must wait for one before it: an older one of the contact that is queued, or that was said and is
/// not out yet. The latter is bounded: a living process confirms or queues it in a moment, and after 5 minutes nobody
/// waits for it any longer; a dead one's is queued by whoever recovers it, however old it is, for whoever claims also
/// recovers (LANE-6, ARC-42, ARC-43).
/// Rows of one transaction have the same time: their sequence decides (GAP-DL-5).
macro_rules! stands_behind {
    () => {
        "(exists (
            select 1 from outbox e
            where e.tenant_id = o.tenant_id and e.subscriber_id = o.subscriber_id and e.kind = 'reply'
              and e.status in ('pending', 'delivering') and (e.created_at, e.rs_seq) < (o.created_at, o.rs_seq))
          or exists (
            select 1 from rs_owed s
            where s.conversation_id = o.conversation_id and s.status = 'said' and not s.queued
              and s.said_at < o.created_at
              and (s.said_at > clock_timestamp() - interval '5 minutes'
                or not exists (select 1 from rs_processes p where p.id = s.process_id
                               and p.beat_at > statement_timestamp() - interval '1 minute'))))"
    };
}

/// Claims due replies, at most one a contact and always its oldest: two workers can neither take one row twice nor
/// overtake each other (BOX-10, BOX-11, PROC-2, GAP-DL-4). A dead letter that an operator sends anew is the oldest
/// while a newer reply may be under way; it waits for that one, whose field and flow it would mix with its own
/// (ARC-43). A claim that was let go holds nothing up. Token rows wait for nothing and hold nothing up (BOX-11, WRK-5).
const CLAIM: &str = concat!(
    "with under_way as materialized (
      select o.id, o.subscriber_id from outbox o
      where o.tenant_id = $1 and o.kind = 'reply' and o.status = 'delivering' and ",
    let_go!(),
    " is not true),
    replies as (
      select o.id from outbox o
      where o.tenant_id = $1 and o.kind = 'reply' and ",
    claimable!(),
    " and not ",
    stands_behind!(),
    " and not exists (select 1 from under_way u where u.subscriber_id = o.subscriber_id and u.id <> o.id)
      order by o.next_attempt_at, o.created_at, o.rs_seq
      limit $2 for update skip locked),
    tokens as (
      select o.id from outbox o
      where o.tenant_id = $1 and o.kind = 'contact_token' and ",
    claimable!(),
    " order by o.next_attempt_at, o.created_at, o.rs_seq
      limit $6 for update skip locked),
    due as (select id from replies union all select id from tokens)
    update outbox o
    set status = 'delivering', attempts = o.attempts + 1, rs_process_id = $3,
        rs_lease_until = clock_timestamp() + make_interval(secs => $4)
    from due where o.id = due.id
    returning o.id, o.kind, o.subscriber_id, o.conversation_id, o.payload, o.attempts,
              coalesce(o.rs_texts_sent, 0) as sent,
              extract(epoch from clock_timestamp() - coalesce(o.rs_window_from, o.created_at))::float8 as age,
              greatest(0, extract(epoch from (select l.next_text_at from rs_lanes l
                                              where l.conversation_id = o.conversation_id) - clock_timestamp()))::float8
                as pause"
);

/// A row that the reference has claimed carries no lease of ours; it gets one that no live claim outlasts, counted
/// from when we first saw it (COMP-6). One from before the row's present due time belongs to an earlier claim: the
/// reference does not clear our column when it gives a row back.
const WATCH_FOREIGN: &str = "
    update outbox set rs_lease_until = now() + interval '15 minutes'
    where tenant_id = $1 and status = 'delivering' and rs_process_id is null
      and (rs_lease_until is null or rs_lease_until - interval '15 minutes' < next_attempt_at)";

/// Seconds until the next reply, or with $2 the next token row, is due, for the timer.
const NEXT_DUE: &str = concat!(
    "select extract(epoch from min(o.next_attempt_at) - clock_timestamp())::float8 as due from outbox o
    where o.tenant_id = $1 and o.status = 'pending'
      and (o.kind = 'contact_token' and $2
        or o.kind = 'reply' and not ",
    stands_behind!(),
    " and not exists (
            select 1 from outbox e
            where e.tenant_id = o.tenant_id and e.subscriber_id = o.subscriber_id and e.kind = 'reply'
              and e.status = 'delivering' and e.id <> o.id))"
);

/// Stores how many texts are out, renews the lease and sets the contact's next sending time (GAP-DL-2, PACE-2).
const PROGRESS: &str = "
    with held as (
      update outbox set rs_texts_sent = $4, rs_lease_until = clock_timestamp() + make_interval(secs => $5)
      where id = $1 and status = 'delivering' and rs_process_id = $2 and attempts = $3
      returning conversation_id),
    paced as (
      update rs_lanes l set next_text_at = clock_timestamp() + make_interval(secs => $6)
      from held where l.conversation_id = held.conversation_id)
    select 1 as held from held";

/// Keeps a claim alive while its next text waits for its turn at ManyChat.
const RENEW: &str = "
    update outbox set rs_texts_sent = $4, rs_lease_until = clock_timestamp() + make_interval(secs => $5)
    where id = $1 and status = 'delivering' and rs_process_id = $2 and attempts = $3";

/// All texts are out, and so the reply's actions are open, in the name of this process (PERF-5, LIM-2). The names of the
/// reference's rows are ours: an agent's row that is not there opens nothing.
const DELIVERED: &str = "
    with held as (
      update outbox
      set status = 'delivered', delivered_at = now(), last_error = null, rs_texts_sent = $4,
          rs_process_id = null, rs_lease_until = null
      where id = $1 and status = 'delivering' and rs_process_id = $2 and attempts = $3
      returning conversation_id, tenant_id, subscriber_id, payload),
    opened as (
      insert into rs_actions (turn_id, conversation_id, tenant_id, process_id, actions)
      select t.id, held.conversation_id, held.tenant_id, $2, held.payload -> 'actions'
      from held join turns t on t.conversation_id = held.conversation_id and t.id::text = held.payload ->> 'turnId'
      where jsonb_typeof(held.payload -> 'actions') = 'array'
      on conflict (turn_id) do nothing
      returning turn_id, conversation_id, actions),
    paced as (
      update rs_lanes l set next_text_at = clock_timestamp() + make_interval(secs => $5)
      from held where l.conversation_id = held.conversation_id)
    select exists (select 1 from held) as held,
      (select jsonb_agg(jsonb_build_object('turn', opened.turn_id, 'conversation', opened.conversation_id,
                                           'subscriber', held.subscriber_id, 'actions', opened.actions))
       from opened, held) as opened";

/// Gives the row back for a later attempt; the contact's later replies become due no earlier (BOX-14), and the next
/// text keeps its distance (PACE-3).
const RETRY: &str = "
    with held as (
      update outbox
      set status = 'pending', last_error = $4, rs_process_id = null, rs_lease_until = null,
          next_attempt_at = clock_timestamp() + make_interval(secs => $5)
      where id = $1 and status = 'delivering' and rs_process_id = $2 and attempts = $3
      returning id, tenant_id, subscriber_id, conversation_id, next_attempt_at),
    later as (
      update outbox o set next_attempt_at = greatest(o.next_attempt_at, held.next_attempt_at)
      from held
      where o.tenant_id = held.tenant_id and o.subscriber_id = held.subscriber_id and o.kind = 'reply'
        and o.status = 'pending' and o.id <> held.id),
    paced as (
      update rs_lanes l set next_text_at = clock_timestamp() + make_interval(secs => $6)
      from held where l.conversation_id = held.conversation_id)
    select 1 as held from held";

/// Gives the reply up: a person takes over (DEC-31), and its actions are dropped (BOX-17, PERF-6).
const DEAD_LETTER: &str = "
    with held as (
      update outbox set status = 'failed', last_error = $4, rs_process_id = null, rs_lease_until = null
      where id = $1 and status = 'delivering' and rs_process_id = $2 and attempts = $3
      returning conversation_id, payload),
    marked as (
      update conversations c set escalated_at = now(), updated_at = now()
      from held where c.id = held.conversation_id
      returning 1),
    dropped as (
      update turns t
      set actions = (
        select jsonb_agg(case when e.value ->> 'status' = 'staged'
                              then e.value || '{\"status\": \"dead_lettered\"}' else e.value end order by e.place)
        from jsonb_array_elements(t.actions) with ordinality as e(value, place))
      from held
      where t.conversation_id = held.conversation_id and t.id::text = held.payload ->> 'turnId'
        and jsonb_typeof(t.actions) = 'array' and t.actions <> '[]'),
    called as (
      insert into rs_handoffs (conversation_id, reason)
      select conversation_id, 'low_confidence' from held where conversation_id is not null),
    paced as (
      update rs_lanes l set next_text_at = clock_timestamp() + make_interval(secs => $5)
      from held, (select count(*) from marked) as after_the_conversation
      where l.conversation_id = held.conversation_id)
    select 1 as held from held";

/// Gives the row back unattempted, as at a stop (WRK-11).
const RELEASE: &str = "
    update outbox
    set status = 'pending', attempts = attempts - 1, rs_process_id = null, rs_lease_until = null
    where id = $1 and status = 'delivering' and rs_process_id = $2 and attempts = $3";

/// A reply that this process delivers now.
#[derive(Debug)]
pub struct Claim {
    /// The process that claimed it, by the id it had then.
    pub process: ProcessId,
    /// Id of the row; the only thing of it that a log names.
    pub id: Uuid,
    /// Whom it goes to.
    pub subscriber: SubscriberId,
    /// The conversation; `None` on old rows of the reference.
    pub conversation: Option<ConversationId>,
    /// The texts in order, one delivery each.
    pub texts: Redacted<Vec<String>>,
    /// This attempt, 1 for the first. Together with the process it fences every write about the claim.
    pub attempt: i32,
    /// Texts that earlier attempts have delivered.
    pub sent: usize,
    /// How long the reply has existed, or since an operator gave it a fresh window.
    pub age: Duration,
    /// How long to wait before the first text, so that the contact's texts keep their distance.
    pub pause: Duration,
}

/// Who claims and for how long.
#[derive(Clone, Debug)]
pub struct Claimant {
    /// Rows of this tenant only (PROC-7).
    pub tenant: TenantId,
    /// This process.
    pub process: ProcessId,
    /// Longest time between two signs of life of a claim.
    pub lease: Duration,
    /// After how long without a beat a process is dead.
    pub dead: Duration,
    /// Distance between two texts to one contact (PACE-1).
    pub gap: Duration,
}

/// Whether a claim was still ours when its write arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Held {
    /// The write took effect.
    Yes,
    /// Somebody else has taken the row over: stop sending.
    Lost,
}

/// What fences every write about a claim: its row, the process that claimed it, and its attempt.
pub(super) type ClaimFence = (Uuid, ProcessId, i32);

impl Claim {
    const fn fence(&self) -> ClaimFence {
        (self.id, self.process, self.attempt)
    }
}

impl TokenClaim {
    pub(super) const fn fence(&self) -> ClaimFence {
        (self.id, self.process, self.attempt)
    }
}

/// A contact token that this process writes anew (TOK-30).
#[derive(Debug)]
pub struct TokenClaim {
    /// The process that claimed it, by the id it had then.
    pub process: ProcessId,
    /// Id of the row.
    pub id: Uuid,
    /// Whose token it is.
    pub subscriber: SubscriberId,
    /// The generation the row was made for; `None` when the row names none or has no conversation (TOK-31).
    pub generation: Option<i32>,
    /// This attempt, 1 for the first. Together with the process it fences every write about the claim.
    pub attempt: i32,
    /// How long the row has existed.
    pub age: Duration,
}

/// What one look has claimed.
#[derive(Debug, Default)]
pub struct Claimed {
    /// Replies, in no order: each is of another contact.
    pub replies: Vec<Claim>,
    /// Tokens to write.
    pub tokens: Vec<TokenClaim>,
}

/// Claims up to `most` due replies and up to `most_tokens` due token rows.
///
/// # Errors
/// When the database does not answer; a claim that was made all the same ends with its lease.
pub async fn claim(
    database: &Database,
    claimant: &Claimant,
    most: i64,
    most_tokens: i64,
) -> Result<Claimed, StoreError> {
    let lease = database.lease().await?;
    let statement = lease.prepared(CLAIM).await?;
    let (seconds, dead) = (claimant.lease.as_secs_f64(), claimant.dead.as_secs_f64());
    let values: &[&(dyn ToSql + Sync)] =
        &[&claimant.tenant.as_str(), &most, claimant.process.as_uuid(), &seconds, &dead, &most_tokens];
    let rows = lease.client()?.query(&statement, values).await?;
    lease.give_back();
    let mut claimed = Claimed::default();
    for row in &rows {
        match row.try_get("kind")? {
            "reply" => claimed.replies.push(claim_of(row, claimant.process)?),
            _ => claimed.tokens.push(token_claim_of(row, claimant.process)?),
        }
    }
    Ok(claimed)
}

fn token_claim_of(row: &Row, process: ProcessId) -> Result<TokenClaim, StoreError> {
    let payload: Value = row.try_get("payload")?;
    let conversation: Option<Uuid> = row.try_get("conversation_id")?;
    let generation = payload.get("generation").and_then(Value::as_i64);
    Ok(TokenClaim {
        id: row.try_get("id")?,
        process,
        subscriber: SubscriberId::stored(row.try_get("subscriber_id")?),
        generation: generation
            .filter(|_| conversation.is_some())
            .and_then(|number| i32::try_from(number).ok()),
        attempt: row.try_get("attempts")?,
        age: seconds(row.try_get("age")?),
    })
}

fn claim_of(row: &Row, process: ProcessId) -> Result<Claim, StoreError> {
    let payload: Value = row.try_get("payload")?;
    let sent: i32 = row.try_get("sent")?;
    let conversation: Option<Uuid> = row.try_get("conversation_id")?;
    Ok(Claim {
        process,
        id: row.try_get("id")?,
        subscriber: SubscriberId::stored(row.try_get("subscriber_id")?),
        conversation: conversation.map(ConversationId::from),
        texts: Redacted::new(texts_of(&payload)),
        attempt: row.try_get("attempts")?,
        sent: usize::try_from(sent).unwrap_or(0),
        age: seconds(row.try_get("age")?),
        pause: seconds(row.try_get::<_, Option<f64>>("pause")?.unwrap_or(0.0)),
    })
}

/// The texts of a reply payload; keys we do not know are ignored (DB-12).
fn texts_of(payload: &Value) -> Vec<String> {
    let messages = payload.get("messages").and_then(Value::as_array);
    messages.into_iter().flatten().filter_map(|text| text.as_str().map(str::to_owned)).collect()
}

fn seconds(value: f64) -> Duration {
    Duration::try_from_secs_f64(value.max(0.0)).unwrap_or(Duration::ZERO)
}

/// Puts a lease on rows the reference claimed, and says when the next row is due; `None`: none is queued. Token rows
/// count only with `tokens`.
///
/// # Errors
/// When the database does not answer.
pub async fn next_due(
    database: &Database,
    tenant: &TenantId,
    tokens: bool,
) -> Result<Option<Duration>, StoreError> {
    let lease = database.lease().await?;
    let watch = lease.prepared(WATCH_FOREIGN).await?;
    lease.client()?.execute(&watch, &[&tenant.as_str()]).await?;
    let statement = lease.prepared(NEXT_DUE).await?;
    let row = lease.client()?.query_one(&statement, &[&tenant.as_str(), &tokens]).await?;
    lease.give_back();
    Ok(row.try_get::<_, Option<f64>>("due")?.map(seconds))
}

/// `sent` texts are out.
///
/// # Errors
/// When the write may not have arrived.
pub async fn progress(
    database: &Database,
    claimant: &Claimant,
    claim: &Claim,
    sent: usize,
) -> Result<Held, StoreError> {
    let (lease, gap) = (claimant.lease.as_secs_f64(), claimant.gap.as_secs_f64());
    fenced(database, claim.fence(), PROGRESS, &[&count(sent), &lease, &gap]).await
}

/// The claim is still being worked on; `sent` texts are out.
///
/// # Errors
/// When the write may not have arrived.
pub async fn renew(
    database: &Database,
    claimant: &Claimant,
    claim: &Claim,
    sent: usize,
) -> Result<Held, StoreError> {
    fenced(database, claim.fence(), RENEW, &[&count(sent), &claimant.lease.as_secs_f64()]).await
}

/// All texts are out. Returns the actions that are open now; `None` when somebody else has taken the row over.
///
/// # Errors
/// When the write may not have arrived.
pub async fn delivered(
    database: &Database,
    claimant: &Claimant,
    claim: &Claim,
) -> Result<Option<Vec<OpenActions>>, StoreError> {
    let lease = database.lease().await?;
    let statement = lease.prepared(DELIVERED).await?;
    let sent = count(claim.texts.expose().len());
    let values: &[&(dyn ToSql + Sync)] =
        &[&claim.id, claim.process.as_uuid(), &claim.attempt, &sent, &claimant.gap.as_secs_f64()];
    let row = lease.client()?.query_one(&statement, values).await?;
    lease.give_back();
    let held: bool = row.try_get("held")?;
    Ok(if held { Some(opened_of(&row, claim.process)?) } else { None })
}

/// Another attempt after `delay`. `error` is already redacted.
///
/// # Errors
/// When the write may not have arrived.
pub async fn retry(
    database: &Database,
    claimant: &Claimant,
    claim: &Claim,
    error: &str,
    delay: Duration,
) -> Result<Held, StoreError> {
    let gap = claimant.gap.as_secs_f64();
    fenced(database, claim.fence(), RETRY, &[&error, &delay.as_secs_f64(), &gap]).await
}

/// No further attempt. `error` is already redacted.
///
/// # Errors
/// When the write may not have arrived.
pub async fn dead_letter(
    database: &Database,
    claimant: &Claimant,
    claim: &Claim,
    error: &str,
) -> Result<Held, StoreError> {
    fenced(database, claim.fence(), DEAD_LETTER, &[&error, &claimant.gap.as_secs_f64()]).await
}

/// Gives the row back as if it had not been claimed.
///
/// # Errors
/// When the write may not have arrived.
pub async fn release(database: &Database, claim: &Claim) -> Result<Held, StoreError> {
    fenced(database, claim.fence(), RELEASE, &[]).await
}

/// Runs a statement whose first three parameters are the claim's fence: its row and attempt, and the process.
pub(super) async fn fenced(
    database: &Database,
    (id, process, attempt): ClaimFence,
    sql: &'static str,
    more: &[&(dyn ToSql + Sync)],
) -> Result<Held, StoreError> {
    let lease = database.lease().await?;
    let statement = lease.prepared(sql).await?;
    let fence: [&(dyn ToSql + Sync); 3] = [&id, process.as_uuid(), &attempt];
    let values: Vec<&(dyn ToSql + Sync)> = fence.into_iter().chain(more.iter().copied()).collect();
    let changed = lease.client()?.execute(&statement, &values).await?;
    lease.give_back();
    Ok(if changed == 0 { Held::Lost } else { Held::Yes })
}

fn count(texts: usize) -> i32 {
    i32::try_from(texts).unwrap_or(i32::MAX)
}

#[cfg(test)]
#[path = "outbox_tests.rs"]
mod tests;
