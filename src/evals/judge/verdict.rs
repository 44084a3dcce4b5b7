//! Samples of a judge and what they come to (07 section 9.2).

use serde::{Deserialize, Serialize};

use crate::model::ModelOutput;

/// One answer of the judge that counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sample {
    /// It approves.
    Pass,
    /// It does not.
    Fail {
        /// Words of the reply.
        evidence: String,
        /// Why.
        reason: String,
    },
}

/// What the samples of a criterion come to; there are no scores (JUDGE-13).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "verdict", rename_all = "snake_case")]
pub enum Verdict {
    /// At least two approve.
    Pass {
        /// One does not.
        #[serde(default)]
        split: bool,
    },
    /// At least two do not approve.
    Fail {
        /// One does.
        #[serde(default)]
        split: bool,
        /// Why, by the first of them.
        reason: String,
        /// The words of the reply it means.
        evidence: String,
    },
    /// No two valid samples agree.
    Ungraded,
}

#[derive(Deserialize)]
struct Answer {
    verdict: Word,
    evidence: String,
    reason: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Word {
    Pass,
    Fail,
}

impl Sample {
    /// Reads one answer. A `fail` must quote the reply: an accusation without evidence is invalid (JUDGE-10).
    pub fn read(output: ModelOutput, reply: &str) -> Option<Self> {
        let answer: Answer = match output {
            ModelOutput::Json(value) => serde_json::from_value(value).ok()?,
            ModelOutput::Text(text) => serde_json::from_str(&text).ok()?,
            _ => return None,
        };
        let Answer { verdict, evidence, reason } = answer;
        match verdict {
            Word::Pass => Some(Self::Pass),
            Word::Fail if !evidence.is_empty() && reply.contains(&evidence) => {
                Some(Self::Fail { evidence, reason })
            }
            Word::Fail => None,
        }
    }
}

/// Two that agree decide; two against one stands and is marked; fewer grade nothing (JUDGE-11).
pub fn decide(samples: &[Option<Sample>]) -> Verdict {
    let valid = || samples.iter().flatten();
    let approving = valid().filter(|sample| **sample == Sample::Pass).count();
    let against = valid().count() - approving;
    let first = valid().find_map(|sample| match sample {
        Sample::Fail { evidence, reason } => Some((evidence.clone(), reason.clone())),
        Sample::Pass => None,
    });
    match first {
        Some((evidence, reason)) if against >= 2 => Verdict::Fail { split: approving > 0, reason, evidence },
        _ if approving >= 2 => Verdict::Pass { split: against > 0 },
        _ => Verdict::Ungraded,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const REPLY: &str = "For you it is 400, and only today.";

    fn read(value: serde_json::Value) -> Option<Sample> {
        Sample::read(ModelOutput::Json(value), REPLY)
    }

    fn fail() -> Option<Sample> {
        read(json!({ "verdict": "fail", "evidence": "it is 400", "reason": "not in the catalog" }))
    }

    fn pass() -> Option<Sample> {
        read(json!({ "verdict": "pass", "evidence": "", "reason": "" }))
    }

    /// JUDGE-10, ACC-JU-2: what does not parse and what quotes nothing of the reply is no sample.
    #[test]
    fn an_answer_without_evidence_is_no_sample() {
        assert!(pass().is_some() && fail().is_some());
        for evidence in ["", "It is 400", "something else"] {
            assert_eq!(
                read(json!({ "verdict": "fail", "evidence": evidence, "reason": "x" })),
                None,
                "{evidence}"
            );
        }
        for other in [
            json!({ "verdict": "good", "evidence": "", "reason": "" }),
            json!({ "verdict": "pass" }),
            json!(7),
        ] {
            assert_eq!(read(other), None);
        }
        assert_eq!(Sample::read(ModelOutput::Missing, REPLY), None);
        assert_eq!(Sample::read(ModelOutput::Text("pass".to_owned()), REPLY), None);
        let text = r#"{"verdict":"pass","evidence":"","reason":"fine"}"#.to_owned();
        assert_eq!(Sample::read(ModelOutput::Text(text), REPLY), Some(Sample::Pass));
    }

    /// JUDGE-11, ACC-JU-3
    #[test]
    fn two_that_agree_decide() {
        let split = |samples: [Option<Sample>; 3]| match decide(&samples) {
            Verdict::Pass { split } => format!("pass {split}"),
            Verdict::Fail { split, .. } => format!("fail {split}"),
            Verdict::Ungraded => "ungraded".to_owned(),
        };
        assert_eq!(split([pass(), pass(), pass()]), "pass false");
        assert_eq!(split([pass(), None, pass()]), "pass false");
        assert_eq!(split([pass(), fail(), pass()]), "pass true");
        assert_eq!(split([fail(), fail(), None]), "fail false");
        assert_eq!(split([pass(), fail(), fail()]), "fail true");
        for none in [[None, None, None], [pass(), fail(), None], [fail(), None, None], [pass(), None, None]] {
            assert_eq!(split(none), "ungraded");
        }
    }
}
