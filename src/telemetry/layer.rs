//! The layer that turns every event into one line of JSON on the writer it owns.

use std::fmt::Write as _;
use std::time::{SystemTime, UNIX_EPOCH};

use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};
use tracing_subscriber::layer::{Context, Layer};
use tracing_subscriber::registry::LookupSpan;

use super::fields::{Fields, Recorder};
use super::level::{LogLevel, admits, may_speak};
use super::redaction::scrub_media_links;
use super::scrubber::Scrubber;
use super::writer::Lines;

/// Makes lines and hands each over whole and clean.
pub(super) struct JsonLayer<L> {
    threshold: LogLevel,
    scrubber: Scrubber,
    lines: L,
    pid: u32,
}

impl<L: Lines> JsonLayer<L> {
    pub(super) fn new(threshold: LogLevel, scrubber: Scrubber, lines: L) -> Self {
        Self { threshold, scrubber, lines, pid: std::process::id() }
    }
}

impl<S, L> Layer<S> for JsonLayer<L>
where
    S: Subscriber + for<'span> LookupSpan<'span>,
    L: Lines + 'static,
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
        let level = if own.fatal { LogLevel::Fatal } else { LogLevel::of(event.metadata()) };
        if level < self.threshold {
            return;
        }
        let mut line = start_line(level, self.pid);
        push_span_fields(&mut line, &own, event, &context);
        for (name, encoded) in own.iter() {
            push_member(&mut line, name, encoded);
        }
        push_message(&mut line, event.metadata(), own.message.as_deref());
        line.push_str("}\n");
        self.lines.push(&scrub_media_links(&line));
    }
}

/// The line about lines that found no room, or a writer that failed.
pub(super) fn lost_line(count: u64) -> String {
    let mut line = start_line(LogLevel::Warn, std::process::id());
    push_member(&mut line, "lost", &count.to_string());
    push_member(&mut line, "msg", "\"log lines lost: standard output did not take them in time\"");
    line.push_str("}\n");
    line
}

/// What a crate says that handles a contact's words is not printed: only which one it was, and where (LOG-9).
fn push_message(line: &mut String, metadata: &Metadata<'_>, message: Option<&str>) {
    if may_speak(metadata.target()) {
        push_member(line, "msg", message.unwrap_or("\"\""));
        return;
    }
    let place = format!("{}:{}", metadata.target(), metadata.line().unwrap_or_default());
    push_member(line, "library", &serde_json::Value::from(place).to_string());
    push_member(line, "msg", "\"a library reported a problem\"");
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
