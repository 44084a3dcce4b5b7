//! The layer that turns every event into one line of JSON on the writer it owns.

use std::fmt::Write as _;
use std::io::Write;
use std::sync::{Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};
use tracing_subscriber::layer::{Context, Layer};
use tracing_subscriber::registry::LookupSpan;

use super::fields::{Fields, Recorder};
use super::level::{LogLevel, admits};
use super::redaction::scrub_media_links;
use super::scrubber::Scrubber;

/// Writes lines; holds the writer's lock for exactly one `write_all` a line.
pub(super) struct JsonLayer<W> {
    threshold: LogLevel,
    scrubber: Scrubber,
    writer: Mutex<W>,
    pid: u32,
}

impl<W: Write> JsonLayer<W> {
    pub(super) fn new(threshold: LogLevel, scrubber: Scrubber, writer: W) -> Self {
        Self { threshold, scrubber, writer: Mutex::new(writer), pid: std::process::id() }
    }

    fn write_line(&self, line: &str) {
        let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        // A closed or full standard output must not stop the service: the line is lost and nothing else.
        let _ = writer.write_all(scrub_media_links(line).as_bytes());
    }
}

impl<S, W> Layer<S> for JsonLayer<W>
where
    S: Subscriber + for<'span> LookupSpan<'span>,
    W: Write + Send + 'static,
{
    fn enabled(&self, metadata: &Metadata<'_>, _context: Context<'_, S>) -> bool {
        admits(self.threshold, metadata)
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        // Spans are kept down to `info` at every threshold, see `admits`.
        Some(LevelFilter::from_level(self.threshold.min(LogLevel::Info).as_tracing()))
    }

    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        let mut fields = Fields::default();
        attributes.record(&mut Recorder { fields: &mut fields, scrubber: &self.scrubber });
        span.extensions_mut().insert(fields);
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        if let Some(fields) = span.extensions_mut().get_mut::<Fields>() {
            values.record(&mut Recorder { fields, scrubber: &self.scrubber });
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let mut own = Fields::default();
        event.record(&mut Recorder { fields: &mut own, scrubber: &self.scrubber });
        let level = if own.fatal { LogLevel::Fatal } else { LogLevel::of(*event.metadata().level()) };
        if level < self.threshold {
            return;
        }
        let mut line = start_line(level, self.pid);
        push_span_fields(&mut line, &own, event, &context);
        for (name, encoded) in own.iter() {
            push_member(&mut line, name, encoded);
        }
        push_member(&mut line, "msg", own.message.as_deref().unwrap_or("\"\""));
        line.push_str("}\n");
        self.write_line(&line);
    }
}

fn start_line(level: LogLevel, pid: u32) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
    let mut line = String::with_capacity(256);
    // Writing to a `String` cannot fail.
    let _ = write!(line, r#"{{"level":{},"time":{now},"pid":{pid}"#, level.number());
    line
}

/// Fields of the spans around the event, inner spans and the event itself winning over outer ones.
fn push_span_fields<S>(line: &mut String, own: &Fields, event: &Event<'_>, context: &Context<'_, S>)
where
    S: Subscriber + for<'span> LookupSpan<'span>,
{
    let Some(inner_first) = context.event_scope(event) else { return };
    let mut written: Vec<&'static str> = Vec::new();
    for span in inner_first {
        let extensions = span.extensions();
        let Some(fields) = extensions.get::<Fields>() else { continue };
        for (name, encoded) in fields.iter() {
            if !own.contains(name) && !written.contains(&name) {
                push_member(line, name, encoded);
                written.push(name);
            }
        }
    }
}

/// Names are identifiers of our code (or paths such as `a.b`) and need no escaping.
fn push_member(line: &mut String, name: &str, encoded: &str) {
    line.push_str(",\"");
    line.push_str(name);
    line.push_str("\":");
    line.push_str(encoded);
}

#[cfg(test)]
#[path = "layer_tests.rs"]
mod tests;
