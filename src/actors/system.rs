//! Starts the actors of a process and stops them again.

use std::sync::Arc;
use std::time::{Duration, Instant};

use actix_rt::Arbiter;
use tokio::runtime::{Handle, Runtime};
use tokio::sync::Notify;

use super::acting::Acting;
use super::confirmer::{Confirmer, ConfirmerParts};
use super::conversation::{Shared, TurnSteps};
use super::directory::{Directory, Limits};
use super::handoff_tags::HandoffTags;
use super::heartbeat::Heartbeat;
use super::late::LateTurns;
use super::manychat::{DatabaseRate, Delivery, ManyChat, Parts};
use super::observe::ActorsReport;
use super::outbox::{Outbox, OutboxWaker, WorkerParts};
use super::pressure::{Overload, Pressure};
use super::recoverer::Recoverer;
use super::resolver::Resolver;
use super::supervised::Restarts;
use super::supervisor::{Drained, Supervised, Supervisor};
use super::waking::{self, LaneWatch};
use crate::manychat;
use crate::store::outbox::Claimant;
use crate::store::{Address, StoreError};
use crate::tools::{Marks, Performer};
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
    /// How contacts are reached outside a response.
    pub delivery: Delivery,
    /// How the outbox is worked off; `None` for a process that only answers (`serve --no-workers`).
    pub outbox: Option<OutboxSettings>,
    /// Bounds of the directory.
    pub limits: Limits,
    /// Arbiters that conversations are spread over; at least 1.
    pub arbiters: usize,
}

/// How the outbox is worked off.
#[derive(Clone, Copy, Debug)]
pub struct OutboxSettings {
    /// `MANYCHAT_REPLY_GAP_MS`.
    pub gap: Duration,
    /// `OUTBOX_RETRY_MINUTES`.
    pub retry_window: Duration,
}

/// Longest time between two signs of life of a claim (GAP-DL-1).
const CLAIM_LEASE: Duration = Duration::from_secs(60);

/// What the doors of a process reach the actors through; cheap to clone.
#[derive(Clone)]
pub struct Services {
    /// The conversations.
    pub directory: Arc<Directory>,
    /// The supervisor.
    pub supervisor: Supervisor,
    /// ManyChat, through the actor that keeps its rate and the order of sends.
    pub manychat: manychat::Handle,
    /// What turns need, for answers that need no turn.
    pub context: Arc<TurnContext>,
    /// The active configuration.
    pub snapshots: Arc<Snapshots>,
    heartbeat: Arc<Heartbeat>,
    manychat_actor: ManyChat,
    outbox: Option<Outbox>,
    handoff_tags: Option<HandoffTags>,
    acting: Acting,
    pressure: Arc<Pressure>,
}

/// The running actors.
pub struct System {
    services: Services,
    arbiters: Vec<Arbiter>,
    system_arbiter: Arbiter,
}

/// How long a reply that is being sent gets at a stop, whatever the turns have used up: two calls and a gap.
const LAST_REPLY: Duration = Duration::from_secs(10);

/// The marks of the configuration that applies now, for what follows a reply.
fn marks_of(snapshots: &Arc<Snapshots>) -> Marks {
    let snapshots = Arc::clone(snapshots);
    Marks::asking(move || Arc::clone(&snapshots.current().tenant))
}

fn worker_parts(
    context: &TurnContext,
    settings: OutboxSettings,
    acting: &Acting,
    io: &Handle,
) -> WorkerParts {
    let claimant = Claimant {
        tenant: context.settings.tenant.clone(),
        process: context.pulse.process(),
        lease: CLAIM_LEASE,
        dead: context.settings.process_dead,
        gap: settings.gap,
    };
    WorkerParts {
        database: context.database.clone(),
        claimant,
        pulse: context.pulse.clone(),
        clock: Arc::clone(&context.clock),
        manychat: context.manychat.clone(),
        acting: acting.clone(),
        retry_window: settings.retry_window,
        io: io.clone(),
    }
}

