//! What a failed call means: its name, whether to try again, and what the model refused. Nothing of genai's error is
//! kept beyond that, because its text can hold the answer or the whole request (FAIL-17).

use std::time::Duration;

use genai::webc;
use jiff::Timestamp;
use jiff::fmt::rfc2822;
use reqwest::header::HeaderMap;
use serde_json::Value;

use crate::model::port::{ModelError, Usage};

/// A call that failed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Failure {
    /// What the caller is told.
    pub(super) error: ModelError,
    /// Whether it may go better in a moment (RUN-16).
    pub(super) is_transient: bool,
    /// How long the provider asks to wait.
    pub(super) retry_after: Option<Duration>,
    /// The parts of the request that the provider may not take, by its words; the likeliest first. It can have quoted the
    /// words of somebody else.
    pub(super) refused: [Option<Refused>; 5],
    /// Tokens it reports all the same (DEC-19).
    pub(super) usage: Usage,
}

/// A part of the request that some models refuse.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Refused {
    /// The reply schema as structured output.
    Schema,
    /// The name of the output limit.
    Limit,
    /// The reasoning effort.
    Effort,
    /// The temperature.
    Temperature,
    /// Tools as such.
    Tools,
}

impl Failure {
    /// The provider's own status.
    pub(super) fn of_status(code: u16) -> Self {
        Self::named(ModelError::Status(code))
    }

    /// No answer: no connection, a broken one, or a page of somebody else, such as a proxy.
    fn no_answer() -> Self {
        Self::named(ModelError::Unreachable)
    }

    fn named(error: ModelError) -> Self {
        let is_transient = error.is_providers_fault();
        Self { error, is_transient, retry_after: None, refused: [None; 5], usage: Usage::default() }
    }

    /// The failure inside an answer with status 200: gateways, and providers under load, answer so. It is named by the
    /// status it stands for; one that says nothing known is no answer of the provider (FAIL-17).
    pub(super) fn enclosed(body: &Value) -> Option<Self> {
        let error =
            body.get("error").or_else(|| body.pointer("/0/error")).filter(|error| !error.is_null())?;
        Some(enclosed_status(error).map_or_else(Self::no_answer, Self::of_status))
    }

    /// The same failure with the tokens that came with it.
    pub(super) fn with_usage(self, usage: Usage) -> Self {
        Self { usage, ..self }
    }

    /// A request that could not even be sent; the next one will not be either.
    fn not_sent() -> Self {
        Self { is_transient: false, ..Self::no_answer() }
    }

    /// Classifies genai's error. One that reports an answer of the wrong shape does not belong here: that call was
    /// answered.
    pub(super) fn of(error: &genai::Error) -> Self {
        match error {
            genai::Error::WebModelCall { webc_error, .. } => Self::of_web(webc_error),
            other => other.status().map_or_else(Self::not_sent, |status| Self::of_status(status.as_u16())),
        }
    }

    fn of_web(error: &webc::Error) -> Self {
        match error {
            webc::Error::ResponseFailedStatus { status, body, headers } => {
                let failure = Self::of_status(status.as_u16());
                Self {
                    is_transient: failure.is_transient && !forbids_retry(headers) && !is_used_up(body),
                    retry_after: retry_after(headers),
                    refused: Refused::named_by(status.as_u16(), body),
                    ..failure
                }
            }
            webc::Error::Reqwest(cause) if cause.is_builder() => Self::not_sent(),
            _ => Self::no_answer(),
        }
    }
}

impl Refused {
    /// Words that providers use when they refuse a schema, or structured output as such.
    const OF_SCHEMA: [&str; 7] = [
        "schema",
        "grammar",
        "output_config",
        "output_format",
        "response_format",
        "response mime type",
        "structured output",
    ];

    /// The newer of the two names of the output limit: whoever refuses either names it.
    const OF_LIMIT: &str = "max_completion_tokens";

    /// Words for the effort.
    const OF_EFFORT: [&str; 3] = ["reasoning_effort", "reasoning effort", "reasoning.effort"];

