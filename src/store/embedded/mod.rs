//! A real Postgres server of our own, for development and tests (06 section 6, DEC-2): a child process that listens
//! on a Unix socket in a directory only we can enter, and on no network address.
//!
//! It ends with us however we end: stopped on a normal exit, and told by the kernel when we are killed. On Linux the
//! kernel watches the *thread* that started the child, so every server has an owner thread that starts it, parks, and
//! stops it.

mod account;
mod binaries;
mod cluster;
mod error;
mod fetch;
mod home;
mod sys;
pub mod testing;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tokio_postgres::{Config, NoTls};

use account::RunAs;
pub use binaries::ServerBinaries;
use cluster::{PORT, Postmaster, USER};
pub use error::EmbeddedError;
use home::Home;

/// How often the owner looks whether the server still runs.
const LOOK: Duration = Duration::from_secs(1);

/// The database that the service uses in an embedded server.
pub const DATABASE: &str = "agent";

/// Where the data lies when nothing else is said (DEC-2), relative to the working directory.
pub const DEFAULT_DIRECTORY: &str = ".data/postgres";

/// Where a server keeps its data (EMB-1).
#[derive(Clone, Debug)]
pub enum Location {
    /// In a directory that is gone when the server stops.
    Temporary,
    /// In this directory, in a subdirectory named after the server's major version; found again by the next start.
    Directory(PathBuf),
}

/// How to run a server.
#[derive(Clone, Debug)]
pub struct EmbeddedOptions {
    /// Where the data lies.
    pub location: Location,
    /// Whether a commit survives a crash of the machine. Off makes everything faster, and lets a temporary server
    /// live in memory.
    pub durable: bool,
    /// Server settings over ours, as `postgres -c name=value` takes them.
    pub settings: Vec<(String, String)>,
}

impl EmbeddedOptions {
    /// Empty, fast, gone at the end: `DATABASE_URL=embedded`.
    #[must_use]
    pub fn temporary() -> Self {
        Self { location: Location::Temporary, durable: false, settings: Vec::new() }
    }

    /// Durable, in a directory that stays: `DATABASE_URL=embedded:<dir>`.
    #[must_use]
    pub fn directory(directory: impl Into<PathBuf>) -> Self {
        Self { location: Location::Directory(directory.into()), durable: true, settings: Vec::new() }
    }

    /// The same with one more server setting.
    #[must_use]
    pub fn with_setting(mut self, name: &str, value: &str) -> Self {
        self.settings.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Where earlier clusters and fetched programs are looked for.
    fn data_dir(&self) -> &Path {
        match &self.location {
            Location::Temporary => Path::new(DEFAULT_DIRECTORY),
            Location::Directory(directory) => directory,
        }
    }

    /// Later settings win, so the caller's come last. The log never quotes statements or rows (DB-5).
    fn all_settings(&self) -> Vec<(String, String)> {
        let always = [
            ("max_connections", "100"),
            ("log_min_error_statement", "panic"),
            ("log_error_verbosity", "terse"),
        ];
        let fast = [("fsync", "off"), ("synchronous_commit", "off"), ("full_page_writes", "off")];
        let fast = fast.into_iter().filter(|_| !self.durable);
        let ours = always.into_iter().chain(fast).map(|(name, value)| (name.to_owned(), value.to_owned()));
        ours.chain(self.settings.iter().cloned()).collect()
    }
}

/// A running server. Stops when it is dropped; close every connection first, or they are cut.
#[derive(Debug)]
pub struct EmbeddedServer {
    sockets: PathBuf,
    pid: u32,
    /// Dropping it wakes the owner thread, which stops the server.
    keep: Option<mpsc::Sender<()>>,
    owner: Option<JoinHandle<()>>,
}

impl EmbeddedServer {
    /// Finds the programs, makes the cluster on a first start, starts the server and creates [`DATABASE`]. Blocks for
    /// some tens of milliseconds, on a first start up to seconds; in async code call it through `spawn_blocking`.
    ///
    /// # Errors
    /// See [`EmbeddedError`]; nothing is left behind then (EMB-5).
    pub fn start(options: EmbeddedOptions) -> Result<Self, EmbeddedError> {
        let (report, started) = mpsc::channel();
        let (keep, end) = mpsc::channel();
        let owner = thread::Builder::new()
            .name("embedded-postgres".to_owned())
            .spawn(move || own(&options, &report, &end))
            .map_err(EmbeddedError::System)?;
        let lost = || EmbeddedError::System(io::Error::from(io::ErrorKind::BrokenPipe));
        let (sockets, pid) = started.recv().map_err(|_| lost())??;
        Ok(Self { sockets, pid, keep: Some(keep), owner: Some(owner) })
    }

    /// How to connect to [`DATABASE`].
    #[must_use]
    pub fn config(&self) -> Config {
        config_for(&self.sockets, DATABASE)
    }

    /// The same as a connection string, for another process.
    #[must_use]
    pub fn url(&self) -> String {
        url_for(&self.sockets, DATABASE)
    }

