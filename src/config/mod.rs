//! Environment variables and the four tenant files, checked whole before anything starts (05).
//! Owns: parsing, defaults, every check and cross-check, the demo tenant's examples, reload.
//! Never: decides what a turn does, opens a socket or a database, prints a secret.

mod active;
mod catalog;
/// The demo tenant's files and how a fresh checkout gets them.
pub mod demo;
mod env_file;
mod env_hints;
mod environment;
mod eval_settings;
mod files;
#[cfg(test)]
mod mutation_tests;
mod plugins;
mod pricing;
mod proxies;
mod reasoning;
mod rules;
mod settings;
mod tenant;
mod tenant_file;
#[cfg(test)]
pub(crate) mod test_dir;
#[cfg(test)]
mod test_files;
#[cfg(test)]
mod test_vars;
mod tools;
mod variables;
mod warning;

pub use active::ActiveTenant;
pub use catalog::{Catalog, Faq, Offering, PaymentOption, Price};
pub use env_file::{Environment, process_environment};
pub use eval_settings::EvalSettings;
pub use files::Fault;
pub use plugins::{PluginsError, PluginsProblem, check_plugins};
pub use proxies::TrustedProxies;
pub use reasoning::{base_name, openai_reasons, openai_refuses_temperature};
pub use rules::{Budget, Burst, HandoffRule, Learning, Messages, OpeningTrigger, RateLimit, Rules, Takeover};
pub use settings::{
    DatabaseUrl, LogLevel, ManyChatSettings, ModelName, ModelNameError, ModelSettings, NodeEnv,
    ReasoningEffort, Settings, SharedSecrets,
};
pub use tenant::{FileHash, ReservedNames, Tenant, TenantError, TenantProblem};
pub(crate) use tenant_file::read as read_regular;
pub use tools::{
    CARRIES_OUT_FOLLOW_UPS, Delay, Event, FieldTool, FlowRole, FlowTool, NoteTool, Nudge, Readable,
    ReadableField, SENDS_OPENING, TagTool, Tools, WindowClosing,
};
pub use variables::{AddressCheck, SettingsError, VariableFault};
pub use warning::Warning;
