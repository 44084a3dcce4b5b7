//! The claim loop as an actor: it looks for due replies when it is woken, when one becomes due, and once a second in
//! any case; each claimed row is worked on by a task of its own, so that no contact waits for another.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use actix::{Actor, AsyncContext, Context, Handler, MessageResult, SpawnHandle};
use actix_rt::ArbiterHandle;
use futures_util::FutureExt;
use serde::Serialize;
use tokio::runtime::Handle;
use tokio::sync::Notify;

use super::delivery;
use super::ending::Ended;
use super::token;
use crate::actors::acting::Acting;
use crate::actors::successor::{Post, Tenure};
use crate::actors::supervised::Restarts;
use crate::domain::Clock;
use crate::manychat;
use crate::store::outbox::{self, Claim, Claimant, Claimed, TokenClaim};
use crate::store::{Database, Pulse, StoreError};
use crate::telemetry::Seldom;
use crate::telemetry::crash_points::{self, Point};

/// Replies that are being delivered at the same time. ManyChat takes ten requests a second, a text needs two: more
/// would only wait with their leases running.
const MOST_AT_ONCE: usize = 20;
/// Token rows beside them: few, so that replies do not wait for a large number of tokens at ManyChat.
const MOST_TOKENS_AT_ONCE: usize = 4;
/// The fallback when nothing wakes the worker (ARC-47a).
const POLL: Duration = Duration::from_secs(1);
/// While at least this many places are free, one that becomes free is filled at once; below, several are filled together:
/// a look costs the database more than what it finds.
const ROOM: usize = MOST_AT_ONCE / 2;
/// How long places are gathered at most.
const GATHER: Duration = Duration::from_millis(10);
/// Shortest pause between two looks by the clock.
const SHORTEST: Duration = Duration::from_millis(5);
/// How often a stop looks whether it is done.
const STOP_STEP: Duration = Duration::from_millis(10);

/// What the worker is made of.
#[derive(Clone)]
pub(in crate::actors) struct WorkerParts {
    pub(in crate::actors) database: Database,
    pub(in crate::actors) claimant: Claimant,
    pub(in crate::actors) pulse: Pulse,
    /// Tells who wrote too long ago (ARC-46).
    pub(in crate::actors) clock: Arc<dyn Clock>,
    pub(in crate::actors) manychat: manychat::Handle,
    /// Performs what follows a delivered reply (WRK-7).
    pub(in crate::actors) acting: Acting,
    /// `OUTBOX_RETRY_MINUTES`.
    pub(in crate::actors) retry_window: Duration,
    pub(in crate::actors) io: Handle,
}

/// Wakes the worker of this process, or has those of others woken where it has none; cheap to clone.
#[derive(Clone, Default)]
pub(in crate::actors) struct OutboxWaker(Whom);

#[derive(Clone, Default)]
enum Whom {
    #[default]
    Nobody,
    Own(Post<OutboxActor>),
    /// Rung for the task that tells other processes (ARC-47a).
    Others(Arc<Notify>),
}

impl OutboxWaker {
    /// The waker of a process without a worker: it rings this bell.
    pub(in crate::actors) const fn of_others(bell: Arc<Notify>) -> Self {
        Self(Whom::Others(bell))
    }

    /// A reply has been queued.
    pub(in crate::actors) fn wake(&self) {
        match &self.0 {
            Whom::Nobody => {}
            Whom::Own(_) => self.wake_own(),
            Whom::Others(bell) => bell.notify_one(),
        }
    }

    /// Another process has queued a reply.
    pub(in crate::actors) fn wake_own(&self) {
        if let Whom::Own(worker) = &self.0
            && let Some(worker) = worker.address()
        {
            worker.do_send(Wake);
        }
    }
}

/// A handle to the running worker.
#[derive(Clone)]
pub(in crate::actors) struct Outbox {
    post: Post<OutboxActor>,
    in_flight: Arc<Counts>,
}

