//! Settle, the second flight of a turn: behind the conversation's lock, one statement that records the reply, marks a
//! handoff, decides whether the reply goes inline or behind another, and releases the lane, all under the fence (ARC-45,
//! ARC-46, ARC-47).

use std::sync::LazyLock;

use rust_decimal::Decimal;
use serde::Serialize;
use serde_json::Value;
use tokio_postgres::types::{Json, ToSql};

use super::flight::behind_lock;
use super::{Database, StoreError};
use crate::domain::{AgentRowId, ConversationId, EscalationReason, Fence, Outcome, ProcessId, TurnId};
use crate::telemetry::crash_points::{self, Point, Sabotage};

/// Turns the owed reply from `running` to `said` and writes all that hangs on it. It changes nothing when the
/// turn was superseded: its lane has another fence, or its owed row is no longer `running`.
///
/// The conversation's row is locked by the statement before: whether a reply is queued, and whether others wait, is then
/// read after the wait for whoever has queued one meanwhile (ARC-43, ARC-47). It is locked before the lane's, as in Open: in
/// the other order the two could wait for each other. And it is locked before the agent's row gets its place in the order
/// of turns, so that no later Open can have read past it (ARC-34). The reply gets its place among the contact's replies after
/// the lock for the same reason: from a sequence, because a clock can fall back (ARC-43, GAP-DL-5).
///
/// A reply that waits for a flow is due when that has played (WAIT-2). Staged actions stand in the payload of the outbox,
/// and on the owed row as long as the reply may go inline (AFTER-2, AFTER-9).
///
/// A reply too long for the response keeps its remainder on the owed row (GAP-CH-11): in the outbox it could be
/// claimed before the beginning is out, by any worker. Confirming moves it there. Until then a following reply goes
/// behind it, due a moment later, so that the remainder is there first (ARC-43).
///
/// $1 conversation, $2 turn, $3 fence, $4 process, $5 whether the reply is deferred; $6 payload, $7 tokens, $8 cost and
/// $9 whether there is any; the agent's row: $10 id, $11 text, $12 outcome, $13 model, $14 bound, $15 actions, $16 input,
/// $17 output and $18 cached tokens, $19 cost, $20 milliseconds, $21 time; $22 what follows the response, $23 seconds that
/// a flow plays, $24 what the checks made of it. Of [`SETTLE_MORE`] alone: $25 reason of the handoff; of the summary
/// $26 the last turn in it, $27 its configuration, $28 what it holds.
///
/// `$reason` is the handoff's, `$more` what hangs on it or on the summary.
macro_rules! settle_statement {
    (reason: $reason:literal, more: $more:literal) => {
        concat!(
            "
    with lane as (
      update rs_lanes l set turn_id = null, process_id = null, expires_at = null
      where l.conversation_id = $1 and l.turn_id = $2 and l.fence = $3
      returning 1),
    way as (
      select $5::boolean
          or exists (select 1 from outbox x join conversations c on c.id = $1
                     where x.tenant_id = c.tenant_id and x.subscriber_id = c.subscriber_id
                       and x.kind = 'reply' and x.status in ('pending', 'delivering'))
          or exists (select 1 from rs_owed o where o.conversation_id = $1 and o.status = 'said'
                       and not o.queued and (o.process_id <> $4 or o.rest is not null)) as queue),
    owed as (
      update rs_owed o
      set status = 'said', payload = $6, tokens = $7, cost_usd = $8, charged = $9, said_at = clock_timestamp(),
          place = nextval('outbox_rs_seq_seq'), queued = way.queue,
          rest = case when not way.queue then $22::jsonb end,
          actions = case when not way.queue and $22 is null then $6::jsonb -> 'actions' end,
          not_before = clock_timestamp() + make_interval(secs => $23)
      from way
      where o.conversation_id = $1 and o.turn_id = $2 and o.status = 'running' and o.process_id = $4
        and ($3::bigint is null or exists (select 1 from lane))
      returning o.conversation_id, o.queued, o.place),
    agent as (
      insert into turns (id, conversation_id, role, text, outcome, model, bound, actions, input_tokens,
                         output_tokens, cache_read_tokens, cost_usd, latency_ms, created_at)
      select $10::uuid, owed.conversation_id, 'agent', $11::text, $12::text, $13::text, $14::boolean, $15::jsonb,
             $16::integer, $17::integer, $18::integer, $19::numeric, $20::integer, $21::timestamptz
      from owed),
    checked as (
      insert into rs_turn_checks (turn_id, conversation_id, cause, interventions, confidence, ungrounded, escalation_reason)
      select $10, owed.conversation_id, x.cause, x.interventions, x.confidence, x.ungrounded, ",
            $reason,
            "
      from owed, jsonb_to_record($24::jsonb) as x(cause text, interventions text[], confidence real, ungrounded integer)
      where $24::jsonb is not null),
    queued as (
      insert into outbox (tenant_id, subscriber_id, conversation_id, kind, payload, rs_seq, created_at, next_attempt_at)
      select c.tenant_id, c.subscriber_id, c.id, 'reply', $6, owed.place, clock_timestamp(),
             greatest(now(), clock_timestamp() + make_interval(secs => $23),
                      (select max(x.next_attempt_at) from outbox x
                              where x.tenant_id = c.tenant_id and x.subscriber_id = c.subscriber_id
                                and x.kind = 'reply' and x.status in ('pending', 'delivering')),
                      (select now() + interval '1 second' from rs_owed o
                       where o.conversation_id = $1 and o.rest is not null limit 1))
      from owed join conversations c on c.id = owed.conversation_id where owed.queued)",
            $more,
            "
    select queued, exists (select 1 from rs_inbox i where i.conversation_id = $1 and i.process_id <> $4) as others_wait
    from owed"
        )
    };
}

