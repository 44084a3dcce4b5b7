//! Open, the first flight of a turn: take the lane, record and count, read (ARC-30). Three statements in one
//! transaction, sent together: what is read must come from a snapshot taken after the wait for the lane.
//!
//! Longer than other files, and `fly` than other functions, because the three statements of the flight share their
//! parameters and are read together.

use std::time::Duration;

use jiff::Timestamp;
use rust_decimal::Decimal;
use serde::Deserialize;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Row, Statement};
use uuid::Uuid;

use super::acted::{Acted, acted_columns, acted_of};
use super::binding::binding_of;
use super::periods::{back, day_of, hour_of};
use super::statements::{BEGIN, COMMIT};
use super::takeover::{pause_columns, pause_join};
use super::{Database, StoreError};
use crate::domain::{
    Binding, ContactText, ConversationId, Fence, MediaKind, ProcessId, Role, SubscriberId, TenantId, TurnId,
};
use crate::telemetry::crash_points::{self, Point};

/// Finds or creates the conversation and takes its lane when that is free (ARC-45). An unbound message under
/// enforcement neither waits nor takes it (LANE-3). Messages that all stand in the inbox create none: where the
/// conversation is gone, the contact was erased after they came, and so were they (DEC-13).
pub(super) const TAKE_LANE: &str = concat!(
    "with found as (
       select id, token_hash, previous_token_hash, rs_unwritten_token, token_generation, token_issued_at
       from conversations where tenant_id = $1 and subscriber_id = $2 for no key update),
     made as (
       insert into conversations (tenant_id, subscriber_id, channel, turn_count, last_message_at)
       select $1::text, $2::text, $4::text, 0, $5::timestamptz where not exists (select 1 from found) and not $12
       on conflict (tenant_id, subscriber_id) do update set channel = conversations.channel
       returning id, token_hash, previous_token_hash, rs_unwritten_token, token_generation, token_issued_at),
     c as (select * from found union all select * from made),
     judged as (select c.id, ",
    binding_of!("$3", "$11", "$5"),
    " as binding from c),
     lane as (
       insert into rs_lanes as l (conversation_id, process_id, turn_id, fence, expires_at)
       select id, $7::uuid, $8::uuid, 1, clock_timestamp() + make_interval(secs => $9) from judged where binding <> 'unbound' or not $6
       on conflict (conversation_id) do update
         set process_id = excluded.process_id, turn_id = excluded.turn_id,
             fence = l.fence + 1, expires_at = excluded.expires_at
         where l.turn_id is null or l.expires_at <= clock_timestamp()
            or not exists (select 1 from rs_processes p
                           where p.id = l.process_id and p.beat_at > clock_timestamp() - make_interval(secs => $10))
       returning fence)
     select judged.id, judged.binding, (select fence from lane) as fence from judged"
);

