//! The actor shell around the machine: mailbox, timers, spawns. It decides nothing (ARC-2, ARC-19).

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use actix::{Actor, ActorContext, AsyncContext, Context, Handler, SpawnHandle};
use futures_util::FutureExt;
use tokio::runtime::Handle;
use tracing::{Instrument, Span};

use super::current::Current;
use super::events::{Effect, Event, OpenResult, Playing, Race, SettleResult, StoreResult, Ticket};
use super::machine::Machine;
use super::mailbox::{Mailbox, Notice};
use super::steps::Steps;
use crate::actors::answer::{Counted, Told};
use crate::actors::confirmer::{Confirmer, Watched};
use crate::actors::directory::{ContactKey, Directory};
use crate::actors::outbox::OutboxWaker;
use crate::actors::recoverer::Recoverer;
use crate::actors::waking::LaneWatch;
use crate::domain::Deadline;
use crate::store::Pulse;
use crate::store::inbox::Kept;
use crate::store::open::Waits;
use crate::turn::{KeepReport, OpenReport, SettleReport, TurnError, Verdict, Way};

mod beginning;
mod telling;

/// How long to wait before asking for a lane a second time: its release may have been missed by a hair.
const FIRST_LANE_PAUSE: Duration = Duration::from_millis(100);
/// How long to wait from then on, unless the release is heard of (ARC-47a).
const LANE_PAUSE: Duration = Duration::from_secs(1);
/// How long to wait for the previous reply to leave our hands; normally it has long done so.
const IN_HAND_PAUSE: Duration = Duration::from_millis(2);
/// After this many pauses the turn goes on all the same, and its reply goes behind the one before it (LANE-6).
const MOST_IN_HAND_WAITS: u32 = 500;
/// A flight that has less than this is not started: it would be cut off and its outcome unknown, while the contact
/// reads the handoff copy (ARC-31).
const SHORTEST_FLIGHT: Duration = Duration::from_millis(20);

/// What all conversations of a process share.
pub(in crate::actors) struct Shared {
    /// What turns do.
    pub(in crate::actors) steps: Arc<dyn Steps>,
    /// Where handed-over replies are confirmed.
    pub(in crate::actors) confirmer: Confirmer,
    /// Woken when a reply was queued.
    pub(in crate::actors) waker: OutboxWaker,
    /// Whose turns these are.
    pub(in crate::actors) pulse: Pulse,
    /// Where conversations that wait for a lane are found when it is free.
    pub(in crate::actors) lanes: LaneWatch,
    /// Runs what dead processes owe; `None` in a process that recovers nothing.
    pub(in crate::actors) recoverer: Option<Recoverer>,
    /// The runtime that steps run on; nothing may block an arbiter (ARC-21).
    pub(in crate::actors) io: Handle,
}

/// One contact's conversation.
pub(in crate::actors) struct ConversationActor {
    key: ContactKey,
    generation: u64,
    mailbox: Arc<Mailbox>,
    directory: Weak<Directory>,
    shared: Arc<Shared>,
    machine: Machine,
    /// The last message the machine was told of.
    seen: Ticket,
    timers: HashMap<Ticket, SpawnHandle>,
    quiet: Option<SpawnHandle>,
    lane: Option<SpawnHandle>,
    /// The lane has been asked for in vain since the last turn.
    lane_asked: bool,
    /// Turns under way, by their first message; among them, while it is being ended, a message that could not be kept.
    turns: HashMap<Ticket, Current>,
}

/// Something waits in the mailbox.
#[derive(actix::Message)]
#[rtype(result = "()")]
pub(in crate::actors) struct Poke;

/// Leave if you are idle.
#[derive(actix::Message)]
#[rtype(result = "()")]
pub(in crate::actors) struct Leave;

/// The contact's lane has become free elsewhere.
#[derive(actix::Message)]
#[rtype(result = "()")]
pub(in crate::actors) struct LaneFree;