/// Starts whoever calls ManyChat, within the rate that all processes share (ARC-48).
fn start_manychat(
    delivery: Delivery,
    context: &TurnContext,
    place: &Arbiter,
    io: &Handle,
    restarts: &Restarts,
) -> ManyChat {
    let (settings, calls) = (&context.settings, delivery.calls_per_second);
    let rate =
        DatabaseRate::new(context.database.clone(), settings.tenant.clone(), settings.process_dead, calls);
    let parts = Parts::new(delivery, Arc::new(rate), context.pulse.clone(), io.clone());
    ManyChat::start(parts, Some(&place.handle()), restarts)
}

/// What pays, resolves and recovers owed replies.
struct Recovery {
    confirmer: Confirmer,
    resolver: Resolver,
    recoverer: Option<Recoverer>,
}

/// Starts what pays and recovers owed replies; nothing is recovered by a process without workers.
fn start_recovery(
    context: &Arc<TurnContext>,
    snapshots: &Arc<Snapshots>,
    (waker, acting): (&OutboxWaker, &Acting),
    recovers: bool,
    restarts: &Restarts,
    io: &Handle,
) -> Recovery {
    let parts = ConfirmerParts {
        database: context.database.clone(),
        clock: Arc::clone(&context.clock),
        pulse: context.pulse.clone(),
        waker: waker.clone(),
        freed: Arc::clone(&context.freed),
        acting: acting.clone(),
    };
    let confirmer = Confirmer::start(parts, io, restarts.clone());
    let resolver =
        Resolver::new(Arc::clone(context), confirmer.clone(), waker.clone(), io.clone(), restarts.clone());
    let late = LateTurns {
        context: Arc::clone(context),
        snapshots: Arc::clone(snapshots),
        confirmer: confirmer.clone(),
        resolver: resolver.clone(),
        waker: waker.clone(),
        acting: acting.clone(),
    };
    let most = context.settings.late_turns;
    let recoverer = recovers.then(|| Recoverer::new(late, most, io.clone(), restarts.clone()));
    Recovery { confirmer, resolver, recoverer }
}

/// Starts telling other processes of free lanes, and hearing of them and of queued replies (ARC-47a).
fn start_waking(
    context: &Arc<TurnContext>,
    address: Address,
    waker: &OutboxWaker,
    io: &Handle,
    restarts: &Restarts,
) -> LaneWatch {
    let lanes = LaneWatch::default();
    let (telling, told) = (Arc::clone(context), restarts.clone());
    io.spawn(async move { told.supervise("lane notices", || waking::tell(&telling)).await });
    let (hearing, heard, waker) = (lanes.clone(), restarts.clone(), waker.clone());
    let tenant = context.settings.tenant.clone();
    io.spawn(async move {
        heard.supervise("notice listener", || waking::hear(&address, &tenant, &hearing, &waker)).await;
    });
    lanes
}

/// Whom this process wakes for a queued reply: its own worker, or those of other processes.
fn waker_of(
    outbox: Option<&Outbox>,
    context: &Arc<TurnContext>,
    io: &Handle,
    restarts: &Restarts,
) -> OutboxWaker {
    if let Some(outbox) = outbox {
        return outbox.waker();
    }
    let bell = Arc::new(Notify::new());
    let (ringing, context, restarts) = (Arc::clone(&bell), Arc::clone(context), restarts.clone());
    io.spawn(async move {
        restarts.supervise("outbox notices", || waking::tell_workers(&context, &ringing)).await;
    });
    OutboxWaker::of_others(bell)
}

