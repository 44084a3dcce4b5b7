//! `agent bootstrap`: the demo tenant and an offline `.env`, never over a file that exists (CLI-96).

use std::path::Path;
use std::process::ExitCode;

use crate::config::{self, demo};

/// Arguments of the command.
#[derive(clap::Args, Debug)]
pub(super) struct BootstrapArguments {
    /// Write the demo tenant's tools.json too, so that the agent acts and does not only answer
    #[arg(long)]
    tools: bool,
}

/// Prints what was written and what was kept. Tools are opt-in (DEMO-2).
pub(super) fn run(arguments: &BootstrapArguments) -> anyhow::Result<ExitCode> {
    let directory = Path::new(".");
    // A `.env` that cannot be read may name another folder, so nothing is written before it can.
    let folder = demo::config_dir(&config::process_environment()?);
    let mut reports = demo::write_missing(directory, &folder)?;
    if arguments.tools {
        reports.push(demo::write_missing_tools(directory, &folder)?);
    }
    for report in reports {
        println!("{report}");
    }
    Ok(ExitCode::SUCCESS)
}
