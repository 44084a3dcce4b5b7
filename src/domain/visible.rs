//! Text from a file or an argument as a terminal may show it.

use std::borrow::Cow;
use std::fmt::Write as _;

/// The text in one line: control characters and marks that turn the reading direction are written as `\u001b`, as JSON
/// does, so that a key of a file cannot drive a terminal or fake a line.
#[must_use]
pub fn visible(text: &str) -> Cow<'_, str> {
    escape(text, |_| false)
}

/// As [`visible`], but with the line ends and tabs that a printed text is laid out with.
#[must_use]
pub fn visible_lines(text: &str) -> Cow<'_, str> {
    escape(text, |letter| matches!(letter, '\n' | '\r' | '\t'))
}

fn escape(text: &str, kept: impl Fn(char) -> bool) -> Cow<'_, str> {
    let drives = |letter: char| (letter.is_control() || turns(letter)) && !kept(letter);
    if !text.contains(drives) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 8);
    for letter in text.chars() {
        if drives(letter) {
            // Writing to a `String` cannot fail.
            let _ = write!(shown, "\\u{:04x}", u32::from(letter));
        } else {
            shown.push(letter);
        }
    }
    Cow::Owned(shown)
}

/// Embeddings, overrides and isolates of bidirectional text.
const fn turns(letter: char) -> bool {
    matches!(letter, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    /// CLI-7: nothing that comes from outside moves the cursor, changes colours or adds a line.
    #[test]
    fn control_characters_are_written_out() {
        assert_eq!(
            visible("a\u{1b}[31m\nb\u{9b}2J\u{202e}\u{7f}"),
            r"a\u001b[31m\u000ab\u009b2J\u202e\u007f"
        );
        assert_eq!(visible_lines("a\n\tb\u{1b}c"), "a\n\tb\\u001bc");
        assert!(matches!(visible("Zoë, «日本»"), Cow::Borrowed(_)));
        let json = serde_json::to_string("x\u{7f}\u{202e}\u{1b}").unwrap_or_default();
        let back: String = serde_json::from_str(&visible_lines(&json)).unwrap_or_default();
        assert_eq!(back, "x\u{7f}\u{202e}\u{1b}", "JSON means the same");
    }
}
