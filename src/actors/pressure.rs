//! How late the shared runtime runs what is due: the signal of overload (SHED-1, DEC-35).

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use tokio::runtime::Handle;

use crate::domain::millis;
use crate::telemetry::crash_points;

/// How often the ticker wants to run.
const TICK: Duration = Duration::from_millis(500);
/// Lag above which new requests are refused.
const MOST_LAG: Duration = Duration::from_secs(1);

/// Why the process cannot take another request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overload {
    /// Work that is due waits for more than a second.
    SchedulingLag,
    /// As many messages are accepted and not answered as the directory takes.
    OpenTurns,
}

impl Overload {
    /// The words of the log line.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::SchedulingLag => "scheduling lag",
            Self::OpenTurns => "open turns",
        }
    }
}

/// The lag of a runtime, written by a ticker on it and read from anywhere.
pub struct Pressure {
    origin: Instant,
    /// When the next tick is due, in milliseconds since `origin`.
    due: AtomicU64,
    /// How late the last tick was, in milliseconds.
    late: AtomicU64,
}

impl Pressure {
    /// Starts the ticker; it ends when the last handle is gone.
    #[must_use]
    pub(super) fn start(io: &Handle) -> Arc<Self> {
        let pressure = Arc::new(Self::new(Instant::now()));
        io.spawn(tick(Arc::downgrade(&pressure)));
        pressure
    }

    fn new(origin: Instant) -> Self {
        Self { origin, due: AtomicU64::new(millis(TICK)), late: AtomicU64::new(0) }
    }

    /// How late work is now: as late as the last tick, or as the one that should have come by now.
    #[must_use]
    pub fn lag(&self, now: Instant) -> Duration {
        let missing = self.at(now).saturating_sub(self.due.load(Ordering::Acquire));
        Duration::from_millis(missing.max(self.late.load(Ordering::Acquire)))
    }

    /// Whether work is so late that new requests must be refused.
    #[must_use]
    pub fn is_too_high(&self, now: Instant) -> bool {
        self.lag(now) > crash_points::lag_allowed(MOST_LAG)
    }

    /// A tick has come; returns how long to wait for the next.
    fn ticked(&self, now: Instant) -> Duration {
        let now = self.at(now);
        self.late.store(now.saturating_sub(self.due.load(Ordering::Acquire)), Ordering::Release);
        self.due.store(now + millis(TICK), Ordering::Release);
        TICK
    }

    fn at(&self, now: Instant) -> u64 {
        millis(now.saturating_duration_since(self.origin))
    }
}

async fn tick(pressure: Weak<Pressure>) {
    while let Some(pause) = pressure.upgrade().map(|pressure| pressure.ticked(Instant::now())) {
        tokio::time::sleep(pause).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// SHED-1: a tick that is missing counts at once, one that came late until the next is on time.
    #[test]
    fn lag_shows_while_a_tick_is_missing_and_until_the_next_is_on_time() {
        let start = Instant::now();
        let at = |millis: u64| start + Duration::from_millis(millis);
        let pressure = Pressure::new(start);
        assert!(!pressure.is_too_high(at(1500)), "due at 500, a second late at most");
        assert!(pressure.is_too_high(at(1501)));
        assert_eq!(pressure.ticked(at(2000)), TICK);
        assert_eq!(pressure.lag(at(2100)), Duration::from_millis(1500), "the tick was late");
        assert!(pressure.is_too_high(at(2100)));
        pressure.ticked(at(2510));
        assert_eq!(pressure.lag(at(2600)), Duration::from_millis(10));
        assert!(!pressure.is_too_high(at(2600)));
    }

    /// SHED-1: a blocked runtime shows from outside, and recovers.
    #[test]
    fn a_blocked_runtime_shows_from_another_thread() {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let pressure = Pressure::start(runtime.handle());
        let (unblock, blocked) = std::sync::mpsc::channel::<()>();
        runtime.spawn(async move { blocked.recv() });
        let until = Instant::now() + Duration::from_secs(30);
        while !pressure.is_too_high(Instant::now()) {
            assert!(Instant::now() < until, "the lag never shows");
            std::thread::yield_now();
        }
        drop(unblock);
        while pressure.is_too_high(Instant::now()) {
            assert!(Instant::now() < until, "the lag never ends");
            std::thread::yield_now();
        }
    }
}
