//! The statements that are prepared when a connection opens.

use super::{flight, inbox, open, owed, rate, settle};

/// Every statement of the request path (ARC-6, ARC-30).
pub(super) const REQUEST_PATH: &[&str] = &[
    BEGIN,
    COMMIT,
    open::TAKE_LANE,
    open::RECORD,
    open::READ,
    flight::LOCK,
    settle::SETTLE,
    owed::CONFIRM,
    rate::RESERVE,
    inbox::KEEP,
];

/// Lets the server plan each prepared statement once a connection instead of at every use.
pub(super) const PLAN_ONCE: &str = "set plan_cache_mode = force_generic_plan";

/// Opens a flight's transaction.
pub(super) const BEGIN: &str = "begin";
/// Ends it. After an error inside, the server answers as if it had succeeded: check every result (ARC-30).
pub(super) const COMMIT: &str = "commit";
