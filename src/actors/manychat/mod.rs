//! The actor that calls ManyChat: the fair rate, the order and pacing per contact, and what can be seen of it.

mod actor;
mod bucket;
mod lanes;
mod rate;
mod report;
mod service;
mod shared_rate;

pub use report::ManyChatReport;
pub(super) use service::Parts;
pub use service::{Delivery, ManyChat};
pub(super) use shared_rate::DatabaseRate;
