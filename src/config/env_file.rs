//! The process environment with the `.env` of the working directory beneath it (CFG-3, CFG-4).

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::path::Path;

use super::environment::VARIABLES;
use super::files::advice;
use super::{SettingsError, VariableFault, Warning};

const FILE: &str = ".env";
const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();

/// The variables this process was started with.
#[derive(Clone, Debug, Default)]
pub struct Environment {
    /// Every variable as it stands; the service knows some of them (CFG-5).
    pub variables: BTreeMap<String, String>,
    /// Lines of `.env` that say nothing to the service, by number and never with their words (ENV-26), but a name that is
    /// close to one that the service knows.
    pub warnings: Vec<Warning>,
    /// Variables the service knows whose value cannot be read; [`Settings::from_environment`] reports them with all
    /// others (ENV-1).
    ///
    /// [`Settings::from_environment`]: super::Settings::from_environment
    pub(super) faults: Vec<VariableFault>,
}

/// All variables: those of `.env` in the working directory, and over them those of the process. A missing file is
/// fine, and a line that is no variable of ours is skipped with a warning (CFG-5, DEC-1).
///
/// # Errors
/// When the file is there and cannot be read.
pub fn process_environment() -> Result<Environment, SettingsError> {
    merged(Path::new(FILE), std::env::vars_os())
}

pub(super) fn merged(
    file: &Path,
    process: impl IntoIterator<Item = (OsString, OsString)>,
) -> Result<Environment, SettingsError> {
    let mut environment = match std::fs::read(file) {
        Ok(content) => parse(&content),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Environment::default(),
        Err(error) => {
            let fault = VariableFault::new(FILE, format!("cannot be read: {error}"));
            return Err(SettingsError::new(vec![fault]));
        }
    };
    for (name, value) in process {
        let Some(name) = name.to_str() else { continue };
        // The process wins (CFG-3), also over a line that cannot be read.
        environment.faults.retain(|fault| fault.name != name);
        match value.into_string() {
            Ok(value) => {
                environment.variables.insert(name.to_owned(), value);
            }
            // Variables the service does not know are ignored (CFG-5), odd bytes included.
            Err(_) => environment
                .faults
                .extend(known(name).map(|known| VariableFault::new(known, "is not UTF-8 text"))),
        }
    }
    Ok(environment)
}

fn known(name: &str) -> Option<&'static str> {
    VARIABLES.iter().find(|known| **known == name).copied()
}

/// One `NAME=value` a line. Values stay out of the messages: they can be secrets (ENV-26).
fn parse(content: &[u8]) -> Environment {
    let mut environment = Environment::default();
    let content = content.strip_prefix(BYTE_ORDER_MARK).unwrap_or(content);
    for (index, line) in content.split(|byte| *byte == b'\n').enumerate() {
        // A line that is not UTF-8 still shows whose it is.
        let text = String::from_utf8_lossy(line);
        let Some((name, value)) = name_and_value(&text) else { continue };
        let value = match value.and_then(unquoted) {
            Ok(_) if matches!(text, Cow::Owned(_)) => Err("is not UTF-8 text"),
            read => read,
        };
        environment.warnings.extend(misspelt(name, index + 1));
        match (value, known(name)) {
            (Ok(value), _) => {
                environment.faults.retain(|fault| fault.name != name);
                environment.variables.insert(name.to_owned(), value.to_owned());
            }
            (Err(reason), Some(name)) => {
                let reason = format!("line {} of .env: {reason}", index + 1);
                environment.faults.push(VariableFault::new(name, reason));
            }
            (Err(reason), None) => environment
                .warnings
                .push(Warning::new(FILE, format!("line {} is skipped: {reason}", index + 1))),
        }
    }
    environment
}

/// A warning when a name that the service does not know is close to one that it knows. Any other is somebody else's
/// (CFG-5), and so is a known name with a number behind it: nobody types `DATABASE_URL2` by mistake.
fn misspelt(name: &str, line: usize) -> Option<Warning> {
    let stem = name.trim_end_matches(|last: char| last.is_ascii_digit() || last == '_');
    if known(name).or_else(|| known(stem)).is_some() {
        return None;
    }
    let advice = advice(name, VARIABLES);
    let text = format!("line {line}: `{name}` is no variable of this service, it has no effect{advice}");
    (!advice.is_empty()).then(|| Warning::new(FILE, text))
}

/// The two halves of a line, or why it has none; `None` for a blank line and a comment.
fn name_and_value(line: &str) -> Option<(&str, Result<&str, &'static str>)> {
    let line = line.trim();
    if line.is_empty() || line.starts_with('#') {
        return None;
    }
    let line = line.strip_prefix("export ").unwrap_or(line);
    let Some((name, value)) = line.split_once('=') else {
        return Some(("", Err("expected NAME=value")));
    };
    let name = name.trim();
    let begins_well = name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_');
    let goes_on_well = name.chars().all(|letter| letter.is_ascii_alphanumeric() || "_.".contains(letter));
    if !begins_well || !goes_on_well {
        return Some(("", Err("expected NAME=value; a name has letters, digits and _")));
    }
    Some((name, Ok(value.trim())))
}

/// Surrounding quotes are removed, and a comment behind the value. Nothing is expanded or unescaped, so that a
/// password may hold `$` and `\`. In an unquoted value `#` begins a comment only behind white space.
fn unquoted(value: &str) -> Result<&str, &'static str> {
    let Some(quote) = value.chars().next().filter(|first| matches!(first, '"' | '\'')) else {
        return Ok(without_comment(value));
    };
    let inner = value.get(1..).unwrap_or_default();
    let closing = inner.match_indices(quote).find(|(at, _)| {
        let rest = inner.get(at + 1..).unwrap_or_default().trim_start();
        rest.is_empty() || rest.starts_with('#')
    });
    let (end, _) = closing.ok_or("the quote is not closed")?;
    Ok(inner.get(..end).unwrap_or_default())
}

fn without_comment(value: &str) -> &str {
    let behind_space =
        |at: usize| value.get(..at).is_some_and(|before| before.ends_with(char::is_whitespace));
    let comment = value.match_indices('#').map(|(at, _)| at).find(|at| *at == 0 || behind_space(*at));
    comment.and_then(|at| value.get(..at)).unwrap_or(value).trim()
}

#[cfg(test)]
#[path = "env_file_tests.rs"]
mod tests;