/// What is being worked on.
#[derive(Default)]
struct Counts {
    replies: AtomicUsize,
    tokens: AtomicUsize,
}

/// The actor.
pub(in crate::actors) struct OutboxActor {
    parts: WorkerParts,
    tenure: Tenure<Self>,
    in_flight: Arc<Counts>,
    looking: bool,
    /// Something was queued while the last look was under way.
    look_again: bool,
    stopping: bool,
    timer: Option<SpawnHandle>,
    batch: Batch,
    report: OutboxReport,
    last_look: Option<Instant>,
}

/// What became of the replies since the worker was last at rest (WRK-2).
#[derive(Clone, Copy, Default)]
struct Batch {
    claimed: u64,
    delivered: u64,
    retrying: u64,
    dead_lettered: u64,
    released: u64,
}

/// What the worker shows of itself (ARC-24).
#[derive(Clone, Debug, Default, Serialize)]
pub struct OutboxReport {
    /// Rows being worked on: replies and contact tokens.
    pub in_flight: usize,
    /// Rows claimed since the process started.
    pub claimed: u64,
    /// Rows delivered.
    pub delivered: u64,
    /// Attempts that failed and are repeated.
    pub retrying: u64,
    /// Rows given up.
    pub dead_lettered: u64,
    /// Rows given back unattempted.
    pub released: u64,
    /// Looks that the database did not answer.
    pub failed_looks: u64,
    /// Milliseconds since the last look that was answered; `None` before the first.
    pub last_look_ms: Option<u64>,
}

#[derive(actix::Message)]
#[rtype(result = "()")]
struct Wake;

#[derive(actix::Message)]
#[rtype(result = "()")]
struct Looked(Result<(Claimed, Option<Duration>), StoreError>);

#[derive(actix::Message)]
#[rtype(result = "()")]
struct DeliveryEnded(Ended);

#[derive(actix::Message)]
#[rtype(result = "()")]
struct NoMoreClaims;

#[derive(actix::Message)]
#[rtype(result = "OutboxReport")]
struct Observe;

impl Outbox {
    /// Starts the worker on this arbiter. A successor counts from 0 again, but for what is in flight.
    pub(in crate::actors) fn start(parts: WorkerParts, place: &ArbiterHandle, restarts: &Restarts) -> Self {
        let in_flight = Arc::new(Counts::default());
        let counts = Arc::clone(&in_flight);
        let make = move |tenure| OutboxActor::new(parts.clone(), tenure, Arc::clone(&counts));
        Self { post: Post::start("outbox", Some(place), restarts, make), in_flight }
    }

    pub(in crate::actors) fn waker(&self) -> OutboxWaker {
        OutboxWaker(Whom::Own(self.post.clone()))
    }

    /// Claims nothing more and waits until every reply being sent is finished (WRK-11). False when `limit` passed
    /// first.
    pub(in crate::actors) async fn stop(&self, limit: Duration) -> bool {
        let until = Instant::now() + limit;
        self.post.close();
        if let Some(worker) = self.post.address() {
            // An actor that is gone claims nothing either.
            let _ = worker.send(NoMoreClaims).await;
        }
        while self.in_flight.all() > 0 {
            if Instant::now() >= until {
                return false;
            }
            tokio::time::sleep(STOP_STEP).await;
        }
        true
    }

    /// `None` when the actor is gone.
    pub(in crate::actors) async fn observe(&self) -> Option<OutboxReport> {
        self.post.address()?.send(Observe).await.ok()
    }
}

impl OutboxActor {
    fn new(parts: WorkerParts, tenure: Tenure<Self>, in_flight: Arc<Counts>) -> Self {
        Self {
            parts,
            tenure,
            in_flight,
            looking: false,
            look_again: false,
            stopping: false,
            timer: None,
            batch: Batch::default(),
            report: OutboxReport::default(),
            last_look: None,
        }
    }

