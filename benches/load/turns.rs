//! Turns a second, added latency and CPU a turn, beside `pgbench` in the same run (ARC-70, ARC-71).

use std::time::{Duration, Instant};

use tokio::runtime::Runtime;

use crate::client::{Crowd, Until};
use crate::figures::{Spread, millis};
use crate::pgbench::PgBench;
use crate::postgres::Postgres;
use crate::process;
use crate::service::Service;

/// Contacts that take turns writing.
pub const CONTACTS: u64 = 5000;
/// Messages of each before anything is measured: a history of nine turns to read.
pub const WARM_UP: u64 = 5;
/// Connections of the generator.
const CONNECTIONS: [usize; 3] = [1, 8, 64];

/// One measurement of the service or of `pgbench`.
#[derive(Default)]
pub struct Sample {
    rate: f64,
    p50: f64,
    p99: f64,
    /// CPU a turn, in milliseconds.
    service: f64,
    postgres: f64,
    generator: f64,
    /// Cores that none of the three kept busy: other work on the machine.
    others: f64,
    unconfirmed: f64,
}

/// CPU time used so far, in milliseconds. The generator's counts the `pgbench` runs that have ended.
#[derive(Clone, Copy)]
struct Used {
    at: Instant,
    service: f64,
    postgres: f64,
    generator: f64,
    machine: f64,
}

pub struct Meter {
    pub service: u32,
    pub postgres: u32,
}

impl Meter {
    fn read(&self) -> anyhow::Result<Used> {
        let own = std::process::id();
        Ok(Used {
            at: Instant::now(),
            service: millis(process::cpu(self.service)?),
            postgres: millis(process::cpu_of_family(self.postgres)?),
            generator: millis(process::cpu(own)? + process::cpu_of_ended_children(own)?),
            machine: millis(process::cpu_of_machine()?),
        })
    }

    /// The sample's CPU columns since `before`, for so many turns.
    fn since(&self, before: Used, turns: f64) -> anyhow::Result<Sample> {
        let after = self.read()?;
        let service = after.service - before.service;
        let postgres = after.postgres - before.postgres;
        let generator = after.generator - before.generator;
        let others = after.machine - before.machine - service - postgres - generator;
        Ok(Sample {
            service: service / turns,
            postgres: postgres / turns,
            generator: generator / turns,
            others: others / millis(after.at - before.at),
            ..Sample::default()
        })
    }
}

/// Measures in rounds, the service and `pgbench` by turns, and prints medians and ranges.
pub fn run(runtime: &Runtime, postgres: &Postgres, time: Duration, rounds: usize) -> anyhow::Result<()> {
    let yardstick = runtime.block_on(postgres.fresh_database("yardstick"))?;
    let pgbench = PgBench::new(postgres, &yardstick, CONTACTS)?;
    let database = runtime.block_on(postgres.fresh_database("turns"))?;
    let mut service = Service::spawn(&postgres.directory, &database.url, &[])?;
    runtime.block_on(service.ready())?;
    let meter = Meter { service: service.pid(), postgres: postgres.pid() };
    let crowd = Crowd::of(CONTACTS);
    runtime.block_on(crowd.write(service.address, 64, Until::Messages(CONTACTS * WARM_UP)))?;
    pgbench.run(Duration::from_secs(5))?;
    runtime.block_on(postgres.checkpoint())?;
    let mut baseline = Vec::new();
    let mut samples: [Vec<Sample>; CONNECTIONS.len()] = Default::default();
    for _ in 0..rounds {
        baseline.push(yardstick_sample(&pgbench, &meter, time)?);
        for (samples, connections) in samples.iter_mut().zip(CONNECTIONS) {
            samples.push(runtime.block_on(service_sample(&service, &crowd, connections, &meter, time))?);
        }
    }
    print(&baseline, &samples);
    Ok(())
}

pub fn yardstick_sample(pgbench: &PgBench, meter: &Meter, time: Duration) -> anyhow::Result<Sample> {
    let before = meter.read()?;
    let run = pgbench.run(time)?;
    // Its connections end, and are counted with the server, a moment later.
    std::thread::sleep(Duration::from_millis(200));
    Ok(Sample { rate: run.rate, ..meter.since(before, run.turns)? })
}

pub async fn service_sample(
    service: &Service,
    crowd: &Crowd,
    connections: usize,
    meter: &Meter,
    time: Duration,
) -> anyhow::Result<Sample> {
    crowd.write(service.address, connections, Until::Elapsed(Duration::from_secs(1))).await?;
    service.settle_down().await?;
    let before = meter.read()?;
    let run = crowd.write(service.address, connections, Until::Elapsed(time)).await?;
    // The confirms of the last turns belong to the run.
    let unconfirmed = service.settle_down().await?;
    Ok(Sample {
        rate: run.rate(),
        p50: millis(run.latencies.at(0.5)),
        p99: millis(run.latencies.at(0.99)),
        unconfirmed: unconfirmed as f64,
        ..meter.since(before, run.turns as f64)?
    })
}

/// A column: heading, value, digits behind the point.
type Column = (&'static str, fn(&Sample) -> f64, usize);

const COLUMNS: [Column; 8] = [
    ("turns/s", |sample| sample.rate, 0),
    ("p50 ms", |sample| sample.p50, 2),
    ("p99 ms", |sample| sample.p99, 1),
    ("service ms", |sample| sample.service, 3),
    ("Postgres ms", |sample| sample.postgres, 3),
    ("generator ms", |sample| sample.generator, 3),
    ("other cores", |sample| sample.others, 2),
    ("unconfirmed", |sample| sample.unconfirmed, 0),
];

pub fn heading(baseline: &[Sample]) {
    println!("median (least-most) of {} rounds; service, Postgres, generator: CPU a turn", baseline.len());
    let headings: Vec<String> = COLUMNS.iter().map(|(name, ..)| format!("{name:>20}")).collect();
    println!("{:<19}{}{:>16}", "", headings.concat(), "% of pgbench");
}

fn print(baseline: &[Sample], samples: &[Vec<Sample>]) {
    heading(baseline);
    line("pgbench, 8 clients", baseline, baseline);
    for (connections, samples) in CONNECTIONS.iter().zip(samples) {
        line(&format!("service, {connections} open"), samples, baseline);
    }
}

pub fn line(name: &str, samples: &[Sample], baseline: &[Sample]) {
    let column = |(_, value, digits): &Column| Spread::new(samples.iter().map(value), *digits);
    let figures: Vec<String> = COLUMNS.iter().map(|each| format!("{:>20}", column(each))).collect();
    let ratios = samples.iter().zip(baseline).map(|(sample, baseline)| 100.0 * sample.rate / baseline.rate);
    println!("{name:<19}{}{:>16}", figures.concat(), Spread::new(ratios, 0));
}
