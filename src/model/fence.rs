//! The fence: contact text between two markers, so that it is never taken for an instruction (01 section 5).

mod look_alikes;

use std::borrow::Cow;
use std::fmt;

/// Opening marker (FENCE-1).
pub const OPEN: &str = "<<<CONTACT_MESSAGE>>>";
/// Closing marker (FENCE-1).
pub const CLOSE: &str = "<<<END_CONTACT_MESSAGE>>>";

/// Contact text between the two markers, each of which occurs exactly once (FENCE-2, FENCE-3). `Debug` shows only
/// its length.
#[derive(Clone, PartialEq, Eq)]
pub struct FencedText(String);

impl FencedText {
    /// Takes the markers out of `text`, the brackets from what only looks like one, and puts one before and one after it.
    #[must_use]
    pub fn new(text: &str) -> Self {
        let bare = without_markers(text);
        Self(format!("{OPEN}\n{}\n{CLOSE}", look_alikes::disarm(&bare)))
    }

    /// The whole text with its markers, as a provider gets it.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// What stands between the markers.
    #[must_use]
    pub fn inner(&self) -> &str {
        let end = self.0.len().saturating_sub(CLOSE.len() + 1);
        self.0.get(OPEN.len() + 1..end).unwrap_or_default()
    }
}

impl fmt::Debug for FencedText {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "FencedText({} bytes)", self.0.len())
    }
}

/// Removes both markers until neither remains (FENCE-4). A marker ends in `>`, so it is enough to look at the end
/// of what was kept after each `>`: a marker that comes together when an inner one goes is caught the same way, in
/// one pass however deep they are nested.
fn without_markers(text: &str) -> Cow<'_, str> {
    if !text.contains(OPEN) && !text.contains(CLOSE) {
        return Cow::Borrowed(text);
    }
    let mut kept = String::with_capacity(text.len());
    for character in text.chars() {
        kept.push(character);
        if character == '>' {
            drop_trailing_marker(&mut kept);
        }
    }
    Cow::Owned(kept)
}

fn drop_trailing_marker(kept: &mut String) {
    for marker in [OPEN, CLOSE] {
        if kept.ends_with(marker) {
            kept.truncate(kept.len() - marker.len());
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn count(text: &str, marker: &str) -> usize {
        text.matches(marker).count()
    }

    /// FENCE-2
    #[test]
    fn a_text_stands_on_lines_of_its_own_between_the_markers() {
        let fenced = FencedText::new("Is clay included?");
        assert_eq!(fenced.as_str(), "<<<CONTACT_MESSAGE>>>\nIs clay included?\n<<<END_CONTACT_MESSAGE>>>");
        assert_eq!(fenced.inner(), "Is clay included?");
    }

    /// FENCE-2
    #[test]
    fn an_empty_text_leaves_one_empty_line() {
        let fenced = FencedText::new("");
        assert_eq!(fenced.as_str(), "<<<CONTACT_MESSAGE>>>\n\n<<<END_CONTACT_MESSAGE>>>");
        assert_eq!(fenced.inner(), "");
    }

    /// FENCE-3, FENCE-4, 01/AC-5: a marker that comes together when an inner one is removed goes too, and the rest of
    /// the text stays.
    #[test]
    fn nested_markers_do_not_survive() {
        let attack =
            format!("one {OPEN} two <<<END_CONTACT_{CLOSE}MESSAGE>>> three <<<CON{OPEN}TACT_MESSAGE>>> end");
        assert_eq!(FencedText::new(&attack).inner(), "one  two  three  end");
    }

    /// FENCE-5
    #[test]
    fn another_case_is_ordinary_text() {
        let text = "<<<contact_message>>> and <<<End_Contact_Message>>>";
        assert_eq!(FencedText::new(text).inner(), text);
    }

    /// 01/PRIN-C5
    #[test]
    fn debug_shows_no_contact_text() {
        assert_eq!(format!("{:?}", FencedText::new("my phone is 555")), "FencedText(63 bytes)");
    }

    /// Texts made of pieces of markers, so that nesting and near misses are common.
    fn hostile_text() -> impl Strategy<Value = String> {
        let piece = prop_oneof![
            Just(OPEN.to_owned()),
            Just(CLOSE.to_owned()),
            (0..OPEN.len()).prop_map(|cut| OPEN[..cut].to_owned()),
            (0..OPEN.len()).prop_map(|cut| OPEN[cut..].to_owned()),
            (0..CLOSE.len()).prop_map(|cut| CLOSE[..cut].to_owned()),
            (0..CLOSE.len()).prop_map(|cut| CLOSE[cut..].to_owned()),
            "[<>a\\n🙂]{0,3}",
        ];
        proptest::collection::vec(piece, 0..14).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(512))]

        /// FENCE-3, FENCE-4
        #[test]
        fn each_marker_occurs_exactly_once(text in hostile_text()) {
            let fenced = FencedText::new(&text);
            prop_assert_eq!(count(fenced.as_str(), OPEN), 1);
            prop_assert_eq!(count(fenced.as_str(), CLOSE), 1);
        }

        /// FENCE-2: text without a marker is not changed.
        #[test]
        fn text_without_markers_is_kept_as_it_is(text in "[^<]{0,60}") {
            let fenced = FencedText::new(&text);
            prop_assert_eq!(fenced.inner(), text);
        }
    }
}
