//! The conversation as a pure state machine: events in, effects out, no actor and no clock (ARC-19).
//!
//! It decides three things: which waiting messages the next turn answers, who wins the race against the
//! deadline (named once, before the reply is settled), and what each waiting request is told.

use std::collections::VecDeque;

/// One request of this contact, numbered in order of arrival within the process.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Ticket(u64);

impl Ticket {
    /// The ticket with this number.
    #[must_use]
    pub const fn new(number: u64) -> Self {
        Self(number)
    }
}

/// Messages with equal keys may be answered together by one turn (DEC-5).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BurstKey(u64);

impl BurstKey {
    /// A key from a digest of what must be equal.
    #[must_use]
    pub const fn new(digest: u64) -> Self {
        Self(digest)
    }
}

/// A message that waits for a turn.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    ticket: Ticket,
    burst: Option<BurstKey>,
    answered: bool,
    quiet: bool,
}

/// What happened.
#[derive(Clone, Copy, Debug)]
pub enum Event {
    /// A message came in. `answered`: its request has been answered silently already.
    Arrived {
        /// Its ticket.
        ticket: Ticket,
        /// Set when it may be merged with its neighbours.
        burst: Option<BurstKey>,
        /// True for a message that a successor of a failed actor takes over late.
        answered: bool,
        /// True when a moment of quiet is waited for before its turn starts (`rules.burst.quietMs`).
        quiet: bool,
    },
    /// Nothing has arrived for the quiet time.
    QuietOver,
    /// The deadline of a request passed.
    DeadlinePassed(Ticket),
    /// The first flight ended.
    Opened(OpenResult),
    /// It is time to ask for the lane again.
    LaneTimerFired,
    /// The reply is decided: guard, opening, model or its abort.
    Decided,
    /// The second flight ended.
    Settled(SettleResult),
    /// The turn's own code failed.
    Panicked,
}

/// How Open ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenResult {
    /// The lane is ours and the messages are recorded.
    Started,
    /// Another process holds the lane.
    LaneHeld,
    /// The database failed or did not answer in time.
    Failed,
}

/// How Settle ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SettleResult {
    /// Recorded; the reply may go inline.
    Inline,
    /// Recorded; the reply is in the outbox.
    Queued,
    /// Somebody else ended the turn.
    Superseded,
    /// The database failed or did not answer in time.
    Failed,
}

/// What a request is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Telling {
    /// A block without messages.
    Silent,
    /// The holding line: the model is still at work (RACE-5).
    HoldingLine,
    /// The escalation copy.
    Handoff,
    /// The settled reply.
    Reply,
}

/// What the shell has to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Wake me with [`Event::QuietOver`] after the quiet time; an earlier such timer no longer counts. The message
    /// is the first of the burst: the time is cut to half of what is left of its deadline (DEC-35).
    WaitForQuiet(Ticket),
    /// Take these messages and run Open for them, in order.
    Open(Vec<Ticket>),
    /// Run Open again for the same messages.
    Reopen,
    /// Wake me with [`Event::LaneTimerFired`] in a moment.
    WaitForLane,
    /// Decide the reply: opening, guards, model.
    Decide,
    /// Record the decided reply. `deferred`: its request is answered already.
    Settle {
        /// The race is lost.
        deferred: bool,
    },
    /// Answer a request.
    Tell(Ticket, Telling),
    /// Put the settled reply into the outbox: its request was answered while it was being settled.
    QueueReply,
    /// The reply is in the outbox: it need not be owed any longer.
    ConfirmQueued,
    /// Find out what became of the turn and end it as a handoff. `told`: the contact has the escalation copy.
    Resolve {
        /// False when the escalation copy must still be sent.
        told: bool,
    },
}

/// Where the running turn stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// No turn runs.
    Idle,
    /// A burst is being gathered.
    Gathering,
    /// The first flight is under way.
    Opening,
    /// Another process holds the contact's lane.
    WaitingForLane,
    /// Guards or the model are at work.
    Deciding,
    /// The second flight is under way.
    Settling,
}

#[derive(Debug)]
struct Running {
    messages: Vec<Waiting>,
    phase: Phase,
    /// The reply must go through the outbox. Fixed when the settling begins.
    lost: bool,
}

/// One contact's turns in this process.
#[derive(Debug, Default)]
pub struct Machine {
    queue: VecDeque<Waiting>,
    running: Option<Running>,
}

