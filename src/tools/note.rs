//! Notes for colleagues: what a model wrote is cleaned before anything keeps it (NOTE-2).

use crate::telemetry::{Marks, scrub_with};

/// What stands in a note where something personal stood.
const REMOVED: &str = "[removed]";

/// The text as it may be staged: without links, addresses and numbers of people, in one line, at most `most` UTF-16 units
/// long (NOTE-2). Empty when nothing is left.
pub(super) fn clean(text: &str, most: usize) -> String {
    let marks = Marks::uniform(REMOVED);
    let line = one_line(&scrub_with(text, &marks));
    // A control character in the middle of a number hid it from the first look.
    let line = scrub_with(&line, &marks);
    cut_at_space(&line, most).to_owned()
}

/// Length as every limit of this room counts it.
pub(super) fn units(text: &str) -> usize {
    text.chars().map(char::len_utf16).sum()
}

/// The longest beginning of at most `most` UTF-16 units that ends with a whole character (READ-3).
pub(super) fn prefix(text: &str, most: usize) -> &str {
    let mut units = 0;
    for (at, letter) in text.char_indices() {
        units += letter.len_utf16();
        if units > most {
            return text.get(..at).unwrap_or_default();
        }
    }
    text
}

/// Control characters and runs of white space become one space; none at the ends.
fn one_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for letter in text.chars() {
        let blank = letter.is_whitespace() || letter.is_control() || letter == '\u{feff}';
        match (blank, line.is_empty() || line.ends_with(' ')) {
            (false, _) => line.push(letter),
            (true, false) => line.push(' '),
            (true, true) => {}
        }
    }
    line.truncate(line.trim_end().len());
    line
}

/// Cut at the last space within the first `most + 1` units, or at `most` when there is none.
fn cut_at_space(text: &str, most: usize) -> &str {
    let kept = prefix(text, most);
    if kept.len() == text.len() {
        return text;
    }
    let rest = text.get(kept.len()..).unwrap_or_default();
    // The unit behind the limit counts only when it is a whole character of its own.
    let end = if rest.starts_with(' ') && units(kept) == most {
        kept.len()
    } else {
        kept.rfind(' ').unwrap_or(kept.len())
    };
    kept.get(..end).unwrap_or_default().trim_end()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// NOTE-2 to NOTE-4: the documented examples.
    #[test]
    fn notes_are_cleaned_as_documented() {
        let ring = "Ring +1 555 010 3388, or mia@studio.example, or www.studio.example/a";
        assert_eq!(clean(ring, 500), "Ring [removed], or [removed], or [removed]");
        assert_eq!(clean("A\n\n b\t c\u{0}d", 500), "A b c d");
        assert_eq!(clean("Wants a Saturday class near home", 20), "Wants a Saturday");
        assert_eq!(clean(&"a".repeat(30), 10), "a".repeat(10));
        assert_eq!(clean("mia@studio.example", 500), "[removed]");
        assert_eq!(clean(" \n\t\u{a0}\u{feff}", 500), "");
        assert_eq!(clean("40223344", 500), "[removed]");
    }

    /// NOTE-2: where the cut falls.
    #[test]
    fn a_cut_keeps_whole_words_where_it_can() {
        assert_eq!(clean("four more", 4), "four");
        assert_eq!(clean("four more", 5), "four");
        assert_eq!(clean("four", 4), "four");
        assert_eq!(clean("ab😀cd", 3), "ab", "never inside a character");
        assert_eq!(clean("ab😀cd", 4), "ab😀");
    }

    /// LIM-10: a date and a price are what a colleague wants to read.
    #[test]
    fn dates_and_prices_survive() {
        let note = "Wants 2031-04-05, offered 1.250.000";
        assert_eq!(clean(note, 500), note);
    }

    /// NOTE-2: a number that a control character had torn apart goes too.
    #[test]
    fn control_characters_hide_nothing() {
        assert_eq!(clean("call 555\u{1}010\u{7f}3388", 500), "call [removed]");
    }

    /// NOTE-2, NOTE-3: the spellings that phones and their keyboards produce.
    #[test]
    fn spellings_of_phones_hide_nothing() {
        for number in [
            "\u{202a}+54 9 11\u{202c} 5555\u{2011}1234",
            "+34\u{2013}612\u{2013}345\u{2013}678",
            "612\u{ad}345\u{ad}678",
            "612·345·678",
            "612/345/678",
            "555.010-338.801",
            "mia＠studio.example",
            "+1 (555) 010\u{2011}3388",
        ] {
            let note = clean(&format!("Ring {number} or write"), 500);
            assert_eq!(note.replace('\u{202a}', ""), "Ring [removed] or write");
        }
        let kept = "From 30/11/2026 10–14 h, offered 1.250.000, 450–500 USD, between 950.000–1.250.000";
        assert_eq!(clean(kept, 500), kept);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(300))]

        /// NOTE-2, ARC-62: no planted phone, address or link survives, whatever stands around it.
        #[test]
        fn nothing_planted_survives(
            before in "[a-zA-Z ,.:;\u{1}\n日]{0,20}",
            after in "[a-zA-Z ,.:;\u{1}\n日]{0,20}",
            phone in "(\\+[1-9]{1,2}[ .-]\\(?[0-9]{2,3}\\)?[ .-][0-9]{3,4}[ -]?[0-9]{3,4}|011 [0-9]{4} [0-9]{4}|\\([0-9]{2}\\) [0-9]{4} [0-9]{4})",
            user in "[a-z]{3,8}", host in "[a-z]{3,8}",
            most in 1_usize..500,
        ) {
            let text = format!("{before} {phone} {after} {user}@{host}.example {after} https://{host}.example/{user} {before}");
            let note = clean(&text, most);
            prop_assert!(!note.bytes().any(|byte| byte.is_ascii_digit() || byte == b'@'), "{}", note);
            prop_assert!(!note.contains("http") && !note.contains(".example"), "{}", note);
        }

        /// NOTE-2: one line, within the limit, clean already.
        #[test]
        fn a_note_is_one_line_within_its_limit(text in "[\\PC\u{0}-\u{1f}\u{80}-\u{9f}]{0,60}", most in 1_usize..60) {
            let note = clean(&text, most);
            prop_assert!(units(&note) <= most);
            prop_assert!(!note.chars().any(char::is_control) && !note.contains("  "));
            prop_assert_eq!(note.trim(), &note);
        }
    }
}
