//! Texts longer than a channel takes (GAP-CH-11).

use std::sync::LazyLock;

use regex::Regex;

use super::{fold, profile};
use crate::domain::ChannelName;

/// Most UTF-16 units in one text.
pub const LONGEST_TEXT: usize = 4096;

/// What goes into the response and what must follow through the outbox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InlinePlan {
    /// Texts of the response: at most as many as the channel delivers, none too long.
    pub inline: Vec<String>,
    /// Texts that did not fit, in order; usually empty.
    pub rest: Vec<String>,
}

/// Folds a reply for a channel (CHC-3) and cuts what is too long for one text.
#[must_use]
pub fn plan_inline(texts: &[String], channel: ChannelName) -> InlinePlan {
    let limit = profile(channel).capabilities.messages;
    let mut inline: Vec<String> = fold(texts, limit).iter().flat_map(|text| split_long(text)).collect();
    let rest = inline.split_off(limit.min(inline.len()));
    InlinePlan { inline, rest }
}

/// The text as pieces of at most [`LONGEST_TEXT`] UTF-16 units each, cut at the end of a paragraph, a line, a
/// sentence or a word, in this order of preference. Only white space at the cuts is lost. A text that fits comes
/// back as it is; an empty one gives no piece.
#[must_use]
pub fn split_long(text: &str) -> Vec<String> {
    split_at(text, LONGEST_TEXT)
}

fn split_at(text: &str, limit: usize) -> Vec<String> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while exceeds(rest, limit) {
        let cut = cut_position(rest, limit);
        let (piece, tail) = rest.split_at_checked(cut).unwrap_or((rest, ""));
        push_visible(&mut pieces, piece.trim_end());
        rest = tail.trim_start();
    }
    if pieces.is_empty() && !rest.is_empty() {
        pieces.push(rest.to_owned());
    } else {
        push_visible(&mut pieces, rest);
    }
    pieces
}

fn push_visible(pieces: &mut Vec<String>, piece: &str) {
    if !piece.trim().is_empty() {
        pieces.push(piece.to_owned());
    }
}

fn exceeds(text: &str, limit: usize) -> bool {
    text.len() > limit && text.encode_utf16().count() > limit
}

/// Byte position of the best cut, above zero and at most `limit` units from the start.
fn cut_position(text: &str, limit: usize) -> usize {
    let end = window_end(text, limit);
    let window = text.get(..end).unwrap_or(text);
    // A border early in the window would make many small pieces; a word's border counts anywhere.
    let late = |cut: &usize| *cut >= end / 4;
    let after = |found: Option<usize>, width: usize| found.map(|at| at + width);
    let begins_with_space = text.get(end..).is_some_and(|tail| tail.starts_with(char::is_whitespace));
    after(window.rfind("\n\n"), 2)
        .filter(late)
        .or_else(|| after(window.rfind('\n'), 1).filter(late))
        .or_else(|| sentence_end(window).filter(late))
        .or_else(|| begins_with_space.then_some(end))
        .or_else(|| {
            window
                .rfind(char::is_whitespace)
                .filter(|cut| !window.get(..*cut).unwrap_or("").trim().is_empty())
        })
        .unwrap_or_else(|| grapheme_end(text, end))
}

/// Byte length of the longest prefix of at most `limit` UTF-16 units.
fn window_end(text: &str, limit: usize) -> usize {
    let mut units = 0;
    for (at, ch) in text.char_indices() {
        units += ch.len_utf16();
        if units > limit {
            return at;
        }
    }
    text.len()
}

/// Position behind the last sentence that ends inside the window.
fn sentence_end(window: &str) -> Option<usize> {
    let spaced = window
        .rmatch_indices(char::is_whitespace)
        .map(|(at, _)| at)
        .find(|at| window.get(..*at).is_some_and(|head| head.ends_with(['.', '!', '?', '…', ':', ';'])));
    let unspaced = window.rmatch_indices(['。', '！', '？']).next().map(|(at, sign)| at + sign.len());
    spaced.max(unspaced)
}

/// The last position at or before `end` that does not tear apart what a reader sees as one character.
fn grapheme_end(text: &str, end: usize) -> usize {
    let window = text.get(..end).unwrap_or(text);
    let starts = window.char_indices().map(|(at, _)| at).rev();
    let border = std::iter::once(end).chain(starts).find(|at| *at > 0 && is_border(text, *at));
    let first = text.chars().next().map_or(1, char::len_utf8);
    border.unwrap_or(end).max(first)
}

/// True unless the characters on both sides belong together: combining marks, joined emoji, flags, Hangul.
fn is_border(text: &str, at: usize) -> bool {
    static CONTINUES: LazyLock<Option<Regex>> = LazyLock::new(|| {
        Regex::new(r"^[\p{gcb=Extend}\p{gcb=SpacingMark}\p{gcb=ZWJ}\p{gcb=V}\p{gcb=T}]").ok()
    });
    let (Some(before), Some(after)) = (text.get(..at), text.get(at..)) else { return false };
    let continues = CONTINUES.as_ref().is_some_and(|shape| shape.is_match(after));
    let joined = before.ends_with('\u{200D}') || (before.ends_with('\r') && after.starts_with('\n'));
    let flags = before.chars().rev().take_while(|ch| is_flag_half(*ch)).count();
    let inside_flag = flags % 2 == 1 && after.starts_with(is_flag_half);
    !(continues || joined || inside_flag)
}

/// Two regional indicators make one flag.
const fn is_flag_half(ch: char) -> bool {
    matches!(ch, '\u{1F1E6}'..='\u{1F1FF}')
}

#[cfg(test)]
#[path = "split_tests.rs"]
mod tests;
