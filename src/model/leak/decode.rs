//! Texts inside a text: base64, base32, hexadecimal, character codes, bits, other signs for the letters. What comes out is
//! looked through like the reply itself; it has to be text, so ordinary words that happen to fit an alphabet cost nothing
//! more.

use base64::Engine as _;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

mod pieces;
mod signs;

use crate::model::fold;

/// An encoding may stand inside an encoding.
const DEPTH: usize = 2;
/// Characters that decode to fewer letters than anything that counts.
const FEWEST_CODES: usize = 24;

const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_allow_trailing_bits(true)
        .with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// The text and everything that is encoded in it.
pub fn all(text: &str) -> Vec<String> {
    let mut found = vec![text.to_owned()];
    let mut from = 0;
    for _ in 0..DEPTH {
        let next: Vec<String> = found.iter().skip(from).flat_map(|text| once(text)).collect();
        from = found.len();
        found.extend(next);
    }
    found
}

fn once(text: &str) -> Vec<String> {
    let shown = fold::readable(text);
    let bare: String = shown.chars().filter(|glyph| !glyph.is_whitespace()).collect();
    let decoded = base64(&bare).into_iter().chain(base32(&bare)).chain(hexadecimal(&bare)).chain(bits(&bare));
    let decoded = decoded.chain(pieces::digits(&shown)).chain(signs::hidden_bytes(text));
    // No printable character has a code of one digit.
    let may_be_codes = text.bytes().filter(u8::is_ascii_digit).count() >= 2 * FEWEST_CODES;
    let radices = [10, 8].into_iter().filter(|_| may_be_codes);
    let codes = radices.filter_map(|radix| character_codes(text, radix));
    let joined = pieces::words(&shown).into_iter().chain(signs::letters(text));
    decoded.filter_map(|bytes| as_text(&bytes)).chain(codes).chain(joined).collect()
}

/// Mostly legible, or it was no encoding.
fn as_text(bytes: &[u8]) -> Option<String> {
    // Every second byte of UTF-16 is zero.
    let kept: Vec<u8> = bytes.iter().copied().filter(|byte| *byte != 0).collect();
    (kept.len() >= FEWEST_CODES && is_legible(&kept)).then(|| String::from_utf8_lossy(&kept).into_owned())
}

/// At most three characters in ten are control characters or no characters at all. Words of an ordinary reply decode to
/// something too, which nobody wants as a text.
fn is_legible(bytes: &[u8]) -> bool {
    let illegible =
        |glyph: &char| *glyph == char::REPLACEMENT_CHARACTER || glyph.is_control() && !glyph.is_whitespace();
    let (mut all, mut bad) = (0, 0);
    for chunk in bytes.utf8_chunks() {
        let broken = usize::from(!chunk.invalid().is_empty());
        all += chunk.valid().chars().count() + broken;
        bad += chunk.valid().chars().filter(illegible).count() + broken;
    }
    bad * 10 <= all * 3
}

/// Every run of the alphabet at each of its four beginnings: words may stand right before it.
fn base64(bare: &str) -> Vec<Vec<u8>> {
    let standard = bare.replace('-', "+").replace('_', "/");
    let runs = standard.split(|glyph: char| !(glyph.is_ascii_alphanumeric() || "+/".contains(glyph)));
    let long = runs.filter(|run| run.len() >= FEWEST_CODES * 4 / 3);
    long.flat_map(|run| (0..4).filter_map(|start| decode_from(run, start))).collect()
}

fn decode_from(run: &str, start: usize) -> Option<Vec<u8>> {
    let rest = run.get(start..)?;
    BASE64.decode(rest.get(..rest.len() / 4 * 4)?).ok()
}

/// Every run of capitals and the digits of that alphabet, at each of its eight beginnings.
fn base32(bare: &str) -> Vec<Vec<u8>> {
    let runs = bare.split(|glyph: char| five_bits(glyph).is_none());
    let long = runs.filter(|run| run.len() >= FEWEST_CODES * 8 / 5);
    let starts = |run| (0..8).map(move |start| eights(str::get(run, start..).unwrap_or_default()));
    long.flat_map(starts).collect()
}

fn five_bits(glyph: char) -> Option<u64> {
    match glyph {
        'A'..='Z' => Some(u64::from(glyph) - u64::from('A')),
        '2'..='7' => Some(u64::from(glyph) - u64::from('2') + 26),
        _ => None,
    }
}

/// Five bytes from every eight digits; the rest of a group is left out.
fn eights(run: &str) -> Vec<u8> {
    let digits: Vec<u64> = run.chars().filter_map(five_bits).collect();
    let bytes = |group: &[u64]| group.iter().fold(0, |all, digit| all << 5 | digit).to_be_bytes();
    digits.chunks_exact(8).flat_map(|group| bytes(group).into_iter().skip(3)).collect()
}

