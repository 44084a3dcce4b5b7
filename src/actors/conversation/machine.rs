//! The conversation as a pure state machine: events in, effects out, no actor and no clock (ARC-19).
//!
//! It decides four things: which waiting messages the next turn answers, which of them are written to the inbox, who
//! wins the race against the deadline (named once, before the reply is settled), and what each waiting request is told.
//!
//! At most one turn runs in the contact's lane. Turns that prove nothing run beside it: they wait for nobody, and nobody
//! waits for them (LANE-3). A turn is named by its first message.

use std::collections::VecDeque;

use super::events::{
    BurstKey, Effect, Event, OpenResult, Phase, Playing, Race, SettleResult, StoreResult, Telling, Ticket,
};

/// Where a waiting message stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Saved {
    /// In memory only, and nobody has been asked to write it.
    No,
    /// It is being written to the inbox.
    Asked,
    /// In the inbox.
    Yes,
    /// In memory only: there is no conversation to keep it with.
    Never,
}

/// A message that waits for a turn.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    ticket: Ticket,
    burst: Option<BurstKey>,
    answered: bool,
    quiet: bool,
    saved: Saved,
}

#[derive(Debug)]
struct Running {
    messages: Vec<Waiting>,
    phase: Phase,
    /// Whether the reply has to wait for a flow. Known when the settling begins.
    playing: Playing,
}

/// One contact's turns in this process.
#[derive(Debug, Default)]
pub struct Machine {
    queue: VecDeque<Waiting>,
    /// The turn in the lane, or on its way there.
    running: Option<Running>,
    /// Turns that wait for nobody.
    beside: Vec<Running>,
    /// The next turn is not ours to start yet.
    lane_held: bool,
}

impl Machine {
    /// Takes an event and returns what has to be done, in order.
    #[must_use]
    pub fn on(&mut self, event: Event) -> Vec<Effect> {
        match event {
            Event::Arrived { ticket, burst, answered, quiet, stored } => {
                let saved = if stored { Saved::Yes } else { Saved::No };
                self.queue.push_back(Waiting { ticket, burst, answered, quiet, saved });
                self.advance()
            }
            Event::QuietOver => self.open_gathered(),
            Event::DeadlinePassed(ticket) => self.deadline_passed(ticket),
            Event::Stored(ticket, result) => self.stored(ticket, result),
            Event::Opened(turn, result) => self.opened(turn, result),
            Event::LaneTimerFired => {
                self.lane_held = false;
                self.advance()
            }
            Event::Decided(turn, playing) => self.decided(turn, playing),
            Event::Settled(turn, result) => self.settled(turn, result),
            Event::FlowOver(turn) => self.flow_over(turn),
            Event::Panicked(turn) => self.failed(turn),
        }
    }

