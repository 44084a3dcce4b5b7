//! A second model that grades what no assertion can, once it has shown that it agrees with people (07 section 9).

mod calibration;
mod criterion;
mod prompt;
mod verdict;

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream;

pub use calibration::{Agreement, Calibration};
pub use criterion::{Criterion, Group};
pub use verdict::Verdict;

use self::calibration::Item;
use self::prompt::Material;
use self::verdict::Sample;
use super::case::Case;
use crate::config::{Catalog, ModelName, ModelSettings};
use crate::domain::Usd;
use crate::model::{Meter, ModelProvider, Prices, Spent};

/// How often a criterion is sampled (JUDGE-11).
const SAMPLES: usize = 3;
/// The least share of items that must agree (JUDGE-24): all of them, until a measured figure with model and date is
/// written down.
const THRESHOLD: f64 = 1.0;

/// Why a sample is lost whose answer came: it does not parse, or its evidence does not stand in the reply (JUDGE-10).
pub(super) const NO_VERDICT: &str = "no verdict that counts";

/// A judge that was calibrated, and the groups it may grade.
pub struct Judge {
    asked: Asked,
    agreements: Vec<Agreement>,
    trusted: HashSet<Group>,
    spent: Usd,
}

/// The model behind a judge.
struct Asked {
    provider: Arc<dyn ModelProvider>,
    name: String,
    prices: Prices,
    catalog: String,
    max_output_tokens: u32,
    time_out: Duration,
    lost: Mutex<Lost>,
}

/// Samples that came to nothing: a judge that is down is no judge that disagrees (JUDGE-32).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lost {
    /// Reasons and how many samples each took, the commonest first, else in the order of their first one.
    reasons: Vec<(String, usize)>,
}

impl Lost {
    /// How many.
    #[must_use]
    pub fn samples(&self) -> usize {
        self.reasons.iter().map(|(_, samples)| samples).sum()
    }

    /// Each reason and how many samples it took, the commonest first.
    #[must_use]
    pub fn reasons(&self) -> &[(String, usize)] {
        &self.reasons
    }

    fn note(&mut self, reason: String) {
        match self.reasons.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, samples)) => *samples = samples.saturating_add(1),
            None => self.reasons.push((reason, 1)),
        }
    }

    fn sorted(mut self) -> Self {
        self.reasons.sort_by_key(|(_, samples)| std::cmp::Reverse(*samples));
        self
    }
}

/// What the judge said of one reply.
#[derive(Clone, Debug, PartialEq)]
pub struct Judged {
    /// One verdict a criterion, in order; those of groups that are not calibrated are ungraded.
    pub verdicts: Vec<(Criterion, Verdict)>,
    /// Criteria of calibrated groups whose samples came to no verdict (JUDGE-11).
    pub undecided: usize,
    /// What it cost.
    pub cost: Usd,
}

impl Judge {
    /// Tries the judge on the set, so that only groups it agrees on are graded in this run (JUDGE-21, JUDGE-22). No set
    /// means that nothing is graded (JUDGE-26). `at_once`: calls at the same time; `time_out`: of one call.
    pub async fn calibrate(
        provider: Arc<dyn ModelProvider>,
        name: &ModelName,
        settings: &ModelSettings,
        catalog: &Catalog,
        set: Option<&Calibration>,
        (at_once, time_out): (usize, Duration),
    ) -> Self {
        let name = name.as_string();
        let asked = Asked {
            provider,
            prices: Prices::of(&name, settings.pricing_overrides.as_ref()),
            catalog: crate::model::catalog_block(catalog),
            max_output_tokens: settings.max_output_tokens,
            time_out,
            name,
            lost: Mutex::default(),
        };
        let (agreements, spent) = asked.agreements(set, at_once).await;
        let trusted =
            agreements.iter().filter(|found| found.is_calibrated(THRESHOLD)).map(|found| found.group);
        Self { trusted: trusted.collect(), agreements, asked, spent }
    }

    /// Its model string.
    #[must_use]
    pub fn model(&self) -> &str {
        &self.asked.name
    }

    /// How often it agreed with the labels, group by group.
    #[must_use]
    pub fn agreements(&self) -> &[Agreement] {
        &self.agreements
    }

    /// Whether a group is graded in this run.
    #[must_use]
    pub fn trusts(&self, group: Group) -> bool {
        self.trusted.contains(&group)
    }

    /// Samples so far, of calibration and verdicts, that came to nothing.
    #[must_use]
    pub fn lost(&self) -> Lost {
        self.asked.lost.lock().unwrap_or_else(PoisonError::into_inner).clone().sorted()
    }

    /// What the calibration cost.
    #[must_use]
    pub const fn calibration_cost(&self) -> Usd {
        self.spent
    }

