//! Cleans one value of a log line: the process's own secrets, shapes of credentials, then personal data.

use std::borrow::Cow;
use std::sync::LazyLock;

use aho_corasick::{AhoCorasick, MatchKind};
use regex::{Captures, Regex};
use serde_json::Value;

use super::redaction::{is_removed_key, scrub_text};

/// Secrets shorter than this are too likely to be part of ordinary words; they are not searched for. Bytes.
const SHORTEST_SECRET: usize = 6;
/// What stands in place of a secret.
const SECRET: &str = "[secret]";
/// Fields whose values name parts of the program and not people: model names, versions, files, migrations.
/// They are left alone by the shapes of personal data while they look like one name (PII-8).
const STRUCTURAL_FIELDS: [&str; 12] = [
    "model",
    "transcription",
    "fallback",
    "migrations",
    "version",
    "playbookVersion",
    "hash",
    "hashes",
    "files",
    "file",
    "location",
    "target",
];
/// Longest value that can pass as the name of a part of the program, in bytes.
const LONGEST_NAME: usize = 128;

/// Knows the process's secrets.
pub(super) struct Scrubber {
    secrets: Option<AhoCorasick>,
}

impl Scrubber {
    /// Takes the real values of secrets; of a URL also its password, as written and decoded.
    pub(super) fn new(secrets: &[String]) -> Result<Self, aho_corasick::BuildError> {
        let mut words: Vec<String> = secrets.iter().flat_map(|secret| with_password(secret)).collect();
        words.retain(|word| word.len() >= SHORTEST_SECRET);
        words.sort();
        words.dedup();
        let secrets = if words.is_empty() {
            None
        } else {
            Some(AhoCorasick::builder().match_kind(MatchKind::LeftmostLongest).build(&words)?)
        };
        Ok(Self { secrets })
    }

