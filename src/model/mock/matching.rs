//! How the mock model reads a message: substrings of the lower-cased text, and words near each other (MOCK-4, MOCK-6).

/// Words that close a conversation. `okay` stands before `ok`, which it begins with.
const CLOSERS: [&str; 9] = ["thanks", "thank you", "thx", "cheers", "bye", "okay", "ok", "perfect", "great"];

/// Words for the demo tenant's offerings, in the order in which they are looked for (MOCK-12).
pub const OFFERINGS: [(&[&str], &str); 3] = [
    (&["advanced"], "advanced"),
    (&["weekend", "intensive"], "weekend-intensive"),
    (&["foundation"], "foundation"),
];

/// What the mock model goes by.
pub struct Heard {
    text: String,
    /// Whether the prompt lists payment options (MOCK-7).
    pub payment_options: bool,
}

impl Heard {
    /// A message of the contact. Telephones write the apostrophe in their own way.
    pub fn new(text: &str, payment_options: bool) -> Self {
        Self { text: text.to_lowercase().replace('\u{2019}', "'"), payment_options }
    }

    /// The offering that the message names.
    pub fn offering(&self) -> Option<&'static str> {
        OFFERINGS.iter().find(|(words, _)| self.any(words)).map(|(_, id)| *id)
    }

    /// Whether one of the words stands there by itself.
    pub fn any_word(&self, words: &[&str]) -> bool {
        let own = |at: usize, length: usize| {
            let before = self.text.get(..at).and_then(|text| text.chars().next_back());
            let after = self.text.get(at + length..).and_then(|text| text.chars().next());
            !before.is_some_and(is_word) && !after.is_some_and(is_word)
        };
        words.iter().any(|word| self.text.match_indices(word).any(|(at, _)| own(at, word.len())))
    }

    /// Whether any of the words occurs anywhere, inside other words too.
    pub fn any(&self, words: &[&str]) -> bool {
        words.iter().any(|word| self.text.contains(word))
    }

    /// Whether one of `first` is followed, on the same line, by one of `second` after at most `gap` characters.
    pub fn near(&self, first: &[&str], gap: usize, second: &[&str]) -> bool {
        let mut ends =
            first.iter().flat_map(|word| self.text.match_indices(word).map(|(at, _)| at + word.len()));
        ends.any(|end| begins_within(self.text.get(end..).unwrap_or_default(), gap, second))
    }

    /// Whether a word begins with `stem`.
    pub fn word_starting_with(&self, stem: &str) -> bool {
        self.text.match_indices(stem).any(|(at, _)| {
            let before = self.text.get(..at).and_then(|text| text.chars().next_back());
            !before.is_some_and(is_word)
        })
    }

    /// Whether there is text, but no letter and no number in it.
    pub fn has_no_words(&self) -> bool {
        !self.text.is_empty() && !self.text.chars().any(char::is_alphanumeric)
    }

    /// Whether the whole message is closing words, with spaces, `!`, `.` and `,` between or after them.
    pub fn only_closers(&self) -> bool {
        let mut rest = self.text.trim_start();
        while let Some(after) = CLOSERS.iter().find_map(|closer| rest.strip_prefix(closer)) {
            rest = after.trim_start_matches(|glyph: char| glyph.is_whitespace() || "!.,".contains(glyph));
            if rest.is_empty() {
                return true;
            }
        }
        false
    }
}

fn is_word(character: char) -> bool {
    character.is_alphanumeric() || character == '_'
}

fn begins_within(text: &str, gap: usize, words: &[&str]) -> bool {
    let line = text.split(['\n', '\r', '\u{2028}', '\u{2029}']).next().unwrap_or_default();
    let starts = line.char_indices().map(|(at, _)| at).take(gap + 1);
    starts.into_iter().any(|at| {
        let rest = line.get(at..).unwrap_or_default();
        words.iter().any(|word| rest.starts_with(word))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heard(text: &str) -> Heard {
        Heard::new(text, false)
    }

    /// MOCK-4
    #[test]
    fn words_match_anywhere_in_the_lower_cased_text() {
        assert!(heard("THIS one").any(&["hi"]));
        assert!(heard("an Ideal day").any(&["deal"]));
        assert!(!heard("hello").any(&["hi"]));
    }

    /// MOCK-6: 0 to n characters, on one line, at any occurrence.
    #[test]
    fn near_counts_the_characters_between() {
        assert!(heard("talkperson").near(&["talk"], 20, &["person"]));
        assert!(heard(&format!("talk{}person", "é".repeat(20))).near(&["talk"], 20, &["person"]));
        assert!(!heard(&format!("talk{}person", "é".repeat(21))).near(&["talk"], 20, &["person"]));
        assert!(!heard("talk to a\nperson").near(&["talk"], 20, &["person"]));
        assert!(!heard("person to talk").near(&["talk"], 20, &["person"]));
        assert!(heard(&format!("talk {} talk to a person", "x".repeat(40))).near(&["talk"], 20, &["person"]));
    }

    /// MOCK-12: the first of the list wins.
    #[test]
    fn an_offering_is_named_by_its_words() {
        assert_eq!(heard("the Foundation or the ADVANCED one").offering(), Some("advanced"));
        assert_eq!(heard("something at the weekend").offering(), Some("weekend-intensive"));
        assert_eq!(heard("the intensive").offering(), Some("weekend-intensive"));
        assert_eq!(heard("foundations").offering(), Some("foundation"));
        assert_eq!(heard("any course").offering(), None);
    }

    /// MOCK-13
    #[test]
    fn a_whole_word_stands_by_itself() {
        for text in ["a seat?", "seat", "no\nseat!", "seat-belt"] {
            assert!(heard(text).any_word(&["seat"]), "{text}");
        }
        assert!(!heard("seats, seated, reseat, seat_1").any_word(&["seat"]));
        assert!(heard("your next intake?").any_word(&["next intake"]));
    }

    /// MOCK-6, row 7
    #[test]
    fn a_stem_begins_a_word() {
        assert!(heard("how much can I earn?").word_starting_with("earn"));
        assert!(heard("earnings").word_starting_with("earn"));
        assert!(!heard("I want to learn").word_starting_with("earn"));
    }

    /// MOCK-6, rows 1 and 2
    #[test]
    fn messages_without_substance_are_recognised() {
        for text in ["?", "🙂!", " ... "] {
            assert!(heard(text).has_no_words(), "{text}");
        }
        assert!(!heard("").has_no_words() && !heard("a?").has_no_words() && !heard("7").has_no_words());
        for text in ["ok", "Okay!", "ok, thanks.", "Thank you!! bye", "perfect great\nthx", "okok"] {
            assert!(heard(text).only_closers(), "{text}");
        }
        for text in ["ok?", "thanks a lot", "great, how much?", "okey", "", "!"] {
            assert!(!heard(text).only_closers(), "{text}");
        }
    }
}