/// [`settle_statement`] for a reply that calls nobody and moves no summary on: nearly every one.
pub(super) const SETTLE: &str = settle_statement! { reason: "null", more: "" };

/// [`settle_statement`] with a handoff, a summary, or both.
pub(super) const SETTLE_MORE: &str = settle_statement! {
    reason: "$25::text",
    more: ",
    marked as (
      update conversations c set escalated_at = now(), updated_at = now()
      from owed where c.id = owed.conversation_id and $25::text is not null and $14),
    called as (
      insert into rs_handoffs (conversation_id, turn_id, reason)
      select owed.conversation_id, $2::uuid, $25::text from owed where $25 is not null and $14),
    summed as (
      insert into rs_summaries as s (conversation_id, upto_seq, config, known)
      select owed.conversation_id, $26::bigint, $27::text, $28::jsonb from owed where $26 is not null
      on conflict (conversation_id) do update
        set upto_seq = excluded.upto_seq, config = excluded.config, known = excluded.known, updated_at = now()
        where s.upto_seq < excluded.upto_seq or s.config <> excluded.config),
    nudged as (
      update nudges n set status = 'cancelled', cancel_reason = 'escalated', updated_at = now()
      from owed where n.conversation_id = owed.conversation_id and n.status = 'pending' and $25 is not null)"
};

/// Both of them, the plain one first.
const VARIANTS: [&str; 2] = [SETTLE, SETTLE_MORE];

