//! A line that would be repeated every second during an outage, now and then.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Least time between two lines of one kind.
const PAUSE: Duration = Duration::from_secs(5);

/// One kind of line: `static TOLD: Seldom = Seldom::new();` beside the statement, then `if TOLD.now() { … }`.
#[derive(Debug)]
pub struct Seldom(Mutex<Option<Instant>>);

impl Seldom {
    /// Nothing told yet.
    #[must_use]
    pub const fn new() -> Self {
        Self(Mutex::new(None))
    }

    /// Whether the line may be written now: at most once in five seconds of this process.
    #[must_use]
    pub fn now(&self) -> bool {
        self.at(Instant::now())
    }

    fn at(&self, now: Instant) -> bool {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let due = last.is_none_or(|last| now.saturating_duration_since(last) >= PAUSE);
        if due {
            *last = Some(now);
        }
        due
    }
}

impl Default for Seldom {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// LOG-1: an outage of a minute is a dozen lines of a kind, not sixty.
    #[test]
    fn a_kind_of_line_is_written_at_most_once_in_five_seconds() {
        let (told, start) = (Seldom::new(), Instant::now());
        let written = (0..60).filter(|second| told.at(start + Duration::from_secs(*second))).count();
        assert_eq!(written, 12);
    }
}
