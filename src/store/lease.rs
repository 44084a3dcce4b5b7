//! A connection of the pool in use: every statement has a limit, and a connection that did not answer is closed, and with
//! it those that may be as dead (ARC-31).

use std::time::{Duration, Instant};

use deadpool_postgres::{ClientWrapper, Object};
use tokio_postgres::types::ToSql;
use tokio_postgres::{Row, Statement, ToStatement};

use super::StoreError;
use super::statements::BEGIN_LIMITED;

/// Work that was given up after this time may have met a network that drops packets: no connection that was idle all the
/// while is trusted any longer.
const SUSPICIOUS: Duration = Duration::from_secs(2);

/// What holds for every connection of a pool.
#[derive(Clone, Copy, Debug)]
pub(super) struct LeaseRules {
    /// [`super::PoolLimits::answer`].
    pub(super) answer: Duration,
    /// A transaction pooler stands in between.
    pub(super) pooled: bool,
}

/// One connection in use.
pub(super) struct Lease {
    object: Option<Object>,
    rules: LeaseRules,
    taken: Instant,
}

impl Lease {
    pub(super) fn new(object: Object, rules: LeaseRules) -> Self {
        Self { object: Some(object), rules, taken: Instant::now() }
    }

    /// The client of this connection.
    pub(super) fn client(&self) -> Result<Bounded<'_>, StoreError> {
        let client = self
            .object
            .as_deref()
            .ok_or(StoreError::Unavailable { reason: "the connection was given back already" })?;
        Ok(Bounded { client, limit: self.rules.answer })
    }

    /// The prepared form of a statement; where it was prepared when the connection was opened, this sends nothing.
    pub(super) async fn prepared(&self, sql: &'static str) -> Result<Statement, StoreError> {
        let Bounded { client, limit } = self.client()?;
        within(limit, client.prepare_cached(sql)).await
    }

    /// Opens a transaction in which no lock is waited for or held without end; `begin` is the prepared
    /// [`super::statements::BEGIN`].
    pub(super) async fn begin(&self, begin: &Statement) -> Result<(), StoreError> {
        if self.rules.pooled {
            return self.client()?.batch_execute(BEGIN_LIMITED).await;
        }
        self.client()?.execute(begin, &[]).await.map(drop)
    }

    /// Returns the connection to the pool; only after all of its work was answered.
    pub(super) fn give_back(mut self) {
        self.object = None;
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let Some(object) = self.object.take() else { return };
        let (pool, held) = (Object::pool(&object), self.taken.elapsed());
        drop(Object::take(object));
        // After a failover that drops packets every old connection is silent. Each would cost its user the full limit.
        if held >= SUSPICIOUS
            && let Some(pool) = pool
        {
            pool.retain(|_, metrics| metrics.last_used() < held);
        }
    }
}

/// A client whose statements are given up after the limit of the pool.
#[derive(Clone, Copy)]
pub(super) struct Bounded<'lease> {
    client: &'lease ClientWrapper,
    limit: Duration,
}

impl Bounded<'_> {
    /// As the driver's.
    pub(super) async fn execute(
        &self,
        statement: &(impl ToStatement + ?Sized),
        values: &[&(dyn ToSql + Sync)],
    ) -> Result<u64, StoreError> {
        within(self.limit, self.client.execute(statement, values)).await
    }

    /// As the driver's.
    pub(super) async fn query(
        &self,
        statement: &(impl ToStatement + ?Sized),
        values: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, StoreError> {
        within(self.limit, self.client.query(statement, values)).await
    }

    /// As the driver's.
    pub(super) async fn query_one(
        &self,
        statement: &(impl ToStatement + ?Sized),
        values: &[&(dyn ToSql + Sync)],
    ) -> Result<Row, StoreError> {
        within(self.limit, self.client.query_one(statement, values)).await
    }

    /// As the driver's.
    pub(super) async fn query_opt(
        &self,
        statement: &(impl ToStatement + ?Sized),
        values: &[&(dyn ToSql + Sync)],
    ) -> Result<Option<Row>, StoreError> {
        within(self.limit, self.client.query_opt(statement, values)).await
    }

    /// As the driver's.
    pub(super) async fn batch_execute(&self, statements: &str) -> Result<(), StoreError> {
        within(self.limit, self.client.batch_execute(statements)).await
    }
}

/// A statement without an answer may still be carried out: its connection must not be used again.
async fn within<T>(
    limit: Duration,
    work: impl Future<Output = Result<T, tokio_postgres::Error>>,
) -> Result<T, StoreError> {
    Ok(tokio::time::timeout(limit, work).await.map_err(|_| StoreError::InDoubt)??)
}