    /// Words of providers whose model takes no tools. Each stands for a whole refusal: single ones occur in others too.
    const OF_TOOLS: [&str; 7] = [
        "not support tool",
        "not support function",
        "tools are not supported",
        "tools is not supported",
        "tool use is not supported",
        "function calling is not supported",
        "function calling is not enabled",
    ];
    /// What vLLM wants to be started with.
    const TOOL_FLAG: &str = "enable-auto-tool-choice";

    /// What a refusal with that status names. 422 is what gateways and servers that speak OpenAI's language send.
    fn named_by(status: u16, body: &str) -> [Option<Self>; 5] {
        if !matches!(status, 400 | 422) {
            return [None; 5];
        }
        let body = body.to_lowercase();
        let names = |words: &[&str]| words.iter().any(|word| body.contains(word));
        let named = [
            (Self::Limit, names(&[Self::OF_LIMIT])),
            (Self::Effort, names(&Self::OF_EFFORT)),
            (Self::Temperature, names(&["temperature"])),
            (Self::Schema, names(&Self::OF_SCHEMA)),
            (Self::Tools, names(&Self::OF_TOOLS) || names(&[Self::TOOL_FLAG])),
        ];
        named.map(|(refused, is_named)| is_named.then_some(refused))
    }

    /// In words for the log.
    pub(super) const fn what(self) -> &'static str {
        match self {
            Self::Schema => "form of the reply",
            Self::Limit => "name of the output limit",
            Self::Effort => "reasoning effort",
            Self::Temperature => "temperature",
            Self::Tools => "tools",
        }
    }
}

/// Words by which providers name an error beside or instead of a status, and the status they send it with.
const NAMED_STATUS: [(&str, u16); 20] = [
    ("rate_limit", 429),
    ("resource_exhausted", 429),
    ("insufficient_quota", 429),
    ("too_many_requests", 429),
    ("overloaded", 529),
    ("unavailable", 503),
    ("deadline_exceeded", 504),
    ("timeout", 504),
    ("api_error", 500),
    ("server_error", 500),
    ("internal", 500),
    ("authentication", 401),
    ("unauthenticated", 401),
    ("invalid_api_key", 401),
    ("permission", 403),
    ("billing", 402),
    ("not_found", 404),
    ("too_large", 413),
    ("invalid_request", 400),
    ("invalid_argument", 400),
];

/// The status an error object names: as a number, as a number in a text, or by a word of [`NAMED_STATUS`]. Its message
/// is not looked at: it can quote the request.
fn enclosed_status(error: &Value) -> Option<u16> {
    let names = ["code", "status", "type"].into_iter().filter_map(|key| error.get(key));
    names.into_iter().find_map(|name| {
        match name {
            Value::Number(code) => code.as_u64().and_then(|code| u16::try_from(code).ok()),
            Value::String(word) => word.parse().ok().or_else(|| named_status(word)),
            _ => None,
        }
        .filter(|code| (400..=599).contains(code))
    })
}

fn named_status(word: &str) -> Option<u16> {
    let word = word.to_lowercase();
    NAMED_STATUS.iter().find(|(name, _)| word.contains(name)).map(|(_, code)| *code)
}

/// `retry-after-ms`, else `retry-after`, in seconds or as a date; a date in the past asks for nothing.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = |name: &str| headers.get(name)?.to_str().ok().map(str::trim);
    let number = |name: &str| text(name)?.parse::<f64>().ok();
    let seconds = number("retry-after-ms").map(|millis| millis / 1000.0).or_else(|| number("retry-after"));
    match seconds {
        Some(seconds) => Duration::try_from_secs_f64(seconds).ok(),
        None => until(text("retry-after")?),
    }
}

fn until(date: &str) -> Option<Duration> {
    let at = rfc2822::parse(date).ok()?.timestamp();
    Duration::try_from(at.duration_since(Timestamp::now())).ok()
}

/// A header of OpenAI and Anthropic: the failure will stay, for example because the quota is used up.
fn forbids_retry(headers: &HeaderMap) -> bool {
    headers.get("x-should-retry").is_some_and(|value| value == "false")
}

/// OpenAI answers 429 also when the account has run dry, which no retry changes.
fn is_used_up(body: &str) -> bool {
    body.contains("insufficient_quota")
}
