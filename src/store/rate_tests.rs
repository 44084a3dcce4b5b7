//! The shared rate on a real server.

use tokio_postgres::Client;

use super::*;
use crate::domain::ProcessId;
use crate::store::PoolLimits;
use crate::store::embedded::testing::{TestDatabase, TestServer};
use crate::store::processes;

const LIMIT: RateLimit = RateLimit { interval: Duration::from_millis(100), burst: 5 };
const DEAD: Duration = Duration::from_secs(20);

struct Bench {
    database: Database,
    client: Client,
    tenant: TenantId,
    _owner: TestDatabase,
}

impl Bench {
    async fn new() -> Self {
        let owner = TestServer::database().unwrap();
        let io = tokio::runtime::Handle::current();
        let database = Database::new(owner.config().clone().into(), io, PoolLimits::default()).unwrap();
        let client = owner.connect().await.unwrap();
        Self { database, client, tenant: TenantId::new("t").unwrap(), _owner: owner }
    }

    async fn reserve(&self) -> Reservation {
        reserve(&self.database, &self.tenant, LIMIT, DEAD).await.unwrap()
    }

    /// Puts the shared time this far ahead, or behind.
    async fn set(&self, ahead: f64) {
        let sql = "insert into rs_rate values ('t', clock_timestamp() + make_interval(secs => $1))
                   on conflict (tenant_id) do update set tat = excluded.tat";
        self.client.execute(sql, &[&ahead]).await.unwrap();
    }
}

/// True when `wait` is `expected`, less what has passed since, which can be seconds on a busy machine.
fn about(wait: Duration, expected: Duration) -> bool {
    wait <= expected && wait + Duration::from_secs(6) > expected
}

/// ARC-48, PROC-3, GAP-DL-4, DEC-8, BUCKET-3: five places at once for all processes together, then one in 100 ms.
#[tokio::test(flavor = "multi_thread")]
async fn processes_share_one_burst_and_one_rate() {
    let bench = Bench::new().await;
    // A rate so slow that the time this test takes does not matter.
    let slow = RateLimit { interval: Duration::from_secs(60), burst: 5 };
    let mut waits = Vec::new();
    let taken =
        futures_util::future::join_all((0..8).map(|_| reserve(&bench.database, &bench.tenant, slow, DEAD)));
    for place in taken.await {
        waits.push((place.unwrap().wait.as_secs_f64() / 60.0).round());
    }
    waits.sort_by(f64::total_cmp);
    // The longest time ahead (a minute, and four full bursts) does not matter here.
    assert_eq!(waits, [0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 2.0, 3.0]);
}

/// ARC-48: the next place follows the last one, however long nobody called.
#[tokio::test]
async fn a_pause_gives_a_full_burst_and_no_more() {
    let bench = Bench::new().await;
    bench.set(-3600.0).await;
    assert_eq!(bench.reserve().await.wait, Duration::ZERO);
    bench.set(30.0).await;
    assert!(about(bench.reserve().await.wait, Duration::from_millis(29_600)));
}

/// GAP-DL-8: a push keeps everybody waiting, and nobody has a burst after it.
#[tokio::test]
async fn a_push_makes_everybody_wait() {
    let bench = Bench::new().await;
    push(&bench.database, &bench.tenant, LIMIT, Duration::from_secs(10)).await.unwrap();
    assert!(about(bench.reserve().await.wait, Duration::from_millis(10_100)));
    push(&bench.database, &bench.tenant, LIMIT, Duration::from_secs(3)).await.unwrap();
    assert!(
        about(bench.reserve().await.wait, Duration::from_millis(10_200)),
        "a shorter push changes nothing"
    );
    push(&bench.database, &bench.tenant, LIMIT, Duration::from_secs(100_000)).await.unwrap();
    assert!(about(bench.reserve().await.wait, Duration::from_millis(60_100)), "at most a minute");
}

/// A database's clock that was set back must not stop deliveries until it has caught up.
#[tokio::test]
async fn a_time_far_ahead_is_cut_down() {
    let bench = Bench::new().await;
    bench.set(86_400.0).await;
    assert!(bench.reserve().await.wait < Duration::from_secs(63));
}

/// ARC-48, ARC-44: a place says how many processes of the tenant are alive.
#[tokio::test]
async fn a_place_counts_the_living() {
    let bench = Bench::new().await;
    assert_eq!(bench.reserve().await.alive, 1, "a process without a beat still counts itself");
    for tenant in ["t", "t", "t", "other"] {
        let tenant = TenantId::new(tenant).unwrap();
        processes::enter(&bench.client, ProcessId::fresh(), &tenant, 20.0).await.unwrap();
    }
    let dead = "update rs_processes set beat_at = beat_at - interval '21 seconds'
                where id = (select id from rs_processes where tenant_id = 't' limit 1)";
    bench.client.execute(dead, &[]).await.unwrap();
    assert_eq!(bench.reserve().await.alive, 2);
}