/// A step has ended.
#[derive(actix::Message)]
#[rtype(result = "()")]
struct StepEnded {
    /// The turn, or the message that was to be kept.
    turn: Ticket,
    outcome: StepOutcome,
}

enum StepOutcome {
    Kept(KeepReport),
    Opened(OpenReport),
    Decided(Verdict),
    Settled(SettleReport),
    Panicked,
}

impl ConversationActor {
    pub(in crate::actors) fn new(
        key: ContactKey,
        generation: u64,
        mailbox: Arc<Mailbox>,
        directory: Weak<Directory>,
        shared: Arc<Shared>,
    ) -> Self {
        Self {
            key,
            generation,
            mailbox,
            directory,
            shared,
            machine: Machine::default(),
            seen: Ticket::new(0),
            timers: HashMap::new(),
            quiet: None,
            lane: None,
            lane_asked: false,
            turns: HashMap::new(),
        }
    }

    fn feed(&mut self, event: Event, ctx: &mut Context<Self>) {
        for effect in self.machine.on(event) {
            self.perform(effect, ctx);
        }
        self.turns.retain(|turn, _| self.machine.runs(*turn));
        if self.machine.is_idle() {
            // Their capacity would stay with an idle conversation (ARC-25).
            self.turns = HashMap::new();
            self.timers = HashMap::new();
        }
        self.mailbox.face.set_phase(self.machine.phase());
    }

    fn perform(&mut self, effect: Effect, ctx: &mut Context<Self>) {
        match effect {
            Effect::Store(ticket) => self.keep(ticket, ctx),
            Effect::WaitForQuiet(first) => self.wait_for_quiet(first, ctx),
            Effect::Open(tickets) => self.begin(tickets, 0, ctx),
            Effect::WaitForLane => self.wait_for_lane(ctx),
            Effect::Decide(turn) => self.decide(turn, ctx),
            Effect::Settle(turn, race) => self.settle(turn, race, ctx),
            Effect::Hold(turn) => self.hold(turn, ctx),
            Effect::Tell(ticket, telling) => self.tell(ticket, telling, ctx),
            Effect::Forget(ticket) => drop(self.mailbox.take(&[ticket])),
            Effect::QueueReply(turn) => self.with_turn(turn, |shared, current| {
                let in_hand = Some(Counted::new(&self.mailbox.replies.in_hand));
                let watched = Watched { unconfirmed: None, in_hand, freed: current.freed() };
                shared.confirmer.queue(current.request.id, watched);
            }),
            Effect::ConfirmQueued(turn) => self.with_turn(turn, |shared, current| {
                shared.confirmer.confirm(current.request.id, Watched::default());
                shared.waker.wake();
            }),
            Effect::Resolve { turn, told } => self.resolve(turn, told),
        }
    }

    fn with_turn(&self, turn: Ticket, act: impl FnOnce(&Shared, &Current)) {
        if let Some(current) = self.turns.get(&turn) {
            act(&self.shared, current);
        }
    }

    /// Has a message that must wait written to the inbox.
    fn keep(&mut self, ticket: Ticket, ctx: &mut Context<Self>) {
        let limit = |deadline: &Deadline| Some(deadline.budget()).filter(|left| *left >= SHORTEST_FLIGHT);
        let process = self.shared.pulse.process();
        let found = self.mailbox.look_at(ticket, |arrival| {
            let limit = if arrival.slot.is_answered() { None } else { limit(&arrival.deadline) };
            (arrival.as_request(process), limit, arrival.slot.span.clone())
        });
        let Some((request, limit, span)) = found else { return };
        if limit.is_none() {
            // Answered now, as the deadline would a moment later.
            self.feed(Event::DeadlinePassed(ticket), ctx);
        }
        let future = self.shared.steps.keep(Arc::new(request), limit);
        self.run(ticket, span, ctx, async move { StepOutcome::Kept(future.await) });
    }

