//! How the actor begins a turn.

use std::sync::Arc;
use std::time::Duration;

use actix::{AsyncContext, Context};

use super::super::current::Current;
use super::super::events::{Event, Ticket};
use super::{ConversationActor, SHORTEST_FLIGHT, StepOutcome};

/// How long to wait for the new id of a process that was silent for too long: it is there as soon as the database has
/// answered a beat.
const NEW_ID_PAUSE: Duration = Duration::from_millis(50);
/// After this many pauses the database is away, and the turn fails as it does in any outage.
const MOST_NEW_ID_WAITS: u32 = 20;

impl ConversationActor {
    /// Takes the turn's messages out of the mailbox and opens it. Under an id that others count as dead it would be theirs
    /// at once: after a silence the new one is waited for (ARC-44).
    pub(super) fn begin(&mut self, tickets: Vec<Ticket>, waits: u32, ctx: &mut Context<Self>) {
        if self.shared.pulse.is_silent() && waits < MOST_NEW_ID_WAITS {
            ctx.run_later(NEW_ID_PAUSE, move |actor, ctx| actor.begin(tickets, waits + 1, ctx));
            return;
        }
        let current = Current::of(self.mailbox.take(&tickets), self.shared.pulse.process());
        let (Some(turn), Some(current)) = (tickets.first().copied(), current) else { return };
        self.turns.insert(turn, current);
        self.give_up_waiting(turn, ctx);
        let Some(current) = self.turns.get(&turn) else { return };
        // What stands in the inbox is safe, and its deadline answers it silently (LANE-4): the flight has no share of
        // the deadline to keep to.
        let limit = if current.is_stored() { None } else { current.limit() };
        let future = self.shared.steps.open(Arc::clone(&current.request), limit);
        self.run(turn, current.span.clone(), ctx, async move { StepOutcome::Opened(future.await) });
    }

    /// Too little is left of the deadline for another flight: its request is answered now, as the deadline would a
    /// moment later, and the turn goes on without it.
    pub(super) fn give_up_waiting(&mut self, turn: Ticket, ctx: &mut Context<Self>) {
        let current = self.turns.get(&turn);
        let late = current.filter(|current| current.limit().is_some_and(|left| left < SHORTEST_FLIGHT));
        if let Some(live) = late.and_then(Current::live) {
            self.feed(Event::DeadlinePassed(live), ctx);
        }
    }
}
