//! What the guardrails did to a reply, as a value: code decides by it, and a log, a report and a row write its word.

use std::fmt;

use super::reply::Faults;

/// What was changed or noticed in a model's reply (01 section 9, FAIL-17). Holds no word of the reply. Its text is the name,
/// and behind a colon the value where there is one (LOG-5).
#[derive(Clone, PartialEq, Debug)]
pub enum Intervention {
    /// The object is not a valid reply: where.
    SchemaInvalid(Faults),
    /// Lines that name a field of the reply were taken out (GUARD-2).
    FieldEchoStripped,
    /// Texts that show nothing were dropped.
    BlankTextDropped,
    /// It held parts of the prompt (GUARD-4).
    PromptLeakDetected,
    /// The model was less certain than the tenant asks for: how certain, 0 to 1 (GUARD-6).
    ConfidenceBelowThreshold(f64),
    /// There were too many messages (GUARD-7).
    MessagesTruncated,
    /// A message was too long (GUARD-7).
    MessageTruncated,
    /// The last message ends with a question already (GUARD-8).
    ClosingQuestionAlreadyInBody,
    /// It repeats an earlier reply, and the tenant has no closer (GUARD-11).
    DuplicateDetected,
    /// It repeats an earlier reply: the tenant's closer stands in its place (GUARD-10).
    DuplicateReplaced,
    /// The call failed: the failure's name (FAIL-17).
    ModelError(String),
}

impl Intervention {
    /// The name, without a value.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::SchemaInvalid(_) => "schema_invalid",
            Self::FieldEchoStripped => "field_echo_stripped",
            Self::BlankTextDropped => "blank_text_dropped",
            Self::PromptLeakDetected => "prompt_leak_detected",
            Self::ConfidenceBelowThreshold(_) => "confidence_below_threshold",
            Self::MessagesTruncated => "messages_truncated",
            Self::MessageTruncated => "message_truncated",
            Self::ClosingQuestionAlreadyInBody => "closing_question_already_in_body",
            Self::DuplicateDetected => "duplicate_detected",
            Self::DuplicateReplaced => "duplicate_replaced",
            Self::ModelError(_) => "model_error",
        }
    }
}

impl fmt::Display for Intervention {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name())?;
        match self {
            Self::SchemaInvalid(faults) => write!(out, ": {faults}"),
            Self::ConfidenceBelowThreshold(confidence) => write!(out, ": {confidence}"),
            Self::ModelError(failure) => write!(out, ": {failure}"),
            _ => Ok(()),
        }
    }
}

/// Tests name what they expect by the text that is logged.
#[cfg(test)]
impl PartialEq<&str> for Intervention {
    fn eq(&self, text: &&str) -> bool {
        let words = self.to_string();
        words == *text
    }
}

#[cfg(test)]
impl PartialEq<String> for Intervention {
    fn eq(&self, text: &String) -> bool {
        let words = self.to_string();
        words == *text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// LOG-5, GUARD-2 to GUARD-11, FAIL-17: the words of each, byte for byte; the name is what stands before the colon.
    #[test]
    fn each_intervention_has_its_words() {
        for (intervention, words) in [
            (Intervention::SchemaInvalid(Faults::at("messages.0")), "schema_invalid: messages.0"),
            (Intervention::FieldEchoStripped, "field_echo_stripped"),
            (Intervention::BlankTextDropped, "blank_text_dropped"),
            (Intervention::PromptLeakDetected, "prompt_leak_detected"),
            (Intervention::ConfidenceBelowThreshold(0.41), "confidence_below_threshold: 0.41"),
            (Intervention::ConfidenceBelowThreshold(0.0), "confidence_below_threshold: 0"),
            (Intervention::MessagesTruncated, "messages_truncated"),
            (Intervention::MessageTruncated, "message_truncated"),
            (Intervention::ClosingQuestionAlreadyInBody, "closing_question_already_in_body"),
            (Intervention::DuplicateDetected, "duplicate_detected"),
            (Intervention::DuplicateReplaced, "duplicate_replaced"),
            (Intervention::ModelError("reply_missing".to_owned()), "model_error: reply_missing"),
        ] {
            assert_eq!(intervention.to_string(), words);
            assert_eq!(words.split(':').next(), Some(intervention.name()));
        }
    }
}
