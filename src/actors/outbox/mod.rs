//! The outbox worker: claims due replies and delivers them, contact by contact (04 section 6, ARC-47).

mod actor;
mod delivery;
mod ending;
mod token;

pub(super) use ending::{delay, random_share};

pub use actor::OutboxReport;
pub(super) use actor::{Outbox, OutboxWaker, WorkerParts};
