//! The actor shell around the machine: it takes orders out of the channel, makes calls on the shared runtime, and
//! gives answers. It decides nothing (ARC-2, ARC-19).

use std::collections::{HashMap, VecDeque};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, Instant};

use actix::{Actor, ActorContext, AsyncContext, Context, Handler, MessageResult, SpawnHandle, StreamHandler};
use futures_util::{FutureExt, stream};

use super::bucket::Bucket;
use super::lanes::Lane;
use super::rate::{Effect, Ending, Event, Facts, Machine};
use super::report::ManyChatReport;
use super::service::Parts;
use crate::actors::successor::Tenure;
use crate::manychat::{
    Action, Answer, AnswerSlot, Gate, Letter, LostBy, ManyChatError, Order, OrderId, Request, Unstarted,
};
use crate::telemetry::crash_points::{self, Point};

/// How long to pause after a 429 that does not say it.
const PAUSE: Duration = Duration::from_secs(1);
/// Longest pause that ManyChat can impose; after it one call finds out whether it still holds.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// Owns this process's share of ManyChat's rate, the pacing, and the order of sends per contact.
pub struct ManyChatActor {
    parts: Arc<Parts>,
    tenure: Tenure<Self>,
    machine: Machine,
    open: HashMap<OrderId, Open>,
    wake: Option<(Instant, SpawnHandle)>,
}

/// An order that is not answered yet.
struct Open {
    request: Request,
    slot: AnswerSlot,
    /// The process's unbroken life when it was asked for.
    life: u64,
    /// What has to be done before its first call.
    gate: Option<Gate>,
    /// What the last call said.
    result: Option<Result<Answer, ManyChatError>>,
}

/// Show the state.
#[derive(actix::Message)]
#[rtype(result = "ManyChatReport")]
pub(super) struct Observe;

/// A call has ended.
#[derive(actix::Message)]
#[rtype(result = "()")]
struct CallEnded {
    order: OrderId,
    result: Result<Answer, ManyChatError>,
}

/// The database has answered, or has not.
#[derive(actix::Message)]
#[rtype(result = "()")]
struct PlaceAnswered(Option<(Duration, u32)>);

impl ManyChatActor {
    pub(super) fn new(parts: Arc<Parts>, tenure: Tenure<Self>) -> Self {
        let now = now();
        // A successor does not know what was sent just before, so it starts without a burst.
        let bucket = match tenure.predecessors() {
            0 => Bucket::full(parts.limit, now),
            _ => Bucket::empty(parts.limit, now),
        };
        let machine = Machine::new(parts.limit, bucket, parts.reply_gap);
        Self { parts, tenure, machine, open: HashMap::new(), wake: None }
    }

    fn place(&mut self, order: Order, ctx: &mut Context<Self>) {
        let Order { id, request, slot, gate, until, life } = order;
        let facts = Facts { until, ..facts_of(&request) };
        let open = Open { request, slot, life, result: None, gate };
        self.open.insert(id, open);
        self.feed(Event::Placed(id, facts), ctx);
    }

    fn feed(&mut self, event: Event, ctx: &mut Context<Self>) {
        let mut events = VecDeque::from([event]);
        while let Some(event) = events.pop_front() {
            for effect in self.machine.on(event, now()) {
                events.extend(self.perform(effect, ctx));
            }
        }
        self.set_alarm(ctx);
    }

    /// Returns what the machine has to know at once.
    fn perform(&mut self, effect: Effect, ctx: &mut Context<Self>) -> Option<Event> {
        match effect {
            Effect::Start { order, step } => return self.start_call(order, step, ctx),
            Effect::GiveUp(order) => {
                if let Some(open) = self.open.get_mut(&order) {
                    open.result = Some(Err(ManyChatError::NotStarted { reason: Unstarted::Paused }));
                }
            }
            Effect::Close(order) => self.close(order),
            Effect::Reserve => self.reserve(ctx),
            Effect::Push(pause) => {
                let rate = Arc::clone(&self.parts.rate);
                self.parts.io.spawn(async move { rate.push(pause).await });
            }
        }
        None
    }

    /// ARC-44: no call starts when others may take this process for dead, nor for an order from before such a time.
    fn start_call(&mut self, id: OrderId, step: u8, ctx: &mut Context<Self>) -> Option<Event> {
        let open = self.open.get_mut(&id)?;
        if !self.parts.pulse.allows(open.life) {
            open.result = Some(Err(too_old()));
            return Some(Event::Refused(id));
        }
        if !open.slot.start() {
            return Some(Event::Refused(id));
        }
        let gate = open.gate.take();
        let call = open.request.call(step, &self.parts.names);
        let writes_reply = step == 0 && matches!(open.request.action, Action::SendText { .. });
        let (parts, life, address) = (Arc::clone(&self.parts), open.life, ctx.address());
        self.parts.io.spawn(async move {
            let endpoint = call.endpoint();
            let calling = async {
                if let Some(gate) = gate
                    && !gate.opens().await
                {
                    return Err(ManyChatError::NotStarted { reason: Unstarted::NotWanted });
                }
                // Time has passed since the actor looked: the process may have been paused.
                if parts.pulse.allows(life) { parts.client.call(call).await } else { Err(too_old()) }
            };
            let failed = Err(ManyChatError::Connection { endpoint, reason: LostBy::Network, sent: true });
            let result = AssertUnwindSafe(calling).catch_unwind().await.unwrap_or(failed);
            crash_points::passed_if(writes_reply && result.is_ok(), Point::FieldWritten);
            parts.totals.count(endpoint, &result);
            address.do_send(CallEnded { order: id, result });
        });
        None
    }