    /// True when the actor may go: no turn runs and no message waits.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.running.is_none() && self.queue.is_empty() && self.beside.is_empty()
    }

    /// True while this turn is under way, in the lane or beside it.
    #[must_use]
    pub fn runs(&self, turn: Ticket) -> bool {
        self.running.iter().chain(&self.beside).any(|running| running.is(turn))
    }

    /// Where the running turn stands.
    #[must_use]
    pub fn phase(&self) -> Phase {
        match (&self.running, self.beside.first()) {
            (Some(running), _) => running.phase,
            (None, _) if !self.queue.is_empty() => Phase::WaitingForLane,
            (None, Some(beside)) => beside.phase,
            (None, None) => Phase::Idle,
        }
    }

    /// Does what the present state allows: start the next turn, gather more, or keep what has to wait.
    fn advance(&mut self) -> Vec<Effect> {
        match self.running.as_ref().map(|running| running.phase) {
            None if self.lane_held => self.store_next(),
            None => self.start_next(),
            Some(Phase::Gathering) => self.gather_or_open(),
            // Before the turn's own Open has answered, a row could get ahead of it.
            Some(Phase::Opening) => Vec::new(),
            Some(_) => self.store_next(),
        }
    }

    /// Has the oldest message that is only in memory written to the inbox, unless one is being written.
    fn store_next(&mut self) -> Vec<Effect> {
        if self.queue.iter().any(|message| message.saved == Saved::Asked) {
            return Vec::new();
        }
        let next = self.queue.iter_mut().find(|message| message.saved == Saved::No);
        let Some(next) = next else { return Vec::new() };
        next.saved = Saved::Asked;
        vec![Effect::Store(next.ticket)]
    }

    fn stored(&mut self, ticket: Ticket, result: StoreResult) -> Vec<Effect> {
        let place = self.queue.iter().position(|message| message.ticket == ticket);
        let Some(message) = place.and_then(|place| self.queue.get_mut(place)) else { return Vec::new() };
        let mut effects = match result {
            StoreResult::Kept => {
                message.saved = Saved::Yes;
                Vec::new()
            }
            StoreResult::NoConversation => {
                message.saved = Saved::Never;
                Vec::new()
            }
            StoreResult::Beside => {
                let message = *message;
                self.queue.retain(|other| other.ticket != ticket);
                self.beside.push(Running {
                    messages: vec![message],
                    phase: Phase::Opening,
                    playing: Playing::No,
                });
                vec![Effect::Open(vec![ticket])]
            }
            StoreResult::Failed => {
                let told = !message.answered;
                let mut effects = message.tell(Telling::Handoff);
                self.queue.retain(|other| other.ticket != ticket);
                effects.push(Effect::Resolve { turn: ticket, told });
                effects
            }
        };
        effects.extend(self.advance());
        effects
    }

    /// Starts with the oldest waiting message: at once, or after a moment of quiet. One that is being written to the
    /// inbox is waited for.
    fn start_next(&mut self) -> Vec<Effect> {
        let Some(first) = self.queue.pop_front_if(|first| first.saved != Saved::Asked) else {
            return Vec::new();
        };
        self.running = Some(Running { messages: vec![first], phase: Phase::Gathering, playing: Playing::No });
        self.gather_or_open()
    }

    /// Takes in what waits right behind and belongs to the same burst. Only the end of the queue leaves anything to
    /// wait for, and what is being written to the inbox.
    fn gather_or_open(&mut self) -> Vec<Effect> {
        let Some(running) = self.running.as_mut() else { return Vec::new() };
        let Some(first) = running.messages.first().copied() else { return Vec::new() };
        let belongs = |next: &Waiting| first.burst.is_some() && next.burst == first.burst;
        while let Some(next) = self.queue.pop_front_if(|next| belongs(next) && next.saved != Saved::Asked) {
            running.messages.push(next);
        }
        if self.queue.front().is_some_and(belongs) {
            return Vec::new();
        }
        let wait = first.quiet && first.burst.is_some() && self.queue.is_empty() && !running.is_answered();
        if wait { vec![Effect::WaitForQuiet(first.ticket)] } else { self.open_gathered() }
    }

    fn open_gathered(&mut self) -> Vec<Effect> {
        match self.running.as_mut() {
            Some(running) if running.phase == Phase::Gathering => {
                running.phase = Phase::Opening;
                vec![Effect::Open(running.messages.iter().map(|message| message.ticket).collect())]
            }
            _ => Vec::new(),
        }
    }

    fn deadline_passed(&mut self, ticket: Ticket) -> Vec<Effect> {
        if let Some(waiting) = self.queue.iter_mut().find(|waiting| waiting.ticket == ticket) {
            return waiting.tell(Telling::Silent);
        }
        let mut turns = self.running.iter_mut().chain(&mut self.beside);
        let Some(running) = turns.find(|running| running.holds(ticket)) else { return Vec::new() };
        if let (Phase::Holding, Some(first)) = (running.phase, running.messages.first()) {
            // The flow ends with the deadline at the latest: nothing else is told any more.
            let turn = first.ticket;
            return self.flow_over(turn);
        }
        let telling = match running.phase {
            Phase::Deciding | Phase::Settling if running.is_live(ticket) => Telling::HoldingLine,
            _ => Telling::Silent,
        };
        let found = running.messages.iter_mut().find(|message| message.ticket == ticket);
        found.map(|message| message.tell(telling)).unwrap_or_default()
    }

    fn opened(&mut self, turn: Ticket, result: OpenResult) -> Vec<Effect> {
        match result {
            OpenResult::Started { taken, beside } => self.started(turn, taken, beside),
            OpenResult::Waits { gone } => self.waits(turn, &gone),
            OpenResult::Failed => self.failed(turn),
        }
    }

    fn started(&mut self, turn: Ticket, taken: usize, beside: bool) -> Vec<Effect> {
        let Some(mut running) = self.take(turn) else { return Vec::new() };
        let left = running.messages.split_off(taken.clamp(1, running.messages.len()));
        self.put_back(left);
        running.phase = Phase::Deciding;
        let mut effects = running.tell_earlier_ones();
        effects.push(Effect::Decide(turn));
        if beside || self.running.is_some() {
            self.beside.push(running);
        } else {
            self.running = Some(running);
        }
        effects.extend(self.advance());
        effects
    }

    /// Puts the messages back, to be asked for again; those that another process has taken over are let go.
    fn waits(&mut self, turn: Ticket, gone: &[Ticket]) -> Vec<Effect> {
        let Some(running) = self.take(turn) else { return Vec::new() };
        let (lost, mut kept): (Vec<Waiting>, Vec<Waiting>) =
            running.messages.into_iter().partition(|message| gone.contains(&message.ticket));
        let mut effects = Vec::new();
        for mut message in lost {
            effects.extend(message.tell(Telling::Silent));
            effects.push(Effect::Forget(message.ticket));
        }
        for message in &mut kept {
            message.saved = Saved::Yes;
        }
        if !kept.is_empty() && self.running.is_none() {
            self.lane_held = true;
            effects.push(Effect::WaitForLane);
        }
        self.put_back(kept);
        effects.extend(self.advance());
        effects
    }

    /// Puts messages of a turn back into the queue, where they stood.
    fn put_back(&mut self, messages: Vec<Waiting>) {
        for message in messages {
            let place = self.queue.partition_point(|other| other.ticket < message.ticket);
            self.queue.insert(place, message);
        }
    }

    /// Names the winner of the race, once (RACE-4, RACE-5).
    fn decided(&mut self, turn: Ticket, playing: Playing) -> Vec<Effect> {
        let mut turns = self.running.iter_mut().chain(&mut self.beside);
        let Some(running) = turns.find(|running| running.is(turn)) else { return Vec::new() };
        running.phase = Phase::Settling;
        running.playing = playing;
        let race = match playing {
            _ if running.is_answered() => Race::Lost,
            Playing::Longer => Race::WonBehindFlow,
            Playing::No | Playing::UntilDeadline => Race::Won,
        };
        vec![Effect::Settle(turn, race)]
    }

    /// The flow before a settled reply has played, or the deadline has come: the reply goes out.
    fn flow_over(&mut self, turn: Ticket) -> Vec<Effect> {
        let is_held = |running: &Running| running.is(turn) && running.phase == Phase::Holding;
        if !self.running.iter().chain(&self.beside).any(is_held) {
            return Vec::new();
        }
        let Some(mut running) = self.take(turn) else { return Vec::new() };
        let mut effects = running.tell_all(Telling::Reply);
        effects.extend(self.advance());
        effects
    }

    fn settled(&mut self, turn: Ticket, result: SettleResult) -> Vec<Effect> {
        if result == SettleResult::Failed {
            return self.failed(turn);
        }
        if result == SettleResult::Inline
            && let Some(effects) = self.hold(turn)
        {
            return effects;
        }
        let Some(mut running) = self.take(turn) else { return Vec::new() };
        let mut effects = match result {
            SettleResult::Inline if running.is_answered() => vec![Effect::QueueReply(turn)],
            SettleResult::Inline => running.tell_all(Telling::Reply),
            SettleResult::Queued => {
                let mut effects = running.tell_all(Telling::Silent);
                effects.push(Effect::ConfirmQueued(turn));
                effects
            }
            SettleResult::Superseded => {
                // Unless another process runs it, nobody would end it.
                let mut effects = running.tell_all(Telling::Silent);
                effects.push(Effect::Resolve { turn, told: false });
                effects
            }
            SettleResult::Dropped | SettleResult::Failed => running.tell_all(Telling::Silent),
        };
        effects.extend(self.advance());
        effects
    }

    /// Keeps a settled reply back while a flow plays before it (WAIT-2, WAIT-3). `None`: it need not wait.
    fn hold(&mut self, turn: Ticket) -> Option<Vec<Effect>> {
        let mut turns = self.running.iter_mut().chain(&mut self.beside);
        let waits = |running: &&mut Running| {
            running.is(turn) && running.playing == Playing::UntilDeadline && !running.is_answered()
        };
        let running = turns.find(waits)?;
        running.phase = Phase::Holding;
        Some(vec![Effect::Hold(turn)])
    }

    /// Ends the turn in the escalation copy; what it left in the database is resolved behind the request.
    fn failed(&mut self, turn: Ticket) -> Vec<Effect> {
        let Some(mut running) = self.take(turn) else { return Vec::new() };
        let told = !running.is_answered();
        let mut effects = running.tell_all(Telling::Handoff);
        effects.push(Effect::Resolve { turn, told });
        effects.extend(self.advance());
        effects
    }

    /// Takes a turn out, whether it runs in the lane or beside it.
    fn take(&mut self, turn: Ticket) -> Option<Running> {
        if self.running.as_ref().is_some_and(|running| running.is(turn)) {
            return self.running.take();
        }
        let place = self.beside.iter().position(|running| running.is(turn))?;
        let running = self.beside.swap_remove(place);
        if self.beside.is_empty() {
            // Its capacity would stay with an idle conversation (ARC-25).
            self.beside = Vec::new();
        }
        Some(running)
    }
}

