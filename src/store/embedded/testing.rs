//! Databases for tests: one server a test process, one database a test.
//!
//! ```no_run
//! # use manychat_agent::store::embedded::testing::TestServer;
//! let database = TestServer::database()?; // migrated, empty, this test's alone
//! let url = database.url(); // for the binary under test
//! let config = database.config(); // for this test's own connection
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The server starts with the first database that is asked for and stops with the process. `TEST_DATABASE_URL` names
//! one to use instead; its user must be allowed to create databases. With a runner that gives every test a process,
//! set it, or each test pays for a server.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError, mpsc};
use std::time::Duration;
use std::{env, process, thread};

use sha2::{Digest, Sha256};
use tokio_postgres::{Client, Config, NoTls};

use super::{EmbeddedError, EmbeddedOptions, EmbeddedServer, sys};
use crate::store::migrations::{self, MigrationError};

/// Why a test got no database.
#[derive(Clone, Debug, thiserror::Error)]
#[error("no test database: {0}")]
pub struct TestDatabaseError(String);

impl From<EmbeddedError> for TestDatabaseError {
    fn from(error: EmbeddedError) -> Self {
        Self(error.to_string())
    }
}

impl From<MigrationError> for TestDatabaseError {
    fn from(error: MigrationError) -> Self {
        Self(error.to_string())
    }
}

impl From<tokio_postgres::Error> for TestDatabaseError {
    fn from(error: tokio_postgres::Error) -> Self {
        // Tests hold invented data, so the whole error may be shown.
        Self(format!("{error:?}"))
    }
}

/// The server of this test process.
#[derive(Debug)]
pub struct TestServer {
    base_url: String,
    jobs: mpsc::Sender<Job>,
}

/// What the administrator thread is asked to do.
enum Job {
    Create { name: String, migrated: bool, done: mpsc::Sender<Result<(), TestDatabaseError>> },
    Drop { name: String },
    Finish { done: mpsc::Sender<()> },
}

static SHARED: OnceLock<Result<TestServer, TestDatabaseError>> = OnceLock::new();
static PRIVATE: Mutex<Option<EmbeddedServer>> = Mutex::new(None);

impl TestServer {
    /// A database with all migrations applied and no rows. Blocks some 20 ms, the first time as long as the server
    /// needs to start. Callable from anywhere, also within a runtime.
    ///
    /// # Errors
    /// Without a server; the text says what to do.
    pub fn database() -> Result<TestDatabase, TestDatabaseError> {
        Self::shared()?.create(true)
    }

    /// A database without any table.
    ///
    /// # Errors
    /// As [`TestServer::database`].
    pub fn empty_database() -> Result<TestDatabase, TestDatabaseError> {
        Self::shared()?.create(false)
    }

    fn shared() -> Result<&'static Self, TestDatabaseError> {
        SHARED.get_or_init(Self::start).as_ref().map_err(Clone::clone)
    }

    fn start() -> Result<Self, TestDatabaseError> {
        let given = env::var("TEST_DATABASE_URL").ok().filter(|url| !url.is_empty());
        let base_url = match given {
            Some(url) => url,
            None => start_private()?,
        };
        let config = config_of(&with_database(&base_url, "postgres"))?;
        let (jobs, inbox) = mpsc::channel();
        let template_url = base_url.clone();
        thread::Builder::new()
            .name("test-databases".to_owned())
            .spawn(move || administer(&config, &template_url, &inbox))
            .map_err(|error| TestDatabaseError(error.to_string()))?;
        sys::at_exit(clean_up);
        Ok(Self { base_url, jobs })
    }

    fn create(&self, migrated: bool) -> Result<TestDatabase, TestDatabaseError> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let random = uuid::Uuid::new_v4().as_fields().0;
        let name = format!("agent_test_{}_{number}_{random:08x}", process::id());
        let url = with_database(&self.base_url, &name);
        let config = config_of(&url)?;
        let (done, outcome) = mpsc::channel();
        let gone = || TestDatabaseError("the administrator thread has ended".to_owned());
        self.jobs.send(Job::Create { name: name.clone(), migrated, done }).map_err(|_| gone())?;
        outcome.recv().map_err(|_| gone())??;
        Ok(TestDatabase { name, url, config, jobs: self.jobs.clone() })
    }
}

/// A database of one test, dropped with this value, connections and all.
#[derive(Debug)]
pub struct TestDatabase {
    name: String,
    url: String,
    config: Config,
    jobs: mpsc::Sender<Job>,
}

impl TestDatabase {
    /// Its name on the server.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// A connection string, as `DATABASE_URL` takes it.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// How to connect.
    #[must_use]
    pub const fn config(&self) -> &Config {
        &self.config
    }

    /// A connection of the caller's runtime, driven by a task of its own.
    ///
    /// # Errors
    /// What the driver reports.
    pub async fn connect(&self) -> Result<Client, tokio_postgres::Error> {
        let (client, connection) = self.config.connect(NoTls).await?;
        tokio::spawn(connection);
        Ok(client)
    }
}

