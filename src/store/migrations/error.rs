//! Why the database could not be brought to this version, in words for an operator.

use std::error::Error as _;
use std::io;
use std::time::Duration;

use tokio_postgres::Error;
use tokio_postgres::error::SqlState;

/// Why the database could not be brought to this version. Every variant stops the boot (MIG-4).
#[derive(Debug, thiserror::Error)]
pub enum MigrationError {
    /// DEC-29
    #[error(
        "the database server is PostgreSQL {version}; the oldest supported version is 15: upgrade it, or set DATABASE_URL to a newer server"
    )]
    ServerTooOld {
        /// As the server reports it.
        version: String,
    },
    /// It could not hold what contacts write.
    #[error(
        "the database's encoding is {found}, which has no place for every character that contacts write: make one with `create database … encoding 'UTF8' template template0` and name it there"
    )]
    Encoding {
        /// As the server reports it.
        found: String,
    },
    /// MIG-6
    #[error("another process has been migrating this database for more than {} s: find out what it waits for, then start again", waited.as_secs())]
    BootLockHeld {
        /// The limit that passed.
        waited: Duration,
    },
    /// DEC-29
    #[error(
        "the connection changes its server session between statements (a pooler in transaction mode): migrate once with DATABASE_URL set to the server itself or to a pool in session mode, then start again"
    )]
    TransactionPooler,
    /// MIG-7
    #[error(
        "migration {migration}: a table stayed locked by another session: end long transactions on this database, then start again"
    )]
    TableBusy {
        /// Its recorded name.
        migration: &'static str,
    },
    /// MIG-4, MIG-5: nothing of it was kept.
    #[error("migration {migration} failed and left nothing behind: {reason}")]
    Failed {
        /// Its recorded name.
        migration: &'static str,
        /// What the server said, without values from rows.
        reason: String,
    },
    /// The user may not change the schema; nothing was kept.
    #[error(
        "migration {migration}: the database user may not create tables or change them: use their owner in DATABASE_URL, or run `grant create on schema public to` this user; nothing was changed"
    )]
    MissingPrivilege {
        /// Its recorded name.
        migration: &'static str,
    },
    /// A standby, or a database or user that may only read.
    #[error(
        "migration {migration}: the server accepts no writes, because it is a standby or default_transaction_read_only is on: name the primary in DATABASE_URL, or `alter database … set default_transaction_read_only = off`"
    )]
    ReadOnly {
        /// Its recorded name.
        migration: &'static str,
    },
    /// DB-4: there is nowhere to put the tables.
    #[error(
        "the connection's search_path leads to no schema that exists and that its user may use: create the schema, or correct search_path where it is set (in `options` of DATABASE_URL, by `alter database … set search_path`, or by `alter role … set search_path`)"
    )]
    NoSchema,
    /// Tables of another application stand where ours belong; nothing was changed.
    #[error(
        "{} in this schema is not of this service: it belongs to another application; give the service a database or a schema of its own and name it there, nothing was changed", .tables.join(", ")
    )]
    Foreign {
        /// In alphabetical order.
        tables: Vec<String>,
    },
    /// COMP-11
    #[error("the database lacks {}: a newer version may have renamed or dropped them; upgrade this service or restore the schema", .missing.join(", "))]
    SchemaIncomplete {
        /// `table` or `table.column`, in alphabetical order.
        missing: Vec<String>,
    },
    /// The server went away or refused to answer.
    #[error("the database connection failed while migrating: {reason}")]
    Connection {
        /// What the server or the driver said, without values from rows.
        reason: String,
    },
}

impl MigrationError {
    pub(super) fn connection(error: Error) -> Self {
        Self::Connection { reason: describe(&error) }
    }
}

/// An error without parameters or row values, which a raw driver error can quote (DB-5): the server's SQLSTATE and
/// primary message, which for the statements of this module name schema objects only.
pub(super) fn describe(error: &Error) -> String {
    match error.as_db_error() {
        Some(refused) => format!("{} (SQLSTATE {})", refused.message(), refused.code().code()),
        None if error.is_closed() => "the connection is closed".to_owned(),
        None => match error.source().and_then(|cause| cause.downcast_ref::<io::Error>()) {
            Some(cause) => cause.kind().to_string(),
            None => "the server answered something unexpected".to_owned(),
        },
    }
}

impl MigrationError {
    /// A migration that the server refused.
    pub(super) fn failed(migration: &'static str, error: &Error) -> Self {
        if matches!(error.code(), Some(code) if *code == SqlState::INSUFFICIENT_PRIVILEGE) {
            return Self::MissingPrivilege { migration };
        }
        if matches!(error.code(), Some(code) if *code == SqlState::READ_ONLY_SQL_TRANSACTION) {
            return Self::ReadOnly { migration };
        }
        Self::Failed { migration, reason: describe(error) }
    }
}

/// Another session holds what we want: worth another try.
pub(super) fn is_lock_conflict(error: &Error) -> bool {
    matches!(error.code(), Some(code) if *code == SqlState::LOCK_NOT_AVAILABLE || *code == SqlState::T_R_DEADLOCK_DETECTED)
}
