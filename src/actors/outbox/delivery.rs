//! The delivery of one claimed reply, text by text, and what becomes of it (04 sections 3 and 5, DEC-31).

use std::time::Duration;

use super::actor::WorkerParts;
use super::ending::{Called, Ended, Named, Next, given_back, next, record, until_written, while_held};
use crate::actors::acting::Path;
use crate::domain::ContactText;
use crate::domain::delivery_error::UNREACHABLE;
use crate::manychat::ManyChatError;
use crate::store::outbox::{self, Claim, Held};
use crate::telemetry::crash_points::{self, Point};

/// Delivers what is left of the reply (GAP-DL-2) and records the end.
pub(super) async fn deliver(parts: &WorkerParts, claim: Claim) -> Ended {
    if claim.unreachable {
        return give_up(parts, &claim, claim.sent, UNREACHABLE).await;
    }
    for (index, text) in claim.texts.expose().iter().enumerate().skip(claim.sent) {
        // After a silence others may be sending it (ARC-44).
        if !parts.pulse.holds(claim.process) {
            return Ended::Lost;
        }
        let wait = if index == claim.sent { claim.pause } else { Duration::ZERO };
        match send(parts, &claim, text, wait, index).await {
            Called::Accepted => {}
            Called::Failed(error) => return failed(parts, &claim, index, &error).await,
            Called::Lost => return Ended::Lost,
        }
        let out = index + 1;
        if out < claim.texts.expose().len()
            && record(|| outbox::progress(&parts.database, &parts.claimant, &claim, out)).await != Held::Yes
        {
            return Ended::Lost;
        }
    }
    crash_points::passed(Point::FlowPlayed);
    let delivered = until_written(|| outbox::delivered(&parts.database, &parts.claimant, &claim)).await;
    let Some(opened) = delivered.flatten() else { return Ended::Lost };
    for open in opened {
        parts.acting.perform_later(open, Path::Deferred);
    }
    Ended::Delivered
}

/// Sends one text; `sent` are out.
async fn send(parts: &WorkerParts, claim: &Claim, text: &str, wait: Duration, sent: usize) -> Called {
    let sending = parts.manychat.send_text(&claim.subscriber, ContactText::new(text), wait);
    let renew = || outbox::renew(&parts.database, &parts.claimant, claim, sent);
    while_held(parts.claimant.lease, sending, renew).await
}

/// Another attempt, or none (DEC-31); `sent` texts are out.
async fn failed(parts: &WorkerParts, claim: &Claim, sent: usize, error: &ManyChatError) -> Ended {
    let left = parts.retry_window.saturating_sub(claim.age + claim.pause);
    let text = error.to_string();
    match next(error, claim.attempt, left) {
        Next::GiveBack => given_back(&outbox::release(&parts.database, claim).await),
        Next::GiveUp => give_up(parts, claim, sent, &text).await,
        Next::Again(pause) => {
            let retry = || outbox::retry(&parts.database, &parts.claimant, claim, &text, pause);
            named(claim).retrying(record(retry).await, &text)
        }
    }
}

/// No further attempt: a person is called, and told how much the contact has got.
async fn give_up(parts: &WorkerParts, claim: &Claim, sent: usize, error: &str) -> Ended {
    let texts = claim.texts.expose().len();
    let reason = outbox::reason_of(sent, texts, error);
    let held = record(|| outbox::dead_letter(&parts.database, &parts.claimant, claim, &reason)).await;
    named(claim).dead_lettered(held, &reason, Some((sent, texts)))
}

const fn named(claim: &Claim) -> Named {
    Named { id: claim.id, kind: "reply", attempts: claim.attempt }
}
