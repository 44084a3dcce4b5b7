//! Brings the database to the schema this version works with, before a request is served (06 section 3).
//!
//! Migrations are SQL files embedded in the binary; `_migrations` is the only record of what was applied. One
//! session-level advisory lock lets any number of processes boot at once (MIG-6), and each migration is one
//! transaction together with its record (MIG-5). Indexes on large tables are built before that, beside those who write.

mod ahead;
mod error;
mod lock;
mod schema;

use std::collections::HashSet;
use std::time::{Duration, Instant};

use tokio_postgres::{Client, Transaction};

use ahead::Ahead;
pub use error::MigrationError;
use error::is_lock_conflict;
use lock::BootLock;

/// The oldest major version of the server that is supported (DEC-29).
pub const OLDEST_SERVER_MAJOR: u32 = 15;

/// One step of the schema.
#[derive(Clone, Copy, Debug)]
struct Migration {
    /// The name under which it is recorded, with the prefix `rs_` (COMP-3).
    name: &'static str,
    sql: &'static str,
    /// Indexes of it that are built before it where their table is large.
    ahead: &'static [Ahead],
}

impl Migration {
    const fn new(name: &'static str, sql: &'static str) -> Self {
        Self { name, sql, ahead: &[] }
    }

    const fn with(self, ahead: &'static [Ahead]) -> Self {
        Self { ahead, ..self }
    }
}

/// All migrations, in the lexical order of their names (MIG-2).
const MIGRATIONS: &[Migration] = &[
    Migration::new("rs_0001_reference", include_str!("../../../migrations/rs_0001_reference.sql")),
    Migration::new("rs_0002_durability", include_str!("../../../migrations/rs_0002_durability.sql"))
        .with(&[Ahead { index: "turns_conversation_seq_idx", table: "turns", on: "(conversation_id, seq)" }]),
    Migration::new("rs_0003_long_replies", include_str!("../../../migrations/rs_0003_long_replies.sql")),
    Migration::new("rs_0004_contact_tokens", include_str!("../../../migrations/rs_0004_contact_tokens.sql"))
        .with(&[Ahead {
            index: "rs_outbox_contact_token_idx",
            table: "outbox",
            on: "(conversation_id) where kind = 'contact_token'",
        }]),
    Migration::new("rs_0005_people", include_str!("../../../migrations/rs_0005_people.sql")),
    Migration::new("rs_0006_inbox", include_str!("../../../migrations/rs_0006_inbox.sql")),
    Migration::new("rs_0007_people_mended", include_str!("../../../migrations/rs_0007_people_mended.sql")),
    Migration::new("rs_0008_outbox_order", include_str!("../../../migrations/rs_0008_outbox_order.sql")),
    Migration::new("rs_0009_actions", include_str!("../../../migrations/rs_0009_actions.sql")),
    Migration::new("rs_0010_budget", include_str!("../../../migrations/rs_0010_budget.sql")),
    Migration::new("rs_0011_turn_checks", include_str!("../../../migrations/rs_0011_turn_checks.sql")),
    Migration::new("rs_0012_owed_index", include_str!("../../../migrations/rs_0012_owed_index.sql")),
    Migration::new("rs_0013_cascades", include_str!("../../../migrations/rs_0013_cascades.sql")).with(&[
        Ahead { index: "rs_outbox_conversation_idx", table: "outbox", on: "(conversation_id)" },
        Ahead { index: "rs_nudges_conversation_idx", table: "nudges", on: "(conversation_id)" },
        Ahead { index: "rs_handoffs_conversation_idx", table: "rs_handoffs", on: "(conversation_id)" },
    ]),
    Migration::new("rs_0014_reply_place", include_str!("../../../migrations/rs_0014_reply_place.sql")),
];

/// The SQL of every migration in order: two builds with equal text make equal databases.
pub(super) fn all_sql() -> impl Iterator<Item = &'static str> {
    MIGRATIONS.iter().map(|migration| migration.sql)
}