/// A decided reply, ready to be recorded.
#[derive(Debug)]
pub struct SettleRequest {
    /// The contact's conversation.
    pub conversation: ConversationId,
    /// The turn.
    pub turn: TurnId,
    /// The lane's fence; `None` for a turn beside the lane.
    pub fence: Option<Fence>,
    /// This process.
    pub process: ProcessId,
    /// True when the response is gone already: the reply goes through the outbox whatever else holds.
    pub deferred: bool,
    /// What the outbox delivers: `{"messages": [...]}` (DB-12), with the texts as the contact will read them, and the
    /// staged actions where there are any (BOX-1).
    pub payload: Value,
    /// What the outbox delivers after a response that holds only the beginning of the reply; `None` when the
    /// response holds all of it (GAP-CH-11). `payload` has everything, for a response that is never handed over.
    pub rest: Option<Value>,
    /// The agent row.
    pub agent: AgentRow,
    /// Reason of a handoff; `None` when the reply does not escalate.
    pub escalation: Option<EscalationReason>,
    /// What the checks made of the reply; `None` when there were none.
    pub checks: Option<CheckRow>,
    /// How long from now a flow of the turn plays: the reply is due no earlier when it is queued (WAIT-2).
    pub not_before: Option<std::time::Duration>,
    /// What earlier turns have done, where more is known now than is stored (ARC-34).
    pub summary: Option<Summary>,
}

/// What all agent turns of a conversation up to one of them have done.
#[derive(Clone, Debug)]
pub struct Summary {
    /// The last of them that it counts; never one with a `staged` entry, nor one behind such.
    pub upto_seq: i64,
    /// The configuration it was made by; another makes it void.
    pub config: String,
    /// What is known.
    pub known: Value,
}

/// Why a turn came to what it came to, kept beside its agent row (01 section 17). Names and numbers alone: no word of the
/// contact, the reply or a provider.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CheckRow {
    /// A word of GUARD-14; `None` when the reply does not escalate, or not by the model or the guardrails.
    pub cause: Option<&'static str>,
    /// Names of interventions and of a failure, in order.
    pub interventions: Vec<String>,
    /// The model's own certainty, 0 to 1; `None` when it gave none.
    pub confidence: Option<f64>,
    /// Prices in the reply that nobody published.
    pub ungrounded: usize,
}

/// The row of `turns` that holds the reply.
#[derive(Debug)]
pub struct AgentRow {
    /// Its id.
    pub id: AgentRowId,
    /// All messages joined with a newline, as the model wrote them (WRITE-3, DEC-32).
    pub text: String,
    /// What became of the turn.
    pub outcome: Outcome,
    /// Whether the turn belongs to the contact's history.
    pub bound: bool,
    /// Records of actions; `None` when no tool was offered (DB-11).
    pub actions: Option<Value>,
    /// What the model reported; `None` for a reply decided without the model.
    pub usage: Option<UsageRow>,
    /// Business time of the settling.
    pub at: jiff::Timestamp,
}

/// Usage columns of an agent row and what the turn is charged (WRITE-4, BUD-3).
#[derive(Clone, Debug)]
pub struct UsageRow {
    /// `provider:model`.
    pub model: String,
    /// Input tokens, cache reads included; `None` when unknown.
    pub input: Option<u64>,
    /// Output tokens; `None` when unknown.
    pub output: Option<u64>,
    /// Tokens read from the provider's cache; `None` when unknown.
    pub cache_read: Option<u64>,
    /// Estimated cost; `None` when the call was given up before the provider reported anything (DEC-19).
    pub cost: Option<Decimal>,
    /// Time the model took.
    pub latency: std::time::Duration,
}

/// What Settle decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settled {
    /// The reply may be handed over in the response.
    Inline,
    /// The reply was put into the outbox; the response, if there still is one, is silent.
    Queued,
    /// Somebody else ended this turn: nothing was recorded and nothing may be sent (ARC-45).
    Superseded,
}

/// What Settle decided, and who may be waiting for the lane it released.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settlement {
    /// How the reply goes.
    pub settled: Settled,
    /// True when another process has messages of this contact: tell it that the lane is free (ARC-47a).
    pub others_wait: bool,
}

/// Runs the flight.
///
/// # Errors
/// [`StoreError::InDoubt`] when it may have been committed all the same; otherwise nothing was recorded.
pub async fn settle(database: &Database, request: &SettleRequest) -> Result<Settlement, StoreError> {
    match settle_once(database, request).await {
        Err(error) if error.is_deadlock() => settle_once(database, request).await,
        settled => settled,
    }
}

