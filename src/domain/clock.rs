//! Business time as a parameter (ARC-50, ARC-61) and the deadline of a request.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use jiff::Timestamp;

/// A time in whole milliseconds, as reports and log lines give it; the largest number for one that is too long.
#[must_use]
pub fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Where business time comes from: windows, gaps and hours are computed from it, never lanes, beats or claims,
/// which use the database's clock (ARC-50).
pub trait Clock: Send + Sync + 'static {
    /// Now, to the microsecond (Postgres keeps no more).
    fn now(&self) -> Timestamp;
}

/// The machine's clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        to_micros(Timestamp::now())
    }
}

/// A clock that tests move by hand.
#[derive(Debug)]
pub struct TestClock(Mutex<Timestamp>);

impl TestClock {
    /// A clock that stands at `start`.
    #[must_use]
    pub fn at(start: Timestamp) -> Self {
        Self(Mutex::new(to_micros(start)))
    }

    /// Moves the clock forward.
    pub fn advance(&self, by: Duration) {
        let mut now = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        *now = now.checked_add(by).unwrap_or(*now);
    }
}

impl Clock for TestClock {
    fn now(&self) -> Timestamp {
        *self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

fn to_micros(at: Timestamp) -> Timestamp {
    Timestamp::from_microsecond(at.as_microsecond()).unwrap_or(at)
}

/// The moment by which a request must have been answered, fixed at its arrival (TURN, RACE-2).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Deadline {
    at: Instant,
    reserve: Duration,
}

impl Deadline {
    /// `arrival + race_deadline`. The reserve is the smaller of 300 ms and a tenth of it (DEC-21).
    #[must_use]
    pub fn after(arrival: Instant, race_deadline: Duration) -> Self {
        let reserve = Duration::from_millis(300).min(race_deadline / 10);
        Self { at: arrival + race_deadline, reserve }
    }

    /// When the deadline timer fires.
    #[must_use]
    pub const fn at(&self) -> Instant {
        self.at
    }

    /// What an await on the request path may take at most: the rest of the deadline minus the reserve (ARC-31).
    #[must_use]
    pub fn budget(&self) -> Duration {
        self.at.saturating_duration_since(Instant::now()).saturating_sub(self.reserve)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// DEC-21, ARC-31
    #[test]
    fn the_reserve_is_a_tenth_of_a_short_deadline_and_300_ms_of_a_long_one() {
        let now = Instant::now() + Duration::from_secs(60);
        let short = Deadline::after(now, Duration::from_millis(1000));
        let long = Deadline::after(now, Duration::from_secs(8));
        assert_eq!(short.reserve, Duration::from_millis(100));
        assert_eq!(long.reserve, Duration::from_millis(300));
        let past = Deadline::after(Instant::now() - Duration::from_secs(9), Duration::from_secs(8));
        assert_eq!(past.budget(), Duration::ZERO);
    }

    /// ARC-61
    #[test]
    fn the_test_clock_moves_only_by_hand() {
        let clock = TestClock::at(Timestamp::UNIX_EPOCH);
        clock.advance(Duration::from_secs(90));
        assert_eq!(clock.now().as_second(), 90);
    }
}
