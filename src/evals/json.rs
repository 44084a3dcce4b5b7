//! The report as one JSON object (07/REP-8, DEC-35), which `compare` reads again.

use std::path::Path;

use rust_decimal::Decimal;
use rust_decimal::prelude::ToPrimitive;
use serde::{Deserialize, Serialize};

use super::assertions::Failure;
use super::case::PastTurn;
use super::error::EvalError;
use super::judge::{Judge, Verdict};
use super::outcome::{CaseOutcome, Run, Status};
use super::suite::Suite;
use crate::domain::{EscalationReason, millis};

/// One run of a suite.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Model string of the agent.
    pub model: String,
    /// Directory of the suite.
    pub suite: String,
    /// Hex SHA-256 of its file.
    pub suite_hash: String,
    /// One entry a case, in file order.
    pub cases: Vec<CaseReport>,
    /// Sums over all cases.
    pub totals: Totals,
    /// Present when a judge was configured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub judge: Option<JudgeReport>,
}

/// One case: the run that decided its status.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CaseReport {
    /// Name of the case.
    pub id: String,
    /// Its status.
    pub status: Status,
    /// What does not hold.
    pub failures: Vec<Failure>,
    /// What was staged.
    pub actions: Vec<String>,
    /// What the guardrails did.
    pub interventions: Vec<String>,
    /// The reply.
    pub messages: Vec<String>,
    /// Time of the turn, in milliseconds.
    pub latency_ms: u64,
    /// Estimate for all runs of the case, in US dollars.
    pub cost_usd: f64,
    /// Whether the reply calls a person.
    #[serde(default)]
    pub escalate: bool,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<EscalationReason>,
    /// The contact's message, so that a report can be read by itself.
    #[serde(default)]
    pub text: String,
    /// Turns before it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub history: Vec<PastTurn>,
    /// The criterion for a person.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub review: Option<String>,
    /// How often it ran, when more than once (07/REP-9).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runs: Option<usize>,
    /// How many of the runs did not fail.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runs_passed: Option<usize>,
    /// Verdicts of the judge.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub judged: Vec<VerdictReport>,
}

/// One verdict.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VerdictReport {
    /// Name of the dimension, or `review`.
    pub criterion: String,
    /// What the samples came to.
    #[serde(flatten)]
    pub verdict: Verdict,
}

/// Sums of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Totals {
    /// Cases without a failure and without a criterion for a person.
    pub passed: usize,
    /// Cases with a failed assertion.
    pub failed: usize,
    /// Cases a person has to read.
    pub reviewed: usize,
    /// Cases a calibrated judge failed.
    #[serde(default)]
    pub judged_fail: usize,
    /// Cases whose criterion a calibrated judge passed.
    #[serde(default)]
    pub judged_pass: usize,
    /// Turns of all runs.
    #[serde(default)]
    pub turns: usize,
    /// Those whose model failed (07/RUN-8): their handoff says nothing about the prompt.
    #[serde(default)]
    pub turns_without_model: usize,
    /// 95th percentile of the latencies, in milliseconds (07/REP-5).
    pub p95_ms: u64,
    /// Sum of the estimates, in US dollars, without the judge.
    pub cost_usd: f64,
}

/// The judge of a run (JUDGE-31).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JudgeReport {
    /// Its model string.
    pub model: String,
    /// Agreement with the hand-labelled set, group by group.
    pub groups: Vec<GroupReport>,
    /// Criteria without a verdict.
    pub ungraded: usize,
    /// Samples that came to nothing, in calibration and verdicts: a call failed, or its answer does not count (JUDGE-10).
    #[serde(default)]
    pub failed_samples: usize,
    /// Why they did, the commonest reason first. Reports of earlier versions have none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failures: Vec<LostSamples>,
    /// What calibration and verdicts cost, in US dollars.
    pub cost_usd: f64,
}

/// Samples of a judge that came to nothing for one reason (JUDGE-32).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LostSamples {
    /// The name of a failed call, or that the answer does not count.
    pub reason: String,
    /// How many.
    pub samples: usize,
}

/// One group of criteria.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupReport {
    /// Name of the dimension, or `review`.
    pub group: String,
    /// Items a person labelled.
    pub items: usize,
    /// Items on which the judge agreed.
    pub agreed: usize,
    /// Whether it graded in this run.
    pub calibrated: bool,
    /// The label that no item of the group has: without it nothing calibrates the group (JUDGE-23).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missing_label: Option<String>,
}

impl Report {
    /// The report of a run that is over.
    #[must_use]
    pub fn of(suite: &Suite, model: &str, outcomes: &[CaseOutcome], judge: Option<&Judge>) -> Self {
        Self {
            model: model.to_owned(),
            suite: suite.name.clone(),
            suite_hash: suite.hash.clone(),
            cases: outcomes.iter().map(CaseReport::of).collect(),
            totals: Totals::of(outcomes),
            judge: judge.map(|judge| JudgeReport::of(judge, outcomes)),
        }
    }
}

