//! A decided reply before it is settled: what the contact will read and what the record will say.

use std::time::{Duration, Instant};

use crate::channel::{self, MarkStyle};
use crate::domain::{EscalationReason, Outcome};
use crate::model::{self, Bill, Cause, Figures, Intervention, LeakCheck, Reply, TurnResult};
use crate::store::settle::CheckRow;
use crate::tools::Finished;

use super::guards::Denial;

/// How the reply came about.
#[derive(Debug)]
pub enum Decision {
    /// The scripted opening (section 6 of 02).
    Scripted,
    /// A guard denied the turn.
    Denied(Denial),
    /// The message is a file that cannot be read.
    UnreadableMedia,
    /// The model ran, well or not.
    Model(Box<TurnResult>),
    /// The model did not end within its abort time.
    Aborted {
        /// Who was asked last, and what was used until then.
        bill: Box<Bill>,
        /// Time spent.
        latency: Duration,
    },
    /// A message that a dead process left cannot be answered any more (ARC-46).
    Recovered,
}

/// What a turn has come to.
#[derive(Debug)]
pub enum Verdict {
    /// This is said.
    Say(Box<Draft>),
    /// A person has taken over: nothing is said (DEC-9).
    SayNothing,
}

impl Verdict {
    /// Until when a flow of the turn plays; `None` when none was sent (WAIT-2).
    #[must_use]
    pub fn plays_until(&self) -> Option<Instant> {
        match self {
            Self::Say(draft) => draft.finished.plays_until,
            Self::SayNothing => None,
        }
    }
}

/// A reply with where it came from.
#[derive(Debug)]
pub struct Draft {
    /// What was decided.
    pub reply: Reply,
    /// Its messages as the contact will read them: a model's text in the channel's marks, the tenant's own copy as it
    /// is (DEC-4, DEC-35).
    pub texts: Vec<String>,
    /// How.
    pub decision: Decision,
    /// Prices in it that nobody published or asked about (FN-PRICE-2). Counted, never blocked.
    pub ungrounded: usize,
    /// What the turn's tools left: what follows the reply, and what goes on record.
    pub finished: Finished,
}

impl Draft {
    /// Outcome of the agent row (REP-8). `lost`: the request was answered before the reply was decided. A reply
    /// that was decided without the model keeps its own outcome (RACE-6); a failed call is an `error` on either
    /// path (DEC-19, DEC-35).
    #[must_use]
    pub fn outcome(&self, lost: bool) -> Outcome {
        match &self.decision {
            Decision::Scripted => Outcome::AnsweredScripted,
            Decision::Denied(_) => Outcome::EscalatedPrecheck,
            Decision::UnreadableMedia if self.reply.escalate => Outcome::EscalatedPrecheck,
            Decision::UnreadableMedia => Outcome::MediaFallback,
            Decision::Aborted { .. } | Decision::Recovered => Outcome::Error,
            Decision::Model(result) if result.error.is_some() => Outcome::Error,
            Decision::Model(_) if lost => Outcome::Deferred,
            Decision::Model(_) if self.reply.escalate => Outcome::EscalatedModel,
            Decision::Model(_) => Outcome::AnsweredInline,
        }
    }

    /// Reason of the handoff, when the reply is one.
    #[must_use]
    pub fn escalation(&self) -> Option<EscalationReason> {
        if !self.reply.escalate {
            return None;
        }
        Some(self.reply.escalation_reason.unwrap_or(EscalationReason::LowConfidence))
    }

    /// A reply of the tenant's own copy, delivered as it is.
    #[must_use]
    pub fn of_copy(reply: Reply, decision: Decision) -> Self {
        Self { texts: reply.messages.clone(), reply, decision, ungrounded: 0, finished: Finished::default() }
    }

