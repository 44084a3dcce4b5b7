//! What a provider's answer holds: the reply and the tokens. Providers answer with much else than a reply.

use genai::chat::{ChatResponse, StopReason};
use serde_json::Value;

use super::failure::Failure;
use super::request::REPLY_TOOL;
use super::wire::Wire;
use crate::model::port::{ModelAnswer, ModelOutput, Usage};

/// Reads an answer that genai understood. Whether the reply fits its schema is judged by the runner (REP-5).
///
/// # Errors
/// An error of the provider that came with status 200.
pub(super) fn read(wire: Wire, response: &ChatResponse) -> Result<ModelAnswer, Failure> {
    let body = response.captured_raw_body.as_ref().unwrap_or(&Value::Null);
    let output = output(response);
    match Failure::enclosed(body) {
        Some(failure) if output == ModelOutput::Missing => Err(failure.with_usage(usage(wire, body))),
        _ => Ok(ModelAnswer { output, usage: usage(wire, body) }),
    }
}

/// Reads an answer that genai could not: it holds no reply, but may tell its tokens (DEC-19).
///
/// # Errors
/// As for [`read`].
pub(super) fn read_unusable(wire: Wire, body: &Value) -> Result<ModelAnswer, Failure> {
    match Failure::enclosed(body) {
        Some(failure) => Err(failure.with_usage(usage(wire, body))),
        None => Ok(ModelAnswer { output: broken_arguments(body), usage: usage(wire, body) }),
    }
}

fn output(response: &ChatResponse) -> ModelOutput {
    if matches!(response.stop_reason, Some(StopReason::ContentFilter(_))) {
        return ModelOutput::Missing;
    }
    let calls = response.content.tool_calls();
    if let Some(call) = calls.into_iter().find(|call| call.fn_name == REPLY_TOOL) {
        return ModelOutput::Json(call.fn_arguments.clone());
    }
    match response.content.texts().concat() {
        text if text.trim().is_empty() => ModelOutput::Missing,
        text => ModelOutput::Text(text),
    }
}

/// Arguments of the reply tool that are no JSON are the one reply that genai refuses; the runner refuses them too,
/// under their proper name.
fn broken_arguments(body: &Value) -> ModelOutput {
    let arguments = body.pointer("/choices/0/message/tool_calls/0/function/arguments");
    arguments.and_then(Value::as_str).map_or(ModelOutput::Missing, |text| ModelOutput::Text(text.to_owned()))
}

/// Tokens by the provider's own names. genai's numbers are not used: an answer it cannot read has none, and it takes
/// a count of 0 for none.
pub(super) fn usage(wire: Wire, body: &Value) -> Usage {
    let count = |path: &str| body.pointer(path).and_then(Value::as_u64);
    let usage = match wire {
        Wire::OpenAi | Wire::Ollama => Usage {
            input: count("/usage/prompt_tokens"),
            output: count("/usage/completion_tokens"),
            cache_read: count("/usage/prompt_tokens_details/cached_tokens"),
            cache_write: count("/usage/prompt_tokens_details/cache_write_tokens"),
        },
        // Its input count leaves out what was written to the cache and read from it.
        Wire::Anthropic => Usage {
            input: total([
                count("/usage/input_tokens"),
                count("/usage/cache_creation_input_tokens"),
                count("/usage/cache_read_input_tokens"),
            ]),
            output: count("/usage/output_tokens"),
            cache_read: count("/usage/cache_read_input_tokens"),
            cache_write: count("/usage/cache_creation_input_tokens"),
        },
        // Its output count leaves out the thoughts.
        Wire::Google => Usage {
            input: count("/usageMetadata/promptTokenCount"),
            output: total([
                count("/usageMetadata/candidatesTokenCount"),
                count("/usageMetadata/thoughtsTokenCount"),
                None,
            ]),
            cache_read: count("/usageMetadata/cachedContentTokenCount"),
            cache_write: None,
        },
    };
    // A provider that counts what it reads and names no cache read nothing from one.
    Usage { cache_read: usage.cache_read.or(usage.input.map(|_| 0)), ..usage }
}

fn total(counts: [Option<u64>; 3]) -> Option<u64> {
    counts.into_iter().flatten().reduce(u64::saturating_add)
}

#[cfg(test)]
#[path = "answer_tests.rs"]
mod tests;
