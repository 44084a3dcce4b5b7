//! Connections to Postgres. Sockets are opened and driven on the shared runtime, whoever asks: a connection
//! that lived on an actor's or a worker's own runtime would stall or die with it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use deadpool_postgres::{
    ClientWrapper, Connect, Hook, HookError, Manager, ManagerConfig, Pool, PoolError, RecyclingMethod,
    Runtime,
};
use futures_util::future::BoxFuture;
use futures_util::future::join_all;
use tokio::runtime::Handle;
use tokio::sync::{Notify, Semaphore};
use tokio::task::JoinHandle;
use tokio_postgres::{Client, Config};

use super::address::{Address, unreachable_because};
pub(super) use super::lease::Lease;
use super::lease::LeaseRules;
use super::{StoreError, statements};

/// Sizes and waits of the pool (DB-2).
#[derive(Clone, Copy, Debug)]
pub struct PoolLimits {
    /// Most connections of this process.
    pub max_size: usize,
    /// How long to wait for a free one.
    pub wait: Duration,
    /// How long opening one may take.
    pub connect: Duration,
    /// After how long without use one is closed.
    pub idle: Duration,
    /// How long the answer to a statement may take; then its connection is closed. Every statement of the pool is a
    /// short one: what takes long, such as a migration or an operator's query over all rows, uses [`connect`].
    pub answer: Duration,
}

impl Default for PoolLimits {
    fn default() -> Self {
        Self {
            max_size: 10,
            wait: Duration::from_secs(10),
            connect: Duration::from_secs(10),
            idle: Duration::from_secs(30),
            answer: Duration::from_secs(10),
        }
    }
}

/// Pause before a connection that could not be had is asked for again, by all who wait together: a server that is starting is
/// not asked more often because many messages wait for it.
const PAUSE: Duration = Duration::from_millis(50);

/// The pool of one process; cheap to clone.
#[derive(Clone)]
pub struct Database {
    pool: Pool,
    rules: LeaseRules,
    /// Rung when a connection is given back.
    returned: Arc<Notify>,
    /// Whose turn it is to ask again where none could be had.
    turns: Arc<Semaphore>,
    /// Until when a connection is asked for again where none could be had.
    patience: Option<Instant>,
}

impl Database {
    /// A pool over the database at `address`. No connection is opened yet. Must be called inside the shared runtime: idle
    /// connections are closed by a task there.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] when the limits make no pool.
    pub fn new(address: Address, io: Handle, limits: PoolLimits) -> Result<Self, StoreError> {
        let config = address.config().clone();
        let pooled = address.is_behind_pooler();
        let connect = OnRuntime { io: io.clone(), address };
        let manager =
            Manager::from_connect(config, connect, ManagerConfig { recycling_method: RecyclingMethod::Fast });
        let pool = Pool::builder(manager)
            .max_size(limits.max_size)
            .wait_timeout(Some(limits.wait))
            .create_timeout(Some(limits.connect))
            .recycle_timeout(Some(limits.connect))
            .runtime(Runtime::Tokio1)
            .post_create(prepare_all(pooled, limits.connect))
            .build()
            .map_err(|_| StoreError::Unavailable { reason: "the pool could not be built" })?;
        io.spawn(close_idle(pool.clone(), limits.idle));
        let rules = LeaseRules { answer: limits.answer, pooled };
        Ok(Self { pool, rules, returned: Arc::default(), turns: Arc::new(Semaphore::new(1)), patience: None })
    }

    /// `select 1`, for `/ready` (HTTP-3).
    ///
    /// # Errors
    /// When there is no connection or the server does not answer.
    pub async fn ping(&self) -> Result<(), StoreError> {
        let lease = self.lease().await?;
        lease.client()?.batch_execute("select 1").await?;
        lease.give_back();
        Ok(())
    }

    /// Takes a connection. When the lease is dropped without [`Lease::give_back`], as happens when the work is
    /// abandoned at its time limit, the connection is closed: its next user would wait behind that work (ARC-31).
    pub(super) async fn lease(&self) -> Result<Lease, StoreError> {
        let Some(until) = self.patience else { return self.ask().await };
        let mut cause = StoreError::Unavailable { reason: ALL_BUSY };
        let asking = tokio::time::timeout_at(until.into(), self.ask_again(&mut cause)).await;
        asking.unwrap_or(Err(cause))
    }

    /// The same pool for work that has time: where no connection can be had it asks again until then. Nothing of the work is
    /// sent meanwhile, and when the time is over it is [`StoreError::Unavailable`], nothing else (ARC-31, DEC-26).
    #[must_use]
    pub fn until(&self, patience: Instant) -> Self {
        Self { patience: Some(patience), ..self.clone() }
    }

    async fn ask(&self) -> Result<Lease, StoreError> {
        let object = self.pool.get().await.map_err(unavailable)?;
        Ok(Lease::new(object, self.rules, Arc::clone(&self.returned)))
    }

