//! Two reports of one suite side by side: which cases changed, and how.

mod page;
mod words;

pub use page::page;

use super::json::{CaseReport, Report};
use crate::domain::{visible, visible_lines};

/// A change of latency below this is noise, in milliseconds …
const LATENCY_NOISE_MS: u64 = 250;
/// … and so is one below this part of the longer time.
const LATENCY_PART: f64 = 0.25;
/// A change of cost below this part of the higher cost is noise.
const COST_PART: f64 = 0.1;
/// US dollars that no report shows.
const NO_DOLLARS: f64 = 0.000_05;

/// Two reports, case by case.
#[derive(Clone, Debug)]
pub struct Comparison<'a> {
    /// The report that is compared with.
    pub before: &'a Report,
    /// The report that is judged.
    pub after: &'a Report,
    /// In the order of `after`; cases that are gone stand at the end.
    pub cases: Vec<CasePair<'a>>,
}

/// One case in both reports; at least one side is there.
#[derive(Clone, Debug)]
pub struct CasePair<'a> {
    /// Name of the case.
    pub id: &'a str,
    /// As it was.
    pub before: Option<&'a CaseReport>,
    /// As it is.
    pub after: Option<&'a CaseReport>,
}

/// One way in which a case changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Only the later report has it.
    Added,
    /// Only the earlier report has it.
    Removed,
    /// Another status.
    Status,
    /// The reply reads differently, or hands off differently.
    Text,
    /// Other actions are staged.
    Actions,
    /// Clearly faster or slower.
    Latency,
    /// Clearly cheaper or dearer.
    Cost,
}

/// Pairs the cases of two reports by their ids.
#[must_use]
pub fn compare<'a>(before: &'a Report, after: &'a Report) -> Comparison<'a> {
    let find = |report: &'a Report, id: &str| report.cases.iter().find(|case| case.id == id);
    let still = after.cases.iter().map(|case| CasePair {
        id: &case.id,
        before: find(before, &case.id),
        after: Some(case),
    });
    let gone = before.cases.iter().filter(|case| find(after, &case.id).is_none());
    let gone = gone.map(|case| CasePair { id: &case.id, before: Some(case), after: None });
    Comparison { before, after, cases: still.chain(gone).collect() }
}

impl CasePair<'_> {
    /// How it changed; empty when it did not.
    #[must_use]
    pub fn changes(&self) -> Vec<Change> {
        let (before, after) = match (self.before, self.after) {
            (Some(before), Some(after)) => (before, after),
            (None, _) => return vec![Change::Added],
            (_, None) => return vec![Change::Removed],
        };
        let said = |case: &CaseReport| (case.messages.clone(), case.escalate, case.reason);
        let found = [
            (before.status != after.status, Change::Status),
            (said(before) != said(after), Change::Text),
            (sorted(&before.actions) != sorted(&after.actions), Change::Actions),
            (latency_differs(before.latency_ms, after.latency_ms), Change::Latency),
            (cost_differs(before.cost_usd, after.cost_usd), Change::Cost),
        ];
        found.into_iter().filter_map(|(differs, change)| differs.then_some(change)).collect()
    }

    /// True when it fails now and did not fail before.
    #[must_use]
    pub fn is_regression(&self) -> bool {
        let failed_before = self.before.is_some_and(|case| case.status.fails_the_run());
        self.after.is_some_and(|case| case.status.fails_the_run()) && !failed_before
    }

    /// True when it failed before and does not fail now.
    #[must_use]
    pub fn is_mended(&self) -> bool {
        let failed_before = self.before.is_some_and(|case| case.status.fails_the_run());
        failed_before && self.after.is_some_and(|case| !case.status.fails_the_run())
    }

    /// The changes in words.
    fn words(&self) -> String {
        let changes = self.changes();
        changes.iter().map(|change| self.word(*change)).collect::<Vec<_>>().join(", ")
    }

    fn word(&self, change: Change) -> String {
        let (Some(before), Some(after)) = (self.before, self.after) else {
            return if change == Change::Added { "new".to_owned() } else { "gone".to_owned() };
        };
        match change {
            Change::Added => "new".to_owned(),
            Change::Removed => "gone".to_owned(),
            Change::Status => format!("{} -> {}", before.status.as_str(), after.status.as_str()),
            Change::Text => "text".to_owned(),
            Change::Actions => "actions".to_owned(),
            Change::Latency => format!("{}ms -> {}ms", before.latency_ms, after.latency_ms),
            Change::Cost => format!("${:.4} -> ${:.4}", before.cost_usd, after.cost_usd),
        }
    }
}

impl Comparison<'_> {
    /// As a person reads it: both sides, one line a changed case, and the counts.
    #[must_use]
    pub fn text(&self) -> String {
        let mut lines = format!("before  {}\nafter   {}\n", side(self.before), side(self.after));
        if self.before.suite_hash != self.after.suite_hash {
            lines += "note    the cases are not the same: the suite was changed in between\n";
        }
        lines.push('\n');
        let changed: Vec<&CasePair<'_>> =
            self.cases.iter().filter(|pair| !pair.changes().is_empty()).collect();
        for pair in &changed {
            lines += &format!("{} {:<28} {}\n", sign(pair), visible(pair.id), pair.words());
        }
        let gap = if changed.is_empty() { "" } else { "\n" };
        let (worse, better) = (self.regressions(), self.mended());
        lines += &format!(
            "{gap}{} of {} cases changed: {worse} newly failing, {better} mended\n",
            changed.len(),
            self.cases.len()
        );
        visible_lines(&lines).into_owned()
    }

    /// Cases that fail now and did not fail before.
    #[must_use]
    pub fn regressions(&self) -> usize {
        self.cases.iter().filter(|pair| pair.is_regression()).count()
    }

    /// Cases that failed before and do not fail now.
    #[must_use]
    pub fn mended(&self) -> usize {
        self.cases.iter().filter(|pair| pair.is_mended()).count()
    }
}

fn sign(pair: &CasePair<'_>) -> &'static str {
    if pair.is_regression() {
        "worse "
    } else if pair.is_mended() {
        "better"
    } else {
        "other "
    }
}

fn side(report: &Report) -> String {
    let totals = &report.totals;
    format!(
        "{}, {}: {} passed, {} failed, {} to review, p95 {}ms, cost ${:.4}",
        visible(&report.model),
        visible(&report.suite),
        totals.passed.saturating_add(totals.judged_pass),
        totals.failing(),
        totals.reviewed,
        totals.p95_ms,
        totals.cost_usd
    )
}

fn sorted(actions: &[String]) -> Vec<&String> {
    let mut actions: Vec<&String> = actions.iter().collect();
    actions.sort_unstable();
    actions
}

fn latency_differs(before: u64, after: u64) -> bool {
    let difference = before.abs_diff(after);
    difference >= LATENCY_NOISE_MS && difference as f64 >= before.max(after) as f64 * LATENCY_PART
}

fn cost_differs(before: f64, after: f64) -> bool {
    let difference = (before - after).abs();
    difference >= NO_DOLLARS && difference >= before.max(after) * COST_PART
}

#[cfg(test)]
mod tests;
