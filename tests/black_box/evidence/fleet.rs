//! Processes of the service on one Postgres, and what the proofs do to them.

use std::collections::BTreeSet;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use manychat_agent::store::embedded::testing::TestServer;
use manychat_agent::store::embedded::{EmbeddedOptions, EmbeddedServer, Location};
use serde_json::{Value, json};
use tokio_postgres::{NoTls, SimpleQueryMessage};

use super::checker::{self, Facts, Report, Tables, UserRow};
use super::journal::{Life, Marker, What};
use super::outside::{ACT_PREFIX, MOST_ACTS, Outside, REPLY_FLOW, TOKEN_PREFIX};
use crate::app::{Folder, PATIENCE, Setup, TestApp};

/// The times that decide how long a proof takes.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    pub deadline_ms: u64,
    pub abort_ms: u64,
    pub beat_ms: u64,
    pub dead_ms: u64,
}

impl Times {
    /// For a busy machine with two cores: a process that is late with its beats must not count as dead, and one that ends
    /// in order, for which it has the first two times together, must get done.
    pub const SHORT: Self = Self { deadline_ms: 3000, abort_ms: 12_000, beat_ms: 300, dead_ms: 4000 };
    /// The defaults of the service.
    pub const REAL: Self = Self { deadline_ms: 8000, abort_ms: 60_000, beat_ms: 5000, dead_ms: 20_000 };

    /// Those of the environment: `PROOF_TIMES=real`, or short ones.
    pub fn chosen() -> Self {
        match std::env::var("PROOF_TIMES").as_deref() {
            Ok("real") => Self::REAL,
            _ => Self::SHORT,
        }
    }

    pub const fn dead(&self) -> Duration {
        Duration::from_millis(self.dead_ms)
    }

    /// When a handoff's text can stand for a Settle that did not answer in time: the machine is busy, Postgres, too, can
    /// be slower than the short deadline, and we hear of an answer late, by seconds when everything stands still.
    pub const fn slow(&self) -> std::ops::Range<Duration> {
        Duration::from_millis(self.deadline_ms * 3 / 4)..Duration::from_millis(self.deadline_ms + 7000)
    }

    /// How long after a lane could last be held everything has ended: a message that could not be recorded ends with a
    /// person only when no flight can bring it any longer, a minute later.
    pub const fn ended(&self) -> Duration {
        self.lease().saturating_add(Duration::from_secs(75))
    }

    /// ARC-45: how long a lane can be held.
    pub const fn lease(&self) -> Duration {
        Duration::from_millis(self.deadline_ms + self.abort_ms + 15_000)
    }
}

/// A Postgres server that can be stopped and started again.
pub struct Server {
    folder: Folder,
    running: Option<EmbeddedServer>,
}

impl Server {
    pub async fn start() -> Self {
        let mut server = Self { folder: Folder::new(), running: None };
        server.start_again().await;
        server
    }

    pub async fn start_again(&mut self) {
        let options = EmbeddedOptions {
            location: Location::Directory(self.folder.path.join("pg")),
            durable: false,
            settings: vec![("shared_buffers".to_owned(), "32MB".to_owned())],
        };
        let started = tokio::task::spawn_blocking(|| EmbeddedServer::start(options)).await.unwrap();
        self.running = Some(started.unwrap());
    }

    /// Cuts every connection.
    pub async fn stop(&mut self) {
        let running = self.running.take().unwrap();
        tokio::task::spawn_blocking(|| running.stop()).await.unwrap();
    }
}

/// One process; it can be started many times.
pub struct Member {
    name: char,
    launches: u32,
    app: TestApp,
    pub is_up: bool,
}

impl Member {
    pub fn life(&self) -> Life {
        format!("{}{}", self.name, self.launches)
    }

    pub fn port(&self) -> u16 {
        self.app.port
    }

    pub fn set(&mut self, name: &str, value: &str) {
        self.app.env.insert(name.to_owned(), value.to_owned());
    }

    pub fn unset(&mut self, name: &str) {
        self.app.env.remove(name);
    }

    pub fn output(&self) -> String {
        self.app.output()
    }

    pub async fn launch(&mut self) {
        self.launches += 1;
        let token = format!("{TOKEN_PREFIX}{}", self.life());
        self.set("MANYCHAT_API_TOKEN", &token);
        self.app.launch().await;
        self.is_up = true;
    }

    /// After a launch that was cut off, it may be running and nobody has waited for it.
    pub async fn launch_again(&mut self) {
        if self.app.is_running() {
            self.app.stop(libc::SIGKILL).await;
        }
        self.launch().await;
    }

    pub fn signal(&self, number: i32) {
        self.app.signal(number);
    }

    pub async fn stop(&mut self, number: i32) -> ExitStatus {
        self.is_up = false;
        self.app.stop(number).await
    }

