//! The durable server that everything is measured against, and fresh databases in it.

use std::fs;
use std::path::{Path, PathBuf};

use manychat_agent::store::embedded::{EmbeddedOptions, EmbeddedServer};
use manychat_agent::store::{connect, migrations};
use tokio_postgres::config::Host;

/// Room for all that is written, so that no checkpoint falls into a measurement.
const SETTINGS: [(&str, &str); 3] =
    [("shared_buffers", "512MB"), ("max_wal_size", "4GB"), ("checkpoint_timeout", "30min")];

/// A server in a directory on disk that is new in every run.
pub struct Postgres {
    server: EmbeddedServer,
    settings: Vec<(String, String)>,
    /// Where everything of a run lies.
    pub directory: PathBuf,
}

impl Postgres {
    /// Starts it with fsync on.
    pub fn start(more: &[(String, String)]) -> anyhow::Result<Self> {
        let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("load");
        match fs::remove_dir_all(&directory) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error.into()),
            _ => fs::create_dir_all(&directory)?,
        }
        let usual = SETTINGS.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let settings: Vec<_> = usual.into_iter().chain(more.iter().cloned()).collect();
        let options = EmbeddedOptions::directory(directory.join("postgres"));
        let options = settings.iter().fold(options, |all, (name, value)| all.with_setting(name, value));
        Ok(Self { server: EmbeddedServer::start(options)?, settings, directory })
    }

    /// Version and the settings that decide about speed.
    pub async fn describe(&self) -> anyhow::Result<String> {
        let client = connect(&self.server.config().into()).await?;
        let row = client
            .query_one(
                "select version(), current_setting('fsync'), current_setting('synchronous_commit'),
                        current_setting('wal_sync_method')",
                &[],
            )
            .await?;
        let version: &str = row.try_get(0)?;
        let version = version.split(',').next().unwrap_or(version);
        let (fsync, commit, method): (&str, &str, &str) = (row.try_get(1)?, row.try_get(2)?, row.try_get(3)?);
        let settings: Vec<_> = self.settings.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let settings = settings.join(" ");
        Ok(format!(
            "{version}, Unix socket, fsync {fsync} ({method}), synchronous_commit {commit}, {settings}"
        ))
    }

    /// A migrated database without rows.
    pub async fn fresh_database(&self, name: &str) -> anyhow::Result<Database> {
        let admin = connect(&self.server.config().into()).await?;
        admin.batch_execute(&format!("drop database if exists {name} with (force)")).await?;
        admin.batch_execute(&format!("create database {name}")).await?;
        let mut config = self.server.config();
        config.dbname(name);
        migrations::migrate(&mut connect(&config.into()).await?).await?;
        Ok(Database { url: self.url_of(name), name: name.to_owned() })
    }

    /// A connection to it.
    pub async fn client(&self, database: &Database) -> anyhow::Result<tokio_postgres::Client> {
        let mut config = self.server.config();
        config.dbname(&database.name);
        Ok(connect(&config.into()).await?)
    }

    fn url_of(&self, name: &str) -> String {
        self.server.url().replacen("/agent?", &format!("/{name}?"), 1)
    }

    /// Flushes all that is dirty, so that no measurement pays for the one before it.
    pub async fn checkpoint(&self) -> anyhow::Result<()> {
        Ok(connect(&self.server.config().into()).await?.batch_execute("checkpoint").await?)
    }

    /// The server's first process.
    pub fn pid(&self) -> u32 {
        self.server.pid()
    }

    /// The directory of its socket.
    pub fn sockets(&self) -> anyhow::Result<PathBuf> {
        let config = self.server.config();
        match config.get_hosts().first() {
            Some(Host::Unix(directory)) => Ok(directory.clone()),
            _ => anyhow::bail!("the embedded server has no Unix socket"),
        }
    }

    /// A program of the running server's own installation.
    pub fn program(&self, name: &str) -> anyhow::Result<PathBuf> {
        let server = fs::read_link(format!("/proc/{}/exe", self.pid()))?;
        let program = server.with_file_name(name);
        anyhow::ensure!(program.is_file(), "{} is missing: install Debian's `postgresql`", program.display());
        Ok(program)
    }
}

/// One database of the server.
pub struct Database {
    /// For the service.
    pub url: String,
    /// Its name.
    pub name: String,
}
