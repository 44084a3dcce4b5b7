//! How connections are had, and what becomes of those that are not.

use tokio::io::AsyncReadExt;
use tokio::net::TcpListener;
use tokio::time::timeout;

use super::*;
use crate::store::embedded::testing::{TestDatabase, TestServer};
use crate::store::notices::Listener;

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
    assert!(
        matches!(database.lease().await, Err(StoreError::Unavailable { .. })),
        "the server gives no second"
    );
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
    let patient = database.until(Instant::now() + Duration::from_secs(3600));
    let asked = timeout(Duration::from_secs(30), patient.lease()).await.unwrap();
    assert!(matches!(asked, Err(StoreError::Unavailable { .. })));
}

/// A server, or what stands before one, that accepts and never answers.
async fn deaf() -> (TcpListener, Address) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut config = Config::new();
    config.host("127.0.0.1").port(listener.local_addr().unwrap().port()).user("nobody").dbname("nothing");
    (listener, config.into())
}

/// DEC-26: a server that gives no connection is asked again for all who wait together, not by each of them.
#[tokio::test]
async fn many_who_wait_ask_as_one() {
    const WAITING: usize = 60;
    let (listener, address) = deaf().await;
    let database = Database::new(address, Handle::current(), PoolLimits::default()).unwrap();
    let patient = database.until(Instant::now() + Duration::from_secs(1));
    let asking = futures_util::future::join_all((0..WAITING).map(|_| patient.lease()));
    tokio::pin!(asking);
    let mut asked = 0;
    let given_up = loop {
        tokio::select! {
            // Taken and dropped at once: refused.
            opened = listener.accept() => asked += usize::from(opened.is_ok()),
            given_up = &mut asking => break given_up,
        }
    };
    assert!(given_up.iter().all(Result::is_err));
    let second = usize::try_from(Duration::from_secs(1).as_millis() / PAUSE.as_millis()).unwrap();
    assert!((2..=WAITING + second + 10).contains(&asked), "asked {asked} times");
}

/// ARC-31: a connection that nobody waits for any longer is closed, whoever has stopped waiting: the pool or its user.
#[tokio::test]
async fn an_abandoned_opening_leaves_no_socket() {
    let (listener, address) = deaf().await;
    let short = PoolLimits { connect: Duration::from_millis(50), ..PoolLimits::default() };
    for (limits, user) in
        [(short, Duration::from_secs(60)), (PoolLimits::default(), Duration::from_millis(50))]
    {
        let database = Database::new(address.clone(), Handle::current(), limits).unwrap();
        assert!(!matches!(timeout(user, database.lease()).await, Ok(Ok(_))));
        let (mut socket, _) = listener.accept().await.unwrap();
        let mut sent = Vec::new();
        timeout(Duration::from_secs(30), socket.read_to_end(&mut sent)).await.unwrap().unwrap();
        assert!(!sent.is_empty(), "the greeting, then the end");
    }
}

/// ARC-47a: who listens for notices gives a server up that does not answer, and can ask again.
#[tokio::test(start_paused = true)]
async fn a_listener_does_not_wait_for_ever() {
    let (_listener, address) = deaf().await;
    let opened = timeout(Duration::from_secs(60), Listener::open(&address)).await.unwrap();
    assert!(matches!(opened, Err(StoreError::Unavailable { .. })));
}
