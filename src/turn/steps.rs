//! The steps of a turn in the order they happen: open, decide, settle; and resolve for what went wrong.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::answers::{Answers, Delivery};
use super::binding::ContactToken;
use super::budget::Day;
use super::context::TurnContext;
use super::draft::{Decision, Draft, Verdict};
use super::error::TurnError;
use super::flights::{patient, within};
use super::guards::Denial;
use super::reports::{report_decision, report_rest, report_turn};
use super::request::{MessageRow, Run, TurnRequest};
use super::tokens::IssuedToken;
use super::way::Way;
use super::{acts, budget, guards, takeover};
use crate::channel::{self, InboundMessage};
use crate::domain::{AgentRowId, Binding, ContactText, EscalationReason, Role, Usd};
use crate::model::{HistoryTurn, Reply, Spent, TurnInput, Usage};
use crate::store::inbox::{self, Kept, Waiter};
use crate::store::open::{NewMessage, OpenRequest, OpenTurn, Opened, Waits};
use crate::store::owed::{self, Resolution, Resolved};
use crate::store::settle::{self, AgentRow, SettleRequest, Settled, UsageRow};
use crate::store::takeover::Hushed;
use crate::store::{StoreError, open as store_open, takeover as store_takeover};
use crate::tools::{COUNTERS, TurnTools};

/// What Open left the turn with.
pub enum OpenReport {
    /// The turn runs.
    Started(Box<OpenTurn>),
    /// The lane is held, or another process is ahead; the messages stand in the inbox.
    Waiting(Waits),
    /// Nothing can be done; the contact gets the handoff copy.
    Failed(TurnError),
}

/// What became of a decided reply.
pub enum SettleReport {
    /// Recorded; this block may go inline.
    Inline {
        /// The rendered reply.
        body: Vec<u8>,
        /// True when another process has messages of the contact. It is told when the reply is out: before, its own
        /// reply would have to go through the outbox (ARC-47).
        others_wait: bool,
    },
    /// Recorded and queued.
    Queued,
    /// A person has taken over: the messages are recorded, nothing is said.
    Hushed,
    /// Somebody else ended the turn.
    Superseded,
    /// This process was silent for so long that the turn is not its own any more (ARC-44).
    Dropped,
    /// Not recorded, or not known to be.
    Failed(TurnError),
}

/// Open: lane, record, count, read, within `limit` (`None`: the request was answered already).
pub async fn open(context: &TurnContext, request: &TurnRequest, limit: Option<Duration>) -> OpenReport {
    let Some(live) = request.live() else {
        return OpenReport::Failed(TurnError::NoMessage);
    };
    // Under an id that others count as dead the turn would be theirs at once, and run twice (ARC-44).
    if !context.pulse.holds(request.process) {
        return OpenReport::Failed(TurnError::SilentProcess);
    }
    let rules = &request.snapshot.tenant.rules;
    let fresh = fresh_token();
    let flight = OpenRequest {
        tenant: live.tenant.clone(),
        subscriber: live.subscriber.clone(),
        channel: live.channel.clone(),
        token_digest: request.token_digest(),
        fresh_digest: fresh.as_ref().map(|token| token.digest.clone()),
        tokens_enforced: context.settings.tokens_enforced,
        messages: new_messages(request),
        guarded: !request.is_opening(),
        now: context.clock.now(),
        received_at: request.messages.first().map_or(live.received_at, |first| first.received_at),
        last_received_at: live.received_at,
        idle_reset_hours: rules.idle_reset_hours,
        offering: acts::named_offering(request),
        acted_by: acts::acted_by(&request.snapshot.tenant),
        pausable: rules.takeover.is_some(),
        history_days: rules.history_days,
        process: request.process,
        turn: request.id,
        lane_secs: context.settings.lane_time().as_secs_f64(),
        dead_secs: context.settings.process_dead.as_secs_f64(),
        takeover_secs: context.pulse.others_dead_secs(),
    };
    match within(limit, store_open::open(&patient(&context.database, limit), &flight)).await {
        Ok(Opened::Started(mut turn)) => {
            acts::mend_summary(context, &mut turn).await;
            report_binding(context, &turn);
            write_issued(context, &turn, live, fresh);
            OpenReport::Started(turn)
        }
        Ok(Opened::Waiting(waits)) => OpenReport::Waiting(waits),
        Err(error) => OpenReport::Failed(error.into()),
    }
}

