//! The tools of a turn: what it is offered, how they end with it, and what earlier turns leave behind (08 sections 2, 4 and 8,
//! ARC-34).

use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::context::TurnContext;
use super::draft::{Decision, Draft};
use super::flights::LATE_FLIGHT;
use super::request::{Run, TurnRequest};
use crate::channel::InboundMessage;
use crate::config::{CARRIES_OUT_FOLLOW_UPS, SENDS_OPENING, Tenant, Tools};
use crate::domain::{AgentRowId, Binding};
use crate::funnel::Standing;
use crate::model::{self, Cause};
use crate::store::acted::{self, Acted, ActedTurn};
use crate::store::open::OpenTurn;
use crate::store::settle::Summary;
use crate::store::{StoreError, lanes};
use crate::tools::{
    Ending, Entry, FlowMode, IN_FLIGHT_LIMIT, Known, Marks, Offer, Performer, TurnPlace, TurnTools,
};

/// How much of the lane's time may have passed between Open and the model's call.
const BEFORE_THE_MODEL: Duration = Duration::from_secs(3);
/// How long holding the lane may take.
pub(super) const HOLD_LIMIT: Duration = Duration::from_secs(2);
/// How long a turn waits for what earlier ones have done, when their summary cannot be read.
const ANEW_LIMIT: Duration = Duration::from_secs(1);
/// After how long an entry that is still staged, and that nothing holds any more, has no outcome to come: no delivery is tried
/// for longer (BOX-10).
const NEVER_RESOLVED: SignedDuration = SignedDuration::from_hours(48);

/// What this turn may do besides answering; `None` for a tenant without tools (TCFG-31). It belongs to the turn and not to
/// the model's call, so that what was staged and sent is known however the call ends (STAGE-1).
#[must_use]
pub fn tools_of(context: &TurnContext, request: &TurnRequest, opened: &OpenTurn) -> Option<Arc<TurnTools>> {
    let tenant = &request.snapshot.tenant;
    let tools = tenant.tools.as_ref().filter(|tools| tools.offers_any())?;
    if withheld(tenant, opened.binding, context.settings.tokens_enforced) {
        return None;
    }
    let live = request.live()?;
    let marks = Marks::of(Arc::clone(tenant));
    let performer =
        Performer { database: context.database.clone(), manychat: context.manychat.clone(), marks };
    let reach = performer.reach(TurnPlace {
        turn: request.id,
        conversation: opened.conversation,
        subscriber: live.subscriber.clone(),
        process: request.process,
        second_run: request.run == Run::Second,
        once: tools.flows.iter().filter(|flow| !flow.repeatable).map(|flow| flow.id.clone()).collect(),
    });
    let known = known(tools, opened.acted.as_ref());
    let offer = Offer {
        conversation: opened.conversation,
        tenant: Arc::clone(tenant),
        offering: offering(request, tools, opened, &known),
        known,
        window_from: window_from(context.clock.now(), tenant),
        may_read: opened.binding == Binding::Bound || !context.settings.tokens_enforced,
        nudge: false,
        follow_ups: CARRIES_OUT_FOLLOW_UPS,
        flows: FlowMode::AtCall(reach),
        earlier: opened.attempted.iter().filter_map(|entry| earlier(request, opened, entry)).collect(),
    };
    Some(Arc::new(TurnTools::new(offer)))
}

/// What the first run of the turn has attempted; one that this version cannot read is left out.
fn earlier(request: &TurnRequest, opened: &OpenTurn, entry: &Value) -> Option<Entry> {
    let read = serde_json::from_value(entry.clone()).ok();
    if read.is_none() {
        let (turn, conversation) = (request.id, opened.conversation);
        tracing::warn!(%turn, %conversation, "attempt of an action not readable");
    }
    read
}

/// LIM-17: the tenant can keep tools from messages that do not prove their contact.
const fn withheld(tenant: &Tenant, binding: Binding, tokens_enforced: bool) -> bool {
    tokens_enforced && !tenant.rules.unbound_tools && matches!(binding, Binding::Unbound)
}

fn window_from(now: Timestamp, tenant: &Tenant) -> Timestamp {
    let window = SignedDuration::from_hours(i64::from(tenant.rules.history_days).saturating_mul(24));
    now.checked_sub(window).unwrap_or(Timestamp::UNIX_EPOCH)
}

/// The offering that the newest message names that names one of the tenant's (FN-OFF-3). Each of a burst is a request of its
/// own, and one that names none takes nothing back (FN-OFF-6).
pub(super) fn named_offering(request: &TurnRequest) -> Option<String> {
    let tools = request.snapshot.tenant.tools.as_ref()?;
    let named = |message: &InboundMessage| message.offering.as_deref().map(str::trim).map(str::to_owned);
    request.messages.iter().rev().filter_map(named).find(|named| is_known(tools, named))
}

