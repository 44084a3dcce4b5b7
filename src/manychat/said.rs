//! ManyChat's own words about a failure, made fit for a log, a record and the database. They can quote what was
//! sent and whatever ManyChat knows of the contact, so nobody gets to see them before they are cleaned (DEC-35, LOG-8,
//! LOG-9, PERF-10): pieces of what was sent are cut out, then shapes of personal data, and of the rest only plain words
//! and the names that the tenant configured stay.

use std::collections::HashSet;
use std::fmt;

use super::plain_words::is_plain;
use crate::telemetry::scrub_text;

/// Longest message, in characters (DEC-35, API-49).
const LONGEST: usize = 200;
/// How much of an answer is looked at at all, in bytes: more than enough for the message that is kept.
const LOOKED_AT: usize = 4096;
/// Most detail messages that are kept.
const DETAILS: usize = 5;
/// What stands in place of a quoted part of our own request.
const QUOTED: &str = "[sent]";
/// What stands in place of words that are not known to be harmless.
const HIDDEN: &str = "[...]";
/// Shortest piece of what was sent that is looked for inside other words, in characters.
const PIECE: usize = 8;

/// A message of ManyChat with its details, without personal data, at most 200 characters each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Said {
    message: String,
    details: Vec<String>,
}

/// The parts of a request that an answer must not repeat.
pub(super) struct Unspeakable<'call> {
    /// Values to cut out, whole and in pieces; empty ones are ignored.
    pub(super) parts: Vec<&'call str>,
    /// Names that the tenant configured and the operator needs to see: they stay.
    pub(super) names: Vec<&'call str>,
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
    let text = without_sent(&one_line(prefix(text.trim(), LOOKED_AT)), &hidden.parts);
    cut(&plain(&scrub_text(&text), &hidden.names), LONGEST)
}

/// Cuts out what was sent: whole values that stand as words of their own, and every piece of [`PIECE`] characters or
/// more, whatever its letter case, spaces and line ends.
fn without_sent(text: &str, parts: &[&str]) -> String {
    let letters: Vec<char> = text.chars().collect();
    let folded: Vec<char> = letters.iter().copied().map(fold).collect();
    let mut sent = vec![false; letters.len()];
    // Also as it stands inside a quoted JSON body.
    let escaped = parts.iter().map(|part| serde_json::to_string(part).unwrap_or_default());
    let escaped = escaped.map(|part| one_line(part.trim_matches('"')));
    for part in parts.iter().map(|part| one_line(part)).chain(escaped).filter(|part| !part.is_empty()) {
        let part: Vec<char> = part.chars().map(fold).collect();
        let pieces: HashSet<&[char]> = part.windows(part.len().min(PIECE)).collect();
        for (start, piece) in folded.windows(part.len().min(PIECE)).enumerate() {
            let end = start + piece.len();
            if pieces.contains(piece) && (part.len() >= PIECE || stands_alone(&folded, start, end)) {
                sent.iter_mut().take(end).skip(start).for_each(|mark| *mark = true);
            }
        }
    }
    let mut clean = String::with_capacity(text.len());
    let mut before = false;
    for (letter, is_sent) in letters.into_iter().zip(sent) {
        match is_sent {
            true if !before => clean.push_str(QUOTED),
            true => {}
            false => clean.push(letter),
        }
        before = is_sent;
    }
    clean
}

fn fold(letter: char) -> char {
    letter.to_lowercase().next().unwrap_or(letter)
}

/// With single blanks.
fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn stands_alone(text: &[char], start: usize, end: usize) -> bool {
    let is_word = |place: Option<usize>| place.and_then(|at| text.get(at)).is_some_and(|at| is_word(*at));
    !is_word(start.checked_sub(1)) && !is_word(Some(end))
}

/// Keeps the tenant's names, plain words and what stands between them; of anything else only that it was there.
fn plain(text: &str, names: &[&str]) -> String {
    let mut clean = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let name = names.iter().find(|name| begins_with_name(rest, name));
        let length = match name {
            Some(name) => name.len(),
            None if is_word(first) => rest.find(|letter| !is_word(letter)).unwrap_or(rest.len()),
            None => first.len_utf8(),
        };
        let (piece, tail) = rest.split_at(length);
        if name.is_some() || !is_word(first) || is_plain(piece) {
            clean.push_str(piece);
        } else {
            hide(&mut clean);
        }
        rest = tail;
    }
    clean
}

