//! `agent health`: asks the server on this machine whether it is alive, so that an image needs no shell (IMG-6).

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;

use super::local_http;
use crate::config;

/// Time limit of the image's health check (IMG-6).
const LIMIT: Duration = Duration::from_secs(3);

/// Arguments of the command.
#[derive(clap::Args, Debug)]
pub(super) struct HealthArguments {
    /// Port to ask instead of PORT, for example the WORKER_HEALTH_PORT of a worker
    #[arg(long)]
    port: Option<u16>,
}

/// Exit 0 on a 2xx answer, else 1 with the reason. Reads nothing but `PORT`.
pub(super) fn run(arguments: &HealthArguments) -> anyhow::Result<ExitCode> {
    let variables = config::process_environment()?.variables;
    let port = match (arguments.port, variables.get("PORT").map(|text| text.trim())) {
        (Some(port), _) => port,
        (None, None) => 3000,
        (None, Some(text)) => text.parse().context("PORT is not a port number")?,
    };
    let address = format!("http://127.0.0.1:{port}/health");
    local_http::block_on(async move {
        let answer = local_http::client(&address, LIMIT)?.get(&address).send().await;
        let answer = answer.with_context(|| format!("no server answers on port {port}"))?;
        anyhow::ensure!(answer.status().is_success(), "the server answered {}", answer.status());
        println!("ok");
        Ok(ExitCode::SUCCESS)
    })
}