fn is_known(tools: &Tools, offering: &str) -> bool {
    tools.offering_field().is_some_and(|field| field.values.iter().any(|value| value == offering))
}

/// The turn's offering as it starts: the request's, else what an earlier turn is about to store, else the stored one, if it
/// is still valid (FN-OFF-4, FN-OFF-5).
fn offering(request: &TurnRequest, tools: &Tools, opened: &OpenTurn, known: &Known) -> Option<String> {
    let valid = |stored: &&String| is_known(tools, stored);
    let stored =
        || known.pending.offering.as_ref().filter(valid).or_else(|| opened.offering.as_ref().filter(valid));
    named_offering(request).or_else(|| stored().cloned())
}

/// By which entries of the configuration earlier turns are summed up; `None`: nothing of them is needed (TSET-8).
#[must_use]
pub fn acted_by(tenant: &Tenant) -> Option<String> {
    let tools = tenant.tools.as_ref().filter(|tools| !(tools.flows.is_empty() && tools.fields.is_empty()))?;
    let marked = [tools.funnel_field(), tools.intent_field(), tools.offering_field()];
    let marked = marked.map(|field| field.map_or("", |field| field.id.as_str())).join(" ");
    // A version that counts openings otherwise makes its summaries anew.
    Some(if SENDS_OPENING { format!("{marked} opening") } else { marked })
}

/// Everything that earlier turns have done, and what they are about to do.
fn known(tools: &Tools, acted: Option<&Acted>) -> Known {
    let Some(acted) = acted else { return Known::default() };
    let mut known = stored(acted).unwrap_or_default();
    for turn in &acted.turns {
        if turn.open {
            let tried = turn.tried.iter().flatten().map(|one| (one.action, &one.entry));
            known.fold_open(tools, turn.at, &turn.actions, tried);
        } else {
            known.fold(tools, turn.at, &turn.actions);
        }
    }
    known
}

/// The stored summary, an empty one where there is none; `None` when it cannot be read.
fn stored(acted: &Acted) -> Option<Known> {
    acted.known.clone().map_or(Some(Known::default()), |known| serde_json::from_value(known).ok())
}

/// Where the stored summary cannot be read, folds everything anew from the turns (ARC-34): nothing in it is taken for never
/// done. Does nothing else.
pub async fn mend_summary(context: &TurnContext, opened: &mut OpenTurn) {
    let Some(unreadable) = opened.acted.as_ref().filter(|acted| stored(acted).is_none()) else { return };
    let (conversation, upto) = (opened.conversation, unreadable.upto);
    tracing::warn!(%conversation, "summary of earlier actions not readable: made anew");
    let reading = acted::anew(&context.database, conversation, upto);
    match tokio::time::timeout(ANEW_LIMIT, reading).await.unwrap_or(Err(StoreError::InDoubt)) {
        Ok(acted) => opened.acted = Some(acted),
        Err(error) => {
            tracing::warn!(%conversation, err = %error, "summary of earlier actions not made anew");
        }
    }
}

/// The summary that Settle stores: further than the stored one, and never past a turn whose actions are not all done
/// (ARC-34).
pub(super) fn summary(request: &TurnRequest, opened: &OpenTurn, now: Timestamp) -> Option<Summary> {
    let tenant = &request.snapshot.tenant;
    summed(tenant.tools.as_ref()?, acted_by(tenant)?, opened.acted.as_ref()?, now)
}

fn summed(tools: &Tools, config: String, acted: &Acted, now: Timestamp) -> Option<Summary> {
    // One that cannot be read stays: what it counts would be missing in a new one.
    let (mut known, mut upto_seq) = (stored(acted)?, acted.upto);
    for turn in acted.turns.iter().take_while(|turn| !may_change(turn, now)) {
        known.fold(tools, turn.at, &turn.actions);
        upto_seq = turn.seq;
    }
    let known = serde_json::to_value(known).ok()?;
    (upto_seq > acted.upto).then_some(Summary { upto_seq, config, known })
}

/// Whether an entry of the turn has an outcome to come. One that a process of the reference left staged when it ended never
/// has, and would keep the summary where it is for ever.
fn may_change(turn: &ActedTurn, now: Timestamp) -> bool {
    has_staged(&turn.actions) && (turn.open || now.duration_since(turn.at) < NEVER_RESOLVED)
}

fn has_staged(actions: &Value) -> bool {
    let mut entries = actions.as_array().into_iter().flatten();
    entries.any(|entry| entry.get("status").and_then(Value::as_str) == Some("staged"))
}

