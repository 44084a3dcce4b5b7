//! Named places at which a test build ends itself as if it had been killed, and switches that take one safeguard out
//! (ARC-60). Both exist with `debug_assertions` only: in a release build every function here is empty, and neither
//! variable is known to it. `docs/reliability.md` says who uses them and how.
//!
//! `CRASH_AT=<point>[:<n>]` aborts at the n-th passage of a point, the first by default; `PAUSE_AT` stops the process
//! there until it is continued (SIGSTOP, SIGCONT); `SABOTAGE=<name>` is read by [`is_sabotaged`]; with `LAG_ALLOWED_MS` a
//! busy machine that runs many tests at once does not look like an overload.

/// Where a process can be made to end or to stop. `CRASH_AT` and `PAUSE_AT` take the names in snake case.
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
    /// The outcome of a flow of a turn, accepted, is recorded; what is to follow it has not begun.
    FlowRecorded,
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
    /// `attempts`: a second run is not told what the first has attempted.
    Attempts,
    /// `lane`: Open takes lanes that are held, and Settle asks for no fence.
    Lane,
    /// `order`: Settle lets a reply go inline although another of the contact waits in the outbox.
    Order,
    /// `resolver`: nobody ends a turn whose flight did not answer.
    Resolver,
}

#[cfg(debug_assertions)]
pub use armed::{is_sabotaged, lag_allowed, passed, passed_if, passed_late};
#[cfg(not(debug_assertions))]
pub use disarmed::{is_sabotaged, lag_allowed, passed, passed_if, passed_late};

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
    static CRASH: LazyLock<Option<Target>> = LazyLock::new(|| target(env::var("CRASH_AT").ok()));
    /// The point to stop at.
    static PAUSE: LazyLock<Option<Target>> = LazyLock::new(|| target(env::var("PAUSE_AT").ok()));
    static SABOTAGED: LazyLock<Option<String>> = LazyLock::new(|| env::var("SABOTAGE").ok());

    static LAG_ALLOWED: LazyLock<Option<Duration>> = LazyLock::new(|| {
        let value = env::var("LAG_ALLOWED_MS").ok()?;
        value.parse().ok().map(Duration::from_millis)
    });

    type Target = (String, AtomicU32);

    /// What becomes of a process at its point.
    #[derive(Clone, Copy)]
    enum Blow {
        Abort,
        Pause,
    }

    impl Blow {
        fn fall(self) {
            match self {
                Self::Abort => std::process::abort(),
                // Stopped before the command's end can be waited for.
                Self::Pause => {
                    let _ = std::process::Command::new("sh").args(["-c", "kill -STOP $PPID"]).status();
                }
            }
        }
    }

    fn target(value: Option<String>) -> Option<Target> {
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
                Self::FlowRecorded => "flow_recorded",
                Self::MarkedActionsOpen => "marked_actions_open",
            }
        }

        /// What falls with this passage.
        fn blow(self) -> Option<Blow> {
            let is_last = |target: &Option<Target>| {
                let target = target.as_ref().filter(|(name, _)| name == self.name());
                target.is_some_and(|(_, left)| left.fetch_sub(1, Ordering::AcqRel) == 1)
            };
            if is_last(&CRASH) {
                return Some(Blow::Abort);
            }
            is_last(&PAUSE).then_some(Blow::Pause)
        }
    }

    /// How late work may be: `usual`, or what the environment says.
    #[must_use]
    pub fn lag_allowed(usual: Duration) -> Duration {
        LAG_ALLOWED.unwrap_or(usual)
    }

    /// The program has come to this point.
    pub fn passed(point: Point) {
        if let Some(blow) = point.blow() {
            blow.fall();
        }
    }

    /// The program has come to this point, if `is_here`.
    pub fn passed_if(is_here: bool, point: Point) {
        if is_here {
            passed(point);
        }
    }

    /// The program has come to this point and what it gave to a socket may be under way: the blow waits for it, and
    /// its caller with it.
    pub async fn passed_late(point: Point) {
        if let Some(blow) = point.blow() {
            tokio::time::sleep(UNTIL_WRITTEN).await;
            blow.fall();
        }
    }

    /// Whether a safeguard is taken out.
    #[must_use]
    pub fn is_sabotaged(what: Sabotage) -> bool {
        let name = match what {
            Sabotage::Recovery => "recovery",
            Sabotage::Fencing => "fencing",
            Sabotage::Owed => "owed",
            Sabotage::Attempts => "attempts",
            Sabotage::Lane => "lane",
            Sabotage::Order => "order",
            Sabotage::Resolver => "resolver",
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
    use std::time::Duration;

    use super::{Point, Sabotage};

    /// As usual, in a release build.
    #[inline]
    #[must_use]
    pub const fn lag_allowed(usual: Duration) -> Duration {
        usual
    }

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
