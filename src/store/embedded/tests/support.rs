//! Directories, connections and processes for the tests of this module.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use tokio_postgres::types::FromSqlOwned;
use tokio_postgres::{Client, Config, NoTls};

use super::super::account::RunAs;
use super::super::cluster;
use super::super::home::Home;
use super::super::{Postmaster, ServerBinaries, config_for};

/// A directory of one test, in memory where possible, that other users may pass through; removed at the end.
pub(super) struct TempDir(PathBuf);

impl TempDir {
    pub(super) fn new(label: &str) -> Self {
        let memory = Path::new("/dev/shm");
        let base = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
        // Short: sockets lie in it.
        let directory = base.join(format!("agent-test-{label}-{:08x}", uuid::Uuid::new_v4().as_fields().0));
        fs::create_dir(&directory).unwrap();
        Self(directory)
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

pub(super) async fn connect(config: &Config) -> Client {
    let (client, connection) = config.connect(NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

pub(super) async fn value<T: FromSqlOwned>(client: &Client, sql: &str) -> T {
    client.query_one(sql, &[]).await.unwrap().get(0)
}

/// Polls with a generous limit; the condition, not the time, decides.
#[track_caller]
pub(super) fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let give_up = Instant::now() + Duration::from_secs(120);
    while !condition() {
        assert!(Instant::now() < give_up, "waited for {what}");
        sleep(Duration::from_millis(5));
    }
}

/// The state letter of a process: `Z` is dead and not reaped.
/// Sends a signal to a process that this test has started. A minimal system has no `kill` program.
pub(super) fn signal(pid: u32, number: i32) {
    // SAFETY: the call reads no memory of ours.
    assert_eq!(unsafe { libc::kill(i32::try_from(pid).unwrap(), number) }, 0);
}

pub(super) fn state_of(pid: u32) -> Option<char> {
    fs::read_to_string(format!("/proc/{pid}/stat")).ok()?.rsplit(") ").next()?.chars().next()
}

pub(super) fn usable_ways(programs: &ServerBinaries) -> Vec<RunAs> {
    super::super::account::ways(None).into_iter().filter(|way| way.works_with(programs)).collect()
}

/// A home with a cluster, ready to run.
pub(super) fn prepared(programs: &ServerBinaries, base: &Path) -> (Home, RunAs) {
    let mut home = Home::kept(base, programs.major()).unwrap();
    let run_as = RunAs::choose(programs, &home.cluster).unwrap();
    home.prepare_for(run_as).unwrap();
    cluster::initialise(programs, run_as, &home.cluster, false).unwrap();
    (home, run_as)
}

/// Makes a cluster in this way, runs it and connects.
pub(super) fn run_once(programs: &ServerBinaries, run_as: RunAs, base: &Path) {
    let mut home = Home::kept(base, programs.major()).unwrap();
    home.prepare_for(run_as).unwrap();
    cluster::initialise(programs, run_as, &home.cluster, false).unwrap();
    let mut server = Postmaster::start(programs, run_as, &home, &[]).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async { connect(&config_for(&home.sockets, "postgres")).await });
    server.stop();
}
