//! Lines of a reply that repeat its own structure: a field written as text, or a copy of the action note (GUARD-2).

use crate::model::reply::FIELDS;

/// Whether any line of the text is an echo.
pub fn has_line(text: &str) -> bool {
    text.split('\n').any(is_echo)
}

/// Takes the echo lines out of a text that has any; `None` when nothing is left. A text without one is not touched
/// (GUARD-3).
pub fn strip(text: String) -> Option<String> {
    if !has_line(&text) {
        return Some(text);
    }
    let kept: Vec<&str> = text.split('\n').filter(|line| !is_echo(line)).collect();
    let tidied = collapse_newlines(&kept.join("\n")).trim().to_owned();
    (!tidied.is_empty()).then_some(tidied)
}

fn is_echo(line: &str) -> bool {
    is_field(line) || is_action_note(line)
}

/// Decoration, a field name, decoration, `:` or `=`.
fn is_field(line: &str) -> bool {
    let line = line.trim_start_matches(|glyph: char| glyph.is_whitespace() || "\"'*_`>-".contains(glyph));
    FIELDS.iter().any(|field| {
        strip_prefix_ignoring_case(line, field).is_some_and(|rest| {
            let rest = rest.trim_start_matches(['"', '\'', '*', '_', '`']).trim_start();
            rest.starts_with([':', '='])
        })
    })
}

/// `[actions performed:` or `[actions staged:`
fn is_action_note(line: &str) -> bool {
    ["[actions performed", "[actions staged"].iter().any(|opening| {
        strip_prefix_ignoring_case(line.trim_start(), opening)
            .is_some_and(|rest| rest.trim_start().starts_with(':'))
    })
}

fn strip_prefix_ignoring_case<'a>(text: &'a str, prefix: &str) -> Option<&'a str> {
    let (start, rest) = text.split_at_checked(prefix.len())?;
    start.eq_ignore_ascii_case(prefix).then_some(rest)
}

/// Runs of three or more newlines become two.
fn collapse_newlines(text: &str) -> String {
    let mut collapsed = String::with_capacity(text.len());
    let mut run = 0;
    for character in text.chars() {
        run = if character == '\n' { run + 1 } else { 0 };
        if run <= 2 {
            collapsed.push(character);
        }
    }
    collapsed
}

#[cfg(test)]
mod tests {
    use super::*;

    /// GUARD-2: both forms, whatever the case and the decoration; derived from every field of the schema.
    #[test]
    fn echo_lines_are_recognised() {
        let lines = [
            "confidence: 0.9",
            "\"escalate\": false",
            "**confidence:** 0.8",
            "**confidence**: 0.8",
            "- `escalation_reason` = null",
            "> 'Closing_Question' : null",
            "  __MESSAGES__: [",
            "confidence=1",
            "[actions performed: send_flow glaze_guide]",
            "  [Actions Staged : add_tag x]",
        ];
        for line in lines {
            assert!(has_line(&format!("Hello.\n{line}")), "{line}");
        }
        for field in FIELDS {
            assert!(has_line(&format!("{field}: x")), "{field}");
        }
    }

    /// GUARD-2: a word in a sentence, another word, or another place in the line is no echo.
    #[test]
    fn ordinary_lines_are_not_echoes() {
        let lines = [
            "My confidence: none",
            "confidence is key: believe me",
            "confidences: two",
            "messages_sent: 4",
            "I will escalate: promise",
            "escalation: soon",
            "(confidence: 0.9)",
            "[actions planned: none]",
            "see [actions performed: x]",
            "confidénce: 1",
            "conf",
            "",
        ];
        for line in lines {
            assert!(!has_line(line), "{line}");
        }
    }

    /// GUARD-2, GUARD-3
    #[test]
    fn the_rest_of_an_echoed_text_is_kept() {
        let cases = [
            ("It is $25.00.\nconfidence: 0.9", Some("It is $25.00.")),
            ("A\n\nescalate: false\n\nB", Some("A\n\nB")),
            ("confidence: 1\nescalate: false", None),
            ("confidence: 1\n \n", None),
            ("  A \n\n\n\n B ", Some("  A \n\n\n\n B ")),
            ("A\r\nconfidence: 1\r\nB", Some("A\r\nB")),
        ];
        for (text, expected) in cases {
            assert_eq!(strip(text.to_owned()).as_deref(), expected, "{text:?}");
        }
    }
}