/// Applies what is pending and checks that every table and column in use exists (COMP-11). Returns the names that
/// this call applied, in order; empty when there was nothing to do (MIG-3: the caller logs a line only if not).
///
/// `client` should be a connection of its own, not one of a pool: it holds a session-level lock meanwhile.
///
/// # Errors
/// See [`MigrationError`]. A migration that failed left nothing behind and is tried again by the next call (MIG-4).
pub async fn migrate(client: &mut Client) -> Result<Vec<String>, MigrationError> {
    Migrator { migrations: MIGRATIONS, limits: Limits::default() }.run(client).await
}

/// How long to wait for others.
#[derive(Clone, Copy, Debug)]
struct Limits {
    /// For the boot of another process (MIG-6).
    boot_lock: Duration,
    /// For one table lock within a migration (MIG-7).
    table_lock: Duration,
    /// From the first try of a migration until a busy table ends the boot.
    retry: Duration,
    /// Between two tries, so that the queue behind us drains.
    pause: Duration,
    /// From how many bytes on a table's index is built ahead, beside its writers.
    large: i64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            boot_lock: Duration::from_secs(60),
            table_lock: Duration::from_secs(5),
            retry: Duration::from_secs(55),
            pause: Duration::from_millis(500),
            large: 8 << 20,
        }
    }
}

struct Migrator<'all> {
    migrations: &'all [Migration],
    limits: Limits,
}

impl Migrator<'_> {
    async fn run(&self, client: &mut Client) -> Result<Vec<String>, MigrationError> {
        check_server_version(client).await?;
        check_encoding(client).await?;
        schema::refuse_none(client).await?;
        // With nothing to do nothing needs to be locked: behind a transaction pooler no lock of a session holds (DEC-29).
        if self.is_up_to_date(client).await? {
            schema::check(client).await?;
            return Ok(Vec::new());
        }
        schema::refuse_foreign(client).await?;
        let lock = BootLock::acquire(client, self.limits.boot_lock).await?;
        let applied = self.apply_pending(client).await;
        let released = lock.release(client).await;
        let applied = applied?;
        released?;
        schema::check(client).await?;
        Ok(applied)
    }

    async fn is_up_to_date(&self, client: &Client) -> Result<bool, MigrationError> {
        if !is_tracked(client).await? {
            return Ok(false);
        }
        let recorded = recorded_names(client).await?;
        Ok(self.migrations.iter().all(|migration| recorded.contains(migration.name)))
    }

    async fn apply_pending(&self, client: &mut Client) -> Result<Vec<String>, MigrationError> {
        let recorded = recorded_names(client).await?;
        let mut applied = Vec::new();
        for migration in self.migrations.iter().filter(|migration| !recorded.contains(migration.name)) {
            self.apply(client, migration).await?;
            applied.push(migration.name.to_owned());
        }
        Ok(applied)
    }

    /// Tries the whole transaction again while a table is locked by others (MIG-7).
    async fn apply(&self, client: &mut Client, migration: &Migration) -> Result<(), MigrationError> {
        let mut give_up = None;
        loop {
            let attempted = self.attempt(client, migration).await;
            // Building indexes ahead takes its own time.
            let give_up = *give_up.get_or_insert_with(|| Instant::now() + self.limits.retry);
            match attempted {
                Err(Attempt::Driver(error)) if is_lock_conflict(&error) => {
                    if Instant::now() + self.limits.pause >= give_up {
                        return Err(MigrationError::TableBusy { migration: migration.name });
                    }
                    tokio::time::sleep(self.limits.pause).await;
                }
                Err(Attempt::Driver(error)) => {
                    return Err(MigrationError::failed(migration.name, &error));
                }
                Err(Attempt::LockLost) => return Err(MigrationError::TransactionPooler),
                Ok(()) => return Ok(()),
            }
        }
    }

    async fn attempt(&self, client: &mut Client, migration: &Migration) -> Result<(), Attempt> {
        for index in migration.ahead {
            Self::locked(client).await?.rollback().await?;
            index.build(client, self.limits.large, self.limits.retry).await?;
        }
        let transaction = Self::locked(client).await?;
        set_limits(&transaction, self.limits.table_lock).await?;
        transaction.batch_execute(migration.sql).await?;
        transaction.execute("insert into _migrations (name) values ($1)", &[&migration.name]).await?;
        transaction.commit().await?;
        Ok(())
    }

    /// A transaction in the session that holds the boot lock.
    async fn locked(client: &mut Client) -> Result<Transaction<'_>, Attempt> {
        let transaction = client.transaction().await?;
        if !BootLock::is_held_by(&transaction).await? {
            return Err(Attempt::LockLost);
        }
        Ok(transaction)
    }
}

