//! Turns that no caller waits for: what a dead process has left unfinished or unread, and what becomes of it (ARC-45a, ARC-46,
//! DEC-20). When they are run is the recoverer's.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use super::context::{Snapshot, TurnContext};
use super::request::{MessageRow, Run, TurnRequest};
use super::{acts, opening};
use crate::channel::{InboundMessage, Media};
use crate::domain::{ContactText, MediaKind, ProcessId, Redacted, SubscriberId, TurnId};
use crate::store::inbox::{OrphanedContact, Repeated, WaitingMessage};
use crate::store::open::OpenTurn;
use crate::store::owed;
use crate::store::second_run::{SecondRun, Taker};

/// Nothing reaches a contact who wrote longer ago than this: the channel does not allow it (ARC-46).
const UNREACHABLE: SignedDuration = SignedDuration::from_hours(24);

/// What becomes of a late turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Course {
    /// Nothing reaches its contact any more: it ends without a word, and a person has to write.
    OutOfReach,
    /// It ends with the handoff.
    HandOff,
    /// It is decided and settled as any other, through the outbox.
    Answer,
}

/// What becomes of a turn that a dead process had begun. One that has killed two processes is not run a third time, and one
/// without a message has nothing to answer.
#[must_use]
pub fn course_of_second_run(run: &SecondRun, now: Timestamp) -> Course {
    if is_out_of_reach(run.last_message_at.max(run.received_at), now) {
        Course::OutOfReach
    } else if run.again || run.messages.is_empty() {
        Course::HandOff
    } else {
        Course::Answer
    }
}

/// What becomes of messages that waited for a dead process.
#[must_use]
pub fn course_of_inherited(request: &TurnRequest, now: Timestamp) -> Course {
    match request.live() {
        Some(last) if is_out_of_reach(last.received_at, now) => Course::OutOfReach,
        _ => Course::Answer,
    }
}

/// Whether the channel delivers nothing any more to a contact whose last message came then.
fn is_out_of_reach(came: Timestamp, now: Timestamp) -> bool {
    now.duration_since(came) > UNREACHABLE
}

/// The first of these messages with those right behind it that the same process would have answered with it (DEC-5,
/// DEC-23).
#[must_use]
pub fn first_burst(waiting: Vec<WaitingMessage>, snapshot: &Snapshot) -> Vec<WaitingMessage> {
    let rules = &snapshot.tenant.rules;
    let alone = |one: &WaitingMessage| {
        one.media.is_some()
            || !rules.burst.answer_together
            || opening::is_opening(rules.opening_trigger.as_ref(), one.text.expose())
    };
    let mut burst: Vec<WaitingMessage> = Vec::new();
    for next in waiting {
        let joins = burst.first().is_none_or(|first| {
            first.process == next.process
                && first.token_digest == next.token_digest
                && !alone(first)
                && !alone(&next)
        });
        if !joins {
            break;
        }
        burst.push(next);
    }
    burst
}

/// The message that the contact may have sent again since: its caller is gone with its process (DEC-30). Nobody repeats a
/// burst whole.
#[must_use]
pub fn repeatable_of_second_run(run: &SecondRun) -> Option<Repeated<'_>> {
    let [only] = run.messages.as_slice() else { return None };
    Some(Repeated {
        conversation: run.opened.conversation,
        process: run.dead,
        text: &only.text,
        binding: run.opened.binding,
        received_at: run.received_at,
    })
}

/// The same of a burst that waited.
#[must_use]
pub fn repeatable_of_burst<'burst>(
    burst: &'burst [WaitingMessage],
    opened: &OpenTurn,
) -> Option<Repeated<'burst>> {
    let [only] = burst else { return None };
    Some(Repeated {
        conversation: opened.conversation,
        process: only.process,
        text: &only.text,
        binding: opened.binding,
        received_at: only.received_at,
    })
}

/// Who takes a turn over, and under what rules.
#[must_use]
pub fn taker(context: &TurnContext, snapshot: &Snapshot) -> Taker {
    let settings = &context.settings;
    Taker {
        tenant: settings.tenant.clone(),
        process: context.pulse.process(),
        lane_secs: settings.lane_time().as_secs_f64(),
        dead_secs: settings.process_dead.as_secs_f64(),
        tokens_enforced: settings.tokens_enforced,
        now: context.clock.now(),
        history_days: snapshot.tenant.rules.history_days,
        acted_by: acts::acted_by(&snapshot.tenant),
    }
}

/// How a turn ends whose takeover by `process` may have been committed without our hearing of it: of its contact and its
/// messages nothing is known.
#[must_use]
pub fn lost_takeover<'turn>(
    context: &TurnContext,
    turn: TurnId,
    process: ProcessId,
    snapshot: &'turn Snapshot,
) -> owed::Failed<'turn> {
    owed::Failed {
        turn,
        process,
        held: context.pulse.holds(process),
        text: &snapshot.tenant.rules.messages.escalation,
        told: false,
        tokens_enforced: context.settings.tokens_enforced,
        messages: Vec::new(),
        now: context.clock.now(),
    }
}

/// What a turn that a dead process had begun is run with.
#[must_use]
pub fn request_of_second_run(
    context: &TurnContext,
    turn: TurnId,
    process: ProcessId,
    snapshot: Arc<Snapshot>,
    run: &SecondRun,
) -> TurnRequest {
    let place = (&run.subscriber, run.channel.as_str());
    let message = |text: &ContactText, media| message_of(context, place, text, media, run.received_at);
    TurnRequest {
        id: turn,
        process,
        run: Run::Second,
        messages: run.messages.iter().map(|one| message(&one.text, one.media)).collect(),
        rows: run.messages.iter().map(|one| MessageRow { id: one.id, stored: false }).collect(),
        known_digest: None,
        snapshot,
        presented_secret: Redacted::new("".into()),
    }
}

/// What messages that waited for a dead process are answered with; `None` without any.
#[must_use]
pub fn request_of_burst(
    context: &TurnContext,
    contact: &OrphanedContact,
    process: ProcessId,
    snapshot: Arc<Snapshot>,
    burst: &[WaitingMessage],
) -> Option<TurnRequest> {
    let first = burst.first()?;
    let place = (&contact.subscriber, contact.channel.as_str());
    let messages = burst.iter().map(|one| {
        let message = message_of(context, place, &one.text, one.media, one.received_at);
        InboundMessage { offering: one.offering.clone(), ..message }
    });
    Some(TurnRequest {
        id: TurnId::from(first.id),
        process,
        run: Run::Inherited,
        messages: messages.collect(),
        rows: burst.iter().map(|one| MessageRow { id: one.id, stored: true }).collect(),
        known_digest: first.token_digest.clone(),
        snapshot,
        presented_secret: Redacted::new("".into()),
    })
}

/// A message as its rows tell it: what only the request knew is gone.
fn message_of(
    context: &TurnContext,
    (subscriber, channel): (&SubscriberId, &str),
    text: &ContactText,
    media: Option<MediaKind>,
    received_at: Timestamp,
) -> InboundMessage {
    InboundMessage {
        tenant: context.settings.tenant.clone(),
        subscriber: subscriber.clone(),
        text: text.clone(),
        channel: channel.to_owned(),
        contact_name: None,
        locale: None,
        token: None,
        media: media.map(|kind| Media { kind, url: Redacted::default() }),
        offering: None,
        received_at,
    }
}

#[cfg(test)]
#[path = "late_tests.rs"]
mod tests;
