//! The order of boot (OPS-6, CLI-20): environment, tenant files, database, migrations, model, actors, and the port
//! last. Whatever fails before the port is open is printed and ends the process with exit code 1.

use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use tokio::runtime::Runtime;

use crate::actors::{Delivery, Limits, OutboxSettings, System, Wiring};
use crate::config::{self, DatabaseUrl, Environment, ReservedNames, Settings, Tenant, Warning};
use crate::domain::{Clock, ProcessId, Provider, SystemClock};
use crate::manychat::{DevelopmentAccount, ManyChatError, Residents};
use crate::model::MockSwitch;
use crate::playground::{self, Controls};
use crate::store::embedded::{self, EmbeddedError, EmbeddedOptions, EmbeddedServer};
use crate::store::notices::Freed;
use crate::store::{self, Address, Database, PoolLimits, Pulse, migrations, pooler};
use crate::turn::{Snapshots, TokenWriter, TurnContext, TurnSettings};
use crate::{manychat, model, telemetry};

/// A checked configuration.
pub(super) struct Loaded {
    pub(super) settings: Settings,
    pub(super) tenant: Tenant,
    pub(super) warnings: Vec<Warning>,
}

/// Reads environment and tenant files; the second is not looked at while the first is faulty (CLI-4).
pub(super) fn load() -> anyhow::Result<Loaded> {
    load_from(&config::process_environment()?)
}

/// The environment alone.
pub(super) fn settings_from(environment: &Environment) -> anyhow::Result<(Settings, Vec<Warning>)> {
    let checked = Settings::from_environment(environment, check_address);
    Ok(checked.map_err(|error| error.in_folder(Path::new(".")))?)
}

/// The same with variables that are read already.
pub(super) fn load_from(environment: &Environment) -> anyhow::Result<Loaded> {
    let (settings, mut warnings) = settings_from(environment)?;
    let (tenant, more) = Tenant::load(&settings.config_dir, &reserved_names(&settings))?;
    warnings.extend(more);
    config::check_plugins(&settings.config_dir)?;
    Ok(Loaded { settings, tenant, warnings })
}

/// Whether `DATABASE_URL` can be used at all; opens nothing (CLI-4, CLI-60). Its refusals name the variable, which the
/// list of faults does already.
fn check_address(url: &str) -> Result<(), String> {
    let refusal = match url.parse::<Address>() {
        Ok(_) => return Ok(()),
        Err(error) => error.to_string(),
    };
    let reason = refusal.strip_prefix("DATABASE_URL").unwrap_or(&refusal);
    Err(reason.trim_start_matches([':', ' ']).to_owned())
}

/// The ManyChat objects the service uses for its own delivery.
pub(super) fn reserved_names(settings: &Settings) -> ReservedNames {
    ReservedNames::from(&settings.manychat)
}

/// Starts the log with this process's secrets (ENV-26, PII-8).
pub(super) fn start_log(settings: &Settings) -> anyhow::Result<()> {
    telemetry::init(log_level(settings.log_level), secrets_of(settings))?;
    Ok(())
}

fn log_level(level: config::LogLevel) -> telemetry::LogLevel {
    match level {
        config::LogLevel::Trace => telemetry::LogLevel::Trace,
        config::LogLevel::Debug => telemetry::LogLevel::Debug,
        config::LogLevel::Info => telemetry::LogLevel::Info,
        config::LogLevel::Warn => telemetry::LogLevel::Warn,
        config::LogLevel::Error => telemetry::LogLevel::Error,
        config::LogLevel::Fatal => telemetry::LogLevel::Fatal,
    }
}

fn secrets_of(settings: &Settings) -> Vec<String> {
    let model = &settings.model;
    let optional = [
        &model.anthropic_key,
        &model.openai_key,
        &model.google_key,
        &settings.manychat.api_token,
        &settings.admin_token,
    ];
    let keys = optional.into_iter().flatten().map(|key| key.expose().clone());
    keys.chain(settings.shared_secrets.iter().map(str::to_owned)).chain(database_password(settings)).collect()
}

fn database_password(settings: &Settings) -> Option<String> {
    let DatabaseUrl::Postgres(url) = &settings.database else { return None };
    Address::password_in(url.expose()).filter(|password| !password.is_empty())
}

