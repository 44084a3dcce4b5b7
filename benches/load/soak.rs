//! Half load for a long time: memory, descriptors, database connections and tables must come to rest, and the last
//! quarter must be as fast as the first. One caller in fifty hangs up, so that replies go through the outbox too.

use std::cell::Cell;
use std::fs;
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::Context;
use tokio::runtime::Runtime;
use tokio::task::LocalSet;

use crate::client::{Connection, Crowd, TEXTS, Until};
use crate::figures::{Latencies, millis};
use crate::postgres::{Database, Postgres};
use crate::process::{self, mib};
use crate::service::Service;
use crate::stand_in::StandIns;

/// Contacts that take turns writing.
const CONTACTS: u64 = 5000;
/// Connections of the generator; more than half load keeps busy.
const CONNECTIONS: u64 = 32;
/// Lines of the table.
const PERIODS: u32 = 20;
/// One caller in so many hangs up.
const HANGS_UP: u64 = 50;
/// Time to find the full load.
const FULL_LOAD: Duration = Duration::from_secs(10);

/// What is looked at after a period.
struct Sample {
    resident: u64,
    descriptors: usize,
    rows: Vec<i64>,
}

/// Counted after each period; sizes are in KiB.
const COUNTS: [(&str, &str); 9] = [
    ("pg conns", "select count(*) from pg_stat_activity where datname = current_database()"),
    ("processes", "select count(*) from rs_processes"),
    ("lanes", "select count(*) from rs_lanes"),
    ("owed", "select count(*) from rs_owed"),
    ("inbox", "select count(*) from rs_inbox"),
    ("queued", "select count(*) from outbox where status in ('pending', 'delivering')"),
    ("delivered", "select count(*) from outbox where status = 'delivered'"),
    ("owed KiB", "select pg_total_relation_size('rs_owed') / 1024"),
    ("lanes KiB", "select pg_total_relation_size('rs_lanes') / 1024"),
];

/// Runs for `time` and prints the table.
pub fn run(runtime: &Runtime, postgres: &Postgres, time: Duration) -> anyhow::Result<()> {
    let outside = StandIns::start(Duration::ZERO)?;
    let database = runtime.block_on(postgres.fresh_database("soak"))?;
    let mut variables = outside.variables();
    // The mock model: it costs the generator nothing.
    variables.retain(|(name, _)| name.starts_with("MANYCHAT"));
    let mut service = Service::spawn_with_workers(&postgres.directory, &database.url, &variables)?;
    runtime.block_on(service.ready())?;
    let crowd = Crowd::of(CONTACTS);
    runtime.block_on(crowd.write(service.address, 64, Until::Messages(CONTACTS)))?;
    let full = runtime.block_on(crowd.write(service.address, 64, Until::Elapsed(FULL_LOAD)))?.rate();
    println!("full load {full:.0} turns/s at 64 connections; soaking at {:.0} for {time:?}", full / 2.0);
    let headings: Vec<String> = COUNTS.iter().map(|(name, _)| format!("{name:>10}")).collect();
    println!(
        "{:>7}{:>9}{:>8}{:>8}{:>8}{:>6}{}",
        "minute",
        "turns/s",
        "p50 ms",
        "p99 ms",
        "MiB",
        "fds",
        headings.concat()
    );
    let began = Instant::now();
    let next = Rc::new(Cell::new(0));
    let mut periods = Vec::new();
    for _ in 0..PERIODS {
        let latencies = runtime.block_on(write(&service, full / 2.0, time / PERIODS, &next))?;
        let sample = runtime.block_on(sample(&service, postgres, &database))?;
        print(began.elapsed(), time / PERIODS, &latencies, &sample);
        periods.push((latencies, sample));
    }
    summary(periods);
    Ok(())
}

