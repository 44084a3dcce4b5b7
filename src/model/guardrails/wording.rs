//! How texts are compared and cut: emoji, the ending question, the normal form, UTF-16 lengths.

use std::sync::LazyLock;

use regex::Regex;

/// Question marks: Latin, full width, Arabic, Greek. A Greek one that was normalised is a semicolon and not told from one.
const QUESTION_MARKS: [char; 4] = ['?', '？', '؟', '\u{37e}'];

/// True when the text ends with a question mark once trailing white space, emoji and marks of formatting are taken away (GUARD-9,
/// DEC-35). The eval suite asks the same function.
#[must_use]
pub fn ends_with_question(text: &str) -> bool {
    let ignored = |glyph: char| glyph.is_whitespace() || "*_~`".contains(glyph) || is_emoji(glyph);
    text.trim_end_matches(ignored).ends_with(QUESTION_MARKS)
}

/// The form in which replies are compared: lower case, no emoji, single spaces (GUARD-10).
pub fn normalise(text: &str) -> String {
    if text.is_ascii() {
        return normalise_ascii(text);
    }
    let bare: String = text.to_lowercase().chars().filter(|glyph| !is_emoji(*glyph)).collect();
    bare.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// [`normalise`] for the texts that every reply is compared with in every turn: nothing in them is an emoji.
fn normalise_ascii(text: &str) -> String {
    let mut normal = String::with_capacity(text.len());
    for word in text.split_whitespace() {
        if !normal.is_empty() {
            normal.push(' ');
        }
        normal.push_str(word);
    }
    normal.make_ascii_lowercase();
    normal
}

/// Byte index at which a text has as many whole characters as fit into `units` UTF-16 code units.
pub fn end_of_units(text: &str, units: usize) -> usize {
    let mut used = 0;
    for (index, character) in text.char_indices() {
        used += character.len_utf16();
        if used > units {
            return index;
        }
    }
    text.len()
}

/// Emoji and what joins or tints them. Digits are none, although Unicode counts them as parts of emoji (GUARD-9).
fn is_emoji(glyph: char) -> bool {
    matches!(glyph, '\u{fe0f}' | '\u{200d}' | '\u{1f3fb}'..='\u{1f3ff}') || is_pictograph(glyph)
}

/// Unicode's Extended_Pictographic. The pattern is a constant that a test compiles; should it ever not compile, no
/// character counts as a pictograph and the checks stay correct for plain text.
fn is_pictograph(glyph: char) -> bool {
    static PICTOGRAPH: LazyLock<Option<Regex>> =
        LazyLock::new(|| Regex::new(r"\p{Extended_Pictographic}").ok());
    if glyph.is_ascii() {
        return false;
    }
    let mut buffer = [0; 4];
    PICTOGRAPH.as_ref().is_some_and(|pattern| pattern.is_match(glyph.encode_utf8(&mut buffer)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// GUARD-9, DEC-35, 01/AC-8
    #[test]
    fn trailing_emoji_and_marks_do_not_hide_a_question() {
        let questions = [
            "Ready?",
            "Ready? 😊",
            "Ready?😊",
            "Ready?👍🏽 \n",
            "Ready? ❤️",
            "Ready? 👩‍🎨!?",
            "**Ready?**",
            "_Ready?_ ✨",
            "~Ready?~",
            "`Ready?`",
            "?",
            "何時ですか？",
            "几点？ 😊",
            "متى؟",
            "Πότε\u{37e}",
        ];
        for text in questions {
            assert!(ends_with_question(text), "{text}");
        }
        for text in [
            "Ready.",
            "几点。",
            "Πότε;",
            "Ready? Yes",
            "Ready? 1",
            "Ready?)",
            "",
            "😊",
            "https://example.org/?a=1",
        ] {
            assert!(!ends_with_question(text), "{text}");
        }
    }

    /// GUARD-10: case, emoji and white space do not count; digits and punctuation do.
    #[test]
    fn the_normal_form_drops_case_emoji_and_spacing() {
        assert_eq!(normalise("  Lessons\n start  at NINE. 🙂👍🏽❤️ "), "lessons start at nine.");
        assert_eq!(normalise("1️⃣ 2"), "1\u{20e3} 2");
        assert_eq!(normalise("🙂 \n"), "");
        assert_eq!(normalise("\u{b} It's\t  AT\r\nnine? \u{1f}x"), "it's at nine? \u{1f}x");
        assert_eq!((normalise(" \n"), normalise("")), (String::new(), String::new()));
    }

    /// 01/REP-3: a cut never splits a character.
    #[test]
    fn a_cut_falls_between_characters() {
        assert_eq!(end_of_units("abc", 2), 2);
        assert_eq!(end_of_units("abc", 3), 3);
        assert_eq!(end_of_units("a😀b", 2), 1);
        assert_eq!(end_of_units("a😀b", 3), 5);
    }
}