    /// Waits until it has stopped itself (`PAUSE_AT`); false when it does not.
    pub async fn stopped(&self, limit: Duration) -> bool {
        within(limit, || self.app.is_stopped()).await
    }

    /// Waits until it has ended by itself; false when it does not.
    pub async fn ended(&mut self, limit: Duration) -> bool {
        let ended = within(limit, || self.app.exited().is_some()).await;
        self.is_up &= !ended;
        ended
    }
}

/// The processes, their database and the world outside.
pub struct Fleet {
    pub outside: Outside,
    pub members: Vec<Member>,
    pub times: Times,
    pub server: Option<Server>,
    /// What [`Facts::outage`] excuses is excused.
    pub outage: bool,
    /// See [`Facts::slow`].
    pub slow: Option<std::ops::Range<Duration>>,
    probes: BTreeSet<Marker>,
    escalation: String,
    url: String,
}

impl Fleet {
    /// `names` of the processes; none is started yet. `own_server`: one that can be stopped.
    pub async fn new(outside: Outside, times: Times, names: &[char], own_server: bool) -> Self {
        let server = if own_server { Some(Server::start().await) } else { None };
        let own_url = server.as_ref().map(|server| server.running.as_ref().unwrap().url());
        let shared = if own_server { None } else { Some(TestServer::database().unwrap()) };
        let url = own_url.unwrap_or_else(|| shared.as_ref().unwrap().url().to_owned());
        let mut first = shared;
        let mut members = Vec::new();
        for name in names {
            let database = first.take().unwrap_or_else(|| TestServer::empty_database().unwrap());
            let setup = setup(&outside, times);
            let setup = Setup { database: Some(database), database_url: Some(url.clone()), ..setup };
            members.push(Member { name: *name, launches: 0, app: setup.prepare().await, is_up: false });
        }
        let escalation = members[0].app.copy("escalation");
        Self {
            outside,
            members,
            times,
            server,
            outage: false,
            slow: None,
            probes: BTreeSet::new(),
            escalation,
            url,
        }
    }

    /// Gives every process flows and tags, one of each for every message of a contact.
    pub fn with_tools(&self) {
        let entry = |kind: &str, name: &str, number: u32| {
            let id = format!("{kind}{number}");
            json!({ "id": id, name: format!("{ACT_PREFIX}{id}"), "description": "For one message." })
        };
        let tools = json!({
            "flows": (1..=MOST_ACTS).map(|number| entry("f", "flowNs", number)).collect::<Vec<_>>(),
            "tags": (1..=MOST_ACTS).map(|number| entry("t", "tag", number)).collect::<Vec<_>>(),
        });
        for member in &self.members {
            std::fs::write(member.app.folder.path.join("config/tools.json"), tools.to_string()).unwrap();
        }
    }

    /// A message to a process, not waited for.
    pub fn ask(&self, member: usize, marker: Marker) -> tokio::task::JoinHandle<bool> {
        let member = &self.members[member];
        self.outside.ask(&member.life(), member.port(), marker)
    }

    /// A message that must be heard (ARC-42).
    pub fn probe(&mut self, member: usize, marker: Marker) -> tokio::task::JoinHandle<bool> {
        self.probes.insert(marker);
        self.ask(member, marker)
    }

    /// What this process did and did not record may be repeated from now on.
    pub fn strike(&self, member: usize) {
        self.outside.journal.write(What::Struck { life: self.members[member].life() });
    }

    /// Waits until the journal has this.
    pub async fn sees(&self, what: &str, wanted: impl Fn(&What) -> bool) {
        assert!(self.saw(PATIENCE, wanted).await, "never seen: {what}\n{}", self.story());
    }

    /// Waits until the journal has this; false when it has not.
    pub async fn saw(&self, limit: Duration, wanted: impl Fn(&What) -> bool) -> bool {
        within(limit, || self.outside.journal.any(&wanted)).await
    }

    /// Everything, for the message of a failing test.
    pub fn story(&self) -> String {
        let outputs: String =
            self.members.iter().map(|member| format!("--- {}\n{}", member.name, member.output())).collect();
        format!("{}\n{outputs}", self.outside.journal.show())
    }

    /// Runs a statement on the database; how many rows it returns.
    pub async fn run(&self, sql: &str) -> usize {
        let config: tokio_postgres::Config = self.url.parse().unwrap();
        let (client, connection) = config.connect(NoTls).await.unwrap();
        tokio::spawn(connection);
        let answers = client.simple_query(sql).await.unwrap();
        answers.iter().filter(|answer| matches!(answer, SimpleQueryMessage::Row(_))).count()
    }

