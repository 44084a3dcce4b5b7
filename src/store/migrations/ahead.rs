use std::time::Duration;

use tokio_postgres::{Client, Error};

/// An index on a table that can be large before its migration runs: the reference has filled it, or an earlier version. It
/// is built ahead of the migration, while others write, and the migration finds it there (PROC-6). A statement that does
/// so cannot be part of a transaction; whatever it leaves when it fails is dropped by the next try (MIG-4).
#[derive(Clone, Copy, Debug)]
pub(super) struct Ahead {
    pub(super) index: &'static str,
    pub(super) table: &'static str,
    /// Its columns in brackets, and its condition if it has one.
    pub(super) on: &'static str,
}

/// How large the table is, null without it; whether the index is there and whole; and the limits of the session.
const LOOK: &str = "
    select pg_relation_size(to_regclass(format('%I.%I', current_schema(), $1::text))) as bytes,
           (select indisvalid from pg_index
            where indexrelid = to_regclass(format('%I.%I', current_schema(), $2::text))) as is_whole,
           current_setting('lock_timeout') as lock_timeout, current_setting('statement_timeout') as statement_timeout";

const LIMIT: &str =
    "select set_config('lock_timeout', $1, false), set_config('statement_timeout', $2, false)";

impl Ahead {
    /// Builds the index where the table has `large` bytes or more; a smaller one costs its migration a moment. `wait`: how
    /// long to wait for transactions of others, which can go on meanwhile.
    pub(super) async fn build(&self, client: &Client, large: i64, wait: Duration) -> Result<(), Error> {
        let found = client.query_one(LOOK, &[&self.table, &self.index]).await?;
        let is_whole: Option<bool> = found.try_get("is_whole")?;
        let is_large = found.try_get::<_, Option<i64>>("bytes")?.is_some_and(|bytes| bytes >= large);
        if is_whole == Some(true) || is_whole.is_none() && !is_large {
            return Ok(());
        }
        let (lock, statement): (&str, &str) =
            (found.try_get("lock_timeout")?, found.try_get("statement_timeout")?);
        client.execute(LIMIT, &[&wait.as_millis().to_string(), &"0"]).await?;
        let built = self.rebuild(client, is_whole.is_some()).await;
        client.execute(LIMIT, &[&lock, &statement]).await?;
        built
    }

    /// `is_broken`: an earlier try was cut off.
    async fn rebuild(&self, client: &Client, is_broken: bool) -> Result<(), Error> {
        if is_broken {
            client.batch_execute(&format!("drop index concurrently if exists {}", self.index)).await?;
        }
        client.batch_execute(&self.statement(true)).await
    }

    /// As its migration has it, or `concurrently`.
    pub(super) fn statement(&self, concurrently: bool) -> String {
        let Self { index, table, on } = self;
        let how = if concurrently { "concurrently " } else { "" };
        format!("create index {how}if not exists {index} on {table} {on}")
    }
}