/// Records the messages, counts them and issues a token where one is due, when it is their turn (CONV-4, W-2 to W-8):
/// the lane is ours, no dead process owes the contact a turn (DEC-35), and no other process has a message that waits
/// longer (ARC-45a). Messages behind such a one are left where they are. When it is not their turn, the lane is given
/// back and what has no row in the inbox yet gets one.
///
/// Rows of this process do not count as waiting longer: it keeps their order itself.
///
/// The conversation's row has been locked by the statement before, so what is read of it here is what is changed: of two
/// messages at once only one finds a token due (TOK-20). The write that follows has a minute before the worker does it
/// anew (TOK-22, TOK-25). A token that was given up has no time of issue: the next takes its place at once, but the
/// previous one, which ManyChat still holds, stays (GAP-DL-16); of such issues one an hour is made (BF-8).
pub(super) const RECORD: &str = concat!(
    "with judged as (
       select c.id, ",
    binding_of!("$3", "$20", "$8"),
    " as binding,
         $19::text is not null
           and (c.token_hash is null
             or coalesce(c.token_issued_at, c.rs_reissued_at, '-infinity') <= $8::timestamptz - interval '1 hour') as due,
         c.token_hash is not null and c.token_issued_at is null as given_up
       from conversations c where c.tenant_id = $1 and c.subscriber_id = $2),
     mine as (
       select i.id, i.message_id from rs_inbox i where i.message_id = any ($7::uuid[])),
     ahead as (
       select coalesce(min(i.id), 9223372036854775807) as id from rs_inbox i join judged j on i.conversation_id = j.id
       where i.process_id <> $12 and i.message_id <> all ($9::uuid[])),
     owed_first as (
       select o.turn_id from rs_owed o join judged j on o.conversation_id = j.id
       where o.status = 'running' and o.fence is not null and o.turn_id <> $5 and not exists (select 1 from rs_processes p
         where p.id = o.process_id and p.beat_at > statement_timestamp() - make_interval(secs => $16))
       order by o.created_at limit 1),
     go as (
       select j.id, j.binding, (j.binding <> 'unbound' or not $4) as bound, l.fence,
              j.due and j.binding <> 'bound' as issue, j.given_up
       from judged j left join rs_lanes l on l.conversation_id = j.id and l.turn_id = $5
       where (select count(*) from mine) = cardinality($7)
         and (j.binding = 'unbound' and $4
           or l.turn_id is not null
              and (select coalesce(min(id), 9223372036854775806) from mine) < (select id from ahead)
              and not exists (select 1 from owed_first))),
     taken as (
       select m.id, m.text, m.kind, m.place
       from go cross join unnest($9::uuid[], $10::text[], $11::text[]) with ordinality as m(id, text, kind, place)
       left join mine i on i.message_id = m.id
       where go.fence is null or coalesce(i.id, 9223372036854775806) < (select id from ahead)),
     changed as (
       update conversations c
       set turn_count = case when not go.bound then c.turn_count
                             else case when c.last_message_at <= $6 then 0 else c.turn_count end
                                  + (select count(*) from taken)::integer end,
           last_message_at = case when go.bound then greatest(c.last_message_at, $8) else c.last_message_at end,
           previous_token_hash = case when go.issue and not go.given_up then c.token_hash else c.previous_token_hash end,
           rs_reissued_at = case when go.issue and go.given_up then $8 else c.rs_reissued_at end,
           token_hash = case when go.issue then $19::text else c.token_hash end,
           token_issued_at = case when go.issue then $8 else c.token_issued_at end,
           token_generation = c.token_generation + go.issue::integer,
           offering = case when go.bound then coalesce($21::text, c.offering) else c.offering end,
           updated_at = now()
       from go where c.id = go.id and (go.bound or go.issue)
       returning c.id, c.turn_count, c.token_generation, go.bound, go.issue),
     token_row as (
       insert into outbox (tenant_id, subscriber_id, conversation_id, kind, payload, next_attempt_at)
       select $1::text, $2::text, id, 'contact_token', jsonb_build_object('generation', token_generation),
              now() + interval '60 seconds'
       from changed where issue
       returning id),
     recorded as (
       insert into turns (id, conversation_id, role, text, bound, media_kind, created_at)
       select m.id, go.id, 'user', m.text, go.bound, m.kind, $8::timestamptz
       from go, taken m order by m.place),
     owed as (
       insert into rs_owed (turn_id, conversation_id, tenant_id, process_id, fence, status, binding,
                            user_turn_ids, received_at)
       select $5::uuid, go.id, $1::text, $12::uuid, go.fence, 'running', go.binding,
              array(select id from taken order by place), $15::timestamptz from go),
     rated as (
       insert into rate_counters as r (tenant_id, subscriber_id, window_start, count)
       select $1::text, $2::text, $13::timestamptz, (select count(*) from taken)::integer from go where $14
       on conflict (tenant_id, subscriber_id, window_start) do update set count = r.count + excluded.count
       returning r.count),
     nudged as (
       update nudges n set status = 'cancelled', cancel_reason = 'contact_replied', updated_at = now()
       from go where n.conversation_id = go.id and n.status = 'pending'),
     left_inbox as (
       delete from rs_inbox i using taken where i.message_id = taken.id),
     kept as (
       insert into rs_inbox (conversation_id, process_id, message_id, text, media_kind, token_digest, offering,
                             binding, received_at)
       select j.id, $12::uuid, m.id, m.text, m.kind, $3::text, m.offering, j.binding, m.received_at
       from judged j, unnest($9::uuid[], $10::text[], $11::text[], $17::text[], $18::timestamptz[])
            with ordinality as m(id, text, kind, offering, received_at, place)
       where not exists (select 1 from go) and m.id <> all ($7) and (j.binding <> 'unbound' or not $4)
       order by m.place
       on conflict (message_id) do update set process_id = excluded.process_id
       returning message_id),
     given_back as (
       update rs_lanes l set turn_id = null, process_id = null, expires_at = null
       from judged j where l.conversation_id = j.id and l.turn_id = $5 and not exists (select 1 from go))
     select exists (select 1 from go) as started, (select binding from judged) as binding,
            (select turn_count from changed where bound) as turn_count, (select count from rated) as hourly_count,
            (select count(*) from taken)::integer as taken, (select id from token_row) as token_row,
            (select turn_id from owed_first where not exists (select 1 from go)) as owed_first,
            array(select message_id from mine union select message_id from kept) as waiting"
);

