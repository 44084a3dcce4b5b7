//! The port of delivery: whoever can carry out one call for one contact.

use futures_util::future::BoxFuture;

use super::error::ManyChatError;
use super::request::{Answer, Call};

/// Carries out single calls: ManyChat itself, or an account that stands in for it (ARC-3). Implementations neither
/// retry nor wait for a rate: that is the caller's (API-5).
pub trait DeliveryClient: Send + Sync + 'static {
    /// One call, answered within [`super::CALL_LIMIT`]. Dropping the future abandons the answer; whether the call
    /// was carried out is then unknown. Must be polled on the shared runtime.
    fn call(&self, call: Call) -> BoxFuture<'_, Result<Answer, ManyChatError>>;
}