/// The token that this turn issues if one is due (TURN-8). Without randomness the contact is answered all the same.
fn fresh_token() -> Option<ContactToken> {
    ContactToken::fresh().map_err(|error| tracing::error!(err = %error, "contact token not issued")).ok()
}

/// Starts the write of a token that Open has issued, beside whatever follows (TOK-23).
fn write_issued(context: &TurnContext, turn: &OpenTurn, live: &InboundMessage, fresh: Option<ContactToken>) {
    if let (Some(row), Some(token)) = (turn.token_row, fresh) {
        context.tokens.write_later(IssuedToken {
            conversation: turn.conversation,
            contact: live.subscriber.clone(),
            text: token.text,
            row,
        });
    }
}

fn new_messages(request: &TurnRequest) -> Vec<NewMessage> {
    let messages = request.messages.iter().zip(&request.rows);
    messages.map(|(message, row)| new_message(message, row)).collect()
}

fn new_message(message: &InboundMessage, row: &MessageRow) -> NewMessage {
    NewMessage {
        id: row.id,
        text: message.recorded_text(),
        media: message.media.as_ref().map(|media| media.kind),
        offering: message.offering.clone(),
        received_at: message.received_at,
        stored: row.stored,
    }
}

/// What became of a message that has to wait.
pub enum KeepReport {
    /// It stands in the inbox.
    Kept(Kept),
    /// It may not stand there; the contact gets the handoff copy.
    Failed(TurnError),
}

/// Writes the one message of this request into the inbox, within `limit` (`None`: it was answered already).
pub async fn keep(context: &TurnContext, request: &TurnRequest, limit: Option<Duration>) -> KeepReport {
    let (Some(message), Some(row)) = (request.live(), request.rows.last()) else {
        return KeepReport::Failed(TurnError::NoMessage);
    };
    let waiter = Waiter {
        tenant: message.tenant.clone(),
        subscriber: message.subscriber.clone(),
        token_digest: request.token_digest(),
        tokens_enforced: context.settings.tokens_enforced,
        process: request.process,
        message: new_message(message, row),
        now: context.clock.now(),
    };
    match within(limit, inbox::keep(&patient(&context.database, limit), &waiter)).await {
        Ok(kept) => KeepReport::Kept(kept),
        Err(error) => KeepReport::Failed(error.into()),
    }
}

/// A flow that stopped sending the token shows as a rising share of these lines (TURN-7, TOK-15).
fn report_binding(context: &TurnContext, turn: &OpenTurn) {
    if turn.binding == Binding::Unbound {
        tracing::info!(
            conversation = %turn.conversation,
            binding = turn.binding.as_str(),
            enforced = context.settings.tokens_enforced,
            "unbound turn"
        );
    }
}

/// Decides the reply: silence while a person has taken over (DEC-9), scripted opening, guards, then the model, at most for
/// the abort time (TURN-9 to TURN-15). `tools`: what the turn may do, of which the caller keeps a share (TURN-14); a turn
/// that its model never runs on does nothing with it (TSET-9).
pub async fn decide(
    context: &TurnContext,
    request: &TurnRequest,
    opened: &OpenTurn,
    tools: Option<Arc<TurnTools>>,
) -> Verdict {
    if takeover::is_silent(context, request, opened).await {
        return Verdict::SayNothing;
    }
    Verdict::Say(Box::new(decide_reply(context, request, opened, tools).await))
}

