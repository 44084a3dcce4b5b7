//! Everything that lives: the directory, conversations, ManyChat, the supervisor, the confirmer, the heartbeat.
//! Owns: mailboxes, timers, the runtime handles, what is observed of it all (ARC-19 to ARC-25).
//! Never: holds a rule of a turn (those are in `turn`), writes SQL, keeps truth that the database does not have.

mod acting;
mod answer;
mod confirmer;
mod conversation;
mod directory;
mod handoff_tags;
mod heartbeat;
mod late;
mod manychat;
mod observe;
mod outbox;
mod places;
mod pressure;
mod recoverer;
mod resolver;
mod successor;
mod supervised;
mod supervisor;
mod system;
mod waking;

pub use answer::{Answer, HandoffReceipt, Outgoing, Owed, OwedReply};
pub use confirmer::Confirmer;
pub use directory::{Accepted, Directory, IsGone, Limits, Message};
pub use heartbeat::Heartbeat;
pub use manychat::{Delivery, ManyChat, ManyChatReport};
pub use observe::{ActorsReport, BusyConversation};
pub use pressure::{Overload, Pressure};
pub use supervisor::{Drained, Supervisor};
pub use system::{OutboxSettings, Services, System, Wiring};
