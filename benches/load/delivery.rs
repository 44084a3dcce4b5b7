//! The outbox: replies delivered a second with ManyChat's limit lifted, by one process and by two, and how late a due
//! reply is tried.

use std::time::{Duration, Instant};

use tokio::runtime::Runtime;

use crate::figures::{Latencies, millis};
use crate::postgres::{Database, Postgres};
use crate::service::Service;
use crate::stand_in::StandIns;

/// Replies that wait when the processes start.
const WAITING: i32 = 5000;
/// Replies that become due one by one, and the time between two.
const DUE: i32 = 200;
const BETWEEN: Duration = Duration::from_millis(37);
/// They begin to be due so long after they are written.
const LEAD: Duration = Duration::from_secs(2);
/// Longest wait for the last one.
const LIMIT: Duration = Duration::from_secs(120);

/// All parts.
pub fn run(runtime: &Runtime, postgres: &Postgres) -> anyhow::Result<()> {
    for processes in [1, 2] {
        throughput(runtime, postgres, processes)?;
    }
    due(runtime, postgres)
}

fn throughput(runtime: &Runtime, postgres: &Postgres, processes: usize) -> anyhow::Result<()> {
    let outside = StandIns::start(Duration::ZERO)?;
    let database = runtime.block_on(postgres.fresh_database("deliveries"))?;
    runtime.block_on(queue(postgres, &database, WAITING, Duration::ZERO, Duration::ZERO))?;
    let began = Instant::now();
    let mut services = Vec::new();
    for place in 0..processes {
        let directory = postgres.directory.join(format!("worker-{place}"));
        std::fs::create_dir_all(&directory)?;
        services.push(Service::spawn_with_workers(&directory, &database.url, &outside.variables())?);
    }
    for service in &mut services {
        runtime.block_on(service.ready())?;
    }
    let ready = began.elapsed();
    runtime.block_on(delivered(postgres, &database, WAITING))?;
    let took = began.elapsed();
    println!(
        "{processes} process(es), limit lifted: {WAITING} replies of one text in {:.1} s after {:.0} ms of start, {:.0} a second",
        took.as_secs_f64(),
        millis(ready),
        f64::from(WAITING) / (took - ready).as_secs_f64(),
    );
    Ok(())
}

fn due(runtime: &Runtime, postgres: &Postgres) -> anyhow::Result<()> {
    let outside = StandIns::start(Duration::ZERO)?;
    let database = runtime.block_on(postgres.fresh_database("due"))?;
    let mut service = Service::spawn_with_workers(&postgres.directory, &database.url, &outside.variables())?;
    runtime.block_on(service.ready())?;
    let first_due = Instant::now() + LEAD;
    runtime.block_on(queue(postgres, &database, DUE, LEAD, BETWEEN))?;
    runtime.block_on(delivered(postgres, &database, DUE))?;
    let calls = outside.take_first_calls();
    let late = |contact: i32| {
        let due = first_due + BETWEEN * contact.unsigned_abs();
        calls.get(&u64::from(contact.unsigned_abs())).map(|call| call.saturating_duration_since(due))
    };
    let late = Latencies::new((1..=DUE).filter_map(late).collect());
    println!(
        "due replies of {DUE} contacts: tried p50 {:.1} ms, p99 {:.1} ms, most {:.1} ms after they were due",
        millis(late.at(0.5)),
        millis(late.at(0.99)),
        millis(late.at(1.0)),
    );
    Ok(())
}

/// Writes replies, one for each contact, the `n`-th due after `lead` and `n` times `between`. The rows are as Settle
/// writes them.
async fn queue(
    postgres: &Postgres,
    database: &Database,
    count: i32,
    lead: Duration,
    between: Duration,
) -> anyhow::Result<()> {
    let client = postgres.client(database).await?;
    client
        .execute(
            "with made as (
               insert into conversations (tenant_id, subscriber_id, channel, turn_count, last_message_at)
               select 'demo', n::text, 'whatsapp', 1, now() from generate_series(1, $1) n
               returning id, subscriber_id)
             insert into outbox (tenant_id, subscriber_id, conversation_id, kind, payload, next_attempt_at)
             select 'demo', subscriber_id, id, 'reply', '{\"messages\":[\"We are open every weekday.\"]}',
                    clock_timestamp() + make_interval(secs => $2 + $3 * subscriber_id::float8)
             from made",
            &[&count, &lead.as_secs_f64(), &between.as_secs_f64()],
        )
        .await?;
    Ok(())
}

/// Waits until so many are delivered.
async fn delivered(postgres: &Postgres, database: &Database, count: i32) -> anyhow::Result<()> {
    let client = postgres.client(database).await?;
    let began = Instant::now();
    loop {
        let row = client.query_one("select count(*) from outbox where status = 'delivered'", &[]).await?;
        let done: i64 = row.try_get(0)?;
        if done >= i64::from(count) {
            return Ok(());
        }
        anyhow::ensure!(began.elapsed() < LIMIT, "only {done} of {count} replies were delivered");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
