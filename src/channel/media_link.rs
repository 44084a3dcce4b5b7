//! Recognises the link that stands for a contact's file (MEDIA-101 to MEDIA-110, which decide over CHM-1 to
//! CHM-3). Written by hand: letter case is folded for ASCII only and a digit is `0` to `9`.

use url::Url;

use super::Media;
use crate::domain::{MediaKind, Redacted};

/// Host of all media links; a change of it, or of the path, shows in the log as `media_url_unmatched`.
pub const MEDIA_HOST: &str = "manybot-files.s3.eu-central-1.amazonaws.com";
/// Longest shape that is logged, in characters.
const LONGEST_SHAPE: usize = 120;
/// Runs of hex characters from this length on are hidden whole.
const HASH_RUN: usize = 12;

/// What a text turned out to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MediaLink {
    /// Typed words.
    None,
    /// The whole text is a media link.
    Media(Media),
    /// Typed words that hold a link to the media host in a form we do not know: to be logged at `warn` as
    /// `media_url_unmatched` with this shape (MEDIA-107, MEDIA-110), which shows nothing of the contact.
    Unmatched {
        /// The path with its numbers and hashes replaced.
        shape: String,
    },
}

/// Decides whether the whole text, trimmed, is a media link.
#[must_use]
pub fn recognise(text: &str) -> MediaLink {
    let trimmed = text.trim_matches(|ch: char| ch.is_whitespace() || ch == '\u{FEFF}');
    if let Some(kind) = media_kind(trimmed) {
        return MediaLink::Media(Media { kind, url: Redacted::new(trimmed.to_owned()) });
    }
    match unmatched_path(text) {
        Some(path) => MediaLink::Unmatched { shape: shape_of(&path) },
        None => MediaLink::None,
    }
}

/// `https://<host>/<digits>/wa/<yyyy>/<mm>/<dd>/original_<hex>.<ext>` (MEDIA-102).
fn media_kind(link: &str) -> Option<MediaKind> {
    let rest = strip_prefix_ignoring_case(link, "https://")?;
    let mut parts = rest.split('/');
    let host = parts.next()?;
    let account = parts.next()?;
    let channel = parts.next()?;
    let (year, month, day) = (parts.next()?, parts.next()?, parts.next()?);
    let file = parts.next()?;
    let fits = parts.next().is_none()
        && host.eq_ignore_ascii_case(MEDIA_HOST)
        && is_digits(account)
        && channel.eq_ignore_ascii_case("wa")
        && [(year, 4), (month, 2), (day, 2)].iter().all(|(part, len)| part.len() == *len && is_digits(part));
    let (hash, extension) = strip_prefix_ignoring_case(file, "original_")?.split_once('.')?;
    let named = !hash.is_empty()
        && hash.bytes().all(|byte| byte.is_ascii_hexdigit())
        && !extension.is_empty()
        && extension.bytes().all(|byte| byte.is_ascii_alphanumeric());
    (fits && named).then(|| kind_of(extension))
}

/// MEDIA-105
fn kind_of(extension: &str) -> MediaKind {
    match extension.to_ascii_lowercase().as_str() {
        "ogg" => MediaKind::Audio,
        "jpeg" | "jpg" | "png" => MediaKind::Image,
        "mp4" | "3gp" => MediaKind::Video,
        _ => MediaKind::Unsupported,
    }
}

/// Path of the first link whose parsed host is the media host (MEDIA-107 to MEDIA-109).
fn unmatched_path(text: &str) -> Option<String> {
    candidates(text)
        .filter_map(|candidate| Url::parse(candidate).ok())
        .find(|url| url.host_str() == Some(MEDIA_HOST))
        .map(|url| url.path().to_owned())
}

/// Runs that begin `http://` or `https://` and go on to the next white space; a link inside another link's run
/// is part of that run.
fn candidates(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let candidate = rest.match_indices("://").find_map(|(at, _)| link_start(rest, at))?;
        let link = candidate.split(|ch: char| ch.is_whitespace() || ch == '\u{FEFF}').next()?;
        rest = candidate.get(link.len()..)?;
        Some(link)
    })
}

/// The text from the scheme on, when `://` at this position follows one of the two schemes.
fn link_start(text: &str, at: usize) -> Option<&str> {
    ["https", "http"].into_iter().find_map(|scheme| {
        let start = at.checked_sub(scheme.len())?;
        text.get(start..at).filter(|word| word.eq_ignore_ascii_case(scheme)).and_then(|_| text.get(start..))
    })
}

/// Words of the platform's own paths. Any other may be a contact's.
const KNOWN_WORDS: [&str; 14] =
    ["wa", "ig", "fb", "tg", "original", "ogg", "oga", "jpeg", "jpg", "png", "mp", "gp", "webp", "pdf"];

/// MEDIA-110, and stricter: the path with its numbers and hashes replaced. In a path that is not built like the
/// platform's, every word that is not the platform's becomes `<w>` too: a contact can type a link of any words.
fn shape_of(path: &str) -> String {
    let shown =
        if is_built_like_a_file(path) { |_: &str| true } else { |word: &str| KNOWN_WORDS.contains(&word) };
    let mut shape = String::new();
    let mut rest = path;
    while let Some(first) = rest.chars().next() {
        let hex = run(rest, |byte| byte.is_ascii_hexdigit());
        let digits = run(rest, |byte| byte.is_ascii_digit());
        let word = word_length(rest);
        let taken = if hex >= HASH_RUN && hex > digits {
            shape.push_str("<hex>");
            hex
        } else if digits > 0 {
            shape.push_str("<n>");
            digits
        } else if word > 0 {
            let word = rest.get(..word).unwrap_or_default();
            shape.push_str(if shown(word) { word } else { "<w>" });
            word.len()
        } else {
            shape.push(first);
            first.len_utf8()
        };
        rest = rest.get(taken..).unwrap_or_default();
    }
    shape.chars().take(LONGEST_SHAPE).collect()
}

/// `/<digits>/<channel>/<digits>/<digits>/<digits>/<word>_<name>.<ext>`: the form of MEDIA-102 with other words in it, as
/// a change of the platform's format would look.
fn is_built_like_a_file(path: &str) -> bool {
    let parts: Vec<&str> = path.split('/').collect();
    let ["", account, channel, year, month, day, file] = parts.as_slice() else { return false };
    let short = |text: &str, most: usize| {
        (1..=most).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_alphanumeric())
    };
    let named = file.split_once('.').is_some_and(|(stem, extension)| {
        let named = stem.split_once('_').is_some_and(|(word, name)| short(word, 8) && short(name, 64));
        named && short(extension, 5)
    });
    [account, year, month, day].iter().all(|part| is_digits(part)) && short(channel, 3) && named
}

/// Bytes of the run that is neither number nor separator at the start of a text.
fn word_length(text: &str) -> usize {
    let ends = |ch: char| ch.is_ascii_digit() || matches!(ch, '/' | '.' | '_' | '-');
    text.find(ends).unwrap_or(text.len())
}

fn run(text: &str, belongs: fn(&u8) -> bool) -> usize {
    text.bytes().take_while(belongs).count()
}

fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

fn strip_prefix_ignoring_case<'text>(text: &'text str, prefix: &str) -> Option<&'text str> {
    let head = text.get(..prefix.len())?;
    head.eq_ignore_ascii_case(prefix).then(|| text.get(prefix.len()..)).flatten()
}

#[cfg(test)]
#[path = "media_link_tests.rs"]
mod tests;
