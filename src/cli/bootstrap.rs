//! `agent bootstrap`: the demo tenant and an offline `.env`, never over a file that exists (CLI-96).

use std::path::Path;
use std::process::ExitCode;

use crate::config::demo;

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
    let mut reports = demo::write_missing(directory)?;
    if arguments.tools {
        reports.push(demo::write_missing_tools(directory)?);
    }
    for report in reports {
        println!("{report}");
    }
    Ok(ExitCode::SUCCESS)
}