    /// Waits for another message; only the newest timer counts.
    fn wait_for_quiet(&mut self, first: Ticket, ctx: &mut Context<Self>) {
        if let Some(earlier) = self.quiet.take() {
            ctx.cancel_future(earlier);
        }
        let time = self.mailbox.quiet_time(first);
        self.quiet = Some(ctx.run_later(time, |actor, ctx| actor.feed(Event::QuietOver, ctx)));
    }

    /// Asks again in a while, or as soon as the lane is heard to be free.
    fn wait_for_lane(&mut self, ctx: &mut Context<Self>) {
        if let Some(earlier) = self.lane.take() {
            ctx.cancel_future(earlier);
        }
        if let Some(conversation) = self.mailbox.face.conversation() {
            self.shared.lanes.watch(conversation, ctx.address());
        }
        let pause = if self.lane_asked { LANE_PAUSE } else { FIRST_LANE_PAUSE };
        self.lane_asked = true;
        self.lane = Some(ctx.run_later(pause, Self::ask_for_lane));
    }

    fn ask_for_lane(&mut self, ctx: &mut Context<Self>) {
        if let Some(timer) = self.lane.take() {
            ctx.cancel_future(timer);
        }
        if let Some(conversation) = self.mailbox.face.conversation() {
            self.shared.lanes.forget(conversation);
        }
        self.feed(Event::LaneTimerFired, ctx);
    }

    fn decide(&mut self, turn: Ticket, ctx: &mut Context<Self>) {
        let Some(current) = self.turns.get_mut(&turn) else { return };
        let Some(opened) = &current.opened else { return };
        current.tools = self.shared.steps.tools(&current.request, opened);
        let (request, tools) = (Arc::clone(&current.request), current.tools.clone());
        let future = self.shared.steps.decide(request, Arc::clone(opened), tools);
        let Some(current) = self.turns.get(&turn) else { return };
        self.run(turn, current.span.clone(), ctx, async move { StepOutcome::Decided(future.await) });
    }

    fn settle(&mut self, turn: Ticket, race: Race, ctx: &mut Context<Self>) {
        let Some(current) = self.turns.get_mut(&turn) else { return };
        // Settle decides whether this reply may go inline: the one before must have gone its way by then (ARC-43).
        if self.mailbox.replies.any_in_hand() && current.in_hand_waits < MOST_IN_HAND_WAITS {
            current.in_hand_waits += 1;
            ctx.run_later(IN_HAND_PAUSE, move |actor, ctx| actor.settle(turn, race, ctx));
            return;
        }
        let (Some(opened), Some(verdict)) = (&current.opened, current.verdict.take()) else { return };
        let way = match race {
            Race::Lost => Way::Late { silenced: current.silenced },
            Race::WonBehindFlow => Way::BehindFlow,
            Race::Won if self.mailbox.replies.any_in_hand() => Way::BehindReply,
            Race::Won => Way::Response,
        };
        let (request, opened) = (Arc::clone(&current.request), Arc::clone(opened));
        let future = self.shared.steps.settle(request, opened, verdict, way, current.limit());
        let span = current.span.clone();
        self.run(turn, span, ctx, async move { StepOutcome::Settled(future.await) });
    }

    /// Runs a step on the shared runtime; a panic in it ends this turn and nothing else (ARC-22).
    fn run(
        &self,
        turn: Ticket,
        span: Span,
        ctx: &Context<Self>,
        step: impl Future<Output = StepOutcome> + Send + 'static,
    ) {
        let actor = ctx.address();
        let step = step.instrument(span);
        self.shared.io.spawn(async move {
            let outcome = AssertUnwindSafe(step).catch_unwind().await.unwrap_or(StepOutcome::Panicked);
            actor.do_send(StepEnded { turn, outcome });
        });
    }

    fn arm(&mut self, ticket: Ticket, deadline: Deadline, ctx: &mut Context<Self>) {
        let left = deadline.at().saturating_duration_since(Instant::now());
        let timer = ctx.run_later(left, move |actor, ctx| actor.feed(Event::DeadlinePassed(ticket), ctx));
        if let Some(earlier) = self.timers.insert(ticket, timer) {
            ctx.cancel_future(earlier);
        }
    }