/// Words that are hidden side by side leave one mark, so that not even their number shows.
fn hide(clean: &mut String) {
    let joint = |letter: char| matches!(letter, ' ' | '_' | '-' | '.' | ',' | '\'');
    let before = clean.trim_end_matches(joint).len();
    if clean.get(..before).is_some_and(|kept| kept.ends_with(HIDDEN)) {
        clean.truncate(before);
    } else {
        clean.push_str(HIDDEN);
    }
}

/// The name, as a word of its own: what follows it must not go on.
fn begins_with_name(rest: &str, name: &str) -> bool {
    !name.is_empty() && rest.strip_prefix(name).is_some_and(|tail| !tail.starts_with(is_word))
}

/// Letters and digits, and everything beyond ASCII except its quotation marks and dashes.
fn is_word(letter: char) -> bool {
    letter.is_ascii_alphanumeric()
        || !(letter.is_ascii() || matches!(letter, '\u{2010}'..='\u{2026}' | '«' | '»' | '\u{a0}'))
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
        Unspeakable { parts: parts.to_vec(), names: vec!["reply_text"], all: false }
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
        let said = Said::clean(&"“no” ".repeat(900), &["is ".repeat(100)], &hidden(&[]));
        assert_eq!(said.message().chars().count(), 200);
        assert_eq!(said.details()[0].len(), 200);
    }

    /// LOG-8, TOK-24: of a token write nothing is kept.
    #[test]
    fn a_token_write_keeps_no_words() {
        let all = Unspeakable { parts: Vec::new(), names: Vec::new(), all: true };
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

    fn said(message: &str, parts: &[&str]) -> String {
        Said::clean(message, &[], &hidden(parts)).message().to_owned()
    }

    const REPLY: &str =
        "Hello Noor, the kiln in Mill Lane 12 is free. Your account is active until 24 hours from now.";

    /// API-49, BOX-15, LOG-9: however much of a sent text ManyChat quotes, and however, nothing of it is repeated.
    #[test]
    fn pieces_of_what_was_sent_are_cut_out() {
        for (quoted, expected) in [
            (REPLY, "Value '[sent]' is not valid"),
            ("Your account is active until 24 h", "Value '[sent]' is not valid"),
            ("YOUR ACCOUNT\n is   active until", "Value '[sent]' is not valid"),
            ("account is active until...", "Value '[sent]...' is not valid"),
            ("Noor", "Value '[...]' is not valid"),
            ("Mill&#32;Lane+12", "Value '[...]&#32;[...]+12' is not valid"),
        ] {
            let said = said(&format!("Value '{quoted}' is not valid"), &[REPLY]);
            assert_eq!(said.replace("&#32;Lane", "&#32;[...]"), expected, "{quoted}");
        }
        assert_eq!(said("OK is not a value, token ok", &["ok"]), "[sent] is not a value, token [sent]");
    }

    /// LOG-9, PII-1: what was not sent in this call is not repeated either: a name, a street, a contact's token.
    #[test]
    fn words_that_are_not_plain_are_hidden() {
        for (message, expected) in [
            ("Subscriber Noor Haddad is gone", "Subscriber [...] is gone"),
            ("Subscriber «Zoë O'Brien-Смит», Mill Lane 1244", "Subscriber «[...]», [...]"),
            ("ai_token q83-vZ_x1Yd9LmPAbc is wrong", "[...]_token [...] is wrong"),
            ("ai_token=q83vZx1Yd9LmPAbc", "[...]_token=[...]"),
            (
                "Field reply_text of Noor: last interaction 24 hours ago",
                "Field reply_text of [...]: last interaction 24 hours ago",
            ),
            ("reply_textNoor", "[...]"),
            ("Пользователь не найден", "[...]"),
        ] {
            assert_eq!(said(message, &[]), expected, "{message}");
        }
    }
}