async fn decide_reply(
    context: &TurnContext,
    request: &TurnRequest,
    opened: &OpenTurn,
    tools: Option<Arc<TurnTools>>,
) -> Draft {
    let rules = &request.snapshot.tenant.rules;
    if request.ends_with_a_person(context.clock.now()) {
        return Draft::of_copy(escalation(request), Decision::Recovered);
    }
    if let Some(trigger) = rules.opening_trigger.as_ref().filter(|_| request.is_opening()) {
        return Draft::of_copy(Reply::scripted(&trigger.message), Decision::Scripted);
    }
    let texts: Vec<&str> = request.texts().map(ContactText::expose).collect();
    // Guards were judged, if at all, in the first run (ARC-46).
    let denial = (request.run != Run::Second).then(|| judge(context, request, &texts, opened)).flatten();
    if let Some(denial) = denial {
        let reply = Reply::handoff(&rules.messages.escalation, denial.reason);
        return Draft::of_copy(reply, Decision::Denied(denial));
    }
    if request.messages.iter().any(|message| message.media.is_some()) {
        return unreadable_media(request);
    }
    ask_model(context, request, opened, tools).await
}

/// The guards, with what the tenant's day has cost and what the turns under way will add.
fn judge(context: &TurnContext, request: &TurnRequest, texts: &[&str], opened: &OpenTurn) -> Option<Denial> {
    let rules = &request.snapshot.tenant.rules;
    let day = Day::of(opened, context.runner.typical_turn(&request.snapshot.system));
    budget::warn_before_a_cap(context, rules, &day);
    guards::judge(rules, texts, opened, &day)
}

/// No kind of media can be read yet: the contact is asked to type, or a person takes over (03 section 6.2, ESC-3).
fn unreadable_media(request: &TurnRequest) -> Draft {
    let messages = &request.snapshot.tenant.rules.messages;
    let reply = match &messages.media_fallback {
        Some(text) => Reply::scripted(text),
        None => Reply::handoff(&messages.escalation, EscalationReason::OutOfScope),
    };
    Draft::of_copy(reply, Decision::UnreadableMedia)
}

async fn ask_model(
    context: &TurnContext,
    request: &TurnRequest,
    opened: &OpenTurn,
    tools: Option<Arc<TurnTools>>,
) -> Draft {
    let input = TurnInput {
        tenant: Arc::clone(&request.snapshot.tenant),
        system: request.snapshot.system.clone(),
        state_lines: acts::state_lines(request, opened),
        texts: request.texts().cloned().collect(),
        history: opened.history.iter().map(history_turn).collect(),
        tools: tools.clone(),
        spent: Spent::default(),
    };
    let spent = input.spent.clone();
    let started = Instant::now();
    let mut draft = match tokio::time::timeout(context.settings.model_abort, context.runner.run(input)).await
    {
        Ok(result) => {
            let marks = channel::profile(context.settings.channel).marks;
            let copy = &request.snapshot.tenant.rules.messages.escalation;
            let history = opened.history.iter().filter(|row| row.role == Role::User).map(|row| &row.text);
            let said = request.texts().chain(history).map(ContactText::expose);
            let draft = Draft::of_model(result, marks, copy, request.snapshot.system.leaks());
            draft.grounded_in(&request.snapshot.figures, said)
        }
        Err(_) => {
            let aborted = Decision::Aborted { bill: Box::new(spent.bill()), latency: started.elapsed() };
            Draft::of_copy(escalation(request), aborted)
        }
    };
    if let Some(tools) = tools {
        let limit = acts::wait_for_requests(context, request, opened, &tools, started.elapsed()).await;
        acts::finish(&tools, opened, &mut draft, limit).await;
    }
    draft
}

fn history_turn(row: &store_open::HistoryRow) -> HistoryTurn {
    HistoryTurn { role: row.role, text: row.text.clone(), actions: row.actions.clone() }
}

