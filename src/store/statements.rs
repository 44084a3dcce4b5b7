//! The statements that are prepared when a connection opens.

use super::{flight, inbox, open, owed, rate, settle};

/// Every statement of the request path (ARC-6, ARC-30).
pub(super) const REQUEST_PATH: &[&str] = &[
    BEGIN,
    COMMIT,
    open::FIND,
    open::OPEN,
    open::OPEN_WAITING,
    open::EARLIER,
    open::KEEP,
    flight::LOCK,
    settle::SETTLE,
    settle::SETTLE_MORE,
    owed::CONFIRM,
    rate::RESERVE,
    inbox::KEEP,
];

/// What is set for the session of every pooled connection. Each by itself: a server that refuses one works without.
pub(super) const SESSION: &[&str] = &[
    // Planning these statements costs the server more than running them, and no value changes the best plan: measured,
    // a fifth to a quarter more turns a second.
    "set plan_cache_mode = force_generic_plan",
    IDLE_IN_TRANSACTION,
    LOCK_WAIT,
];

/// A process that is paused or cut off inside a transaction holds its locks no longer than this (ARC-42): shorter than
/// the wait for a lock, so that who waits behind it gets the lock.
const IDLE_IN_TRANSACTION: &str = "set idle_in_transaction_session_timeout = '8s'";

/// Longest wait for a lock: the server says so before the answer is given up, so that nobody has to find out what became
/// of the statement.
const LOCK_WAIT: &str = "set lock_timeout = '9s'";

/// Opens a flight's transaction.
pub(super) const BEGIN: &str = "begin";
/// The same behind a transaction pooler, where a setting ends with its transaction (DEC-29): as long as in [`SESSION`].
pub(super) const BEGIN_LIMITED: &str =
    "begin; set local idle_in_transaction_session_timeout = '8s'; set local lock_timeout = '9s'";
/// Ends it. After an error inside, the server answers as if it had succeeded: check every result (ARC-30).
pub(super) const COMMIT: &str = "commit";
