//! `agent completions`: a script that completes the command line in a shell.

use std::process::ExitCode;

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
    print!("{}", String::from_utf8_lossy(&script));
    Ok(ExitCode::SUCCESS)
}
