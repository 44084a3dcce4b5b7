//! `agent eval compare`: two reports of `agent eval --json` side by side, as text and as a page for whoever reads the
//! tone.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;

use super::eval_output::put;
use crate::domain::visible_lines;
use crate::evals::{self, Report};

/// Largest report, in bytes: some ten thousand cases.
const MOST: u64 = 64 * 1024 * 1024;

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
    let inputs = [&arguments.before, &arguments.after];
    if let Some(page) = arguments.html.as_ref().filter(|page| inputs.iter().any(|input| is_same(page, input)))
    {
        anyhow::bail!(
            "--html {} is one of the reports and would be overwritten: name another file",
            page.display()
        );
    }
    let (before, after) = (read(&arguments.before)?, read(&arguments.after)?);
    let comparison = evals::compare(&before, &after);
    put(&comparison.text())?;
    if let Some(path) = &arguments.html {
        let written = fs::write(path, evals::page(&comparison));
        written.with_context(|| format!("{} cannot be written", path.display()))?;
        put(&visible_lines(&format!("page {}\n", path.display())))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// True for one file under two names, too.
fn is_same(one: &Path, other: &Path) -> bool {
    let place = |path: &Path| fs::metadata(path).ok().map(|found| (found.dev(), found.ino()));
    place(one).is_some_and(|found| place(other) == Some(found))
}

fn read(path: &Path) -> anyhow::Result<Report> {
    let text = contents(path).with_context(|| format!("{} cannot be read", path.display()))?;
    Ok(evals::parse_report(path, &text)?)
}

/// At most [`MOST`] bytes are read, also of what has no length, such as a pipe.
fn contents(path: &Path) -> io::Result<String> {
    let mut bytes = Vec::new();
    File::open(path)?.take(MOST + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MOST {
        return Err(io::Error::new(ErrorKind::FileTooLarge, "it is larger than 64 MiB, as no report is"));
    }
    String::from_utf8(bytes).map_err(|_| io::Error::new(ErrorKind::InvalidData, "it is not UTF-8"))
}