async fn settle_once(database: &Database, request: &SettleRequest) -> Result<Settlement, StoreError> {
    let lease = database.lease().await?;
    let agent = &request.agent;
    let usage = agent.usage.as_ref();
    let summary = request.summary.as_ref();
    let fence = request.fence.filter(|_| !crash_points::is_sabotaged(Sabotage::Lane)).map(Fence::get);
    let tokens = usage.map_or(0, charged_tokens);
    let cost = usage.and_then(|row| row.cost).unwrap_or_default();
    let latency = usage.map(|row| i32::try_from(row.latency.as_millis()).unwrap_or(i32::MAX));
    let values: &[&(dyn ToSql + Sync)] = &[
        request.conversation.as_uuid(),
        request.turn.as_uuid(),
        &fence,
        request.process.as_uuid(),
        &request.deferred,
        &request.payload,
        &tokens,
        &cost,
        &usage.is_some(),
        agent.id.as_uuid(),
        &agent.text,
        &agent.outcome.as_str(),
        &usage.map(|row| row.model.as_str()),
        &agent.bound,
        &agent.actions,
        &usage.and_then(|row| column(row.input)),
        &usage.and_then(|row| column(row.output)),
        &usage.and_then(|row| column(row.cache_read)),
        &usage.and_then(|row| row.cost),
        &latency,
        &agent.at,
        &request.rest,
        &request.not_before.map(|wait| wait.as_secs_f64()),
        &request.checks.as_ref().map(Json),
    ];
    let more: &[&(dyn ToSql + Sync)] = &[
        &request.escalation.map(EscalationReason::as_str),
        &summary.map(|summary| summary.upto_seq),
        &summary.map(|summary| summary.config.as_str()),
        &summary.map(|summary| &summary.known),
    ];
    let has_more = request.escalation.is_some() || summary.is_some();
    let values = if has_more { [values, more].concat() } else { values.to_vec() };
    let row = behind_lock(&lease, request.conversation, statement(has_more), &values).await?;
    lease.give_back();
    crash_points::passed_if(row.is_some(), Point::SettleCommitted);
    let Some(row) = row else {
        return Ok(Settlement { settled: Settled::Superseded, others_wait: false });
    };
    let settled = if row.try_get("queued")? { Settled::Queued } else { Settled::Inline };
    Ok(Settlement { settled, others_wait: row.try_get("others_wait")? })
}

/// [`SETTLE`] or [`SETTLE_MORE`]; sabotaged, one that does not look at what waits in the outbox.
fn statement(has_more: bool) -> &'static str {
    static BLIND: LazyLock<[String; 2]> = LazyLock::new(|| VARIANTS.map(blind));
    let [plain, more] = if crash_points::is_sabotaged(Sabotage::Order) {
        BLIND.each_ref().map(String::as_str)
    } else {
        VARIANTS
    };
    if has_more { more } else { plain }
}

fn blind(sql: &str) -> String {
    sql.replace("or exists (select 1 from outbox", "or false and exists (select 1 from outbox")
}

/// Input plus output (BUD-3); an unknown count is 0.
fn charged_tokens(usage: &UsageRow) -> i64 {
    let total = usage.input.unwrap_or(0).saturating_add(usage.output.unwrap_or(0));
    i64::try_from(total).unwrap_or(i64::MAX)
}

/// A token count as the 32-bit column can hold it.
fn column(count: Option<u64>) -> Option<i32> {
    count.map(|tokens| i32::try_from(tokens).unwrap_or(i32::MAX))
}

#[cfg(test)]
#[path = "settle_tests.rs"]
pub(super) mod tests;

#[cfg(test)]
#[path = "contention_tests.rs"]
mod contention_tests;