impl Waiting {
    fn tell(&mut self, telling: Telling) -> Vec<Effect> {
        if self.answered {
            return Vec::new();
        }
        self.answered = true;
        vec![Effect::Tell(self.ticket, telling)]
    }
}

impl Running {
    /// A turn is named by its first message.
    fn is(&self, turn: Ticket) -> bool {
        self.messages.first().is_some_and(|first| first.ticket == turn)
    }

    fn holds(&self, ticket: Ticket) -> bool {
        self.messages.iter().any(|message| message.ticket == ticket)
    }

    /// The last message's request is the one that gets the reply (DEC-5).
    fn is_live(&self, ticket: Ticket) -> bool {
        self.messages.last().is_some_and(|live| live.ticket == ticket)
    }

    fn is_answered(&self) -> bool {
        self.messages.last().is_none_or(|live| live.answered)
    }

    /// The earlier messages of a burst are recorded now: their requests need not wait any longer.
    fn tell_earlier_ones(&mut self) -> Vec<Effect> {
        let earlier = self.messages.len().saturating_sub(1);
        self.messages.iter_mut().take(earlier).flat_map(|message| message.tell(Telling::Silent)).collect()
    }

    fn tell_all(&mut self, telling: Telling) -> Vec<Effect> {
        let mut effects = self.tell_earlier_ones();
        if let Some(live) = self.messages.last_mut() {
            effects.extend(live.tell(telling));
        }
        effects
    }
}

#[cfg(test)]
#[path = "machine_tests.rs"]
mod tests;
