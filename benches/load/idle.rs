//! What an idle conversation costs in memory (ARC-25): 100 000 contacts write once through the real service.

use std::time::Duration;

use anyhow::Context;
use serde_json::Value;
use tokio::runtime::Runtime;

use crate::client::{Crowd, Until};
use crate::postgres::Postgres;
use crate::process::{self, mib};
use crate::service::Service;

/// Conversations.
const CONTACTS: u64 = 100_000;
/// Open at once.
const CONNECTIONS: usize = 64;

/// Measures and prints.
pub fn run(runtime: &Runtime, postgres: &Postgres) -> anyhow::Result<()> {
    runtime.block_on(async {
        let database = postgres.fresh_database("idle").await?;
        let mut service = Service::spawn(&postgres.directory, &database.url, &[])?;
        service.ready().await?;
        let fresh = process::resident(service.pid())?;
        let crowd = Crowd::of(CONTACTS);
        // Connections, pool and buffers are there before the conversations are weighed.
        crowd.write(service.address, CONNECTIONS, Until::Messages(1000)).await?;
        let (before, counted) = (at_rest(&service).await?, conversations(&service).await?);
        let run = crowd.write(service.address, CONNECTIONS, Until::Messages(CONTACTS - 1000)).await?;
        let (after, alive) = (at_rest(&service).await?, conversations(&service).await?);
        let each = after.saturating_sub(before) as f64 / (alive - counted) as f64;
        println!("{CONTACTS} first messages at {:.0} a second, {alive} conversations alive", run.rate());
        println!(
            "resident: fresh {:.1} MiB, with {counted} conversations {:.1}, with {alive} {:.1}, peak {:.1}",
            mib(fresh),
            mib(before),
            mib(after),
            mib(process::resident_peak(service.pid())?)
        );
        println!("{each:.0} bytes each; of the whole process {:.0}", after as f64 / alive as f64);
        anyhow::ensure!(alive == CONTACTS, "some conversations have left memory");
        Ok(())
    })
}

/// Resident memory when every reply is confirmed and two seconds have passed.
async fn at_rest(service: &Service) -> anyhow::Result<u64> {
    service.settle_down().await?;
    tokio::time::sleep(Duration::from_secs(2)).await;
    process::resident(service.pid())
}

async fn conversations(service: &Service) -> anyhow::Result<u64> {
    let report = service.observe().await?;
    report.get("conversations").and_then(Value::as_u64).context("the report has no conversations")
}
