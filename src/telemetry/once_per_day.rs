//! A line that is worth reading once a day.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use jiff::civil::Date;

/// Remembers on which day each thing was said last. One for a process: two processes say it twice.
#[derive(Debug, Default)]
pub struct OncePerDay(Mutex<HashMap<&'static str, Date>>);

impl OncePerDay {
    /// Whether `what` has not been said on `day` yet; from now on it has.
    pub fn is_first(&self, what: &'static str, day: Date) -> bool {
        let mut said = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        said.insert(what, day) != Some(day)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 02 section 14: each thing once a day, and again on the next.
    #[test]
    fn a_thing_is_said_once_a_day() {
        let said = OncePerDay::default();
        let days = ["2026-03-01", "2026-03-02"].map(|day| day.parse::<Date>().unwrap());
        let [first, second] = days;
        assert!(said.is_first("tokens", first) && said.is_first("cost", first));
        assert!(!said.is_first("tokens", first) && !said.is_first("cost", first));
        assert!(said.is_first("tokens", second) && !said.is_first("tokens", second));
    }
}
