//! `agent eval`, also the program `agent-eval`: a suite of conversations through the current configuration and model
//! (06 section 7.4, document 07).

use std::num::{NonZeroU16, NonZeroU32};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::Subcommand;
use futures_util::{StreamExt, stream};
use serde::Serialize;

use super::eval_offline::{self, Prepared};
use super::eval_output::{Progress, coloured, put};
use super::{eval_compare, eval_record, local_http};
use crate::config::{EvalSettings, Settings, Tenant};
use crate::domain::visible_lines;
use crate::evals::{
    self, Bench, Calibration, CaseOutcome, Choice, Coverage, Judge, Limits, Report, Style, Suite,
};
use crate::model;

/// What a run reads besides its options (EVAL-1, 05 section 2.2).
const VARIABLES: &str = "\
Variables, from the environment or .env:
  EVAL_DIR             Directory of the suite, with cases.jsonl; without it the built-in golden suite
  CONFIG_DIR           Directory of the tenant files (default: config)
  AGENT_MODEL          The model that is evaluated; its provider's key too. With --mock the mock model
  EVAL_MAX_LATENCY_MS  Longest turn (default: RACE_DEADLINE_MS)
  EVAL_MAX_P95_MS      Fails a run whose p95 is above it
  EVAL_JUDGE_MODEL     A second model that grades, tried on EVAL_DIR/calibration.jsonl first
Without --mock all variables that `agent serve` requires have to be set.";

/// Arguments of the command.
#[derive(clap::Args, Debug)]
#[command(args_conflicts_with_subcommands = true, after_help = VARIABLES)]
pub(super) struct EvalArguments {
    #[command(subcommand)]
    command: Option<EvalCommand>,
    #[command(flatten)]
    run: RunArguments,
}

#[derive(Subcommand, Debug)]
enum EvalCommand {
    /// Compare two reports of `eval --json`: which cases changed and how
    Compare(eval_compare::CompareArguments),
}

/// How a suite is run.
#[derive(clap::Args, Debug)]
struct RunArguments {
    /// Offline and free: the mock model, no database; the demo tenant where CONFIG_DIR holds none
    #[arg(long)]
    mock: bool,
    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
    /// Run the case with this id; may be given more than once
    #[arg(long, value_name = "ID")]
    only: Vec<String>,
    /// Run the cases that hold this text in id, messages or criterion
    #[arg(long, value_name = "TEXT")]
    grep: Option<String>,
    /// Run every case this many times, at most 1000; it passes when all its runs do
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1000))]
    repeat: u16,
    /// Run this many cases at the same time
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=64))]
    concurrency: u16,
    /// Run nothing; list stages, flows, fields and reasons that no case mentions
    #[arg(long)]
    coverage: bool,
}

/// Exit 0 when no case failed (CLI-40, 07/REP-6).
pub(super) fn run(arguments: &EvalArguments) -> anyhow::Result<ExitCode> {
    match &arguments.command {
        Some(EvalCommand::Compare(compare)) => eval_compare::run(compare),
        None => run_suite(&arguments.run),
    }
}