    /// Grades a reply that broke no assertion by every criterion of its case; groups that are not calibrated cost no
    /// call. `reply`: its messages joined by one blank.
    pub async fn judge(&self, case: &Case, reply: &str) -> Judged {
        // A follow-up answers no message; what stands in the case is ignored there too (CASE-6).
        let text = if case.nudge { "" } else { case.text.as_str() };
        let material = Material { history: &case.history, text, reply };
        let mut judged = Judged { verdicts: Vec::new(), undecided: 0, cost: Usd::ZERO };
        for criterion in Criterion::of(case) {
            let verdict = if self.trusts(criterion.group()) {
                let (verdict, cost) = self.asked.grade(&criterion, &material).await;
                judged.cost = sum(judged.cost, cost);
                judged.undecided += usize::from(verdict == Verdict::Ungraded);
                verdict
            } else {
                Verdict::Ungraded
            };
            judged.verdicts.push((criterion, verdict));
        }
        judged
    }
}

impl Judged {
    /// True when a calibrated criterion failed.
    #[must_use]
    pub fn fails(&self) -> bool {
        self.verdicts.iter().any(|(_, verdict)| matches!(verdict, Verdict::Fail { .. }))
    }

    /// True when the case's own criterion was graded, and it and every other criterion of a calibrated group passed (07
    /// section 9.4). One without a verdict leaves the case to a person (ACC-JU-2).
    #[must_use]
    pub fn passes_review(&self) -> bool {
        let review = |(criterion, verdict): &(Criterion, Verdict)| {
            criterion.group() == Group::FreeText && matches!(verdict, Verdict::Pass { .. })
        };
        self.undecided == 0 && !self.fails() && self.verdicts.iter().any(review)
    }

    /// Criteria without a verdict.
    #[must_use]
    pub fn ungraded(&self) -> usize {
        self.verdicts.iter().filter(|(_, verdict)| *verdict == Verdict::Ungraded).count()
    }
}

impl Asked {
    /// Groups that lack one of the labels are not worth a call: nothing could calibrate them (JUDGE-23).
    async fn agreements(&self, set: Option<&Calibration>, at_once: usize) -> (Vec<Agreement>, Usd) {
        let items = set.map_or(&[][..], Calibration::items);
        let mut found: Vec<Agreement> = Group::ALL.iter().map(|group| Agreement::of(*group, items)).collect();
        let worth: HashSet<Group> = found
            .iter()
            .filter(|agreement| agreement.has_both_labels())
            .map(|agreement| agreement.group)
            .collect();
        let tried = items.iter().filter(|item| worth.contains(&item.criterion.group()));
        let graded = tried.map(|item| self.grade_item(item));
        let graded: Vec<_> = stream::iter(graded).buffered(at_once.max(1)).collect().await;
        let mut spent = Usd::ZERO;
        for (group, agrees, cost) in graded {
            spent = sum(spent, cost);
            if let Some(agreement) = found.iter_mut().find(|agreement| agreement.group == group) {
                agreement.agreed += usize::from(agrees);
            }
        }
        (found, spent)
    }

    async fn grade_item(&self, item: &Item) -> (Group, bool, Usd) {
        let reply = item.reply.join(" ");
        let material = Material { history: &item.history, text: &item.text, reply: &reply };
        let (verdict, cost) = self.grade(&item.criterion, &material).await;
        (item.criterion.group(), item.label.agrees(&verdict), cost)
    }

    /// Three samples, and what they come to (JUDGE-11).
    async fn grade(&self, criterion: &Criterion, material: &Material<'_>) -> (Verdict, Usd) {
        let (mut samples, mut cost) = (Vec::new(), Usd::ZERO);
        for _ in 0..SAMPLES {
            let (sample, price) = self.sample(criterion, material).await;
            samples.push(sample);
            cost = sum(cost, price);
        }
        (verdict::decide(&samples), cost)
    }

    /// One call. An error, a time-out or an answer that does not fit is no sample (JUDGE-10).
    async fn sample(&self, criterion: &Criterion, material: &Material<'_>) -> (Option<Sample>, Usd) {
        let spent = Spent::default();
        let meter = Meter::of(&spent).at(self.prices);
        let request = prompt::request(&self.catalog, criterion, material, self.max_output_tokens, meter);
        let called = tokio::time::timeout(self.time_out, self.provider.step(request)).await;
        let failed = spent.bill().cost;
        let answer = match called {
            Ok(Ok(answer)) => answer,
            Ok(Err(error)) => return (self.lose(error.name()), failed),
            Err(_) => return (self.lose("aborted".to_owned()), failed),
        };
        let cost = sum(failed, self.prices.cost(&answer.usage));
        let sample = Sample::read(answer.output, material.reply);
        (sample.or_else(|| self.lose(NO_VERDICT.to_owned())), cost)
    }

    /// Notes why a sample came to nothing.
    fn lose(&self, reason: String) -> Option<Sample> {
        self.lost.lock().unwrap_or_else(PoisonError::into_inner).note(reason);
        None
    }
}

fn sum(left: Usd, right: Usd) -> Usd {
    Usd::new(left.get().saturating_add(right.get()))
}

#[cfg(test)]
mod tests;
