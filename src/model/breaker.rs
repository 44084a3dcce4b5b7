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

/// Under what condition a call was let through.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Admission {
    /// Like any other.
    Ordinary,
    /// The one call that finds out whether a provider that failed works again.
    Probe,
}

/// What a verdict has changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Change {
    /// Nothing that anybody must know.
    None,
    /// Calls are refused from now on.
    Opened,
    /// Calls are made again.
    Closed,
}

/// Counts failures in a row; closed at first.
#[derive(Debug, Default)]
pub(super) struct Breaker {
    failures: u32,
    state: State,
}

#[derive(Debug, Default)]
enum State {
    #[default]
    Closed,
    /// Refuses; when the time is over, the next call is the probe.
    Open { until: Instant, because: ModelError },
    /// Refuses all but the one call that is under way.
    Probing { because: ModelError },
}

impl Breaker {
    /// Whether a call may begin. When the time is over, one may: the others go on being refused until it has ended.
    ///
    /// # Errors
    /// While refused: the failure that opened it, for the record of the refused turn.
    pub(super) fn admit(&mut self, now: Instant) -> Result<Admission, ModelError> {
        match &self.state {
            State::Closed => Ok(Admission::Ordinary),
            State::Open { until, because } if *until <= now => {
                self.state = State::Probing { because: because.clone() };
                Ok(Admission::Probe)
            }
            State::Open { because, .. } | State::Probing { because } => Err(because.clone()),
        }
    }

    /// Takes the verdict of a call. An answer closes the breaker, whoever got it. A failure of a call that began before
    /// the breaker opened changes nothing: neither does it prolong the time nor end the probe.
    pub(super) fn record(&mut self, admission: Admission, verdict: Verdict, now: Instant) -> Change {
        let because = match verdict {
            Verdict::Works => {
                let was_closed = matches!(self.state, State::Closed);
                *self = Self::default();
                return if was_closed { Change::None } else { Change::Closed };
            }
            Verdict::Failed(because) => because,
        };
        self.failures = self.failures.saturating_add(1);
        let opens = match self.state {
            State::Closed => self.failures >= MOST_FAILURES,
            State::Probing { .. } => admission == Admission::Probe,
            State::Open { .. } => false,
        };
        if !opens {
            return Change::None;
        }
        self.state = State::Open { until: now + OPEN_FOR, because };
        Change::Opened
    }

    /// A call was given up before it could say anything of its provider: if it was the probe, the next call is.
    pub(super) fn give_back(&mut self, admission: Admission, now: Instant) {
        if let (Admission::Probe, State::Probing { because }) = (admission, &self.state) {
            self.state = State::Open { until: now, because: because.clone() };
        }
    }

    /// Its state in a word, and the failures in a row.
    pub(super) fn look(&self, now: Instant) -> (&'static str, u32) {
        let word = match &self.state {
            State::Closed => "closed",
            State::Open { until, .. } if *until <= now => "probing",
            State::Open { .. } => "open",
            State::Probing { .. } => "probing",
        };
        (word, self.failures)
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
            let admission = breaker.admit(now).unwrap();
            let change = breaker.record(admission, failed(), now);
            assert_eq!(change == Change::Opened, failure == MOST_FAILURES);
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
        assert_eq!(breaker.admit(now + OPEN_FOR), Ok(Admission::Probe));
    }

    /// DEC-27: "in a row": an answer in between starts the count anew.
    #[test]
    fn an_answer_in_between_starts_the_count_anew() {
        let now = Instant::now();
        let mut breaker = Breaker::default();
        for _ in 0..3 {
            for _ in 1..MOST_FAILURES {
                assert_eq!(breaker.record(Admission::Ordinary, failed(), now), Change::None);
            }
            assert_eq!(breaker.record(Admission::Ordinary, Verdict::Works, now), Change::None);
        }
        assert_eq!(breaker.admit(now), Ok(Admission::Ordinary));
    }

    /// DEC-27: one call finds out whether the provider works again; the others do not wait for it.
    #[test]
    fn one_call_probes_the_provider() {
        let now = Instant::now();
        let later = now + OPEN_FOR;
        let mut breaker = opened(now);
        assert_eq!(breaker.admit(later), Ok(Admission::Probe));
        for _ in 0..3 {
            assert_eq!(breaker.admit(later), Err(ModelError::Status(503)));
        }
        assert_eq!(breaker.record(Admission::Probe, Verdict::Works, later), Change::Closed);
        assert_eq!(breaker.admit(later), Ok(Admission::Ordinary));
        assert_eq!(breaker.look(later), ("closed", 0));
    }

    /// DEC-27: a provider that is still down is left alone for another 30 s.
    #[test]
    fn a_probe_that_fails_opens_it_again() {
        let now = Instant::now();
        let mut breaker = opened(now);
        let later = now + OPEN_FOR;
        assert_eq!(breaker.admit(later), Ok(Admission::Probe));
        let still_down = Verdict::Failed(ModelError::Unreachable);
        assert_eq!(breaker.record(Admission::Probe, still_down, later), Change::Opened);
        assert_eq!(breaker.admit(later + OPEN_FOR / 2), Err(ModelError::Unreachable));
        assert_eq!(breaker.admit(later + OPEN_FOR), Ok(Admission::Probe));
    }

    /// DEC-27: a probe that was given up says nothing; the next call is the probe, at once.
    #[test]
    fn a_probe_that_was_given_up_is_followed_by_another() {
        let now = Instant::now();
        let mut breaker = opened(now);
        let later = now + OPEN_FOR;
        assert_eq!(breaker.admit(later), Ok(Admission::Probe));
        breaker.give_back(Admission::Ordinary, later);
        assert!(breaker.admit(later).is_err(), "somebody else's call is not the probe");
        breaker.give_back(Admission::Probe, later);
        assert_eq!(breaker.admit(later), Ok(Admission::Probe));
    }

    /// DEC-27: late failures neither prolong the time nor end the probe; a late answer closes it.
    #[test]
    fn calls_that_end_while_it_is_open_are_heard() {
        let now = Instant::now();
        let mut breaker = opened(now);
        let during = now + Duration::from_secs(20);
        assert_eq!(breaker.record(Admission::Ordinary, failed(), during), Change::None);
        assert_eq!(breaker.admit(now + OPEN_FOR), Ok(Admission::Probe));
        assert_eq!(breaker.record(Admission::Ordinary, failed(), now + OPEN_FOR), Change::None);
        assert!(breaker.admit(now + OPEN_FOR).is_err(), "the probe is still under way");
        let mut breaker = opened(now);
        assert_eq!(breaker.look(during), ("open", MOST_FAILURES));
        assert_eq!(breaker.record(Admission::Ordinary, Verdict::Works, during), Change::Closed);
        assert_eq!(breaker.admit(during), Ok(Admission::Ordinary));
    }
}
