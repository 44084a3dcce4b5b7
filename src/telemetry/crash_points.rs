//! Named places at which a test build ends itself as if it had been killed, and switches that take one safeguard out
//! (ARC-60). Both exist with `debug_assertions` only: in a release build every function here is empty, and neither
//! variable is known to it. `docs/reliability.md` says who uses them and how.
//!
//! `CRASH_AT=<point>[:<n>]` aborts at the n-th passage of a point, the first by default; `SABOTAGE=<name>` is read by
//! [`is_sabotaged`].

/// Where a process can be made to end. `CRASH_AT` takes the names in snake case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Point {
    /// Open has committed; nothing else has happened.
    AfterOpen,
    /// Settle has committed; nothing has left the process.
    SettleCommitted,
    /// The bytes of a reply are out, or its outbox row is in; neither is confirmed.
    BytesOut,
    /// The outbox row is claimed; ManyChat has not been called.
    ClaimTaken,
    /// ManyChat has accepted the reply field; the flow is not played.
    FieldWritten,
    /// ManyChat has accepted the flow; the row is not marked.
    FlowPlayed,
    /// The attempt of an action is written; its request is not sent.
    AttemptWritten,
    /// ManyChat has accepted a flow of a turn; its outcome is not recorded.
    FlowAccepted,
    /// The reply's row is marked delivered; its actions are open.
    MarkedActionsOpen,
}

/// What can be taken out, to see that the tests notice (`SABOTAGE`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sabotage {
    /// `recovery`: nobody takes over what a dead process has left.
    Recovery,
    /// `fencing`: a process goes on calling ManyChat after others may have taken over.
    Fencing,
    /// `owed`: what `rs_owed` says is not read after a death.
    Owed,
}

#[cfg(debug_assertions)]
pub use armed::{is_sabotaged, passed, passed_if, passed_late};
#[cfg(not(debug_assertions))]
pub use disarmed::{is_sabotaged, passed, passed_if, passed_late};

#[cfg(debug_assertions)]
mod armed {
    use std::env;
    use std::sync::LazyLock;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::time::Duration;

    use super::{Point, Sabotage};

    /// A body's last chunk is taken before it is written to its socket; so long a crash after it waits.
    const UNTIL_WRITTEN: Duration = Duration::from_millis(150);

    /// The point to end at and the passages until then.
    static TARGET: LazyLock<Option<(String, AtomicU32)>> =
        LazyLock::new(|| target(env::var("CRASH_AT").ok()));
    static SABOTAGED: LazyLock<Option<String>> = LazyLock::new(|| env::var("SABOTAGE").ok());

    fn target(value: Option<String>) -> Option<(String, AtomicU32)> {
        let value = value.filter(|value| !value.is_empty())?;
        let (name, nth) = value.split_once(':').unwrap_or((&value, "1"));
        Some((name.to_owned(), AtomicU32::new(nth.parse().unwrap_or(1))))
    }

    impl Point {
        const fn name(self) -> &'static str {
            match self {
                Self::AfterOpen => "after_open",
                Self::SettleCommitted => "settle_committed",
                Self::BytesOut => "bytes_out",
                Self::ClaimTaken => "claim_taken",
                Self::FieldWritten => "field_written",
                Self::FlowPlayed => "flow_played",
                Self::AttemptWritten => "attempt_written",
                Self::FlowAccepted => "flow_accepted",
                Self::MarkedActionsOpen => "marked_actions_open",
            }
        }

        fn is_last_passage(self) -> bool {
            let target = TARGET.as_ref().filter(|(name, _)| name == self.name());
            target.is_some_and(|(_, left)| left.fetch_sub(1, Ordering::AcqRel) == 1)
        }
    }

    /// The program has come to this point.
    pub fn passed(point: Point) {
        if point.is_last_passage() {
            std::process::abort();
        }
    }

    /// The program has come to this point, if `is_here`.
    pub fn passed_if(is_here: bool, point: Point) {
        if is_here {
            passed(point);
        }
    }

    /// The program has come to this point and what it gave to a socket may be under way: the crash waits for it, and
    /// its caller with it.
    pub async fn passed_late(point: Point) {
        if point.is_last_passage() {
            tokio::time::sleep(UNTIL_WRITTEN).await;
            std::process::abort();
        }
    }

    /// Whether a safeguard is taken out.
    #[must_use]
    pub fn is_sabotaged(what: Sabotage) -> bool {
        let name = match what {
            Sabotage::Recovery => "recovery",
            Sabotage::Fencing => "fencing",
            Sabotage::Owed => "owed",
        };
        SABOTAGED.as_deref() == Some(name)
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        /// ARC-60: a name alone means the first passage; an empty value means no point at all.
        #[test]
        fn a_target_is_a_point_and_a_passage() {
            let read = |value: &str| {
                target(Some(value.to_owned())).map(|(name, left)| (name, left.load(Ordering::Acquire)))
            };
            assert_eq!(read("after_open"), Some(("after_open".to_owned(), 1)));
            assert_eq!(read("claim_taken:3"), Some(("claim_taken".to_owned(), 3)));
            assert_eq!(read(""), None);
            assert!(target(None).is_none());
        }
    }
}

#[cfg(not(debug_assertions))]
mod disarmed {
    use super::{Point, Sabotage};

    /// Nothing, in a release build.
    #[inline]
    pub const fn passed(_: Point) {}

    /// Nothing, in a release build.
    #[inline]
    pub const fn passed_if(_: bool, _: Point) {}

    /// Nothing, in a release build.
    #[inline]
    pub async fn passed_late(_: Point) {}

    /// Never, in a release build.
    #[inline]
    #[must_use]
    pub const fn is_sabotaged(_: Sabotage) -> bool {
        false
    }
}
