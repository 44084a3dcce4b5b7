//! The ManyChat agent: answers a business's customers with a language model and calls a person instead of
//! guessing. One line a room; calls go down this list, never up (`specs/architecture.md`, ARC-1).

/// Everything that lives: directory, conversations, supervisor, confirmer.
pub mod actors;
/// The channel port: inbound message, capabilities, formatting, rendering.
pub mod channel;
/// Commands of the `agent` binary, one file a command.
pub mod cli;
/// Environment and tenant files.
pub mod config;
/// Ids, vocabularies and newtypes; no input or output.
pub mod domain;
/// Evaluations: suites of conversations through the production code.
pub mod evals;
/// The position of a sale as pure rules: stage, intent, offering.
pub mod funnel;
/// The HTTP door: routes, authentication, request schema.
pub mod http;
/// ManyChat's API: client, wire, errors, the handle its actor serves.
pub mod manychat;
/// The model behind its port: prompt, fence, guardrails, runner, mock.
pub mod model;
/// The development page: chat with the agent as a contact would, offline.
pub mod playground;
/// SQL and everything else that talks to Postgres.
pub mod store;
/// Logs and redaction.
pub mod telemetry;
/// What the agent can do besides answering: definitions, staging, sending, performing, records.
pub mod tools;
/// One turn, step by step, as plain async functions.
pub mod turn;