/// Writes at an even rate, whether the service keeps up or not; latencies count from when a message was due.
async fn write(
    service: &Service,
    rate: f64,
    time: Duration,
    next: &Rc<Cell<u64>>,
) -> anyhow::Result<Vec<Duration>> {
    let (began, first) = (Instant::now(), next.get());
    let address = service.address;
    let local = LocalSet::new();
    let writers: Vec<_> = (0..CONNECTIONS)
        .map(|_| {
            let next = Rc::clone(next);
            local.spawn_local(async move {
                let mut connection = Connection::open(address).await?;
                let mut latencies = Vec::new();
                loop {
                    let place = next.get();
                    let due = began + Duration::from_secs_f64((place - first) as f64 / rate);
                    if due >= began + time {
                        return anyhow::Ok(latencies);
                    }
                    next.set(place + 1);
                    tokio::time::sleep_until(due.into()).await;
                    let (contact, text) = message(place);
                    if place.is_multiple_of(HANGS_UP) {
                        connection.leave(contact, text).await?;
                        connection = Connection::open(address).await?;
                    } else {
                        connection.talk(contact, text).await?;
                        latencies.push(due.elapsed());
                    }
                }
            })
        })
        .collect();
    local.await;
    let mut all = Vec::new();
    for writer in writers {
        all.extend(writer.await??);
    }
    Ok(all)
}

fn message(place: u64) -> (u64, &'static str) {
    let turn = usize::try_from(place / CONTACTS).unwrap_or_default();
    (place % CONTACTS, TEXTS.get(turn % TEXTS.len()).copied().unwrap_or_default())
}

async fn sample(service: &Service, postgres: &Postgres, database: &Database) -> anyhow::Result<Sample> {
    service.settle_down().await?;
    let client = postgres.client(database).await?;
    let mut rows = Vec::with_capacity(COUNTS.len());
    for (_, query) in COUNTS {
        rows.push(client.query_one(query, &[]).await?.try_get(0)?);
    }
    let descriptors = fs::read_dir(format!("/proc/{}/fd", service.pid()))?.count();
    Ok(Sample { resident: process::resident(service.pid())?, descriptors, rows })
}

fn print(elapsed: Duration, period: Duration, latencies: &[Duration], sample: &Sample) {
    let sorted = Latencies::new(latencies.to_vec());
    let rows: Vec<String> = sample.rows.iter().map(|count| format!("{count:>10}")).collect();
    println!(
        "{:>7.1}{:>9.0}{:>8.1}{:>8.1}{:>8.1}{:>6}{}",
        elapsed.as_secs_f64() / 60.0,
        latencies.len() as f64 / period.as_secs_f64(),
        millis(sorted.at(0.5)),
        millis(sorted.at(0.99)),
        mib(sample.resident),
        sample.descriptors,
        rows.concat()
    );
}

/// The first quarter beside the last.
fn summary(periods: Vec<(Vec<Duration>, Sample)>) {
    let quarter = periods.len() / 4;
    let of = |part: &[(Vec<Duration>, Sample)]| {
        let all = part.iter().flat_map(|(latencies, _)| latencies.iter().copied()).collect();
        let most = part.iter().map(|(_, sample)| sample.resident).max().unwrap_or_default();
        (Latencies::new(all), mib(most))
    };
    let first = of(periods.get(..quarter).unwrap_or_default());
    let last = of(periods.get(periods.len() - quarter..).unwrap_or_default());
    for (name, (latencies, most)) in [("first quarter", first), ("last quarter", last)] {
        let (middle, slow) = (millis(latencies.at(0.5)), millis(latencies.at(0.99)));
        println!("{name}: p50 {middle:.1} ms, p99 {slow:.1} ms, most resident {most:.1} MiB");
    }
}

/// `--minutes`, as a duration.
pub fn minutes(word: Option<String>) -> anyhow::Result<Duration> {
    let minutes: f64 = word.context("--minutes takes a number")?.parse()?;
    anyhow::ensure!(minutes > 0.0, "--minutes takes a number above 0");
    Ok(Duration::from_secs_f64(minutes * 60.0))
}
