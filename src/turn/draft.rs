//! A decided reply before it is settled: what the contact will read and what the record will say.

use crate::domain::{EscalationReason, Outcome};
use crate::model::{Cause, Reply, TurnResult};

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
    Aborted,
}

/// A reply with where it came from.
#[derive(Debug)]
pub struct Draft {
    /// What was decided.
    pub reply: Reply,
    /// How.
    pub decision: Decision,
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
            Decision::Aborted => Outcome::Error,
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

    /// True when the model wrote the text: only then is it converted to the channel's marks (DEC-4, DEC-35).
    #[must_use]
    pub fn is_model_text(&self) -> bool {
        match &self.decision {
            Decision::Model(result) => {
                let model_decided = matches!(result.cause, None | Some(Cause::Model));
                let replaced = result.interventions.iter().any(|name| name == "duplicate_replaced");
                model_decided && !replaced
            }
            _ => false,
        }
    }
}
