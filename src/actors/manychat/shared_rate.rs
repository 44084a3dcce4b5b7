//! Taking places in the rate that all processes share (ARC-48).

use std::num::NonZeroU32;
use std::time::Duration;

use futures_util::future::BoxFuture;

use crate::domain::TenantId;
use crate::store::rate::{self, RateLimit};
use crate::store::{Database, StoreError};
use crate::telemetry::Seldom;

/// How long the database may take for a place before our own share is used.
const LIMIT: Duration = Duration::from_millis(500);

/// Where places come from. A trait so that tests need no database.
pub(in crate::actors) trait SharedRate: Send + Sync + 'static {
    /// The wait for the next place and the number of live processes; `None` when the database is silent.
    fn reserve(&self) -> BoxFuture<'_, Option<(Duration, u32)>>;
    /// Makes every process pause; done as well as it can be.
    fn push(&self, pause: Duration) -> BoxFuture<'_, ()>;
}

/// The row in the database.
pub(in crate::actors) struct DatabaseRate {
    database: Database,
    tenant: TenantId,
    process_dead: Duration,
    limit: RateLimit,
}

impl DatabaseRate {
    /// The rate of this tenant's account: so many calls a second. `process_dead`: `PROCESS_DEAD_MS`.
    pub(in crate::actors) fn new(
        database: Database,
        tenant: TenantId,
        process_dead: Duration,
        calls_per_second: NonZeroU32,
    ) -> Self {
        Self { database, tenant, process_dead, limit: RateLimit::per_second(calls_per_second) }
    }
}

impl SharedRate for DatabaseRate {
    fn reserve(&self) -> BoxFuture<'_, Option<(Duration, u32)>> {
        Box::pin(async move {
            let asking = rate::reserve(&self.database, &self.tenant, self.limit, self.process_dead);
            match in_time(asking).await {
                Ok(place) => Some((place.wait, place.alive)),
                Err(error) => {
                    static TOLD: Seldom = Seldom::new();
                    if TOLD.now() {
                        tracing::warn!(err = %error, "shared rate not available; using this process's share");
                    }
                    None
                }
            }
        })
    }

    fn push(&self, pause: Duration) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            let pushing = rate::push(&self.database, &self.tenant, self.limit, pause);
            if let Err(error) = in_time(pushing).await {
                tracing::warn!(err = %error, "other processes not told to slow down");
            }
        })
    }
}

async fn in_time<T>(work: impl Future<Output = Result<T, StoreError>>) -> Result<T, StoreError> {
    tokio::time::timeout(LIMIT, work).await.unwrap_or(Err(StoreError::InDoubt))
}
