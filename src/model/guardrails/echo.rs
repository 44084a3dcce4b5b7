//! Lines of a reply that repeat its own structure or what the server tells the model: a field written as text, a copy of
//! the action note, of a state line or of the note of the reply step (GUARD-2); and a message that is a reply's object.

use serde_json::{Map, Value};

use crate::domain::Stage;
use crate::model::reply::FIELDS;

/// Whether the text is an object or any line of it an echo.
pub fn has_line(text: &str) -> bool {
    is_object(text) || lines(text).any(is_echo)
}

/// Takes the echo lines out of a text that has any; `None` when nothing is left. A text without one is not touched
/// (GUARD-3).
pub fn strip(text: String) -> Option<String> {
    if !has_line(&text) {
        return Some(text);
    }
    if is_object(&text) {
        return None;
    }
    let kept: String = lines(&text).filter(|line| !is_echo(line)).collect();
    let tidied = collapse_newlines(&kept).trim().to_owned();
    (!tidied.is_empty()).then_some(tidied)
}

/// The lines with what ends them. A channel breaks a line at each of these characters.
fn lines(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let end = rest.find(ends_line).map_or(rest.len(), |at| {
            let broken = rest.get(at..).unwrap_or_default();
            let width =
                if broken.starts_with("\r\n") { 2 } else { broken.chars().next().map_or(0, char::len_utf8) };
            at + width
        });
        let (line, behind) = rest.split_at_checked(end)?;
        rest = behind;
        (!line.is_empty()).then_some(line)
    })
}

