//! The actor shell around the machine: mailbox, timers, spawns. It decides nothing (ARC-2, ARC-19).

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use actix::{Actor, ActorContext, AsyncContext, Context, Handler, SpawnHandle};
use futures_util::FutureExt;
use tokio::runtime::Handle;
use tracing::{Instrument, Span};

use super::machine::{Effect, Event, Machine, OpenResult, SettleResult, Telling, Ticket};
use super::mailbox::{Arrival, Mailbox, Slot};
use super::steps::{Copy, Steps};
use crate::actors::answer::{Answer, Counted, OwedReply};
use crate::actors::confirmer::Confirmer;
use crate::actors::directory::{ContactKey, Directory};
use crate::actors::outbox::OutboxWaker;
use crate::domain::{Deadline, TurnId};
use crate::store::open::OpenTurn;
use crate::turn::{self, Draft, OpenReport, SettleReport, TurnRequest, Way};

/// How long to wait before asking again for a lane that another process holds.
const LANE_PAUSE: Duration = Duration::from_millis(100);
/// How long to wait for the previous reply to leave our hands; normally it has long done so.
const IN_HAND_PAUSE: Duration = Duration::from_millis(2);
/// After this many pauses the turn goes on all the same: order matters less than an answer.
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
    in_hand_waits: u32,
    current: Option<Current>,
}

/// The turn under way.
struct Current {
    request: Arc<TurnRequest>,
    deadline: Deadline,
    /// Of the request that gets the reply.
    span: Span,
    slots: HashMap<Ticket, Slot>,
    live: Ticket,
    opened: Option<Arc<OpenTurn>>,
    draft: Option<Draft>,
    rendered: Option<Vec<u8>>,
    /// The request was answered without a message.
    silenced: bool,
}

/// Something waits in the mailbox.
#[derive(actix::Message)]
#[rtype(result = "()")]
pub(in crate::actors) struct Poke;

/// Leave if you are idle.
#[derive(actix::Message)]
#[rtype(result = "()")]
pub(in crate::actors) struct Leave;

/// A step has ended.
#[derive(actix::Message)]
#[rtype(result = "()")]
struct StepEnded {
    turn: TurnId,
    outcome: StepOutcome,
}

