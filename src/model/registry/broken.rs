//! Calls that genai refuses to read. It gives up the whole answer when the arguments of one call are no JSON; here the
//! calls are taken out of the body one by one, so that the model can be told which was wrong (RUN-7).

use genai::chat::{ContentPart, MessageContent, ToolCall as WireCall};
use serde_json::{Value, json};

use super::request::REPLY_TOOL;

/// A call of OpenAI's wire format.
pub(super) struct RawCall {
    id: String,
    name: String,
    arguments: String,
}

impl RawCall {
    /// `None` when the arguments are no JSON; nothing at all is a call without arguments.
    fn read(&self) -> Option<Value> {
        if self.arguments.trim().is_empty() {
            return Some(json!({}));
        }
        serde_json::from_str(&self.arguments).ok()
    }
}

/// The calls of an answer, in order; those without a name are left out.
pub(super) fn calls(body: &Value) -> Vec<RawCall> {
    let list = body.pointer("/choices/0/message/tool_calls").and_then(Value::as_array);
    let mut calls: Vec<RawCall> = Vec::new();
    for (place, call) in list.into_iter().flatten().enumerate() {
        let Some(mut raw) = raw_call(call) else { continue };
        if raw.id.is_empty() || calls.iter().any(|earlier| earlier.id == raw.id) {
            raw.id = format!("call_{place}");
        }
        calls.push(raw);
    }
    calls
}

fn raw_call(call: &Value) -> Option<RawCall> {
    let name = call.pointer("/function/name")?.as_str()?.to_owned();
    let id = call.get("id").and_then(Value::as_str).unwrap_or_default().to_owned();
    let arguments = match call.pointer("/function/arguments") {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Null) | None => String::new(),
        Some(other) => other.to_string(),
    };
    Some(RawCall { id, name, arguments })
}

/// The arguments of the reply tool when nothing else was called and they cannot be read; the runner refuses them under
/// their proper name.
pub(super) fn reply(calls: &[RawCall]) -> Option<&str> {
    let [first, rest @ ..] = calls else { return None };
    let only_replies = first.name == REPLY_TOOL && rest.iter().all(|call| call.name == REPLY_TOOL);
    (only_replies && first.read().is_none()).then_some(first.arguments.as_str())
}

/// Ids of the calls whose arguments are no JSON.
pub(super) fn unreadable(calls: &[RawCall]) -> Vec<String> {
    calls.iter().filter(|call| call.read().is_none()).map(|call| call.id.clone()).collect()
}

/// The answer as genai would have read it, with nothing for arguments that cannot be read.
pub(super) fn content(body: &Value, calls: &[RawCall]) -> MessageContent {
    let said = body.pointer("/choices/0/message/content").and_then(Value::as_str);
    let text = said.map(|text| ContentPart::Text(text.to_owned()));
    let called = calls.iter().map(|call| {
        ContentPart::ToolCall(WireCall {
            call_id: call.id.clone(),
            fn_name: call.name.clone(),
            fn_arguments: call.read().unwrap_or_else(|| json!({})),
            thought_signatures: None,
        })
    });
    MessageContent::from_parts(text.into_iter().chain(called).collect::<Vec<_>>())
}
