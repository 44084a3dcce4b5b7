//! Reads single variables and collects every fault, so that an operator repairs all of them in one go (ENV-1).

use std::collections::BTreeMap;
use std::fmt;
use std::ops::RangeInclusive;
use std::path::Path;

use super::environment::VARIABLES;
use super::{ModelName, Warning};
use crate::domain::{Redacted, visible};

/// One variable that is wrong. The reason never repeats a value that could be a secret (ENV-26).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VariableFault {
    /// Name of the variable; `.env` for the file itself.
    pub name: &'static str,
    /// What is wrong and what would be right.
    pub reason: String,
}

impl VariableFault {
    pub(super) fn new(name: &'static str, reason: impl Into<String>) -> Self {
        Self { name, reason: reason.into() }
    }
}

impl fmt::Display for VariableFault {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}: {}", self.name, visible(&self.reason))
    }
}

/// All variables that are wrong; correct each of them. The message begins `invalid environment: ` (CLI-4), has one
/// line for each and ends by pointing to `.env.example` (ENV-1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingsError {
    /// In the order of the variables; at least one.
    pub faults: Vec<VariableFault>,
    /// True when the folder was never set up.
    pub(super) nothing_here: bool,
}

impl SettingsError {
    pub(super) const fn new(faults: Vec<VariableFault>) -> Self {
        Self { faults, nothing_here: false }
    }

    /// The same error, which also says what to do first when this folder has neither `.env` nor tenant files.
    #[must_use]
    pub fn in_folder(mut self, folder: &Path) -> Self {
        self.nothing_here =
            !folder.join(".env").exists() && !folder.join("config").join("rules.json").exists();
        self
    }
}

impl std::error::Error for SettingsError {}

impl fmt::Display for SettingsError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.faults.len();
        let noun = if count == 1 { "fault" } else { "faults" };
        writeln!(out, "invalid environment: {count} {noun}")?;
        for fault in &self.faults {
            writeln!(out, "  {fault}")?;
        }
        if self.nothing_here {
            writeln!(
                out,
                "There is no .env and no config/ in this folder: `agent dev` sets up a demo here and runs it, `agent \
                 bootstrap` only writes the files."
            )?;
        }
        write!(
            out,
            "Where there is no .env, `agent bootstrap` writes one. Every variable with an example of its value: the \
             repository's .env.example."
        )
    }
}

/// Says what is wrong with an address of Postgres, without repeating it (ENV-26).
pub type AddressCheck = fn(&str) -> Result<(), String>;

/// The variables and what was found wrong with them so far. Readers return `None` after recording a fault; they
/// are called one after another before the first `?`, so that each fault is reported.
#[derive(Debug)]
pub(super) struct Variables<'a> {
    values: &'a BTreeMap<String, String>,
    pub(super) faults: Vec<VariableFault>,
    pub(super) warnings: Vec<Warning>,
    pub(super) check_address: Option<AddressCheck>,
}

impl<'a> Variables<'a> {
    pub(super) const fn new(values: &'a BTreeMap<String, String>) -> Self {
        Self { values, faults: Vec::new(), warnings: Vec::new(), check_address: None }
    }