enum StepOutcome {
    Opened(OpenReport),
    Decided(Draft),
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
            in_hand_waits: 0,
            current: None,
        }
    }

    fn feed(&mut self, event: Event, ctx: &mut Context<Self>) {
        for effect in self.machine.on(event) {
            self.perform(effect, ctx);
        }
        if self.machine.is_idle() {
            // Their capacity would stay with an idle conversation (ARC-25).
            self.current = None;
            self.timers = HashMap::new();
        }
        self.mailbox.face.set_phase(self.machine.phase());
    }

    fn perform(&mut self, effect: Effect, ctx: &mut Context<Self>) {
        match effect {
            Effect::WaitForQuiet(first) => self.wait_for_quiet(first, ctx),
            Effect::Open(tickets) => self.begin(&tickets, ctx),
            // The database has answered before: the request now waits for the lane, and its deadline answers it
            // silently (LANE-4), so the flight has no share of the deadline to keep to.
            Effect::Reopen => self.open(None, ctx),
            Effect::WaitForLane => {
                ctx.run_later(LANE_PAUSE, |actor, ctx| actor.feed(Event::LaneTimerFired, ctx));
            }
            Effect::Decide => self.decide(ctx),
            Effect::Settle { deferred } => self.settle(deferred, ctx),
            Effect::Tell(ticket, telling) => self.tell(ticket, telling, ctx),
            Effect::QueueReply => self.with_current(|shared, current| {
                let in_hand = Counted::new(&self.mailbox.replies.in_hand);
                shared.confirmer.queue(current.request.id, None, Some(in_hand));
            }),
            Effect::ConfirmQueued => self.with_current(|shared, current| {
                shared.confirmer.confirm(current.request.id, None);
                shared.waker.wake();
            }),
            Effect::Resolve { told } => self.with_current(|shared, current| {
                shared.steps.resolve_later(Arc::clone(&current.request), told);
            }),
        }
    }

    fn with_current(&self, act: impl FnOnce(&Shared, &Current)) {
        if let Some(current) = &self.current {
            act(&self.shared, current);
        }
    }

    /// Waits for another message; only the newest timer counts.
    fn wait_for_quiet(&mut self, first: Ticket, ctx: &mut Context<Self>) {
        if let Some(earlier) = self.quiet.take() {
            ctx.cancel_future(earlier);
        }
        let time = self.mailbox.quiet_time(first);
        self.quiet = Some(ctx.run_later(time, |actor, ctx| actor.feed(Event::QuietOver, ctx)));
    }

    /// Takes the turn's messages out of the mailbox and opens it.
    fn begin(&mut self, tickets: &[Ticket], ctx: &mut Context<Self>) {
        self.current = Current::of(self.mailbox.take(tickets));
        self.give_up_waiting(ctx);
        self.open(self.current.as_ref().and_then(Current::limit), ctx);
    }

    /// Too little is left of the deadline for another flight: its request is answered now, as the deadline would a
    /// moment later, and the turn goes on without it.
    fn give_up_waiting(&mut self, ctx: &mut Context<Self>) {
        let late = self
            .current
            .as_ref()
            .filter(|current| current.limit().is_some_and(|left| left < SHORTEST_FLIGHT));
        if let Some(live) = late.map(|current| current.live) {
            self.feed(Event::DeadlinePassed(live), ctx);
        }
    }

    fn open(&mut self, limit: Option<Duration>, ctx: &mut Context<Self>) {
        let Some(current) = &self.current else { return };
        let future = self.shared.steps.open(Arc::clone(&current.request), limit);
        self.run(ctx, async move { StepOutcome::Opened(future.await) });
    }

    fn decide(&mut self, ctx: &mut Context<Self>) {
        let Some(current) = &self.current else { return };
        let Some(opened) = &current.opened else { return };
        let future = self.shared.steps.decide(Arc::clone(&current.request), Arc::clone(opened));
        self.run(ctx, async move { StepOutcome::Decided(future.await) });
    }

    fn settle(&mut self, deferred: bool, ctx: &mut Context<Self>) {
        // Settle decides whether this reply may go inline: the one before must have gone its way by then (ARC-43).
        if self.mailbox.replies.any_in_hand() && self.in_hand_waits < MOST_IN_HAND_WAITS {
            self.in_hand_waits += 1;
            ctx.run_later(IN_HAND_PAUSE, move |actor, ctx| actor.settle(deferred, ctx));
            return;
        }
        self.in_hand_waits = 0;
        let Some(current) = &mut self.current else { return };
        let (Some(opened), Some(draft)) = (&current.opened, current.draft.take()) else { return };
        let way = Way { deferred, silenced: current.silenced, limit: current.limit() };
        let future = self.shared.steps.settle(Arc::clone(&current.request), Arc::clone(opened), draft, way);
        self.run(ctx, async move { StepOutcome::Settled(future.await) });
    }

    /// Runs a step on the shared runtime; a panic in it ends this turn and nothing else (ARC-22).
    fn run(&self, ctx: &mut Context<Self>, step: impl Future<Output = StepOutcome> + Send + 'static) {
        let Some(current) = &self.current else { return };
        let (turn, step) = (current.request.id, step.instrument(current.span.clone()));
        let actor = actix::AsyncContext::address(ctx);
        self.shared.io.spawn(async move {
            let outcome = AssertUnwindSafe(step).catch_unwind().await.unwrap_or(StepOutcome::Panicked);
            actor.do_send(StepEnded { turn, outcome });
        });
    }

    fn tell(&mut self, ticket: Ticket, telling: Telling, ctx: &mut Context<Self>) {
        if let Some(timer) = self.timers.remove(&ticket) {
            ctx.cancel_future(timer);
        }
        let shared = Arc::clone(&self.shared);
        let mailbox = Arc::clone(&self.mailbox);
        if let Some(current) = &mut self.current
            && let Some(mut slot) = current.slots.remove(&ticket)
        {
            current.silenced |= ticket == current.live && telling == Telling::Silent;
            let answer = current.answer(telling, &slot, &shared, &mailbox);
            slot.send(answer);
            return;
        }
        self.mailbox.tell(ticket, |slot| {
            slot.span.in_scope(|| self.report_waiting());
            copy_of(telling).and_then(|copy| copy_answer(copy, slot, &shared))
        });
    }

    /// A message of this contact was answered silently because it still waits (LANE-4).
    fn report_waiting(&self) {
        match self.mailbox.face.conversation() {
            Some(id) => tracing::info!(conversation = %id, "turn waits for the previous one"),
            None => tracing::info!("turn waits for the previous one"),
        }
    }

    fn arm(&mut self, ticket: Ticket, deadline: Deadline, ctx: &mut Context<Self>) {
        let left = deadline.at().saturating_duration_since(Instant::now());
        let timer = ctx.run_later(left, move |actor, ctx| actor.feed(Event::DeadlinePassed(ticket), ctx));
        self.timers.insert(ticket, timer);
    }

    fn opened(&mut self, report: OpenReport) -> OpenResult {
        match report {
            OpenReport::Started(turn) => {
                self.mailbox.face.set_conversation(turn.conversation);
                if let Some(current) = &mut self.current {
                    current.opened = Some(Arc::new(*turn));
                }
                OpenResult::Started
            }
            OpenReport::LaneHeld => OpenResult::LaneHeld,
            OpenReport::Failed(error) => {
                // The conversation may not be known yet, so the line carries no contact identity (TURN-17).
                self.with_current(|_, current| {
                    current.span.in_scope(|| tracing::error!(err = %error, "unhandled error"));
                });
                OpenResult::Failed
            }
        }
    }

    fn settled(&mut self, report: SettleReport) -> SettleResult {
        match report {
            SettleReport::Inline(body) => {
                if let Some(current) = &mut self.current {
                    current.rendered = Some(body);
                }
                SettleResult::Inline
            }
            // Nothing is owed: as for a queued reply, the request is answered silently and the turn is over.
            SettleReport::Queued | SettleReport::Hushed => SettleResult::Queued,
            SettleReport::Superseded => SettleResult::Superseded,
            SettleReport::Failed(_) => SettleResult::Failed,
        }
    }
}

