//! How far a backfill is: one line that is rewritten on a terminal, a plain line now and then elsewhere. Counts only.

use std::io::{IsTerminal, Write};

/// Contacts between two plain lines.
const PLAIN_STEP: u64 = 100;

/// Reports on stderr; stdout belongs to the result (CLI-83).
pub(super) struct Progress {
    total: i64,
    done: u64,
    terminal: bool,
}

impl Progress {
    pub(super) fn new(total: i64) -> Self {
        Self { total, done: 0, terminal: std::io::stderr().is_terminal() }
    }

    /// One more contact is done.
    pub(super) fn step(&mut self) {
        self.done += 1;
        if self.terminal {
            eprint!("\r{}", self.line());
            // A terminal that is gone stops nothing.
            let _ = std::io::stderr().flush();
        } else if self.done.is_multiple_of(PLAIN_STEP) {
            eprintln!("{}", self.line());
        }
    }

    fn line(&self) -> String {
        format!("contacts done: {} of {}", self.done, self.total)
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.terminal && self.done > 0 {
            eprint!("\n");
        }
    }
}
