//! What became of a case: its runs, their failures and verdicts, and its status (07 sections 4 and 9.4).

use std::num::NonZeroU32;

use serde::{Deserialize, Serialize};

use super::assertions::{self, Failure};
use super::bench::{Bench, Observed};
use super::case::Case;
use super::judge::{Judge, Judged};

/// Status of a case (STAT-1, JUDGE-30), the worst last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Status {
    /// Every assertion holds.
    Passed,
    /// The same, and a calibrated judge passed the criterion for a person.
    JudgedPass,
    /// The same, and a person has to read the reply.
    Reviewed,
    /// A calibrated judge failed it.
    JudgedFail,
    /// An assertion does not hold.
    Failed,
}

impl Status {
    /// The word in reports.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::JudgedPass => "judged-pass",
            Self::Reviewed => "reviewed",
            Self::JudgedFail => "judged-fail",
            Self::Failed => "failed",
        }
    }

    /// Whether it makes the run end with exit code 1 (07/REP-6).
    #[must_use]
    pub const fn fails_the_run(self) -> bool {
        matches!(self, Self::Failed | Self::JudgedFail)
    }

    /// The word in `eval_records`, whose column knows three (JUDGE-35).
    #[must_use]
    pub const fn recorded(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::JudgedPass | Self::Reviewed => "reviewed",
            Self::JudgedFail | Self::Failed => "failed",
        }
    }
}

/// One run of a case.
#[derive(Clone, Debug)]
pub struct Run {
    /// What the turn came to.
    pub seen: Observed,
    /// What does not hold of it.
    pub failures: Vec<Failure>,
    /// What the judge said; `None` when it was not asked.
    pub judged: Option<Judged>,
    /// What follows from the two.
    pub status: Status,
}

/// A case with all its runs.
#[derive(Clone, Debug)]
pub struct CaseOutcome {
    /// The case.
    pub case: Case,
    first: Run,
    more: Vec<Run>,
}

impl CaseOutcome {
    /// Every run, in order.
    pub fn runs(&self) -> impl Iterator<Item = &Run> {
        std::iter::once(&self.first).chain(&self.more)
    }

    /// The worst of its runs: a case passes when all its runs do (07/REP-9).
    #[must_use]
    pub fn status(&self) -> Status {
        self.runs().map(|run| run.status).max().unwrap_or(self.first.status)
    }

    /// The run a report shows: the first with the status of the case.
    #[must_use]
    pub fn shown(&self) -> &Run {
        let status = self.status();
        self.runs().find(|run| run.status == status).unwrap_or(&self.first)
    }

    /// How many runs there are, and how many did not fail.
    #[must_use]
    pub fn tally(&self) -> (usize, usize) {
        let held = self.runs().filter(|run| !run.status.fails_the_run()).count();
        (1 + self.more.len(), held)
    }
}

/// Runs the case as often as asked, one after another (07/REP-9), and judges every run that broke no assertion
/// (JUDGE-3).
pub async fn run_case(bench: &Bench, judge: Option<&Judge>, case: &Case, times: NonZeroU32) -> CaseOutcome {
    let first = run_once(bench, judge, case).await;
    let mut more = Vec::new();
    for _ in 1..times.get() {
        more.push(run_once(bench, judge, case).await);
    }
    CaseOutcome { case: case.clone(), first, more }
}

async fn run_once(bench: &Bench, judge: Option<&Judge>, case: &Case) -> Run {
    let seen = bench.observe(case).await;
    let failures = assertions::check(case, &seen, &bench.standard());
    let judged = match judge {
        Some(judge) if failures.is_empty() && !case.expect.escalate => {
            Some(judge.judge(case, &seen.messages.join(" ")).await)
        }
        _ => None,
    };
    let status = status(case, &failures, judged.as_ref());
    Run { seen, failures, judged, status }
}

/// STAT-1, JUDGE-30
fn status(case: &Case, failures: &[Failure], judged: Option<&Judged>) -> Status {
    if !failures.is_empty() {
        return Status::Failed;
    }
    if judged.is_some_and(Judged::fails) {
        return Status::JudgedFail;
    }
    match &case.review {
        None => Status::Passed,
        Some(_) if judged.is_some_and(Judged::passes_review) => Status::JudgedPass,
        Some(_) => Status::Reviewed,
    }
}

#[cfg(test)]
#[path = "outcome_tests.rs"]
mod tests;
