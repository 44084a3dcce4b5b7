//! What the actor tells the requests of its contact, and how it has a failed turn ended.

use std::sync::Arc;

use actix::{AsyncContext, Context};

use super::super::current::{Current, copy_answer, copy_of};
use super::super::events::{Event, Telling, Ticket};
use super::ConversationActor;
use crate::actors::answer::{Told, Undecided};
use crate::actors::resolver::{Failure, Left};
use crate::tools::COUNTERS;
use crate::turn;

impl ConversationActor {
    /// Ends what a turn left behind, or a message that never became one.
    pub(super) fn resolve(&mut self, turn: Ticket, told: bool) {
        if let Some(mut current) = self.turns.remove(&turn) {
            let failure = current.failure(self.mailbox.face.conversation());
            let told = if told { std::mem::replace(&mut current.told, Told::No) } else { Told::No };
            self.resolve_later(&current, told, failure);
        }
    }

    /// Has a failed turn ended in the background.
    pub(super) fn resolve_later(&self, current: &Current, told: Told, failure: Failure) {
        let reply = (failure.left == Left::Opened).then(|| Undecided::new(&self.mailbox.replies));
        self.shared.steps.resolve_later(Arc::clone(&current.request), told, failure, reply);
    }

    pub(super) fn tell(&mut self, ticket: Ticket, telling: Telling, ctx: &mut Context<Self>) {
        if let Some(timer) = self.timers.remove(&ticket) {
            ctx.cancel_future(timer);
        }
        let mut turns = self.turns.values_mut();
        let found = turns.find_map(|current| {
            let told = current.tell(ticket, telling, &self.shared, &self.mailbox);
            told.then(|| (current.opened.is_some(), current.span.clone()))
        });
        if let Some((started, span)) = found {
            if telling == Telling::Silent && !started {
                span.in_scope(|| self.report_waiting());
            }
            return;
        }
        self.mailbox.tell(ticket, |slot| {
            if telling == Telling::Silent {
                slot.span.in_scope(|| self.report_waiting());
            }
            copy_of(telling).and_then(|copy| copy_answer(copy, slot, &self.shared))
        });
    }

    /// A message of this contact was answered silently because it still waits (LANE-4).
    fn report_waiting(&self) {
        match self.mailbox.face.conversation() {
            Some(id) => tracing::info!(conversation = %id, "turn waits for the previous one"),
            None => tracing::info!("turn waits for the previous one"),
        }
    }

    /// Keeps a settled reply back until the flow before it has played (WAIT-2).
    pub(super) fn hold(&self, turn: Ticket, ctx: &mut Context<Self>) {
        let left = self.turns.get(&turn).and_then(|current| {
            let left = turn::plays_for(current.plays_until).unwrap_or_default();
            let conversation = current.opened.as_ref()?.conversation;
            COUNTERS.held(left);
            let held_ms = crate::domain::millis(left);
            current.span.in_scope(
                || tracing::info!(%conversation, path = "inline", heldMs = held_ms, "reply held for flow"),
            );
            Some(left)
        });
        ctx.run_later(left.unwrap_or_default(), move |actor, ctx| actor.feed(Event::FlowOver(turn), ctx));
    }
}
