//! Messages refused because of their secret, counted for the log: a rotated secret would otherwise silence every contact
//! and leave no trace. A line a minute, whatever comes, and no address (LOG-3).

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::runtime::Handle;

/// Time between two lines.
const PAUSE: Duration = Duration::from_secs(60);

/// Counts; cheap to clone.
#[derive(Clone, Default)]
pub(super) struct Refused(Arc<Mutex<Counts>>);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    missing: u64,
    wrong: u64,
    /// A line was written within the last minute, and a task waits for the next.
    waiting: bool,
}

impl Refused {
    /// Counts one message without a valid secret. `missing`: it had no `Authorization` at all.
    pub(super) fn count(&self, missing: bool, io: &Handle) {
        if let Some(counts) = self.add(missing) {
            counts.tell();
            let refused = self.clone();
            io.spawn(async move {
                loop {
                    tokio::time::sleep(PAUSE).await;
                    let Some(counts) = refused.take() else { return };
                    counts.tell();
                }
            });
        }
    }

    /// What to tell at once: the first after a quiet minute.
    fn add(&self, missing: bool) -> Option<Counts> {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if missing {
            counts.missing += 1;
        } else {
            counts.wrong += 1;
        }
        if counts.waiting {
            return None;
        }
        Some(std::mem::replace(&mut *counts, Counts { waiting: true, ..Counts::default() }))
    }

    /// What came in the last minute; `None` ends the waiting.
    fn take(&self) -> Option<Counts> {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let any = counts.missing + counts.wrong > 0;
        let found = std::mem::replace(&mut *counts, Counts { waiting: any, ..Counts::default() });
        any.then_some(found)
    }
}

impl Counts {
    fn tell(self) {
        let Self { missing, wrong, .. } = self;
        tracing::warn!(count = missing + wrong, missing, wrong, "requests refused: wrong or missing secret");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// OPS-1, LOG-3: the first is told at once, the others of a minute together, and none is forgotten.
    #[test]
    fn the_first_is_told_at_once_and_the_others_together() {
        let refused = Refused::default();
        assert_eq!(refused.add(true).map(|counts| (counts.missing, counts.wrong)), Some((1, 0)));
        assert_eq!([refused.add(false), refused.add(true), refused.add(false)], [None; 3]);
        assert_eq!(refused.take().map(|counts| (counts.missing, counts.wrong)), Some((1, 2)));
        assert_eq!(refused.add(false), None, "the minute after a line is not over");
        assert!(refused.take().is_some());
        assert_eq!(refused.take(), None);
        assert!(refused.add(false).is_some(), "after a quiet minute");
    }
}
