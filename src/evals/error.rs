//! Why an evaluation could not run.

use std::fmt;
use std::io;
use std::path::PathBuf;

/// A run that could not start, or a report that cannot be read. Exit code 1 (07/REP-6).
#[derive(Debug, thiserror::Error)]
pub enum EvalError {
    /// The suite's file cannot be read: check `EVAL_DIR` and the file's permissions.
    #[error("{} cannot be read: {reason}; EVAL_DIR names the directory that holds it", path.display())]
    SuiteUnreadable {
        /// The file.
        path: PathBuf,
        /// The operating system's reason.
        reason: io::Error,
    },
    /// Lines of a suite or of a calibration set do not fit; nothing ran (CASE-3): correct them.
    #[error("invalid {}: {}", path.display(), lines(faults))]
    Faulty {
        /// The file.
        path: PathBuf,
        /// Every faulty line, in file order.
        faults: Vec<LineFault>,
    },
    /// The suite holds no case at all (07/REP-7): write one, or name another directory.
    #[error("{} holds no case: an empty suite proves nothing", path.display())]
    Empty {
        /// The file.
        path: PathBuf,
    },
    /// No case fits what was chosen: correct `--only` or `--grep`.
    #[error("no case of this suite fits: {wanted}")]
    NothingChosen {
        /// What was asked for.
        wanted: String,
    },
    /// A file is no report of `agent eval --json`: write one with it.
    #[error("{} is no report of `agent eval --json`: {reason}", path.display())]
    NoReport {
        /// The file.
        path: PathBuf,
        /// What does not fit.
        reason: String,
    },
}

/// One faulty line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LineFault {
    /// Counted from 1.
    pub line: usize,
    /// What is wrong with it.
    pub reason: String,
}

impl fmt::Display for LineFault {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "line {}: {}", self.line, self.reason)
    }
}

fn lines(faults: &[LineFault]) -> String {
    faults.iter().map(|fault| format!("\n  {fault}")).collect()
}
