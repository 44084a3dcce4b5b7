//! The rate towards ManyChat that all processes of a tenant share: one row, a generic cell rate (ARC-48). Times are
//! the database's (ARC-50).

use std::num::NonZeroU32;
use std::time::Duration;

use super::{Database, StoreError};
use crate::domain::TenantId;

/// Longest time that a refusal can push the rate away.
const LONGEST_PUSH: Duration = Duration::from_secs(60);

/// Takes the next place and says how long to wait for it, and how many processes are alive. A clock of the database
/// that was set back leaves a time far in the future; it is cut down to what a push can make, or every call would
/// wait for that clock. $2: seconds between calls; $3: seconds that a full burst makes up for; $4: longest time ahead;
/// $5: seconds after which a process is dead. The one row is wanted by every call of every process, and whoever has it would
/// keep it until the disk has it: a place that a crash of the server forgets costs less, so the commit does not wait.
pub(super) const RESERVE: &str = "
    insert into rs_rate as r (tenant_id, tat)
    select $1::text, clock_timestamp() + make_interval(secs => $2)
    where set_config('synchronous_commit', 'off', true) is not null
    on conflict (tenant_id) do update
      set tat = greatest(least(r.tat, clock_timestamp() + make_interval(secs => $4)), clock_timestamp())
                + make_interval(secs => $2)
    returning
      greatest(extract(epoch from r.tat - clock_timestamp())::float8 - $3::float8, 0) as wait,
      (select count(*) from rs_processes p
       where p.tenant_id = r.tenant_id and p.beat_at > statement_timestamp() - make_interval(secs => $5)) as alive";

/// Keeps every place free for $2 seconds; after that the burst is used up too ($3).
const PUSH: &str = "
    insert into rs_rate as r (tenant_id, tat)
    values ($1, clock_timestamp() + make_interval(secs => $2::float8 + $3::float8))
    on conflict (tenant_id) do update
      set tat = greatest(r.tat, clock_timestamp() + make_interval(secs => $2::float8 + $3::float8))";

/// What the rate allows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RateLimit {
    /// Time between two calls in the long run.
    pub interval: Duration,
    /// Calls that may go at once after a pause.
    pub burst: u32,
}

/// A place in the shared rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reservation {
    /// How long to wait before the call may start.
    pub wait: Duration,
    /// Processes of the tenant that are alive, this one included; at least 1.
    pub alive: u32,
}

impl RateLimit {
    /// So many calls in the long run, 5 at once (API-4).
    #[must_use]
    pub fn per_second(calls: NonZeroU32) -> Self {
        let interval = (Duration::from_secs(1) / calls.get()).max(Duration::from_nanos(1));
        Self { interval, burst: 5 }
    }

    fn burst_time(&self) -> Duration {
        self.interval * self.burst
    }
}

/// Takes the next place. A place that is not used is lost, and costs one interval.
///
/// # Errors
/// When the database does not answer; the place may be taken all the same.
pub async fn reserve(
    database: &Database,
    tenant: &TenantId,
    limit: RateLimit,
    process_dead: Duration,
) -> Result<Reservation, StoreError> {
    let lease = database.lease().await?;
    let statement = lease.prepared(RESERVE).await?;
    let farthest = LONGEST_PUSH + limit.burst_time() * 4;
    let row = lease
        .client()?
        .query_one(
            &statement,
            &[
                &tenant.as_str(),
                &limit.interval.as_secs_f64(),
                &limit.burst_time().as_secs_f64(),
                &farthest.as_secs_f64(),
                &process_dead.as_secs_f64(),
            ],
        )
        .await?;
    lease.give_back();
    let wait: f64 = row.try_get("wait")?;
    let alive: i64 = row.try_get("alive")?;
    Ok(Reservation {
        wait: Duration::try_from_secs_f64(wait).unwrap_or_default(),
        alive: u32::try_from(alive.max(1)).unwrap_or(u32::MAX),
    })
}

/// Keeps every process from calling for `pause`, at most a minute: ManyChat has said that it is too much (GAP-DL-8).
///
/// # Errors
/// When the statement may not have run; the caller's own pause holds all the same.
pub async fn push(
    database: &Database,
    tenant: &TenantId,
    limit: RateLimit,
    pause: Duration,
) -> Result<(), StoreError> {
    let lease = database.lease().await?;
    let statement = lease.prepared(PUSH).await?;
    let pause = pause.min(LONGEST_PUSH).as_secs_f64();
    lease
        .client()?
        .execute(&statement, &[&tenant.as_str(), &pause, &limit.burst_time().as_secs_f64()])
        .await?;
    lease.give_back();
    Ok(())
}

#[cfg(test)]
#[path = "rate_tests.rs"]
mod tests;