/// Reads what the turn needs: history when it may be read, and the day's spend with what is not yet confirmed and how
/// many turns are still to report theirs (HISTW-1 to HISTW-5, ARC-33). The binding is the recorded one. A `first` message
/// under enforcement reads nothing from before the contact's first token was issued: nothing proves that it is this
/// caller's (TOK-14, DEC-24).
pub(super) const READ: &str = concat!(
    "select coalesce(b.tokens, 0)::bigint + o.tokens as tokens, coalesce(b.cost_usd, 0) + o.cost_usd as cost_usd,
       case when me.binding <> 'unbound' or me.binding is not null and not $3 then (
         select coalesce(json_agg(json_build_object('role', h.role, 'text', h.text, 'actions', h.actions)
                                  order by h.seq), '[]'::json)
         from (select t.seq, t.role, t.text, t.actions from turns t
               where t.conversation_id = c.id and t.bound and t.id <> all ($5::uuid[])
                 and t.created_at >= case
                       when me.binding = 'bound' or not $3 then $4::timestamptz
                       when c.token_hash is null then 'infinity'
                       else greatest($4, coalesce(c.token_issued_at, 'infinity')) end
                 and t.outcome is distinct from 'nudge_skipped'
               order by t.seq desc limit $6) h) end as history,
       exists (select 1 from outbox x where x.tenant_id = $1 and x.subscriber_id = $2 and x.kind = 'reply'
                 and x.status in ('pending', 'delivering')) as reply_queued,
       (select count(*) from rs_owed r where r.tenant_id = $1 and r.status = 'running'
          and (r.created_at, r.turn_id) < (me.created_at, me.turn_id)) as running_before,
       ",
    acted_columns!("$9"),
    ",
       ",
    pause_columns!(),
    " from conversations c ",
    pause_join!(),
    "left join rs_owed me on me.turn_id = $8
     cross join lateral (select coalesce(sum(tokens), 0)::bigint as tokens, coalesce(sum(cost_usd), 0) as cost_usd
                         from rs_owed where tenant_id = $1 and status = 'said') o
     left join budget_counters b on b.tenant_id = $1 and b.day = $7
     where c.tenant_id = $1 and c.subscriber_id = $2"
);

/// How many turns of a contact the model reads at most, the messages being answered included (HISTW-1).
pub(super) const HISTORY_TURNS: usize = 10;
/// Most earlier turns it can read.
pub(super) const MOST_EARLIER: i64 = 9;

/// One message to record.
#[derive(Clone, Debug)]
pub struct NewMessage {
    /// Id its row gets.
    pub id: Uuid,
    /// The words, or the marker of a media message (WRITE-1).
    pub text: ContactText,
    /// What kind of file it was.
    pub media: Option<MediaKind>,
    /// The contact's offering field as the request filled it in; kept while the message waits.
    pub offering: Option<String>,
    /// When it arrived.
    pub received_at: Timestamp,
    /// True when it stands in the inbox (ARC-45a).
    pub stored: bool,
}

