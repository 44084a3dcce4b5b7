//! The supervisor: lets idle conversations go, shows what is going on, and drains the process at shutdown.

use std::sync::Arc;
use std::time::{Duration, Instant};

use actix::{Actor, AsyncContext, Context, Handler, MessageResult, ResponseFuture};
use actix_rt::ArbiterHandle;

use super::confirmer::Confirmer;
use super::directory::Directory;
use super::handoff_tags::{self, HandoffTags};
use super::observe::ActorsReport;
use super::recoverer::Recoverer;
use super::resolver::Resolver;
use super::successor::{Post, Tenure};
use super::supervised::Restarts;

/// How often idle conversations are looked for.
const SWEEP: Duration = Duration::from_secs(30);
/// How often dead processes are taken off the list.
const FORGET: Duration = Duration::from_secs(3600);
/// How often a drain looks whether it is done.
const DRAIN_STEP: Duration = Duration::from_millis(10);
/// Most conversations a report names (ARC-24).
const REPORTED: usize = 100;

/// What it supervises.
#[derive(Clone)]
pub(super) struct Supervised {
    pub(super) directory: Arc<Directory>,
    pub(super) confirmer: Confirmer,
    pub(super) resolver: Resolver,
    /// `None` for a process that only answers (`serve --no-workers`), as the next.
    pub(super) recoverer: Option<Recoverer>,
    pub(super) handoff_tags: Option<HandoffTags>,
    pub(super) restarts: Restarts,
}

/// The actor; reach it through [`Supervisor`].
pub struct SupervisorActor {
    supervised: Supervised,
    tenure: Tenure<Self>,
}

/// A handle to the supervisor.
#[derive(Clone)]
pub struct Supervisor {
    post: Post<SupervisorActor>,
}

/// Show the state.
#[derive(actix::Message)]
#[rtype(result = "ActorsReport")]
struct Observe;

/// Wait until nothing is under way, at most this long.
#[derive(actix::Message)]
#[rtype(result = "Drained")]
struct Drain(Duration);

/// How a drain ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Drained {
    /// Nothing was left over.
    pub all: bool,
    /// Messages that neither the database nor another process knows of: no one hears of them any more.
    pub unrecorded: usize,
}

impl Supervisor {
    /// Starts the actor on this arbiter.
    pub(super) fn start(supervised: Supervised, place: &ArbiterHandle) -> Self {
        let restarts = supervised.restarts.clone();
        let make = move |tenure| SupervisorActor { supervised: supervised.clone(), tenure };
        Self { post: Post::start("supervisor", Some(place), &restarts, make) }
    }

    /// The state of all actors; `None` when the supervisor is gone.
    pub async fn observe(&self) -> Option<ActorsReport> {
        self.post.address()?.send(Observe).await.ok()
    }

    /// Waits until every turn has settled, every reply is confirmed and every failed turn is resolved (ARC-49), at most
    /// for `limit`.
    pub async fn drain(&self, limit: Duration) -> Drained {
        self.post.close();
        match self.post.address() {
            Some(actor) => actor.send(Drain(limit)).await.unwrap_or_default(),
            None => Drained::default(),
        }
    }
}

impl Actor for SupervisorActor {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Context<Self>) {
        ctx.run_interval(SWEEP, |actor, _| actor.supervised.directory.sweep());
        if let Some(recoverer) = self.supervised.recoverer.clone() {
            let tidying = recoverer.clone();
            tidying.forget();
            ctx.run_interval(FORGET, move |_, _| tidying.forget());
            ctx.run_interval(recoverer.every(), move |_, _| recoverer.look());
        }
        if let Some(tags) = self.supervised.handoff_tags.clone() {
            ctx.run_interval(handoff_tags::EVERY, move |_, _| tags.look());
        }
    }

    fn stopped(&mut self, _: &mut Context<Self>) {
        self.tenure.ended();
    }
}

impl Handler<Observe> for SupervisorActor {
    type Result = MessageResult<Observe>;

    fn handle(&mut self, _: Observe, _: &mut Context<Self>) -> Self::Result {
        let mut report = self.supervised.directory.report(REPORTED);
        report.unconfirmed_replies = self.supervised.confirmer.open();
        report.restarted_tasks = self.supervised.restarts.count();
        report.tools = crate::tools::COUNTERS.report();
        MessageResult(report)
    }
}

impl Handler<Drain> for SupervisorActor {
    type Result = ResponseFuture<Drained>;

    fn handle(&mut self, drain: Drain, _: &mut Context<Self>) -> Self::Result {
        let Supervised { directory, confirmer, resolver, recoverer, .. } = self.supervised.clone();
        if let Some(recoverer) = &recoverer {
            recoverer.stop();
        }
        resolver.hurry();
        let until = Instant::now() + drain.0;
        Box::pin(async move {
            let recovered = || recoverer.as_ref().is_none_or(Recoverer::is_quiet);
            while !(directory.is_quiet() && recovered() && resolver.open() == 0 && confirmer.open() == 0) {
                if Instant::now() >= until {
                    return Drained { all: false, unrecorded: resolver.unrecorded() };
                }
                tokio::time::sleep(DRAIN_STEP).await;
            }
            Drained { all: true, unrecorded: 0 }
        })
    }
}