impl Machine {
    /// Takes an event and returns what has to be done, in order.
    #[must_use]
    pub fn on(&mut self, event: Event) -> Vec<Effect> {
        match event {
            Event::Arrived { ticket, burst, answered, quiet } => {
                self.arrived(Waiting { ticket, burst, answered, quiet })
            }
            Event::QuietOver => self.open_gathered(),
            Event::DeadlinePassed(ticket) => self.deadline_passed(ticket),
            Event::Opened(result) => self.opened(result),
            Event::LaneTimerFired => self.lane_timer_fired(),
            Event::Decided => self.decided(),
            Event::Settled(result) => self.settled(result),
            Event::Panicked => self.failed(),
        }
    }

    /// True when the actor may go: no turn runs and no message waits.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.running.is_none() && self.queue.is_empty()
    }

    /// Where the running turn stands.
    #[must_use]
    pub fn phase(&self) -> Phase {
        self.running.as_ref().map_or(Phase::Idle, |running| running.phase)
    }

    fn arrived(&mut self, message: Waiting) -> Vec<Effect> {
        self.queue.push_back(message);
        match self.phase() {
            Phase::Idle => self.start_next(),
            Phase::Gathering => self.gather_or_open(),
            _ => Vec::new(),
        }
    }

    /// Starts with the oldest waiting message: at once, or after a moment of quiet.
    fn start_next(&mut self) -> Vec<Effect> {
        let Some(first) = self.queue.pop_front() else { return Vec::new() };
        self.running = Some(Running { messages: vec![first], phase: Phase::Gathering, lost: false });
        self.gather_or_open()
    }

    /// Takes in what waits right behind and belongs to the same burst. Only the end of the queue leaves anything to
    /// wait for.
    fn gather_or_open(&mut self) -> Vec<Effect> {
        let Some(running) = self.running.as_mut() else { return Vec::new() };
        let Some(first) = running.messages.first().copied() else { return Vec::new() };
        while let Some(next) =
            self.queue.pop_front_if(|next| first.burst.is_some() && next.burst == first.burst)
        {
            running.messages.push(next);
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
        let Some(running) = self.running.as_mut() else { return Vec::new() };
        let telling = match running.phase {
            Phase::Deciding | Phase::Settling if running.is_live(ticket) => Telling::HoldingLine,
            _ => Telling::Silent,
        };
        let found = running.messages.iter_mut().find(|message| message.ticket == ticket);
        found.map(|message| message.tell(telling)).unwrap_or_default()
    }

    fn opened(&mut self, result: OpenResult) -> Vec<Effect> {
        let Some(running) = self.running.as_mut() else { return Vec::new() };
        match result {
            OpenResult::Started => {
                running.phase = Phase::Deciding;
                let mut effects = running.tell_earlier_ones();
                effects.push(Effect::Decide);
                effects
            }
            OpenResult::LaneHeld => {
                running.phase = Phase::WaitingForLane;
                vec![Effect::WaitForLane]
            }
            OpenResult::Failed => self.failed(),
        }
    }

    fn lane_timer_fired(&mut self) -> Vec<Effect> {
        match self.running.as_mut() {
            Some(running) if running.phase == Phase::WaitingForLane => {
                running.phase = Phase::Opening;
                vec![Effect::Reopen]
            }
            _ => Vec::new(),
        }
    }

    /// Names the winner of the race, once (RACE-4, RACE-5).
    fn decided(&mut self) -> Vec<Effect> {
        let Some(running) = self.running.as_mut() else { return Vec::new() };
        running.phase = Phase::Settling;
        running.lost = running.is_answered();
        vec![Effect::Settle { deferred: running.lost }]
    }

    fn settled(&mut self, result: SettleResult) -> Vec<Effect> {
        if result == SettleResult::Failed {
            return self.failed();
        }
        let Some(mut running) = self.running.take() else { return Vec::new() };
        let mut effects = match result {
            SettleResult::Inline if running.is_answered() => vec![Effect::QueueReply],
            SettleResult::Inline => running.tell_all(Telling::Reply),
            SettleResult::Queued => {
                let mut effects = running.tell_all(Telling::Silent);
                effects.push(Effect::ConfirmQueued);
                effects
            }
            SettleResult::Superseded | SettleResult::Failed => running.tell_all(Telling::Silent),
        };
        effects.extend(self.start_next());
        effects
    }

    /// Ends the turn in the escalation copy; what it left in the database is resolved behind the request.
    fn failed(&mut self) -> Vec<Effect> {
        let Some(mut running) = self.running.take() else { return Vec::new() };
        let told = !running.is_answered();
        let mut effects = running.tell_all(Telling::Handoff);
        effects.push(Effect::Resolve { told });
        effects.extend(self.start_next());
        effects
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