/// Why one try of a migration did not commit. The transaction was rolled back when it was dropped.
enum Attempt {
    Driver(tokio_postgres::Error),
    LockLost,
}

impl From<tokio_postgres::Error> for Attempt {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Driver(error)
    }
}

async fn set_limits(
    transaction: &Transaction<'_>,
    table_lock: Duration,
) -> Result<(), tokio_postgres::Error> {
    let statement = format!(
        "set local lock_timeout = {}; set local statement_timeout = 0; set local client_min_messages = warning",
        table_lock.as_millis()
    );
    transaction.batch_execute(&statement).await
}

/// DEC-29
async fn check_server_version(client: &Client) -> Result<(), MigrationError> {
    let row = client
        .query_one(
            "select current_setting('server_version_num')::int4 / 10000, current_setting('server_version')",
            &[],
        )
        .await
        .map_err(MigrationError::connection)?;
    let major: i32 = row.try_get(0).map_err(MigrationError::connection)?;
    let version: String = row.try_get(1).map_err(MigrationError::connection)?;
    refuse_old(u32::try_from(major).unwrap_or_default(), &version)
}

fn refuse_old(major: u32, version: &str) -> Result<(), MigrationError> {
    if major < OLDEST_SERVER_MAJOR {
        return Err(MigrationError::ServerTooOld { version: version.to_owned() });
    }
    Ok(())
}

/// A database in another encoding than UTF8 is refused before anything is written to it: it has no place for most of what
/// contacts write, so that their messages would end with a person one by one. For every command that opens a database.
///
/// # Errors
/// [`MigrationError::Encoding`], or the server did not answer.
pub async fn check_encoding(client: &Client) -> Result<(), MigrationError> {
    let sql = "select current_setting('server_encoding')";
    let row = client.query_one(sql, &[]).await.map_err(MigrationError::connection)?;
    let found: String = row.try_get(0).map_err(MigrationError::connection)?;
    if found == "UTF8" { Ok(()) } else { Err(MigrationError::Encoding { found }) }
}

async fn is_tracked(client: &Client) -> Result<bool, MigrationError> {
    let sql = "select to_regclass(format('%I._migrations', current_schema())) is not null";
    let row = client.query_one(sql, &[]).await.map_err(MigrationError::connection)?;
    row.try_get(0).map_err(MigrationError::connection)
}

/// Creates the tracking table where it is missing (MIG-2) and reads it.
async fn recorded_names(client: &Client) -> Result<HashSet<String>, MigrationError> {
    if !is_tracked(client).await? {
        client
            .batch_execute(
                "create table _migrations (name text primary key, applied_at timestamptz not null default now())",
            )
            .await
            .map_err(|error| MigrationError::failed("_migrations", &error))?;
    }
    let rows = client.query("select name from _migrations", &[]).await.map_err(MigrationError::connection)?;
    rows.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>().map_err(MigrationError::connection)
}

#[cfg(test)]
mod tests;
