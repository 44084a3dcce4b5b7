//! Texts that must not be printed.

use std::fmt;

/// Words of a contact or an answer to one. `Debug` shows only the length; there is no `Display` (ARC-4, LOG-9).
#[derive(Clone, PartialEq, Eq, Hash, Default)]
pub struct ContactText(String);

impl ContactText {
    /// Wraps the text as received. NUL characters are dropped: Postgres refuses them (GAP-CH-16).
    #[must_use]
    pub fn new(text: impl Into<String>) -> Self {
        let text = text.into();
        if text.contains('\0') { Self(text.replace('\0', "")) } else { Self(text) }
    }

    /// The words, for the prompt, the database and the contact; never for a log.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// True when there is no character at all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Debug for ContactText {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "ContactText({} characters)", self.0.chars().count())
    }
}

/// Any value whose content must not reach a log, such as a secret or a key. `Debug` shows nothing of it.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Redacted<T>(T);

impl<T> Redacted<T> {
    /// Hides the value.
    pub const fn new(value: T) -> Self {
        Self(value)
    }

    /// The value, for the one place that must use it.
    pub const fn expose(&self) -> &T {
        &self.0
    }
}

impl<T> fmt::Debug for Redacted<T> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("[redacted]")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// ARC-4, LOG-9
    #[test]
    fn contact_text_shows_only_its_length() {
        assert_eq!(format!("{:?}", ContactText::new("my phone is 555")), "ContactText(15 characters)");
        assert_eq!(format!("{:?}", Redacted::new("sk-123")), "[redacted]");
    }

    /// GAP-CH-16
    #[test]
    fn nul_characters_are_dropped() {
        assert_eq!(ContactText::new("a\0b").expose(), "ab");
    }
}
