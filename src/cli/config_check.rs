//! `agent config check`: every check of boot, without a port or a database (06 section 7.6).

use std::process::ExitCode;

use super::boot;
use crate::model;

/// Arguments of the command.
#[derive(clap::Args, Debug)]
pub(super) struct CheckArguments {
    /// Treat warnings as errors
    #[arg(long)]
    strict: bool,
}

/// Prints the result, then the warnings (CLI-61, CLI-62).
pub(super) fn run(arguments: &CheckArguments) -> anyhow::Result<ExitCode> {
    let loaded = boot::load()?;
    model::resolve(&loaded.settings.model)?;
    boot::check_database(&loaded.settings)?;
    println!("config check passed ({})", loaded.settings.config_dir.display());
    for warning in &loaded.warnings {
        eprintln!("warning: {warning}");
    }
    if arguments.strict && !loaded.warnings.is_empty() {
        return Ok(ExitCode::FAILURE);
    }
    Ok(ExitCode::SUCCESS)
}