/// Everything Open needs to know; times are business time (ARC-50).
#[derive(Clone, Debug)]
pub struct OpenRequest {
    /// The tenant.
    pub tenant: TenantId,
    /// The contact.
    pub subscriber: SubscriberId,
    /// Channel stored when the conversation is created.
    pub channel: String,
    /// SHA-256 of the presented token in lower-case hex; `None` when none was presented.
    pub token_digest: Option<String>,
    /// SHA-256 of a fresh token in lower-case hex, stored when a token is due (TOK-20); `None` issues none.
    pub fresh_digest: Option<String>,
    /// `CONTACT_TOKENS_ENFORCED`.
    pub tokens_enforced: bool,
    /// The messages this turn answers, in order; at least one.
    pub messages: Vec<NewMessage>,
    /// Whether the guards will run, and so the hourly counter counts; false for a scripted opening (OPEN-2).
    pub guarded: bool,
    /// Now.
    pub now: Timestamp,
    /// The offering the last message names, if the tenant knows it; a bound turn stores it (TURN-4, FN-OFF-6).
    pub offering: Option<String>,
    /// The configuration that summaries of this tenant are made by; `None`: nothing of earlier turns' actions is read.
    pub acted_by: Option<String>,
    /// When the first of the messages arrived.
    pub received_at: Timestamp,
    /// When the last of them arrived: the binding is judged as of then (DEC-24).
    pub last_received_at: Timestamp,
    /// `rules.idleResetHours`.
    pub idle_reset_hours: u32,
    /// `rules.historyDays`.
    pub history_days: u32,
    /// This process.
    pub process: ProcessId,
    /// This turn.
    pub turn: TurnId,
    /// How long the lane may be held: abort + deadline + 15 s (ARC-45).
    pub lane_secs: f64,
    /// After how long without a beat a process is dead (ARC-44).
    pub dead_secs: f64,
    /// The same for taking its lane: never, as long as this process may call nobody dead.
    pub takeover_secs: f64,
}

/// What Open found.
#[derive(Debug)]
pub enum Opened {
    /// The turn runs.
    Started(Box<OpenTurn>),
    /// It is not the turn of these messages: the lane is held, or somebody is ahead. Nothing was recorded.
    Waiting(Waits),
}

/// Messages that have to wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waits {
    /// The contact's conversation; `None` when the contact was erased while the messages waited (DEC-13).
    pub conversation: Option<ConversationId>,
    /// Those of the messages that stand in the inbox now. Any other was there and has been taken over or erased.
    pub kept: Vec<Uuid>,
    /// A turn that a dead process owes the contact: it runs before them (DEC-35).
    pub owed_first: Option<TurnId>,
}

/// A turn that may run.
#[derive(Debug)]
pub struct OpenTurn {
    /// The contact's conversation.
    pub conversation: ConversationId,
    /// How the request proved its contact.
    pub binding: Binding,
    /// The lane's fence; `None` for a turn beside the lane.
    pub fence: Option<Fence>,
    /// How many of the messages the turn answers, from the first on; the others wait behind another process's.
    pub taken: usize,
    /// `turn_count` after counting; `None` when the turn is not counted (CAP-4).
    pub turn_count: Option<i32>,
    /// Messages of this contact in this UTC hour after counting; `None` when guards do not run.
    pub hourly_count: Option<i32>,
    /// Tokens spent today by the tenant, unconfirmed turns included.
    pub spent_tokens: i64,
    /// US dollars spent today by the tenant, unconfirmed turns included.
    pub spent_usd: Decimal,
    /// Turns of the tenant that are under way, in any process, and began before this one (02 section 14).
    pub running_before: i64,
    /// True when an earlier reply to the contact is still on its way (LANE-7).
    pub reply_queued: bool,
    /// The contact's open handoff (DEC-35); `None` when there is none, or the agent has gone on since (DEC-9).
    pub handoff: Option<OpenHandoff>,
    /// The outbox row behind the token that this flight has issued; `None` when none was due. Write the token whose
    /// digest the request carried to ManyChat now (TOK-23).
    pub token_row: Option<Uuid>,
    /// Earlier turns, oldest first; empty when the turn may not read them.
    pub history: Vec<HistoryRow>,
    /// The contact's stored offering (FN-OFF-4).
    pub offering: Option<String>,
    /// What earlier turns have done; `None` when it was not asked for.
    pub acted: Option<Acted>,
    /// What a first run of this turn has attempted, as entries of the record; empty in a first run (ARC-46).
    pub attempted: Vec<serde_json::Value>,
}

/// A handoff that nobody has closed yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenHandoff {
    /// Time since the latest of the contact's open handoffs, which was the agent's last word, by the database's clock
    /// (DEC-9, ARC-50).
    pub quiet: Duration,
    /// True while the tag that calls a person has not been added and still may be.
    pub tag_pending: bool,
}

