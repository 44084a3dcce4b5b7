//! Several builds of the program beside each other, by turns in the same run.

use std::time::Duration;

use tokio::runtime::Runtime;

use crate::client::{Crowd, Until};
use crate::pgbench::PgBench;
use crate::postgres::Postgres;
use crate::service::Service;
use crate::turns::{self, Meter};
const CONTACTS: u64 = 2000;
const WARM_UP: u64 = 5;

pub fn run(
    runtime: &Runtime,
    postgres: &Postgres,
    bins: &[String],
    time: Duration,
    rounds: usize,
) -> anyhow::Result<()> {
    let yardstick = runtime.block_on(postgres.fresh_database("yardstick"))?;
    let pgbench = PgBench::new(postgres, &yardstick, CONTACTS)?;
    let conns: usize = std::env::var("CONNS").ok().and_then(|v| v.parse().ok()).unwrap_or(8);
    let mut all = Vec::new();
    for (i, bin) in bins.iter().enumerate() {
        let (bin, envs) = bin.split_once('?').unwrap_or((bin, ""));
        let database = runtime.block_on(postgres.fresh_database(&format!("cmp{i}")))?;
        // SAFETY: single thread
        unsafe { std::env::set_var("AGENT_BIN", bin) };
        let envs: Vec<(&str, &str)> = envs.split('&').filter_map(|p| p.split_once('=')).collect();
        let mut service = Service::spawn(&postgres.directory, &database.url, &envs)?;
        runtime.block_on(service.ready())?;
        let crowd = Crowd::of(CONTACTS);
        runtime.block_on(crowd.write(service.address, 64, Until::Messages(CONTACTS * WARM_UP)))?;
        all.push((service, crowd, Vec::new()));
    }
    pgbench.run(Duration::from_secs(3))?;
    runtime.block_on(postgres.checkpoint())?;
    let mut baseline = Vec::new();
    for _ in 0..rounds {
        let meter = Meter { service: all[0].0.pid(), postgres: postgres.pid() };
        baseline.push(turns::yardstick_sample(&pgbench, &meter, time)?);
        for (service, crowd, samples) in &mut all {
            let meter = Meter { service: service.pid(), postgres: postgres.pid() };
            samples.push(runtime.block_on(turns::service_sample(service, crowd, conns, &meter, time))?);
        }
    }
    turns::heading(&baseline);
    turns::line("pgbench, 8 clients", &baseline, &baseline);
    for (bin, (_, _, samples)) in bins.iter().zip(&all) {
        turns::line(bin.rsplit('/').next().unwrap_or(""), samples, &baseline);
    }
    Ok(())
}
