//! What must not come out: shapes of personal data in text (PII-3), keys that are removed (PII-1), and the
//! process's own secrets. Pure functions, so that a note can be cleaned by the same definition (PII-7).

use std::borrow::Cow;
use std::sync::LazyLock;

use regex::{NoExpand, Regex};

use super::figures::is_date_or_price;

/// What stands in place of each shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Marks {
    /// For a link to a contact's file.
    pub media: &'static str,
    /// For any other link.
    pub link: &'static str,
    /// For an e-mail address.
    pub email: &'static str,
    /// For a phone number.
    pub phone: &'static str,
    /// For a word of seven or more digits.
    pub number: &'static str,
}

impl Marks {
    /// The marks of log lines (PII-3).
    pub const LOG: Self =
        Self { media: "[media-url]", link: "[url]", email: "[email]", phone: "[phone]", number: "[number]" };

    /// The same mark for every shape, as notes want it (NOTE-2).
    #[must_use]
    pub const fn uniform(mark: &'static str) -> Self {
        Self { media: mark, link: mark, email: mark, phone: mark, number: mark }
    }
}

/// What is left of a text when the shapes could not be compiled: nothing. A test keeps that from happening.
const UNREADABLE: &str = "[redacted]";

struct Shapes {
    media: Regex,
    link: Regex,
    email: Regex,
    email_any_script: Regex,
    phone: Regex,
    phone_of_the_clause: Regex,
    number: Regex,
}

/// Fewest digits of a phone number in the spellings that are ours: `450 / 615` is none.
const FEWEST_DIGITS: usize = 7;

impl Shapes {
    fn compile() -> Result<Self, regex::Error> {
        Ok(Self {
            media: Regex::new(
                r#"(?i-u:https?://manybot-files\.s3[a-z0-9_.-]*\.amazonaws\.com)[^\s\x{FEFF}"'\\<>]*"#,
            )?,
            link: Regex::new(r#"(?-u:\b)(?:(?i-u:https?://|www\.)|(?i-u:www)．)[^\s\x{FEFF}"'\\<>]+"#)?,
            email: Regex::new(r"[A-Za-z0-9_.+-]+@[A-Za-z0-9_-]+\.[A-Za-z0-9_.]{2,}")?,
            // Addresses with letters outside ASCII, full-width signs or invisible characters, which the shape above
            // leaves whole.
            email_any_script: Regex::new(r"[\w.+．＋\p{Cf}-]+[@＠﹫][\w\p{Cf}-]+[.．][\w.．\p{Cf}]{2,}")?,
            // As phones and their keyboards write numbers: dashes of every length, slashes, middle dots, full-width signs,
            // and the invisible characters that come along when a number is copied.
            phone: Regex::new(
                r"(?:[+＋]\p{Cf}*)?\p{Nd}[\p{Nd}\s\p{Cf}\p{Cc}().‐‑‒–—―−﹘﹣－/⁄∕／·∙⋅・（）．-]{7,}\p{Nd}",
            )?,
            phone_of_the_clause: Regex::new(r"\+?\p{Nd}[\p{Nd}\s\x{FEFF}().-]{7,}\p{Nd}")?,
            number: Regex::new(
                r"(?-u:\b)[0-9](?:\p{Cf}*[0-9]){6,}(?-u:\b)|[\p{Nd}--0-9](?:\p{Cf}*[\p{Nd}--0-9]){6,}",
            )?,
        })
    }
}

static SHAPES: LazyLock<Option<Shapes>> = LazyLock::new(|| Shapes::compile().ok());

/// Replaces links, e-mail addresses, phone numbers and long numbers by the marks of the log (PII-3).
#[must_use]
pub fn scrub_text(text: &str) -> Cow<'_, str> {
    scrub_with(text, &Marks::LOG)
}

/// As [`scrub_text`], with marks of the caller's choice (PII-7). Links go first because a link can hold an
/// address or digits, addresses before phones for the same reason (PII-4).
#[must_use]
pub fn scrub_with<'text>(text: &'text str, marks: &Marks) -> Cow<'text, str> {
    let hints = Hints::of(text);
    if !hints.any() {
        return Cow::Borrowed(text);
    }
    let Some(shapes) = SHAPES.as_ref() else { return Cow::Borrowed(UNREADABLE) };
    let mut clean = Cow::Borrowed(text);
    if hints.link {
        replace(&mut clean, &shapes.media, marks.media);
        replace(&mut clean, &shapes.link, marks.link);
    }
    if hints.at_sign {
        replace(&mut clean, &shapes.email, marks.email);
        replace(&mut clean, &shapes.email_any_script, marks.email);
    }
    if hints.digits {
        replace_phones(&mut clean, shapes, marks.phone);
        replace(&mut clean, &shapes.number, marks.number);
    }
    clean
}

