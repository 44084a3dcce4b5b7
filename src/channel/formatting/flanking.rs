//! Helps the parser with bold text that ends in punctuation right before a letter: `**Precio:**450`,
//! `**（含税）**是`. By the letter of the Markdown rules those stars are text; to every reader they are bold.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::LazyLock;

use regex::Regex;

/// Punctuation that has no meaning in Markdown where it stands, so that the parser may see a letter instead.
const OPENING: &str = "\"'“‘«¿¡（「『【《";
const CLOSING: &str = "\"'”’».,:;!?%…）」』】》：；，。！？、";

/// The text for the parser's eyes only: of the same length in bytes, with those marks disguised as letters.
pub(super) fn disguised<'text>(source: &'text str, bare_urls: &[Range<usize>]) -> Cow<'text, str> {
    static BOLD: LazyLock<Option<Regex>> =
        LazyLock::new(|| Regex::new(r"\*\*([^\s*\[\]<>`\\](?:[^*\[\]<>`\\\n]*[^\s*\[\]<>`\\])?)\*\*").ok());
    let Some(bold) = BOLD.as_ref().filter(|_| source.contains("**")) else { return Cow::Borrowed(source) };
    let mut text = String::new();
    let mut done = 0;
    for inner in bold.captures_iter(source).filter_map(|found| found.get(1)) {
        if bare_urls.iter().any(|url| url.contains(&inner.start())) {
            continue;
        }
        let before = source.get(..inner.start() - 2).and_then(|head| head.chars().next_back());
        let after = source.get(inner.end() + 2..).and_then(|tail| tail.chars().next());
        let first = inner.as_str().chars().next().filter(|ch| is_letter(before) && OPENING.contains(*ch));
        let last = inner.as_str().chars().next_back().filter(|ch| is_letter(after) && CLOSING.contains(*ch));
        let width = |ch: Option<char>| ch.map_or(0, char::len_utf8);
        for mark in [inner.start()..inner.start() + width(first), inner.end() - width(last)..inner.end()] {
            if mark.start >= done && !mark.is_empty() {
                text.push_str(source.get(done..mark.start).unwrap_or_default());
                text.push_str(&"x".repeat(mark.len()));
                done = mark.end;
            }
        }
    }
    if done == 0 {
        return Cow::Borrowed(source);
    }
    text.push_str(source.get(done..).unwrap_or_default());
    Cow::Owned(text)
}

fn is_letter(ch: Option<char>) -> bool {
    ch.is_some_and(char::is_alphanumeric)
}
