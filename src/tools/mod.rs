//! What the agent can do besides answering: what a turn is offered, what it stages and sends, and the record of it.
//! Owns: definitions, staging, sending, reading, performing, notes, the shape of `turns.actions`.
//! Never: decides what a contact reads, lets a model name a contact or a name of ManyChat, tries an action twice.

mod action;
mod perform;
mod reach;
mod record;
mod turn_tools;

pub use action::{Action, FlowOrigin};
pub use perform::{Performer, Stopped, TurnPlace};
pub use reach::{ActionNumber, Reach, ReadFailure};
pub use record::{Entry, Status};
pub use turn_tools::{
    Call, CallResult, ContactView, Ending, Finished, FlowMode, Known, Offer, StagedAction, StepSummary,
    ToolDefinition, TurnTools,
};
