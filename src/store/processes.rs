//! Processes and their heartbeats, by the database's clock (ARC-44, ARC-50).

use tokio_postgres::Client;

use super::{Database, StoreError};
use crate::domain::{ProcessId, TenantId};

/// A process that is not known yet, or was registered a moment ago by a statement that did not answer.
const ENTER: &str = "insert into rs_processes as p (id, tenant_id) values ($1, $2)
    on conflict (id) do update set beat_at = clock_timestamp()
      where p.beat_at > clock_timestamp() - make_interval(secs => $3)";

/// A row that others count as dead, or have removed, stays as it is: whatever was taken under its id is theirs.
const BEAT: &str = "update rs_processes set beat_at = clock_timestamp()
    where id = $1 and beat_at > clock_timestamp() - make_interval(secs => $2)";

const LEAVE: &str = "delete from rs_processes where id = $1";

/// What a beat came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beat {
    /// The id is alive to everybody.
    Alive,
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

/// Renews the beat of a registered process, unless it counts as dead by now.
///
/// # Errors
/// When the beat may not have arrived: call again.
pub async fn beat(client: &Client, process: ProcessId, dead_secs: f64) -> Result<Beat, StoreError> {
    Ok(Beat::of(client.execute(BEAT, &[process.as_uuid(), &dead_secs]).await?))
}

/// Takes the process off the list at shutdown: whatever it still held counts as free from now on.
///
/// # Errors
/// When the row may still be there; it is then taken for dead after its time.
pub async fn leave(client: &Client, process: ProcessId) -> Result<(), StoreError> {
    client.execute(LEAVE, &[process.as_uuid()]).await?;
    Ok(())
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
    /// they have removed does not come back; a living one goes on, and a first beat may be repeated.
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
        assert_eq!(beat(&client, process, DEAD).await.unwrap(), Beat::Dead);
        assert_eq!(enter(&client, process, &tenant, DEAD).await.unwrap(), Beat::Dead);
        let old =
            "select count(*) from rs_processes where beat_at < clock_timestamp() - interval '20 seconds'";
        assert_eq!(client.query_one(old, &[]).await.unwrap().get::<_, i64>(0), 1, "the row stays as old");
        leave(&client, process).await.unwrap();
        assert_eq!(beat(&client, process, DEAD).await.unwrap(), Beat::Dead, "nor is it made anew");
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