    /// Waits until nothing is queued or owed, at most for `limit`.
    pub async fn rest(&self, limit: Duration) {
        let until = Instant::now() + limit;
        while !matches!(read_tables(&self.url).await, Ok((_, true))) && Instant::now() < until {
            tokio::time::sleep(Duration::from_millis(250)).await;
        }
    }

    /// Waits until nothing is owed any longer, at most for `limit`, and judges what was seen.
    pub async fn verdict(&self, limit: Duration, window: Duration) -> Report {
        let until = Instant::now() + limit;
        let facts = Facts {
            escalation: self.escalation.clone(),
            lease: self.times.lease(),
            window,
            probes: self.probes.clone(),
            outage: self.outage,
            slow: self.slow.clone(),
        };
        let mut settled = 0;
        loop {
            let report = match read_tables(&self.url).await {
                Ok((tables, is_quiet)) => {
                    let report = checker::check(&self.outside.journal.read(), &tables, &facts);
                    // Twice: what comes twice comes a moment later.
                    settled = if is_quiet && report.is_sound() { settled + 1 } else { 0 };
                    Some(report)
                }
                Err(_) => None,
            };
            if let Some(report) = report.filter(|_| settled >= 2 || Instant::now() > until) {
                return report;
            }
            assert!(Instant::now() < until + PATIENCE, "the database does not answer\n{}", self.story());
            tokio::time::sleep(Duration::from_millis(250)).await;
        }
    }
}

/// Looks every few milliseconds whether this has come about.
async fn within(limit: Duration, mut came: impl FnMut() -> bool) -> bool {
    let until = Instant::now() + limit;
    loop {
        if came() {
            return true;
        }
        if Instant::now() > until {
            return false;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

fn setup(outside: &Outside, times: Times) -> Setup {
    Setup::default()
        .env("AGENT_MODEL", "openai:gpt-4.1-mini")
        .env("OPENAI_API_KEY", "proof-key")
        .env("OPENAI_BASE_URL", outside.model_url.clone())
        .env("MANYCHAT_API_BASE", outside.manychat_url.clone())
        .env("MANYCHAT_REPLY_FLOW_NS", REPLY_FLOW)
        .env("MANYCHAT_REPLY_GAP_MS", "0")
        .env("MANYCHAT_CALLS_PER_SECOND", "500")
        .env("RATE_LIMIT_PER_MINUTE", "1000000")
        .env("RACE_DEADLINE_MS", times.deadline_ms.to_string())
        .env("MODEL_ABORT_MS", times.abort_ms.to_string())
        .env("PROCESS_BEAT_MS", times.beat_ms.to_string())
        .env("PROCESS_DEAD_MS", times.dead_ms.to_string())
        .rules(without_limits)
}

fn without_limits(rules: &mut Value) {
    rules["maxTurnsPerConversation"] = json!(1_000_000);
    rules["rateLimit"] = json!({ "turnsPerSubscriberPerHour": 1_000_000 });
    rules["budget"] = json!({ "dailyTokenCap": 1_000_000_000_u64, "dailyCostCapUsd": 1e6 });
}

/// What was accepted and handed off, and whether nothing is owed any longer.
async fn read_tables(url: &str) -> Result<(Tables, bool), tokio_postgres::Error> {
    let config: tokio_postgres::Config = url.parse()?;
    let (client, connection) = config.connect(NoTls).await?;
    tokio::spawn(connection);
    let users = client
        .query(
            "select id, text, seq, created_at::text as burst from turns where role = 'user' order by seq",
            &[],
        )
        .await?;
    let handoffs = client
        .query(
            "select c.subscriber_id, h.turn_id from rs_handoffs h join conversations c on c.id = h.conversation_id",
            &[],
        )
        .await?;
    let open = client
        .query_one(
            "select (select count(*) from outbox where kind = 'reply' and status in ('pending', 'delivering'))
                  + (select count(*) from rs_owed) + (select count(*) from rs_inbox)
                  + (select count(*) from rs_actions)",
            &[],
        )
        .await?;
    let entries = client
        .query(
            "select c.subscriber_id, e ->> 'id' as id, e ->> 'status' as status
             from turns t join conversations c on c.id = t.conversation_id,
                  jsonb_array_elements(case when jsonb_typeof(t.actions) = 'array' then t.actions else '[]' end) e",
            &[],
        )
        .await?;
    let user_row = |row: &tokio_postgres::Row| {
        let marker = Marker::all(row.get("text")).into_iter().next()?;
        Some(UserRow { id: row.get("id"), marker, seq: row.get("seq"), burst: row.get("burst") })
    };
    let tables = Tables {
        users: users.iter().filter_map(user_row).collect(),
        handoffs: handoffs.iter().map(|row| (row.get(0), row.get(1))).collect(),
        entries: entries.iter().map(|row| (row.get(0), row.get(1), row.get(2))).collect(),
    };
    Ok((tables, open.get::<_, i64>(0) == 0))
}