    /// The value as it stands, an empty one too (ENV-3).
    pub(super) fn raw(&self, name: &'static str) -> Option<&'a str> {
        debug_assert!(VARIABLES.contains(&name), "{name} is not in the list of variables");
        self.values.get(name).map(String::as_str)
    }

    /// A value for which empty or only white space counts as unset (ENV-2).
    pub(super) fn filled(&self, name: &'static str) -> Option<&'a str> {
        self.raw(name).filter(|value| !value.trim().is_empty())
    }

    /// As [`Self::filled`], for a value that must not be printed.
    pub(super) fn secret(&self, name: &'static str) -> Option<Redacted<String>> {
        self.filled(name).map(|value| Redacted::new(value.to_owned()))
    }

    /// Records the fault and gives the "no value" that a reader returns.
    pub(super) fn refuse<T>(&mut self, name: &'static str, reason: impl Into<String>) -> Option<T> {
        self.faults.push(VariableFault::new(name, reason));
        None
    }

    pub(super) fn warn(&mut self, name: &'static str, text: impl Into<String>) {
        self.warnings.push(Warning::new(name, text));
    }

    /// A value that must be there.
    pub(super) fn required(&mut self, name: &'static str) -> Option<&'a str> {
        match self.raw(name) {
            Some("") => self.refuse(name, "is empty"),
            Some(value) => Some(value),
            None => self.refuse(name, "is missing"),
        }
    }

    /// Text of at least one character.
    pub(super) fn text(&mut self, name: &'static str, default: &'a str) -> Option<&'a str> {
        match self.raw(name) {
            Some("") => self.refuse(name, "is empty; remove the line to use the default"),
            Some(value) => Some(value),
            None => Some(default),
        }
    }

    /// An integer within bounds.
    pub(super) fn whole<T>(&mut self, name: &'static str, bounds: RangeInclusive<T>, default: T) -> Option<T>
    where
        T: Copy + Into<u64> + TryFrom<u64>,
    {
        match self.raw(name) {
            Some(value) => self.whole_in(name, value, bounds),
            None => Some(default),
        }
    }

    /// An integer within bounds, or nothing when the variable is unset or blank.
    pub(super) fn whole_if_filled<T>(
        &mut self,
        name: &'static str,
        bounds: RangeInclusive<T>,
    ) -> Option<Option<T>>
    where
        T: Copy + Into<u64> + TryFrom<u64>,
    {
        match self.filled(name) {
            Some(value) => self.whole_in(name, value, bounds).map(Some),
            None => Some(None),
        }
    }

    fn whole_in<T>(&mut self, name: &'static str, value: &str, bounds: RangeInclusive<T>) -> Option<T>
    where
        T: Copy + Into<u64> + TryFrom<u64>,
    {
        let (least, most) = ((*bounds.start()).into(), (*bounds.end()).into());
        let reason = format!("must be a whole number from {least} to {most}");
        let Some(number) = decimal(value).filter(|number| number.fract() == 0.0) else {
            return self.refuse(name, reason);
        };
        // Every bound is far below 2^53, so the conversions are exact where they matter.
        if number < least as f64 || number > most as f64 {
            return self.refuse(name, reason);
        }
        T::try_from(number as u64).ok()
    }

    /// A number within bounds.
    pub(super) fn number(
        &mut self,
        name: &'static str,
        bounds: RangeInclusive<f64>,
        default: f64,
    ) -> Option<f64> {
        let Some(value) = self.raw(name) else { return Some(default) };
        match decimal(value).filter(|number| bounds.contains(number)) {
            // A negative zero would print its sign.
            Some(number) => Some(number + 0.0),
            None => {
                self.refuse(name, format!("must be a number from {} to {}", bounds.start(), bounds.end()))
            }
        }
    }

    /// GAP-CFG-4: an empty number that is read as 0 instead of its default is worth a warning.
    pub(super) fn warn_if_empty_is_zero(&mut self, name: &'static str, default: &str) {
        if self.raw(name).is_some_and(|value| value.trim().is_empty()) {
            self.warn(
                name,
                format!("is empty and is read as 0; remove the line to use the default {default}"),
            );
        }
    }

    /// One of a few words, compared with case (ENV-5).
    pub(super) fn choice<T: Copy>(&mut self, name: &'static str, words: &[(&str, T)]) -> Option<Option<T>> {
        let Some(value) = self.raw(name) else { return Some(None) };
        match words.iter().find(|(word, _)| *word == value) {
            Some((_, chosen)) => Some(Some(*chosen)),
            None => {
                let known = words.iter().map(|(word, _)| *word).collect::<Vec<_>>().join(", ");
                self.refuse(name, format!("must be one of: {known}"))
            }
        }
    }

    /// `true` or `false`.
    pub(super) fn flag(&mut self, name: &'static str, default: bool) -> Option<bool> {
        self.choice(name, &[("true", true), ("false", false)]).map(|chosen| chosen.unwrap_or(default))
    }

    /// An address of an HTTP service, without trailing slashes.
    pub(super) fn base_url(&mut self, name: &'static str, value: &str) -> Option<String> {
        match url::Url::parse(value) {
            Ok(url) if matches!(url.scheme(), "http" | "https") => {
                Some(value.trim_end_matches('/').to_owned())
            }
            _ => self.refuse(name, "must be an absolute URL that starts with http:// or https://"),
        }
    }

    /// As [`Self::base_url`]; unset and blank take the default.
    pub(super) fn base_url_or(&mut self, name: &'static str, default: &str) -> Option<String> {
        match self.filled(name) {
            Some(value) => self.base_url(name, value),
            None => Some(default.to_owned()),
        }
    }

    /// A model name (ENV-6) with a known provider (PROV-3).
    pub(super) fn model(&mut self, name: &'static str, value: &str) -> Option<ModelName> {
        match value.parse() {
            Ok(model) => Some(model),
            Err(error) => self.refuse(name, format!("{error}")),
        }
    }

    /// As [`Self::model`], for a variable that may be unset or blank.
    pub(super) fn optional_model(&mut self, name: &'static str) -> Option<Option<ModelName>> {
        match self.filled(name) {
            Some(value) => self.model(name, value).map(Some),
            None => Some(None),
        }
    }
}

/// Splits at commas, trims, drops empty parts (ENV-7).
pub(super) fn comma_list(value: &str) -> impl Iterator<Item = &str> {
    value.split(',').map(str::trim).filter(|part| !part.is_empty())
}

/// Decimal text with optional white space around it; empty reads as 0 (ENV-3, ENV-4).
fn decimal(text: &str) -> Option<f64> {
    let text = text.trim();
    if text.is_empty() {
        return Some(0.0);
    }
    // Rust would also read `inf`, `nan` and `infinity`.
    let decimal = text.bytes().all(|byte| byte.is_ascii_digit() || b"+-.eE".contains(&byte));
    let number = if decimal { text.parse::<f64>().ok()? } else { return None };
    number.is_finite().then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// ENV-4
    #[test]
    fn numbers_are_decimal_text() {
        for (text, number) in
            [("8000", 8000.0), (" 8e3 ", 8000.0), ("8000.0", 8000.0), (".5", 0.5), ("", 0.0), ("-1", -1.0)]
        {
            assert_eq!(decimal(text), Some(number), "{text:?}");
        }
        for text in ["x", "1,5", "0x10", "inf", "NaN", "1e999", "1 2", "e3", "--1", "."] {
            assert_eq!(decimal(text), None, "{text:?}");
        }
    }

    /// ENV-7
    #[test]
    fn lists_are_split_trimmed_and_without_empty_parts() {
        assert_eq!(comma_list(" a, ,b ,,c").collect::<Vec<_>>(), ["a", "b", "c"]);
        assert_eq!(comma_list(" , ").count(), 0);
    }
}