    /// Looks for due replies, unless a look is under way or enough is being delivered.
    fn look(&mut self, ctx: &mut Context<Self>) {
        let free = self.in_flight.free();
        if self.stopping || free.0 == 0 {
            return;
        }
        if self.looking {
            self.look_again = true;
            return;
        }
        self.looking = true;
        let (parts, actor) = (self.parts.clone(), ctx.address());
        self.parts.io.spawn(async move {
            // A look that panics is a failed one: the next must not wait for it (ARC-22).
            let looked = AssertUnwindSafe(claim(&parts, free)).catch_unwind().await;
            actor.do_send(Looked(looked.unwrap_or(Err(StoreError::Unexpected { what: "outbox" }))));
        });
    }

    fn look_in(&mut self, pause: Duration, ctx: &mut Context<Self>) {
        if let Some(timer) = self.timer.take() {
            ctx.cancel_future(timer);
        }
        let pause = pause.clamp(SHORTEST, POLL);
        self.timer = Some(ctx.run_later(pause, |actor, ctx| actor.look(ctx)));
    }

    fn deliver(&self, claim: Claim, ctx: &Context<Self>) {
        let parts = self.parts.clone();
        let guard = InFlight::new(&self.in_flight, |counts| &counts.replies);
        self.run(guard, async move { delivery::deliver(&parts, claim).await }, ctx);
    }

    fn write_token(&self, claim: TokenClaim, ctx: &Context<Self>) {
        let parts = self.parts.clone();
        let guard = InFlight::new(&self.in_flight, |counts| &counts.tokens);
        self.run(guard, async move { token::deliver(&parts, claim).await }, ctx);
    }

    fn run(&self, guard: InFlight, work: impl Future<Output = Ended> + Send + 'static, ctx: &Context<Self>) {
        let actor = ctx.address();
        self.parts.io.spawn(async move {
            let ended = work.await;
            drop(guard);
            actor.do_send(DeliveryEnded(ended));
        });
    }

    /// One line when the worker comes to rest after it had something to do (WRK-2).
    fn report_batch(&mut self) {
        let batch = std::mem::take(&mut self.batch);
        if batch.claimed > 0 {
            tracing::info!(
                claimed = batch.claimed,
                delivered = batch.delivered,
                retrying = batch.retrying,
                deadLettered = batch.dead_lettered,
                released = batch.released,
                "outbox batch processed"
            );
        }
    }
}

impl Counts {
    fn all(&self) -> usize {
        self.replies.load(Ordering::Acquire) + self.tokens.load(Ordering::Acquire)
    }

    /// How many more replies and tokens may be worked on.
    fn free(&self) -> (usize, usize) {
        let replies = MOST_AT_ONCE.saturating_sub(self.replies.load(Ordering::Acquire));
        let tokens = MOST_TOKENS_AT_ONCE.saturating_sub(self.tokens.load(Ordering::Acquire));
        (replies, tokens)
    }
}

/// One of a count. It is lowered also when a delivery panics: its row is taken over when its lease ends.
struct InFlight {
    counts: Arc<Counts>,
    which: fn(&Counts) -> &AtomicUsize,
}

impl InFlight {
    fn new(counts: &Arc<Counts>, which: fn(&Counts) -> &AtomicUsize) -> Self {
        which(counts).fetch_add(1, Ordering::AcqRel);
        Self { counts: Arc::clone(counts), which }
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        (self.which)(&self.counts).fetch_sub(1, Ordering::AcqRel);
    }
}

