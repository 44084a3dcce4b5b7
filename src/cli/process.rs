//! The frame of the long-running commands: boot, signals, reload, orderly end (06 sections 7.2 and 7.3).

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::boot::{self, Loaded};
use super::open_files;
use super::reload::Reloader;
use crate::actors::System;
use crate::config::Settings;
use crate::http::{self, Door, Port, Server};
use crate::playground::{self, Playground};
use crate::store::Address;
use crate::turn::Snapshots;

/// What a process is there for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// The HTTP server, with or without the workers beside it.
    Serve {
        /// False after `--no-workers`.
        workers: bool,
    },
    /// The workers alone.
    Worker,
}

/// Runs until a signal ends it. `load` reads the configuration; `running` is called when everything is up.
pub(super) fn run(
    role: Role,
    load: impl FnOnce() -> anyhow::Result<Loaded>,
    running: impl FnOnce(&Settings),
) -> anyhow::Result<ExitCode> {
    let open_files = open_files::raise();
    let runtime = boot::runtime()?;
    let hangup = early_hangup(runtime)?;
    let loaded = load()?;
    boot::start_log(&loaded.settings)?;
    open_files::report(open_files);
    let connections = open_files::connections(open_files, loaded.settings.model.max_concurrent);
    // Taken first, so that nothing is started beside a process that has it, and opened last (CLI-20).
    let port = port(role, &loaded.settings).map(Port::take).transpose()?;
    let entrance = Entrance { port, connections, hangup };
    boot::check_manychat(&loaded.settings)?;
    let database = boot::open_database(&loaded.settings)?;
    let system = actix::System::with_tokio_rt(move || runtime);
    let ended = system.block_on(live(role, runtime, loaded, database.address, entrance, running));
    // Last of all: nothing may use the embedded server any longer (stop order of the embedded server).
    drop(database.embedded);
    ended
}

/// Listens for `SIGHUP` before the first file is read: until then it would end the process, and a file that was edited
/// after it was read is read again (RLD-11). The signals that end a process keep doing so until everything is up.
fn early_hangup(runtime: &Runtime) -> anyhow::Result<Signal> {
    let _within = runtime.enter();
    Ok(signal(SignalKind::hangup())?)
}

async fn live(
    role: Role,
    runtime: &'static Runtime,
    loaded: Loaded,
    database: Address,
    entrance: Entrance,
    running: impl FnOnce(&Settings),
) -> anyhow::Result<ExitCode> {
    let Loaded { settings, tenant, warnings } = loaded;
    let Entrance { port, connections, hangup } = entrance;
    boot::report_configuration(&tenant);
    boot::report_warnings(&warnings);
    boot::migrate(&database).await?;
    let database = boot::inspect(database).await?;
    let snapshots = Arc::new(Snapshots::new(tenant));
    let workers = role != Role::Serve { workers: false };
    let controls = boot::controls(&settings).filter(|_| role != Role::Worker);
    let system =
        boot::start_system(runtime, &settings, database, Arc::clone(&snapshots), workers, controls.as_ref())?;
    boot::report_media();
    report_role(role);
    let mut signals = Signals::new(hangup)?;
    let playground = controls.map(|controls| {
        let (services, io) = (system.services(), runtime.handle().clone());
        Playground::start(playground::Setup { services, settings: &settings, controls, io })
    });
    let server = match listen(role, (port, connections), &settings, &system, runtime, playground.transpose()?)
    {
        Ok(server) => server,
        Err(error) => {
            // Somebody else listens by now: what was begun meanwhile is ended in order, or it would wait for our death.
            shut_down(None, system, &settings).await;
            return Err(error);
        }
    };
    running(&settings);
    let name = signals.wait(Reloader::new(&settings, snapshots)).await;
    tracing::info!(signal = name, "shutting down");
    let mut ending = Box::pin(shut_down(server, system, &settings));
    tokio::select! {
        () = &mut ending => {}
        () = signals.end() => {
            tracing::warn!("second signal: ending at once");
            // What it holds is let go by the end of the process. Dropping it would wait for the heartbeat, and that for the
            // database.
            std::mem::forget(ending);
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn report_role(role: Role) {
    match role {
        Role::Serve { workers: true } => {}
        Role::Serve { workers: false } => tracing::warn!(
            "started with --no-workers: this process delivers nothing from the outbox and recovers nothing that a \
             dead process left; run `agent worker` beside it"
        ),
        Role::Worker => tracing::info!("worker running"),
    }
}

/// What is taken before anything is started: the port that will be opened, how many may come in, and the signal to
/// reload.
struct Entrance {
    port: Option<Port>,
    connections: usize,
    hangup: Signal,
}

/// A worker has a port only when asked to (CLI-32).
const fn port(role: Role, settings: &Settings) -> Option<u16> {
    match role {
        Role::Serve { .. } => Some(settings.port),
        Role::Worker => settings.worker_health_port,
    }
}

/// Opens the port of this role, last of all (CLI-20).
fn listen(
    role: Role,
    (port, connections): (Option<Port>, usize),
    settings: &Settings,
    system: &System,
    runtime: &'static Runtime,
    playground: Option<Playground>,
) -> anyhow::Result<Option<Server>> {
    let Some(port) = port else { return Ok(None) };
    let door = Door::new(system.services(), settings, runtime.handle().clone()).with_playground(playground);
    let number = port.number();
    let server = match role {
        Role::Serve { .. } => http::start(door, port, boot::cores(), connections)?,
        Role::Worker => http::start_health(door, port)?,
    };
    tracing::info!("Server listening at http://0.0.0.0:{number}");
    Ok(Some(server))
}

/// What a stop allows beyond a model's longest time for the requests to ManyChat that a turn has under way (FLOW-7): enough for
/// a slow one, and with the rest below the minute that containers get.
const SLOW_REQUESTS: Duration = Duration::from_secs(15);

/// Stops accepting, answers what is open, lets late turns settle, ends the actors (CLI-24, ARC-49).
async fn shut_down(server: Option<Server>, system: System, settings: &Settings) {
    if let Some(server) = server {
        server.begin_drain();
        server.stop().await;
    }
    let longest = settings.model_abort + settings.race_deadline + SLOW_REQUESTS;
    let drained = system.stop(longest).await;
    if drained.unrecorded > 0 {
        tracing::error!(
            messages = drained.unrecorded,
            "the database did not take these messages until the end: nobody will answer them; look at the lines \
             `waiting turn handoff not queued`"
        );
    } else if !drained.all {
        tracing::error!(
            "work was still open at the end; it stands in the database, and another process takes it over"
        );
    }
}

/// The signals a long-running process reacts to.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
}

impl Signals {
    fn new(hangup: Signal) -> anyhow::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup,
        })
    }

    /// Waits for the signal that ends the process and reloads on every `SIGHUP` before it. A reload that takes long
    /// holds neither the actors nor the end of the process up.
    async fn wait(&mut self, mut reloader: Reloader) -> &'static str {
        loop {
            tokio::select! {
                _ = self.terminate.recv() => return "SIGTERM",
                _ = self.interrupt.recv() => return "SIGINT",
                _ = self.hangup.recv() => reloader.ask(),
                () = reloader.ended() => {}
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
