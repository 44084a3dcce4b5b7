//! What a caller must know of a database failure, without a driver's text: that can quote parameters (DB-5).

use tokio_postgres::error::SqlState;

/// A failed piece of database work.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// No connection could be had. Nothing was sent: try again later.
    #[error("no database connection: {reason}")]
    Unavailable {
        /// Which step failed, in our words.
        reason: &'static str,
    },
    /// The server refused a statement. The transaction is rolled back: end the turn in the handoff.
    #[error("the database refused a statement ({code}){}", advice(code))]
    Refused {
        /// SQLSTATE.
        code: String,
    },
    /// The connection broke or timed out while work was under way. What became of it is unknown: resolve it by
    /// the turn's id.
    #[error("the database did not answer in time or the connection was lost")]
    InDoubt,
    /// The database has none of our tables: start `agent serve` or `agent worker` on it once.
    #[error("the database has no tables yet: start `agent serve` or `agent worker` once")]
    NoTables,
    /// Its tables are those of an earlier version: start this version's `agent serve` or `agent worker` on it once.
    #[error("the database has an older schema: start this version's `agent serve` or `agent worker` once")]
    OldTables,
    /// Another run of the same command is under way: wait for it.
    #[error("another run of this command is under way on this database: wait until it has ended")]
    Busy,
    /// A row has a shape this version does not understand.
    #[error("unexpected value in {what}")]
    Unexpected {
        /// Table and column.
        what: &'static str,
    },
}

/// What an operator can do about a refusal, where that can be told.
fn advice(code: &str) -> &'static str {
    match code {
        "42501" => ": the user of DATABASE_URL lacks a privilege on the tables: grant it, or use their owner",
        "25006" => {
            ": the server accepts no writes, because it is a standby or only to be read: name the primary in DATABASE_URL"
        }
        "42P01" | "42703" => ": a table or column is missing: start `agent serve` or `agent worker` once",
        _ => "",
    }
}

impl StoreError {
    /// True when the server ended the work because two transactions waited for each other: nothing was done, and the
    /// same work may be done again at once.
    #[must_use]
    pub fn is_deadlock(&self) -> bool {
        matches!(self, Self::Refused { code } if code == "40P01")
    }

    /// Without the advice behind the colon, for the log of a running process: the address was right at its start, and the
    /// same line comes again while an outage lasts.
    #[must_use]
    pub fn brief(self) -> Self {
        match self {
            Self::Unavailable { reason } => {
                Self::Unavailable { reason: reason.split_once(": ").map_or(reason, |(what, _)| what) }
            }
            other => other,
        }
    }

    /// The same for a command, which runs no migration (MIG-8): a missing table or column is said in words.
    #[must_use]
    pub(super) fn of_command(error: tokio_postgres::Error) -> Self {
        match error.code() {
            Some(code) if *code == SqlState::UNDEFINED_TABLE => Self::NoTables,
            Some(code) if *code == SqlState::UNDEFINED_COLUMN => Self::OldTables,
            _ => error.into(),
        }
    }

    /// True when nothing of the work was or will be done: the server said so, or never got it.
    #[must_use]
    pub const fn wrote_nothing(&self) -> bool {
        matches!(self, Self::Refused { .. } | Self::Unavailable { .. })
    }
}

impl From<tokio_postgres::Error> for StoreError {
    fn from(error: tokio_postgres::Error) -> Self {
        match error.code() {
            Some(code) if is_connection_end(code) => Self::InDoubt,
            Some(code) => Self::Refused { code: code.code().to_owned() },
            None => Self::InDoubt,
        }
    }
}

/// The server ended the connection (shutdown, crash, an administrator: class 57P, but not a cancelled query; or a
/// transaction that was idle for too long).
fn is_connection_end(code: &SqlState) -> bool {
    *code == SqlState::ADMIN_SHUTDOWN
        || *code == SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT
        || *code == SqlState::CRASH_SHUTDOWN
        || *code == SqlState::CANNOT_CONNECT_NOW
        || code.code().starts_with("08")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// LOG-1: at run time an outage is said and not explained.
    #[test]
    fn a_brief_error_has_no_advice() {
        let long = StoreError::Unavailable { reason: "nothing listens there: start Postgres" };
        assert_eq!(long.brief().to_string(), "no database connection: nothing listens there");
        let plain = StoreError::Unavailable { reason: "the service is stopping" };
        assert_eq!(plain.brief().to_string(), "no database connection: the service is stopping");
    }
}
