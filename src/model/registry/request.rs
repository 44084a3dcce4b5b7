//! A request of ours as genai takes it, for each wire.

use genai::chat::{
    CacheControl, ChatOptions, ChatRequest, JsonSpec, ReasoningEffort as Effort, Tool, ToolChoice,
};
use serde_json::json;

use super::capability::Capabilities;
use super::wire::Wire;
use super::{schema, transcript};
use crate::config::ReasoningEffort;
use crate::model::port::ModelRequest;
use crate::tools::ToolDefinition;

/// Name of the reply's schema.
const SCHEMA_NAME: &str = "agent_reply";
/// Name of the tool whose arguments are the reply.
pub(super) const REPLY_TOOL: &str = "send_reply";
const REPLY_TOOL_DESCRIPTION: &str = "Sends the reply to the customer and ends your turn. Call it once, alone, when there is nothing else to call; its \
     arguments are the reply.";
/// Routes requests with the same system part to the same cache. Says nothing about a contact.
const CACHE_KEY: &str = "manychat-agent";

/// Who is asked.
#[derive(Clone, Debug)]
pub(super) struct Target {
    pub(super) wire: Wire,
    pub(super) model: String,
    pub(super) capabilities: Capabilities,
}

/// In which form a request is made: the model's capabilities, corrected by what it refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Form {
    /// The schema as structured output; otherwise as the parameters of a tool that must be called.
    pub(super) native_schema: bool,
    /// The output limit as `max_completion_tokens`, where it has two names.
    pub(super) completion_limit: bool,
    /// The reasoning effort, where there is one.
    pub(super) effort: bool,
    /// The temperature, where there is one.
    pub(super) temperature: bool,
    /// Tools whose arguments the provider holds to their schema.
    pub(super) strict_tools: bool,
}

/// The request and its options (RUN-3, RUN-4, RUN-10).
pub(super) fn chat(target: &Target, request: &ModelRequest, form: Form) -> (ChatRequest, ChatOptions) {
    let wire = target.wire;
    let messages = transcript::messages(wire, &request.messages);
    let mut chat = ChatRequest::new(messages).with_system(request.system.as_ref());
    let mut options = with_temperature(options(target, request, form), target, request, form);
    let mut tools: Vec<Tool> = request.tools.iter().map(|tool| offered(wire, tool, form)).collect();
    let schema = schema::safe(wire, &request.response_schema);
    if form.native_schema {
        options = options.with_response_format(JsonSpec::new(SCHEMA_NAME, schema));
    } else {
        let only = tools.is_empty();
        options =
            options.with_tool_choice(if only { ToolChoice::tool(REPLY_TOOL) } else { ToolChoice::Required });
        tools.push(Tool::new(REPLY_TOOL).with_description(REPLY_TOOL_DESCRIPTION).with_schema(schema));
    }
    if !tools.is_empty() {
        chat = chat.with_tools(tools);
    }
    (chat, options)
}

/// A tool of ours with a schema the provider accepts (TCFG-30).
fn offered(wire: Wire, tool: &ToolDefinition, form: Form) -> Tool {
    let schema = schema::safe(wire, &tool.parameters);
    let built = Tool::new(tool.name).with_description(tool.description.as_str());
    if form.strict_tools {
        built.with_schema(schema::all_required(schema)).with_strict(true)
    } else {
        built.with_schema(schema)
    }
}

/// The raw body is kept because genai drops the usage of an answer it cannot read (DEC-19).
fn options(target: &Target, request: &ModelRequest, form: Form) -> ChatOptions {
    let model = target.model.as_str();
    let effort = effort(target, request.reasoning_effort.filter(|_| form.effort));
    let options = limited(ChatOptions::default(), target.wire, request, form)
        .with_reasoning_effort(effort)
        .with_capture_raw_body(true);
    match target.wire {
        // RUN-12: with one system part and no other mark this is its end.
        Wire::Anthropic => options.with_cache_control(CacheControl::Ephemeral),
        // Local reasoning models think aloud before the JSON.
        Wire::Ollama => with_cache_key(options, model).with_normalize_reasoning_content(true),
        Wire::OpenAi => with_cache_key(options, model),
        Wire::Google => options,
    }
}

/// RUN-10. genai chooses between the limit's names by the beginning of the model's name, which it may not know; what goes
/// into the body from here is sent as it is.
fn limited(options: ChatOptions, wire: Wire, request: &ModelRequest, form: Form) -> ChatOptions {
    let limit = request.max_output_tokens;
    match wire {
        Wire::OpenAi if form.completion_limit => {
            options.with_extra_body(json!({ "max_completion_tokens": limit }))
        }
        Wire::OpenAi | Wire::Ollama => options.with_extra_body(json!({ "max_tokens": limit })),
        Wire::Anthropic | Wire::Google => options.with_max_tokens(limit),
    }
}

/// Without an explicit effort genai takes a suffix of the model's name (`-high`, `-max`) for one and cuts it off. The
/// values here send nothing but this: models that think unless told otherwise are told not to, because thinking counts
/// against the output limit (RUN-11). For Claude `Zero` says so, for Gemini a budget of 0, which not all of them take.
fn effort(target: &Target, wanted: Option<ReasoningEffort>) -> Effort {
    match wanted {
        Some(ReasoningEffort::Minimal) => Effort::Minimal,
        Some(ReasoningEffort::Low) => Effort::Low,
        Some(ReasoningEffort::Medium) => Effort::Medium,
        Some(ReasoningEffort::High) => Effort::High,
        None => match target.wire {
            Wire::OpenAi | Wire::Ollama => Effort::Budget(0),
            Wire::Google if target.capabilities.no_thinking_budget => Effort::Budget(0),
            Wire::Anthropic | Wire::Google => Effort::Zero,
        },
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

fn with_temperature(
    options: ChatOptions,
    target: &Target,
    request: &ModelRequest,
    form: Form,
) -> ChatOptions {
    match request.temperature {
        Some(temperature) if form.temperature => {
            options.with_temperature(temperature.min(target.capabilities.highest_temperature))
        }
        _ => options,
    }
}

#[cfg(test)]
#[path = "request_tests.rs"]
mod tests;