/// Replaces only links to contacts' files, for a finished line (PII-2, MEDIA-711).
#[must_use]
pub fn scrub_media_links(line: &str) -> Cow<'_, str> {
    if !contains_ignoring_case(line.as_bytes(), b"manybot-files") {
        return Cow::Borrowed(line);
    }
    match SHAPES.as_ref() {
        Some(shapes) => shapes.media.replace_all(line, NoExpand(Marks::LOG.media)),
        None => Cow::Borrowed(UNREADABLE),
    }
}

fn replace(text: &mut Cow<'_, str>, shape: &Regex, mark: &str) {
    let replaced = match shape.replace_all(text, NoExpand(mark)) {
        Cow::Owned(new) => Some(new),
        Cow::Borrowed(_) => None,
    };
    if let Some(new) = replaced {
        *text = Cow::Owned(new);
    }
}

/// As [`replace`], except for dates, hours and prices, which only look like a phone number (LIM-10). Of a run with few digits
/// what the clause's own shape covers goes all the same (PII-3).
fn replace_phones(text: &mut Cow<'_, str>, shapes: &Shapes, mark: &str) {
    let mut clean = String::new();
    let mut done = 0;
    for found in shapes.phone.find_iter(text) {
        if is_date_or_price(text, found.range()) {
            continue;
        }
        clean.push_str(text.get(done..found.start()).unwrap_or_default());
        if found.as_str().chars().filter(|sign| sign.is_numeric()).count() < FEWEST_DIGITS {
            clean += &shapes.phone_of_the_clause.replace_all(found.as_str(), NoExpand(mark));
        } else {
            clean.push_str(mark);
        }
        done = found.end();
    }
    if done > 0 {
        clean.push_str(text.get(done..).unwrap_or_default());
        *text = Cow::Owned(clean);
    }
}

/// One cheap pass that tells which shapes can occur at all: most logged texts hold none.
struct Hints {
    link: bool,
    at_sign: bool,
    digits: bool,
}

impl Hints {
    fn of(text: &str) -> Self {
        let bytes = text.as_bytes();
        let digits = bytes.iter().filter(|byte| byte.is_ascii_digit()).count();
        let foreign_digits = !text.is_ascii() && text.chars().any(|ch| !ch.is_ascii() && ch.is_numeric());
        Self {
            link: text.contains("://") || contains_ignoring_case(bytes, b"www"),
            at_sign: text.contains(['@', '＠', '﹫']),
            digits: digits >= 2 || foreign_digits,
        }
    }

    const fn any(&self) -> bool {
        self.link || self.at_sign || self.digits
    }
}

fn contains_ignoring_case(haystack: &[u8], needle: &[u8]) -> bool {
    haystack.windows(needle.len()).any(|window| window.eq_ignore_ascii_case(needle))
}

/// Keys that disappear from a line, at any depth (PII-1), and ours beside them: names under which a contact's
/// words or identity would be logged by mistake (LOG-2, LOG-9). Compared without case, `-` and `_`.
const REMOVED_KEYS: [&str; 32] = [
    "authorization",
    "proxyauthorization",
    "cookie",
    "setcookie",
    "xapikey",
    "xgoogapikey",
    "text",
    "firstname",
    "lastname",
    "contactname",
    "aitoken",
    "token",
    "apikey",
    "apitoken",
    "secret",
    "password",
    "anthropicapikey",
    "openaiapikey",
    "googlegenerativeaiapikey",
    "manychatsharedsecret",
    "manychatapitoken",
    "databaseurl",
    "admintoken",
    "subscriber",
    "subscriberid",
    "phone",
    "email",
    "prompt",
    "completion",
    "arguments",
    "note",
    "transcripttext",
];

/// True for a key whose value must not be logged at all (PII-1).
#[must_use]
pub fn is_removed_key(key: &str) -> bool {
    let letters =
        || key.bytes().filter(|byte| !matches!(byte, b'-' | b'_')).map(|byte| byte.to_ascii_lowercase());
    REMOVED_KEYS.iter().any(|removed| letters().eq(removed.bytes()))
}

#[cfg(test)]
#[path = "redaction_tests.rs"]
mod tests;
