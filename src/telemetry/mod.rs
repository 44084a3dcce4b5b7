//! Logs: one JSON object a line on standard output, without personal data and without secrets.
//! Owns: the subscriber and its layer, the thread that writes, the levels, the redaction shapes, the panic hook.
//! Never: knows what a turn or a channel is, but for the names of the places where a test build ends itself
//! (`crash_points`); decides what is worth logging.
//!
//! How to log from any room:
//!
//! ```text
//! tracing::info!(conversation = %id, outcome = %outcome, escalated, "turn complete");
//! tracing::error!(err = &error as &dyn std::error::Error, "failed to enqueue deferred reply");
//! tracing::error!(fatal = true, "no database");                       // level 60
//! tracing::info!(json.interventions = %Json(&interventions), "guardrails intervened");
//! ```
//!
//! - The message becomes `msg`. Numbers and booleans stay what they are, everything else is text.
//! - The contact is named by the field `conversation`, the row's id, and by nothing else (LOG-2).
//! - Texts are cleaned by shape (PII-3), except UUIDs, times and a few fields that name parts of the program
//!   (PII-8). Some keys are dropped whatever they hold (PII-1).
//! - A field named `json.<name>` holds JSON as text and becomes the member `<name>` with that value, cleaned at
//!   every depth; [`Json`] writes any serialisable value in that form.
//! - Fields of the spans around an event are merged into its line; the event's own field wins.
//! - Logging never waits: lines are cleaned, then queued within bounds, and a thread writes them. [`flush`] before a
//!   process ends.

pub mod crash_points;
mod facade;
mod fields;
mod figures;
mod layer;
mod level;
mod once_per_day;
mod panics;
mod redaction;
mod scrubber;
mod seldom;
mod writer;

use std::fmt;
use std::io::Write;
use std::sync::Mutex;

use tracing_subscriber::layer::SubscriberExt;

pub use level::LogLevel;
pub use once_per_day::OncePerDay;
pub use panics::install_hook as install_panic_hook;
#[cfg(test)]
pub(crate) use panics::testing as panic_hook;
pub use redaction::{Marks, is_removed_key, scrub_text, scrub_with};
pub use seldom::Seldom;
pub use writer::flush;

use layer::JsonLayer;
use scrubber::Scrubber;

/// Why the log could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum TelemetryError {
    /// A subscriber is already set; call [`init`] once, before anything is logged.
    #[error("the log is already set up: call telemetry::init once per process")]
    AlreadySet,
    /// The secrets are too many or too long to be searched for; shorten `MANYCHAT_SHARED_SECRET`.
    #[error("the secrets of the environment cannot be searched for: shorten MANYCHAT_SHARED_SECRET")]
    Secrets,
    /// The thread that writes the log could not be started: the system has too many threads or no standard output.
    #[error("the log cannot be written: {0}; check the limits of this system on threads and open files")]
    Writer(std::io::Error),
}

/// Sends every event of the process through the redacting layer to standard output, every panic too, and what crates
/// report through the `log` facade.
/// `secrets` are the real values of the environment's secrets; wherever one occurs, `[secret]` is written.
///
/// # Errors
/// When called twice, when the secrets cannot be searched for, or when no thread can be had.
pub fn init(level: LogLevel, secrets: Vec<String>) -> Result<(), TelemetryError> {
    let scrubber = Scrubber::new(&secrets).map_err(|_| TelemetryError::Secrets)?;
    let queue = writer::start(layer::lost_line).map_err(TelemetryError::Writer)?;
    let subscriber = tracing_subscriber::registry().with(JsonLayer::new(level, scrubber, queue));
    tracing::subscriber::set_global_default(subscriber).map_err(|_| TelemetryError::AlreadySet)?;
    facade::install();
    panics::install_hook();
    Ok(())
}

/// The same log on any writer, for tests and for callers that run without a global subscriber.
///
/// # Errors
/// When the secrets cannot be searched for.
pub fn subscriber<Sink>(
    level: LogLevel,
    secrets: &[String],
    writer: Sink,
) -> Result<impl tracing::Subscriber + Send + Sync + use<Sink>, TelemetryError>
where
    Sink: Write + Send + 'static,
{
    let scrubber = Scrubber::new(secrets).map_err(|_| TelemetryError::Secrets)?;
    Ok(tracing_subscriber::registry().with(JsonLayer::new(level, scrubber, Mutex::new(writer))))
}

/// A value that is logged as JSON: `json.name = %Json(&value)`. It is serialised only when the line is written.
pub struct Json<T>(pub T);

impl<T: serde::Serialize> fmt::Display for Json<T> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A value that cannot be serialised must not stop the line it stands in.
        out.write_str(&serde_json::to_string(&self.0).unwrap_or_else(|_| "null".to_owned()))
    }
}
