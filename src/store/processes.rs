//! Processes and their heartbeats, by the database's clock (ARC-44, ARC-50).

use tokio_postgres::Client;

use super::StoreError;
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
