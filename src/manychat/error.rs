//! What can go wrong between us and ManyChat, and what the caller should do about it (04 section 1.3).

use std::fmt;
use std::time::Duration;

use super::said::Said;
use super::wire::Endpoint;
use crate::domain::delivery_error as words;

/// A call that did not succeed. Its text names the endpoint and never the key, the contact or what was sent
/// (API-8, API-49).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ManyChatError {
    /// There is no key, so nothing was sent (API-10): set the variable and restart; what waits is then delivered.
    #[error("{}: set it so that the service can reach contacts", words::NO_TOKEN)]
    NoToken,
    /// The client cannot be built: correct what the text names.
    #[error("the client for ManyChat cannot be built: {problem}")]
    Unusable {
        /// What to correct.
        problem: &'static str,
    },
    /// ManyChat refused (API-42). Try again only when [`ManyChatError::class`] says so.
    #[error("{}{endpoint} with {status}{said}", words::REFUSED)]
    Api {
        /// What was called.
        endpoint: Endpoint,
        /// HTTP status; 200 for an error in a successful response (GAP-DL-11).
        status: u16,
        /// ManyChat's own number, for example 3011.
        code: Option<i64>,
        /// ManyChat's words, cleaned.
        said: Said,
        /// How long ManyChat asks to wait before the next call (GAP-DL-8), at most an hour.
        retry_after: Option<Duration>,
    },
    /// ManyChat answered with success, but not as it promises: it may have acted, so do not try again (API-43,
    /// API-44).
    #[error("{}{endpoint} with {status}, but {problem}", words::ANSWERED)]
    Response {
        /// What was called.
        endpoint: Endpoint,
        /// HTTP status.
        status: u16,
        /// What is wrong with the body.
        problem: &'static str,
    },
    /// There was no answer (API-45 to API-47).
    #[error("{} to {endpoint}: {reason}", words::NO_ANSWER)]
    Connection {
        /// What was called.
        endpoint: Endpoint,
        /// Why.
        reason: LostBy,
        /// False when the call certainly never reached ManyChat.
        sent: bool,
    },
    /// We did not even start the call: try again later.
    #[error("the call to ManyChat was not started: {reason}")]
    NotStarted {
        /// Why.
        reason: Unstarted,
    },
}

/// Why there was no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LostBy {
    /// Nothing within the limit, time in the queue included for calls inside a request (API-45). What was still in the
    /// queue by then is [`Unstarted::OutOfTime`].
    Timeout,
    /// The caller's own, shorter limit ended it (API-46).
    Aborted,
    /// No connection, or it was lost (API-47).
    Network,
}

/// Why a call was not started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unstarted {
    /// Others may take this process for dead and act in its place (ARC-44).
    HeartbeatTooOld,
    /// Too many calls wait already (ARC-23).
    QueueFull,
    /// Whoever asked for it has refused it when its turn came.
    NotWanted,
    /// ManyChat's rate, or a pause that it has asked for, leaves no room while the caller waits (GAP-DL-7, GAP-DL-8).
    Paused,
    /// Its turn did not come while the caller waited (API-3, GAP-DL-7).
    OutOfTime,
    /// The process is ending, or the part that calls ManyChat has just been restarted.
    Stopped,
}

/// What a failure means for another attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Later it may work.
    Retryable,
    /// It would fail again, or might be carried out twice.
    Final,
}

impl ManyChatError {
    /// Whether another attempt makes sense (API-42 to API-48).
    #[must_use]
    pub const fn class(&self) -> Class {
        match self {
            Self::NoToken | Self::NotStarted { .. } => Class::Retryable,
            Self::Api { status, .. } if *status == 429 || *status >= 500 => Class::Retryable,
            Self::Connection { reason: LostBy::Timeout | LostBy::Network, .. } => Class::Retryable,
            Self::Unusable { .. } | Self::Api { .. } | Self::Response { .. } | Self::Connection { .. } => {
                Class::Final
            }
        }
    }

    /// False when ManyChat certainly did not carry out the call; true when nobody can know (ARC-41).
    #[must_use]
    pub const fn may_have_acted(&self) -> bool {
        match self {
            Self::NoToken | Self::Unusable { .. } | Self::NotStarted { .. } => false,
            Self::Api { status, .. } => *status >= 500,
            Self::Response { .. } => true,
            Self::Connection { sent, .. } => *sent,
        }
    }

    /// One word for the kind of error; with [`Self::status`], [`Self::reason`] and [`Self::endpoint`] all that may
    /// be logged of a failed token write (TOK-24).
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::NoToken => "no_token",
            Self::Unusable { .. } => "unusable",
            Self::Api { .. } => "api_error",
            Self::Response { .. } => "response_error",
            Self::Connection { .. } => "connection_error",
            Self::NotStarted { .. } => "not_started",
        }
    }

    /// HTTP status of an API error (API-50, BOX-15).
    #[must_use]
    pub const fn status(&self) -> Option<u16> {
        match self {
            Self::Api { status, .. } => Some(*status),
            _ => None,
        }
    }

    /// ManyChat's own number (API-50).
    #[must_use]
    pub const fn code(&self) -> Option<i64> {
        match self {
            Self::Api { code, .. } => *code,
            _ => None,
        }
    }

    /// Why there was no answer, or no call (API-50).
    #[must_use]
    pub const fn reason(&self) -> Option<&'static str> {
        match self {
            Self::Connection { reason, .. } => Some(reason.as_str()),
            Self::NotStarted { reason } => Some(reason.as_str()),
            _ => None,
        }
    }

    /// Path of what was called (API-50).
    #[must_use]
    pub const fn endpoint(&self) -> Option<&'static str> {
        match self {
            Self::Api { endpoint, .. }
            | Self::Response { endpoint, .. }
            | Self::Connection { endpoint, .. } => Some(endpoint.path()),
            Self::NoToken | Self::Unusable { .. } | Self::NotStarted { .. } => None,
        }
    }

    /// How long ManyChat asks to wait; a lower bound for the next attempt (GAP-DL-8).
    #[must_use]
    pub const fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Api { retry_after, .. } => *retry_after,
            _ => None,
        }
    }
}

impl LostBy {
    /// The word of API-45 to API-47.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Timeout => words::TIMEOUT,
            Self::Aborted => words::ABORTED,
            Self::Network => words::NETWORK,
        }
    }
}

impl Unstarted {
    /// A short phrase.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::HeartbeatTooOld => "this process has not proved for too long that it is alive",
            Self::QueueFull => "too many calls are waiting",
            Self::NotWanted => "it is not wanted any longer",
            Self::Paused => "ManyChat wants fewer calls for longer than this one can wait",
            Self::OutOfTime => "its turn at ManyChat did not come in time",
            Self::Stopped => "the process is stopping or restarting its deliveries",
        }
    }
}

impl fmt::Display for LostBy {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.as_str())
    }
}

impl fmt::Display for Unstarted {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.as_str())
    }
}

#[cfg(test)]
#[path = "error_tests.rs"]
mod tests;