    /// Lets a message that repeats one whose caller is gone take that one's place (DEC-30). True when it did.
    fn join(&mut self, notice: &Notice, ctx: &mut Context<Self>) -> bool {
        // A file is never compared: nothing but its kind is kept of it.
        let alone = self.turns.is_empty() && self.mailbox.len() <= 1;
        if alone || notice.answered || !notice.repeatable {
            return false;
        }
        let Some(mut repeated) = self.mailbox.take(&[notice.ticket]).pop() else { return false };
        let running = self.turns.values_mut().find_map(|current| current.join(&mut repeated));
        let Some(first) = running.or_else(|| self.mailbox.join(&mut repeated)) else {
            self.mailbox.put_back(vec![repeated]);
            return false;
        };
        tracing::info!("repeated request joins the turn of the first");
        self.arm(first, notice.deadline, ctx);
        true
    }

    fn kept(&mut self, ticket: Ticket, report: KeepReport) -> StoreResult {
        match report {
            KeepReport::Kept(Kept::Yes) => {
                self.mailbox.mark_stored(ticket);
                StoreResult::Kept
            }
            KeepReport::Kept(Kept::Beside) => StoreResult::Beside,
            KeepReport::Kept(Kept::NoConversation) => StoreResult::NoConversation,
            KeepReport::Failed(error) => {
                let conversation = self.mailbox.face.conversation().map(tracing::field::display);
                tracing::error!(conversation, err = %error, "unhandled error");
                self.not_kept(ticket, error)
            }
        }
    }

    /// A message that could not be kept ends as a turn does: its request is told, and what it has left is resolved.
    fn not_kept(&mut self, ticket: Ticket, error: TurnError) -> StoreResult {
        let current = Current::of(self.mailbox.take(&[ticket]), self.shared.pulse.process());
        if let Some(current) = current {
            self.turns.insert(ticket, current);
            self.note_error(ticket, error);
        }
        StoreResult::Failed
    }

    fn opened(&mut self, turn: Ticket, report: OpenReport) -> OpenResult {
        match report {
            OpenReport::Started(opened) => {
                self.mailbox.face.set_conversation(opened.conversation);
                self.lane_asked &= opened.fence.is_none();
                let (taken, beside) = (opened.taken, opened.fence.is_none());
                if let Some(current) = self.turns.get_mut(&turn) {
                    self.mailbox.put_back(current.split_off(taken));
                    current.opened = Some(Arc::new(*opened));
                }
                OpenResult::Started { taken, beside }
            }
            OpenReport::Waiting(waits) => self.waits(turn, &waits),
            OpenReport::Failed(error) => self.open_failed(turn, error),
        }
    }

    /// The messages go back to where they waited. Those without a row were taken over by another process, or erased with
    /// their contact.
    fn waits(&mut self, turn: Ticket, waits: &Waits) -> OpenResult {
        if let Some(conversation) = waits.conversation {
            self.mailbox.face.set_conversation(conversation);
        }
        if let (Some(owed), Some(recoverer)) = (waits.owed_first, &self.shared.recoverer) {
            recoverer.run_first(owed);
        }
        let Some(current) = self.turns.remove(&turn) else { return OpenResult::Waits { gone: Vec::new() } };
        let arrivals = current.into_arrivals(&waits.kept);
        let gone =
            arrivals.iter().filter(|arrival| !arrival.row.stored).map(|arrival| arrival.ticket).collect();
        self.mailbox.put_back(arrivals);
        OpenResult::Waits { gone }
    }

    /// The conversation may not be known yet: then the line carries no contact identity (TURN-17).
    fn open_failed(&mut self, turn: Ticket, error: TurnError) -> OpenResult {
        let conversation = self.mailbox.face.conversation().map(tracing::field::display);
        if let Some(current) = self.turns.get_mut(&turn) {
            current.span.in_scope(|| tracing::error!(conversation, err = %error, "unhandled error"));
            current.error = Some(error);
        }
        OpenResult::Failed
    }

