//! The race: how late the holding line is while thousands of slow turns are open, and what the service adds to a model
//! that answers in time (ARC-71).

use std::time::{Duration, Instant};

use tokio::runtime::Runtime;
use tokio::task::LocalSet;

use crate::client::{Connection, Crowd, Until};
use crate::figures::{Latencies, millis};
use crate::postgres::Postgres;
use crate::process;
use crate::service::Service;
use crate::stand_in::StandIns;

/// Slow turns open at the same time.
const SLOW_TURNS: u64 = 5000;
/// `RACE_DEADLINE_MS` of that part: room to open them all before the first one is due.
const DEADLINE: Duration = Duration::from_secs(9);
/// Over this time they come in.
const ARRIVAL: Duration = Duration::from_secs(8);
/// ManyChat gives up on a request after this.
const LIMIT: Duration = Duration::from_secs(10);
/// Open messages while the model thinks.
const OPEN: usize = 64;
/// How long the model of the second part thinks.
const THINKING: [Duration; 2] = [Duration::ZERO, Duration::from_millis(800)];

/// Both parts.
pub fn run(runtime: &Runtime, postgres: &Postgres, time: Duration) -> anyhow::Result<()> {
    holding_lines(runtime, postgres)?;
    for thinking in THINKING {
        in_time(runtime, postgres, time, thinking)?;
    }
    Ok(())
}

fn holding_lines(runtime: &Runtime, postgres: &Postgres) -> anyhow::Result<()> {
    let outside = StandIns::start(Duration::from_secs(60))?;
    let database = runtime.block_on(postgres.fresh_database("holding"))?;
    let deadline = DEADLINE.as_millis().to_string();
    let mut variables = outside.variables();
    variables.extend([("RACE_DEADLINE_MS", deadline.as_str()), ("MODEL_ABORT_MS", "40000")]);
    let mut service = Service::spawn(&postgres.directory, &database.url, &variables)?;
    runtime.block_on(service.ready())?;
    let local = LocalSet::new();
    let waits = local.block_on(runtime, async {
        let began = Instant::now();
        let writers: Vec<_> = (0..SLOW_TURNS)
            .map(|contact| {
                let address = service.address;
                let after = ARRIVAL.mul_f64(contact as f64 / SLOW_TURNS as f64);
                tokio::task::spawn_local(async move {
                    tokio::time::sleep_until((began + after).into()).await;
                    let mut connection = Connection::open(address).await?;
                    let sent = Instant::now();
                    connection.say(contact, "Where is the workshop?").await?;
                    anyhow::Ok(sent.elapsed())
                })
            })
            .collect();
        let mut waits = Vec::new();
        for writer in writers {
            waits.push(writer.await??);
        }
        anyhow::Ok(waits)
    })?;
    let early = waits.iter().filter(|wait| **wait < DEADLINE).count();
    let after_limit = waits.iter().filter(|wait| **wait > LIMIT).count();
    let late = Latencies::new(waits.iter().map(|wait| wait.saturating_sub(DEADLINE)).collect());
    println!(
        "holding line, {SLOW_TURNS} slow turns open: behind the deadline p50 {:.1} ms, p99 {:.1} ms, most {:.1} ms; \
         {early} before it, {after_limit} after ManyChat's 10 s; resident {:.0} MiB",
        millis(late.at(0.5)),
        millis(late.at(0.99)),
        millis(late.at(1.0)),
        process::mib(process::resident(service.pid())?),
    );
    service.kill();
    Ok(())
}

fn in_time(runtime: &Runtime, postgres: &Postgres, time: Duration, thinking: Duration) -> anyhow::Result<()> {
    let outside = StandIns::start(thinking)?;
    let database = runtime.block_on(postgres.fresh_database("in_time"))?;
    let mut service = Service::spawn(&postgres.directory, &database.url, &outside.variables())?;
    runtime.block_on(service.ready())?;
    let crowd = Crowd::of(100_000);
    let address = service.address;
    runtime.block_on(crowd.write(address, OPEN, Until::Elapsed(Duration::from_secs(2))))?;
    let run = runtime.block_on(crowd.write(address, OPEN, Until::Elapsed(time)))?;
    let added = |share| millis(run.latencies.at(share)) - millis(thinking);
    println!(
        "model of {} ms, {OPEN} open: {:.0} turns/s, added p50 {:.1} ms, p99 {:.1} ms",
        thinking.as_millis(),
        run.rate(),
        added(0.5),
        added(0.99),
    );
    Ok(())
}
