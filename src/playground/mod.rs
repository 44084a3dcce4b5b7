//! The playground: a page where a person chats with the agent as a contact would, offline (DEC-15, DEC-16).
//! Owns: the page and its routes, who may reach them, the board of contacts that the page shows.
//! Never: runs in production, answers anybody but this machine, shows a secret or a token, changes how turns run.

mod access;
mod board;
mod chat;
mod events;
mod key;
mod names;
mod page;
mod routes;

use std::sync::Arc;

use tokio::sync::mpsc::UnboundedReceiver;

pub use chat::{Playground, PlaygroundError, Setup};
pub use key::address;
pub use routes::{PATH, routes};

use crate::manychat::{DevelopmentAccount, Happening};
use crate::model::MockSwitch;

/// What the playground can change about the service that it belongs to.
pub struct Controls {
    /// The mock model, when it is the one that answers.
    pub mock: Option<MockSwitch>,
    /// The account, when there is no key for ManyChat.
    pub account: Option<Account>,
}

/// The development account with what it tells.
pub struct Account {
    /// The account.
    pub account: Arc<DevelopmentAccount>,
    /// What happens in it.
    pub happenings: UnboundedReceiver<Happening>,
}
