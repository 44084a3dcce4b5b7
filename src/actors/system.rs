//! Starts the actors of a process and stops them again.

use std::sync::Arc;
use std::time::{Duration, Instant};

use actix::Actor;
use actix_rt::Arbiter;
use tokio::runtime::Runtime;

use super::confirmer::Confirmer;
use super::conversation::{Shared, TurnSteps};
use super::directory::{Directory, Limits};
use super::heartbeat::Heartbeat;
use super::observe::ActorsReport;
use super::pressure::{Overload, Pressure};
use super::supervisor::{Supervisor, SupervisorActor};
use crate::store::{Address, StoreError};
use crate::turn::{Snapshots, TurnContext};

/// What the actors of a process are made of.
pub struct Wiring {
    /// The one runtime that actors and their work share; it lives as long as the process, because sockets opened
    /// on it must never lose their driver.
    pub runtime: &'static Runtime,
    /// What turns need.
    pub context: Arc<TurnContext>,
    /// How to reach the database, for the heartbeat's own connection.
    pub database: Address,
    /// `PROCESS_BEAT_MS`.
    pub beat: Duration,
    /// Bounds of the directory.
    pub limits: Limits,
    /// Arbiters that conversations are spread over; at least 1.
    pub arbiters: usize,
}

/// What the doors of a process reach the actors through; cheap to clone.
#[derive(Clone)]
pub struct Services {
    /// The conversations.
    pub directory: Arc<Directory>,
    /// The supervisor.
    pub supervisor: Supervisor,
    /// What turns need, for answers that need no turn.
    pub context: Arc<TurnContext>,
    /// The active configuration.
    pub snapshots: Arc<Snapshots>,
    heartbeat: Arc<Heartbeat>,
    pressure: Arc<Pressure>,
}

/// The running actors.
pub struct System {
    services: Services,
    arbiters: Vec<Arbiter>,
    system_arbiter: Arbiter,
}

impl System {
    /// Starts everything. Must be called inside an actix system.
    ///
    /// # Errors
    /// When the database does not answer the first heartbeat.
    pub fn start(wiring: Wiring, snapshots: Arc<Snapshots>) -> Result<Self, StoreError> {
        let Wiring { runtime, context, database, beat, limits, arbiters } = wiring;
        let io = runtime.handle().clone();
        let tenant = context.settings.tenant.clone();
        let heartbeat = Heartbeat::start(database, context.process, tenant, beat)?;
        let confirmer = Confirmer::start(context.database.clone(), Arc::clone(&context.clock), &io);
        let arbiters: Vec<Arbiter> =
            (0..arbiters.max(1)).map(|_| Arbiter::with_tokio_rt(move || runtime)).collect();
        // Delivery and supervision have an arbiter of their own: a flood of conversations must not delay them.
        let system_arbiter = Arbiter::with_tokio_rt(move || runtime);
        let pressure = Pressure::start(&io);
        let steps = Arc::new(TurnSteps { context: Arc::clone(&context), io: io.clone() });
        let shared = Arc::new(Shared { steps, confirmer: confirmer.clone(), io });
        let directory = Directory::new(arbiters.iter().map(Arbiter::handle).collect(), shared, limits);
        let supervisor = SupervisorActor::new(Arc::clone(&directory), confirmer);
        let address = SupervisorActor::start_in_arbiter(&system_arbiter.handle(), move |_| supervisor);
        let services = Services {
            directory,
            supervisor: Supervisor::new(address),
            context,
            snapshots,
            heartbeat: Arc::new(heartbeat),
            pressure,
        };
        Ok(Self { services, arbiters, system_arbiter })
    }

    /// What the doors need.
    #[must_use]
    pub fn services(&self) -> Services {
        self.services.clone()
    }

    /// Lets what is under way end, at most for `limit`, then stops the actors (ARC-49). True when nothing was
    /// left over.
    pub async fn stop(self, limit: Duration) -> bool {
        let drained = self.services.supervisor.drain(limit).await;
        for arbiter in &self.arbiters {
            arbiter.stop();
        }
        self.system_arbiter.stop();
        drained
    }
}

impl Services {
    /// Why no further request can be taken at `now`, if that is so (SHED-1).
    #[must_use]
    pub fn overload(&self, now: Instant) -> Option<Overload> {
        if self.pressure.is_too_high(now) {
            return Some(Overload::SchedulingLag);
        }
        self.directory.is_full().then_some(Overload::OpenTurns)
    }

    /// The answer of `GET /admin/actors` (ARC-24).
    pub async fn observe(&self) -> Option<ActorsReport> {
        let mut report = self.supervisor.observe().await?;
        let (open, in_use) = self.context.database.in_use();
        report.process = self.context.process.to_string();
        report.database_connections = open;
        report.database_connections_in_use = in_use;
        report.heartbeat_age_ms =
            self.heartbeat.age().map(|age| u64::try_from(age.as_millis()).unwrap_or(u64::MAX));
        let lag = self.pressure.lag(Instant::now());
        report.scheduling_lag_ms = u64::try_from(lag.as_millis()).unwrap_or(u64::MAX);
        Some(report)
    }
}