    /// What the model came to. Its text is converted to the channel's marks and then looked through for echo lines and, when
    /// that has changed anything, for leaks once more: marks taken out of a word can spell what stood in no raw text (DEC-32,
    /// GUARD-2, 08/HIST-4).
    #[must_use]
    pub fn of_model(mut result: TurnResult, marks: MarkStyle, escalation: &str, leaks: &LeakCheck) -> Self {
        if !is_model_text(&result) {
            return Self::of_copy(result.reply.clone(), Decision::Model(Box::new(result)));
        }
        let converted: Vec<String> =
            result.reply.messages.iter().map(|text| channel::convert(text, marks)).collect();
        // Without an intervention these are the very texts that the guardrails have looked through.
        let is_known = converted == result.reply.messages && result.interventions.is_empty();
        let texts =
            if is_known { converted } else { without_echoes(converted, leaks, &mut result.interventions) };
        let leaks = !is_known && leaks.finds(texts.iter().map(String::as_str));
        if leaks || texts.is_empty() {
            if leaks {
                result.interventions = vec![Intervention::PromptLeakDetected];
            }
            result.reply = Reply::handoff(escalation, EscalationReason::LowConfidence);
            result.cause = Some(Cause::Leak);
            return Self::of_copy(result.reply.clone(), Decision::Model(Box::new(result)));
        }
        let (reply, decision) = (result.reply.clone(), Decision::Model(Box::new(result)));
        Self { reply, texts, decision, ungrounded: 0, finished: Finished::default() }
    }

    /// Counts the prices in a model's words that are neither published nor the contact's own (FN-PRICE-2).
    #[must_use]
    pub fn grounded_in<'text>(self, figures: &Figures, said: impl IntoIterator<Item = &'text str>) -> Self {
        let Decision::Model(result) = &self.decision else { return self };
        if !is_model_text(result) {
            return self;
        }
        let ungrounded = figures.unheard_of(&self.reply.text(), said);
        Self { ungrounded, ..self }
    }

    /// What is kept about the turn besides its words: why it came to this (01 section 17). `None` when neither a model
    /// ran nor a person was called.
    #[must_use]
    pub fn checks(&self) -> Option<CheckRow> {
        let row = |cause, interventions, confidence| CheckRow {
            cause,
            interventions,
            confidence,
            ungrounded: self.ungrounded,
        };
        match &self.decision {
            Decision::Model(result) => {
                Some(row(result.cause.map(Cause::as_str), names(result), confidence_of(result)))
            }
            Decision::Aborted { .. } => {
                Some(row(Some(Cause::Error.as_str()), vec!["aborted".to_owned()], None))
            }
            _ => self.reply.escalate.then(|| row(None, Vec::new(), None)),
        }
    }
}

/// GUARD-2: told once, whether the raw text or the converted one has the lines.
fn without_echoes(
    texts: Vec<String>,
    leaks: &LeakCheck,
    interventions: &mut Vec<Intervention>,
) -> Vec<String> {
    let told = interventions.contains(&Intervention::FieldEchoStripped);
    if !told && texts.iter().any(|text| model::echoes(text, leaks)) {
        interventions.push(Intervention::FieldEchoStripped);
    }
    texts.into_iter().filter_map(|text| model::without_echoes(text, leaks)).collect()
}

/// What the model said of its own certainty. A reply that was replaced has ours instead; one that was replaced for its
/// confidence has the model's in the intervention (GUARD-6).
fn confidence_of(result: &TurnResult) -> Option<f64> {
    let judged = |noted: &Intervention| match noted {
        Intervention::ConfidenceBelowThreshold(confidence) => Some(*confidence),
        _ => None,
    };
    match result.cause {
        None | Some(Cause::Model) => Some(result.reply.confidence),
        Some(Cause::Confidence) => result.interventions.iter().find_map(judged),
        Some(Cause::Schema | Cause::Leak | Cause::Error) => None,
    }
}

/// The names of the interventions and of the failure, without values.
fn names(result: &TurnResult) -> Vec<String> {
    let named = result.interventions.iter().map(|noted| noted.name().to_owned());
    named.chain(result.error.clone()).collect()
}

