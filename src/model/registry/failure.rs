//! What a failed call means: its name, whether to try again, and what the model refused. Nothing of genai's error is
//! kept beyond that, because its text can hold the answer or the whole request (FAIL-17).

use std::time::Duration;

use genai::webc;
use reqwest::header::HeaderMap;

use crate::model::port::ModelError;

/// A call that failed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Failure {
    /// What the caller is told.
    pub(super) error: ModelError,
    /// Whether it may go better in a moment (RUN-16).
    pub(super) is_transient: bool,
    /// How long the provider asks to wait.
    pub(super) retry_after: Option<Duration>,
    /// The part of the request that the provider does not take, when it names one.
    pub(super) refused: Option<Refused>,
}

/// A part of the request that some models refuse.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Refused {
    /// The reply schema as structured output.
    Schema,
    /// The temperature.
    Temperature,
}

impl Failure {
    /// The provider's own status.
    pub(super) fn of_status(code: u16) -> Self {
        let error = ModelError::Status(code);
        Self { is_transient: error.is_providers_fault(), error, retry_after: None, refused: None }
    }

    /// No answer: no connection, a broken one, or a page of somebody else, such as a proxy.
    const fn no_answer() -> Self {
        Self { error: ModelError::Unreachable, is_transient: true, retry_after: None, refused: None }
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
                    is_transient: failure.is_transient && !forbids_retry(headers),
                    retry_after: retry_after(headers),
                    refused: if status.as_u16() == 400 { Refused::named_in(body) } else { None },
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

    fn named_in(body: &str) -> Option<Self> {
        let body = body.to_lowercase();
        if Self::OF_SCHEMA.iter().any(|word| body.contains(word)) {
            Some(Self::Schema)
        } else if body.contains("temperature") {
            Some(Self::Temperature)
        } else {
            None
        }
    }
}

/// `retry-after-ms`, else `retry-after` in seconds. A date is not read: then the backoff decides.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let number = |name: &str| headers.get(name)?.to_str().ok()?.trim().parse::<f64>().ok();
    let seconds = number("retry-after-ms").map(|millis| millis / 1000.0).or_else(|| number("retry-after"));
    seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
}

/// A header of OpenAI and Anthropic: the failure will stay, for example because the quota is used up.
fn forbids_retry(headers: &HeaderMap) -> bool {
    headers.get("x-should-retry").is_some_and(|value| value == "false")
}
