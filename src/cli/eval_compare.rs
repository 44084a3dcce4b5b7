//! `agent eval compare`: two reports of `agent eval --json` side by side, as text and as a page for whoever reads the
//! tone.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;

use crate::evals::{self, Report};

/// Arguments of the command.
#[derive(clap::Args, Debug)]
pub(super) struct CompareArguments {
    /// The earlier report
    before: PathBuf,
    /// The later report
    after: PathBuf,
    /// Write one self-contained page with every reply side by side
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

/// Exit 0 when both reports could be read, whatever they say: each run has told by its own exit code.
pub(super) fn run(arguments: &CompareArguments) -> anyhow::Result<ExitCode> {
    let (before, after) = (read(&arguments.before)?, read(&arguments.after)?);
    let comparison = evals::compare(&before, &after);
    print!("{}", comparison.text());
    if let Some(path) = &arguments.html {
        let written = fs::write(path, evals::page(&comparison));
        written.with_context(|| format!("{} cannot be written", path.display()))?;
        println!("page {}", path.display());
    }
    Ok(ExitCode::SUCCESS)
}

fn read(path: &Path) -> anyhow::Result<Report> {
    let text = fs::read_to_string(path).with_context(|| format!("{} cannot be read", path.display()))?;
    Ok(evals::parse_report(path, &text)?)
}
