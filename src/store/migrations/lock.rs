//! The lock under which one process migrates while the others wait (MIG-6).

use std::time::{Duration, Instant};

use tokio_postgres::{Client, Transaction};

use super::MigrationError;

/// The key of the advisory lock, the same in every version of this service: `mcagent1` in ASCII.
pub(super) const KEY: i64 = 0x6d63_6167_656e_7431;

const POLL: Duration = Duration::from_millis(100);

/// The session-level advisory lock that lets one process migrate while the others wait (MIG-6).
///
/// Held by the server session, so it goes with the connection however this process ends. [`BootLock::release`] gives
/// it back earlier.
#[must_use = "give it back with release"]
pub(super) struct BootLock {
    /// The server process that holds it.
    session: i32,
}

impl BootLock {
    /// Polls, so that the wait needs no lock time-out of the session and leaves no waiter in the server's queue.
    pub(super) async fn acquire(client: &Client, limit: Duration) -> Result<Self, MigrationError> {
        let give_up = Instant::now() + limit;
        loop {
            let row = client
                .query_one("select pg_try_advisory_lock($1), pg_backend_pid()", &[&KEY])
                .await
                .map_err(MigrationError::connection)?;
            if row.try_get(0).map_err(MigrationError::connection)? {
                return Ok(Self { session: row.try_get(1).map_err(MigrationError::connection)? });
            }
            if Instant::now() >= give_up {
                return Err(MigrationError::BootLockHeld { waited: limit });
            }
            tokio::time::sleep(POLL).await;
        }
    }

    /// Whether the transaction runs in the session that holds the lock. Within it, taking the same key again
    /// succeeds; in another session, where a pooler in transaction mode may have put us, it does not.
    pub(super) async fn is_held_by(transaction: &Transaction<'_>) -> Result<bool, tokio_postgres::Error> {
        let row = transaction.query_one("select pg_try_advisory_xact_lock($1)", &[&KEY]).await?;
        row.try_get(0)
    }

    /// Gives the lock back. When a pooler answers from another session, the one that holds the lock is ended, or it
    /// would keep every later boot waiting.
    pub(super) async fn release(self, client: &Client) -> Result<(), MigrationError> {
        let row = client
            .query_one(
                "select case when pg_backend_pid() = $2 then pg_advisory_unlock($1) else false end",
                &[&KEY, &self.session],
            )
            .await
            .map_err(MigrationError::connection)?;
        if row.try_get(0).map_err(MigrationError::connection)? {
            return Ok(());
        }
        client
            .execute(
                "select pg_terminate_backend(pid) from pg_locks
                 where locktype = 'advisory' and pid = $2 and objsubid = 1
                   and (classid::int8 << 32) | objid::int8 = $1",
                &[&KEY, &self.session],
            )
            .await
            .map_err(MigrationError::connection)?;
        Err(MigrationError::TransactionPooler)
    }
}
