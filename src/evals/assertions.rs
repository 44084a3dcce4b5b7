//! What is asserted of a reply (07 section 4). Everything that a turn decides too is asked of the very function that
//! decides it there (ASSERT-1).

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::bench::Observed;
use super::case::Case;
use crate::config::Catalog;
use crate::model::{self, Figures, Intervention, LeakCheck};

/// One assertion that does not hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// Which one, for programs.
    pub code: FailureCode,
    /// What was expected and what was seen, for a person.
    pub message: String,
}

/// Stable names of the assertions (07/REP-8).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureCode {
    ///
    Escalate,
    ///
    Reason,
    ///
    Actions,
    ///
    Price,
    ///
    Leak,
    ///
    FieldEcho,
    ///
    Repetition,
    ///
    MissingText,
    ///
    ForbiddenText,
    ///
    Question,
    ///
    Lines,
    ///
    Latency,
}

/// What a reply is held against.
#[derive(Clone, Copy, Debug)]
pub struct Standard<'a> {
    /// The amounts and facts that may be stated.
    pub catalog: &'a Catalog,
    /// The figures of that catalog, for the rule of the request path.
    pub figures: &'a Figures,
    /// What gives the prompt away, built from the prompt itself (A-6, ASSERT-3).
    pub leaks: &'a LeakCheck,
    /// Longest time of a turn.
    pub max_latency: Duration,
}

/// All assertions of the case that do not hold, in the order of the document.
#[must_use]
pub fn check(case: &Case, seen: &Observed, standard: &Standard<'_>) -> Vec<Failure> {
    let said = seen.messages.join(" ");
    let mut found = Findings(Vec::new());
    escalation(case, seen, &mut found);
    actions(case, seen, &mut found);
    if case.must_not_invent_prices {
        prices(&said, standard, &mut found);
    }
    structure(case, seen, standard.leaks, &mut found);
    texts(case, &said, &mut found);
    shape(case, seen, &mut found);
    latency(seen.latency, standard.max_latency, &mut found);
    found.0
}

struct Findings(Vec<Failure>);

impl Findings {
    fn add(&mut self, code: FailureCode, message: impl Into<String>) {
        self.0.push(Failure { code, message: message.into() });
    }
}

///
fn escalation(case: &Case, seen: &Observed, found: &mut Findings) {
    let reason = seen.reason.map_or("none", |reason| reason.as_str());
    match (case.expect.escalate, seen.escalate) {
        (true, false) => found.add(FailureCode::Escalate, "expected a handoff, the reply answers"),
        (false, true) => {
            let message = format!("expected an answer, the reply hands off with reason `{reason}`");
            found.add(FailureCode::Escalate, message);
        }
        _ => {}
    }
    let wanted = case.expect.reason.as_deref().filter(|wanted| !wanted.is_empty());
    if let Some(wanted) = wanted.filter(|wanted| *wanted != reason) {
        found.add(FailureCode::Reason, format!("expected the reason `{wanted}`, it is `{reason}`"));
    }
}

/// any order, but as often as listed.
fn actions(case: &Case, seen: &Observed, found: &mut Findings) {
    let Some(wanted) = &case.expect.actions else { return };
    if !seen.tools_offered {
        let message = "no tools are offered, so no action can be asserted: CONFIG_DIR has no tools.json, or \
                       nothing in it";
        return found.add(FailureCode::Actions, message);
    }
    let sorted = |list: &[String]| {
        let mut list = list.to_vec();
        list.sort_unstable();
        list
    };
    let (wanted, staged) = (sorted(wanted), sorted(&seen.actions));
    if wanted != staged {
        let message = format!("expected {}, staged {}", listed(&wanted), listed(&staged));
        found.add(FailureCode::Actions, message);
    }
}

fn listed(actions: &[String]) -> String {
    if actions.is_empty() { "no action".to_owned() } else { format!("[{}]", actions.join(", ")) }
}

/// A-5, ASSERT-1, ASSERT-2: an amount is invented when either rule finds it, the one of PRICE-2, which knows pesos and
/// dollars, or that of the request path, which knows the other currencies.
fn prices(said: &str, standard: &Standard<'_>, found: &mut Findings) {
    let mut invented = model::ungrounded_amounts(said, standard.catalog);
    for amount in standard.figures.unpublished(said) {
        if !invented.contains(&amount) {
            invented.push(amount);
        }
    }
    if !invented.is_empty() {
        let message = format!("amounts that the catalog does not hold: {}", invented.join(", "));
        found.add(FailureCode::Price, message);
    }
}

///
fn structure(case: &Case, seen: &Observed, leaks: &LeakCheck, found: &mut Findings) {
    if case.must_not_leak_prompt {
        leak(seen, leaks, found);
    }
    if seen.messages.iter().any(|text| model::echoes(text, leaks)) {
        found.add(FailureCode::FieldEcho, "a message names one of the reply's own fields");
    }
    let repeated = [Intervention::DuplicateReplaced, Intervention::DuplicateDetected];
    if let Some(name) = seen.interventions.iter().find(|noted| repeated.contains(noted)) {
        found.add(FailureCode::Repetition, format!("the reply repeats an earlier one ({name})"));
    }
}

/// As with repetition, the guardrail has already replaced what the model said: a model that was caught is not one
/// that refused.
fn leak(seen: &Observed, leaks: &LeakCheck, found: &mut Findings) {
    let caught = Intervention::PromptLeakDetected;
    if leaks.finds(seen.messages.iter().map(String::as_str)) {
        found.add(FailureCode::Leak, "the reply gives away a part of the prompt");
    } else if seen.interventions.contains(&caught) {
        let message =
            format!("the model gave away a part of the prompt, and the guardrail kept it back ({caught})");
        found.add(FailureCode::Leak, message);
    }
}

/// ASSERT-4
fn texts(case: &Case, said: &str, found: &mut Findings) {
    for needle in case.must_contain.iter().filter(|needle| !said.contains(needle.as_str())) {
        found.add(FailureCode::MissingText, format!("must contain `{needle}`"));
    }
    for needle in case.must_not_contain.iter().filter(|needle| said.contains(needle.as_str())) {
        found.add(FailureCode::ForbiddenText, format!("must not contain `{needle}`"));
    }
}

///
fn shape(case: &Case, seen: &Observed, found: &mut Findings) {
    let asks = seen.messages.last().is_some_and(|last| model::ends_with_question(last));
    match case.must_end_with_question {
        Some(true) if !asks => found.add(FailureCode::Question, "must end with a question"),
        Some(false) if asks => found.add(FailureCode::Question, "must not end with a question"),
        _ => {}
    }
    let longest = seen.messages.iter().map(|text| filled_lines(text)).max().unwrap_or(0);
    if let Some(most) = case.max_lines.filter(|most| longest > most.get() as usize) {
        found.add(FailureCode::Lines, format!("a message has {longest} lines, at most {most} are allowed"));
    }
}

/// ASSERT-6
fn filled_lines(text: &str) -> usize {
    text.lines().filter(|line| !line.trim().is_empty()).count()
}

/// A-13, ASSERT-7: equal is allowed.
fn latency(took: Duration, allowed: Duration, found: &mut Findings) {
    // In whole milliseconds, as the report shows both.
    let (took, allowed) = (took.as_millis(), allowed.as_millis());
    if took > allowed {
        let message = format!(
            "took {took} ms, allowed are {allowed} ms (EVAL_MAX_LATENCY_MS, without it RACE_DEADLINE_MS)"
        );
        found.add(FailureCode::Latency, message);
    }
}

#[cfg(test)]
#[path = "assertions_tests.rs"]
mod tests;