    /// The value as it may stand in the line under this field name.
    pub(super) fn clean<'value>(&self, field: &str, value: &'value str) -> Cow<'value, str> {
        let value = chain(self.without_secrets(value), without_credentials);
        if is_own_id_or_time(&value) || (STRUCTURAL_FIELDS.contains(&field) && is_one_name(&value)) {
            return value;
        }
        chain(value, scrub_text)
    }

    /// Cleans every text inside a JSON value and removes what must not be there, at any depth.
    pub(super) fn clean_json(&self, field: &str, value: &mut Value) {
        match value {
            Value::String(text) => {
                if let Cow::Owned(clean) = self.clean(field, text) {
                    *text = clean;
                }
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.clean_json(field, item)),
            Value::Object(map) => {
                let members = std::mem::take(map);
                for (key, mut member) in members {
                    if !is_removed_key(&key) {
                        // What stands inside a structural field is structural too.
                        let name = if STRUCTURAL_FIELDS.contains(&field) { field } else { &key };
                        self.clean_json(name, &mut member);
                        map.insert(self.clean("", &key).into_owned(), member);
                    }
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    fn without_secrets<'value>(&self, value: &'value str) -> Cow<'value, str> {
        let Some(secrets) = &self.secrets else { return Cow::Borrowed(value) };
        let mut clean = String::new();
        let mut kept = 0;
        for found in secrets.find_iter(value) {
            clean.push_str(value.get(kept..found.start()).unwrap_or_default());
            clean.push_str(SECRET);
            kept = found.end();
        }
        if kept == 0 {
            return Cow::Borrowed(value);
        }
        clean.push_str(value.get(kept..).unwrap_or_default());
        Cow::Owned(clean)
    }
}

/// Runs one more step over a text that earlier steps may have left borrowed.
fn chain<'value>(value: Cow<'value, str>, step: impl Fn(&str) -> Cow<'_, str>) -> Cow<'value, str> {
    let text = match value {
        Cow::Borrowed(text) => return step(text),
        Cow::Owned(text) => text,
    };
    let replaced = match step(&text) {
        Cow::Owned(new) => Some(new),
        Cow::Borrowed(same) if std::ptr::eq(same, text.as_str()) => None,
        Cow::Borrowed(constant) => Some(constant.to_owned()),
    };
    Cow::Owned(replaced.unwrap_or(text))
}

/// The secret itself and, when it is a URL with a password, the password.
fn with_password(secret: &str) -> Vec<String> {
    let mut words = vec![secret.to_owned()];
    if let Some(password) = url::Url::parse(secret).ok().and_then(|url| url.password().map(str::to_owned)) {
        words.push(percent_decoded(&password));
        words.push(password);
    }
    words
}

fn percent_decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        let decoded = (first == b'%')
            .then(|| tail.get(..2).and_then(|hex| std::str::from_utf8(hex).ok()))
            .flatten()
            .and_then(|hex| u8::from_str_radix(hex, 16).ok());
        bytes.push(decoded.unwrap_or(first));
        rest = if decoded.is_some() { tail.get(2..).unwrap_or_default() } else { tail };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

struct Credentials {
    bearer: Regex,
    key: Regex,
    in_url: Regex,
    long_word: Regex,
}

impl Credentials {
    fn compile() -> Result<Self, regex::Error> {
        Ok(Self {
            bearer: Regex::new(r#"(?i-u:\bBearer)\s+[^\s"'\\<>]+"#)?,
            key: Regex::new(r"(?-u:\b)(?:[spr]k-[A-Za-z0-9_-]{8,}|AIza[A-Za-z0-9_-]{20,})")?,
            in_url: Regex::new(r#"://[^\s/@"'\\<>]+@"#)?,
            long_word: Regex::new(r"[A-Za-z0-9_-]{32,}")?,
        })
    }
}

static CREDENTIALS: LazyLock<Option<Credentials>> = LazyLock::new(|| Credentials::compile().ok());

/// Keys and tokens that are not the process's own: a provider may quote a key it was given by somebody else, and
/// contact tokens (43 characters of base64) are known to nobody here.
fn without_credentials(value: &str) -> Cow<'_, str> {
    let suspicious = value.len() >= 32
        || value.contains("k-")
        || value.contains('@')
        || value.contains("earer")
        || value.contains("EARER");
    if !suspicious {
        return Cow::Borrowed(value);
    }
    let Some(shapes) = CREDENTIALS.as_ref() else { return Cow::Borrowed("[redacted]") };
    let value = shapes.bearer.replace_all(value, "Bearer [secret]");
    let value = chain(value, |text| shapes.key.replace_all(text, SECRET));
    let value = chain(value, |text| shapes.in_url.replace_all(text, "://[secret]@"));
    chain(value, |text| shapes.long_word.replace_all(text, |found: &Captures<'_>| mask_random(found)))
}

/// A long word that mixes capitals, small letters and digits is a token, not an identifier of ours.
fn mask_random(found: &Captures<'_>) -> String {
    let word = found.get(0).map_or("", |whole| whole.as_str());
    let has = |kind: fn(&u8) -> bool| word.as_bytes().iter().any(kind);
    let random = has(u8::is_ascii_uppercase) && has(u8::is_ascii_lowercase) && has(u8::is_ascii_digit);
    if random { SECRET.to_owned() } else { word.to_owned() }
}

/// UUIDs are made by us and times by a clock: neither can be a phone number, though both contain its shape.
fn is_own_id_or_time(value: &str) -> bool {
    match value.len() {
        36 => uuid::Uuid::try_parse(value).is_ok(),
        10 => value.parse::<jiff::civil::Date>().is_ok(),
        20..=35 => value.parse::<jiff::Timestamp>().is_ok(),
        _ => false,
    }
}

/// One word of letters, digits and a few joints, with at least one letter: never a phone number.
fn is_one_name(value: &str) -> bool {
    let joint = |byte: u8| matches!(byte, b'.' | b'_' | b':' | b'/' | b'-');
    value.len() <= LONGEST_NAME
        && value.bytes().all(|byte| byte.is_ascii_alphanumeric() || joint(byte))
        && value.bytes().any(|byte| byte.is_ascii_alphabetic())
        && !value.contains("://")
        && !value.starts_with("www.")
}

#[cfg(test)]
#[path = "scrubber_tests.rs"]
mod tests;
