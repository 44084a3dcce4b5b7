//! Letters written as other signs: turned upside down, in Braille, as bytes in characters that nobody sees.

use super::FEWEST_CODES;

/// Turned letters, each followed by the upright one. Those that turn into another upright letter are in [`TURNED_ASCII`].
const TURNED: &str =
    // foreign text: letters of the phonetic alphabet
    "ɐaɔcǝeɟfɓgƃgᵷgɥhᴉiıiɾjſjʞkʃlꞁlʅlɯmɹrʇtʌvʍwʎy∀AϽCƎEℲFפGſJ˥LԀPɹR┴TΛVMW⅄Y";
const TURNED_ASCII: &str = "bqqbdppdnuun";
/// The first of the turned letters that are no upright ones.
const FIRST_TURNED: char = '\u{131}';
/// Turned letters that make a text one that was turned.
const TURNED_ENOUGH: usize = 8;
/// The letters of Braille from `a` on, each as its place behind U+2800.
const BRAILLE: [u32; 26] =
    [1, 3, 9, 25, 17, 11, 27, 19, 10, 26, 5, 7, 13, 29, 21, 15, 31, 23, 14, 30, 37, 39, 58, 45, 61, 53];
const BRAILLE_FROM: u32 = 0x2800;

/// The text with such signs as letters, when it has enough of them to say something.
pub fn letters(text: &str) -> Option<String> {
    if text.is_ascii() {
        return None;
    }
    let braille = text.chars().filter(|glyph| from_braille(*glyph).is_some()).count();
    if braille >= FEWEST_CODES {
        return Some(text.chars().map(|glyph| from_braille(glyph).unwrap_or(glyph)).collect());
    }
    let is_turned = |glyph: &char| *glyph >= FIRST_TURNED && upright(*glyph, TURNED).is_some();
    let turned = text.chars().filter(is_turned).take(TURNED_ENOUGH).count();
    let turn = |glyph: char| upright(glyph, TURNED).or_else(|| upright(glyph, TURNED_ASCII)).unwrap_or(glyph);
    (turned == TURNED_ENOUGH).then(|| text.chars().map(turn).collect())
}

fn upright(glyph: char, table: &str) -> Option<char> {
    let mut pairs = table.chars();
    while let (Some(turned), Some(upright)) = (pairs.next(), pairs.next()) {
        if turned == glyph {
            return Some(upright);
        }
    }
    None
}

fn from_braille(glyph: char) -> Option<char> {
    let dots = u32::from(glyph).checked_sub(BRAILLE_FROM)?;
    let place = BRAILLE.iter().position(|letter| *letter == dots)?;
    char::from_u32(u32::from('a') + u32::try_from(place).ok()?)
}

/// A byte for each variation selector, of which there are 256.
pub fn hidden_bytes(text: &str) -> Option<Vec<u8>> {
    if text.is_ascii() {
        return None;
    }
    let byte = |glyph: char| match glyph {
        '\u{fe00}'..='\u{fe0f}' => u8::try_from(u32::from(glyph) - 0xfe00).ok(),
        '\u{e0100}'..='\u{e01ef}' => u8::try_from(u32::from(glyph) - 0xe0100 + 16).ok(),
        _ => None,
    };
    let bytes: Vec<u8> = text.chars().filter_map(byte).collect();
    (bytes.len() >= FEWEST_CODES).then_some(bytes)
}
