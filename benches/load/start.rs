//! Start-up with Postgres up, and resident memory fresh and under load (ARC-73).

use std::time::Duration;

use tokio::runtime::Runtime;

use crate::client::{Connection, Crowd, Until};
use crate::figures::{Spread, millis};
use crate::postgres::{Database, Postgres};
use crate::process::{self, mib};
use crate::service::Service;

/// Starts that are measured.
const STARTS: usize = 15;

/// Measures and prints.
pub fn run(runtime: &Runtime, postgres: &Postgres, time: Duration) -> anyhow::Result<()> {
    runtime.block_on(async {
        let empty = postgres.fresh_database("start_empty").await?;
        let mut starts = Vec::new();
        for _ in 0..STARTS {
            starts.push(start(postgres, &empty).await?);
        }
        let spread = |value: fn(&Start) -> f64, digits| Spread::new(starts.iter().map(value), digits);
        println!("{STARTS} starts: /ready after {} ms", spread(|start| millis(start.ready), 1));
        println!("first message answered after {} ms", spread(|start| millis(start.answered), 1));
        println!("resident when ready {} MiB", spread(|start| mib(start.resident), 1));
        under_load(postgres, &empty, time).await
    })
}

struct Start {
    ready: Duration,
    answered: Duration,
    resident: u64,
}

async fn start(postgres: &Postgres, database: &Database) -> anyhow::Result<Start> {
    let mut service = Service::spawn(&postgres.directory, &database.url, &[])?;
    let ready = service.ready().await?;
    let resident = process::resident(service.pid())?;
    Connection::open(service.address).await?.say(1, "How much is the foundation course?").await?;
    Ok(Start { ready, answered: service.started.elapsed(), resident })
}

async fn under_load(postgres: &Postgres, database: &Database, time: Duration) -> anyhow::Result<()> {
    let mut service = Service::spawn(&postgres.directory, &database.url, &[])?;
    service.ready().await?;
    let run = Crowd::of(5000).write(service.address, 64, Until::Elapsed(time)).await?;
    let resident = process::resident(service.pid())?;
    println!(
        "after {:.0} s under 64 connections ({:.0} turns/s, 5000 conversations): {:.1} MiB, peak {:.1} MiB",
        run.elapsed.as_secs_f64(),
        run.rate(),
        mib(resident),
        mib(process::resident_peak(service.pid())?)
    );
    Ok(())
}
