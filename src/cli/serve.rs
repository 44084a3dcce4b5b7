//! `agent serve`: the HTTP server (06 section 7.2).

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};

use super::boot::{self, Loaded};
use super::reload;
use crate::actors::System;
use crate::config::Settings;
use crate::http::{self, Door, Secrets, Server};
use crate::turn::Snapshots;

/// Runs until a signal ends it.
pub(super) fn run() -> anyhow::Result<ExitCode> {
    run_with(boot::load()?, |_| {})
}

/// The same with a call when the port is open, for `dev`.
pub(super) fn run_with(loaded: Loaded, listening: impl FnOnce(&Settings)) -> anyhow::Result<ExitCode> {
    boot::start_log(&loaded.settings)?;
    let runtime = boot::runtime()?;
    let database = boot::open_database(&loaded.settings)?;
    let system = actix::System::with_tokio_rt(move || runtime);
    let served = system.block_on(serve(runtime, loaded, database.config, listening));
    // Last of all: nothing may use the embedded server any longer (stop order of the embedded server).
    drop(database.embedded);
    served
}

async fn serve(
    runtime: &'static tokio::runtime::Runtime,
    loaded: Loaded,
    database: tokio_postgres::Config,
    listening: impl FnOnce(&Settings),
) -> anyhow::Result<ExitCode> {
    let Loaded { settings, tenant, warnings } = loaded;
    boot::report_configuration(&tenant);
    boot::report_warnings(&warnings);
    boot::migrate(&database).await?;
    let snapshots = Arc::new(Snapshots::new(tenant));
    let system = boot::start_system(runtime, &settings, database, Arc::clone(&snapshots))?;
    boot::report_media();
    let mut signals = Signals::new()?;
    let server = listen(&settings, &system, runtime)?;
    tracing::info!("Server listening at http://0.0.0.0:{}", settings.port);
    listening(&settings);
    let name = signals.wait(&settings, &snapshots).await;
    tracing::info!(signal = name, "shutting down");
    tokio::select! {
        () = shut_down(server, system, &settings) => {}
        () = signals.end() => tracing::warn!("second signal: ending at once"),
    }
    Ok(ExitCode::SUCCESS)
}

fn listen(
    settings: &Settings,
    system: &System,
    runtime: &'static tokio::runtime::Runtime,
) -> anyhow::Result<Server> {
    let door = Door::new(
        system.services(),
        Secrets::new(&settings.shared_secrets),
        settings.admin_token.clone(),
        runtime.handle().clone(),
    );
    Ok(http::start(door, settings.port, boot::cores())?)
}

/// Stops accepting, answers what is open, lets late turns settle, ends the actors (CLI-24, ARC-49).
async fn shut_down(server: Server, system: System, settings: &Settings) {
    server.begin_drain();
    server.stop().await;
    let longest: Duration = settings.model_abort + settings.race_deadline;
    if !system.stop(longest).await {
        tracing::error!("turns were still open at the end; another process takes over what they owe");
    }
}

/// The signals a server reacts to.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
}

impl Signals {
    fn new() -> anyhow::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    /// Waits for the signal that ends the server and reloads on every `SIGHUP` before it.
    async fn wait(&mut self, settings: &Settings, snapshots: &Snapshots) -> &'static str {
        loop {
            tokio::select! {
                _ = self.terminate.recv() => return "SIGTERM",
                _ = self.interrupt.recv() => return "SIGINT",
                _ = self.hangup.recv() => reload::run(settings, snapshots),
            }
        }
    }

    /// Waits for a second signal to end.
    async fn end(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}
