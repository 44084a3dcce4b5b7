//! The reply: the only shape in which a model's answer is accepted (01 section 2).

use std::fmt;
use std::sync::{Arc, LazyLock};

use serde_json::{Map, Value, json};

use crate::domain::EscalationReason;

/// Longest message and longest closing question, in UTF-16 code units (REP-2, REP-3).
pub const MAX_MESSAGE_UNITS: usize = 1000;
/// Most messages a model may write (REP-2).
pub const MAX_MODEL_MESSAGES: usize = 3;
/// Most messages of a validated reply: the model's and the appended question (REP-2).
pub const MAX_MESSAGES: usize = MAX_MODEL_MESSAGES + 1;

/// What `closing_question` holds, said alike in the schema and in the prompt (REP-7).
pub const CLOSING_QUESTION_GUIDE: &str = "one complete question that can stand on its own, without prices, list items \
     or explanations, because it is sent after the other messages as the last one; null when no question belongs \
     there";

/// The fields of a reply, in the order of the document. The schema, the reader and the echo check (GUARD-2) use this
/// list.
pub const FIELDS: [&str; 5] = ["messages", "escalate", "escalation_reason", "confidence", "closing_question"];

/// An answer to a contact. `Debug` shows none of its words.
#[derive(Clone, PartialEq)]
pub struct Reply {
    /// What the contact reads, split like chat messages; 1 to [`MAX_MESSAGES`].
    pub messages: Vec<String>,
    /// Whether a person must take over.
    pub escalate: bool,
    /// Why; present exactly when `escalate` is true.
    pub escalation_reason: Option<EscalationReason>,
    /// The model's own certainty, 0 to 1.
    pub confidence: f64,
    /// The question that ends the turn. The guardrails append it to `messages` (GUARD-8).
    pub closing_question: Option<String>,
}

impl Reply {
    /// A handoff made by the server: the tenant's escalation text and nothing else (ESC-4).
    #[must_use]
    pub fn handoff(tenant_text: &str, reason: EscalationReason) -> Self {
        Self { escalate: true, escalation_reason: Some(reason), ..Self::scripted(tenant_text) }
    }

    /// A text of the tenant that is sent word for word without the model (OPEN-5).
    #[must_use]
    pub fn scripted(tenant_text: &str) -> Self {
        Self {
            messages: vec![tenant_text.to_owned()],
            escalate: false,
            escalation_reason: None,
            confidence: 1.0,
            closing_question: None,
        }
    }

    /// All messages joined with a newline, as a turn's row stores them (WRITE-3).
    #[must_use]
    pub fn text(&self) -> String {
        self.messages.join("\n")
    }

    /// Reads a reply out of a model's object. Unknown keys are ignored (REP-6); nothing is repaired, but characters
    /// that no database text can hold (NUL) are dropped.
    ///
    /// # Errors
    /// The paths of everything that is missing or out of bounds (REP-1 to REP-5).
    pub fn parse(object: &Value, bounds: Bounds) -> Result<Self, Faults> {
        let Some(object) = object.as_object() else { return Err(Faults::at("(root)")) };
        let mut reader = Reader { object, faults: Vec::new() };
        let reply = Self {
            messages: reader.messages(bounds.max_messages()),
            escalate: reader.escalate(),
            escalation_reason: reader.escalation_reason(),
            confidence: reader.confidence(),
            closing_question: reader.closing_question(),
        };
        let agrees = reply.escalate == reply.escalation_reason.is_some();
        if reader.faults.is_empty() && bounds == Bounds::Validated && !agrees {
            reader.fault("escalation_reason");
        }
        if reader.faults.is_empty() { Ok(reply) } else { Err(Faults(reader.faults)) }
    }
}

impl fmt::Debug for Reply {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Reply")
            .field("messages", &self.messages.len())
            .field("escalate", &self.escalate)
            .field("escalation_reason", &self.escalation_reason)
            .field("confidence", &self.confidence)
            .field("closing_question", &self.closing_question.is_some())
            .finish()
    }
}

/// Against which of the two schemas an object is checked (REP-5).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Bounds {
    /// What the model was asked for: at most [`MAX_MODEL_MESSAGES`], reason and `escalate` not compared (REP-4).
    Model,
    /// What a reply must be in the end: at most [`MAX_MESSAGES`], a reason exactly when it escalates.
    Validated,
}

