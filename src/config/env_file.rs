//! The process environment with the `.env` of the working directory beneath it (CFG-3, CFG-4).

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::path::Path;

use super::environment::VARIABLES;
use super::{SettingsError, VariableFault};

const FILE: &str = ".env";

/// All variables: those of `.env` in the working directory, and over them those of the process. A missing file is
/// fine.
///
/// # Errors
/// When the file cannot be read or a line of it is malformed, or a variable the service knows is not UTF-8 text.
pub fn process_environment() -> Result<BTreeMap<String, String>, SettingsError> {
    merged(Path::new(FILE), std::env::vars_os())
}

pub(super) fn merged(
    file: &Path,
    process: impl IntoIterator<Item = (OsString, OsString)>,
) -> Result<BTreeMap<String, String>, SettingsError> {
    let mut faults = Vec::new();
    let mut variables = match std::fs::read(file) {
        Ok(content) => parse(&content, &mut faults),
        Err(error) if error.kind() == io::ErrorKind::NotFound => BTreeMap::new(),
        Err(error) => {
            faults.push(VariableFault::new(FILE, format!("cannot be read: {error}")));
            BTreeMap::new()
        }
    };
    for (name, value) in process {
        let Some(name) = name.to_str() else { continue };
        match value.into_string() {
            Ok(value) => {
                variables.insert(name.to_owned(), value);
            }
            // Variables the service does not know are ignored (CFG-5), odd bytes included.
            Err(_) => faults.extend(
                VARIABLES
                    .iter()
                    .find(|known| **known == name)
                    .map(|known| VariableFault::new(known, "is not UTF-8 text")),
            ),
        }
    }
    if faults.is_empty() { Ok(variables) } else { Err(SettingsError::new(faults)) }
}

/// One `NAME=value` a line. Values stay out of the messages: they can be secrets (ENV-26).
fn parse(content: &[u8], faults: &mut Vec<VariableFault>) -> BTreeMap<String, String> {
    let mut variables = BTreeMap::new();
    let Ok(text) = std::str::from_utf8(content) else {
        faults.push(VariableFault::new(FILE, "is not UTF-8 text"));
        return variables;
    };
    for (index, line) in text.trim_start_matches('\u{feff}').lines().enumerate() {
        match parse_line(line) {
            Ok(Some((name, value))) => {
                variables.insert(name.to_owned(), value.to_owned());
            }
            Ok(None) => {}
            Err(reason) => faults.push(VariableFault::new(FILE, format!("line {}: {reason}", index + 1))),
        }
    }
    variables
}

fn parse_line(line: &str) -> Result<Option<(&str, &str)>, &'static str> {
    let line = line.trim();
    if line.is_empty() || line.starts_with('#') {
        return Ok(None);
    }
    let line = line.strip_prefix("export ").unwrap_or(line);
    let (name, value) = line.split_once('=').ok_or("expected NAME=value")?;
    let name = name.trim();
    let begins_well = name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_');
    if !begins_well
        || !name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_' || letter == '.')
    {
        return Err("expected NAME=value; a name has letters, digits and _");
    }
    Ok(Some((name, unquoted(value.trim())?)))
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
