//! One contact's conversation: the pure machine, its actor shell, its mailbox and the steps it runs.

mod actor;
mod current;
mod events;
mod machine;
mod mailbox;
mod steps;

pub(super) use actor::{ConversationActor, LaneFree, Leave, Poke, Shared};
pub(super) use events::Phase;
pub(super) use mailbox::Mailbox;
pub(super) use steps::TurnSteps;
#[cfg(test)]
pub(super) use steps::{Copy, Steps};
