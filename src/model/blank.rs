//! Whether a reader sees anything of a text.

use super::fold;
use crate::channel::{self, MarkStyle};

/// Signs of formatting: a channel shows nothing else of a text that has only these.
const MARKS: &str = "*_~`#>-+|\\";

/// True for a text without any visible character once it is converted to a channel's marks (DEC-4): white space, invisible
/// characters, marks of formatting around nothing.
pub fn is_blank(text: &str) -> bool {
    let seen = |glyph: char| !(glyph.is_whitespace() || glyph.is_control() || MARKS.contains(glyph));
    // Character by character: usually the first one answers it.
    let shows = |text: &str| text.chars().flat_map(fold::plain).any(seen);
    !shows(text) || !shows(&channel::convert(text, MarkStyle::Plain))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// DEC-4, FAIL-3: nothing to see, in each way.
    #[test]
    fn texts_without_a_visible_character_are_blank() {
        for text in
            ["", " ", "\n\t", "\u{200b}", "\u{2800}\u{3164}", "**", "```\n```", "---", "> _ _", "# ", "\u{7}"]
        {
            assert!(is_blank(text), "{text:?}");
        }
        for text in
            ["a", "?", "👍", "❤️", "*!*", "1", "![](https://example.org/x)", "```\nx\n```", "…", "はい"]
        {
            assert!(!is_blank(text), "{text:?}");
        }
    }
}