    /// The process id of the server.
    #[must_use]
    pub const fn pid(&self) -> u32 {
        self.pid
    }

    /// Stops the server and waits until its data is safe, usually some 15 ms. A temporary one is removed (EMB-5).
    pub fn stop(mut self) {
        self.end();
    }

    fn end(&mut self) {
        self.keep = None;
        if let Some(owner) = self.owner.take() {
            let _ = owner.join();
        }
    }
}

impl Drop for EmbeddedServer {
    fn drop(&mut self) {
        self.end();
    }
}

/// How to connect to the server that another process runs in this directory; `None` when none takes connections there.
/// It ends with that process, whoever is connected.
#[must_use]
pub fn running_in(directory: &Path) -> Option<Config> {
    let entries = std::fs::read_dir(directory).ok()?.flatten();
    // A cluster's directory has its major version's name.
    let clusters = entries.filter(|entry| entry.file_name().to_string_lossy().parse::<u32>().is_ok());
    let sockets = clusters.filter_map(|entry| cluster::sockets_of(&entry.path())).next()?;
    Some(config_for(&sockets, DATABASE))
}

/// Whether a server was ever made in this directory.
#[must_use]
pub fn exists_in(directory: &Path) -> bool {
    let mut entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    entries.any(|entry| entry.path().join("PG_VERSION").is_file())
}

/// The owner thread: parks between start and stop.
fn own(
    options: &EmbeddedOptions,
    report: &mpsc::Sender<Result<(PathBuf, u32), EmbeddedError>>,
    end: &mpsc::Receiver<()>,
) {
    match start(options) {
        Ok((home, mut postmaster)) => {
            if report.send(Ok((home.sockets.clone(), postmaster.pid()))).is_ok() {
                wait_for_end(&mut postmaster, &home, end);
            }
            postmaster.stop();
            drop(home);
        }
        Err(error) => {
            let _ = report.send(Err(error));
        }
    }
}

/// Returns when the other end is dropped: nothing is ever sent. A server that ends by itself is reported once, with
/// what to do; nothing works without it, and its data may need somebody's eyes before it is started again.
fn wait_for_end(postmaster: &mut Postmaster, home: &Home, end: &mpsc::Receiver<()>) {
    while let Err(mpsc::RecvTimeoutError::Timeout) = end.recv_timeout(LOOK) {
        if postmaster.has_ended() {
            let log = home.cluster.join("server.log");
            tracing::error!(log = %log.display(), "embedded Postgres ended by itself: stop this process and start it again");
            let _ = end.recv();
            return;
        }
    }
}

fn start(options: &EmbeddedOptions) -> Result<(Home, Postmaster), EmbeddedError> {
    let binaries = ServerBinaries::find(options.data_dir())?;
    let mut home = match &options.location {
        Location::Temporary => Home::temporary(options.durable)?,
        Location::Directory(directory) => Home::kept(directory, binaries.major())?,
    };
    let run_as = RunAs::choose(&binaries, &home.cluster)?;
    home.prepare_for(run_as)?;
    cluster::initialise(&binaries, run_as, &home.cluster, options.durable)?;
    let mut postmaster = Postmaster::start(&binaries, run_as, &home, &options.all_settings())?;
    match create_database(&home.sockets) {
        Ok(()) => Ok((home, postmaster)),
        Err(error) => {
            postmaster.stop();
            Err(error)
        }
    }
}

/// A first start may have been killed between `initdb` and this, so every start looks.
fn create_database(sockets: &Path) -> Result<(), EmbeddedError> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(EmbeddedError::System)?;
    let refused = |error: tokio_postgres::Error| EmbeddedError::FirstConnection(error.to_string());
    runtime.block_on(async {
        let (client, connection) = config_for(sockets, "postgres").connect(NoTls).await.map_err(refused)?;
        let driver = tokio::spawn(connection);
        let known = client
            .query_opt("select from pg_database where datname = $1", &[&DATABASE])
            .await
            .map_err(refused)?;
        if known.is_none() {
            client.batch_execute(&format!("create database {DATABASE}")).await.map_err(refused)?;
        }
        drop(client);
        let _ = driver.await;
        Ok(())
    })
}

fn config_for(sockets: &Path, database: &str) -> Config {
    let mut config = Config::new();
    config.host_path(sockets).port(PORT).user(USER).dbname(database);
    config.connect_timeout(Duration::from_secs(5));
    config
}

/// `postgresql://app@/agent?host=<directory>`, percent-encoded, as this driver and libpq read it.
fn url_for(sockets: &Path, database: &str) -> String {
    use std::os::unix::ffi::OsStrExt;

    let mut host = String::new();
    for byte in sockets.as_os_str().as_bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(byte) {
            host.push(char::from(*byte));
        } else {
            host.push_str(&format!("%{byte:02X}"));
        }
    }
    format!("postgresql://{USER}@/{database}?host={host}&port={PORT}")
}

#[cfg(test)]
mod tests;
