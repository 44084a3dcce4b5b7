//! What the agent can do besides answering: what a turn is offered, what it stages and sends, and the record of it.
//! Owns: definitions, staging, sending, reading, performing, notes, the shape of `turns.actions`.
//! Never: decides what a contact reads, lets a model name a contact or a name of ManyChat, tries an action twice.

mod action;
mod arguments;
mod contact_reach;
mod counters;
mod decide;
mod definitions;
mod failure;
mod finish;
mod follow_ons;
mod known;
mod ledger;
mod limits;
mod marks;
mod menu;
mod note;
mod perform;
mod reach;
mod record;
mod sending;
mod turn_tools;
mod view;

#[cfg(test)]
mod test_support;

pub use action::{Action, FlowOrigin};
pub use contact_reach::TurnPlace;
pub use counters::{COUNTERS, Count, Counters};
pub use definitions::{SENTENCES as DEFINITION_SENTENCES, ToolDefinition};
pub use finish::{Ending, Finished, StagedAction};
pub use known::{Known, Pending};
pub use limits::{IN_FLIGHT_LIMIT, MOST_ACTIONS, MOST_READS, READ_LIMIT};
pub use marks::Marks;
pub use perform::{Performer, Progress, Stopped};
pub use reach::{ActionNumber, Reach, ReadFailure};
pub use record::{Entry, OUTCOME_UNKNOWN, RecordError, Status, end_staged, resolve, staged_count};
pub use turn_tools::{Call, CallResult, FlowMode, Offer, StepSummary, TurnTools};
pub use view::ContactView;
