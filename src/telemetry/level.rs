//! The numeric levels of a log line.

use tracing::{Level, Metadata};

/// Numeric level of a line and threshold of the log (LOG-1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    /// 10
    Trace = 10,
    /// 20
    Debug = 20,
    /// 30, the default threshold.
    Info = 30,
    /// 40
    Warn = 40,
    /// 50
    Error = 50,
    /// 60: an `error!` event with the field `fatal = true`.
    Fatal = 60,
}

impl LogLevel {
    /// The level with this number; a number between two levels counts as the lower, so that a threshold never
    /// hides more than it was meant to.
    #[cfg(test)]
    pub(super) const fn from_number(number: u8) -> Self {
        match number {
            60.. => Self::Fatal,
            50.. => Self::Error,
            40.. => Self::Warn,
            30.. => Self::Info,
            20.. => Self::Debug,
            _ => Self::Trace,
        }
    }

    /// The number that stands in the line.
    #[must_use]
    pub const fn number(self) -> u8 {
        self as u8
    }

    /// The level of an event or a span. What the HTTP library calls an error is a stranger's malformed request, of
    /// which there can be any number: it counts as `debug`.
    pub(super) fn of(metadata: &Metadata<'_>) -> Self {
        if root_of(metadata.target()) == HTTP_LIBRARY {
            return Self::Debug.min(Self::of_tracing(*metadata.level()));
        }
        Self::of_tracing(*metadata.level())
    }

    const fn of_tracing(level: Level) -> Self {
        match level {
            Level::ERROR => Self::Error,
            Level::WARN => Self::Warn,
            Level::INFO => Self::Info,
            Level::DEBUG => Self::Debug,
            Level::TRACE => Self::Trace,
        }
    }

    pub(super) const fn as_tracing(self) -> Level {
        match self {
            Self::Fatal | Self::Error => Level::ERROR,
            Self::Warn => Level::WARN,
            Self::Info => Level::INFO,
            Self::Debug => Level::DEBUG,
            Self::Trace => Level::TRACE,
        }
    }
}

/// Name of the field that raises an `error!` event to [`LogLevel::Fatal`].
pub(super) const FATAL_FIELD: &str = "fatal";

/// Reads requests from the network, and complains about them.
const HTTP_LIBRARY: &str = "actix_http";

/// Crates that see no words of a contact, so that their messages may be shown, cleaned by shape: actors, sockets, TLS,
/// HTTP, the database driver without its statements. `library` is the bridge of the `log` facade, which judges by
/// itself.
const SPEAKING: [&str; 17] = [
    "actix",
    "actix_http",
    "actix_rt",
    "actix_server",
    "actix_web",
    "deadpool",
    "deadpool_postgres",
    "h2",
    "hyper",
    "hyper_util",
    "library",
    "mio",
    "reqwest",
    "rustls",
    "rustls_native_certs",
    "tokio",
    "tokio_postgres",
];

/// True when the message of an event with this target may be shown.
pub(super) fn may_speak(target: &str) -> bool {
    is_ours(target) || SPEAKING.contains(&root_of(target))
}

/// Crates of ours follow the threshold; all others stay at `warn` whatever it is, because at finer levels they
/// print requests, headers and statements (PRIN-C5). The HTTP library's complaints count as `debug`.
pub(super) fn admits(threshold: LogLevel, metadata: &Metadata<'_>) -> bool {
    let level = LogLevel::of(metadata);
    if metadata.is_span() {
        // A span carries fields, such as the conversation, to lines of every level.
        return is_ours(metadata.target()) && level >= threshold.min(LogLevel::Info);
    }
    let can_be_fatal = level == LogLevel::Error && metadata.fields().field(FATAL_FIELD).is_some();
    let reached = if can_be_fatal { LogLevel::Fatal } else { level };
    if is_ours(metadata.target()) {
        return reached >= threshold;
    }
    reached >= threshold && LogLevel::of_tracing(*metadata.level()) >= LogLevel::Warn
}

/// True for the library and the two binaries.
fn is_ours(target: &str) -> bool {
    matches!(root_of(target), "manychat_agent" | "agent" | "agent_eval")
}

/// The crate of a target such as `crate::module`.
fn root_of(target: &str) -> &str {
    target.split("::").next().unwrap_or(target)
}
