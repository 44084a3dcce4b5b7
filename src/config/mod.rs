//! Environment variables and the four tenant files, checked whole before anything starts (05).
//! Owns: parsing, defaults, every check and cross-check, the demo tenant's examples, reload.
//! Never: decides what a turn does, opens a socket or a database, prints a secret.

mod catalog;
mod rules;
mod settings;
mod tenant;
mod tools;

pub use catalog::{Catalog, Faq, Offering, PaymentOption, Price};
pub use rules::{Budget, Burst, HandoffRule, Learning, Messages, OpeningTrigger, RateLimit, Rules, Takeover};
pub use settings::{
    DatabaseUrl, LogLevel, ManyChatSettings, ModelName, ModelSettings, NodeEnv, ReasoningEffort, Settings,
    SharedSecrets,
};
pub use tenant::{FileHash, Tenant};
pub use tools::{
    Delay, Event, FieldTool, FlowRole, FlowTool, NoteTool, Nudge, Readable, ReadableField, TagTool, Tools,
};
