//! The real program as a process of its own.

use std::fs::{self, File};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context;
use manychat_agent::config::demo;
use serde_json::{Value, json};

use crate::client;

/// The secret of the run.
pub const SECRET: &str = "bench-secret-of-the-load-harness";
/// Token of the operators' pages.
pub const ADMIN: &str = "bench-admin-of-the-load-harness";

/// Longest wait for the service to be ready or to end.
const LIMIT: Duration = Duration::from_secs(30);

/// A running service; ends with its owner.
pub struct Service {
    child: Child,
    /// Where it listens.
    pub address: SocketAddr,
    /// When the process was started.
    pub started: Instant,
}

impl Service {
    /// Starts `agent serve --no-workers` on a free port; it is not ready yet. Its log, one line a turn, goes to a file on disk.
    /// `AGENT_BIN` names another build of the program, to compare two.
    pub fn spawn(directory: &Path, database_url: &str, more: &[(&str, &str)]) -> anyhow::Result<Self> {
        // The outbox worker's looks are no part of a turn; they would count as flights.
        Self::start(&["serve", "--no-workers"], directory, database_url, more)
    }

    /// The same with `agent serve`, which delivers too.
    pub fn spawn_with_workers(
        directory: &Path,
        database_url: &str,
        more: &[(&str, &str)],
    ) -> anyhow::Result<Self> {
        Self::start(&["serve"], directory, database_url, more)
    }

    fn start(
        words: &[&str],
        directory: &Path,
        database_url: &str,
        more: &[(&str, &str)],
    ) -> anyhow::Result<Self> {
        let config = tenant_files(directory)?;
        let port = free_port()?;
        let log = File::create(directory.join("service.log"))?;
        let program = std::env::var_os("AGENT_BIN").unwrap_or_else(|| env!("CARGO_BIN_EXE_agent").into());
        let mut command = Command::new(program);
        command
            .args(words)
            .current_dir(directory)
            .env_clear()
            .env("PORT", port.to_string())
            .env("DATABASE_URL", database_url)
            .env("CONFIG_DIR", config)
            .env("AGENT_MODEL", "mock:demo")
            .env("PUBLIC_BASE_URL", "https://bench.example")
            .env("MANYCHAT_SHARED_SECRET", SECRET)
            .env("ADMIN_TOKEN", ADMIN)
            .env("CONTACT_TOKENS_ENFORCED", "false")
            .env("RATE_LIMIT_PER_MINUTE", "2000000000")
            .envs(more.iter().copied())
            .stdin(Stdio::null())
            .stderr(log.try_clone()?)
            .stdout(log);
        let started = Instant::now();
        let child = command.spawn().context("the service could not be started")?;
        Ok(Self { child, address: SocketAddr::from((Ipv4Addr::LOCALHOST, port)), started })
    }

    /// Waits for the first 200 of `/ready`; how long that took since the start of the process.
    pub async fn ready(&mut self) -> anyhow::Result<Duration> {
        loop {
            if let Ok(200) = client::get(self.address, "/ready").await.map(|answer| answer.status) {
                return Ok(self.started.elapsed());
            }
            if let Some(status) = self.child.try_wait()? {
                anyhow::bail!("the service ended with {status}; see service.log");
            }
            anyhow::ensure!(self.started.elapsed() < LIMIT, "the service did not get ready; see service.log");
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    /// Ends it at once, with all that is open.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// What `/admin/actors` says.
    pub async fn observe(&self) -> anyhow::Result<Value> {
        let answer = client::get(self.address, "/admin/actors").await?;
        Ok(serde_json::from_slice(&answer.body)?)
    }

    /// Waits until every reply is confirmed; how many were not when it was called.
    pub async fn settle_down(&self) -> anyhow::Result<u64> {
        let began = Instant::now();
        let mut at_first = None;
        loop {
            let report = self.observe().await?;
            let open = report.get("unconfirmed_replies").and_then(Value::as_u64).context("no report")?;
            let at_first = *at_first.get_or_insert(open);
            if open == 0 {
                return Ok(at_first);
            }
            anyhow::ensure!(began.elapsed() < LIMIT, "{open} replies are still not confirmed");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

impl Drop for Service {
    /// As an orderly stop; killed when that takes too long.
    fn drop(&mut self) {
        let pid = i32::try_from(self.child.id()).unwrap_or_default();
        // SAFETY: a signal to a child of ours that was not waited for, so the number is still its own.
        unsafe { libc::kill(pid, libc::SIGTERM) };
        let until = Instant::now() + LIMIT;
        while matches!(self.child.try_wait(), Ok(None)) && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(5));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The demo tenant with every rule in force, but with limits that the load does not reach.
fn tenant_files(directory: &Path) -> anyhow::Result<std::path::PathBuf> {
    let config = directory.join("config");
    fs::create_dir_all(&config)?;
    let mut rules: Value = serde_json::from_str(demo::RULES)?;
    if let Some(rules) = rules.as_object_mut() {
        rules.insert("maxTurnsPerConversation".to_owned(), json!(1_000_000));
        rules.insert("rateLimit".to_owned(), json!({ "turnsPerSubscriberPerHour": 1_000_000 }));
        rules.insert(
            "budget".to_owned(),
            json!({ "dailyTokenCap": 1_000_000_000_000_u64, "dailyCostCapUsd": 1e9 }),
        );
    }
    fs::write(config.join("prompt.md"), demo::PROMPT)?;
    fs::write(config.join("catalog.json"), demo::CATALOG)?;
    fs::write(config.join("rules.json"), rules.to_string())?;
    Ok(config)
}

fn free_port() -> anyhow::Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}
