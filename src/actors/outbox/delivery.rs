//! The delivery of one claimed reply, text by text, and what becomes of it (04 sections 3 and 5, DEC-31).

use std::time::Duration;

use uuid::Uuid;

use super::actor::WorkerParts;
use crate::actors::acting::Path;
use crate::domain::ContactText;
use crate::manychat::{Class, ManyChatError};
use crate::store::StoreError;
use crate::store::outbox::{self, Claim, Held};
use crate::telemetry::Seldom;
use crate::telemetry::crash_points::{self, Point};

/// Longest pause before another attempt (BOX-13).
const LONGEST_DELAY: Duration = Duration::from_secs(300);
/// Pause between two tries to record what ManyChat has accepted already.
const RECORD_PAUSE: Duration = Duration::from_millis(500);
/// Tries to record it. After that the lease ends and the text may be sent a second time: the one duplicate that a
/// lost database makes possible (ARC-43).
const RECORD_TRIES: u32 = 240;

/// Why a reply is given up untried (ARC-46).
const UNREACHABLE: &str = "not sent: the contact wrote more than 24 hours ago";

/// How a delivery ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// Every text is out.
    Delivered,
    /// Another attempt follows.
    Retrying,
    /// Given up; a person is called.
    DeadLettered,
    /// Given back unattempted.
    Released,
    /// Somebody else has taken the row over, or the database does not say.
    Lost,
}

