//! Hand-labelled replies that a judge must grade as people did before it grades anything (07 section 9.3).

use std::path::Path;

use serde::Deserialize;

use super::criterion::{Criterion, Group};
use super::verdict::Verdict;
use crate::evals::case::{self, PastTurn};
use crate::evals::error::EvalError;
use crate::evals::suite;

/// A calibration set.
#[derive(Clone, Debug, PartialEq)]
pub struct Calibration {
    items: Vec<Item>,
    warnings: Vec<String>,
}

/// One reply with the verdict of a person.
#[derive(Clone, Debug, PartialEq)]
pub struct Item {
    pub history: Vec<PastTurn>,
    pub text: String,
    pub reply: Vec<String>,
    pub criterion: Criterion,
    pub label: Label,
}

/// What a person says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Label {
    Pass,
    Fail,
}

impl Label {
    /// No verdict is disagreement (JUDGE-21).
    pub const fn agrees(self, verdict: &Verdict) -> bool {
        matches!((self, verdict), (Self::Pass, Verdict::Pass { .. }) | (Self::Fail, Verdict::Fail { .. }))
    }
}

/// JUDGE-20
#[derive(Deserialize)]
struct Line {
    id: String,
    #[serde(default)]
    history: Vec<PastTurn>,
    text: String,
    reply: Vec<String>,
    criterion: String,
    label: Label,
}

impl Calibration {
    /// Reads `calibration.jsonl`.
    ///
    /// # Errors
    /// All lines that do not fit, at once.
    pub fn read(path: &Path, text: &str) -> Result<Self, EvalError> {
        let mut warnings = Vec::new();
        let items = suite::read_lines(text.as_bytes(), path, |number, line| {
            let Line { id, history, text, reply, criterion, label } = case::read_line(line)?;
            if reply.is_empty() || criterion.trim().is_empty() {
                return Err("`reply` needs a message, and `criterion` a text".to_owned());
            }
            if let Some(meant) = Criterion::nearly_named(&criterion) {
                warnings.push(format!(
                    "line {number}: the criterion `{criterion}` is a free text; did you mean `{meant}`?"
                ));
            }
            let criterion = Criterion::named(&criterion);
            Ok((id, Item { history, text, reply, criterion, label }))
        })?;
        Ok(Self { items, warnings })
    }

    /// Criteria that look like misspelt names of dimensions, with their line: they load as free texts (JUDGE-20).
    #[must_use]
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    pub(super) fn items(&self) -> &[Item] {
        &self.items
    }
}

/// How far a judge agreed with the labels of one group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Agreement {
    /// The group.
    pub group: Group,
    /// Items a person labelled as good.
    pub good: usize,
    /// Items a person labelled as bad.
    pub bad: usize,
    /// Items on which the judge agreed.
    pub agreed: usize,
}

impl Agreement {
    /// Before the first call.
    pub(super) fn of(group: Group, items: &[Item]) -> Self {
        let of_group = || items.iter().filter(|item| item.criterion.group() == group);
        let good = of_group().filter(|item| item.label == Label::Pass).count();
        Self { group, good, bad: of_group().count() - good, agreed: 0 }
    }

    /// All items of the group.
    #[must_use]
    pub const fn items(&self) -> usize {
        self.good + self.bad
    }

    /// JUDGE-23
    pub(super) const fn has_both_labels(&self) -> bool {
        self.good > 0 && self.bad > 0
    }

    /// Why nothing could calibrate the group, when it lacks a label (JUDGE-23).
    #[must_use]
    pub const fn missing_label(&self) -> Option<&'static str> {
        match (self.good, self.bad) {
            (0, 0) => Some("pass or fail"),
            (0, _) => Some("pass"),
            (_, 0) => Some("fail"),
            _ => None,
        }
    }

    /// Whether the group may be graded: both labels are there, and the share that agreed reaches the threshold.
    #[must_use]
    pub fn is_calibrated(&self, threshold: f64) -> bool {
        // Sets are small, so the numbers are exact as floats.
        self.has_both_labels() && self.agreed as f64 / self.items() as f64 >= threshold
    }
}