    /// A server that refuses another connection, or is starting, may take one in a moment; and the pool tells whoever asked
    /// for a new one nothing of those that are given back. Who waits longest asks first.
    async fn ask_again(&self, cause: &mut StoreError) -> Result<Lease, StoreError> {
        loop {
            match self.ask().await {
                Err(error) if !self.pool.is_closed() => *cause = error,
                asked => return asked,
            }
            // Whatever ends the wait: it is asked again.
            tokio::select! {
                () = self.returned.notified() => {}
                () = self.my_turn() => {}
            }
        }
    }

    /// One of all who wait, after the pause.
    async fn my_turn(&self) {
        // It is never closed.
        let _turn = self.turns.acquire().await;
        tokio::time::sleep(PAUSE).await;
    }

    /// Closes every connection; running work fails.
    pub fn close(&self) {
        self.pool.close();
    }

    /// Connections open and in use, for observation.
    #[must_use]
    pub fn in_use(&self) -> (usize, usize) {
        let status = self.pool.status();
        (status.size, status.size.saturating_sub(status.available))
    }
}

const ALL_BUSY: &str = "every connection is busy or the server does not answer";

fn unavailable(error: PoolError) -> StoreError {
    let reason = match error {
        PoolError::Timeout(_) => ALL_BUSY,
        PoolError::Closed => "the service is stopping",
        PoolError::PostCreateHook(_) => "a statement could not be prepared",
        PoolError::Backend(error) => return unreachable_because(&error).brief(),
        PoolError::NoRuntimeSpecified => "no runtime",
    };
    StoreError::Unavailable { reason }
}

/// Prepares every statement of the request path on a new connection, so that a flight never waits for it (ARC-6).
/// A statement that the server refuses does not make the connection useless: its own user meets the error.
fn prepare_all(pooled: bool, limit: Duration) -> Hook {
    Hook::async_fn(move |client, _| {
        Box::pin(async move {
            // The pool's own limit ends when the connection is open.
            let preparing = tokio::time::timeout(limit, prepare(client, pooled));
            match preparing.await {
                Ok(prepared) => prepared.map_err(HookError::Backend),
                Err(_) => Err(HookError::message("no answer")),
            }
        })
    })
}

/// Behind a transaction pooler a setting of the session would reach others, so there is none (DEC-29): limits of locks
/// and of idle transactions are then set in each transaction ([`Lease::begin`]).
async fn prepare(client: &ClientWrapper, pooled: bool) -> Result<(), tokio_postgres::Error> {
    if !pooled {
        // All at once and each by itself: a server that refuses one works without it.
        join_all(statements::SESSION.iter().map(|sql| client.batch_execute(sql))).await;
    }
    // All at once: the first message of a process waits for this, one flight instead of one a statement.
    let preparing = statements::REQUEST_PATH.iter().map(|sql| client.prepare_cached(sql));
    for prepared in join_all(preparing).await {
        if let Err(error) = prepared
            && error.code().is_none()
        {
            return Err(error);
        }
    }
    Ok(())
}

/// Opens one connection outside the pool, driven on the runtime of the caller.
///
/// # Errors
/// [`StoreError::Unavailable`] when the server cannot be reached or refuses the login.
pub async fn connect(address: &Address) -> Result<Client, StoreError> {
    in_time(async {
        let (client, driver) = address.open().await.map_err(|error| unreachable_because(&error))?;
        tokio::spawn(driver);
        Ok(client)
    })
    .await
}

/// Bounds the opening of a connection outside the pool.
pub(super) async fn in_time<T>(
    opening: impl Future<Output = Result<T, StoreError>>,
) -> Result<T, StoreError> {
    let opened = tokio::time::timeout(PoolLimits::default().connect, opening).await;
    opened.unwrap_or(Err(StoreError::Unavailable {
        reason: "the server accepts connections and does not answer; check that the port is a Postgres server's",
    }))
}

async fn close_idle(pool: Pool, idle: Duration) {
    let mut ticks = tokio::time::interval(idle / 3);
    while !pool.is_closed() {
        ticks.tick().await;
        pool.retain(|_, metrics| metrics.last_used() < idle);
    }
}

/// A connection that is being opened. Who stops waiting for it closes it: a server that accepts and never answers would
/// collect sockets otherwise.
struct Opening<T>(JoinHandle<T>);

impl<T> Drop for Opening<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Opens sockets and runs their driver on the shared runtime.
struct OnRuntime {
    io: Handle,
    address: Address,
}

impl Connect for OnRuntime {
    fn connect(&self, _: &Config) -> BoxFuture<'_, Result<(Client, JoinHandle<()>), tokio_postgres::Error>> {
        let io = self.io.clone();
        let address = self.address.clone();
        Box::pin(async move {
            let mut opening = Opening(io.spawn(async move {
                let (client, driver) = address.open().await?;
                Ok((client, tokio::spawn(driver)))
            }));
            match (&mut opening.0).await {
                Ok(opened) => opened,
                Err(stopped) => match stopped.try_into_panic() {
                    Ok(panic) => std::panic::resume_unwind(panic),
                    // The runtime is going down: nobody waits for a connection any longer.
                    Err(_) => std::future::pending().await,
                },
            }
        })
    }
}

#[cfg(test)]
#[path = "pool_tests.rs"]
mod tests;