impl Current {
    fn of(arrivals: Vec<Arrival>) -> Option<Self> {
        let last = arrivals.last()?;
        let (live, deadline, snapshot) = (last.ticket, last.deadline, Arc::clone(&last.snapshot));
        let (presented_secret, span) = (last.slot.presented_secret.clone(), last.slot.span.clone());
        let mut messages = Vec::with_capacity(arrivals.len());
        let mut slots = HashMap::with_capacity(arrivals.len());
        for arrival in arrivals {
            messages.push(arrival.inbound);
            slots.insert(arrival.ticket, arrival.slot);
        }
        let request = Arc::new(TurnRequest { id: TurnId::fresh(), messages, snapshot, presented_secret });
        Some(Self {
            request,
            deadline,
            span,
            slots,
            live,
            opened: None,
            draft: None,
            rendered: None,
            silenced: false,
        })
    }

    /// What a flight may take: the rest of the deadline, or no limit of a request that is answered already.
    fn limit(&self) -> Option<Duration> {
        self.is_waited_for().then(|| self.deadline.budget())
    }

    /// A reply that is still on its way tells enough (LANE-7), and where a person has taken over nothing is said (DEC-9).
    fn says_no_holding_line(&self) -> bool {
        let opened = self.opened.as_ref();
        opened.is_some_and(|opened| opened.reply_queued || turn::may_be_silent(&self.request, opened))
    }

    fn is_waited_for(&self) -> bool {
        self.slots.get(&self.live).is_some_and(|slot| !slot.is_answered())
    }

    fn answer(
        &mut self,
        telling: Telling,
        slot: &Slot,
        shared: &Shared,
        mailbox: &Mailbox,
    ) -> Option<Answer> {
        match copy_of(telling) {
            Some(Copy::HoldingLine) if self.says_no_holding_line() => copy_answer(Copy::Silent, slot, shared),
            Some(copy) => copy_answer(copy, slot, shared),
            None => {
                let body = self.rendered.take()?;
                let owed = OwedReply::new(self.request.id, shared.confirmer.clone(), &mailbox.replies);
                Some(Answer { body, owed: Some(owed) })
            }
        }
    }
}

/// The tenant copy of a telling; `None` for the reply itself.
const fn copy_of(telling: Telling) -> Option<Copy> {
    match telling {
        Telling::Silent => Some(Copy::Silent),
        Telling::HoldingLine => Some(Copy::HoldingLine),
        Telling::Handoff => Some(Copy::Handoff),
        Telling::Reply => None,
    }
}

fn copy_answer(copy: Copy, slot: &Slot, shared: &Shared) -> Option<Answer> {
    let body = shared.steps.render(copy, &slot.snapshot, slot.presented_secret.expose())?;
    Some(Answer { body, owed: None })
}

impl Actor for ConversationActor {
    type Context = Context<Self>;

    /// Runs after an orderly leave and while a panic unwinds alike.
    fn stopped(&mut self, _: &mut Self::Context) {
        if let Some(current) = self.current.take() {
            // Dropping the slots makes their requests answer the handoff copy.
            self.shared.steps.resolve_later(Arc::clone(&current.request), current.is_waited_for());
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
            if !notice.answered {
                self.arm(notice.ticket, notice.deadline, ctx);
            }
            let arrived = Event::Arrived {
                ticket: notice.ticket,
                burst: notice.burst,
                answered: notice.answered,
                quiet: !notice.quiet.is_zero(),
            };
            self.feed(arrived, ctx);
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

impl Handler<StepEnded> for ConversationActor {
    type Result = ();

    fn handle(&mut self, ended: StepEnded, ctx: &mut Context<Self>) {
        if self.current.as_ref().is_none_or(|current| current.request.id != ended.turn) {
            return;
        }
        let event = match ended.outcome {
            StepOutcome::Opened(report) => Event::Opened(self.opened(report)),
            StepOutcome::Decided(draft) => {
                if let Some(current) = &mut self.current {
                    current.draft = Some(draft);
                }
                self.give_up_waiting(ctx);
                Event::Decided
            }
            StepOutcome::Settled(report) => Event::Settled(self.settled(report)),
            StepOutcome::Panicked => Event::Panicked,
        };
        self.feed(event, ctx);
    }
}