    fn close(&mut self, order: OrderId) {
        if let Some(Open { slot, result: Some(result), .. }) = self.open.remove(&order) {
            slot.answer(result);
        }
    }

    fn reserve(&self, ctx: &Context<Self>) {
        let (rate, address) = (Arc::clone(&self.parts.rate), ctx.address());
        self.parts.io.spawn(async move {
            let place = AssertUnwindSafe(rate.reserve()).catch_unwind().await.unwrap_or(None);
            address.do_send(PlaceAnswered(place));
        });
    }

    fn set_alarm(&mut self, ctx: &mut Context<Self>) {
        let now = now();
        let wanted = self.machine.next_wake(now);
        if self.wake.is_some_and(|(at, _)| Some(at) == wanted) {
            return;
        }
        if let Some((_, alarm)) = self.wake.take() {
            ctx.cancel_future(alarm);
        }
        self.wake = wanted.map(|at| {
            let alarm = ctx.run_later(at.saturating_duration_since(now), |actor, ctx| {
                actor.wake = None;
                actor.feed(Event::Woken, ctx);
            });
            (at, alarm)
        });
    }
}

fn facts_of(request: &Request) -> Facts {
    let (lane, not_before) = match &request.action {
        Action::SendText { wait, .. } => (Some(Lane::Texts), (!wait.is_zero()).then(|| now() + *wait)),
        Action::SetField { .. }
        | Action::SendFlow { .. }
        | Action::AddTag { .. }
        | Action::RemoveTag { .. } => (Some(Lane::Actions), None),
        Action::WriteToken { .. } | Action::GetInfo => (None, None),
    };
    Facts {
        contact: request.contact.clone(),
        lane,
        priority: request.priority,
        steps: request.steps(),
        not_before,
        until: None,
    }
}

const fn too_old() -> ManyChatError {
    ManyChatError::NotStarted { reason: Unstarted::HeartbeatTooOld }
}

fn ending_of(result: &Result<Answer, ManyChatError>) -> Ending {
    match result {
        Ok(_) => Ending::Accepted,
        Err(error) if error.status() == Some(429) => {
            let pause = error.retry_after().unwrap_or(PAUSE).clamp(PAUSE, LONGEST_PAUSE);
            let pause_ms = crate::domain::millis(pause);
            tracing::warn!(endpoint = error.endpoint(), pause_ms, "ManyChat asks for fewer calls");
            Ending::TooMany(pause)
        }
        Err(_) => Ending::Failed,
    }
}

/// The runtime's clock, so that tests can move it.
fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

impl Actor for ManyChatActor {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Context<Self>) {
        let parts = Arc::clone(&self.parts);
        ctx.add_stream(stream::poll_fn(move |context| parts.poll_letter(context)));
    }

    fn stopped(&mut self, _: &mut Context<Self>) {
        self.tenure.ended();
    }
}

impl StreamHandler<Letter> for ManyChatActor {
    fn handle(&mut self, letter: Letter, ctx: &mut Context<Self>) {
        match letter {
            Letter::Place(order) => self.place(order, ctx),
            Letter::Withdraw(order) => self.feed(Event::Withdrawn(order), ctx),
        }
    }

    /// Every handle is gone: nobody can want anything any longer.
    fn finished(&mut self, ctx: &mut Context<Self>) {
        self.tenure.close();
        ctx.stop();
    }
}

impl Handler<CallEnded> for ManyChatActor {
    type Result = ();

    fn handle(&mut self, ended: CallEnded, ctx: &mut Context<Self>) {
        let ending = ending_of(&ended.result);
        if let Some(open) = self.open.get_mut(&ended.order) {
            open.result = Some(ended.result);
        }
        self.feed(Event::Ended(ended.order, ending), ctx);
    }
}

impl Handler<PlaceAnswered> for ManyChatActor {
    type Result = ();

    fn handle(&mut self, answer: PlaceAnswered, ctx: &mut Context<Self>) {
        let event = match answer.0 {
            Some((wait, alive)) => Event::Reserved { wait, alive },
            None => Event::NotReserved,
        };
        self.feed(event, ctx);
    }
}

impl Handler<Observe> for ManyChatActor {
    type Result = MessageResult<Observe>;

    fn handle(&mut self, _: Observe, _: &mut Context<Self>) -> Self::Result {
        MessageResult(ManyChatReport {
            bucket_level: (self.machine.level(now()) * 100.0).round() / 100.0,
            shared_rate: self.machine.is_shared(),
            open: self.machine.open(),
            waiting_for_rate: self.machine.ready(),
            in_flight: self.machine.in_flight(),
            contacts: self.machine.contacts(),
            restarts: self.tenure.predecessors(),
            calls: self.parts.totals.calls(),
        })
    }
}

#[cfg(test)]
#[path = "actor_tests.rs"]
pub(super) mod tests;
