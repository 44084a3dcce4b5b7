//! What a provider's answer holds: the reply and the tokens. Providers answer with much else than a reply.

use genai::chat::{ChatResponse, MessageContent, StopReason};
use serde_json::Value;

use super::failure::Failure;
use super::request::REPLY_TOOL;
use super::wire::Wire;
use super::{broken, schema, transcript};
use crate::model::port::{ModelAnswer, ModelOutput, ModelRequest, ToolCalls, Usage};

/// Reads an answer that genai understood. Whether the reply fits its schema is judged by the runner (REP-5).
///
/// # Errors
/// An error of the provider that came with status 200.
pub(super) fn read(
    wire: Wire,
    request: &ModelRequest,
    response: ChatResponse,
) -> Result<ModelAnswer, Failure> {
    let ChatResponse { content, stop_reason, captured_raw_body, .. } = response;
    let body = captured_raw_body.as_ref().unwrap_or(&Value::Null);
    let usage = usage(wire, body);
    let output = match output(content, stop_reason.as_ref(), &[]) {
        ModelOutput::Missing if request.tools.is_empty() || !is_malformed_call(body) => ModelOutput::Missing,
        ModelOutput::Missing => ModelOutput::Calls(ToolCalls::default()),
        output => without_fillers(output, request),
    };
    match Failure::enclosed(body) {
        Some(failure) if output == ModelOutput::Missing => Err(failure.with_usage(usage)),
        _ => Ok(ModelAnswer { output, usage }),
    }
}

/// Reads an answer that genai could not: it holds no reply, but may tell its tokens (DEC-19), or calls of which some
/// cannot be read (RUN-7).
///
/// # Errors
/// As for [`read`].
pub(super) fn read_unusable(
    wire: Wire,
    request: &ModelRequest,
    body: &Value,
) -> Result<ModelAnswer, Failure> {
    if let Some(failure) = Failure::enclosed(body) {
        return Err(failure.with_usage(usage(wire, body)));
    }
    let raw = broken::calls(body);
    let output = match broken::reply(&raw) {
        Some(arguments) => ModelOutput::Text(arguments.to_owned()),
        None => {
            let unreadable = broken::unreadable(&raw);
            without_fillers(output(broken::content(body, &raw), None, &unreadable), request)
        }
    };
    Ok(ModelAnswer { output, usage: usage(wire, body) })
}

/// Calls come before everything else: the reply is written when their results are known (LOOP-1).
fn output(content: MessageContent, stopped: Option<&StopReason>, unreadable: &[String]) -> ModelOutput {
    if matches!(stopped, Some(StopReason::ContentFilter(_))) {
        return ModelOutput::Missing;
    }
    let calls = content.tool_calls();
    if calls.iter().any(|call| call.fn_name != REPLY_TOOL) {
        return ModelOutput::Calls(transcript::calls(content, unreadable));
    }
    if let Some(reply) = calls.first() {
        let arguments = transcript::once_encoded(&reply.fn_arguments);
        return ModelOutput::Json(arguments.unwrap_or_else(|| reply.fn_arguments.clone()));
    }
    match content.texts().concat() {
        text if text.trim().is_empty() => ModelOutput::Missing,
        text => ModelOutput::Text(text),
    }
}

/// Gemini tried to call and could not; the next step may go better (RUN-7).
fn is_malformed_call(body: &Value) -> bool {
    body.pointer("/candidates/0/finishReason").is_some_and(|reason| reason == "MALFORMED_FUNCTION_CALL")
}

/// In a strict schema every parameter is required, so a model fills those that are not with null.
fn without_fillers(output: ModelOutput, request: &ModelRequest) -> ModelOutput {
    let ModelOutput::Calls(mut calls) = output else { return output };
    for call in &mut calls.calls {
        let tool = request.tools.iter().find(|tool| tool.name == call.name);
        if let (Some(tool), Some(Value::Object(arguments))) = (tool, &mut call.arguments) {
            arguments.retain(|name, value| !value.is_null() || schema::requires(&tool.parameters, name));
        }
    }
    ModelOutput::Calls(calls)
}

/// Whether a text may be the reply, well or badly filled in.
pub(super) fn may_be_reply(text: &str) -> bool {
    serde_json::from_str::<Value>(text).is_ok_and(|object| object.get("messages").is_some())
}

/// Tokens by the provider's own names. genai's numbers are not used: an answer it cannot read has none, and it takes
/// a count of 0 for none.
pub(super) fn usage(wire: Wire, body: &Value) -> Usage {
    let count = |path: &str| body.pointer(path).and_then(whole);
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

/// A count; some gateways write whole numbers as `100.0`.
fn whole(count: &Value) -> Option<u64> {
    count.as_u64().or_else(|| {
        let number = count.as_f64().filter(|number| number.fract() == 0.0)?;
        format!("{number:.0}").parse().ok()
    })
}

fn total(counts: [Option<u64>; 3]) -> Option<u64> {
    counts.into_iter().flatten().reduce(u64::saturating_add)
}

#[cfg(test)]
#[path = "answer_tests.rs"]
mod tests;
