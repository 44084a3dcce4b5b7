//! A text as a reader sees it, and the letters of it that are compared.

use std::borrow::Cow;

use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;

/// What becomes of digits, and of signs that look like a letter.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Digits {
    /// They are left out.
    Dropped,
    /// They are read as the letters they look like.
    Read,
}

/// Styles, widths and circles of letters resolved, marks and invisible characters left out, look-alikes of other scripts
/// written as the Latin letters they look like. Case, spaces and punctuation stay.
pub fn readable(text: &str) -> Cow<'_, str> {
    if text.is_ascii() {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len());
    for glyph in text.chars() {
        // Nearly every character of a text with a few others is one of these, and is shown as itself.
        if glyph.is_ascii() {
            shown.push(glyph);
        } else {
            shown.extend(plain(glyph));
        }
    }
    Cow::Owned(shown)
}

/// One character as [`readable`] shows it; nothing, when nobody sees it.
pub fn plain(glyph: char) -> impl Iterator<Item = char> {
    let parts = seen(glyph).into_iter().nfkd().filter(|part| !is_combining_mark(*part));
    parts.filter_map(seen).map(latin)
}

/// [`readable`] without spaces, marks and formatting: letters, digits, and the brackets of markers.
pub fn tight(text: &str) -> String {
    let mut shown = readable(text).into_owned();
    shown.retain(|glyph| glyph.is_alphanumeric() || matches!(glyph, '<' | '>' | '(' | ')'));
    shown
}

/// The letters alone, in lower case, those that are easily taken for each other as one.
pub fn letters(text: &str, digits: Digits) -> Vec<u32> {
    let shown = readable(text);
    let mut letters = Vec::with_capacity(shown.len());
    if shown.is_ascii() {
        let lower = shown.bytes().map(|byte| char::from(byte.to_ascii_lowercase()));
        letters.extend(lower.filter_map(|glyph| compared(glyph, digits)).map(u32::from));
    } else {
        let lower = shown.chars().flat_map(char::to_lowercase);
        letters.extend(lower.filter_map(|glyph| compared(glyph, digits)).map(u32::from));
    }
    letters
}

/// The Latin letters alone, `a` to `z`.
pub fn latin_letters(text: &str) -> Vec<u8> {
    let lower = readable(text).to_ascii_lowercase();
    lower.bytes().filter(u8::is_ascii_lowercase).collect()
}

/// The snake_case and camelCase words, in lower case. Backslashes of Markdown do not count.
pub fn identifiers(text: &str) -> Vec<String> {
    if text.is_ascii() && !text.contains('_') && !is_camel(text) {
        return Vec::new();
    }
    let shown = readable(text).replace('\\', "");
    let words = shown.split(|glyph: char| !(glyph.is_alphanumeric() || glyph == '_'));
    let words = words.map(|word| word.trim_matches('_'));
    words.filter(|word| word.contains('_') || is_camel(word)).map(str::to_lowercase).collect()
}

/// Whether a capital stands behind a small letter.
fn is_camel(text: &str) -> bool {
    let next = text.chars().skip(1);
    text.chars().zip(next).any(|(glyph, next)| glyph.is_lowercase() && next.is_uppercase())
}

fn compared(glyph: char, digits: Digits) -> Option<char> {
    let letter = match (glyph, digits) {
        ('0', Digits::Read) => 'o',
        ('1' | '!' | '|', Digits::Read) => 'i',
        ('3' | '€', Digits::Read) => 'e',
        ('4' | '@', Digits::Read) => 'a',
        ('5' | '$', Digits::Read) => 's',
        ('6' | '9', Digits::Read) => 'g',
        ('7' | '+', Digits::Read) => 't',
        ('8', Digits::Read) => 'b',
        ('l', _) => 'i',
        _ => glyph,
    };
    letter.is_alphabetic().then_some(letter)
}

/// `None` for what nobody sees. A tag character is the ASCII character it hides.
fn seen(glyph: char) -> Option<char> {
    match glyph {
        '\u{e0020}'..='\u{e007e}' => char::from_u32(u32::from(glyph) - 0xe0000),
        '\u{1f1e6}'..='\u{1f1ff}' => letter(u32::from(glyph) - 0x1f1e6),
        '\u{1f150}'..='\u{1f169}' => letter(u32::from(glyph) - 0x1f150),
        '\u{1f170}'..='\u{1f189}' => letter(u32::from(glyph) - 0x1f170),
        hidden if is_invisible(hidden) => None,
        other => Some(other),
    }
}

fn letter(place: u32) -> Option<char> {
    char::from_u32(u32::from('A') + place)
}

