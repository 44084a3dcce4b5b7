//! The port to a model: what a provider is given and what it must give back, in our own words. Only `registry`
//! knows who stands behind it (PRIN-C2).

use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use serde_json::Value;

use super::fence::FencedText;
use super::meter::Meter;
use super::slots::Place;
use crate::config::ReasoningEffort;
use crate::tools::ToolDefinition;

/// Runs one model call (a step). An implementation must
///
/// - send the system part first and byte for byte, marked for the provider's prompt cache where that needs a mark
///   (RUN-12), then the messages in order, [`MessageRole::StepNote`] as a message of the user;
/// - ask for an answer by `response_schema`, translated to what the provider understands (REP-4);
/// - offer `tools`, in their order, beside that; calls come back as [`ModelOutput::Calls`], whatever else the answer
///   holds, and a call that cannot be read is a call all the same (RUN-7);
/// - send calls and results of earlier steps back in the provider's own form, [`ToolCalls::opaque`] included;
/// - leave out `temperature` and `reasoning_effort` when they are `None` (RUN-10);
/// - report the tokens of every answered call, whatever came of it (USE-1, DEC-19): a call that was answered without
///   a usable reply is [`ModelOutput::Missing`] with its usage, not an error. The tokens of an attempt that failed go
///   into [`ModelRequest::meter`]; those of an answer do not, the caller adds them;
/// - never put text of the provider or of the request into an error (FAIL-17);
/// - try transient failures again by itself, at most twice and only while [`ModelRequest::retry_within`] allows it
///   (RUN-16), and give the place among the calls in flight back while it waits for that ([`Place::pause`], DEC-27);
/// - stop the call when its future is dropped: that is how a turn is aborted (RUN-13, RUN-14).
pub trait ModelProvider: Send + Sync {
    /// One call. Errors are [`ModelError::Unreachable`] and [`ModelError::Status`].
    fn step(&self, request: ModelRequest) -> BoxFuture<'_, Result<ModelAnswer, ModelError>>;
}

/// Everything of one model call. `Debug` shows sizes only (LOG-9).
#[derive(Clone)]
pub struct ModelRequest {
    /// The stable system part (PROMPT-4).
    pub system: Arc<str>,
    /// History, oldest first, then the message of the current turn (PROMPT-13).
    pub messages: Vec<ModelMessage>,
    /// JSON schema of the reply (REP-4).
    pub response_schema: Arc<Value>,
    /// What the model may call instead of replying; empty when nothing is offered, as in the last step (RUN-4).
    pub tools: Arc<[ToolDefinition]>,
    /// Most tokens the answer may take, reasoning included (RUN-10, RUN-11); at least 1.
    pub max_output_tokens: u32,
    /// 0 to 2; `None` for models that refuse it (RUN-10). The runner sets it for the model it calls.
    pub temperature: Option<f64>,
    /// OpenAI's reasoning effort; other providers ignore it (RUN-10).
    pub reasoning_effort: Option<ReasoningEffort>,
    /// Takes the tokens of attempts that failed (DEC-19).
    pub meter: Meter,
    /// How long after its beginning the call may still be tried again; `None`: as the provider's client sees fit. The
    /// runner sets it for the model it calls.
    pub retry_within: Option<Duration>,
    /// Its place among the calls in flight, to be given back while the call waits before it is tried again (DEC-27).
    pub place: Place,
}

impl fmt::Debug for ModelRequest {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("ModelRequest")
            .field("system_bytes", &self.system.len())
            .field("messages", &self.messages)
            .field("tools", &self.tools.len())
            .field("max_output_tokens", &self.max_output_tokens)
            .field("temperature", &self.temperature)
            .field("reasoning_effort", &self.reasoning_effort)
            .finish_non_exhaustive()
    }
}

/// Who speaks in a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MessageRole {
    /// The contact, with what the server knows about the turn.
    User,
    /// This service, in an earlier turn; or the model's calls of an earlier step of this turn.
    Assistant,
    /// Results of the calls in the message before, one part each, in the order of the calls.
    ToolResults,
    /// The server, about what this turn's tool calls did (01 section 8); providers get it as a user message.
    StepNote,
}

/// One message of a request.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelMessage {
    /// Who speaks.
    pub role: MessageRole,
    /// What is said, in order; never empty.
    pub parts: Vec<Part>,
}

/// A piece of a message. `Debug` shows sizes only.
#[derive(Clone, PartialEq)]
pub enum Part {
    /// Words of this service: an earlier reply, an action note, a state line.
    Text(String),
    /// Words of the contact. The type sees to it that they are fenced (FENCE-6).
    Contact(FencedText),
    /// A picture, as bytes, never as an address (IN-3).
    Image(Image),
    /// What the model called in an earlier step of this turn; the only part of its message.
    Calls(ToolCalls),
    /// What came of one of those calls.
    Result(ToolResult),
}