/// The runtime that everything shares; it is never dropped, because sockets opened on it must keep their driver.
pub(super) fn runtime() -> anyhow::Result<&'static Runtime> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(cores())
        .thread_name("work")
        .enable_all()
        .build()
        .context("the runtime could not be started")?;
    Ok(Box::leak(Box::new(runtime)))
}

/// Threads of the runtime, HTTP workers and arbiters: one a core, two to four (ARC-21).
pub(super) fn cores() -> usize {
    std::thread::available_parallelism().map_or(2, std::num::NonZero::get).clamp(2, 4)
}

/// Whether the client of ManyChat can be built at all; it is thrown away. Before the database is touched: a key that
/// cannot be sent is no reason to migrate.
pub(super) fn check_manychat(settings: &Settings) -> anyhow::Result<()> {
    if let Err(error) = manychat::client(&settings.manychat) {
        anyhow::bail!("{error}{}", advice(&error));
    }
    Ok(())
}

/// What to do about a client that cannot be built, where its own words only say what is wrong.
fn advice(error: &ManyChatError) -> &'static str {
    match error {
        ManyChatError::Unusable { problem } if problem.contains("MANYCHAT_API_TOKEN") => {
            ": copy the key again, from ManyChat's Settings, API"
        }
        _ => "",
    }
}

/// The database as the settings name it; the embedded server must outlive everything that uses it.
pub(super) struct OpenDatabase {
    pub(super) address: Address,
    pub(super) embedded: Option<EmbeddedServer>,
}

/// Starts the embedded server when that is asked for (DEC-2).
pub(super) fn open_database(settings: &Settings) -> anyhow::Result<OpenDatabase> {
    let options = match &settings.database {
        DatabaseUrl::Postgres(url) => {
            return Ok(OpenDatabase { address: url.expose().parse()?, embedded: None });
        }
        DatabaseUrl::Embedded(directory) => EmbeddedOptions::directory(directory),
        DatabaseUrl::EmbeddedTemporary => EmbeddedOptions::temporary(),
    };
    let server = EmbeddedServer::start(options)?;
    Ok(OpenDatabase { address: server.config().into(), embedded: Some(server) })
}

/// The same for a command that works beside the service: where another process runs the embedded server, it is used
/// together with that one and ends with it. It makes no new server, because a mistyped path would look like an empty
/// database.
pub(super) fn share_database(settings: &Settings) -> anyhow::Result<OpenDatabase> {
    if let DatabaseUrl::Embedded(directory) = &settings.database {
        anyhow::ensure!(
            may_hold_server(directory),
            "DATABASE_URL: there is no embedded database in {}: correct the directory, or start the service there first, \
             which makes one (`agent serve`, `agent dev`)",
            directory.display()
        );
    }
    open_database(settings).or_else(|error| {
        let in_use = matches!(error.downcast_ref(), Some(EmbeddedError::InUse { .. }));
        match &settings.database {
            DatabaseUrl::Embedded(directory) if in_use => match embedded::running_in(directory) {
                Some(config) => Ok(OpenDatabase { address: config.into(), embedded: None }),
                None => Err(error),
            },
            _ => Err(error),
        }
    })
}

/// False where nothing was ever kept. A directory that only others may look into is left to the server's own start, which
/// says so.
fn may_hold_server(directory: &Path) -> bool {
    match std::fs::read_dir(directory) {
        // A cluster's directory has its major version's name.
        Ok(entries) => {
            entries.flatten().any(|entry| entry.file_name().to_string_lossy().parse::<u32>().is_ok())
        }
        Err(error) => error.kind() != ErrorKind::NotFound,
    }
}

/// Applies pending migrations over a connection of their own (MIG-1, MIG-3).
pub(super) async fn migrate(address: &Address) -> anyhow::Result<()> {
    let mut client = store::connect(address).await.context("DATABASE_URL")?;
    let applied = migrations::migrate(&mut client).await.context("DATABASE_URL")?;
    if !applied.is_empty() {
        tracing::info!(json.migrations = %telemetry::Json(&applied), "migrations applied");
    }
    Ok(())
}