/// Delivers what is left of the reply (GAP-DL-2) and records the end.
pub(super) async fn deliver(parts: &WorkerParts, claim: Claim) -> Ended {
    if claim.unreachable {
        return give_up(parts, &claim, UNREACHABLE).await;
    }
    for (index, text) in claim.texts.expose().iter().enumerate().skip(claim.sent) {
        // After a silence others may be sending it (ARC-44).
        if !parts.pulse.holds(claim.process) {
            return Ended::Lost;
        }
        let wait = if index == claim.sent { claim.pause } else { Duration::ZERO };
        match send(parts, &claim, text, wait, index).await {
            Sent::Yes => {}
            Sent::Failed(error) => return failed(parts, &claim, &error).await,
            Sent::Lost => return Ended::Lost,
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

enum Sent {
    Yes,
    Failed(ManyChatError),
    Lost,
}

/// Sends one text and keeps the claim alive while it waits for its turn at ManyChat.
async fn send(parts: &WorkerParts, claim: &Claim, text: &str, wait: Duration, sent: usize) -> Sent {
    let sending = parts.manychat.send_text(&claim.subscriber, ContactText::new(text), wait);
    tokio::pin!(sending);
    let mut renewals = tokio::time::interval(parts.claimant.lease / 3);
    renewals.tick().await;
    loop {
        tokio::select! {
            outcome = &mut sending => return outcome.map_or_else(Sent::Failed, |()| Sent::Yes),
            _ = renewals.tick() => {
                // Withdrawing the text by dropping it: a flow that was not played yet is not played.
                if let Ok(Held::Lost) = outbox::renew(&parts.database, &parts.claimant, claim, sent).await {
                    return Sent::Lost;
                }
            }
        }
    }
}

/// Writes what must not be forgotten about a claim.
pub(super) async fn record<F: Future<Output = Result<Held, StoreError>>>(write: impl Fn() -> F) -> Held {
    until_written(write).await.unwrap_or(Held::Lost)
}

/// Writes again and again while the database does not answer; `None` when it never did.
async fn until_written<T, F: Future<Output = Result<T, StoreError>>>(write: impl Fn() -> F) -> Option<T> {
    for _ in 0..RECORD_TRIES {
        match write().await {
            Ok(written) => return Some(written),
            Err(error) => {
                static TOLD: Seldom = Seldom::new();
                if TOLD.now() {
                    tracing::warn!(err = %error, "delivery not recorded yet");
                }
            }
        }
        tokio::time::sleep(RECORD_PAUSE).await;
    }
    tracing::error!("delivery not recorded; the reply may be sent twice");
    None
}

/// Another attempt, or none: by the kind of failure and the age of the reply (DEC-31).
async fn failed(parts: &WorkerParts, claim: &Claim, error: &ManyChatError) -> Ended {
    if matches!(error, ManyChatError::NotStarted { .. }) {
        return match outbox::release(&parts.database, claim).await {
            Ok(Held::Yes) => Ended::Released,
            _ => Ended::Lost,
        };
    }
    let delay = delay(claim.attempt, error.retry_after(), random_share());
    let too_old = claim.age + claim.pause >= parts.retry_window;
    if error.class() == Class::Final || too_old {
        give_up(parts, claim, &error.to_string()).await
    } else {
        again(parts, claim, error, delay).await
    }
}

async fn again(parts: &WorkerParts, claim: &Claim, error: &ManyChatError, delay: Duration) -> Ended {
    let text = error.to_string();
    let held = record(|| outbox::retry(&parts.database, &parts.claimant, claim, &text, delay)).await;
    if held == Held::Lost {
        return Ended::Lost;
    }
    tracing::warn!(
        outboxId = %claim.id,
        kind = "reply",
        attempts = claim.attempt,
        err = text.as_str(),
        "outbox delivery retrying"
    );
    Ended::Retrying
}

async fn give_up(parts: &WorkerParts, claim: &Claim, error: &str) -> Ended {
    let held = record(|| outbox::dead_letter(&parts.database, &parts.claimant, claim, error)).await;
    if held == Held::Lost {
        return Ended::Lost;
    }
    tracing::error!(
        outboxId = %claim.id,
        kind = "reply",
        attempts = claim.attempt,
        err = error,
        "outbox dead-lettered"
    );
    Ended::DeadLettered
}

/// 2 s, 4 s, 8 s and so on to 300 s (BOX-13), a tenth more or less by `share` (0 to 1) so that failed replies do not
/// all return at once, and never before ManyChat asked for (GAP-DL-8).
pub(in crate::actors) fn delay(attempt: i32, asked: Option<Duration>, share: f64) -> Duration {
    let exponent = u32::try_from(attempt.clamp(1, 16)).unwrap_or(16);
    let plain = Duration::from_secs(2u64.pow(exponent)).min(LONGEST_DELAY);
    plain.mul_f64(0.9 + 0.2 * share.clamp(0.0, 1.0)).max(asked.unwrap_or(Duration::ZERO))
}

/// A random number from 0 to 1.
pub(in crate::actors) fn random_share() -> f64 {
    let (number, ..) = Uuid::new_v4().as_fields();
    f64::from(number) / f64::from(u32::MAX)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// WRK-8, ARC-43: what ManyChat has accepted is written down again and again, because a row that is not marked goes
    /// out a second time; only after two minutes is it left to that.
    #[tokio::test(start_paused = true)]
    async fn an_accepted_text_is_recorded_until_the_database_takes_it() {
        let started = tokio::time::Instant::now();
        let tries = Cell::new(0);
        let held = record(|| async {
            tries.set(tries.get() + 1);
            if tries.get() < 100 { Err(StoreError::InDoubt) } else { Ok(Held::Yes) }
        });
        assert_eq!((held.await, tries.get()), (Held::Yes, 100));
        assert!(started.elapsed() > Duration::from_secs(49), "{:?}", started.elapsed());
        let never = record(|| async { Err(StoreError::InDoubt) }).await;
        assert_eq!(never, Held::Lost, "the lease ends, and the row counts as attempted");
        assert!(started.elapsed() > Duration::from_secs(165), "{:?}", started.elapsed());
        assert_eq!(
            record(|| async { Ok(Held::Lost) }).await,
            Held::Lost,
            "somebody else's row is let go at once"
        );
    }

    /// BOX-13, GAP-DL-9, DEC-31: doubling from 2 s to 300 s, a tenth of jitter.
    #[test]
    fn delays_double_up_to_five_minutes() {
        let middle = |attempt| delay(attempt, None, 0.5).as_secs_f64().round();
        assert_eq!([1, 2, 3, 4, 8, 9, 30].map(middle), [2.0, 4.0, 8.0, 16.0, 256.0, 300.0, 300.0]);
        assert_eq!(delay(1, None, 0.0), Duration::from_millis(1800));
        assert_eq!(delay(1, None, 1.0), Duration::from_millis(2200));
    }

    /// GAP-DL-8
    #[test]
    fn a_retry_never_comes_before_manychat_asked_for() {
        assert_eq!(delay(1, Some(Duration::from_secs(30)), 0.5), Duration::from_secs(30));
        let share = random_share();
        assert!((0.0..=1.0).contains(&share));
    }
}
