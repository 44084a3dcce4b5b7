//! `agent worker`: what runs beside the HTTP server, without it (06 section 7.3).

use std::process::ExitCode;

use super::boot;
use super::process::{self, Role};

/// Runs until a signal ends it.
pub(super) fn run() -> anyhow::Result<ExitCode> {
    process::run(Role::Worker, boot::load, |_| {})
}
