//! How a claimed row ends, whatever it holds: its claim is kept while a call waits for its turn at ManyChat, and the kind of
//! the failure and the age of the row say what follows it (DEC-31).

use std::time::Duration;

use uuid::Uuid;

use crate::manychat::{Class, ManyChatError};
use crate::store::StoreError;
use crate::store::outbox::Held;
use crate::telemetry::Seldom;

/// Longest pause before another attempt (BOX-13).
const LONGEST_DELAY: Duration = Duration::from_secs(300);
/// Pause between two tries to record what ManyChat has accepted already.
const RECORD_PAUSE: Duration = Duration::from_millis(500);
/// Tries to record it. After that the lease ends and the text may be sent a second time: the one duplicate that a
/// lost database makes possible (ARC-43).
const RECORD_TRIES: u32 = 240;

/// How a delivery ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// Everything is out.
    Delivered,
    /// Another attempt follows.
    Retrying,
    /// Given up.
    DeadLettered,
    /// Given back unattempted.
    Released,
    /// Somebody else has taken the row over, or the database does not say.
    Lost,
}

/// What became of one order at ManyChat.
pub(super) enum Called {
    /// ManyChat has accepted it.
    Accepted,
    /// It failed.
    Failed(ManyChatError),
    /// The row is somebody else's: the order was withdrawn.
    Lost,
}

/// Waits for the order and keeps the claim alive meanwhile. It is withdrawn by dropping it when the claim is lost: a flow that
/// was not played yet is not played.
pub(super) async fn while_held<F: Future<Output = Result<Held, StoreError>>>(
    lease: Duration,
    order: impl Future<Output = Result<(), ManyChatError>>,
    renew: impl Fn() -> F,
) -> Called {
    tokio::pin!(order);
    let mut renewals = tokio::time::interval(lease / 3);
    renewals.tick().await;
    loop {
        tokio::select! {
            outcome = &mut order => return outcome.map_or_else(Called::Failed, |()| Called::Accepted),
            _ = renewals.tick() => {
                if let Ok(Held::Lost) = renew().await {
                    return Called::Lost;
                }
            }
        }
    }
}

/// What follows a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Nothing was attempted: the row is given back.
    GiveBack,
    /// No further attempt.
    GiveUp,
    /// Another attempt after this pause.
    Again(Duration),
}

/// By the kind of failure and what is left of the row's window; `attempt` was the last one. However long ManyChat asks to
/// wait, the last attempt comes at the end of the window, so that a person is called by then (DEC-31 over GAP-DL-8).
pub(super) fn next(error: &ManyChatError, attempt: i32, left: Duration) -> Next {
    if matches!(error, ManyChatError::NotStarted { .. }) {
        Next::GiveBack
    } else if error.class() == Class::Final || left.is_zero() {
        Next::GiveUp
    } else {
        Next::Again(delay(attempt, error.retry_after(), random_share()).min(left))
    }
}

/// The row was given back.
pub(super) const fn given_back(written: &Result<Held, StoreError>) -> Ended {
    match written {
        Ok(Held::Yes) => Ended::Released,
        _ => Ended::Lost,
    }
}

/// A row as the log names it.
pub(super) struct Named {
    /// Its id; the only thing of it that tells rows apart.
    pub(super) id: Uuid,
    /// What it holds.
    pub(super) kind: &'static str,
    /// The attempts so far, the last one included.
    pub(super) attempts: i32,
}

impl Named {
    /// Another attempt was written down, unless the row was lost.
    pub(super) fn retrying(&self, held: Held, error: &str) -> Ended {
        if held == Held::Lost {
            return Ended::Lost;
        }
        let Self { id, kind, attempts } = self;
        tracing::warn!(outboxId = %id, kind, attempts, err = error, "outbox delivery retrying");
        Ended::Retrying
    }

    /// That there is none was written down, unless the row was lost. `out`: how many texts of how many are out.
    pub(super) fn dead_lettered(&self, held: Held, error: &str, out: Option<(usize, usize)>) -> Ended {
        if held == Held::Lost {
            return Ended::Lost;
        }
        let Self { id, kind, attempts } = self;
        let (sent, texts) = out.unzip();
        tracing::error!(outboxId = %id, kind, attempts, sent, texts, err = error, "outbox dead-lettered");
        Ended::DeadLettered
    }
}

/// Writes what must not be forgotten about a claim.
pub(super) async fn record<F: Future<Output = Result<Held, StoreError>>>(write: impl Fn() -> F) -> Held {
    until_written(write).await.unwrap_or(Held::Lost)
}

/// Writes again and again while the database does not answer; `None` when it never did.
pub(super) async fn until_written<T, F: Future<Output = Result<T, StoreError>>>(
    write: impl Fn() -> F,
) -> Option<T> {
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
    use crate::manychat::{Endpoint, LostBy, Unstarted};

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

    /// DEC-31, WRK-11: what was not attempted is given back whatever its age; an old row is given up after a failure that may
    /// pass, a young one is tried again.
    #[test]
    fn the_kind_of_failure_and_the_age_say_what_follows() {
        let not_started = ManyChatError::NotStarted { reason: Unstarted::Stopped };
        let lost =
            ManyChatError::Connection { endpoint: Endpoint::SendFlow, reason: LostBy::Timeout, sent: true };
        assert_eq!(next(&not_started, 1, Duration::ZERO), Next::GiveBack);
        assert_eq!(next(&lost, 1, Duration::ZERO), Next::GiveUp);
        let minute = Duration::from_secs(60);
        assert!(matches!(next(&lost, 1, minute), Next::Again(pause) if pause >= Duration::from_millis(1800)));
        let asks_for_an_hour = ManyChatError::Api {
            endpoint: Endpoint::SendFlow,
            status: 503,
            code: None,
            said: crate::manychat::Said::default(),
            retry_after: Some(Duration::from_secs(3600)),
        };
        assert_eq!(
            next(&asks_for_an_hour, 1, minute),
            Next::Again(minute),
            "the window's end calls a person"
        );
        assert_eq!(given_back(&Err(StoreError::InDoubt)), Ended::Lost, "the lease ends it");
    }

    /// ARC-47: an order that waits longer than its lease keeps the claim; one whose row was taken over is withdrawn.
    #[tokio::test(start_paused = true)]
    async fn a_claim_is_kept_while_its_order_waits() {
        let lease = Duration::from_secs(30);
        let renewed = Cell::new(0);
        let waits = async {
            tokio::time::sleep(lease * 3).await;
            Ok(())
        };
        let kept = while_held(lease, waits, || async {
            renewed.set(renewed.get() + 1);
            Ok(Held::Yes)
        });
        assert!(matches!(kept.await, Called::Accepted));
        assert!(renewed.get() >= 8, "{}", renewed.get());
        let never = std::future::pending::<Result<(), ManyChatError>>();
        assert!(matches!(while_held(lease, never, || async { Ok(Held::Lost) }).await, Called::Lost));
    }
}