/// What the playground may change; `None` without one (DEC-16). It has the development account of ManyChat only
/// where there is no key for a real one.
pub(super) fn controls(settings: &Settings) -> Option<Controls> {
    if !settings.playground {
        return None;
    }
    let mock = (settings.model.agent.provider == Provider::Mock).then(|| MockSwitch::new(slow(settings)));
    let account = settings.manychat.api_token.is_none().then(|| {
        let residents = match settings.database {
            DatabaseUrl::Embedded(_) | DatabaseUrl::EmbeddedTemporary => Residents::Everybody,
            DatabaseUrl::Postgres(_) => Residents::OwnContacts,
        };
        let (account, happenings) = DevelopmentAccount::new(names(settings, true), residents);
        playground::Account { account, happenings }
    });
    Some(Controls { mock, account })
}

/// Long enough to lose the race, short enough not to be ended: a third of the way from the deadline to the abort, at
/// most two seconds.
fn slow(settings: &Settings) -> Duration {
    let after = settings.model_abort.saturating_sub(settings.race_deadline) / 3;
    settings.race_deadline + after.min(Duration::from_secs(2))
}

/// The development account brings a reply flow of its own where none is configured.
fn names(settings: &Settings, development: bool) -> manychat::Names {
    let mut names = manychat::Names::of(&settings.manychat);
    if development && settings.manychat.api_token.is_none() && names.reply_flow_ns.is_empty() {
        names.reply_flow_ns = manychat::DEVELOPMENT_REPLY_FLOW.to_owned();
    }
    names
}

/// Looks whether a transaction pooler stands before the server; one that cannot be worked with ends the boot (DEC-29).
pub(super) async fn inspect(address: Address) -> anyhow::Result<Address> {
    let address = pooler::inspect(address).await.context("DATABASE_URL")?;
    if address.is_behind_pooler() {
        tracing::info!(
            "the database is behind a transaction pooler: waiting messages are looked for once a second"
        );
    }
    Ok(address)
}

/// Wires the actors of this process.
pub(super) fn start_system(
    runtime: &'static Runtime,
    settings: &Settings,
    database: Address,
    snapshots: Arc<Snapshots>,
    workers: bool,
    controls: Option<&Controls>,
) -> anyhow::Result<System> {
    let pool = Database::new(database.clone(), runtime.handle().clone(), PoolLimits::default())?;
    let pulse = Pulse::new(ProcessId::fresh(), settings.process_dead);
    let (handle, orders) = manychat::channel_of(pulse.clone());
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let context = TurnContext {
        tokens: TokenWriter::new(pool.clone(), handle.clone(), runtime.handle().clone()),
        database: pool,
        runner: model::resolve_with(&settings.model, controls.and_then(|controls| controls.mock.clone()))?
            .within(settings.model_abort)
            .by(&clock),
        manychat: handle.clone(),
        clock,
        pulse,
        freed: Arc::new(Freed::default()),
        said_today: telemetry::OncePerDay::default(),
        settings: TurnSettings::of(settings),
    };
    let delivery = Delivery {
        handle,
        orders,
        client: match controls.and_then(|controls| controls.account.as_ref()) {
            Some(development) => development.account.clone(),
            None => manychat::client(&settings.manychat)?,
        },
        names: names(settings, controls.is_some()),
        reply_gap: settings.manychat.reply_gap,
        calls_per_second: settings.manychat.calls_per_second,
    };
    let wiring = Wiring {
        runtime,
        context: Arc::new(context),
        database,
        beat: settings.process_beat,
        delivery,
        outbox: workers.then_some(OutboxSettings {
            gap: settings.manychat.reply_gap,
            retry_window: settings.outbox_retry,
        }),
        limits: Limits::default(),
        arbiters: cores(),
    };
    Ok(System::start(wiring, snapshots)?)
}

/// What can be read of media (OPS-8). Reading media is not built, so nothing is.
pub(super) fn report_media() {
    tracing::info!(json.transcription = "null", images = false, ffmpeg = false, "media capabilities");
}

/// A short content hash of each tenant file (GAP-CFG-7).
pub(super) fn report_configuration(tenant: &Tenant) {
    for file in &tenant.hashes {
        tracing::info!(file = file.file, hash = format!("sha256:{}", file.hash), "configuration loaded");
    }
}

/// Warnings of the checks, one line each.
pub(super) fn report_warnings(warnings: &[Warning]) {
    for warning in warnings {
        tracing::warn!(warning = %warning, "configuration warning");
    }
}
