//! The words between the conversation machine and its shell: what happens, and what is to be done (ARC-19).

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

/// What happened.
#[derive(Clone, Debug)]
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
        /// True when it stands in the inbox already, as a successor of a failed actor finds it.
        stored: bool,
    },
    /// Nothing has arrived for the quiet time.
    QuietOver,
    /// The deadline of a request passed.
    DeadlinePassed(Ticket),
    /// Writing a message to the inbox ended.
    Stored(Ticket, StoreResult),
    /// The first flight of a turn ended.
    Opened(Ticket, OpenResult),
    /// It is time to ask for the lane again.
    LaneTimerFired,
    /// The reply is decided: guard, opening, model or its abort.
    Decided(Ticket, Playing),
    /// The second flight ended.
    Settled(Ticket, SettleResult),
    /// The flow that a settled reply waits for has played.
    FlowOver(Ticket),
    /// The turn's own code failed.
    Panicked(Ticket),
}

/// Whether a flow of the turn still plays when its reply is decided (WAIT-2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Playing {
    /// None does.
    No,
    /// One does, and ends at or before the deadline of the request that gets the reply.
    UntilDeadline,
    /// One does, and ends behind it.
    Longer,
}

/// What became of a message that has to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreResult {
    /// It stands in the inbox.
    Kept,
    /// It proves nothing: it runs now, beside the lane (LANE-3).
    Beside,
    /// There is no conversation to keep it with.
    NoConversation,
    /// The database failed or did not answer in time.
    Failed,
}

/// How Open ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OpenResult {
    /// The turn runs and its messages are recorded.
    Started {
        /// How many of them it answers, from the first on. The others wait behind another process's message.
        taken: usize,
        /// It runs beside the lane.
        beside: bool,
    },
    /// The lane is held, or another process is ahead: all messages stand in the inbox, but for those in `gone`, which
    /// another process has taken over.
    Waits {
        /// Messages that are no longer ours to answer.
        gone: Vec<Ticket>,
    },
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
    /// Somebody else has taken the lane.
    Superseded,
    /// The turn belongs to those who recover what this process left in a silence.
    Dropped,
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

/// How the race of a decided reply against its request's deadline has ended (RACE-4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Race {
    /// The reply is in time.
    Won,
    /// The reply is in time, but a flow plays past the deadline: it waits for that in the outbox (WAIT-2).
    WonBehindFlow,
    /// Its request is answered already.
    Lost,
}

/// What the shell has to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Write this message to the inbox (ARC-45a). One at a time, so that the rows keep the order of arrival.
    Store(Ticket),
    /// Wake me with [`Event::QuietOver`] after the quiet time; an earlier such timer no longer counts. The message
    /// is the first of the burst: the time is cut to half of what is left of its deadline (DEC-35).
    WaitForQuiet(Ticket),
    /// Take these messages and run Open for them, in order.
    Open(Vec<Ticket>),
    /// Wake me with [`Event::LaneTimerFired`] in a moment, or when the lane is heard to be free.
    WaitForLane,
    /// Decide the reply: opening, guards, model.
    Decide(Ticket),
    /// Record the decided reply.
    Settle(Ticket, Race),
    /// The reply is settled and waits for a flow: wake me with [`Event::FlowOver`] when that has played (WAIT-2).
    Hold(Ticket),
    /// Answer a request.
    Tell(Ticket, Telling),
    /// Another process answers this message: forget it.
    Forget(Ticket),
    /// Put the settled reply into the outbox: its request was answered while it was being settled.
    QueueReply(Ticket),
    /// The reply is in the outbox: it need not be owed any longer.
    ConfirmQueued(Ticket),
    /// Find out what became of the turn and end it as a handoff. `told`: the contact has the escalation copy.
    Resolve {
        /// The turn, or a message that never became one.
        turn: Ticket,
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
    /// The reply is settled, and a flow plays before it.
    Holding,
}
