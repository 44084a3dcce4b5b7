//! A request of ours as genai takes it, for each wire.

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use genai::chat::{
    Binary, CacheControl, ChatMessage, ChatOptions, ChatRequest, ContentPart, JsonSpec, MessageContent,
    ReasoningEffort as Effort, Tool, ToolChoice,
};

use super::failure::Refused;
use super::schema;
use super::wire::Wire;
use crate::config::ReasoningEffort;
use crate::model::port::{MessageRole, ModelMessage, ModelRequest, Part};

/// Name of the reply's schema.
const SCHEMA_NAME: &str = "agent_reply";
/// Name of the tool whose arguments are the reply.
pub(super) const REPLY_TOOL: &str = "send_reply";
const REPLY_TOOL_DESCRIPTION: &str =
    "Sends the reply to the customer. Call it exactly once; its arguments are the reply.";
/// Anthropic refuses a higher temperature; the others go up to 2.
const HIGHEST_ANTHROPIC_TEMPERATURE: f64 = 1.0;
/// Routes requests with the same system part to the same cache. Says nothing about a contact.
const CACHE_KEY: &str = "manychat-agent";

/// What of a request a model takes. It is learnt from its refusals.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Form {
    /// The schema as structured output; otherwise as the parameters of a tool that must be called.
    pub(super) native_schema: bool,
    /// The temperature, where there is one.
    pub(super) temperature: bool,
}

impl Form {
    /// Whether the request had what was refused; if not, leaving it out does not help.
    pub(super) const fn holds(self, refused: Refused) -> bool {
        match refused {
            Refused::Schema => self.native_schema,
            Refused::Temperature => self.temperature,
        }
    }
}

/// The request and its options (RUN-3, RUN-10).
pub(super) fn chat(
    wire: Wire,
    model: &str,
    request: &ModelRequest,
    form: Form,
) -> (ChatRequest, ChatOptions) {
    let messages = request.messages.iter().map(message).collect();
    let chat = ChatRequest::new(messages).with_system(request.system.as_ref());
    let options = with_temperature(options(wire, model, request), wire, request, form);
    let schema = schema::safe(wire, &request.response_schema);
    if form.native_schema {
        return (chat, options.with_response_format(JsonSpec::new(SCHEMA_NAME, schema)));
    }
    let tool = Tool::new(REPLY_TOOL).with_description(REPLY_TOOL_DESCRIPTION).with_schema(schema);
    (chat.with_tools([tool]), options.with_tool_choice(ToolChoice::tool(REPLY_TOOL)))
}

/// The raw body is kept because genai drops the usage of an answer it cannot read (DEC-19).
fn options(wire: Wire, model: &str, request: &ModelRequest) -> ChatOptions {
    let options = ChatOptions::default()
        .with_max_tokens(request.max_output_tokens)
        .with_reasoning_effort(effort(wire, request.reasoning_effort))
        .with_capture_raw_body(true);
    match wire {
        // RUN-12: with one system part and no other mark this is its end.
        Wire::Anthropic => options.with_cache_control(CacheControl::Ephemeral),
        // Local reasoning models think aloud before the JSON.
        Wire::Ollama => with_cache_key(options, model).with_normalize_reasoning_content(true),
        Wire::OpenAi => with_cache_key(options, model),
        Wire::Google => options,
    }
}

/// Without an explicit effort genai takes a suffix of the model's name (`-high`, `-max`) for one and cuts it off. The
/// values here send nothing; for Claude models that think unless told otherwise `Zero` says so, because thinking
/// counts against the output limit (RUN-11).
fn effort(wire: Wire, wanted: Option<ReasoningEffort>) -> Effort {
    match (wire, wanted) {
        (Wire::OpenAi, Some(ReasoningEffort::Minimal)) => Effort::Minimal,
        (Wire::OpenAi, Some(ReasoningEffort::Low)) => Effort::Low,
        (Wire::OpenAi, Some(ReasoningEffort::Medium)) => Effort::Medium,
        (Wire::OpenAi, Some(ReasoningEffort::High)) => Effort::High,
        (Wire::OpenAi, None) | (Wire::Ollama, _) => Effort::Budget(0),
        (Wire::Anthropic | Wire::Google, _) => Effort::Zero,
    }
}

/// For newer GPT models genai turns the provider's automatic cache off unless the request wants one; a key says that
/// it does. Other models, and servers that only speak OpenAI's language, do not get it.
fn with_cache_key(options: ChatOptions, model: &str) -> ChatOptions {
    let generation = model.strip_prefix("gpt-").and_then(|rest| rest.chars().next()?.to_digit(10));
    if generation.is_some_and(|generation| generation >= 5) {
        options.with_prompt_cache_key(CACHE_KEY)
    } else {
        options
    }
}

fn with_temperature(options: ChatOptions, wire: Wire, request: &ModelRequest, form: Form) -> ChatOptions {
    match request.temperature {
        Some(temperature) if form.temperature => options.with_temperature(match wire {
            Wire::Anthropic => temperature.min(HIGHEST_ANTHROPIC_TEMPERATURE),
            Wire::OpenAi | Wire::Google | Wire::Ollama => temperature,
        }),
        _ => options,
    }
}

fn message(message: &ModelMessage) -> ChatMessage {
    let content = MessageContent::from_parts(message.parts.iter().filter_map(part).collect::<Vec<_>>());
    match message.role {
        MessageRole::User | MessageRole::StepNote => ChatMessage::user(content),
        MessageRole::Assistant => ChatMessage::assistant(content),
        MessageRole::ToolResults => ChatMessage::tool(content),
    }
}

fn part(part: &Part) -> Option<ContentPart> {
    Some(match part {
        Part::Text(text) => ContentPart::Text(text.clone()),
        Part::Contact(fenced) => ContentPart::Text(fenced.as_str().to_owned()),
        Part::Image(image) => {
            let encoded = BASE64.encode(&image.bytes);
            ContentPart::Binary(Binary::from_base64(image.media_type.as_str(), encoded, None))
        }
        Part::Calls(_) | Part::Result(_) => return None,
    })
}

#[cfg(test)]
#[path = "request_tests.rs"]
mod tests;
