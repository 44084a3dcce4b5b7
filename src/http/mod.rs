//! The HTTP door: routes, authentication, the request schema, what a request is answered with (03 sections 1 to 6, 9).
//! Owns: the order of checks, statuses and error bodies, the body that tells when it was handed over.
//! Never: decides a reply, keeps state of a contact, answers anything that names an internal error.

mod admin;
mod auth;
mod body;
mod client_address;
mod connections;
mod errors;
mod gate;
mod hardening;
mod health;
mod message;
mod openapi;
mod overload;
mod panics;
mod rate_limit;
mod refused;
pub mod request;
mod server;

pub use auth::Secrets;
pub use server::{Door, Port, Server, ServerError, start, start_health};

pub use crate::channel::MESSAGE_PATH;
