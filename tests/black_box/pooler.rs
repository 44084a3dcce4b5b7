//! Behind PgBouncer in transaction mode, with whatever PgBouncer is installed or `PGBOUNCER` names; without one the tests
//! say so in a line (DEC-29).

use std::fmt::Write as _;
use std::fs;
use std::net::TcpStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use manychat_agent::store::embedded::testing::{TestDatabase, TestServer};
use serde_json::json;

use crate::app::{BEAT, CONTACT, DEAD, Folder, LOST, PATIENCE, Port, SECRET, Setup, command, tenant_folder};
use crate::proxy::Proxy;
use crate::tokens::{Stage, message, recalled};

/// The first version that keeps prepared statements in transaction mode.
const KEEPS_STATEMENTS: (u32, u32) = (1, 21);
/// Fewer sessions than connections of one process, so that they are dealt out.
const SESSIONS: u32 = 4;

struct Pooler {
    port: u16,
    process: Child,
    database: TestDatabase,
    _folder: Folder,
    _port: Port,
    _proxy: Proxy,
}

impl Pooler {
    /// A pooler in front of a migrated database. `kept`: `max_prepared_statements`, which older versions do not know.
    async fn start(program: &str, kept: Option<u32>) -> Self {
        let database = TestServer::database().unwrap();
        let proxy = Proxy::start(database.config(), Duration::ZERO).await;
        let (folder, kept_port) = (Folder::new(), Port::keep());
        let port = kept_port.number;
        let user = database.config().get_user().unwrap_or("app");
        let mut ini = format!(
            "[databases]\n* = host=127.0.0.1 port={} user={user}\n\
             [pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\nauth_type = any\n\
             pool_mode = transaction\nmax_client_conn = 200\ndefault_pool_size = {SESSIONS}\n",
            proxy.port
        );
        if let Some(kept) = kept {
            writeln!(ini, "max_prepared_statements = {kept}").unwrap();
        }
        let file = folder.path.join("pgbouncer.ini");
        fs::write(&file, ini).unwrap();
        let log = fs::File::create(folder.path.join("log")).unwrap();
        let mut start = Command::new(program);
        // SAFETY: the call has no conditions.
        if unsafe { libc::geteuid() } == 0 {
            // It refuses to run as root.
            start.uid(65_534).gid(65_534);
        }
        let process =
            start.arg(&file).stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn().unwrap();
        let until = Instant::now() + PATIENCE;
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            let said = || fs::read_to_string(folder.path.join("log")).unwrap_or_default();
            assert!(Instant::now() < until, "the pooler does not listen: {}", said());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Self { port, process, database, _folder: folder, _port: kept_port, _proxy: proxy }
    }

    fn url(&self) -> String {
        format!("postgres://app@127.0.0.1:{}/{}", self.port, self.database.name())
    }
}

impl Drop for Pooler {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The program and its version, when there is one.
fn installed() -> Option<(String, (u32, u32))> {
    let named = std::env::var("PGBOUNCER").ok();
    let known = ["pgbouncer", "/usr/sbin/pgbouncer"].map(str::to_owned);
    let found = named.into_iter().chain(known).find_map(|program| {
        let output = Command::new(&program).arg("--version").output().ok()?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let mut numbers = text.lines().next()?.split_whitespace().last()?.split('.');
        let mut number = || numbers.next()?.parse().ok();
        Some((program, (number()?, number()?)))
    });
    if found.is_none() {
        println!("no PgBouncer is installed: DEC-29 is not tried with one");
    }
    found
}

/// DEC-29: where the pooler loses prepared statements, the start ends with a line that says what to do.
#[tokio::test(flavor = "multi_thread")]
async fn a_pooler_that_loses_statements_is_refused() {
    let Some((program, version)) = installed() else { return };
    let pooler = Pooler::start(&program, (version >= KEEPS_STATEMENTS).then_some(0)).await;
    let (folder, env) = tenant_folder(&pooler.url(), None);
    let ended = command(&folder.path, &env, &["serve"]);
    assert_eq!((ended.code, ended.stderr.lines().count()), (Some(1), 1), "{}", ended.stderr);
    assert!(
        ended.stderr.contains("PgBouncer 1.21") && ended.stderr.contains("DATABASE_URL"),
        "{}",
        ended.stderr
    );
}

/// DEC-29, ARC-30, ARC-47a, DEC-8: two processes behind one pooler that deals out fewer sessions than they ask for: many
/// contacts at once, a contact's history, its token, a reply through the outbox, and what a killed process has left.
#[tokio::test(flavor = "multi_thread")]
async fn two_processes_share_a_transaction_pooler() {
    let Some((program, version)) = installed() else { return };
    if version < KEEPS_STATEMENTS {
        println!("PgBouncer {}.{} loses prepared statements: it is only refused", version.0, version.1);
        return;
    }
    let mut pooler = Pooler::start(&program, Some(200)).await;
    let url = pooler.url();
    let database = std::mem::replace(&mut pooler.database, TestServer::empty_database().unwrap());
    let setup = Setup { database: Some(database), database_url: Some(url), ..Setup::default() };
    let setup = setup.env("PROCESS_BEAT_MS", BEAT).env("PROCESS_DEAD_MS", DEAD);
    let mut stage =
        Stage::with(true, setup.env("RACE_DEADLINE_MS", LOST).env("RATE_LIMIT_PER_MINUTE", "10000")).await;
    let second = stage.app.second_process().await;
    let crowd = (0..40).map(|number| {
        let app = if number % 2 == 0 { &stage.app } else { &second };
        app.send_later(&format!("86{number:05}"), "hello")
    });
    for answer in crowd.collect::<Vec<_>>() {
        let answer = answer.await.unwrap();
        assert_eq!((answer.status, answer.texts().len()), (200, 1), "{}", answer.body);
    }
    assert_eq!(stage.say(CONTACT, "my word is zqpooled", None).await.status, 200);
    let token = json!(stage.token(CONTACT).await);
    let there = second.post(&message(CONTACT, "which word?", Some(token.clone())), Some(SECRET)).await;
    assert_eq!(recalled(&there), ["zqpooled"], "the other process reads what the first has written");
    let late = stage.say(CONTACT, "slowly, which word?", Some(token.clone())).await;
    assert_eq!(late.texts(), [stage.app.copy("acknowledgement")]);
    second.await_rows("select 1 from outbox where kind = 'reply' and status = 'delivered'").await;
    let _waits = stage.app.raw_request("slowly, once more");
    second.await_rows("select 1 from rs_owed where status = 'running'").await;
    stage.app.stop(libc::SIGKILL).await;
    let delivered = "select 1 from outbox where kind = 'reply' and status = 'delivered'";
    second.await_that(delivered, |rows| rows.len() == 2).await;
    assert!(second.logs("reply of a dead process taken over").len() == 1, "{}", second.output());
    for line in stage.app.output().lines().chain(second.output().lines()) {
        assert!(!line.contains("prepared statement"), "{line}");
    }
}
