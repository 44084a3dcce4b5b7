//! Ids, vocabularies and newtypes that give values their meaning (ARC-4).
//! Owns: every type that two rooms must agree on and that needs no input or output.
//! Never: reads, writes, logs, or knows a database, a channel or a model.

mod clock;
pub mod delivery_error;
mod ids;
mod money;
mod text;
mod visible;
mod vocabulary;

pub use clock::{Clock, Deadline, SystemClock, TestClock, millis};
pub use ids::{AgentRowId, ConversationId, Fence, MessageId, ProcessId, SubscriberId, TenantId, TurnId};
pub use money::{MinorUnits, Usd, decimals_of};
pub use text::{ContactText, Redacted};
pub use visible::{visible, visible_lines};
pub use vocabulary::{
    Binding, ChannelName, EscalationReason, Intent, MediaKind, Outcome, Provider, Role, Stage, UnknownName,
};