/// What the model is told of the contact's place in the sale (STATE-1 to STATE-4).
pub(super) fn state_lines(request: &TurnRequest, opened: &OpenTurn) -> Vec<String> {
    let Some(tools) = request.snapshot.tenant.tools.as_ref() else { return Vec::new() };
    let known = known(tools, opened.acted.as_ref());
    let now = offering(request, tools, opened, &known);
    // The stage of the line is a performed one (STATE-2); intent and offering are what the tools go by.
    let standing = Standing::at_start(tools, known.stage, known.intent_to_come(), now.as_deref());
    let before = opened.offering_before.as_deref().filter(|before| is_known(tools, before));
    model::state_lines(Some(tools), &standing, before)
}

/// Ends the tools with the decided reply: what may follow it, what goes on record (08 section 8, FLOW-7).
///
/// Requests under way are waited for at most for `limit`.
pub(super) async fn finish(tools: &TurnTools, opened: &OpenTurn, draft: &mut Draft, limit: Duration) {
    draft.finished = tools.finish_within(ending(draft), limit).await;
    let discarded = draft.finished.discarded;
    if discarded > 0 {
        tracing::info!(conversation = %opened.conversation, discarded, "staged actions discarded");
    }
}

/// How long the turn may wait for its own requests, so that what became of them, follow-ons included, is on record before
/// anybody else acts for the contact (FLOW-7): as long as they can take. The lane is held for as long and for Settle behind it;
/// where that fails, what is left of it has to do (ARC-45). `spent`: since the model was called.
pub(super) async fn wait_for_requests(
    context: &TurnContext,
    request: &TurnRequest,
    opened: &OpenTurn,
    tools: &TurnTools,
    spent: Duration,
) -> Duration {
    let Some(fence) = opened.fence.filter(|_| tools.is_sending()) else { return IN_FLIGHT_LIMIT };
    let time = IN_FLIGHT_LIMIT + LATE_FLIGHT + HOLD_LIMIT;
    let holding = lanes::hold(&context.database, opened.conversation, request.id, fence, time);
    match tokio::time::timeout(HOLD_LIMIT, holding).await {
        Ok(Ok(true)) => IN_FLIGHT_LIMIT,
        _ => {
            tracing::warn!(conversation = %opened.conversation, "lane not held for requests under way");
            left_of_lane(context.settings.lane_time(), spent)
        }
    }
}

/// What a turn may wait for within the lane it has: less what Settle may take, so that nobody takes it from a turn that waits.
const fn left_of_lane(lane: Duration, spent: Duration) -> Duration {
    lane.saturating_sub(spent).saturating_sub(LATE_FLIGHT).saturating_sub(BEFORE_THE_MODEL)
}

/// A handoff by the model, or for its confidence, leaves notes for colleagues standing; every other failure discards all
/// that was staged (DISC-1).
fn ending(draft: &Draft) -> Ending {
    match &draft.decision {
        Decision::Aborted { .. } => Ending::Aborted,
        Decision::Model(result) if result.error.is_some() => Ending::Failed,
        Decision::Model(_) if !draft.reply.escalate => Ending::Answered,
        Decision::Model(result) if matches!(result.cause, Some(Cause::Model | Cause::Confidence)) => {
            Ending::Escalated
        }
        _ => Ending::Failed,
    }
}

/// How long a flow of the turn still plays; `None` when none does (WAIT-1, WAIT-2).
#[must_use]
pub fn plays_for(until: Option<Instant>) -> Option<Duration> {
    let left = until?.saturating_duration_since(Instant::now());
    Some(left).filter(|left| *left >= Duration::from_millis(1))
}

/// An outbox payload with the actions that travel with its texts (BOX-1, AFTER-9).
pub(super) fn with_actions(mut payload: Value, draft: &Draft, agent_row: AgentRowId) -> Value {
    let actions: Vec<Value> =
        draft.finished.staged.iter().filter_map(|staged| serde_json::to_value(&staged.action).ok()).collect();
    if let (false, Some(keys)) = (actions.is_empty(), payload.as_object_mut()) {
        keys.insert("actions".to_owned(), Value::Array(actions));
        keys.insert("turnId".to_owned(), Value::String(agent_row.to_string()));
    }
    payload
}

/// `turns.actions` of the turn (REC-1). Where no tools were there to take it in, what the first run of the turn has
/// `attempted` is all of the record: it keeps its outcome, and a flow among it is not offered again (FAIL-15, ARC-41).
pub(super) fn record(draft: &Draft, attempted: &[Value]) -> Option<Value> {
    let entries = draft.finished.record.as_ref();
    let own = entries.and_then(|entries| serde_json::to_value(entries).ok());
    own.or_else(|| (!attempted.is_empty()).then(|| Value::Array(attempted.to_vec())))
}

#[cfg(test)]
#[path = "acts_tests.rs"]
mod tests;