/// One earlier turn.
#[derive(Clone, Debug, Deserialize)]
pub struct HistoryRow {
    /// Whose words.
    pub role: Role,
    /// The stored text.
    #[serde(deserialize_with = "contact_text")]
    pub text: ContactText,
    /// Action records of an agent turn.
    pub actions: Option<serde_json::Value>,
}

fn contact_text<'de, D: serde::Deserializer<'de>>(from: D) -> Result<ContactText, D::Error> {
    String::deserialize(from).map(ContactText::new)
}

/// Runs the flight. It is committed when this returns [`Opened::Started`].
///
/// # Errors
/// [`StoreError::InDoubt`] when the connection was lost under way; otherwise nothing was recorded.
pub async fn open(database: &Database, request: &OpenRequest) -> Result<Opened, StoreError> {
    match open_once(database, request).await {
        Err(error) if error.is_deadlock() => open_once(database, request).await,
        opened => opened,
    }
}

async fn open_once(database: &Database, request: &OpenRequest) -> Result<Opened, StoreError> {
    let lease = database.lease().await?;
    let values = Values::of(request);
    let (lane_row, recorded, read) = fly(&lease, request, &values).await?;
    lease.give_back();
    if let (true, Some(lane_row), Some(read)) = (recorded.try_get("started")?, &lane_row, &read) {
        crash_points::passed(Point::AfterOpen);
        return Ok(Opened::Started(Box::new(started(lane_row, &recorded, read)?)));
    }
    let conversation = lane_row.map(|row| row.try_get::<_, Uuid>("id")).transpose()?;
    let conversation = conversation.map(ConversationId::from);
    let owed_first = recorded.try_get::<_, Option<Uuid>>("owed_first")?.map(TurnId::from);
    Ok(Opened::Waiting(Waits { conversation, kept: recorded.try_get("waiting")?, owed_first }))
}

/// Values derived from the request that the statements refer to.
struct Values<'req> {
    subscriber: &'req str,
    gap_before: Timestamp,
    since: Timestamp,
    window: Timestamp,
    day: jiff::civil::Date,
    ids: Vec<Uuid>,
    texts: Vec<&'req str>,
    kinds: Vec<Option<&'static str>>,
    offerings: Vec<Option<&'req str>>,
    received: Vec<Timestamp>,
    stored: Vec<Uuid>,
}

impl<'req> Values<'req> {
    fn of(request: &'req OpenRequest) -> Self {
        Self {
            subscriber: request.subscriber.expose(),
            gap_before: back(request.now, i64::from(request.idle_reset_hours)),
            since: back(request.now, i64::from(request.history_days).saturating_mul(24)),
            window: hour_of(request.now),
            day: day_of(request.now),
            ids: request.messages.iter().map(|message| message.id).collect(),
            texts: request.messages.iter().map(|message| message.text.expose()).collect(),
            kinds: request.messages.iter().map(|message| message.media.map(MediaKind::as_str)).collect(),
            offerings: request.messages.iter().map(|message| message.offering.as_deref()).collect(),
            received: request.messages.iter().map(|message| message.received_at).collect(),
            stored: request.messages.iter().filter(|one| one.stored).map(|message| message.id).collect(),
        }
    }
}

/// The flight's statements as this connection has prepared them.
struct Prepared {
    begin: Statement,
    take_lane: Statement,
    record: Statement,
    read: Statement,
    commit: Statement,
}

impl Prepared {
    async fn on(lease: &super::pool::Lease) -> Result<Self, StoreError> {
        Ok(Self {
            begin: lease.prepared(BEGIN).await?,
            take_lane: lease.prepared(TAKE_LANE).await?,
            record: lease.prepared(RECORD).await?,
            read: lease.prepared(READ).await?,
            commit: lease.prepared(COMMIT).await?,
        })
    }
}