fn escalation(request: &TurnRequest) -> Reply {
    Reply::handoff(&request.snapshot.tenant.rules.messages.escalation, EscalationReason::LowConfidence)
}

/// Settle: renders, records and releases the lane, within `limit` (`None`: no request waits for it).
pub async fn settle(
    context: &TurnContext,
    request: &TurnRequest,
    opened: &OpenTurn,
    verdict: &Verdict,
    way: Way,
    limit: Option<Duration>,
) -> SettleReport {
    if !context.pulse.holds(request.process) {
        tracing::warn!(conversation = %opened.conversation, "turn dropped after a silence of its process");
        return SettleReport::Dropped;
    }
    let Verdict::Say(draft) = verdict else { return hush(context, request, opened, limit).await };
    let answers = Answers::of(context, &request.snapshot);
    let texts = &draft.texts;
    report_decision(request, opened, draft, way.is_late());
    // Rendered before anything is recorded: a block that cannot be sent must not stand in history (GAP-CH-6).
    let delivery = answers.delivery(texts);
    let body = match answers.reply(texts, &delivery, request.presented_secret.expose()) {
        Ok(body) => body,
        Err(error) => {
            tracing::error!(conversation = %opened.conversation, err = %error, "unhandled error");
            return SettleReport::Failed(TurnError::Unrenderable);
        }
    };
    let flight = settle_request(context, opened, request, draft, way, &delivery);
    let plays = flight.not_before;
    let outcome = flight.agent.outcome;
    let settled = within(limit, settle::settle(&patient(&context.database, limit), &flight)).await;
    let others_wait = settled.as_ref().is_ok_and(|settlement| settlement.others_wait);
    match settled.map(|settlement| settlement.settled) {
        Ok(Settled::Inline) => {
            report_rest(opened, &delivery);
            report_turn(opened, draft, outcome, false);
            SettleReport::Inline { body, others_wait }
        }
        Ok(Settled::Queued) => {
            report_queued(opened, way, plays);
            report_turn(opened, draft, outcome, way.leaves_silence());
            if others_wait {
                context.freed.add(opened.conversation);
            }
            SettleReport::Queued
        }
        Ok(Settled::Superseded) => {
            tracing::warn!(conversation = %opened.conversation, "turn superseded");
            SettleReport::Superseded
        }
        Err(error) => {
            tracing::error!(conversation = %opened.conversation, err = %error, "turn not settled");
            SettleReport::Failed(error.into())
        }
    }
}

/// Ends a turn that says nothing: nothing owed, no agent row but for what a first run has sent (DEC-9, ARC-41).
async fn hush(
    context: &TurnContext,
    request: &TurnRequest,
    opened: &OpenTurn,
    limit: Option<Duration>,
) -> SettleReport {
    let (conversation, now) = (opened.conversation, context.clock.now());
    let database = patient(&context.database, limit);
    let ending =
        store_takeover::hush(&database, conversation, request.id, opened.fence, request.process, now);
    match within(limit, ending).await {
        Ok(Hushed::Ended { others_wait }) => {
            if others_wait {
                context.freed.add(conversation);
            }
            let binding = opened.binding.as_str();
            tracing::info!(%conversation, binding, silent = true, "turn silent: a person has taken over");
            SettleReport::Hushed
        }
        Ok(Hushed::Superseded) => {
            tracing::warn!(%conversation, "turn superseded");
            SettleReport::Superseded
        }
        Err(error) => {
            tracing::error!(%conversation, err = %error, "turn not settled");
            SettleReport::Failed(error.into())
        }
    }
}

/// Why a reply that was in time went through the outbox all the same (WAIT-7, LANE-6).
fn report_queued(opened: &OpenTurn, way: Way, plays: Option<Duration>) {
    let conversation = opened.conversation;
    match way {
        Way::BehindFlow => {
            COUNTERS.held(plays.unwrap_or_default());
            let held_ms = plays.map_or(0, crate::domain::millis);
            tracing::info!(%conversation, path = "outbox", heldMs = held_ms, "reply held for flow");
        }
        Way::Response | Way::BehindReply => {
            tracing::info!(%conversation, path = "outbox", "reply queued behind the previous one");
        }
        Way::Late { .. } => {}
    }
}

