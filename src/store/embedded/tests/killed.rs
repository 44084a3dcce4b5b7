//! A service that is killed: each test runs itself again as the service, in a process that can be killed.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use super::super::home::{Home, sweep};
use super::super::{EmbeddedError, EmbeddedOptions, EmbeddedServer};
use super::support::{TempDir, connect, signal, state_of, value, wait_until};
use super::{options, start};

/// Tells the copy of a test that it is the service, and where.
const ROLE: &str = "EMBEDDED_TEST_DIRECTORY";
const REPORT: &str = "service runs with ";

/// A copy of this test program that runs one test in the role of the service.
struct Service {
    process: Child,
    /// The server's process and connection string.
    server: u32,
    url: String,
}

impl Service {
    fn launch(test: &str, directory: &Path) -> Self {
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", &format!("store::embedded::tests::killed::{test}"), "--nocapture"])
            .env(ROLE, directory)
            .env("TMPDIR", directory)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let report = lines
            .map(Result::unwrap)
            .find_map(|line| line.split_once(REPORT).map(|(_, report)| report.to_owned()));
        let report = report.expect("the service reports its server");
        let (server, url) = report.split_once(' ').unwrap();
        Self { server: server.parse().unwrap(), url: url.to_owned(), process }
    }

    /// What the copy does: run the server until it is killed.
    fn serve(options: EmbeddedOptions) -> ! {
        let server = EmbeddedServer::start(options).unwrap();
        println!("\n{REPORT}{} {}", server.pid(), server.url());
        loop {
            std::thread::park();
        }
    }

    fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// ACC-EMB-2, EMB-4, EMB-5: while it lives, the directory is its own; when it is killed or interrupted, its server ends
/// by itself and the data is there for the next.
#[tokio::test]
async fn a_killed_service_leaves_no_server_and_all_data() {
    if let Some(directory) = std::env::var_os(ROLE) {
        Service::serve(options(Path::new(&directory)));
    }
    let home = TempDir::new("killed");
    let test = "a_killed_service_leaves_no_server_and_all_data";
    let mut service = Service::launch(test, home.path());
    let client = connect(&service.url.parse().unwrap()).await;
    client.batch_execute("create table notes (text text); insert into notes values ('kept')").await.unwrap();
    let error = start(options(home.path())).await.unwrap_err();
    let holder = service.process.id().to_string();
    assert!(matches!(&error, EmbeddedError::InUse { holder: pid, .. } if *pid == holder), "{error}");

    service.kill();
    // At once: the old server may still be on its way out.
    let server = start(options(home.path())).await.unwrap();
    let client = connect(&server.config()).await;
    assert_eq!(value::<String>(&client, "select text from notes").await, "kept");
    wait_until("the end of the old server", || matches!(state_of(service.server), None | Some('Z')));
    server.stop();

    // As from Ctrl-C, without a handler.
    let mut service = Service::launch(test, home.path());
    signal(service.process.id(), libc::SIGINT);
    service.process.wait().unwrap();
    wait_until("the end of the server", || matches!(state_of(service.server), None | Some('Z')));
}

/// ACC-EMB-2, EMB-5: what a killed service with a temporary database left is removed by the next start; what a live
/// one uses is not, nor anything that only looks similar.
#[tokio::test]
async fn a_directory_left_by_a_killed_service_is_cleaned() {
    if std::env::var_os(ROLE).is_some() {
        Service::serve(EmbeddedOptions { durable: true, ..EmbeddedOptions::temporary() });
    }
    let home = TempDir::new("left");
    let mut killed = Service::launch("a_directory_left_by_a_killed_service_is_cleaned", home.path());
    let config: tokio_postgres::Config = killed.url.parse().unwrap();
    let [tokio_postgres::config::Host::Unix(sockets)] = config.get_hosts() else { panic!("{config:?}") };
    let left = sockets.parent().unwrap().to_owned();
    let live = Home::temporary_in(home.path()).unwrap();
    let similar = home.path().join("agent-postgres-backup");
    fs::create_dir(&similar).unwrap();
    fs::write(similar.with_extension("lock"), "").unwrap();
    sweep(home.path());
    assert!(left.exists(), "its service lives");

    killed.kill();
    assert!(left.exists() && left.with_extension("lock").exists(), "nobody was there to remove it");
    sweep(home.path());
    assert!(!left.exists() && !left.with_extension("lock").exists());
    assert!(live.cluster.parent().unwrap().exists() && similar.exists());
    wait_until("the end of its server", || matches!(state_of(killed.server), None | Some('Z')));
}
