//! A connection of the pool in use: every statement has a limit, and a connection that did not answer is closed, and with
//! it those that may be as dead (ARC-31).

use std::sync::Arc;
use std::time::{Duration, Instant};

use deadpool_postgres::{ClientWrapper, Object};
use futures_util::FutureExt;
use tokio::sync::Notify;
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
    /// Rung when the connection is free, or closed and its place at the server free.
    returned: Arc<Notify>,
}

impl Lease {
    pub(super) fn new(object: Object, rules: LeaseRules, returned: Arc<Notify>) -> Self {
        Self { object: Some(object), rules, taken: Instant::now(), returned }
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
        self.returned.notify_one();
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let Some(object) = self.object.take() else { return };
        let (pool, held) = (Object::pool(&object), self.taken.elapsed());
        drop(Object::take(object));
        self.returned.notify_one();
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

/// A statement without an answer may still be carried out: its connection must not be used again. No `async fn`: that would
/// keep the work a second time beside the timer, and every step of a turn is moved about with all that it keeps.
fn within<T>(
    limit: Duration,
    work: impl Future<Output = Result<T, tokio_postgres::Error>>,
) -> impl Future<Output = Result<T, StoreError>> {
    tokio::time::timeout(limit, work).map(|answer| Ok(answer.map_err(|_| StoreError::InDoubt)??))
}

#[cfg(test)]
mod tests {
    use tokio::runtime::Handle;

    use super::*;
    use crate::store::embedded::testing::{TestDatabase, TestServer};
    use crate::store::statements::{BEGIN, COMMIT};
    use crate::store::{Address, Database, PoolLimits};

    fn pool(server: &TestDatabase, pooled: bool, limits: PoolLimits) -> Database {
        let address: Address = server.config().clone().into();
        let address = if pooled { address.behind_pooler() } else { address };
        Database::new(address, Handle::current(), limits).unwrap()
    }

    async fn waits(lease: &Lease) -> (String, String) {
        let sql =
            "select current_setting('lock_timeout'), current_setting('idle_in_transaction_session_timeout')";
        let row = lease.client().unwrap().query_one(sql, &[]).await.unwrap();
        (row.get(0), row.get(1))
    }

    /// ARC-42, DEC-29: locks and idle transactions have their limits from the session, or, behind a transaction pooler, in a
    /// flight's transaction and nowhere else.
    #[tokio::test]
    async fn locks_are_bounded_and_a_pooled_session_keeps_nothing() {
        let server = TestServer::database().unwrap();
        let limited = ("9s".to_owned(), "8s".to_owned());
        for pooled in [false, true] {
            let database = pool(&server, pooled, PoolLimits::default());
            let lease = database.lease().await.unwrap();
            let outside = waits(&lease).await;
            assert_eq!(outside == limited, !pooled, "{outside:?}");
            lease.begin(&lease.prepared(BEGIN).await.unwrap()).await.unwrap();
            assert_eq!(waits(&lease).await, limited);
            let commit = lease.prepared(COMMIT).await.unwrap();
            lease.client().unwrap().execute(&commit, &[]).await.unwrap();
            assert_eq!(waits(&lease).await, outside);
            lease.give_back();
        }
    }

    /// DEC-29, ARC-70: our own sessions plan by index alone; behind a transaction pooler nothing is set that others would find.
    #[tokio::test]
    async fn plans_are_chosen_for_our_own_sessions_alone() {
        let server = TestServer::database().unwrap();
        let sql = "select array(select setting from pg_settings
                   where name in ('enable_bitmapscan', 'enable_seqscan', 'jit', 'plan_cache_mode')
                     and source = 'session' order by name)";
        for (pooled, expected) in [(false, vec!["off", "off", "off", "force_generic_plan"]), (true, vec![])] {
            let lease = pool(&server, pooled, PoolLimits::default()).lease().await.unwrap();
            let found: Vec<String> = lease.client().unwrap().query_one(sql, &[]).await.unwrap().get(0);
            assert_eq!(found, expected, "pooled: {pooled}");
        }
    }

    /// ARC-31: a statement without an answer is in doubt, and its connection is not used again.
    #[tokio::test]
    async fn a_statement_without_an_answer_takes_its_connection_along() {
        let server = TestServer::database().unwrap();
        let limits = PoolLimits { answer: Duration::from_millis(100), ..PoolLimits::default() };
        let database = pool(&server, false, limits);
        let lease = database.lease().await.unwrap();
        let hung = lease.client().unwrap().batch_execute("select pg_sleep(60)").await;
        assert!(matches!(hung, Err(StoreError::InDoubt)), "{hung:?}");
        assert_eq!(database.in_use(), (1, 1));
        drop(lease);
        assert_eq!(database.in_use(), (0, 0));
    }
}
