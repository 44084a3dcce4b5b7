//! `agent bootstrap`: the demo tenant and an offline `.env`, never over a file that exists (CLI-96).

use std::path::Path;
use std::process::ExitCode;

use crate::config::demo;

/// Prints what was written and what was kept.
pub(super) fn run() -> anyhow::Result<ExitCode> {
    for report in demo::write_missing(Path::new("."))? {
        println!("{report}");
    }
    Ok(ExitCode::SUCCESS)
}
