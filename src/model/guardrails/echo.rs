//! Lines of a reply that repeat its own structure or what the server tells the model: a field written as text, a copy of
//! the action note, of a state line or of the note of the reply step (GUARD-2); and what a machine writes for a machine.

use super::machine;
use crate::domain::{EscalationReason, Stage};
use crate::model::leak::LeakCheck;
use crate::model::reply::FIELDS;

/// Taking something out can put something together; more often than this nobody does that by accident.
const PASSES: usize = 4;

/// Whether anything in the text is a machine's or any line of it an echo. `own` knows which names of fields the tenant's
/// catalog writes.
pub fn has_line(text: &str, own: &LeakCheck) -> bool {
    machine::has_any(text) || lines(text).any(|line| is_echo(line, own))
}

/// Takes that out of a text that has any, whole objects first and then lines; `None` when nothing is left. A text without
/// any is not touched (GUARD-3).
pub fn strip(text: String, own: &LeakCheck) -> Option<String> {
    let mut text = text;
    for _ in 0..PASSES {
        if !has_line(&text, own) {
            return Some(text);
        }
        let bare = machine::take_out(text)?;
        let kept: String = lines(&bare).filter(|line| !is_echo(line, own)).collect();
        text = collapse_newlines(&kept).trim().to_owned();
        if text.is_empty() {
            return None;
        }
    }
    (!has_line(&text, own)).then_some(text)
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

fn is_echo(line: &str, own: &LeakCheck) -> bool {
    is_field(line, own) || is_action_note(line) || is_note(line)
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

/// Decoration, a field name, decoration, `:` or `=`. A name that the catalog writes too, with its capital, is the tenant's
/// (an offering called `Confidence`) unless what stands behind it is what stands behind the field.
fn is_field(line: &str, own: &LeakCheck) -> bool {
    let line = undecorated(line);
    FIELDS.iter().any(|field| {
        let Some((name, rest)) = split_ignoring_case(line, field) else { return false };
        let rest = rest.trim_start_matches(['"', '\'', '*', '_', '`']).trim_start();
        rest.strip_prefix([':', '=']).is_some_and(|value| !own.names_field(name) || is_value(value))
    })
}

/// What a field of the reply can hold, as a model writes it.
fn is_value(text: &str) -> bool {
    let ornament = |glyph: char| glyph.is_whitespace() || "*_`',;.".contains(glyph);
    let bare = text.trim_start_matches(ornament);
    if bare.starts_with(['[', '{', '"']) {
        return true;
    }
    let word = bare.trim_end_matches(ornament).to_lowercase();
    let share =
        word.strip_suffix('%').map_or_else(|| word.parse(), |cent| cent.parse().map(|all: f64| all / 100.0));
    matches!(word.as_str(), "" | "true" | "false" | "null" | "none" | "high" | "medium" | "low")
        || EscalationReason::ALL.iter().any(|reason| reason.as_str() == word)
        || share.is_ok_and(|share| (0.0..=1.0).contains(&share))
}

/// Decoration, `[actions performed:` or `[actions staged:`
fn is_action_note(line: &str) -> bool {
    let line = undecorated(line);
    ["[actions performed", "[actions staged"].iter().any(|opening| {
        split_ignoring_case(line, opening).is_some_and(|(_, rest)| rest.trim_start().starts_with(':'))
    })
}

fn undecorated(line: &str) -> &str {
    line.trim_start_matches(|glyph: char| glyph.is_whitespace() || "\"'*_`>-".contains(glyph))
}

fn split_ignoring_case<'a>(text: &'a str, prefix: &str) -> Option<(&'a str, &'a str)> {
    text.split_at_checked(prefix.len()).filter(|(start, _)| start.eq_ignore_ascii_case(prefix))
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
    use crate::model::SystemPrompt;
    use crate::model::test_support::tenant_with;

    fn has_line(text: &str) -> bool {
        super::has_line(text, &LeakCheck::default())
    }

    fn strip(text: String) -> Option<String> {
        super::strip(text, &LeakCheck::default())
    }

    /// GUARD-2, GUARD-3: what the catalog calls so may be said; a field's value behind it is still the field.
    #[test]
    fn an_offering_named_like_a_field_is_no_echo() {
        let tenant = tenant_with(|tenant| {
            for (offering, name) in tenant.catalog.offerings.iter_mut().zip(["Confidence", "Clay"]) {
                offering.name = name.to_owned();
            }
            for entry in &mut tenant.catalog.faq {
                entry.answer = "The parts are called Messages and Escalate.".to_owned();
            }
        });
        let system = SystemPrompt::build(&tenant);
        let own = system.leaks();
        let two = "We have two:\n- Bootcamp: $450.00\n- Confidence: $1,180.00";
        assert_eq!(super::strip(two.to_owned(), own).as_deref(), Some(two));
        for line in
            ["**Messages:** how to write them", "Escalate: when to call for help", "Confidence: 12 weeks"]
        {
            assert!(!super::has_line(line, own), "{line}");
            assert!(has_line(line), "{line}");
        }
        for line in [
            "Confidence: 0.9",
            "**Confidence:** 90%",
            "Confidence: high",
            "confidence: $1,180.00",
            "Messages: [\"Hi\"]",
            "Escalate: false",
            "Escalate: complaint",
            "Escalation_reason: a walk",
        ] {
            assert!(super::has_line(line, own), "{line}");
        }
    }

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
