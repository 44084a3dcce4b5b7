//! A suite: the cases of one directory, or the golden suite inside the program (07 section 1).

use std::collections::HashMap;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use super::case::{self, Case};
use super::error::{EvalError, LineFault};
use crate::config;
use crate::domain::visible;

/// Name of the golden suite, which is also its directory in the source.
pub const GOLDEN: &str = "evals/golden";
const GOLDEN_CASES: &str = include_str!("../../evals/golden/cases.jsonl");
const GOLDEN_CALIBRATION: &str = include_str!("../../evals/golden/calibration.jsonl");

const CASES_FILE: &str = "cases.jsonl";
const CALIBRATION_FILE: &str = "calibration.jsonl";

/// The cases of one file, checked whole.
#[derive(Clone, Debug)]
pub struct Suite {
    /// The directory as it was named.
    pub name: String,
    /// Hex SHA-256 of the file's bytes (07/REC-2).
    pub hash: String,
    /// In file order (EVAL-4).
    pub cases: Vec<Case>,
    /// Keys that look like misspelt assertions, with their line.
    pub warnings: Vec<String>,
    /// What the judge is tried on: the file and its content; none when the suite has no such file (JUDGE-26).
    pub calibration: Option<(PathBuf, String)>,
    /// False once cases were chosen: such a run says nothing about the whole suite.
    pub whole: bool,
}

/// Which cases of a suite run (07/REP-8).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Choice {
    /// Exact ids; empty means all.
    pub only: Vec<String>,
    /// A text that id, messages or criterion must hold, whatever its case.
    pub grep: Option<String>,
}

impl Suite {
    /// The suite that is shipped with the service (EVAL-5).
    ///
    /// # Errors
    /// Only when the embedded files are faulty, which a test rules out.
    pub fn golden() -> Result<Self, EvalError> {
        let calibration = Path::new(GOLDEN).join(CALIBRATION_FILE);
        let calibration = Some((calibration, GOLDEN_CALIBRATION.to_owned()));
        Self::read(GOLDEN, GOLDEN_CASES.as_bytes(), calibration)
    }

    /// The suite in `dir` (EVAL-1, EVAL-6).
    ///
    /// # Errors
    /// A file that cannot be read, is none or is larger than 8 MiB, or all its faulty lines at once (CASE-3, CASE-4, 07/REP-7).
    pub fn load(dir: &Path) -> Result<Self, EvalError> {
        let path = dir.join(CASES_FILE);
        let bytes =
            config::read_regular(&path).map_err(|reason| EvalError::SuiteUnreadable { path, reason })?;
        Self::read(&dir.display().to_string(), &bytes, calibration_in(dir)?)
    }

    fn read(name: &str, bytes: &[u8], calibration: Option<(PathBuf, String)>) -> Result<Self, EvalError> {
        let path = Path::new(name).join(CASES_FILE);
        let (cases, warnings) = read_cases(bytes, &path)?;
        let hash = Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
        Ok(Self { name: name.to_owned(), hash, cases, warnings, calibration, whole: true })
    }

    /// The same with the chosen cases only.
    ///
    /// # Errors
    /// When no case is left, or an id is not there.
    pub fn choose(mut self, choice: &Choice) -> Result<Self, EvalError> {
        let missing: Vec<&str> = choice.only.iter().map(String::as_str).filter(|id| !self.has(id)).collect();
        if !missing.is_empty() {
            return Err(EvalError::NothingChosen { wanted: format!("no id `{}`", missing.join("`, `")) });
        }
        let before = self.cases.len();
        self.cases.retain(|case| choice.takes(case));
        self.whole = self.cases.len() == before;
        if self.cases.is_empty() {
            return Err(EvalError::NothingChosen { wanted: choice.words() });
        }
        Ok(self)
    }

    fn has(&self, id: &str) -> bool {
        self.cases.iter().any(|case| case.id == id)
    }
}

impl Choice {
    fn takes(&self, case: &Case) -> bool {
        let named = self.only.is_empty() || self.only.contains(&case.id);
        named && self.grep.as_ref().is_none_or(|text| case.mentions(text))
    }

    fn words(&self) -> String {
        let only = (!self.only.is_empty()).then(|| format!("--only {}", self.only.join(" --only ")));
        let grep = self.grep.as_ref().map(|text| format!("--grep {text}"));
        only.into_iter().chain(grep).collect::<Vec<_>>().join(" ")
    }
}

fn calibration_in(dir: &Path) -> Result<Option<(PathBuf, String)>, EvalError> {
    let path = dir.join(CALIBRATION_FILE);
    let text = config::read_regular(&path).and_then(|bytes| {
        String::from_utf8(bytes).map_err(|_| io::Error::new(ErrorKind::InvalidData, "it is not UTF-8 text"))
    });
    match text {
        Ok(text) => Ok(Some((path, text))),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(reason) => Err(EvalError::SuiteUnreadable { path, reason }),
    }
}

/// All lines, or all their faults.
fn read_cases(bytes: &[u8], path: &Path) -> Result<(Vec<Case>, Vec<String>), EvalError> {
    let mut warnings = Vec::new();
    let cases = read_lines(bytes, path, |number, line| {
        warnings.extend(case::misspelt_keys(line).into_iter().map(|said| format!("line {number}: {said}")));
        Case::parse(line).map(|case| (case.id.clone(), case))
    })?;
    if cases.is_empty() {
        return Err(EvalError::Empty { path: path.to_owned() });
    }
    Ok((cases, warnings))
}

/// Reads JSON Lines in UTF-8 whose entries have ids; blank lines are skipped.
///
/// # Errors
/// All lines that do not fit or repeat an id, at once (CASE-3, CASE-4).
pub(super) fn read_lines<T>(
    bytes: &[u8],
    path: &Path,
    mut read: impl FnMut(usize, &str) -> Result<(String, T), String>,
) -> Result<Vec<T>, EvalError> {
    let bytes = bytes.strip_prefix("\u{feff}".as_bytes()).unwrap_or(bytes);
    let (mut found, mut faults) = (Vec::new(), Vec::new());
    let mut lines_of_ids = HashMap::new();
    for (index, line) in bytes.split(|byte| *byte == b'\n').enumerate() {
        let number = index + 1;
        let text = std::str::from_utf8(line).map(str::trim);
        let entry = match text {
            Ok("") => continue,
            Ok(text) => read(number, text),
            Err(_) => Err("is not UTF-8 text".to_owned()),
        };
        match entry {
            Ok((id, _)) if visible(&id) != id => {
                faults.push((
                    number,
                    "`id` holds a control character or a mark that turns the reading".to_owned(),
                ));
            }
            Ok((id, entry)) => match lines_of_ids.insert(id.clone(), number) {
                Some(first) => faults.push((number, format!("the id `{id}` is that of line {first}"))),
                None => found.push(entry),
            },
            Err(reason) => faults.push((number, reason)),
        }
    }
    if faults.is_empty() {
        return Ok(found);
    }
    let faults = faults.into_iter().map(|(line, reason)| LineFault { line, reason }).collect();
    Err(EvalError::Faulty { path: path.to_owned(), faults })
}

#[cfg(test)]
#[path = "suite_tests.rs"]
mod tests;