/// Sends the whole flight at once and then looks at every result (ARC-30).
async fn fly(
    lease: &super::pool::Lease,
    request: &OpenRequest,
    values: &Values<'_>,
) -> Result<(Option<Row>, Row, Option<Row>), StoreError> {
    let Prepared { begin, take_lane, record, read, commit } = Prepared::on(lease).await?;
    let (client, tenant) = (lease.client()?, request.tenant.as_str());
    let lane_values: &[&(dyn ToSql + Sync)] = &[
        &tenant,
        &values.subscriber,
        &request.token_digest,
        &request.channel,
        &request.now,
        &request.tokens_enforced,
        request.process.as_uuid(),
        request.turn.as_uuid(),
        &request.lane_secs,
        &request.takeover_secs,
        &request.last_received_at,
        &(values.stored.len() == values.ids.len()),
    ];
    let record_values: &[&(dyn ToSql + Sync)] = &[
        &tenant,
        &values.subscriber,
        &request.token_digest,
        &request.tokens_enforced,
        request.turn.as_uuid(),
        &values.gap_before,
        &values.stored,
        &request.now,
        &values.ids,
        &values.texts,
        &values.kinds,
        request.process.as_uuid(),
        &values.window,
        &request.guarded,
        &request.received_at,
        &request.dead_secs,
        &values.offerings,
        &values.received,
        &request.fresh_digest,
        &request.last_received_at,
        &request.offering,
    ];
    let read_values: &[&(dyn ToSql + Sync)] = &[
        &tenant,
        &values.subscriber,
        &request.tokens_enforced,
        &values.since,
        &values.ids,
        &MOST_EARLIER,
        &values.day,
        request.turn.as_uuid(),
        &request.acted_by,
    ];
    let (begun, lane, recorded, reading, committed) = tokio::join!(
        client.execute(&begin, &[]),
        client.query_opt(&take_lane, lane_values),
        client.query_one(&record, record_values),
        client.query_opt(&read, read_values),
        client.execute(&commit, &[]),
    );
    begun?;
    let rows = (lane?, recorded?, reading?);
    Ok(committed.map(|_| rows)?)
}

/// The column `history` of a row; empty when the turn may not read it.
pub(super) fn history_of(row: &Row) -> Result<Vec<HistoryRow>, StoreError> {
    let rows: Option<serde_json::Value> = row.try_get("history")?;
    let Some(rows) = rows else { return Ok(Vec::new()) };
    serde_json::from_value(rows).map_err(|_| StoreError::Unexpected { what: "turns" })
}

/// The recorded binding counts: between the two statements that judge it, the first token may have reached ManyChat.
pub(super) fn parse_binding(recorded: &Row) -> Result<Binding, StoreError> {
    let word: &str = recorded.try_get("binding")?;
    word.parse().map_err(|_| StoreError::Unexpected { what: "binding" })
}

fn started(lane_row: &Row, recorded: &Row, read: &Row) -> Result<OpenTurn, StoreError> {
    let fence: Option<i64> = lane_row.try_get("fence")?;
    let taken = usize::try_from(recorded.try_get::<_, i32>("taken")?).unwrap_or(0);
    let mut history = history_of(read)?;
    // The messages being answered count among the turns of the window (HISTW-1, DEC-33).
    history.drain(..(history.len() + taken).saturating_sub(HISTORY_TURNS).min(history.len()));
    Ok(OpenTurn {
        taken,
        conversation: ConversationId::from(lane_row.try_get::<_, Uuid>("id")?),
        binding: parse_binding(recorded)?,
        fence: fence.map(Fence::new),
        turn_count: recorded.try_get("turn_count")?,
        hourly_count: recorded.try_get("hourly_count")?,
        spent_tokens: read.try_get("tokens")?,
        spent_usd: read.try_get("cost_usd")?,
        running_before: read.try_get("running_before")?,
        reply_queued: read.try_get("reply_queued")?,
        handoff: open_handoff(read)?,
        token_row: recorded.try_get("token_row")?,
        history,
        offering: read.try_get("offering")?,
        acted: acted_of(read)?,
        attempted: Vec::new(),
    })
}

pub(super) fn open_handoff(read: &Row) -> Result<Option<OpenHandoff>, StoreError> {
    let quiet_secs: Option<f64> = read.try_get("quiet_secs")?;
    let tag_pending = read.try_get("tag_pending")?;
    Ok(quiet_secs.map(|seconds| {
        let quiet = Duration::try_from_secs_f64(seconds).unwrap_or(Duration::ZERO);
        OpenHandoff { quiet, tag_pending }
    }))
}

#[cfg(test)]
#[path = "open_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "history_tests.rs"]
mod history_tests;