fn settle_request(
    context: &TurnContext,
    opened: &OpenTurn,
    request: &TurnRequest,
    draft: &Draft,
    way: Way,
    delivery: &Delivery,
) -> SettleRequest {
    let agent_row = AgentRowId::fresh();
    let payload = |texts: &[String]| acts::with_actions(owed::reply_payload(texts), draft, agent_row);
    SettleRequest {
        conversation: opened.conversation,
        turn: request.id,
        fence: opened.fence,
        process: request.process,
        deferred: way.is_outbox(),
        payload: payload(&delivery.all),
        rest: (!delivery.rest.is_empty()).then(|| payload(&delivery.rest)),
        agent: AgentRow {
            id: agent_row,
            text: draft.reply.text(),
            outcome: draft.outcome(way.is_late()),
            bound: is_bound(context, opened),
            actions: acts::record(draft, &opened.attempted),
            usage: usage_row(draft),
            at: context.clock.now(),
        },
        escalation: draft.escalation(),
        checks: draft.checks(),
        not_before: acts::plays_for(draft.finished.plays_until),
        summary: acts::summary(request, opened, context.clock.now()),
    }
}

/// Whether the turn belongs to the contact's own state and history (02 section 1).
pub(super) fn is_bound(context: &TurnContext, opened: &OpenTurn) -> bool {
    opened.binding != Binding::Unbound || !context.settings.tokens_enforced
}

fn usage_row(draft: &Draft) -> Option<UsageRow> {
    let (model, usage, cost, latency) = match &draft.decision {
        Decision::Model(result) => (&result.model, result.usage, Some(result.cost), result.latency),
        // What the calls before the abort reported is charged; without a report nothing is known (DEC-19).
        Decision::Aborted { bill, latency } => {
            (&bill.model, bill.usage, (bill.usage != Usage::default()).then_some(bill.cost), *latency)
        }
        _ => return None,
    };
    let Usage { input, output, cache_read, .. } = usage;
    Some(UsageRow { model: model.clone(), input, output, cache_read, cost: cost.map(Usd::get), latency })
}

/// Ends what a failed turn left behind, as a handoff. `told`: the contact has read the escalation copy.
///
/// # Errors
/// When the database does not answer: call again.
pub async fn resolve(
    context: &TurnContext,
    request: &TurnRequest,
    told: bool,
) -> Result<Resolution, StoreError> {
    match handoff(context, request, told) {
        Some(handoff) => owed::resolve(&context.database, &handoff).await,
        None => Ok(Resolution { found: Resolved::NothingThere, conversation: None }),
    }
}

/// The handoff a failed turn ends in; `None` for a turn without a message, which never happens.
#[must_use]
pub fn handoff<'turn>(
    context: &TurnContext,
    request: &'turn TurnRequest,
    told: bool,
) -> Option<owed::Handoff<'turn>> {
    let live = request.live()?;
    Some(owed::Handoff {
        failed: owed::Failed {
            turn: request.id,
            process: request.process,
            held: context.pulse.holds(request.process),
            text: &request.snapshot.tenant.rules.messages.escalation,
            told,
            tokens_enforced: context.settings.tokens_enforced,
            messages: request.rows.iter().map(|row| row.id).collect(),
            now: context.clock.now(),
        },
        tenant: &live.tenant,
        subscriber: &live.subscriber,
        channel: &live.channel,
        stored: request.rows.iter().all(|row| row.stored),
        token_digest: request.token_digest(),
        arrived: live.received_at,
    })
}

#[cfg(test)]
#[path = "steps_tests.rs"]
pub(super) mod tests;
