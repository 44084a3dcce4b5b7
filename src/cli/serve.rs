//! `agent serve`: the HTTP server (06 section 7.2).

use std::process::ExitCode;

use super::boot::{self, Loaded};
use super::process::{self, Role};
use crate::config::Settings;
use crate::playground;

/// Arguments of the command.
#[derive(clap::Args, Debug)]
pub(super) struct ServeArguments {
    /// HTTP only, for deployments with separate `agent worker` processes
    #[arg(long)]
    no_workers: bool,
}

/// Runs until a signal ends it.
pub(super) fn run(arguments: &ServeArguments) -> anyhow::Result<ExitCode> {
    process::run(Role::Serve { workers: !arguments.no_workers }, boot::load, |settings| {
        if settings.playground {
            // Beside the log, which holds no key.
            eprintln!("playground: {}", playground::address(settings));
        }
    })
}

/// The same with a call when the port is open, for `dev`.
pub(super) fn run_with(
    load: impl FnOnce() -> anyhow::Result<Loaded>,
    listening: impl FnOnce(&Settings),
) -> anyhow::Result<ExitCode> {
    process::run(Role::Serve { workers: true }, load, listening)
}
