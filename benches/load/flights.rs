//! Flights to Postgres between a request's arrival and its answer (ARC-30), counted on a wire of 20 ms each way.

use std::time::{Duration, Instant};

use tokio::runtime::Runtime;

use crate::client::Connection;
use crate::figures::{Latencies, millis};
use crate::postgres::Postgres;
use crate::proxy::{Flight, Proxy};
use crate::service::Service;

/// One way.
const DELAY: Duration = Duration::from_millis(20);
/// Messages that are counted.
const MESSAGES: u64 = 30;
/// The beat has a connection of its own; it stays out of the way.
const NO_BEATS: [(&str, &str); 2] = [("PROCESS_BEAT_MS", "600000"), ("PROCESS_DEAD_MS", "1800000")];

/// Counts and prints.
pub fn run(runtime: &Runtime, postgres: &Postgres) -> anyhow::Result<()> {
    runtime.block_on(async {
        let database = postgres.fresh_database("flights").await?;
        let directory = postgres.directory.join("wire");
        let proxy = Proxy::open(directory, &postgres.sockets()?, DELAY)?;
        let url = format!("postgresql://app@/{}?host={}&port=5432", database.name, proxy.directory.display());
        let mut service = Service::spawn(&postgres.directory, &url, &NO_BEATS)?;
        service.ready().await?;
        let mut connection = Connection::open(service.address).await?;
        println!("first message of a process: {}", exchange(&mut connection, &proxy, 0).await?);
        // As many messages as the pool has connections, so that every one of them has been used.
        for _ in 0..10 {
            exchange(&mut connection, &proxy, 0).await?;
        }
        count(&mut connection, &proxy).await
    })
}

async fn count(connection: &mut Connection, proxy: &Proxy) -> anyhow::Result<()> {
    let mut turns = Vec::new();
    for contact in 0..MESSAGES {
        turns.push(exchange(connection, proxy, contact % 3).await?);
    }
    let on_path: Vec<usize> = turns.iter().map(|turn| turn.on_path).collect();
    let after: usize = turns.iter().map(|turn| turn.after).sum();
    let latencies = Latencies::new(turns.iter().map(|turn| turn.took).collect());
    println!(
        "{MESSAGES} messages after that: flights before the answer {on_path:?}, after the answers {after}"
    );
    println!(
        "round trip on this wire: p50 {:.1} ms, of which two flights are {:.0} ms",
        millis(latencies.at(0.5)),
        millis(DELAY * 4)
    );
    // A confirmation that is sent while the answer is still on its way counts before it, and a heartbeat can too.
    let two = on_path.iter().filter(|count| **count == 2).count();
    anyhow::ensure!(two * 10 >= on_path.len() * 9, "a turn needs two flights, see above");
    Ok(())
}

struct Turn {
    on_path: usize,
    after: usize,
    took: Duration,
}

impl std::fmt::Display for Turn {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { on_path, after, took } = self;
        write!(out, "{on_path} flights before the answer, {after} after it, {:.1} ms", millis(*took))
    }
}

/// Sends one message, waits for its confirm, and sorts the flights. One that began before the answer and was answered
/// after it held nobody up: the answer was on its way already.
async fn exchange(connection: &mut Connection, proxy: &Proxy, contact: u64) -> anyhow::Result<Turn> {
    proxy.take();
    let sent = Instant::now();
    connection.say(contact, "How much is the foundation course?").await?;
    let answered = Instant::now();
    tokio::time::sleep(DELAY * 5).await;
    let flights: Vec<Flight> = proxy.take();
    let on_path = flights.iter().filter(|flight| flight.sent >= sent && flight.answered <= answered).count();
    Ok(Turn { on_path, after: flights.len() - on_path, took: answered - sent })
}
