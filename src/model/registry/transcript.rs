//! The messages of a request as genai takes them, calls and their results of earlier steps included.

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use genai::chat::{Binary, ChatMessage, ContentPart, MessageContent, ToolCall as WireCall, ToolResponse};
use serde_json::{Value, json};

use super::request::REPLY_TOOL;
use super::wire::Wire;
use crate::model::port::{MessageRole, ModelMessage, Opaque, Part, ToolCall, ToolCalls, ToolResult};

/// What a model is told that calls the reply tool beside others: it wrote before it knew their results.
const TOO_EARLY: &str = "not sent: call this tool again, alone, now that the other results are known";

/// All messages, in order.
pub(super) fn messages(wire: Wire, messages: &[ModelMessage]) -> Vec<ChatMessage> {
    let mut called: Vec<WireCall> = Vec::new();
    let mut built = Vec::with_capacity(messages.len());
    for message in messages {
        built.push(match message.role {
            MessageRole::User | MessageRole::StepNote => ChatMessage::user(content(message)),
            MessageRole::Assistant => {
                let content = content(message);
                called = content.tool_calls().into_iter().cloned().collect();
                ChatMessage::assistant(content)
            }
            MessageRole::ToolResults => ChatMessage::tool(results(wire, &called, message)),
        });
    }
    built
}

/// An answer's calls for the port. What came with them, such as thoughts and their signatures, goes back with them;
/// the reply tool's call is none of the port's.
pub(super) fn calls(content: MessageContent, unreadable: &[String]) -> ToolCalls {
    let others = content.tool_calls().into_iter().filter(|call| call.fn_name != REPLY_TOOL);
    let calls = others.map(|call| port_call(call, unreadable)).collect();
    ToolCalls { calls, opaque: Some(Opaque::new(repeatable(content))) }
}

fn port_call(call: &WireCall, unreadable: &[String]) -> ToolCall {
    let is_readable = !unreadable.contains(&call.call_id);
    let arguments = is_readable.then(|| once_encoded(&call.fn_arguments)).flatten();
    ToolCall { id: call.call_id.clone(), name: call.fn_name.clone(), arguments }
}

/// A tool without parameters is called with nothing, and some models encode their arguments twice.
pub(super) fn once_encoded(arguments: &Value) -> Option<Value> {
    match arguments {
        Value::Null => Some(json!({})),
        Value::String(text) => serde_json::from_str(text).ok(),
        other => Some(other.clone()),
    }
}

/// The content as the provider takes it back: arguments must be objects, texts must not be empty.
fn repeatable(content: MessageContent) -> MessageContent {
    let parts = content.into_parts().into_iter().filter_map(|part| match part {
        ContentPart::Text(text) if text.trim().is_empty() => None,
        ContentPart::ToolCall(mut call) => {
            let arguments = once_encoded(&call.fn_arguments).filter(Value::is_object);
            call.fn_arguments = arguments.unwrap_or_else(|| json!({}));
            Some(ContentPart::ToolCall(call))
        }
        part => Some(part),
    });
    MessageContent::from_parts(parts.collect::<Vec<_>>())
}

fn content(message: &ModelMessage) -> MessageContent {
    let parts = message.parts.iter().flat_map(parts).collect::<Vec<_>>();
    MessageContent::from_parts(parts)
}

fn parts(part: &Part) -> Vec<ContentPart> {
    match part {
        Part::Text(text) => vec![ContentPart::Text(text.clone())],
        Part::Contact(fenced) => vec![ContentPart::Text(fenced.as_str().to_owned())],
        Part::Image(image) => {
            let encoded = BASE64.encode(&image.bytes);
            vec![ContentPart::Binary(Binary::from_base64(image.media_type.as_str(), encoded, None))]
        }
        Part::Calls(calls) => wire_calls(calls),
        // Results stand in messages of their own role.
        Part::Result(_) => Vec::new(),
    }
}

fn wire_calls(calls: &ToolCalls) -> Vec<ContentPart> {
    if let Some(content) = calls.opaque.as_ref().and_then(Opaque::get::<MessageContent>) {
        return content.parts().clone();
    }
    let wire_call = |call: &ToolCall| WireCall {
        call_id: call.id.clone(),
        fn_name: call.name.clone(),
        fn_arguments: call.arguments.clone().filter(Value::is_object).unwrap_or_else(|| json!({})),
        thought_signatures: None,
    };
    calls.calls.iter().map(wire_call).map(ContentPart::ToolCall).collect()
}

/// One result for each call, in their order; providers refuse less, so a call of the reply tool is answered here.
fn results(wire: Wire, called: &[WireCall], message: &ModelMessage) -> MessageContent {
    let given = message.parts.iter().filter_map(|part| match part {
        Part::Result(result) => Some(result_part(wire, result)),
        _ => None,
    });
    let mut parts: Vec<ContentPart> = given.collect();
    for (place, call) in called.iter().enumerate().filter(|(_, call)| call.fn_name == REPLY_TOOL) {
        let early = ToolResult {
            call_id: call.call_id.clone(),
            name: call.fn_name.clone(),
            content: json!({ "error": TOO_EARLY }),
            is_error: true,
        };
        parts.insert(place.min(parts.len()), result_part(wire, &early));
    }
    MessageContent::from_parts(parts)
}

/// Only Anthropic has a mark for errors, and genai none; elsewhere the content says it.
fn result_part(wire: Wire, result: &ToolResult) -> ContentPart {
    let content = result.content.to_string();
    if wire == Wire::Anthropic && result.is_error {
        let block = json!({
            "type": "tool_result", "tool_use_id": result.call_id, "is_error": true, "content": content,
        });
        return ContentPart::from_custom(block, None);
    }
    let response = ToolResponse::new(result.call_id.as_str(), content).with_fn_name(result.name.as_str());
    ContentPart::ToolResponse(response)
}