impl Bounds {
    const fn max_messages(self) -> usize {
        match self {
            Self::Model => MAX_MODEL_MESSAGES,
            Self::Validated => MAX_MESSAGES,
        }
    }
}

/// Dotted paths of what is wrong with an object, for example `messages.0`. Holds no value of the object.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Faults(Vec<String>);

impl Faults {
    /// One fault.
    #[must_use]
    pub fn at(path: &str) -> Self {
        Self(vec![path.to_owned()])
    }
}

impl fmt::Display for Faults {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0.join(", "))
    }
}

/// Length as the bounds count it: UTF-16 code units (REP-3).
#[must_use]
pub fn utf16_units(text: &str) -> usize {
    text.encode_utf16().count()
}

/// The schema given to the model (REP-4).
#[must_use]
pub fn schema() -> Arc<Value> {
    static SCHEMA: LazyLock<Arc<Value>> = LazyLock::new(|| Arc::new(build_schema()));
    Arc::clone(&SCHEMA)
}

fn build_schema() -> Value {
    let mut reasons: Vec<Value> = EscalationReason::ALL.iter().map(|reason| json!(reason.as_str())).collect();
    reasons.push(Value::Null);
    json!({
        "type": "object",
        "properties": {
            "messages": {
                "type": "array", "minItems": 1, "maxItems": MAX_MODEL_MESSAGES,
                "items": { "type": "string", "minLength": 1, "maxLength": MAX_MESSAGE_UNITS },
                "description": "what the contact reads, split like chat messages",
            },
            "escalate": { "type": "boolean", "description": "true when a person must take over" },
            "escalation_reason": {
                "type": ["string", "null"], "enum": reasons,
                "description": "why a person must take over; null when escalate is false",
            },
            "confidence": {
                "type": "number", "minimum": 0, "maximum": 1, "description": "how certain you are of this reply",
            },
            "closing_question": {
                "type": ["string", "null"], "minLength": 1, "maxLength": MAX_MESSAGE_UNITS,
                "description": CLOSING_QUESTION_GUIDE,
            },
        },
        "required": FIELDS,
    })
}

/// Reads field after field and collects the paths of faults. After a fault the value it returns is a stand-in that
/// nobody gets to see.
struct Reader<'a> {
    object: &'a Map<String, Value>,
    faults: Vec<String>,
}

impl Reader<'_> {
    fn fault(&mut self, path: &str) {
        self.faults.push(path.to_owned());
    }

    fn messages(&mut self, most: usize) -> Vec<String> {
        let Some(items) = self.object.get("messages").and_then(Value::as_array) else {
            self.fault("messages");
            return Vec::new();
        };
        if items.is_empty() || items.len() > most {
            self.fault("messages");
        }
        let mut messages = Vec::with_capacity(items.len());
        for (index, item) in items.iter().enumerate() {
            match bounded_text(item) {
                Some(message) => messages.push(message),
                None => self.fault(&format!("messages.{index}")),
            }
        }
        messages
    }

    fn escalate(&mut self) -> bool {
        let found = self.object.get("escalate").and_then(Value::as_bool);
        found.unwrap_or_else(|| {
            self.fault("escalate");
            false
        })
    }

    fn escalation_reason(&mut self) -> Option<EscalationReason> {
        match self.object.get("escalation_reason") {
            Some(Value::Null) => return None,
            Some(Value::String(word)) => {
                if let Ok(reason) = word.parse() {
                    return Some(reason);
                }
            }
            _ => {}
        }
        self.fault("escalation_reason");
        None
    }

    fn confidence(&mut self) -> f64 {
        let found = self.object.get("confidence").and_then(Value::as_f64);
        found.filter(|value| (0.0..=1.0).contains(value)).unwrap_or_else(|| {
            self.fault("confidence");
            0.0
        })
    }

    fn closing_question(&mut self) -> Option<String> {
        match self.object.get("closing_question") {
            Some(Value::Null) => return None,
            Some(value) => {
                if let Some(question) = bounded_text(value) {
                    return Some(question);
                }
            }
            None => {}
        }
        self.fault("closing_question");
        None
    }
}

/// A string of 1 to [`MAX_MESSAGE_UNITS`] units.
fn bounded_text(value: &Value) -> Option<String> {
    let text = value.as_str()?.replace('\0', "");
    (1..=MAX_MESSAGE_UNITS).contains(&utf16_units(&text)).then_some(text)
}

#[cfg(test)]
#[path = "reply_tests.rs"]
mod tests;
