//! Two processes on one Postgres against one, with the same number of open messages in all: they must not get in each
//! other's way (DEC-8).

use std::time::{Duration, Instant};

use tokio::runtime::Runtime;

use crate::client::{Crowd, Run, Until};
use crate::figures::{Spread, millis};
use crate::postgres::Postgres;
use crate::service::Service;

/// Open messages in all.
const OPEN: usize = 64;
/// Contacts of each half.
const CONTACTS: u64 = 2500;

/// Measures in rounds, one process and two by turns.
pub fn run(runtime: &Runtime, postgres: &Postgres, time: Duration, rounds: usize) -> anyhow::Result<()> {
    let database = runtime.block_on(postgres.fresh_database("pair"))?;
    let mut services = Vec::new();
    for name in ["first", "second"] {
        let directory = postgres.directory.join(name);
        std::fs::create_dir_all(&directory)?;
        let mut service = Service::spawn(&directory, &database.url, &[])?;
        runtime.block_on(service.ready())?;
        services.push(service);
    }
    let [first, second] = services.as_slice() else { anyhow::bail!("two services were started") };
    let halves = (Crowd::of(CONTACTS), Crowd::beyond(CONTACTS, CONTACTS));
    let warm = Until::Messages(CONTACTS * 3);
    runtime.block_on(both(&halves, (first, second), warm))?;
    runtime.block_on(postgres.checkpoint())?;
    let (mut alone, mut together) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        alone.push(runtime.block_on(both(&halves, (first, first), Until::Elapsed(time)))?);
        together.push(runtime.block_on(both(&halves, (first, second), Until::Elapsed(time)))?);
    }
    for (name, rounds) in [("one process", &alone), ("two processes", &together)] {
        let rate = Spread::new(rounds.iter().map(|round| round.0), 0);
        let p99 = Spread::new(rounds.iter().map(|round| round.1), 1);
        println!("{name:<15} {rate:>24} turns/s, p99 {p99} ms, {OPEN} open messages in all");
    }
    Ok(())
}

/// Both halves write at the same time, each to its service; turns a second and the worse p99 in milliseconds.
async fn both(
    (one, other): &(Crowd, Crowd),
    (first, second): (&Service, &Service),
    until: Until,
) -> anyhow::Result<(f64, f64)> {
    let began = Instant::now();
    let (left, right) =
        tokio::join!(one.write(first.address, OPEN / 2, until), other.write(second.address, OPEN / 2, until));
    let (left, right): (Run, Run) = (left?, right?);
    let rate = (left.turns + right.turns) as f64 / began.elapsed().as_secs_f64();
    Ok((rate, millis(left.latencies.at(0.99).max(right.latencies.at(0.99)))))
}
