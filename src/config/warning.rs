//! What is accepted and still deserves a look.

use std::fmt;

use crate::domain::visible;

/// Something that loads and is probably not meant; boot logs it, `config check` prints it (CLI-62).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// The variable, or the file and the path inside it, for example `rules.json: messages.acknowledgment`.
    pub place: String,
    /// What is odd about it and what to do. Never holds a secret.
    pub text: String,
}

impl Warning {
    /// A warning about `place`.
    pub(crate) fn new(place: impl Into<String>, text: impl Into<String>) -> Self {
        Self { place: place.into(), text: text.into() }
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}: {}", visible(&self.place), visible(&self.text))
    }
}
