//! The breaker of one model: after [`MOST_FAILURES`] failures in a row its calls are refused at once for
//! [`OPEN_FOR`], so that no contact waits for a provider that is down (DEC-27). A pure state machine: time comes in.

use std::time::Duration;

use tokio::time::Instant;

use super::port::ModelError;

/// Failures in a row that open the breaker (DEC-27).
pub(super) const MOST_FAILURES: u32 = 5;
/// How long it stays open (DEC-27).
pub(super) const OPEN_FOR: Duration = Duration::from_secs(30);

/// What a finished call says about its provider.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Verdict {
    /// It answered, be it with a refusal of this one request.
    Works,
    /// It failed, and not because of the request.
    Failed(ModelError),
}

/// Counts failures in a row; closed at first.
#[derive(Debug, Default)]
pub(super) struct Breaker {
    failures: u32,
    open: Option<Open>,
}

#[derive(Debug)]
struct Open {
    until: Instant,
    because: ModelError,
}

impl Breaker {
    /// Whether a call may begin. When the time is over all may; the first that fails opens the breaker again.
    ///
    /// # Errors
    /// While open: the failure that opened it, for the record of the refused turn.
    pub(super) fn admit(&mut self, now: Instant) -> Result<(), ModelError> {
        self.open.take_if(|open| open.until <= now);
        match &self.open {
            Some(open) => Err(open.because.clone()),
            None => Ok(()),
        }
    }

    /// Takes a verdict; true when it opened the breaker. Calls that began before count like any other, but do not
    /// prolong the time.
    pub(super) fn record(&mut self, verdict: Verdict, now: Instant) -> bool {
        match verdict {
            Verdict::Works => {
                *self = Self::default();
                false
            }
            Verdict::Failed(because) => {
                self.failures = self.failures.saturating_add(1);
                let opens = self.failures >= MOST_FAILURES && self.open.is_none();
                if opens {
                    self.open = Some(Open { until: now + OPEN_FOR, because });
                }
                opens
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed() -> Verdict {
        Verdict::Failed(ModelError::Status(503))
    }

    fn opened(now: Instant) -> Breaker {
        let mut breaker = Breaker::default();
        for failure in 1..=MOST_FAILURES {
            assert!(breaker.admit(now).is_ok());
            assert_eq!(breaker.record(failed(), now), failure == MOST_FAILURES);
        }
        breaker
    }

    /// DEC-27: five in a row open it for 30 s, and a refused call is told why.
    #[test]
    fn five_failures_in_a_row_open_it_for_thirty_seconds() {
        let now = Instant::now();
        let mut breaker = opened(now);
        let last_moment = now + Duration::from_millis(29_999);
        assert_eq!(breaker.admit(last_moment), Err(ModelError::Status(503)));
        assert_eq!(breaker.admit(now + Duration::from_secs(30)), Ok(()));
    }

    /// DEC-27: "in a row": an answer in between starts the count anew.
    #[test]
    fn an_answer_in_between_starts_the_count_anew() {
        let now = Instant::now();
        let mut breaker = Breaker::default();
        for _ in 0..3 {
            for _ in 1..MOST_FAILURES {
                assert!(!breaker.record(failed(), now));
            }
            breaker.record(Verdict::Works, now);
        }
        assert_eq!(breaker.admit(now), Ok(()));
    }

    /// DEC-27: a provider that is still down is left alone again after one more failure.
    #[test]
    fn the_first_failure_afterwards_opens_it_again() {
        let now = Instant::now();
        let mut breaker = opened(now);
        let later = now + OPEN_FOR;
        assert_eq!(breaker.admit(later), Ok(()));
        assert!(breaker.record(Verdict::Failed(ModelError::Unreachable), later));
        assert_eq!(breaker.admit(later), Err(ModelError::Unreachable));
    }

    /// DEC-27: late failures do not prolong the time, a late answer ends it.
    #[test]
    fn calls_that_end_while_it_is_open_are_heard() {
        let now = Instant::now();
        let mut breaker = opened(now);
        let during = now + Duration::from_secs(20);
        assert!(!breaker.record(failed(), during));
        assert_eq!(breaker.admit(now + OPEN_FOR), Ok(()));
        let mut breaker = opened(now);
        breaker.record(Verdict::Works, during);
        assert_eq!(breaker.admit(during), Ok(()));
    }
}
