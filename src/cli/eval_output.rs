//! Where the commands of evaluations write: reports to standard output, how far a run is to a terminal.

use std::io::{self, ErrorKind, IsTerminal, Write};

use anyhow::Context;

/// 07/REP-3
pub(super) fn coloured() -> bool {
    let unwanted = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    io::stdout().is_terminal() && !unwanted
}

/// Writes a report, whose colours `print!` would make visible instead; what comes from outside is cleaned in it already.
///
/// # Errors
/// When it cannot be written: half a report must not look like a whole one. A reader that has gone
/// (`agent eval | head`) ends nothing.
pub(super) fn put(text: &str) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(error).context("the report cannot be written to standard output")
        }
        _ => Ok(()),
    }
}

/// How far the run is, on a terminal and nowhere else.
pub(super) struct Progress {
    total: usize,
    terminal: bool,
}

impl Progress {
    pub(super) fn new(total: usize) -> Self {
        let progress = Self { total, terminal: io::stderr().is_terminal() };
        progress.show(0);
        progress
    }

    pub(super) fn show(&self, done: usize) {
        if self.terminal && done < self.total {
            self.write(&format!("{done} of {} cases", self.total));
        }
    }

    pub(super) fn clear(&self) {
        if self.terminal {
            self.write("\r\u{1b}[K");
        }
    }

    fn write(&self, text: &str) {
        let mut out = io::stderr().lock();
        let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    }
}
