//! What is encoded in pieces: a word or a line at a time, digits with anything between them. What the pieces hold is put
//! together before it is looked through.

use super::{FEWEST_CODES, decode_from, five_bits, five_bits_hex, numbers};

/// Digits of eight bits; with seven, the first one is left out.
const BITS: [usize; 2] = [8, 7];

/// Every word on its own, and each spelled backward, in each of the alphabets; what does not decode to plain text is no
/// code. A word may stand between quotation marks or behind the number of a list.
pub fn words(shown: &str) -> Vec<String> {
    let words: Vec<&str> =
        shown.split(|glyph: char| !is_base64(glyph)).filter(|word| word.len() > 1).collect();
    let backward: Vec<String> = words.iter().map(|word| word.chars().rev().collect()).collect();
    let backward: Vec<&str> = backward.iter().map(String::as_str).collect();
    let all = [joined(&words, base64), joined(&backward, base64)];
    let more =
        [joined(&words, |word| base32(word, five_bits)), joined(&words, |word| base32(word, five_bits_hex))];
    all.into_iter().chain(more).filter(|text| text.len() >= FEWEST_CODES).collect()
}

fn is_base64(glyph: char) -> bool {
    glyph.is_ascii_alphanumeric() || "+/-_".contains(glyph)
}

fn joined(words: &[&str], decode: impl Fn(&str) -> Option<Vec<u8>>) -> String {
    let plain = words.iter().filter_map(|word| String::from_utf8(decode(word)?).ok());
    let legible = |text: &String| text.chars().all(|glyph| !glyph.is_control() || glyph.is_whitespace());
    plain.filter(legible).collect::<Vec<_>>().join(" ")
}

fn base64(word: &str) -> Option<Vec<u8>> {
    let standard = word.replace('-', "+").replace('_', "/");
    // A single letter more than the groups hold no byte.
    let whole = if standard.len() % 4 == 1 { standard.len() - 1 } else { standard.len() };
    let (groups, rest) = standard.split_at_checked(whole / 4 * 4)?;
    let mut bytes = decode_from(groups, 0)?;
    if rest.len() > 1 {
        let padded = format!("{rest:A<4}");
        bytes.extend(decode_from(&padded, 0)?.into_iter().take(rest.len() - 1));
    }
    Some(bytes)
}

/// In any case; a last group that is not whole gives the bytes it has.
fn base32(word: &str, five_bits: fn(char) -> Option<u64>) -> Option<Vec<u8>> {
    let digits: Vec<u64> =
        word.chars().map(|glyph| five_bits(glyph.to_ascii_uppercase())).collect::<Option<_>>()?;
    let group = |digits: &[u64]| {
        let all = (0..8).fold(0, |all, place| all << 5 | digits.get(place).copied().unwrap_or_default());
        all.to_be_bytes().into_iter().skip(3).take(digits.len() * 5 / 8).collect::<Vec<u8>>()
    };
    Some(digits.chunks(8).flat_map(group).collect())
}

/// Hexadecimal digits and bits, two or eight at a time, whatever stands before, between and behind them: `4f.50`, `[0x4f]`,
/// `=4F`, `4fh`, `\u{4f}`.
pub fn digits(shown: &str) -> Vec<Vec<u8>> {
    let lower = shown.to_ascii_lowercase();
    let tokens = || lower.split(|glyph: char| !glyph.is_ascii_alphanumeric());
    let pairs: String = tokens().filter_map(pair).collect();
    let mut found: Vec<Vec<u8>> = Vec::new();
    if pairs.len() >= 2 * FEWEST_CODES {
        found.push(numbers(&pairs, 2, 16));
    }
    for width in BITS {
        let bits: String = tokens().filter_map(|token| bits(token, width)).collect();
        if bits.len() >= width * FEWEST_CODES {
            found.push(numbers(&bits, width, 2));
        }
    }
    found
}

/// The digits of a token that has pairs of them, without the marks of a number.
fn pair(token: &str) -> Option<&str> {
    let bare =
        ["0x", "u00", "x00", "x", "u"].iter().find_map(|mark| token.strip_prefix(mark)).unwrap_or(token);
    let bare = bare.strip_suffix('h').unwrap_or(bare);
    let is_whole = !bare.is_empty() && bare.len().is_multiple_of(2);
    (is_whole && bare.bytes().all(|digit| digit.is_ascii_hexdigit())).then_some(bare)
}

fn bits(token: &str, width: usize) -> Option<&str> {
    let bare = token.strip_prefix("0b").or_else(|| token.strip_prefix('b')).unwrap_or(token);
    let is_whole = !bare.is_empty() && bare.len().is_multiple_of(width);
    (is_whole && bare.bytes().all(|digit| matches!(digit, b'0' | b'1'))).then_some(bare)
}