impl Part {
    /// The text a provider is sent; `None` for a picture, calls and their results.
    #[must_use]
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            Self::Contact(fenced) => Some(fenced.as_str()),
            Self::Image(_) | Self::Calls(_) | Self::Result(_) => None,
        }
    }
}

impl fmt::Debug for Part {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => write!(out, "Text({} bytes)", text.len()),
            Self::Contact(fenced) => fenced.fmt(out),
            Self::Image(image) => write!(out, "Image({}, {} bytes)", image.media_type, image.bytes.len()),
            Self::Calls(calls) => calls.fmt(out),
            Self::Result(result) => result.fmt(out),
        }
    }
}

/// The calls of one step. `Debug` shows how many.
#[derive(Clone, PartialEq, Default)]
pub struct ToolCalls {
    /// In the order in which the model made them; never empty in an answer.
    pub calls: Vec<ToolCall>,
    /// What the provider wants back with the results; `None` when it wants nothing but the calls.
    pub opaque: Option<Opaque>,
}

impl fmt::Debug for ToolCalls {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "ToolCalls({})", self.calls.len())
    }
}

/// One call of the model. `Debug` shows nothing of it.
#[derive(Clone, PartialEq)]
pub struct ToolCall {
    /// Tells the calls of one turn apart; the provider's own where it has one.
    pub id: String,
    /// What the model named; perhaps no tool that was offered.
    pub name: String,
    /// What it gave; `None` when that is no JSON (RUN-7).
    pub arguments: Option<Value>,
}

impl fmt::Debug for ToolCall {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("ToolCall(hidden)")
    }
}

/// What came of one call. `Debug` shows only whether it is an error.
#[derive(Clone, PartialEq)]
pub struct ToolResult {
    /// [`ToolCall::id`]
    pub call_id: String,
    /// [`ToolCall::name`]
    pub name: String,
    /// A JSON object. Words of the contact in it are fenced (FENCE-6).
    pub content: Value,
    /// True when the call was not valid (TSET-14).
    pub is_error: bool,
}

impl fmt::Debug for ToolResult {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "ToolResult(error: {})", self.is_error)
    }
}

/// What only the provider that made it can read, such as the signature of a thought. It is valid within one turn and is
/// given back to the same provider unchanged. `Debug` shows nothing of it.
#[derive(Clone)]
pub struct Opaque(Arc<dyn Any + Send + Sync>);

impl Opaque {
    /// Wraps what a provider wants back.
    pub fn new<T: Any + Send + Sync>(value: T) -> Self {
        Self(Arc::new(value))
    }

    /// What was wrapped, for whoever wrapped it.
    #[must_use]
    pub fn get<T: Any>(&self) -> Option<&T> {
        self.0.downcast_ref()
    }
}

impl PartialEq for Opaque {
    /// The very same object.
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl fmt::Debug for Opaque {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Opaque(hidden)")
    }
}

/// A picture the model looks at.
#[derive(Clone, PartialEq, Eq)]
pub struct Image {
    /// For example `image/jpeg`.
    pub media_type: String,
    /// The file.
    pub bytes: Bytes,
}

/// What came back from one call.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelAnswer {
    /// The answer itself.
    pub output: ModelOutput,
    /// What the call used.
    pub usage: Usage,
}

/// The forms an answer comes in; `Debug` shows none of its words (LOG-9).
#[derive(Clone, PartialEq)]
pub enum ModelOutput {
    /// An object, already read by the provider's client.
    Json(Value),
    /// Text that must be one JSON object.
    Text(String),
    /// Calls instead of an answer; what else was said is for the next step, not for the contact.
    Calls(ToolCalls),
    /// No answer: refused, filtered, or cut before the first word.
    Missing,
}

impl fmt::Debug for ModelOutput {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Json(_) => "Json(hidden)",
            Self::Text(_) => "Text(hidden)",
            Self::Calls(_) => "Calls(hidden)",
            Self::Missing => "Missing",
        })
    }
}

/// Tokens of one call or, summed, of one turn; `None` is unknown (RUN-2).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Usage {
    /// Tokens read, those from the cache included.
    pub input: Option<u64>,
    /// Tokens written, reasoning included.
    pub output: Option<u64>,
    /// Tokens read from the provider's prompt cache.
    pub cache_read: Option<u64>,
    /// Tokens written to it, where the provider charges for that; a part of `input`.
    pub cache_write: Option<u64>,
}

impl std::ops::AddAssign for Usage {
    /// Adds the tokens of another step (USE-1). Unknown and known give the known count.
    fn add_assign(&mut self, step: Self) {
        self.input = sum(self.input, step.input);
        self.output = sum(self.output, step.output);
        self.cache_read = sum(self.cache_read, step.cache_read);
        self.cache_write = sum(self.cache_write, step.cache_write);
    }
}

