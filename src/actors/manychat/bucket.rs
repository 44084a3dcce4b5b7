//! A token bucket as a generic cell rate: one moment in time instead of a level, exact and free of drift
//! (BUCKET-1 to BUCKET-3). The database keeps the shared one by the same arithmetic (ARC-48).

use std::num::NonZeroU32;
use std::time::{Duration, Instant};

use crate::store::rate::RateLimit;

/// How often calls may start. Built here only, so the interval is never zero and the burst at least 1 (BUCKET-7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rate {
    interval: Duration,
    burst: u32,
}

/// A bucket of tokens; each call takes one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bucket {
    rate: Rate,
    /// When the bucket would be full again; in the past when it is full.
    full_at: Instant,
    /// The end of the longest pause; no rate and no token that is put back brings it nearer.
    paused_until: Instant,
}

impl Rate {
    /// ManyChat's: 10 a second, 5 at once (API-4).
    #[cfg(test)]
    pub(super) const MANYCHAT: Self = Self { interval: Duration::from_millis(100), burst: 5 };

    /// So many in the long run, 5 at once.
    pub(super) fn per_second(calls: NonZeroU32) -> Self {
        let RateLimit { interval, burst } = RateLimit::per_second(calls);
        Self { interval, burst }
    }

    /// What is left for one of `processes` when they cannot agree: an equal share, without a burst (ARC-48).
    pub(super) fn share(self, processes: u32) -> Self {
        Self { interval: self.interval * processes.max(1), burst: 1 }
    }

    /// What may be missing from a full bucket while there is still a token in it.
    fn slack(self) -> Duration {
        self.interval * self.burst.saturating_sub(1)
    }
}

impl Bucket {
    /// A full bucket.
    pub(super) const fn full(rate: Rate, now: Instant) -> Self {
        Self { rate, full_at: now, paused_until: now }
    }

    /// An empty one.
    pub(super) fn empty(rate: Rate, now: Instant) -> Self {
        Self { rate, full_at: now + rate.interval * rate.burst, paused_until: now }
    }

    /// How long until there is a token; zero when there is one.
    pub(super) fn wait(&self, now: Instant) -> Duration {
        let token = self.full_at.saturating_duration_since(now).saturating_sub(self.rate.slack());
        token.max(self.paused_until.saturating_duration_since(now))
    }

    /// Takes a token. False, and nothing taken, when there is none.
    pub(super) fn take(&mut self, now: Instant) -> bool {
        let free = self.wait(now).is_zero();
        if free {
            self.full_at = self.full_at.max(now) + self.rate.interval;
        }
        free
    }

    /// Puts a token back that was taken for a call that did not start.
    pub(super) fn put_back(&mut self) {
        self.full_at = self.full_at.checked_sub(self.rate.interval).unwrap_or(self.full_at);
    }

    /// No token before `until`, and only one then.
    pub(super) fn pause(&mut self, until: Instant) {
        self.full_at = self.full_at.max(until + self.rate.slack());
        self.paused_until = self.paused_until.max(until);
    }

    /// The end of the longest pause so far, over or not.
    pub(super) const fn paused_until(&self) -> Instant {
        self.paused_until
    }

    /// Goes on at another rate with what is missing now.
    pub(super) const fn set_rate(&mut self, rate: Rate) {
        self.rate = rate;
    }

    /// Tokens in it, for observation; negative while it pauses.
    pub(super) fn level(&self, now: Instant) -> f64 {
        let missing = self.full_at.saturating_duration_since(now).as_secs_f64();
        f64::from(self.rate.burst) - missing / self.rate.interval.as_secs_f64()
    }
}

#[cfg(test)]
#[path = "bucket_tests.rs"]
mod tests;