fn run_suite(arguments: &RunArguments) -> anyhow::Result<ExitCode> {
    let Prepared { settings, tenant, evaluation } = eval_offline::prepare(arguments.mock)?;
    refuse_playbook(&evaluation, &tenant)?;
    let suite = match &evaluation.dir {
        Some(dir) => Suite::load(dir)?,
        None => Suite::golden()?,
    };
    for warning in &suite.warnings {
        eprintln!("warning: {}, {warning}", suite.name);
    }
    for doubt in evals::doubts(&suite.cases, &tenant) {
        eprintln!("warning: {}, {doubt}", suite.name);
    }
    if arguments.coverage {
        let coverage = Coverage::of(&suite.cases, &tenant);
        match arguments.json {
            true => put(&as_json(&coverage)?)?,
            false => put(&coverage.text())?,
        }
        return Ok(ExitCode::SUCCESS);
    }
    let suite = suite.choose(&Choice { only: arguments.only.clone(), grep: arguments.grep.clone() })?;
    // Every line of the set is checked before the first call costs money.
    let calibration =
        suite.calibration.as_ref().map(|(path, text)| Calibration::read(path, text)).transpose()?;
    if evaluation.judge.is_some() {
        let warnings = calibration.iter().flat_map(Calibration::warnings);
        warnings.for_each(|warning| eprintln!("warning: {}, calibration.jsonl, {warning}", suite.name));
    }
    let work = Work { arguments, settings, evaluation, suite, calibration };
    let (report, outcomes) = local_http::block_on(work.run(tenant))?;
    eval_record::write(&work.settings, &work.suite, &outcomes, &report.totals);
    let red = report.totals.failing() > 0 || report.totals.had_no_model() || work.is_too_slow(&report);
    Ok(if red { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// One object, whose texts cannot drive a terminal.
fn as_json(value: &impl Serialize) -> anyhow::Result<String> {
    Ok(visible_lines(&format!("{}\n", serde_json::to_string_pretty(value)?)).into_owned())
}

/// 07/REC-4. A stored playbook cannot be put into the prompt yet.
fn refuse_playbook(evaluation: &EvalSettings, tenant: &Tenant) -> anyhow::Result<()> {
    let Some(version) = &evaluation.playbook_version else { return Ok(()) };
    anyhow::ensure!(
        tenant.rules.learning.is_some(),
        "PLAYBOOK_VERSION is set and rules.json has no `learning` block: remove the variable or add the block"
    );
    anyhow::bail!(
        "PLAYBOOK_VERSION: there is no playbook version `{version}`: this version of the service stores none"
    )
}

/// Everything one run needs.
struct Work<'a> {
    arguments: &'a RunArguments,
    settings: Settings,
    evaluation: EvalSettings,
    suite: Suite,
    calibration: Option<Calibration>,
}

impl Work<'_> {
    /// Runs and prints everything.
    async fn run(&self, tenant: Tenant) -> anyhow::Result<(Report, Vec<CaseOutcome>)> {
        let judge = self.judge(&tenant).await?;
        let bench = self.bench(tenant)?;
        if !self.arguments.json {
            put(&evals::header(&self.suite, bench.model()))?;
        }
        let outcomes = self.outcomes(&bench, judge.as_ref()).await?;
        let report = Report::of(&self.suite, bench.model(), &outcomes, judge.as_ref());
        if self.arguments.json {
            put(&as_json(&report)?)?;
            // The object goes into a file more often than not, where nobody would see this.
            report.totals.without_model().iter().for_each(|said| eprintln!("{said}"));
        } else {
            put(&evals::summary(&report.totals, report.judge.as_ref()))?;
        }
        Ok((report, outcomes))
    }

    /// The model alone is evaluated: a fallback that stood in for it would hide its failures.
    fn bench(&self, tenant: Tenant) -> anyhow::Result<Bench> {
        let mut model = self.settings.model.clone();
        model.fallback = None;
        let max_latency = self.evaluation.max_latency;
        let limits = Limits { max_latency, abort: max_latency.max(self.settings.model_abort) };
        Ok(Bench::new(model::resolve(&model)?, Arc::new(tenant), self.settings.channel, limits))
    }

    /// JUDGE-1, JUDGE-2, JUDGE-21
    async fn judge(&self, tenant: &Tenant) -> anyhow::Result<Option<Judge>> {
        let Some(name) = &self.evaluation.judge else { return Ok(None) };
        if *name == self.settings.model.agent {
            eprintln!("warning: EVAL_JUDGE_MODEL is AGENT_MODEL: a model that grades itself is a weak judge");
        }
        let provider = model::judge(&self.settings.model, name)?;
        let pace = (usize::from(self.arguments.concurrency), self.settings.model_abort);
        let set = self.calibration.as_ref();
        if set.is_none() {
            eprintln!("warning: {} has no calibration.jsonl: the judge grades nothing", self.suite.name);
        }
        Ok(Some(Judge::calibrate(provider, name, &self.settings.model, &tenant.catalog, set, pace).await))
    }

    /// Runs the cases, some at once where that was asked for, and reports them in file order as they end (EVAL-4).
    async fn outcomes(&self, bench: &Bench, judge: Option<&Judge>) -> anyhow::Result<Vec<CaseOutcome>> {
        let style = if coloured() { Style::Coloured } else { Style::Plain };
        let times = NonZeroU32::from(NonZeroU16::new(self.arguments.repeat).unwrap_or(NonZeroU16::MIN));
        let runs = self.suite.cases.iter().map(|case| evals::run_case(bench, judge, case, times));
        let mut runs = stream::iter(runs).buffered(usize::from(self.arguments.concurrency));
        let progress = Progress::new(self.suite.cases.len());
        let mut outcomes = Vec::new();
        while let Some(outcome) = runs.next().await {
            progress.clear();
            if !self.arguments.json {
                put(&evals::case_lines(&outcome, style))?;
            }
            outcomes.push(outcome);
            progress.show(outcomes.len());
        }
        progress.clear();
        Ok(outcomes)
    }

    /// GAP-EV-10
    fn is_too_slow(&self, report: &Report) -> bool {
        let p95 = Duration::from_millis(report.totals.p95_ms);
        let Some(most) = self.evaluation.max_p95.filter(|most| p95 > *most) else { return false };
        eprintln!("p95 is {} ms, EVAL_MAX_P95_MS allows {} ms", p95.as_millis(), most.as_millis());
        true
    }
}
