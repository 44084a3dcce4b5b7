//! What is encoded in pieces: a word or a line at a time, digits with anything between them. What the pieces hold is put
//! together before it is looked through.

use super::{FEWEST_CODES, five_bits, numbers};

/// Digits of eight bits; with seven, the first one is left out.
const BITS: [usize; 2] = [8, 7];
/// Bytes of joined words that are too few to give anything away, however they are read.
const FEWEST_JOINED: usize = 48;

/// Every word on its own, and each spelled backward, in each of the alphabets; what does not decode to plain text is no
/// code. A word may stand between quotation marks or behind the number of a list.
pub fn words(shown: &str) -> Vec<String> {
    let words: Vec<&[u8]> = shown
        .split(|glyph: char| !is_base64(glyph))
        .filter(|word| word.len() > 1)
        .map(str::as_bytes)
        .collect();
    let forward = |word: &[u8], coded: &mut Vec<u8>| groups(word.iter(), 6, six_bits, coded);
    let backward = |word: &[u8], coded: &mut Vec<u8>| groups(word.iter().rev(), 6, six_bits, coded);
    let any_case = |digit: u8| five_bits(char::from(digit.to_ascii_uppercase()));
    // The digits `0` to `9` and `A` to `V` of base32hex, in any case.
    let of_32 = |digit: u8| char::from(digit).to_digit(32).map(u64::from);
    let base32 = |word: &[u8], coded: &mut Vec<u8>| groups(word.iter(), 5, any_case, coded);
    let base32_hex = |word: &[u8], coded: &mut Vec<u8>| groups(word.iter(), 5, of_32, coded);
    let all = [
        joined(&words, forward),
        joined(&words, backward),
        joined(&words, base32),
        joined(&words, base32_hex),
    ];
    all.into_iter().flatten().collect()
}

fn is_base64(glyph: char) -> bool {
    glyph.is_ascii_alphanumeric() || "+/-_".contains(glyph)
}

/// The words that decode to plain text, as that text; nothing when they are too few. `decode` fills the buffer, or says
/// that the word is none.
fn joined(words: &[&[u8]], decode: impl Fn(&[u8], &mut Vec<u8>) -> bool) -> Option<String> {
    let mut joined = String::new();
    let mut coded = Vec::new();
    let mut bytes = 0;
    for word in words {
        coded.clear();
        if !decode(word, &mut coded) {
            continue;
        }
        if let Some(text) = str::from_utf8(&coded).ok().filter(|text| is_plain(text)) {
            bytes += text.len();
            joined.push_str(text);
            joined.push(' ');
        }
    }
    (bytes >= FEWEST_JOINED).then_some(joined)
}

/// At least half of it letters and spaces, none of it a control character: short words decode to something by chance.
fn is_plain(text: &str) -> bool {
    let (mut all, mut letters) = (0, 0);
    for glyph in text.chars() {
        let is_space = glyph.is_whitespace();
        if glyph.is_control() && !is_space {
            return false;
        }
        all += 1;
        letters += usize::from(is_space || glyph.is_alphabetic());
    }
    letters * 2 >= all
}

/// The bytes of a run of digits, each of so many bits; bits that make no whole byte are left out. False as soon as it is
/// clear that no plain text comes out: most words of a reply end at their first bytes.
fn groups<'word>(
    digits: impl Iterator<Item = &'word u8>,
    width: u32,
    value: fn(u8) -> Option<u64>,
    coded: &mut Vec<u8>,
) -> bool {
    let (mut bits, mut count) = (0_u64, 0);
    for digit in digits {
        let Some(value) = value(*digit) else { return false };
        bits = bits << width | value;
        count += width;
        if count >= 8 {
            count -= 8;
            let byte = u8::try_from(bits >> count & 0xff).unwrap_or_default();
            let is_first = coded.is_empty();
            if byte.is_ascii_control() && !byte.is_ascii_whitespace() || is_first && !may_begin(byte) {
                return false;
            }
            coded.push(byte);
        }
    }
    !coded.is_empty()
}

/// The first byte of a character in UTF-8.
const fn may_begin(byte: u8) -> bool {
    matches!(byte, 0..=0x7f | 0xc2..=0xf4)
}

fn six_bits(digit: u8) -> Option<u64> {
    match digit {
        b'A'..=b'Z' => Some(u64::from(digit - b'A')),
        b'a'..=b'z' => Some(u64::from(digit - b'a') + 26),
        b'0'..=b'9' => Some(u64::from(digit - b'0') + 52),
        b'+' | b'-' => Some(62),
        b'/' | b'_' => Some(63),
        _ => None,
    }
}

/// Hexadecimal digits and bits, two or eight at a time, whatever stands before, between and behind them: `4f.50`, `[0x4f]`,
/// `=4F`, `4fh`, `\u{4f}`.
pub fn digits(shown: &str) -> Vec<Vec<u8>> {
    // The first of two hexadecimal digits of a letter without a mark is a decimal one, and so is every bit.
    if shown.bytes().filter(u8::is_ascii_digit).count() < FEWEST_CODES {
        return Vec::new();
    }
    let binary = shown.bytes().filter(|byte| matches!(byte, b'0' | b'1')).count();
    let lower = shown.to_ascii_lowercase();
    let tokens = || lower.split(|glyph: char| !glyph.is_ascii_alphanumeric());
    let pairs: String = tokens().filter_map(pair).collect();
    let mut found: Vec<Vec<u8>> = Vec::new();
    if pairs.len() >= 2 * FEWEST_CODES {
        found.push(numbers(&pairs, 2, 16));
    }
    for width in BITS.into_iter().filter(|width| binary >= width * FEWEST_CODES) {
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