impl CaseReport {
    fn of(outcome: &CaseOutcome) -> Self {
        let Run { seen, failures, judged, .. } = outcome.shown();
        let (runs, held) = outcome.tally();
        let verdicts = judged.iter().flat_map(|judged| &judged.verdicts);
        Self {
            id: outcome.case.id.clone(),
            status: outcome.status(),
            failures: failures.clone(),
            actions: seen.actions.clone(),
            interventions: seen.interventions.iter().map(ToString::to_string).collect(),
            messages: seen.messages.clone(),
            latency_ms: millis(seen.latency),
            cost_usd: dollars(outcome.runs().map(|run| run.seen.cost.get()).sum()),
            escalate: seen.escalate,
            reason: seen.reason,
            text: if outcome.case.nudge { String::new() } else { outcome.case.text.clone() },
            history: outcome.case.history.clone(),
            review: outcome.case.review.clone(),
            runs: (runs > 1).then_some(runs),
            runs_passed: (runs > 1).then_some(held),
            judged: verdicts
                .map(|(criterion, verdict)| VerdictReport {
                    criterion: criterion.group().to_string(),
                    verdict: verdict.clone(),
                })
                .collect(),
        }
    }
}

impl Totals {
    /// Counts, percentile and cost of these outcomes.
    #[must_use]
    pub fn of(outcomes: &[CaseOutcome]) -> Self {
        let with = |status: Status| outcomes.iter().filter(|outcome| outcome.status() == status).count();
        let runs = || outcomes.iter().flat_map(CaseOutcome::runs);
        Self {
            passed: with(Status::Passed),
            failed: with(Status::Failed),
            reviewed: with(Status::Reviewed),
            judged_fail: with(Status::JudgedFail),
            judged_pass: with(Status::JudgedPass),
            turns: runs().count(),
            turns_without_model: runs().filter(|run| run.seen.had_no_model()).count(),
            p95_ms: p95(runs().map(|run| millis(run.seen.latency)).collect()),
            cost_usd: dollars(runs().map(|run| run.seen.cost.get()).sum()),
        }
    }

    /// How many cases end the run with exit code 1.
    #[must_use]
    pub const fn failing(&self) -> usize {
        self.failed.saturating_add(self.judged_fail)
    }

    /// True when no turn at all had a model: nothing was evaluated.
    #[must_use]
    pub const fn had_no_model(&self) -> bool {
        self.turns > 0 && self.turns_without_model >= self.turns
    }

    /// How many turns had no model, in words; `None` when every one had.
    #[must_use]
    pub fn without_model(&self) -> Option<String> {
        let Self { turns, turns_without_model: failed, .. } = self;
        (*failed > 0).then(|| format!("{failed} of {turns} turns had no model: agent model check"))
    }
}

impl JudgeReport {
    fn of(judge: &Judge, outcomes: &[CaseOutcome]) -> Self {
        let judged = || outcomes.iter().flat_map(CaseOutcome::runs).filter_map(|run| run.judged.as_ref());
        let spent: Decimal = judged().map(|judged| judged.cost.get()).sum();
        let lost = judge.lost();
        let failures =
            lost.reasons().iter().cloned().map(|(reason, samples)| LostSamples { reason, samples });
        let groups = judge.agreements().iter().map(|found| GroupReport {
            group: found.group.to_string(),
            items: found.items(),
            agreed: found.agreed,
            calibrated: judge.trusts(found.group),
            missing_label: found.missing_label().map(str::to_owned),
        });
        Self {
            model: judge.model().to_owned(),
            groups: groups.collect(),
            failed_samples: lost.samples(),
            failures: failures.collect(),
            ungraded: judged().map(super::judge::Judged::ungraded).sum(),
            cost_usd: dollars(spent + judge.calibration_cost().get()),
        }
    }
}

/// Reads a report again.
///
/// # Errors
/// When the text is none.
pub fn parse(path: &Path, text: &str) -> Result<Report, EvalError> {
    serde_json::from_str(text)
        .map_err(|error| EvalError::NoReport { path: path.to_owned(), reason: error.to_string() })
}

/// 07/REP-5
fn p95(mut latencies: Vec<u64>) -> u64 {
    latencies.sort_unstable();
    let last = latencies.len().saturating_sub(1);
    // 0.95 has no exact binary form, so the index is computed in whole numbers.
    let index = (latencies.len() * 95 / 100).min(last);
    latencies.get(index).copied().unwrap_or(0)
}

fn dollars(amount: Decimal) -> f64 {
    amount.to_f64().unwrap_or(f64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 07/REP-5, ACC-EV-16
    #[test]
    fn p95_is_the_element_at_95_percent() {
        let of = |count: u64| p95((1..=count).rev().collect());
        assert_eq!((of(20), of(21), of(10)), (20, 20, 10));
        assert_eq!((of(0), of(1), of(100), of(40)), (0, 1, 96, 39));
    }
}