impl System {
    /// Starts everything. Must be called inside an actix system.
    ///
    /// # Errors
    /// When the database does not answer the first heartbeat.
    pub fn start(wiring: Wiring, snapshots: Arc<Snapshots>) -> Result<Self, StoreError> {
        let Wiring { runtime, context, database, beat, delivery, outbox, limits, arbiters } = wiring;
        let io = runtime.handle().clone();
        let tenant = context.settings.tenant.clone();
        let restarts = Restarts::default();
        let pulse = context.pulse.clone();
        let heartbeat = Heartbeat::start(database.clone(), pulse.clone(), tenant, beat, restarts.clone())?;
        let arbiters: Vec<Arbiter> =
            (0..arbiters.max(1)).map(|_| Arbiter::with_tokio_rt(move || runtime)).collect();
        // Delivery and supervision have an arbiter of their own: a flood of conversations must not delay them.
        let system_arbiter = Arbiter::with_tokio_rt(move || runtime);
        let pressure = Pressure::start(&io);
        let manychat = delivery.handle.clone();
        let manychat_actor = start_manychat(delivery, &context, &system_arbiter, &io, &restarts);
        let marks = marks_of(&snapshots);
        let performer = Performer { database: context.database.clone(), manychat: manychat.clone(), marks };
        let acting = Acting::new(performer, context.pulse.clone(), io.clone());
        acting.watch(&restarts);
        let outbox = outbox.map(|settings| {
            Outbox::start(worker_parts(&context, settings, &acting, &io), &system_arbiter.handle(), &restarts)
        });
        let waker = waker_of(outbox.as_ref(), &context, &io, &restarts);
        let Recovery { confirmer, resolver, recoverer } =
            start_recovery(&context, &snapshots, (&waker, &acting), outbox.is_some(), &restarts, &io);
        let handoff_tags = outbox.is_some().then(|| HandoffTags::new(&context, &snapshots, &io));
        let lanes = start_waking(&context, database, &waker, &io, &restarts);
        let steps = Arc::new(TurnSteps { context: Arc::clone(&context), resolver: resolver.clone() });
        let shared = Arc::new(Shared {
            steps,
            confirmer: confirmer.clone(),
            waker,
            pulse,
            lanes,
            recoverer: recoverer.clone(),
            io,
        });
        let directory = Directory::new(arbiters.iter().map(Arbiter::handle).collect(), shared, limits);
        let supervised = Supervised {
            directory: Arc::clone(&directory),
            confirmer,
            resolver,
            recoverer,
            handoff_tags: handoff_tags.clone(),
            restarts,
        };
        let services = Services {
            directory,
            supervisor: Supervisor::start(supervised, &system_arbiter.handle()),
            manychat,
            context,
            snapshots,
            heartbeat: Arc::new(heartbeat),
            manychat_actor,
            outbox,
            handoff_tags,
            acting,
            pressure,
        };
        Ok(Self { services, arbiters, system_arbiter })
    }

    /// What the doors need.
    #[must_use]
    pub fn services(&self) -> Services {
        self.services.clone()
    }

    /// Lets what is under way end, at most for `limit`, then stops the actors (ARC-49).
    pub async fn stop(self, limit: Duration) -> Drained {
        let until = Instant::now() + limit;
        let mut drained = self.services.supervisor.drain(limit).await;
        if let Some(outbox) = &self.services.outbox {
            let rest = until.saturating_duration_since(Instant::now()).max(LAST_REPLY);
            drained.all &= outbox.stop(rest).await;
        }
        if let Some(tags) = &self.services.handoff_tags {
            drained.all &= tags.stop(until.saturating_duration_since(Instant::now()).max(LAST_REPLY)).await;
        }
        // Calls that nobody waits for in the outbox, such as actions behind a reply and contact tokens.
        let services = &self.services;
        let open = || services.manychat.open() + services.context.tokens.open() + services.acting.open();
        while open() > 0 && Instant::now() < until {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        self.services.manychat_actor.stop();
        for arbiter in &self.arbiters {
            arbiter.stop();
        }
        self.system_arbiter.stop();
        // The heartbeat's end waits for the database. It does so elsewhere, or this thread would hear of no second signal
        // meanwhile.
        let services = self.services;
        if tokio::task::spawn_blocking(move || drop(services)).await.is_err() {
            tracing::error!("the heartbeat did not end in order");
        }
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
        report.process = self.context.pulse.process().to_string();
        report.database_connections = open;
        report.database_connections_in_use = in_use;
        report.heartbeat_age_ms = self.heartbeat.age().map(crate::domain::millis);
        report.models = self.context.runner.report();
        report.manychat = self.manychat_actor.observe().await;
        if let Some(outbox) = &self.outbox {
            report.outbox = outbox.observe().await;
        }
        let lag = self.pressure.lag(Instant::now());
        report.scheduling_lag_ms = crate::domain::millis(lag);
        Some(report)
    }
}
