//! ManyChat's own words about a failure, made fit for a log, a record and the database. They can quote what was
//! sent, so nobody gets to see them before they are cleaned (DEC-35, LOG-8, PERF-10).

use std::fmt;

use crate::telemetry::scrub_text;

/// Longest message, in characters (DEC-35, API-49).
const LONGEST: usize = 200;
/// How much of an answer is looked at at all, in bytes: more than enough for the message that is kept.
const LOOKED_AT: usize = 4096;
/// Most detail messages that are kept.
const DETAILS: usize = 5;
/// What stands in place of a quoted part of our own request.
const QUOTED: &str = "[sent]";

/// A message of ManyChat with its details, without personal data, at most 200 characters each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Said {
    message: String,
    details: Vec<String>,
}

/// The parts of a request that an answer must not repeat.
pub(super) struct Unspeakable<'call> {
    /// Values to cut out; empty ones are ignored.
    pub(super) parts: Vec<&'call str>,
    /// True when nothing at all may be repeated, as for a token write (LOG-8, TOK-24).
    pub(super) all: bool,
}

impl Said {
    /// Cleans ManyChat's words. `message` is its message or, without one, its body.
    pub(super) fn clean(message: &str, details: &[String], hidden: &Unspeakable<'_>) -> Self {
        if hidden.all {
            return Self::default();
        }
        let details = details.iter().take(DETAILS).map(|detail| cleaned(detail, hidden));
        Self {
            message: cleaned(message, hidden),
            details: details.filter(|detail| !detail.is_empty()).collect(),
        }
    }

    /// Words of our own, as the reason phrase of a status.
    pub(super) fn plainly(message: &str) -> Self {
        Self { message: message.to_owned(), details: Vec::new() }
    }

    /// The message; empty for a token write or when there was nothing to say.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }

    /// The detail messages (API-50).
    #[must_use]
    pub fn details(&self) -> &[String] {
        &self.details
    }
}

/// Begins with `: ` when there is anything to say, so that it can end a sentence.
impl fmt::Display for Said {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.message.is_empty() {
            write!(out, ": {}", self.message)?;
        }
        let fresh: Vec<&str> =
            self.details.iter().map(String::as_str).filter(|detail| *detail != self.message).collect();
        if fresh.is_empty() {
            return Ok(());
        }
        write!(out, " ({})", cut(&fresh.join("; "), LONGEST))
    }
}

fn cleaned(text: &str, hidden: &Unspeakable<'_>) -> String {
    let mut text = prefix(text.trim(), LOOKED_AT).to_owned();
    for part in hidden.parts.iter().filter(|part| !part.is_empty()) {
        text = text.replace(part, QUOTED);
        // As it stands inside a quoted JSON body.
        let escaped = serde_json::to_string(part).unwrap_or_default();
        text = text.replace(escaped.trim_matches('"'), QUOTED);
    }
    cut(&scrub_text(&text), LONGEST)
}

/// At most this many characters.
fn cut(text: &str, most: usize) -> String {
    text.chars().take(most).collect()
}

/// At most this many bytes, not ending inside a character.
fn prefix(text: &str, most: usize) -> &str {
    let end = (0..=most.min(text.len())).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    text.get(..end).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hidden<'call>(parts: &[&'call str]) -> Unspeakable<'call> {
        Unspeakable { parts: parts.to_vec(), all: false }
    }

    /// DEC-35, API-49: neither what was sent nor personal data survives, and the rest does.
    #[test]
    fn words_are_cleaned_before_anybody_sees_them() {
        let said = Said::clean(
            " Contact 7301144 (noor@example.com, +1 000 555 0100) cannot get 'The kiln is free.' ",
            &["Field 'The kiln is free.' is unknown".to_owned(), "  ".to_owned()],
            &hidden(&["7301144", "The kiln is free.", ""]),
        );
        assert_eq!(said.message(), "Contact [sent] ([email], [phone]) cannot get '[sent]'");
        assert_eq!(said.details(), ["Field '[sent]' is unknown"]);
        assert_eq!(
            said.to_string(),
            ": Contact [sent] ([email], [phone]) cannot get '[sent]' (Field '[sent]' is unknown)"
        );
    }

    /// DEC-35: 200 characters, counted after cleaning, whatever the script.
    #[test]
    fn words_are_cut_to_two_hundred_characters() {
        let said = Said::clean(&"é".repeat(5000), &["x".repeat(300)], &hidden(&[]));
        assert_eq!(said.message().chars().count(), 200);
        assert_eq!(said.details()[0].len(), 200);
    }

    /// LOG-8, TOK-24: of a token write nothing is kept.
    #[test]
    fn a_token_write_keeps_no_words() {
        let all = Unspeakable { parts: Vec::new(), all: true };
        let said = Said::clean("token abc is wrong", &["abc".to_owned()], &all);
        assert_eq!(said, Said::default());
        assert_eq!(said.to_string(), "");
    }

    /// A detail that repeats the message is said once.
    #[test]
    fn an_equal_detail_is_not_repeated() {
        let said = Said::clean("Too bad", &["Too bad".to_owned()], &hidden(&[]));
        assert_eq!(said.to_string(), ": Too bad");
    }
}
