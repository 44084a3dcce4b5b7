//! Processes and their heartbeats, by the database's clock (ARC-44, ARC-50).

use tokio_postgres::Client;

use super::{Database, StoreError};
use crate::domain::{ProcessId, TenantId};

const BEAT: &str = "insert into rs_processes (id, tenant_id) values ($1, $2)
    on conflict (id) do update set beat_at = clock_timestamp()";

const LEAVE: &str = "delete from rs_processes where id = $1";

/// Registers the process or renews its beat, on the heartbeat's own connection.
///
/// # Errors
/// When the beat may not have arrived.
pub async fn beat(client: &Client, process: ProcessId, tenant: &TenantId) -> Result<(), StoreError> {
    client.execute(BEAT, &[process.as_uuid(), &tenant.as_str()]).await?;
    Ok(())
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
