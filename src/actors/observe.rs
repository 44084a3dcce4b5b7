//! What can be seen of the actors from outside (ARC-24).

use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use serde::Serialize;

use super::conversation::Phase;
use super::manychat::ManyChatReport;
use super::outbox::OutboxReport;
use crate::domain::{ConversationId, millis};
use crate::model::ModelsReport;

/// What one conversation shows of itself; updated by its actor, read by anybody.
pub(super) struct Face {
    state: Mutex<FaceState>,
}

#[derive(Clone, Copy)]
struct FaceState {
    conversation: Option<ConversationId>,
    phase: Phase,
    since: Instant,
    turns: u64,
}

impl Face {
    pub(super) fn new() -> Self {
        let state = FaceState { conversation: None, phase: Phase::Idle, since: Instant::now(), turns: 0 };
        Self { state: Mutex::new(state) }
    }

    /// Notes the phase; the age restarts when it changes.
    pub(super) fn set_phase(&self, phase: Phase) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.phase != phase {
            state.phase = phase;
            state.since = Instant::now();
            state.turns += u64::from(phase == Phase::Opening);
        }
    }

    pub(super) fn set_conversation(&self, id: ConversationId) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).conversation = Some(id);
    }

    /// `None` until the first flight has answered.
    pub(super) fn conversation(&self) -> Option<ConversationId> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).conversation
    }

    /// `None` while the conversation is idle.
    pub(super) fn busy(&self, waiting: usize) -> Option<BusyConversation> {
        let state = *self.state.lock().unwrap_or_else(PoisonError::into_inner);
        (state.phase != Phase::Idle).then(|| BusyConversation {
            conversation: state.conversation.map(|id| id.to_string()),
            phase: phase_name(state.phase),
            phase_age_ms: millis(state.since.elapsed()),
            waiting,
            turns: state.turns,
        })
    }
}

const fn phase_name(phase: Phase) -> &'static str {
    match phase {
        Phase::Idle => "idle",
        Phase::Gathering => "gathering",
        Phase::Opening => "opening",
        Phase::WaitingForLane => "waiting_for_lane",
        Phase::Deciding => "deciding",
        Phase::Settling => "settling",
        Phase::Holding => "holding",
    }
}

/// One busy conversation, by its random id; never a subscriber id.
#[derive(Debug, Serialize)]
pub struct BusyConversation {
    /// Row id; `None` until the first flight has answered.
    pub conversation: Option<String>,
    /// What the running turn is doing.
    pub phase: &'static str,
    /// For how long, in milliseconds.
    pub phase_age_ms: u64,
    /// Messages behind the running turn.
    pub waiting: usize,
    /// Turns this actor has started.
    pub turns: u64,
}

/// The answer of `GET /admin/actors`.
#[derive(Debug, Default, Serialize)]
pub struct ActorsReport {
    /// This process.
    pub process: String,
    /// Conversation actors alive.
    pub conversations: usize,
    /// How many of them run a turn.
    pub busy: usize,
    /// Messages accepted and not answered yet.
    pub open_messages: usize,
    /// Conversation actors started since the process started.
    pub started: u64,
    /// How many of them left because they were idle.
    pub passivated: u64,
    /// How many failed and were replaced.
    pub failed: u64,
    /// Tasks of the process that panicked and were started again.
    pub restarted_tasks: u64,
    /// Replies handed over and not confirmed yet.
    pub unconfirmed_replies: u64,
    /// Database connections open.
    pub database_connections: usize,
    /// How many of them are in use.
    pub database_connections_in_use: usize,
    /// Milliseconds since the last confirmed heartbeat was sent; `None` before the first.
    pub heartbeat_age_ms: Option<u64>,
    /// Calls to ManyChat; `None` when their actor is being replaced.
    pub manychat: Option<ManyChatReport>,
    /// Calls to models, and the state of each model's breaker (DEC-27).
    pub models: ModelsReport,
    /// The outbox worker; `None` where there is none.
    pub outbox: Option<OutboxReport>,
    /// Milliseconds by which the shared runtime is late; above 1000 new requests are refused (SHED-1).
    pub scheduling_lag_ms: u64,
    /// What became of the calls of tools since the process began, by tool (LIM-13).
    pub tools: Vec<crate::tools::Count>,
    /// The busy conversations that have been in their phase longest, at most 100.
    pub oldest_busy: Vec<BusyConversation>,
}
