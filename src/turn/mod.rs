//! One turn, step by step, as plain async functions that need no actor system (ARC-2).
//! Owns: binding, guards, the scripted opening, what a reply becomes, what is written when, what is told, what becomes of a
//! late turn.
//! Never: keeps state between turns, owns a timer, names the winner of the race (the conversation does).

mod acts;
mod answers;
mod binding;
mod budget;
mod context;
mod draft;
mod error;
mod flights;
mod follow_ons;
mod guards;
pub mod late;
mod opening;
mod reports;
mod request;
mod steps;
mod takeover;
mod tokens;
mod way;

pub use acts::{mend_summary, plays_for, tools_of};
pub use answers::{Answers, Delivery};
pub use binding::{ContactToken, NoRandomness, digest};
pub use context::{Snapshot, Snapshots, TurnContext, TurnSettings};
pub use draft::{Decision, Draft, Verdict};
pub use error::TurnError;
pub use follow_ons::complete_follow_ons;
pub use opening::is_opening;
pub use request::{MessageRow, Run, TurnRequest};
pub use steps::{KeepReport, OpenReport, SettleReport, decide, handoff, keep, open, resolve, settle};
pub use takeover::may_be_silent;
pub use tokens::{IssuedToken, TokenWriter};
pub use way::Way;
