//! ManyChat's public API: what may be asked of it, how that looks on the wire, what its answers mean.
//! Owns: the client and its options, wire types, errors, the request enum and the handle that the actor serves.
//! Never: retries, paces or counts calls (the actor does), reads the database, lets a contact's profile out.

mod account;
mod client;
mod development;
mod error;
mod handle;
mod plain_words;
mod port;
mod request;
mod said;
mod wire;

pub use account::{AccountError, AccountList, account_names};
pub use client::{CALL_LIMIT, client};
pub use development::{
    ContactView, DEVELOPMENT_CONTACT, DEVELOPMENT_REPLY_FLOW, DevelopmentAccount, Happened, Happening,
    Residents, Trouble,
};
pub use error::{Class, LostBy, ManyChatError, Unstarted};
#[cfg(test)]
pub use handle::channel;
pub use handle::{AnswerSlot, Gate, Handle, Letter, Order, OrderId, Orders, channel_of};
pub use port::DeliveryClient;
pub use request::{Action, Answer, Call, Command, ContactInfo, Names, Priority, Request};
pub use said::Said;
pub use wire::Endpoint;
