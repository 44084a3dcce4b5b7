//! The statements that are prepared when a connection opens.

use super::{open, owed, rate, settle};

/// Every statement of the request path (ARC-6, ARC-30).
pub(super) const REQUEST_PATH: &[&str] =
    &[BEGIN, COMMIT, open::TAKE_LANE, open::RECORD, open::READ, settle::SETTLE, owed::CONFIRM, rate::RESERVE];

/// Opens a flight's transaction.
pub(super) const BEGIN: &str = "begin";
/// Ends it. After an error inside, the server answers as if it had succeeded: check every result (ARC-30).
pub(super) const COMMIT: &str = "commit";
