//! Retries of transient failures, inside whatever time the caller gives (RUN-16).

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use tokio::time::Instant;

use super::failure::Failure;
use crate::model::slots::Place;

/// Retries after the first attempt (RUN-16).
const MOST_RETRIES: u32 = 2;

/// How long to wait before a retry.
#[derive(Clone, Copy, Debug)]
pub(super) struct Backoff {
    /// Before the first retry; each further one waits twice as long.
    pub(super) first: Duration,
    /// A provider that asks for more is not waited for: its failure stands. Only where the caller sets no bound.
    pub(super) longest: Duration,
}

impl Default for Backoff {
    /// Two retries cost a second and a half, which leaves most of the deadline to the answer.
    fn default() -> Self {
        Self { first: Duration::from_millis(500), longest: Duration::from_secs(5) }
    }
}

impl Backoff {
    /// Calls `attempt` until it succeeds, fails for good, or has been retried twice. No retry begins later than `within`
    /// after the beginning: a provider that asks for a longer wait gets none, since the caller would not see its end.
    /// While it waits, somebody else may have its `place` (DEC-27); none within the bound is the end of it. Dropping the future ends it at once, also while it waits (RUN-13).
    ///
    /// # Errors
    /// The last attempt's.
    pub(super) async fn run<T, Attempt>(
        self,
        within: Option<Duration>,
        place: &Place,
        mut attempt: impl FnMut() -> Attempt,
    ) -> Result<T, Failure>
    where
        Attempt: Future<Output = Result<T, Failure>>,
    {
        let mut retries = 0;
        let begun = Instant::now();
        loop {
            let failure = match attempt().await {
                Ok(answer) => return Ok(answer),
                Err(failure) => failure,
            };
            let left = within.map(|within| within.saturating_sub(begun.elapsed()));
            let pause = self.pause(retries, &failure, jitter());
            let Some(pause) = pause.filter(|pause| *pause <= left.unwrap_or(self.longest)) else {
                return Err(failure);
            };
            if !place.pause(pause, left).await {
                return Err(failure);
            }
            retries += 1;
        }
    }

    /// The wait before the next retry, as long as the provider asks for; `None` when there is none. `jitter` is 0 to 1.
    fn pause(&self, retries: u32, failure: &Failure, jitter: f64) -> Option<Duration> {
        if !failure.is_transient || retries >= MOST_RETRIES {
            return None;
        }
        let backoff = self.first.saturating_mul(1 << retries).mul_f64(1.0 + jitter / 4.0);
        Some(failure.retry_after.map_or(backoff, |asked| asked.max(backoff)))
    }
}

/// 0 to 1, so that calls that failed together are not repeated together.
fn jitter() -> f64 {
    let random = RandomState::new().hash_one(());
    f64::from(u32::try_from(random >> 32).unwrap_or_default()) / f64::from(u32::MAX)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use proptest::prelude::{Strategy, proptest};

    use super::*;

    fn overloaded(retry_after: Option<Duration>) -> Failure {
        Failure { retry_after, ..Failure::of_status(503) }
    }

    /// Attempts and seconds of a call whose every attempt fails with `failure`.
    async fn exhausted(failure: Failure) -> (u32, Duration) {
        exhausted_within(None, failure).await
    }

    async fn exhausted_within(within: Option<Duration>, failure: Failure) -> (u32, Duration) {
        let attempts = Cell::new(0);
        let begun = Instant::now();
        let outcome: Result<(), Failure> = Backoff::default()
            .run(within, &Place::default(), || {
                attempts.set(attempts.get() + 1);
                std::future::ready(Err(failure.clone()))
            })
            .await;
        assert_eq!(outcome, Err(failure));
        (attempts.get(), begun.elapsed())
    }

    /// 01/RUN-16: at most two retries, with a wait that doubles and varies by up to a quarter.
    #[tokio::test(start_paused = true)]
    async fn a_transient_failure_is_retried_twice() {
        for code in [408, 409, 429, 500, 503, 529] {
            let (attempts, took) = exhausted(Failure::of_status(code)).await;
            assert_eq!(attempts, 3, "{code}");
            assert!((1500..=1880).contains(&took.as_millis()), "{code}: {took:?}");
        }
    }

    /// 01/RUN-16: other statuses of 4xx are not retried.
    #[tokio::test(start_paused = true)]
    async fn a_refusal_is_not_retried() {
        for code in [400, 401, 403, 404, 413, 422] {
            assert_eq!(exhausted(Failure::of_status(code)).await, (1, Duration::ZERO), "{code}");
        }
    }

    /// 01/RUN-16: the attempt after the failure counts.
    #[tokio::test(start_paused = true)]
    async fn the_answer_after_a_failure_is_the_answer() {
        let attempts = Cell::new(0);
        let outcome = Backoff::default()
            .run(None, &Place::default(), || {
                attempts.set(attempts.get() + 1);
                let fails = attempts.get() < 3;
                std::future::ready(if fails { Err(overloaded(None)) } else { Ok("answer") })
            })
            .await;
        assert_eq!((outcome, attempts.get()), (Ok("answer"), 3));
    }

    /// 01/RUN-16: a short wait that the provider asks for is kept; a long one is left to the fallback model.
    #[tokio::test(start_paused = true)]
    async fn a_provider_is_waited_for_when_it_asks_for_little() {
        let (attempts, took) = exhausted(overloaded(Some(Duration::from_secs(3)))).await;
        assert_eq!((attempts, took.as_secs()), (3, 6));
        let (attempts, took) = exhausted(overloaded(Some(Duration::from_secs(6)))).await;
        assert_eq!((attempts, took), (1, Duration::ZERO));
    }

    /// 01/RUN-16: a wait that the provider asks for is kept as long as the caller sees its end, and not begun otherwise.
    #[tokio::test(start_paused = true)]
    async fn a_wait_ends_within_the_callers_bound() {
        let asked = |seconds| overloaded(Some(Duration::from_secs(seconds)));
        let within = Some(Duration::from_secs(30));
        assert_eq!(exhausted_within(within, asked(12)).await, (3, Duration::from_secs(24)));
        assert_eq!(exhausted_within(within, asked(20)).await, (2, Duration::from_secs(20)));
        assert_eq!(exhausted_within(within, asked(31)).await, (1, Duration::ZERO));
        let (attempts, _) = exhausted_within(Some(Duration::from_millis(700)), overloaded(None)).await;
        assert_eq!(attempts, 2, "the second wait would be a second");
    }

    /// 01/RUN-13: the caller's abort ends a wait.
    #[tokio::test(start_paused = true)]
    async fn an_abort_ends_the_wait() {
        let attempts = Cell::new(0);
        let place = Place::default();
        let call = Backoff::default().run(None, &place, || {
            attempts.set(attempts.get() + 1);
            std::future::ready(Err::<(), _>(overloaded(None)))
        });
        assert!(tokio::time::timeout(Duration::from_millis(100), call).await.is_err());
        assert_eq!(attempts.get(), 1);
    }

    proptest! {
        /// 01/RUN-16: no wait is shorter than the backoff, none shorter than asked for.
        #[test]
        fn waits_stay_within_their_bounds(
            retries in 0_u32..5,
            asked in proptest::option::of((0_u64..20_000).prop_map(Duration::from_millis)),
            jitter in 0.0..=1.0,
        ) {
            let backoff = Backoff::default();
            if let Some(pause) = backoff.pause(retries, &overloaded(asked), jitter) {
                assert!(retries < MOST_RETRIES);
                assert!(pause >= backoff.first);
                assert!(pause >= asked.unwrap_or_default());
            }
        }
    }
}
