//! The statements that are prepared when a connection opens.

use super::{attempts, flight, inbox, open, owed, rate, settle};

/// Every statement of the request path (ARC-6, ARC-30): those of a turn, of the actions that go out while its model runs, and of
/// what lets the next turn of the contact go on. Not the rare ones, and none of what follows a reply that is out.
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
    attempts::IN_TURN.look,
    attempts::IN_TURN.begin,
    attempts::FINISH,
];

/// What is set for the session of every pooled connection. Each by itself: a server that refuses one works without.
pub(super) const SESSION: &[&str] = &[
    // Planning these statements costs the server more than running them, and no value changes the best plan: measured,
    // a fifth to a quarter more turns a second.
    "set plan_cache_mode = force_generic_plan",
    IDLE_IN_TRANSACTION,
    LOCK_WAIT,
    BY_KEY,
    AND_FORGET,
    NO_JIT,
    READ_COMMITTED,
];

/// Every row is found by its key. The server would rather read whole tables that are empty most of the time, such as the
/// owed replies, and with them every row that was deleted since they were last cleared up.
const BY_KEY: &str = "set enable_seqscan = off";

/// A plain look into an index marks the entries of deleted rows, and the next one passes them over; one that builds a
/// bitmap finds them all again.
const AND_FORGET: &str = "set enable_bitmapscan = off";

/// Compiling a statement takes longer than any of them runs, up to a second, and a plan that the two settings above forbid
/// and that is the only one left costs so much on paper that the server would.
const NO_JIT: &str = "set jit = off";

/// A statement behind a lock must see what was committed during its wait (ARC-30): whatever the database's own default is.
const READ_COMMITTED: &str = "set default_transaction_isolation = 'read committed'";

/// A process that is paused or cut off inside a transaction holds its locks no longer than this (ARC-42): shorter than
/// the wait for a lock, so that who waits behind it gets the lock.
const IDLE_IN_TRANSACTION: &str = "set idle_in_transaction_session_timeout = '8s'";

/// Longest wait for a lock: the server says so before the answer is given up, so that nobody has to find out what became
/// of the statement.
const LOCK_WAIT: &str = "set lock_timeout = '9s'";

/// Opens a flight's transaction.
pub(super) const BEGIN: &str = "begin";
/// The same behind a transaction pooler, where a setting ends with its transaction (DEC-29): as in [`SESSION`].
pub(super) const BEGIN_LIMITED: &str = "begin isolation level read committed; set local idle_in_transaction_session_timeout = '8s'; set local lock_timeout = '9s'";
/// Ends it. After an error inside, the server answers as if it had succeeded: check every result (ARC-30).
pub(super) const COMMIT: &str = "commit";
