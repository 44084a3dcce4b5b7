//! `agent completions`: a script that completes the command line in a shell.

use std::io::Write;
use std::process::ExitCode;

use anyhow::Context;
use clap::Command;
use clap_complete::{Shell, generate};

/// Arguments of the command.
#[derive(clap::Args, Debug)]
pub(super) struct CompletionsArguments {
    /// The shell to write for
    shell: Shell,
}

/// Prints the script; a shell reads it at its start.
pub(super) fn run(arguments: &CompletionsArguments, mut command: Command) -> anyhow::Result<ExitCode> {
    let mut script = Vec::new();
    generate(arguments.shell, &mut command, "agent", &mut script);
    std::io::stdout().write_all(&script).context("the script could not be written")?;
    Ok(ExitCode::SUCCESS)
}
