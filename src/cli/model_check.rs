//! `agent model check`: asks the configured models for a reply, a tool call, a reply after it and a look at a picture,
//! so that a wrong key, name or parameter is found before a contact finds it. It needs the variables of the models and
//! nothing else, and costs a few hundred tokens a model.

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use super::local_http;
use crate::config::{self, ModelName, ModelSettings};
use crate::model::{Finding, Trial, TrialModel, Verdict};

/// Arguments of the command.
#[derive(clap::Args, Debug)]
pub(super) struct CheckArguments {
    /// Check this model too (provider:model); may be repeated
    #[arg(long = "model", value_name = "NAME")]
    models: Vec<ModelName>,
}

/// Prints a line for each trial; exit 1 when one of them failed.
pub(super) fn run(arguments: &CheckArguments) -> anyhow::Result<ExitCode> {
    let read = config::process_environment().and_then(|found| ModelSettings::from_environment(&found));
    let (settings, abort) = read.map_err(|error| error.in_folder(Path::new(".")))?;
    let failed = local_http::block_on(try_all(&settings, abort, &arguments.models))?;
    if failed > 0 {
        eprintln!("model check failed: {failed} of the trials above");
        return Ok(ExitCode::FAILURE);
    }
    println!("model check passed");
    Ok(ExitCode::SUCCESS)
}

/// Prints each finding as soon as it is there; returns how many failed.
async fn try_all(settings: &ModelSettings, abort: Duration, named: &[ModelName]) -> anyhow::Result<usize> {
    let mut failed = 0;
    for (name, from) in models(settings, named) {
        println!("{}  ({from})", name.as_string());
        let model = TrialModel::new(settings, name)?;
        for trial in Trial::ALL {
            let finding = model.run(trial, abort).await;
            failed += usize::from(matches!(finding.verdict, Verdict::Failed { .. }));
            println!("  {}", line(&finding));
        }
    }
    Ok(failed)
}

/// Each model once, with where its name comes from.
fn models<'a>(settings: &'a ModelSettings, named: &'a [ModelName]) -> Vec<(&'a ModelName, &'static str)> {
    let agent = (&settings.agent, "AGENT_MODEL");
    let fallback = settings.fallback.iter().map(|name| (name, "AGENT_FALLBACK_MODEL"));
    let named = named.iter().map(|name| (name, "--model"));
    let mut models: Vec<(&ModelName, &'static str)> = Vec::new();
    for (name, from) in std::iter::once(agent).chain(fallback).chain(named) {
        if !models.iter().any(|(known, _)| *known == name) {
            models.push((name, from));
        }
    }
    models
}

fn line(finding: &Finding) -> String {
    let trial = finding.trial.name();
    match &finding.verdict {
        Verdict::Passed => format!("{trial:8} pass     {}", figures(finding)),
        Verdict::Skipped(why) => format!("{trial:8} skipped  {why}"),
        Verdict::Failed { reason, words } => {
            let words = words.as_ref().map(|words| format!("\n           {words}"));
            format!(
                "{trial:8} FAIL     {reason}{}\n           {}",
                words.unwrap_or_default(),
                figures(finding)
            )
        }
    }
}

fn figures(finding: &Finding) -> String {
    let usage = &finding.bill.usage;
    let count =
        |tokens: Option<u64>| tokens.map_or_else(|| "unknown".to_owned(), |tokens| tokens.to_string());
    format!(
        "tokens {} in ({} cached), {} out; ${}; {} ms",
        count(usage.input),
        count(usage.cache_read),
        count(usage.output),
        finding.bill.cost.get().normalize(),
        finding.latency.as_millis()
    )
}