/// True when the model wrote the text; a handoff of ours and the tenant's closer are copy.
fn is_model_text(result: &TurnResult) -> bool {
    let model_decided = matches!(result.cause, None | Some(Cause::Model));
    let replaced = result.interventions.contains(&Intervention::DuplicateReplaced);
    model_decided && !replaced
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::Usd;
    use crate::model::Usage;

    fn result(text: &str) -> TurnResult {
        TurnResult {
            reply: Reply {
                messages: vec![text.to_owned()],
                escalate: false,
                escalation_reason: None,
                confidence: 0.9,
                closing_question: None,
            },
            usage: Usage::default(),
            cost: Usd::ZERO,
            interventions: Vec::new(),
            error: None,
            error_detail: None,
            latency: Duration::ZERO,
            model: "mock:test".to_owned(),
            tools_offered: false,
            cause: None,
        }
    }

    /// DEC-4, DEC-32: history keeps the raw text, the contact reads the converted one.
    #[test]
    fn a_models_text_is_converted_and_kept_raw() {
        let draft = Draft::of_model(
            result("**Yes**"),
            MarkStyle::Whatsapp,
            "A person will answer.",
            &LeakCheck::default(),
        );
        assert_eq!((draft.texts[0].as_str(), draft.reply.text().as_str()), ("*Yes*", "**Yes**"));
        assert_eq!(draft.outcome(false), Outcome::AnsweredInline);
        assert_eq!(draft.outcome(true), Outcome::Deferred);
    }

    /// 01/REP-8, RACE-6, DEC-19, DEC-35: what each decision is recorded as, in time and after a lost race.
    #[test]
    fn each_decision_has_its_outcome() {
        let scripted = || Reply::scripted("Hello.");
        let handoff = || Reply::handoff("A person will answer.", EscalationReason::OutOfScope);
        let model = |reply: Reply, error: Option<&str>| {
            let result = TurnResult { reply, error: error.map(str::to_owned), ..result("unused") };
            Draft::of_copy(result.reply.clone(), Decision::Model(Box::new(result)))
        };
        let denial = Denial { reason: EscalationReason::ExplicitRequest, detail: "keyword".to_owned() };
        let aborted = Decision::Aborted { bill: Box::default(), latency: Duration::ZERO };
        for (draft, in_time, late) in [
            (model(scripted(), None), "answered_inline", "deferred"),
            (model(handoff(), None), "escalated_model", "deferred"),
            (model(handoff(), Some("reply_missing")), "error", "error"),
            (Draft::of_copy(handoff(), aborted), "error", "error"),
            (Draft::of_copy(handoff(), Decision::Recovered), "error", "error"),
            (Draft::of_copy(scripted(), Decision::Scripted), "answered_scripted", "answered_scripted"),
            (Draft::of_copy(handoff(), Decision::Denied(denial)), "escalated_precheck", "escalated_precheck"),
            (
                Draft::of_copy(handoff(), Decision::UnreadableMedia),
                "escalated_precheck",
                "escalated_precheck",
            ),
            (Draft::of_copy(scripted(), Decision::UnreadableMedia), "media_fallback", "media_fallback"),
        ] {
            let outcomes = (draft.outcome(false).as_str(), draft.outcome(true).as_str());
            assert_eq!(outcomes, (in_time, late), "{:?}", draft.decision);
        }
    }

    /// DEC-32, GUARD-4: what only the conversion spells is a leak all the same.
    #[test]
    fn a_leak_that_the_conversion_spells_is_handed_off() {
        for text in ["CATALOG \\(Larkspur Woodshop\\)", "<<<CONTACT\\_MESSAGE>>>", "OPERATING **RULES**"] {
            let draft = Draft::of_model(
                result(text),
                MarkStyle::Plain,
                "A person will answer.",
                &LeakCheck::default(),
            );
            assert_eq!(draft.texts, ["A person will answer."], "{text}");
            assert_eq!(draft.escalation(), Some(EscalationReason::LowConfidence));
            assert_eq!(draft.outcome(false), Outcome::EscalatedModel);
        }
    }

    /// DEC-32, GUARD-2, 08/HIST-4: a line that only the conversion makes an echo is taken out; the rest is kept, and history
    /// keeps the raw text.
    #[test]
    fn an_echo_that_the_conversion_makes_is_taken_out() {
        let cases = [
            "It starts at nine.\nescalation\\_reason: null\nclosing\\_question: null",
            "It starts at nine.\n\n# escalate: false",
            "It starts at nine.\n\n\\[actions performed: send_flow x\\]",
        ];
        let styles = [MarkStyle::Whatsapp, MarkStyle::Plain];
        for (text, marks) in cases.iter().flat_map(|text| styles.map(|marks| (*text, marks))) {
            let draft = Draft::of_model(result(text), marks, "A person will answer.", &LeakCheck::default());
            assert_eq!(draft.texts, ["It starts at nine."], "{text} {marks:?}");
            assert_eq!(draft.reply.text(), text);
            assert_eq!(draft.checks().unwrap().interventions, ["field_echo_stripped"]);
        }
        let nothing = Draft::of_model(
            result("escalation\\_reason: null"),
            MarkStyle::Plain,
            "A person will answer.",
            &LeakCheck::default(),
        );
        assert_eq!(nothing.texts, ["A person will answer."]);
        assert_eq!(nothing.checks().unwrap().cause, Some("leak"));
    }

    /// 01 section 17: what is kept of a turn: names and numbers, no value behind a colon, the model's own certainty.
    #[test]
    fn checks_hold_names_and_the_models_certainty() {
        let mut unsure = result("raw");
        unsure.reply = Reply::handoff("We call you.", EscalationReason::LowConfidence);
        unsure.cause = Some(Cause::Confidence);
        unsure.interventions =
            vec![Intervention::FieldEchoStripped, Intervention::ConfidenceBelowThreshold(0.41)];
        let draft = Draft::of_model(unsure, MarkStyle::Plain, "unused", &LeakCheck::default());
        let names = vec!["field_echo_stripped".to_owned(), "confidence_below_threshold".to_owned()];
        let expected = CheckRow {
            cause: Some("confidence"),
            interventions: names,
            confidence: Some(0.41),
            ungrounded: 0,
        };
        assert_eq!(draft.checks(), Some(expected));
        let mut failed = result("raw");
        failed.cause = Some(Cause::Error);
        failed.error = Some("provider_status_500".to_owned());
        failed.interventions = vec![Intervention::ModelError("provider_status_500".to_owned())];
        let checks =
            Draft::of_model(failed, MarkStyle::Plain, "unused", &LeakCheck::default()).checks().unwrap();
        assert_eq!((checks.cause, checks.confidence), (Some("error"), None));
        assert_eq!(checks.interventions, ["model_error", "provider_status_500"]);
    }

    /// FN-PRICE-2: figures are counted in a model's words alone, and the reply stays as it is.
    #[test]
    fn ungrounded_figures_are_counted_and_delivered() {
        let figures = Figures::of(&crate::config::demo::tenant().unwrap());
        let drafted = |text: &str, said: &[&str]| {
            let draft = Draft::of_model(result(text), MarkStyle::Plain, "unused", &LeakCheck::default());
            draft.grounded_in(&figures, said.iter().copied())
        };
        let draft = drafted("It is $499, or $450.00.", &["hello"]);
        assert_eq!((draft.ungrounded, draft.texts[0].as_str()), (1, "It is $499, or $450.00."));
        assert_eq!(draft.checks().unwrap().ungrounded, 1);
        assert_eq!(drafted("So $499 is your limit.", &["i have 499"]).ungrounded, 0);
    }

    /// DEC-35: tenant copy is never converted.
    #[test]
    fn copy_of_the_tenant_is_delivered_as_it_is() {
        let mut handed_off = result("raw");
        handed_off.reply = Reply::handoff("We **call** you.", EscalationReason::LowConfidence);
        handed_off.cause = Some(Cause::Confidence);
        let draft = Draft::of_model(handed_off, MarkStyle::Whatsapp, "unused", &LeakCheck::default());
        assert_eq!(draft.texts, ["We **call** you."]);
    }
}
