//! `agent model check`: asks the configured models for a reply, a tool call and a look at a picture, so that a wrong
//! key, name or parameter is found before a contact finds it. It costs a few hundred tokens a model.

use std::process::ExitCode;

use super::{boot, local_http};
use crate::config::{ModelName, Settings};
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
    let loaded = boot::load()?;
    let failed = local_http::block_on(try_all(&loaded.settings, &arguments.models))?;
    if failed > 0 {
        eprintln!("model check failed: {failed} of the trials above");
        return Ok(ExitCode::FAILURE);
    }
    println!("model check passed");
    Ok(ExitCode::SUCCESS)
}

/// Prints each finding as soon as it is there; returns how many failed.
async fn try_all(settings: &Settings, named: &[ModelName]) -> anyhow::Result<usize> {
    let mut failed = 0;
    for (name, from) in models(settings, named) {
        println!("{}  ({from})", name.as_string());
        let model = TrialModel::new(&settings.model, name)?;
        for trial in Trial::ALL {
            let finding = model.run(trial, settings.model_abort).await;
            failed += usize::from(matches!(finding.verdict, Verdict::Failed { .. }));
            println!("  {}", line(&finding));
        }
    }
    Ok(failed)
}

/// Each model once, with where its name comes from.
fn models<'a>(settings: &'a Settings, named: &'a [ModelName]) -> Vec<(&'a ModelName, &'static str)> {
    let agent = (&settings.model.agent, "AGENT_MODEL");
    let fallback = settings.model.fallback.iter().map(|name| (name, "AGENT_FALLBACK_MODEL"));
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
