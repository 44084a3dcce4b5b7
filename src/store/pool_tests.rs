//! How connections are had, and what becomes of those that are not.

use tokio::time::timeout;

use super::*;
use crate::store::embedded::testing::{TestDatabase, TestServer};

/// A pool whose user may have one connection, and the statement that takes the user away again.
async fn limited(server: &TestDatabase) -> (Database, String) {
    let name = format!("limited_{}", server.name().replace('-', "_"));
    let client = server.connect().await.unwrap();
    let create = format!("create role {name} login password 'test' connection limit 1");
    client.batch_execute(&create).await.unwrap();
    let mut config = server.config().clone();
    config.user(&name).password("test");
    let pool = Database::new(config.into(), Handle::current(), PoolLimits::default()).unwrap();
    (pool, format!("drop role {name}"))
}

/// ARC-31, DEC-26: work that has time waits for a connection of ours when the server gives no more; without time, or when it
/// is over, nothing was sent.
#[tokio::test]
async fn who_has_time_waits_for_a_connection_of_ours() {
    let server = TestServer::database().unwrap();
    let (database, drop_role) = limited(&server).await;
    let only = database.lease().await.unwrap();
    assert!(matches!(database.lease().await, Err(StoreError::Unavailable { .. })), "the server gives no second");
    let soon = database.until(Instant::now() + Duration::from_millis(120)).lease().await;
    assert!(matches!(soon, Err(StoreError::Unavailable { .. })), "nothing was sent");
    let patient = database.until(Instant::now() + Duration::from_secs(30));
    let (first, second, ()) = tokio::join!(
        async { patient.lease().await.map(Lease::give_back) },
        async { patient.lease().await.map(Lease::give_back) },
        async {
            tokio::task::yield_now().await;
            only.give_back();
        }
    );
    first.unwrap();
    second.unwrap();
    database.close();
    drop(database);
    drop(patient);
    let client = server.connect().await.unwrap();
    client.batch_execute(&drop_role).await.unwrap();
}

/// A pool that is closed makes nobody wait (ARC-49).
#[tokio::test]
async fn a_closed_pool_ends_every_wait() {
    let server = TestServer::database().unwrap();
    let database =
        Database::new(server.config().clone().into(), Handle::current(), PoolLimits::default()).unwrap();
    database.close();
    let asked = database.until(Instant::now() + Duration::from_secs(3600)).lease();
    let asked = timeout(Duration::from_secs(30), asked).await.unwrap();
    assert!(matches!(asked, Err(StoreError::Unavailable { .. })));
}
