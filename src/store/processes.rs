//! Processes and their heartbeats, by the database's clock (ARC-44, ARC-50).

use tokio_postgres::Client;

use super::{Database, StoreError};
use crate::domain::{ProcessId, TenantId};

/// Whether the process in the column `$process` is dead to the process `$own`, by the database's clock: silent for `$after`
/// seconds (ARC-44). Never its own. Nor does a process whose own beat looks older than it lets a beat become before it judges
/// call anybody dead: then the clock was set forward, or another server with another clock has taken over, and every beat
/// looks as old until the next one.
macro_rules! dead {
    ($process:literal, own: $own:literal, after: $after:literal) => {
        concat!(
            "(",
            $process,
            " is distinct from ",
            $own,
            "::uuid
             and not exists (select 1 from rs_processes p where p.id = ",
            $process,
            " and p.beat_at > statement_timestamp() - make_interval(secs => ",
            $after,
            "::float8))
             and not exists (select 1 from rs_processes me where me.id = ",
            $own,
            "::uuid and ",
            $after,
            "::float8 > 0 and me.beat_at <= statement_timestamp() - make_interval(secs => ",
            $after,
            "::float8 * 0.45)))"
        )
    };
}

pub(super) use dead;

/// A process that is not known yet, or was registered a moment ago by a statement that did not answer.
const ENTER: &str = "insert into rs_processes as p (id, tenant_id) values ($1, $2)
    on conflict (id) do update set beat_at = clock_timestamp()
      where p.beat_at > clock_timestamp() - make_interval(secs => $3)";

/// A row that others count as dead, or have removed, stays as it is: whatever was taken under its id is theirs. Where nobody
/// else of the tenant has been alive since, nobody can have taken anything: it beats on, for a clock that was set forward makes
/// every row look old. `stepped`: the last beat looks older than a beat becomes before its process judges nobody any more.
const BEAT: &str = "update rs_processes p set beat_at = clock_timestamp()
    from (select id, beat_at from rs_processes where id = $1 for update) last
    where p.id = last.id
      and (last.beat_at > clock_timestamp() - make_interval(secs => $2)
        or not exists (select 1 from rs_processes q
                       where q.tenant_id = p.tenant_id and q.id <> p.id
                         and q.beat_at > last.beat_at - make_interval(secs => $2)))
    returning last.beat_at <= clock_timestamp() - make_interval(secs => $2::float8 * 0.45) as stepped";

const LEAVE: &str = "delete from rs_processes where id = $1";

/// What a beat came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beat {
    /// The id is alive to everybody.
    Alive,
    /// The same, but by the database's clock the last beat was long ago. When that is not so by the clock of this machine, the
    /// database's was set forward, and others may look dead who are not (ARC-44).
    AliveAfterStep,
    /// Others have counted the id as dead: it never beats again (ARC-44).
    Dead,
}

impl Beat {
    const fn of(changed: u64) -> Self {
        if changed == 0 { Self::Dead } else { Self::Alive }
    }
}

/// Registers a process, on the heartbeat's own connection: its first beat. `dead_secs`: `PROCESS_DEAD_MS`.
///
/// # Errors
/// When the beat may not have arrived: call again.
pub async fn enter(
    client: &Client,
    process: ProcessId,
    tenant: &TenantId,
    dead_secs: f64,
) -> Result<Beat, StoreError> {
    let changed = client.execute(ENTER, &[process.as_uuid(), &tenant.as_str(), &dead_secs]).await?;
    Ok(Beat::of(changed))
}

/// Renews the beat of a registered process, unless it counts as dead to others by now.
///
/// # Errors
/// When the beat may not have arrived: call again.
pub async fn beat(client: &Client, process: ProcessId, dead_secs: f64) -> Result<Beat, StoreError> {
    let Some(row) = client.query_opt(BEAT, &[process.as_uuid(), &dead_secs]).await? else {
        return Ok(Beat::Dead);
    };
    Ok(if row.try_get("stepped")? { Beat::AliveAfterStep } else { Beat::Alive })
}

/// Takes the process off the list at shutdown: whatever it still held counts as free from now on.
///
/// # Errors
/// When the row may still be there; it is then taken for dead after its time.
pub async fn leave(client: &Client, process: ProcessId) -> Result<(), StoreError> {
    client.execute(LEAVE, &[process.as_uuid()]).await?;
    Ok(())
}

/// Rows that somebody is about to renew are left to them. A second is no step: who asks may be that much behind.
const PULL_BACK: &str = "
    update rs_processes set beat_at = clock_timestamp()
    where id in (select id from rs_processes
                 where tenant_id = $1 and beat_at > clock_timestamp() + interval '1 second'
                 order by id for update skip locked)";

/// Dates beats of the future now: the clock has been set back since, and a process that is dead would count as alive for as
/// long, with all that it held (ARC-42). From now on it has as long as everybody.
///
/// # Errors
/// When the database does not answer: call again.
pub async fn pull_back(database: &Database, tenant: &TenantId) -> Result<u64, StoreError> {
    let lease = database.lease().await?;
    let statement = lease.prepared(PULL_BACK).await?;
    let pulled = lease.client()?.execute(&statement, &[&tenant.as_str()]).await?;
    lease.give_back();
    Ok(pulled)
}

/// Everybody reads a row that is gone as one that has been silent for too long, so nothing that refers to it changes.
const FORGET: &str = "
    delete from rs_processes where tenant_id = $1 and beat_at < clock_timestamp() - interval '1 day'";

/// Deletes the rows of processes that have been silent for a day; returns how many.
///
/// # Errors
/// When the database does not answer: they go another time.
pub async fn forget_silent(database: &Database, tenant: &TenantId) -> Result<u64, StoreError> {
    let lease = database.lease().await?;
    let statement = lease.prepared(FORGET).await?;
    let gone = lease.client()?.execute(&statement, &[&tenant.as_str()]).await?;
    lease.give_back();
    Ok(gone)
}

#[cfg(test)]
mod tests {
    use tokio::runtime::Handle;

    use super::*;
    use crate::store::PoolLimits;
    use crate::store::embedded::testing::TestServer;

    const DEAD: f64 = 20.0;

    /// ARC-44: an id that others count as dead never beats again, be its statement ever so late, and an id whose row
    /// they have removed does not come back; a living one goes on, and a first beat may be repeated. Whoever was alone all the
    /// while is dead to nobody, however old the clock makes its beat.
    #[tokio::test]
    async fn a_dead_id_never_beats_again() {
        let server = TestServer::database().unwrap();
        let client = server.connect().await.unwrap();
        let (tenant, process) = (TenantId::new("t").unwrap(), ProcessId::fresh());
        for _ in 0..2 {
            assert_eq!(enter(&client, process, &tenant, DEAD).await.unwrap(), Beat::Alive);
        }
        assert_eq!(beat(&client, process, DEAD).await.unwrap(), Beat::Alive);
        let back = "update rs_processes set beat_at = beat_at - interval '21 seconds'";
        client.batch_execute(back).await.unwrap();
        assert_eq!(beat(&client, process, DEAD).await.unwrap(), Beat::AliveAfterStep, "alone");
        assert_eq!(beat(&client, process, DEAD).await.unwrap(), Beat::Alive);
        client.batch_execute(back).await.unwrap();
        enter(&client, ProcessId::fresh(), &tenant, DEAD).await.unwrap();
        assert_eq!(beat(&client, process, DEAD).await.unwrap(), Beat::Dead);
        assert_eq!(enter(&client, process, &tenant, DEAD).await.unwrap(), Beat::Dead);
        let old =
            "select count(*) from rs_processes where beat_at < clock_timestamp() - interval '20 seconds'";
        assert_eq!(client.query_one(old, &[]).await.unwrap().get::<_, i64>(0), 1, "the row stays as old");
        leave(&client, process).await.unwrap();
        assert_eq!(beat(&client, process, DEAD).await.unwrap(), Beat::Dead, "nor is it made anew");
    }

    /// ARC-42, ARC-44: a beat of the future, from before the clock was set back, makes nobody immortal.
    #[tokio::test]
    async fn a_beat_of_the_future_is_pulled_back() {
        let server = TestServer::database().unwrap();
        let client = server.connect().await.unwrap();
        let database =
            Database::new(server.config().clone().into(), Handle::current(), PoolLimits::default()).unwrap();
        let rows = "insert into rs_processes (id, tenant_id, beat_at) values
            (gen_random_uuid(), 't', now() + interval '1 hour'),
            (gen_random_uuid(), 't', now() - interval '5 seconds'),
            (gen_random_uuid(), 'other', now() + interval '1 hour')";
        client.batch_execute(rows).await.unwrap();
        let tenant = TenantId::new("t").unwrap();
        assert_eq!(pull_back(&database, &tenant).await.unwrap(), 1);
        let sql = "select count(*) from rs_processes
                   where tenant_id = 't' and beat_at between now() - interval '8 seconds' and clock_timestamp()";
        assert_eq!(client.query_one(sql, &[]).await.unwrap().get::<_, i64>(0), 2);
        assert_eq!(pull_back(&database, &tenant).await.unwrap(), 0);
    }

    /// ARC-44: the list of processes does not grow with every crash; whoever has beaten within a day stays on it.
    #[tokio::test]
    async fn only_long_silent_processes_of_the_tenant_are_forgotten() {
        let server = TestServer::database().unwrap();
        let client = server.connect().await.unwrap();
        let database =
            Database::new(server.config().clone().into(), Handle::current(), PoolLimits::default()).unwrap();
        let rows = "insert into rs_processes (id, tenant_id, beat_at) values
            (gen_random_uuid(), 't', now() - interval '25 hours'),
            (gen_random_uuid(), 't', now() - interval '23 hours'),
            (gen_random_uuid(), 'other', now() - interval '25 hours')";
        client.batch_execute(rows).await.unwrap();
        assert_eq!(forget_silent(&database, &TenantId::new("t").unwrap()).await.unwrap(), 1);
        let kept = client.query("select 1 from rs_processes", &[]).await.unwrap();
        assert_eq!(kept.len(), 2);
    }
}
