//! Fields of an event or a span, cleaned and already encoded as JSON.

use std::error::Error;
use std::fmt::{self, Write as _};

use serde_json::Value;
use tracing::field::{Field, Visit};

use super::level::FATAL_FIELD;
use super::redaction::is_removed_key;
use super::scrubber::Scrubber;

/// Prefix of a field whose text is JSON and becomes JSON in the line.
pub(super) const JSON_PREFIX: &str = "json.";
/// Keys that the layer writes itself.
const RESERVED: [&str; 5] = ["level", "time", "pid", "hostname", "msg"];
/// Name under which `tracing` records the message.
const MESSAGE: &str = "message";
/// Longest text of one field, in bytes; the rest is cut off after cleaning.
const LONGEST_TEXT: usize = 8192;

/// Names with encoded values, in the order they came; a name occurs once.
#[derive(Default)]
pub(super) struct Fields {
    members: Vec<(&'static str, String)>,
    /// The encoded message of an event.
    pub(super) message: Option<String>,
    /// Whether the event asked for level 60.
    pub(super) fatal: bool,
}

impl Fields {
    pub(super) fn iter(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.members.iter().map(|(name, encoded)| (*name, encoded.as_str()))
    }

    pub(super) fn contains(&self, name: &str) -> bool {
        self.members.iter().any(|(known, _)| *known == name)
    }

    fn set(&mut self, name: &'static str, encoded: String) {
        match self.members.iter_mut().find(|(known, _)| *known == name) {
            Some(member) => member.1 = encoded,
            None => self.members.push((name, encoded)),
        }
    }
}

/// Records fields into [`Fields`].
pub(super) struct Recorder<'fields> {
    pub(super) fields: &'fields mut Fields,
    pub(super) scrubber: &'fields Scrubber,
}

impl Recorder<'_> {
    fn set_plain(&mut self, field: &Field, encoded: impl fmt::Display) {
        if !is_removed_key(field.name()) && !RESERVED.contains(&field.name()) {
            self.fields.set(field.name(), encoded.to_string());
        }
    }

    fn set_text(&mut self, field: &Field, text: &str) {
        let name = field.name();
        if name == MESSAGE {
            self.fields.message = Some(self.encode_message(text));
            return;
        }
        let (name, is_json) = match name.strip_prefix(JSON_PREFIX) {
            Some(rest) => (rest, true),
            None => (name, false),
        };
        if is_removed_key(name) || RESERVED.contains(&name) {
            return;
        }
        let parsed = is_json.then(|| serde_json::from_str::<Value>(text).ok()).flatten();
        let encoded = match parsed {
            Some(mut value) => {
                self.scrubber.clean_json(name, &mut value);
                value.to_string()
            }
            None => encode(&self.scrubber.clean(name, text)),
        };
        self.fields.set(name, encoded);
    }

    /// Messages are cleaned like every other text, for those of other crates quote what they like. The one link
    /// that must stay readable is our own address (CLI-22).
    fn encode_message(&self, text: &str) -> String {
        if is_listening_line(text) { encode(text) } else { encode(&self.scrubber.clean("msg", text)) }
    }
}

impl Visit for Recorder<'_> {
    fn record_bool(&mut self, field: &Field, value: bool) {
        if field.name() == FATAL_FIELD {
            self.fields.fatal = value;
        } else {
            self.set_plain(field, value);
        }
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.set_plain(field, value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.set_plain(field, value);
    }

    fn record_i128(&mut self, field: &Field, value: i128) {
        self.set_plain(field, value);
    }

    fn record_u128(&mut self, field: &Field, value: u128) {
        self.set_plain(field, value);
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.set_plain(field, Value::from(value));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.set_text(field, value);
    }

    fn record_error(&mut self, field: &Field, value: &(dyn Error + 'static)) {
        let mut text = value.to_string();
        let mut cause = value.source();
        while let Some(error) = cause {
            text.push_str(": ");
            text.push_str(&error.to_string());
            cause = error.source();
        }
        self.set_text(field, &text);
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let mut text = String::new();
        // `format!` would panic on a `Debug` that fails; what was written until then is logged.
        let _ = write!(text, "{value:?}");
        self.set_text(field, &text);
    }
}

/// `Server listening at http://<address>:<port>`, and nothing after it.
fn is_listening_line(text: &str) -> bool {
    let address = |rest: &str| {
        rest.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'.' | b':' | b'[' | b']'))
    };
    text.strip_prefix("Server listening at http://").is_some_and(address)
}

/// The text as a JSON string, cut to [`LONGEST_TEXT`].
fn encode(text: &str) -> String {
    let end = text.floor_char_boundary(LONGEST_TEXT);
    let cut = text.get(..end).unwrap_or_default();
    serde_json::to_string(cut).unwrap_or_else(|_| "null".to_owned())
}