/// Zero-width, direction and filler characters.
const fn is_invisible(glyph: char) -> bool {
    matches!(
        glyph,
        '\u{ad}'
            | '\u{34f}'
            | '\u{61c}'
            | '\u{115f}'
            | '\u{1160}'
            | '\u{17b4}'
            | '\u{17b5}'
            | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200f}'
            | '\u{202a}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{2800}'
            | '\u{3164}'
            | '\u{fe00}'..='\u{fe0f}'
            | '\u{feff}'
            | '\u{ffa0}'
            | '\u{e0000}'..='\u{e0fff}'
    )
}

/// Look-alikes of Latin letters, each followed by the letter.
const LOOK_ALIKES: [&str; 7] = [
    // foreign text: Cyrillic, small
    "аaвbеeѕsіiјjкkмmнhоoпnрpсcтtуyхxԁdԛqԝwһhҽeӏlьbгr",
    // foreign text: Cyrillic, capital
    "АAВBЕEЅSІIЈJКKМMНHОOРPСCТTУYХXԀDԚQԜWҺHӀlГr",
    // foreign text: Greek, small
    "αaβbγyεeηnιiκkνvοoρpςsσoτtυuχxωw",
    // foreign text: Greek, capital
    "ΑAΒBΕEΖZΗHΙIΚKΜMΝNΟOΡPΤTΥYΧX",
    // foreign text: Cherokee
    "ᎪAᏴBᏟCᎠDᎬEᏀGᎻHᎫJᏦKᏞLᎷMᏢPᎡRᏚSᎢTᏙVᎳWᏃZ",
    // foreign text: small capitals
    "ᴀaʙbᴄcᴅdᴇeꜰfɢgʜhɪiᴊjᴋkʟlᴍmɴnᴏoᴘpʀrꜱsᴛtᴜuᴠvᴡwʏyᴢz",
    // foreign text: Latin and Armenian
    "ɑaɡgıiȷjʋvøoØOđdĐDłlŁLħhĦHŧtŦTƒfɩiաwօoսuհhոnցgԍgƚlɓbɗdɛeɵo",
];

fn latin(glyph: char) -> char {
    if glyph.is_ascii() {
        return glyph;
    }
    table().get(&glyph).copied().unwrap_or(glyph)
}

fn table() -> &'static std::collections::HashMap<char, char> {
    static TABLE: std::sync::LazyLock<std::collections::HashMap<char, char>> =
        std::sync::LazyLock::new(|| {
            let pairs: Vec<char> = LOOK_ALIKES.iter().flat_map(|row| row.chars()).collect();
            pairs.chunks_exact(2).filter_map(|pair| Some((*pair.first()?, *pair.last()?))).collect()
        });
    &TABLE
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 01 section 17: every entry of the table is a look-alike and a Latin letter.
    #[test]
    fn the_table_pairs_foreign_letters_with_latin_ones() {
        assert!(LOOK_ALIKES.iter().all(|row| row.chars().count().is_multiple_of(2)));
        assert!(table().len() > 140, "{}", table().len());
        for (foreign, latin) in table() {
            assert!(!foreign.is_ascii() && latin.is_ascii_alphabetic(), "{foreign} {latin}");
        }
    }

    /// 01 section 17: what a reader sees as the same word becomes the same word.
    #[test]
    fn disguises_are_readable() {
        let disguises = [
            "Security",
            "Sеcurіtу",
            "S\u{200b}e\u{2060}c\u{ad}u\u{202e}rity",
            "Ｓｅｃｕｒｉｔｙ",
            "𝐒𝐞𝐜𝐮𝐫𝐢𝐭𝐲",
            "𝓢𝓮𝓬𝓾𝓻𝓲𝓽𝔂",
            "Ⓢⓔⓒⓤⓡⓘⓣⓨ",
            "Sécürîtÿ",
            "S\u{336}e\u{336}c\u{336}u\u{336}r\u{336}i\u{336}t\u{336}y\u{336}",
            "\u{e0053}\u{e0065}\u{e0063}\u{e0075}\u{e0072}\u{e0069}\u{e0074}\u{e0079}",
        ];
        for text in disguises {
            assert_eq!(readable(text), "Security", "{text}");
        }
        assert_eq!(readable("🇸🇪🇨🅄🅁🅘🅣🆈"), "SECURITY");
        assert_eq!(letters("S3cur1ty", Digits::Read), letters("SECURITY", Digits::Dropped));
        assert_eq!(tight("S. E_C U*R-I T Y (x)"), "SECURITY(x)");
    }

    /// 01 section 17: snake_case words, whatever marks stand around them.
    #[test]
    fn identifiers_are_words_with_an_inner_underscore_or_capital() {
        assert_eq!(identifiers("the contactAsked of Ana, at 9AM"), ["contactasked"]);
        assert_eq!(
            identifiers("_now_ *Low_Confidence*, price\\_negotiation __x__"),
            ["low_confidence", "price_negotiation"]
        );
        assert_eq!(identifiers("no such word"), [] as [String; 0]);
    }
}