    fn settled(&mut self, turn: Ticket, report: SettleReport) -> SettleResult {
        match report {
            SettleReport::Inline { body, others_wait } => {
                if let Some(current) = self.turns.get_mut(&turn) {
                    current.rendered = Some(body);
                    current.others_wait = others_wait;
                }
                SettleResult::Inline
            }
            // Nothing is owed: as for a queued reply, the request is answered silently and the turn is over.
            SettleReport::Queued | SettleReport::Hushed => SettleResult::Queued,
            SettleReport::Superseded => {
                self.note_error(turn, TurnError::Superseded);
                SettleResult::Superseded
            }
            SettleReport::Dropped => SettleResult::Dropped,
            SettleReport::Failed(error) => {
                self.note_error(turn, error);
                SettleResult::Failed
            }
        }
    }

    fn note_error(&mut self, turn: Ticket, error: TurnError) {
        if let Some(current) = self.turns.get_mut(&turn) {
            current.error = Some(error);
        }
    }

    /// Tells the machine of a message, unless it only repeats another.
    fn arrived(&mut self, notice: &Notice, ctx: &mut Context<Self>) {
        if self.join(notice, ctx) {
            return;
        }
        if !notice.answered {
            self.arm(notice.ticket, notice.deadline, ctx);
        }
        let arrived = Event::Arrived {
            ticket: notice.ticket,
            burst: notice.burst,
            answered: notice.answered,
            quiet: !notice.quiet.is_zero(),
            stored: notice.stored,
        };
        self.feed(arrived, ctx);
    }
}

impl Actor for ConversationActor {
    type Context = Context<Self>;

    /// Runs after an orderly leave and while a panic unwinds alike.
    fn stopped(&mut self, _: &mut Self::Context) {
        for (_, mut current) in std::mem::take(&mut self.turns) {
            // Dropping the callers answers their requests silently: nobody knows here whether a reply was settled.
            let failure = current.failure(self.mailbox.face.conversation());
            self.resolve_later(&current, Told::No, failure);
        }
        if let Some(directory) = self.directory.upgrade() {
            directory.ended(&self.key, self.generation);
        }
    }
}

impl Handler<Poke> for ConversationActor {
    type Result = ();

    fn handle(&mut self, _: Poke, ctx: &mut Context<Self>) {
        for notice in self.mailbox.news(self.seen) {
            self.seen = notice.ticket;
            self.arrived(&notice, ctx);
        }
    }
}

impl Handler<Leave> for ConversationActor {
    type Result = ();

    fn handle(&mut self, _: Leave, ctx: &mut Context<Self>) {
        let Some(directory) = self.directory.upgrade() else { return ctx.stop() };
        if self.machine.is_idle() && directory.let_go(&self.key, self.generation) {
            ctx.stop();
        }
    }
}

impl Handler<LaneFree> for ConversationActor {
    type Result = ();

    fn handle(&mut self, _: LaneFree, ctx: &mut Context<Self>) {
        self.ask_for_lane(ctx);
    }
}

impl Handler<StepEnded> for ConversationActor {
    type Result = ();

    fn handle(&mut self, StepEnded { turn, outcome }: StepEnded, ctx: &mut Context<Self>) {
        let event = match outcome {
            StepOutcome::Kept(report) => Event::Stored(turn, self.kept(turn, report)),
            StepOutcome::Opened(report) => Event::Opened(turn, self.opened(turn, report)),
            StepOutcome::Decided(verdict) => {
                let playing = self.turns.get_mut(&turn).map(|current| current.decided(verdict));
                self.give_up_waiting(turn, ctx);
                Event::Decided(turn, playing.unwrap_or(Playing::No))
            }
            StepOutcome::Settled(report) => Event::Settled(turn, self.settled(turn, report)),
            StepOutcome::Panicked if self.turns.contains_key(&turn) => Event::Panicked(turn),
            StepOutcome::Panicked => Event::Stored(turn, self.not_kept(turn, TurnError::CutShort)),
        };
        self.feed(event, ctx);
    }
}
