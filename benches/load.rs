//! The load harness: what a turn costs beside `pgbench`, how many flights it takes, what an idle conversation weighs,
//! how fast the service starts. It drives the real program over loopback HTTP against a durable Postgres of its own.
//!
//! ```sh
//! cargo bench --bench load                    # flights turns pair race delivery idle start
//! cargo bench --bench load -- turns           # one part
//! cargo bench --bench load -- turns --seconds 5 --rounds 1
//! cargo bench --bench load -- soak --minutes 30   # half load for long; only when it is named
//! cargo bench --bench load -- turns --set plan_cache_mode=auto     # a setting of the Postgres server
//! ```
//!
//! How to read the figures: docs/performance.md.

#[path = "load/client.rs"]
mod client;
#[path = "load/delivery.rs"]
mod delivery;
#[path = "load/figures.rs"]
mod figures;
#[path = "load/flights.rs"]
mod flights;
#[path = "load/idle.rs"]
mod idle;
#[path = "load/pair.rs"]
mod pair;
#[path = "load/pgbench.rs"]
mod pgbench;
#[path = "load/postgres.rs"]
mod postgres;
#[path = "load/process.rs"]
mod process;
#[path = "load/proxy.rs"]
mod proxy;
#[path = "load/race.rs"]
mod race;
#[path = "load/service.rs"]
mod service;
#[path = "load/soak.rs"]
mod soak;
#[path = "load/stand_in.rs"]
mod stand_in;
#[path = "load/start.rs"]
mod start;
#[path = "load/turns.rs"]
mod turns;

use std::time::Duration;

use anyhow::{Context, bail};

use postgres::Postgres;

/// What to measure and for how long.
struct Plan {
    parts: Vec<String>,
    /// Length of one measurement.
    seconds: Duration,
    /// Measurements of a kind.
    rounds: usize,
    /// Length of the soak.
    soak: Duration,
    /// Settings of the Postgres server over the usual ones.
    settings: Vec<(String, String)>,
}

const PARTS: [&str; 7] = ["flights", "turns", "pair", "race", "delivery", "idle", "start"];
/// Takes so long that it must be asked for.
const SOAK: &str = "soak";

impl Plan {
    fn of(words: impl Iterator<Item = String>) -> anyhow::Result<Self> {
        let mut plan = Self {
            parts: Vec::new(),
            seconds: Duration::from_secs(10),
            rounds: 3,
            soak: Duration::from_secs(1800),
            settings: Vec::new(),
        };
        // `cargo bench` adds `--bench`.
        let mut words = words.filter(|word| word != "--bench");
        while let Some(word) = words.next() {
            match word.as_str() {
                "--seconds" => plan.seconds = Duration::from_secs(number(words.next())?),
                "--rounds" => plan.rounds = usize::try_from(number(words.next())?)?,
                "--set" => plan.settings.push(setting(words.next())?),
                "--minutes" => plan.soak = soak::minutes(words.next())?,
                part if part == SOAK || PARTS.contains(&part) => plan.parts.push(word),
                other => {
                    bail!(
                        "unknown word `{other}`: the parts are {} {SOAK}; --seconds N, --rounds N, --minutes N, --set NAME=VALUE",
                        PARTS.join(" ")
                    )
                }
            }
        }
        if plan.parts.is_empty() {
            plan.parts = PARTS.map(str::to_owned).into();
        }
        Ok(plan)
    }
}

fn setting(word: Option<String>) -> anyhow::Result<(String, String)> {
    let word = word.unwrap_or_default();
    let (name, value) = word.split_once('=').context("--set takes name=value")?;
    Ok((name.to_owned(), value.to_owned()))
}

fn number(word: Option<String>) -> anyhow::Result<u64> {
    let word = word.context("--seconds and --rounds take a number")?;
    word.parse()
        .ok()
        .filter(|number| *number > 0)
        .with_context(|| format!("`{word}` is not a number above 0"))
}

fn main() -> anyhow::Result<()> {
    let plan = Plan::of(std::env::args().skip(1))?;
    let postgres = Postgres::start(&plan.settings)?;
    // One thread: the generator shares the cores with what it measures.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    println!("{}", process::machine());
    println!("{}", runtime.block_on(postgres.describe())?);
    for part in &plan.parts {
        println!("\n== {part} (load average {})", process::load_average());
        match part.as_str() {
            "flights" => flights::run(&runtime, &postgres)?,
            "turns" => turns::run(&runtime, &postgres, plan.seconds, plan.rounds)?,
            "pair" => pair::run(&runtime, &postgres, plan.seconds, plan.rounds)?,
            "race" => race::run(&runtime, &postgres, plan.seconds)?,
            "delivery" => delivery::run(&runtime, &postgres)?,
            "idle" => idle::run(&runtime, &postgres)?,
            SOAK => soak::run(&runtime, &postgres, plan.soak)?,
            _ => start::run(&runtime, &postgres, plan.seconds)?,
        }
    }
    Ok(())
}
