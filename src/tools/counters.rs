//! How often each tool did what, for whoever watches the service (LIM-13). Since the process began; no contact in it.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use serde::Serialize;

use super::record::{Entry, Status};
use crate::domain::millis;

/// The counters of this process.
pub static COUNTERS: Counters = Counters::new();

/// Names that a count can begin with; anything else is counted as `other`, so that no text from outside makes a name.
const TOOLS: [&str; 8] = [
    "send_flow",
    "add_tag",
    "remove_tag",
    "set_field",
    "write_note",
    "schedule_nudge",
    "send_event",
    "get_contact",
];

/// Counts by tool and by what came of a call.
#[derive(Debug)]
pub struct Counters(Mutex<Counted>);

#[derive(Debug)]
struct Counted {
    calls: BTreeMap<(&'static str, &'static str), u64>,
    took: BTreeMap<&'static str, Duration>,
    held: Option<Duration>,
}

/// One line of the counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Count {
    /// Name of the tool, `turn` for what is counted once a turn.
    pub tool: &'static str,
    /// A status of the record (REC-4); why a call was refused, such as `not_prospect`; `taken_ms` for the milliseconds that
    /// requests took together, `held_ms` for those that replies waited for flows.
    pub what: &'static str,
    /// How often, or how many milliseconds.
    pub count: u64,
}

impl Counters {
    const fn new() -> Self {
        Self(Mutex::new(Counted { calls: BTreeMap::new(), took: BTreeMap::new(), held: None }))
    }

    /// Counts an entry of a record, once for each status it takes: `staged` when the turn ends, then what became of it.
    pub fn entry(&self, entry: &Entry) {
        self.one(named(&entry.tool), entry.status.as_str());
        if entry.contact_asked && entry.status == Status::Performed {
            self.one(named(&entry.tool), "contact_asked");
        }
    }

    pub(super) fn one(&self, tool: &'static str, what: &'static str) {
        *self.counted().calls.entry((tool, what)).or_default() += 1;
    }

    /// Counts how long a reply was held for a flow (WAIT-2).
    pub fn held(&self, time: Duration) {
        *self.counted().held.get_or_insert_default() += time;
    }

    pub(super) fn took(&self, tool: &'static str, time: Duration) {
        *self.counted().took.entry(tool).or_default() += time;
    }

    /// All counts so far, by tool and kind.
    #[must_use]
    pub fn report(&self) -> Vec<Count> {
        let counted = self.counted();
        let calls = counted.calls.iter().map(|((tool, what), count)| Count { tool, what, count: *count });
        let time = |tool, what, time: Duration| Count { tool, what, count: millis(time) };
        let took = counted.took.iter().map(|(tool, taken)| time(tool, "taken_ms", *taken));
        let held = counted.held.map(|held| time("turn", "held_ms", held));
        calls.chain(took).chain(held).collect()
    }

    fn counted(&self) -> std::sync::MutexGuard<'_, Counted> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(super) fn named(tool: &str) -> &'static str {
    TOOLS.iter().find(|known| **known == tool).copied().unwrap_or("other")
}

#[cfg(test)]
mod tests {
    use super::super::action::Action;
    use super::*;

    /// LIM-13: statuses, the bypass of the link's gate and the time of requests; no name from outside.
    #[test]
    fn entries_are_counted_by_tool_and_status() {
        let counters = Counters::new();
        let link = Action::SendFlow {
            id: "pay_page".to_owned(),
            flow_ns: "ns".to_owned(),
            follow_on: None,
            contact_asked: true,
            origin: None,
        };
        counters.entry(&link.entry(Status::Performed, None));
        counters.entry(&link.entry(Status::Failed, None));
        counters.entry(&Entry { tool: "made up".to_owned(), ..link.entry(Status::Staged, None) });
        counters.took("send_flow", Duration::from_millis(40));
        counters.held(Duration::from_secs(2));
        counters.held(Duration::from_millis(500));
        let lines = counters.report();
        let lines: Vec<_> = lines.iter().map(|line| (line.tool, line.what, line.count)).collect();
        assert_eq!(
            lines,
            [
                ("other", "staged", 1),
                ("send_flow", "contact_asked", 1),
                ("send_flow", "failed", 1),
                ("send_flow", "performed", 1),
                ("send_flow", "taken_ms", 40),
                ("turn", "held_ms", 2500),
            ]
        );
    }
}