const fn ends_line(glyph: char) -> bool {
    matches!(glyph, '\n' | '\r' | '\u{b}' | '\u{c}' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

/// A whole reply in place of a message, in a code block or not.
fn is_object(text: &str) -> bool {
    let bare = text.trim().trim_matches('`').trim();
    let bare = bare.strip_prefix("json").unwrap_or(bare).trim_start();
    bare.starts_with('{')
        && serde_json::from_str::<Map<String, Value>>(bare)
            .is_ok_and(|object| object.contains_key("messages"))
}

fn is_echo(line: &str) -> bool {
    is_field(line) || is_action_note(line) || is_note(line)
}

/// Beginnings of what the server writes about actions.
const ACTIONS: [&str; 6] =
    ["send_flow ", "add_tag ", "remove_tag ", "set_field ", "write_note ", "none was staged"];

/// A line as the server writes it: a fixed label in capitals and what can stand behind it. Any other line with such a
/// label may be meant for the contact (STATE-1, STATE-7).
fn is_note(line: &str) -> bool {
    let bare = line.replace(['*', '`'], "");
    let bare = bare.trim_matches(|glyph: char| glyph.is_whitespace() || "\"'_>-".contains(glyph));
    let Some((label, rest)) = bare.split_once(": ") else { return false };
    let begins = |forms: &[&str]| forms.iter().any(|form| rest.starts_with(form));
    match label {
        "SENT" | "NOT SENT" | "ACTIONS" | "LEFT OUT" => begins(&ACTIONS),
        "CONTACT" => rest.starts_with("{\""),
        "OPENING" => rest.contains(" goes out before your reply"),
        "INTENT" => {
            rest == "prospect" || begins(&["came for another reason (", "nothing recorded", "prospect ("])
        }
        "FUNNEL" => Stage::ALL.iter().any(|stage| stage.as_str() == rest),
        "OFFERING" => begins(&["none recorded", "changed from "]) || is_id(rest),
        "MEDIA" => begins(&["a voice note whose", "an image with no text", "a video with "]),
        _ => false,
    }
}

/// Like an id of a catalog: one word in lower case.
fn is_id(word: &str) -> bool {
    let fits = |glyph: char| glyph.is_ascii_lowercase() || glyph.is_ascii_digit() || "_-".contains(glyph);
    word.starts_with(|glyph: char| glyph.is_ascii_lowercase()) && word.chars().all(fits)
}

/// Decoration, a field name, decoration, `:` or `=`.
fn is_field(line: &str) -> bool {
    let line = undecorated(line);
    FIELDS.iter().any(|field| {
        strip_prefix_ignoring_case(line, field).is_some_and(|rest| {
            let rest = rest.trim_start_matches(['"', '\'', '*', '_', '`']).trim_start();
            rest.starts_with([':', '='])
        })
    })
}

/// Decoration, `[actions performed:` or `[actions staged:`
fn is_action_note(line: &str) -> bool {
    let line = undecorated(line);
    ["[actions performed", "[actions staged"].iter().any(|opening| {
        strip_prefix_ignoring_case(line, opening).is_some_and(|rest| rest.trim_start().starts_with(':'))
    })
}

fn undecorated(line: &str) -> &str {
    line.trim_start_matches(|glyph: char| glyph.is_whitespace() || "\"'*_`>-".contains(glyph))
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
            "**[actions performed: send_flow x]**",
            "> *[actions staged: add_tag x]*",
        ];
        for line in lines {
            for end in ["\n", "\r\n", "\r", "\u{2028}", "\u{2029}", "\u{85}"] {
                assert!(has_line(&format!("Hello.{end}{line}")), "{line} {end:?}");
            }
        }
        for field in FIELDS {
            assert!(has_line(&format!("{field}: x")), "{field}");
        }
    }

    /// GUARD-2, STATE-1, STATE-7: what the server tells the model, as it writes it.
    #[test]
    fn notes_of_the_server_are_echoes() {
        let lines = [
            "SENT: send_flow leaflet.",
            "NOT SENT: send_flow clip. Sending failed.",
            "ACTIONS: add_tag keen, set_field shift=evening. This is carried out after your reply.",
            "ACTIONS: none was staged. Write the reply now.",
            "LEFT OUT: add_tag late.",
            "CONTACT: {\"tags\":[]}",
            "OPENING: hello_card goes out before your reply and asks.",
            "INTENT: prospect",
            "INTENT: came for another reason (not_prospect).",
            "INTENT: nothing recorded yet.",
            "**FUNNEL:** offered",
            "- FUNNEL: new",
            "OFFERING: none recorded yet",
            "OFFERING: wheel-basics",
            "OFFERING: changed from one to two since the last turn.",
            "MEDIA: a voice note whose transcript is the fenced message",
        ];
        for line in lines {
            assert!(has_line(&format!("Hello.\n{line}\nBye.")), "{line}");
        }
        let honest = [
            "CONTACT: +54 11 5555 0100",
            "OPENING: Saturday at nine",
            "OPENING HOURS: nine to six",
            "SENT: your parcel, this morning",
            "NOT SENT: the invoice",
            "ACTIONS: turn left, then right",
            "OFFERING: two lessons for one",
            "FUNNEL: 3 litres",
            "INTENT: learn to sail",
            "MEDIA: the video is on our page",
            "funnel: new",
            "Your FUNNEL: new",
        ];
        for line in honest {
            assert!(!has_line(line), "{line}");
        }
    }

    /// GUARD-2: a message that is a whole reply is nothing but an echo.
    #[test]
    fn an_object_with_messages_is_an_echo() {
        for text in [
            r#"{"messages":["Hi"],"escalate":false}"#,
            " {\n \"messages\": []\n}\n",
            "```json\n{\"messages\":[\"Hi\"]}\n```",
        ] {
            assert_eq!(strip(text.to_owned()), None, "{text}");
        }
        for text in [r#"{"size": 3}"#, "{messages}", r#"["messages"]"#, r#"See {"messages":1}"#] {
            assert!(!has_line(text), "{text}");
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
            ("A\rconfidence: 1", Some("A")),
            ("A\u{2028}confidence: 1\u{2028}B", Some("A\u{2028}B")),
        ];
        for (text, expected) in cases {
            assert_eq!(strip(text.to_owned()).as_deref(), expected, "{text:?}");
        }
    }
}