fn sum(left: Option<u64>, right: Option<u64>) -> Option<u64> {
    match (left, right) {
        (Some(left), Some(right)) => Some(left.saturating_add(right)),
        (known, None) | (None, known) => known,
    }
}

/// Why a call gave no reply. Holds no word of a provider, a prompt or a contact (FAIL-17).
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ModelError {
    /// No answer of the provider arrived: no connection, or one that broke, or something else answered in its place.
    #[error("no answer of the model provider arrived: check its base URL, its state and the network")]
    Unreachable,
    /// The provider refused the call or failed.
    #[error(
        "the model provider answered with status {0}: check the key, the model name and the provider's state"
    )]
    Status(u16),
    /// The call was answered, but not with a reply.
    #[error("the model gave no reply: it refused, or AGENT_MAX_OUTPUT_TOKENS is too low for its reasoning")]
    ReplyMissing,
    /// The reply is not what was asked for.
    #[error(
        "the model's reply does not fit the schema at {0}: if this is common, choose a more capable model"
    )]
    ReplyInvalid(super::reply::Faults),
}

impl ModelError {
    /// The name that stands behind `model_error: ` (FAIL-17).
    #[must_use]
    pub fn name(&self) -> String {
        match self {
            Self::Unreachable => "provider_unreachable".to_owned(),
            Self::Status(code) => format!("provider_status_{code}"),
            Self::ReplyMissing => "reply_missing".to_owned(),
            Self::ReplyInvalid(_) => "reply_invalid".to_owned(),
        }
    }

    /// Whether the provider failed, and not because of the request: then it may work in a moment (RUN-16), and another
    /// provider may work now (DEC-10, DEC-27).
    #[must_use]
    pub const fn is_providers_fault(&self) -> bool {
        match self {
            Self::Unreachable => true,
            Self::Status(code) => matches!(*code, 408 | 409 | 429 | 500..=599),
            Self::ReplyMissing | Self::ReplyInvalid(_) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usage(input: Option<u64>, output: Option<u64>, cache_read: Option<u64>) -> Usage {
        Usage { input, output, cache_read, cache_write: cache_read }
    }

    /// USE-1
    #[test]
    fn usage_sums_what_is_known() {
        let mut total = Usage::default();
        assert_eq!(total, usage(None, None, None));
        total += usage(Some(10), None, Some(4));
        total += usage(Some(5), Some(2), None);
        assert_eq!(total, usage(Some(15), Some(2), Some(4)));
        total += usage(Some(u64::MAX), None, None);
        assert_eq!(total.input, Some(u64::MAX));
    }

    /// FAIL-17
    #[test]
    fn failures_have_the_names_of_the_log() {
        let names = [
            ModelError::Unreachable,
            ModelError::Status(429),
            ModelError::ReplyMissing,
            ModelError::ReplyInvalid(super::super::reply::Faults::at("messages.0")),
        ]
        .map(|error| error.name());
        assert_eq!(names, ["provider_unreachable", "provider_status_429", "reply_missing", "reply_invalid"]);
    }

    /// LOG-9: neither prompt nor words of a contact or an answer can be printed.
    #[test]
    fn debug_shows_sizes_and_no_words() {
        let secret = || "secret".to_owned();
        let call = ToolCall { id: secret(), name: secret(), arguments: Some(secret().into()) };
        let calls = ToolCalls { calls: vec![call.clone()], opaque: Some(Opaque::new(secret())) };
        let result =
            ToolResult { call_id: secret(), name: secret(), content: secret().into(), is_error: true };
        let called = ModelOutput::Calls(calls.clone());
        let request = ModelRequest {
            system: "secret persona".into(),
            messages: vec![ModelMessage {
                role: MessageRole::User,
                parts: vec![
                    Part::Calls(calls.clone()),
                    Part::Result(result),
                    Part::Text("secret state".to_owned()),
                    Part::Contact(FencedText::new("secret words")),
                    Part::Image(Image {
                        media_type: "image/png".to_owned(),
                        bytes: Bytes::from_static(b"secret"),
                    }),
                ],
            }],
            response_schema: Arc::new(Value::Null),
            tools: Arc::new([]),
            max_output_tokens: 400,
            temperature: None,
            reasoning_effort: None,
            meter: Meter::default(),
            retry_within: None,
            place: Place::default(),
        };
        let answer =
            ModelAnswer { output: ModelOutput::Text("secret answer".to_owned()), usage: Usage::default() };
        let (request, answer) = (format!("{request:?}"), format!("{answer:?}"));
        for printed in [request, answer, format!("{called:?} {call:?} {:?}", calls.opaque)] {
            assert!(!printed.contains("secret"), "{printed}");
        }
    }
}