/// Claims what is due. When nothing is, says when something will be; token rows that there is no room for count as
/// not due, for a token that ends wakes the worker.
async fn claim(
    parts: &WorkerParts,
    (replies, tokens): (usize, usize),
) -> Result<(Claimed, Option<Duration>), StoreError> {
    // What is claimed under an id that others count as dead is theirs at once; the id can change; and nobody may be called
    // dead while this process is not sure of itself (ARC-44).
    let claimant = || {
        let process = parts.pulse.process();
        let dead = Duration::from_secs_f64(parts.pulse.others_dead_secs());
        parts.pulse.holds(process).then(|| Claimant { process, dead, ..parts.claimant.clone() })
    };
    let most = |free: usize| i64::try_from(free).unwrap_or(1);
    let now = parts.clock.now();
    let claimed = outbox::claim(&parts.database, claimant, most(replies), most(tokens), now).await?;
    crash_points::passed_if(!claimed.replies.is_empty(), Point::ClaimTaken);
    let due = match claimed.replies.is_empty() && claimed.tokens.is_empty() {
        true => outbox::next_due(&parts.database, &parts.claimant.tenant, tokens > 0).await?,
        false => None,
    };
    Ok((claimed, due))
}

impl Actor for OutboxActor {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Context<Self>) {
        self.look(ctx);
    }

    fn stopped(&mut self, _: &mut Context<Self>) {
        self.tenure.ended();
    }
}

impl Handler<Wake> for OutboxActor {
    type Result = ();

    fn handle(&mut self, _: Wake, ctx: &mut Context<Self>) {
        self.look(ctx);
    }
}

impl Handler<Looked> for OutboxActor {
    type Result = ();

    fn handle(&mut self, Looked(result): Looked, ctx: &mut Context<Self>) {
        self.looking = false;
        let again = std::mem::take(&mut self.look_again);
        match result {
            Ok((claimed, due)) => {
                self.last_look = Some(Instant::now());
                let count = (claimed.replies.len() + claimed.tokens.len()) as u64;
                let found = count > 0;
                self.batch.claimed += count;
                self.report.claimed += count;
                for claim in claimed.replies {
                    self.deliver(claim, ctx);
                }
                for claim in claimed.tokens {
                    self.write_token(claim, ctx);
                }
                self.look_in(due.unwrap_or(POLL), ctx);
                if again || found {
                    self.look(ctx);
                }
            }
            Err(error) => {
                self.report.failed_looks += 1;
                static TOLD: Seldom = Seldom::new();
                if TOLD.now() {
                    tracing::error!(err = %error, "outbox worker iteration failed");
                }
                self.look_in(POLL, ctx);
            }
        }
    }
}

impl Handler<DeliveryEnded> for OutboxActor {
    type Result = ();

    fn handle(&mut self, DeliveryEnded(ended): DeliveryEnded, ctx: &mut Context<Self>) {
        let (batch, total) = match ended {
            Ended::Delivered => (&mut self.batch.delivered, &mut self.report.delivered),
            Ended::Retrying => (&mut self.batch.retrying, &mut self.report.retrying),
            Ended::DeadLettered => (&mut self.batch.dead_lettered, &mut self.report.dead_lettered),
            Ended::Released | Ended::Lost => (&mut self.batch.released, &mut self.report.released),
        };
        *batch += 1;
        *total += 1;
        if self.in_flight.all() == 0 {
            self.report_batch();
        }
        match ended {
            // What was given back would be claimed again at once: leave it to the clock.
            Ended::Released | Ended::Lost => self.look_in(POLL, ctx),
            _ if self.in_flight.free().0 < ROOM => self.look_in(GATHER, ctx),
            _ => self.look(ctx),
        }
    }
}

impl Handler<NoMoreClaims> for OutboxActor {
    type Result = ();

    fn handle(&mut self, _: NoMoreClaims, _: &mut Context<Self>) {
        self.stopping = true;
    }
}

impl Handler<Observe> for OutboxActor {
    type Result = MessageResult<Observe>;

    fn handle(&mut self, _: Observe, _: &mut Context<Self>) -> Self::Result {
        let mut report = self.report.clone();
        report.in_flight = self.in_flight.all();
        report.last_look_ms = self.last_look.map(|at| crate::domain::millis(at.elapsed()));
        MessageResult(report)
    }
}
