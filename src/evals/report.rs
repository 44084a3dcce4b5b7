//! The report as a person reads it (07 section 5).

use super::json::{JudgeReport, Totals};
use super::judge::{NO_VERDICT, Verdict};
use super::outcome::{CaseOutcome, Run, Status};
use super::suite::Suite;
use crate::domain::{visible, visible_lines};

/// Whether marks are coloured (07/REP-3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// Green, red and yellow, for a terminal.
    Coloured,
    /// Nothing but text.
    Plain,
}

/// 07/REP-1
#[must_use]
pub fn header(suite: &Suite, model: &str) -> String {
    let count = suite.cases.len();
    let cases = if count == 1 { "case" } else { "cases" };
    shown(&format!("model {model}\nsuite {}, {count} {cases}\n\n", suite.name))
}

/// One line a case, and below it, indented, what there is to know and the whole reply (07/REP-2).
#[must_use]
pub fn case_lines(outcome: &CaseOutcome, style: Style) -> String {
    let run = outcome.shown();
    let status = outcome.status();
    let (runs, held) = outcome.tally();
    let often = if runs > 1 { format!("  {held} of {runs} runs passed") } else { String::new() };
    let head = format!("{:<28} {}ms{often}", visible(&outcome.case.id), run.seen.latency.as_millis());
    let details: String = details(outcome, run).iter().map(|line| indented(line)).collect();
    format!("{} {head}\n{}", mark(status, style), shown(&details))
}

fn details(outcome: &CaseOutcome, run: &Run) -> Vec<String> {
    let seen = &run.seen;
    let mut lines: Vec<String> =
        run.failures.iter().map(|failure| format!("failed: {}", failure.message)).collect();
    lines.extend(
        run.judged
            .iter()
            .flat_map(|judged| &judged.verdicts)
            .filter_map(|(criterion, verdict)| judgement(&criterion.group().to_string(), verdict)),
    );
    if !seen.interventions.is_empty() {
        let words: Vec<String> = seen.interventions.iter().map(ToString::to_string).collect();
        lines.push(format!("guardrails: {}", words.join(", ")));
    }
    if !seen.actions.is_empty() {
        lines.push(format!("actions: {}", seen.actions.join(", ")));
    }
    lines.extend(outcome.case.review.iter().map(|criterion| format!("review: {criterion}")));
    lines.extend(seen.messages.iter().map(|message| format!("> {}", message.replace('\n', "\n  "))));
    lines
}

/// JUDGE-31: what the judge holds against a reply.
fn judgement(criterion: &str, verdict: &Verdict) -> Option<String> {
    let Verdict::Fail { split, reason, evidence } = verdict else { return None };
    let split = if *split { " (split)" } else { "" };
    Some(format!("judged-fail: {criterion}{split}: {reason} Evidence: `{evidence}`"))
}

fn indented(text: &str) -> String {
    text.lines().map(|line| format!("     {line}\n")).collect()
}

/// 07/REP-2, 07/REP-3: green, red and yellow.
fn mark(status: Status, style: Style) -> String {
    let (word, colour) = match status {
        Status::Passed | Status::JudgedPass => ("pass", 32),
        Status::Failed | Status::JudgedFail => ("FAIL", 31),
        Status::Reviewed => ("read", 33),
    };
    match style {
        Style::Coloured => format!("\u{1b}[{colour}m{word}\u{1b}[0m"),
        Style::Plain => word.to_owned(),
    }
}

/// The last lines: the judge where there is one, then counts, percentile and cost (07/REP-4, JUDGE-31).
#[must_use]
pub fn summary(totals: &Totals, judge: Option<&JudgeReport>) -> String {
    let Totals { passed, failed, reviewed, judged_fail, judged_pass, p95_ms, cost_usd, .. } = totals;
    let judged = match judge {
        Some(_) => format!("{judged_fail} judged-fail, {judged_pass} judged-pass, "),
        None => String::new(),
    };
    let counts = format!("{passed} passed, {failed} failed, {judged}{reviewed} to review");
    let judge = judge.map(judge_lines).unwrap_or_default();
    let no_model = totals.without_model().map(|said| said + "\n").unwrap_or_default();
    shown(&format!("\n{judge}{no_model}{counts}  p95 {p95_ms}ms  cost ${cost_usd:.4}\n"))
}

fn judge_lines(judge: &JudgeReport) -> String {
    let mut lines = format!("judge {}\n", judge.model);
    for group in &judge.groups {
        let lacking = group.missing_label.as_ref();
        let lacking = lacking.map(|label| format!(" (no item is labelled {label})")).unwrap_or_default();
        let grades = match group.calibrated {
            true => String::new(),
            false => format!(", not calibrated: it graded nothing{lacking}"),
        };
        lines += &format!("  {:<20} agreed on {} of {}{grades}\n", group.group, group.agreed, group.items);
    }
    lines += &lost_lines(judge);
    lines + &format!("  {} criteria ungraded  judge cost ${:.4}\n", judge.ungraded, judge.cost_usd)
}

/// JUDGE-32: each reason with its count, the commonest first, and what to do. A judge whose answers do not count is up,
/// so `model check` would find nothing.
fn lost_lines(judge: &JudgeReport) -> String {
    if judge.failed_samples == 0 {
        return String::new();
    }
    let counted: Vec<String> =
        judge.failures.iter().map(|lost| format!("{} with {}", lost.samples, lost.reason)).collect();
    let head = format!("  {} samples failed: {}\n", judge.failed_samples, counted.join(", "));
    let answers: usize =
        judge.failures.iter().filter(|lost| lost.reason == NO_VERDICT).map(|lost| lost.samples).sum();
    let calls = judge.failed_samples.saturating_sub(answers);
    let calls = (calls > 0).then_some((calls, "no answer came: agent model check"));
    let answers = (answers > 0).then_some((
        answers,
        "the judge answers, but not as asked or with evidence that is not in the reply; try another",
    ));
    let mut advice: Vec<(usize, &str)> = calls.into_iter().chain(answers).collect();
    advice.sort_by_key(|(samples, _)| std::cmp::Reverse(*samples));
    let advice: String =
        advice.iter().map(|(samples, said)| format!("    {samples} times {said}\n")).collect();
    head + &advice
}

/// Words of a model or of a file must not drive the terminal, and a carriage return must not overwrite a mark.
fn shown(text: &str) -> String {
    visible_lines(&text.replace('\r', "")).into_owned()
}

#[cfg(test)]
#[path = "report_tests.rs"]
mod tests;
