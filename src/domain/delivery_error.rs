//! How the errors begin that a delivery stores in `outbox.last_error`: whoever writes one and whoever tells its class by its
//! words has them from here. Stored rows keep them: a word that changes makes older rows unknown.

/// ManyChat refused the call (API-42); the endpoint follows.
pub const REFUSED: &str = "ManyChat refused ";
/// ManyChat answered, but not as it promises (API-43, API-44); the endpoint follows.
pub const ANSWERED: &str = "ManyChat answered ";
/// There was no answer (API-45 to API-47); the error ends with why: [`TIMEOUT`], [`ABORTED`] or [`NETWORK`].
pub const NO_ANSWER: &str = "no answer from ManyChat";
/// There is no key (API-10).
pub const NO_TOKEN: &str = "MANYCHAT_API_TOKEN is not set";
/// A contact token could not be written; with a status behind it where there is one (BOX-15).
pub const TOKEN_WRITE_FAILED: &str = "contact token write failed";
/// Why a reply, or what is left of it, is given up untried (ARC-46).
pub const UNREACHABLE: &str = "not sent: the contact wrote more than 24 hours ago";

/// Nothing within the limit (API-45).
pub const TIMEOUT: &str = "timeout";
/// The caller's own limit (API-46).
pub const ABORTED: &str = "aborted";
/// No connection, or it was lost (API-47).
pub const NETWORK: &str = "network";