impl Drop for TestDatabase {
    fn drop(&mut self) {
        let _ = self.jobs.send(Job::Drop { name: std::mem::take(&mut self.name) });
    }
}

/// Settings for many short-lived databases, as many at once as a machine with many cores runs tests.
fn start_private() -> Result<String, EmbeddedError> {
    let options = EmbeddedOptions::temporary()
        .with_setting("max_connections", "1000")
        .with_setting("shared_buffers", "64MB")
        .with_setting("autovacuum", "off");
    let server = EmbeddedServer::start(options)?;
    let url = server.url();
    *PRIVATE.lock().unwrap_or_else(PoisonError::into_inner) = Some(server);
    Ok(url)
}

/// A test harness leaves through `exit`, which drops no statics.
extern "C" fn clean_up() {
    let private = PRIVATE.lock().unwrap_or_else(PoisonError::into_inner).take();
    if private.is_none()
        && let Some(Ok(server)) = SHARED.get()
    {
        let (done, finished) = mpsc::channel();
        if server.jobs.send(Job::Finish { done }).is_ok() {
            let _ = finished.recv_timeout(Duration::from_secs(10));
        }
    }
}

/// The administrator thread: one connection that creates and drops databases, in the order asked.
fn administer(config: &Config, base_url: &str, inbox: &mpsc::Receiver<Job>) {
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else { return };
    let mut administrator = None;
    while let Ok(job) = inbox.recv() {
        runtime.block_on(async {
            match job {
                Job::Create { name, migrated, done } => {
                    let _ = done.send(create(&mut administrator, config, base_url, &name, migrated).await);
                }
                Job::Drop { name } => {
                    if let Some(client) = &administrator {
                        let statement = format!("drop database if exists {name} with (force)");
                        let _ = client.batch_execute(&statement).await;
                    }
                }
                Job::Finish { done } => {
                    let _ = done.send(());
                }
            }
        });
    }
}

async fn create(
    administrator: &mut Option<Client>,
    config: &Config,
    base_url: &str,
    name: &str,
    migrated: bool,
) -> Result<(), TestDatabaseError> {
    if administrator.is_none() {
        let (client, connection) = config.connect(NoTls).await?;
        tokio::spawn(connection);
        *administrator = Some(client);
    }
    let Some(client) = administrator else { return Ok(()) };
    let template = if migrated { template(client, base_url).await? } else { "template0".to_owned() };
    let statement = format!("create database {name} template {template} strategy file_copy");
    client.batch_execute(&statement).await.map_err(Into::into)
}

/// The name of a migrated database to copy, made where it is missing. On a shared server it stays, for the next run:
/// its name tells the text of the migrations. It is complete as soon as it has that name.
async fn template(client: &Client, base_url: &str) -> Result<String, TestDatabaseError> {
    let mut digest = Sha256::new();
    migrations::all_sql().for_each(|sql| digest.update(sql));
    let digest: String = digest.finalize().iter().take(6).map(|byte| format!("{byte:02x}")).collect();
    let name = format!("agent_template_{digest}");
    client.batch_execute("select pg_advisory_lock(hashtext('agent test template'))").await?;
    let made = make_template(client, base_url, &name).await;
    client.batch_execute("select pg_advisory_unlock(hashtext('agent test template'))").await?;
    made.map(|()| name)
}

async fn make_template(client: &Client, base_url: &str, name: &str) -> Result<(), TestDatabaseError> {
    if client.query_opt("select from pg_database where datname = $1", &[&name]).await?.is_some() {
        return Ok(());
    }
    let unfinished = format!("{name}_unfinished");
    client.batch_execute(&format!("drop database if exists {unfinished} with (force)")).await?;
    client.batch_execute(&format!("create database {unfinished} template template0")).await?;
    let (mut inside, connection) = config_of(&with_database(base_url, &unfinished))?.connect(NoTls).await?;
    let driver = tokio::spawn(connection);
    migrations::migrate(&mut inside).await?;
    drop(inside);
    // A database with a connection can be neither renamed nor copied.
    let _ = driver.await;
    client.batch_execute(&format!("alter database {unfinished} rename to {name}")).await.map_err(Into::into)
}

fn config_of(url: &str) -> Result<Config, TestDatabaseError> {
    url.parse().map_err(TestDatabaseError::from)
}

/// The same connection string with another database.
pub(super) fn with_database(url: &str, database: &str) -> String {
    let (address, parameters) = url.split_once('?').map_or((url, None), |(head, tail)| (head, Some(tail)));
    let (scheme, rest) = address.split_once("://").unwrap_or(("postgresql", address));
    let authority = rest.split_once('/').map_or(rest, |(authority, _)| authority);
    let parameters = parameters.map(|text| format!("?{text}")).unwrap_or_default();
    format!("{scheme}://{authority}/{database}{parameters}")
}