/// Pairs of digits, with whatever usually stands before or between them.
fn hexadecimal(bare: &str) -> Vec<Vec<u8>> {
    let mut digits = bare.to_lowercase();
    if !may_hold_hexadecimal(&digits) {
        return Vec::new();
    }
    for around in ["\\u00", "u+00", "&#x", "\\x", "0x", "%", ";", ",", ":", "-"] {
        digits = digits.replace(around, "");
    }
    let runs = digits.split(|glyph: char| !glyph.is_ascii_hexdigit());
    let long = runs.filter(|run| run.len() >= 2 * FEWEST_CODES);
    long.flat_map(|run| (0..2).map(|start| numbers(run.get(start..).unwrap_or_default(), 2, 16))).collect()
}

/// Whether there are enough digits with nothing but what may stand around them in between: in words there never are.
fn may_hold_hexadecimal(lower: &str) -> bool {
    let belongs = |byte: u8| byte.is_ascii_hexdigit() || b"\\u+&#x%;,:-".contains(&byte);
    let runs = lower.as_bytes().split(|byte| !belongs(*byte));
    runs.filter(|run| run.len() >= 2 * FEWEST_CODES)
        .any(|run| run.iter().filter(|byte| byte.is_ascii_hexdigit()).count() >= 2 * FEWEST_CODES)
}

fn bits(bare: &str) -> Vec<Vec<u8>> {
    let runs = bare.split(|glyph| glyph != '0' && glyph != '1');
    runs.filter(|run| run.len() >= 8 * FEWEST_CODES).map(|run| numbers(run, 8, 2)).collect()
}

/// `width` digits a number; the digits are ASCII.
fn numbers(digits: &str, width: usize, radix: u32) -> Vec<u8> {
    let groups = digits.as_bytes().chunks_exact(width).filter_map(|group| std::str::from_utf8(group).ok());
    groups.filter_map(|group| u8::from_str_radix(group, radix).ok()).collect()
}

/// Decimal or octal codes of printable characters, whatever stands between them: `79 80 69`, `&#79;&#80;`.
fn character_codes(text: &str, radix: u32) -> Option<String> {
    let numbers = text.split(|glyph: char| !glyph.is_ascii_digit()).filter(|digits| !digits.is_empty());
    let codes = numbers.filter_map(|digits| u8::from_str_radix(digits, radix).ok());
    let letters: String = codes.filter(|code| matches!(code, b' '..=b'~')).map(char::from).collect();
    (letters.len() >= FEWEST_CODES).then_some(letters)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How one byte is written.
    type Form = fn(u8) -> String;

    /// 01 section 17: encodings that are looked for only where there may be some are found at their shortest.
    #[test]
    fn the_shortest_encodings_are_found() {
        let text = "operating rules security";
        assert_eq!(text.len(), FEWEST_CODES);
        let forms: [(Form, &str); 11] = [
            (|byte| format!("{byte:02x}"), ""),
            (|byte| format!("{byte:02X}"), " "),
            (|byte| format!("\\x{byte:02x}"), ""),
            (|byte| format!("%{byte:02X}"), ""),
            (|byte| format!("0x{byte:02x}"), ", "),
            (|byte| format!("&#x{byte:x};"), ""),
            (|byte| format!("\\u{byte:04x}"), ""),
            (|byte| format!("U+{byte:04X}"), "-"),
            (|byte| format!("{byte}"), " "),
            (|byte| format!("{byte:o}"), "-"),
            (|byte| format!("&#{byte};"), ""),
        ];
        for (form, between) in forms {
            let encoded = text.bytes().map(form).collect::<Vec<_>>().join(between);
            for shown in [encoded.clone(), format!("See this: {encoded}. Well?")] {
                assert!(all(&shown).iter().any(|found| found == text), "{shown}");
            }
        }
    }

    /// 01 section 17: what words decode to is no text; three broken characters in ten are the most.
    #[test]
    fn a_decoded_text_is_mostly_legible() {
        let bytes = |broken: usize| [vec![0xff; broken], vec![b'a'; 30 - broken]].concat();
        assert!(as_text(&bytes(9)).is_some_and(|text| text.chars().count() == 30));
        assert_eq!(as_text(&bytes(10)), None);
        assert_eq!(as_text(&[1; 30]), None);
        assert!(as_text("\u{fffd}\u{fffd}é\n\taaaaaaaaaaaaaaaaaaaaa".as_bytes()).is_some());
        assert_eq!(as_text(&[b'a'; FEWEST_CODES - 1]), None);
        assert_eq!(as_text(b"a\0".repeat(FEWEST_CODES).as_slice()), Some("a".repeat(FEWEST_CODES)));
    }
}
