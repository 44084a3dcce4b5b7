//! Tools on the wire of each provider: what is offered, what comes back, and what goes back again (01 section 11).

use std::sync::Arc;

use serde_json::{Value, json};

use super::request::REPLY_TOOL;
use super::test_support::{
    ALL_WIRES, Act, Asked, FakeProvider, SECRET, answer, calling, replied, reply_object, request, text,
};
use super::wire::Wire;
use crate::model::meter::Meter;
use crate::model::port::{
    MessageRole, ModelAnswer, ModelError, ModelMessage, ModelOutput, ModelProvider, ModelRequest, Part,
    ToolCalls, ToolResult, Usage,
};
use crate::model::spent::Spent;
use crate::tools::ToolDefinition;

/// A name each provider knows, of the generation that takes a schema beside tools where there is one.
const fn model_of(wire: Wire) -> &'static str {
    match wire {
        Wire::Anthropic => "claude-haiku-4-5",
        Wire::OpenAi => "gpt-4o-mini",
        Wire::Google => "gemini-3-flash",
        Wire::Ollama => "llama3.1:8b",
    }
}

fn tag_tool() -> ToolDefinition {
    let parameters = json!({
        "type": "object",
        "properties": { "tag": { "type": "string", "enum": ["likes_glaze", "has_kiln"] },
            "why": { "type": "string", "maxLength": 40 } },
        "required": ["tag"], "additionalProperties": false,
    });
    ToolDefinition {
        name: "add_tag",
        description: "Adds a tag.".to_owned(),
        parameters: Arc::new(parameters),
    }
}

fn read_tool() -> ToolDefinition {
    let parameters =
        json!({ "type": "object", "properties": {}, "required": [], "additionalProperties": false });
    ToolDefinition {
        name: "get_contact",
        description: "Reads the contact.".to_owned(),
        parameters: Arc::new(parameters),
    }
}

fn offering() -> ModelRequest {
    ModelRequest { tools: Arc::new([tag_tool(), read_tool()]), ..request() }
}

fn two_calls() -> [(&'static str, Value); 2] {
    [("add_tag", json!({ "tag": "likes_glaze" })), ("get_contact", json!({}))]
}

/// Runs one step against the bodies, and what was asked.
async fn step_with(
    wire: Wire,
    model: &str,
    request: ModelRequest,
    bodies: &[Value],
) -> (Result<ModelAnswer, ModelError>, Vec<Asked>) {
    let fake = FakeProvider::start(bodies.iter().map(|body| answer(200, body)).collect()).await;
    let outcome = fake.model(wire, model).step(request).await;
    (outcome, fake.asked())
}

async fn step(wire: Wire, body: &Value) -> ModelAnswer {
    let (outcome, asked) = step_with(wire, model_of(wire), offering(), std::slice::from_ref(body)).await;
    assert_eq!(asked.len(), 1, "{wire:?}: {body}");
    outcome.unwrap()
}

fn calls_of(answer: ModelAnswer) -> ToolCalls {
    let ModelOutput::Calls(calls) = answer.output else { panic!("no calls: {:?}", answer.output) };
    calls
}

/// Name and arguments of each call.
fn named(calls: &ToolCalls) -> Vec<(&str, Option<&Value>)> {
    calls.calls.iter().map(|call| (call.name.as_str(), call.arguments.as_ref())).collect()
}

/// Name, description and schema of the tools in a body, and the place of the choice.
fn tools_in(wire: Wire, body: &Value) -> Vec<(Value, Value)> {
    let (list, name, schema) = match wire {
        Wire::Anthropic => ("/tools", "/name", "/input_schema"),
        Wire::OpenAi | Wire::Ollama => ("/tools", "/function/name", "/function/parameters"),
        Wire::Google => ("/tools/0/functionDeclarations", "/name", "/parametersJsonSchema"),
    };
    let tools = body.pointer(list).and_then(Value::as_array).unwrap();
    let at = |tool: &Value, place| tool.pointer(place).cloned().unwrap_or_default();
    tools.iter().map(|tool| (at(tool, name), at(tool, schema))).collect()
}

fn choice_in(wire: Wire, body: &Value) -> Option<&Value> {
    body.pointer(match wire {
        Wire::Google => "/toolConfig/functionCallingConfig",
        Wire::Anthropic | Wire::OpenAi | Wire::Ollama => "/tool_choice",
    })
}

fn has_schema(body: &Value) -> bool {
    let body = body.to_string();
    ["response_format", "output_config", "responseJsonSchema"].iter().any(|key| body.contains(key))
}

/// 01/RUN-4, TCFG-30: tools and the reply's schema in one request, in the order of the definitions, free to choose.
#[tokio::test]
async fn tools_stand_beside_the_schema() {
    for wire in [Wire::Anthropic, Wire::OpenAi, Wire::Google] {
        let body = calling(wire, &two_calls());
        let (_, asked) = step_with(wire, model_of(wire), offering(), &[body]).await;
        let body = &asked[0].body;
        let tools = tools_in(wire, body);
        let names: Vec<&Value> = tools.iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["add_tag", "get_contact"], "{wire:?}");
        assert!(has_schema(body), "{wire:?}");
        assert_eq!(choice_in(wire, body), None, "{wire:?}");
        let schema = &tools[0].1;
        assert_eq!(schema["properties"]["tag"]["enum"], json!(["likes_glaze", "has_kiln"]), "{wire:?}");
        assert_eq!(schema["properties"]["why"]["description"], "(maxLength: 40)", "{wire:?}");
    }
}

/// 01/RUN-4: OpenAI holds arguments to the schema, in which then everything is required; what was filled with nothing is
/// left out again.
#[tokio::test]
async fn openais_tools_are_strict() {
    let body = calling(Wire::OpenAi, &[("add_tag", json!({ "tag": "has_kiln", "why": null }))]);
    let (outcome, asked) = step_with(Wire::OpenAi, "gpt-4o-mini", offering(), &[body]).await;
    assert_eq!(asked[0].body["tools"][0]["function"]["strict"], true);
    let schema = &tools_in(Wire::OpenAi, &asked[0].body)[0].1;
    assert_eq!(schema["required"], json!(["tag", "why"]));
    assert_eq!(schema["properties"]["why"]["type"], json!(["string", "null"]));
    assert_eq!(named(&calls_of(outcome.unwrap())), [("add_tag", Some(&json!({ "tag": "has_kiln" })))]);
    for (wire, model) in [(Wire::Anthropic, "claude-haiku-4-5"), (Wire::OpenAi, "a-model-of-a-gateway")] {
        let (_, asked) = step_with(wire, model, offering(), &[calling(wire, &two_calls())]).await;
        assert!(!asked[0].body["tools"].to_string().contains("\"strict\":true"), "{model}");
    }
}

/// 01/RUN-4, PROV-6: where tools and schema exclude each other, the reply is a tool among the others.
#[tokio::test]
async fn the_reply_becomes_a_tool_where_it_must() {
    for (wire, model) in [(Wire::Google, "gemini-2.5-flash"), (Wire::Ollama, "llama3.1:8b")] {
        let body = calling(wire, &[(REPLY_TOOL, reply_object())]);
        let (outcome, asked) = step_with(wire, model, offering(), &[body]).await;
        assert_eq!(outcome.unwrap().output, ModelOutput::Json(reply_object()), "{wire:?}");
        let body = &asked[0].body;
        let names: Vec<Value> = tools_in(wire, body).into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["add_tag", "get_contact", REPLY_TOOL], "{wire:?}");
        assert!(!has_schema(body), "{wire:?}");
        let choice = choice_in(wire, body).unwrap().to_string();
        assert!(choice.contains("required") || choice.contains("ANY"), "{choice}");
        assert!(!choice.contains(REPLY_TOOL), "{choice}");

        // RUN-6: the step that offers nothing asks for the schema itself.
        let last = replied(wire, &reply_object().to_string());
        let (_, asked) = step_with(wire, model, request(), &[last]).await;
        assert!(has_schema(&asked[0].body) && asked[0].body.get("tools").is_none(), "{wire:?}");
    }
}

/// LOOP-6, USE-1: all calls of a step, in their order, with the step's tokens; whatever else was said.
#[tokio::test]
async fn parallel_calls_are_read() {
    for wire in ALL_WIRES {
        let mut body = calling(wire, &two_calls());
        match wire {
            Wire::Anthropic => {
                let blocks = body["content"].as_array_mut().unwrap();
                blocks.insert(0, json!({ "type": "text", "text": reply_object().to_string() }));
            }
            Wire::OpenAi | Wire::Ollama => {
                body["choices"][0]["message"]["content"] = json!(reply_object().to_string());
            }
            Wire::Google => {
                let parts = body["candidates"][0]["content"]["parts"].as_array_mut().unwrap();
                parts.push(json!({ "text": reply_object().to_string() }));
            }
        }
        let answered = step(wire, &body).await;
        assert_eq!(answered.usage.output, Some(100), "{wire:?}");
        let calls = calls_of(answered);
        let arguments = json!({ "tag": "likes_glaze" });
        assert_eq!(named(&calls), [("add_tag", Some(&arguments)), ("get_contact", Some(&json!({})))]);
        assert_ne!(calls.calls[0].id, calls.calls[1].id, "{wire:?}");
    }
}

/// The request after a step: its calls and one result for each.
fn after(calls: ToolCalls, results: &[(Value, bool)]) -> ModelRequest {
    let results = calls.calls.iter().zip(results).map(|(call, (content, is_error))| {
        Part::Result(ToolResult {
            call_id: call.id.clone(),
            name: call.name.clone(),
            content: content.clone(),
            is_error: *is_error,
        })
    });
    let results = ModelMessage { role: MessageRole::ToolResults, parts: results.collect() };
    let called = ModelMessage { role: MessageRole::Assistant, parts: vec![Part::Calls(calls)] };
    let mut request = offering();
    request.messages.extend([called, results]);
    request
}

/// What the provider is sent in the step after `body`.
async fn second_step(wire: Wire, body: &Value, results: &[(Value, bool)]) -> Value {
    let good = replied(wire, &reply_object().to_string());
    let fake = FakeProvider::start(vec![answer(200, body), answer(200, &good)]).await;
    let model = fake.model(wire, model_of(wire));
    let calls = calls_of(model.step(offering()).await.unwrap());
    model.step(after(calls, results)).await.unwrap();
    fake.asked().remove(1).body
}

fn two_results() -> [(Value, bool); 2] {
    [(json!({ "error": "no such tag" }), true), (json!({ "available": false }), false)]
}

/// LOOP-6, TSET-14: each call is answered by its own id, in one turn of the transcript; errors are marked.
#[tokio::test]
async fn anthropic_gets_its_results_in_one_message() {
    let mut body = calling(Wire::Anthropic, &two_calls());
    let blocks = body["content"].as_array_mut().unwrap();
    blocks.insert(0, json!({ "type": "thinking", "thinking": "hm", "signature": "signed" }));
    blocks.insert(1, json!({ "type": "text", "text": "" }));
    let sent = second_step(Wire::Anthropic, &body, &two_results()).await;
    let expected = json!([
        { "role": "assistant", "content": [
            { "type": "thinking", "thinking": "hm", "signature": "signed" },
            { "type": "tool_use", "id": "id0", "name": "add_tag", "input": { "tag": "likes_glaze" } },
            { "type": "tool_use", "id": "id1", "name": "get_contact", "input": {} },
        ] },
        { "role": "user", "content": [
            { "type": "tool_result", "tool_use_id": "id0", "is_error": true,
                "content": "{\"error\":\"no such tag\"}" },
            { "type": "tool_result", "tool_use_id": "id1", "content": "{\"available\":false}" },
        ] },
    ]);
    assert_eq!(sent["messages"].as_array().unwrap()[3..], *expected.as_array().unwrap());
}

/// LOOP-6, PROV-6: a message for each result, behind the calls.
#[tokio::test]
async fn openai_and_ollama_get_a_message_for_each_result() {
    for wire in [Wire::OpenAi, Wire::Ollama] {
        let sent = second_step(wire, &calling(wire, &two_calls()), &two_results()).await;
        let messages = sent["messages"].as_array().unwrap();
        let calls = messages[4]["tool_calls"].as_array().unwrap();
        let sent_calls: Vec<(&Value, &Value)> =
            calls.iter().map(|call| (&call["id"], &call["function"]["arguments"])).collect();
        let expected = [(&json!("id0"), &json!("{\"tag\":\"likes_glaze\"}")), (&json!("id1"), &json!("{}"))];
        assert_eq!(sent_calls, expected, "{wire:?}");
        let results = json!([
            { "role": "tool", "tool_call_id": "id0", "content": "{\"error\":\"no such tag\"}" },
            { "role": "tool", "tool_call_id": "id1", "content": "{\"available\":false}" },
        ]);
        assert_eq!(messages[5..], *results.as_array().unwrap(), "{wire:?}");
    }
}

/// LOOP-6: one turn for all results, and the signature of the thought back on its call.
#[tokio::test]
async fn google_gets_its_signature_back() {
    let sent = second_step(Wire::Google, &calling(Wire::Google, &two_calls()), &two_results()).await;
    let contents = sent["contents"].as_array().unwrap();
    let expected = json!([
        { "functionCall": { "name": "add_tag", "args": { "tag": "likes_glaze" } },
            "thoughtSignature": "c2lnbmVk" },
        { "functionCall": { "name": "get_contact", "args": {} } },
    ]);
    assert_eq!((&contents[3]["role"], &contents[3]["parts"]), (&json!("model"), &expected));
    let results = contents[4]["parts"].as_array().unwrap();
    let of = |index: usize| &results[index]["functionResponse"];
    assert_eq!((of(0)["name"].as_str(), of(1)["name"].as_str()), (Some("add_tag"), Some("get_contact")));
    assert!(of(0)["response"].to_string().contains("no such tag"));
    assert_eq!((contents.len(), results.len()), (5, 2));
}

/// 01/RUN-7: what one call gave is no JSON; it is a call all the same, and the others stand.
#[tokio::test]
async fn arguments_that_are_no_json_spoil_one_call_only() {
    for wire in [Wire::OpenAi, Wire::Ollama] {
        let [tag, read] = two_calls();
        let body =
            calling(wire, &[("add_tag", json!("{\"tag\": \"likes_")), tag, ("get_contact", json!(""))]);
        let answered = step(wire, &body).await;
        assert_eq!(answered.usage.input, Some(2000), "{wire:?}");
        let calls = calls_of(answered);
        let tagged = json!({ "tag": "likes_glaze" });
        let expected = [("add_tag", None), ("add_tag", Some(&tagged)), ("get_contact", Some(&read.1))];
        assert_eq!(named(&calls), expected, "{wire:?}");

        let results = [(json!({ "error": "no JSON" }), true), (json!({ "staged": true }), false)];
        let results = [results.as_slice(), &[(json!({ "available": false }), false)]].concat();
        let sent = second_step(wire, &body, &results).await;
        let messages = sent["messages"].as_array().unwrap();
        assert_eq!(messages[4]["tool_calls"][0]["function"]["arguments"], "{}", "{wire:?}");
        assert_eq!(messages[5]["content"], "{\"error\":\"no JSON\"}", "{wire:?}");
        assert_eq!(messages.len(), 8, "{wire:?}");
    }
}

/// 01/RUN-7: arguments encoded twice are read; nothing at all is no argument.
#[tokio::test]
async fn odd_arguments_are_read() {
    let twice = json!("\"{\\\"tag\\\": \\\"has_kiln\\\"}\"");
    let calls = calls_of(step(Wire::OpenAi, &calling(Wire::OpenAi, &[("add_tag", twice)])).await);
    assert_eq!(named(&calls), [("add_tag", Some(&json!({ "tag": "has_kiln" })))]);
    let nothing = [("get_contact", Value::Null)];
    for wire in ALL_WIRES {
        let calls = calls_of(step(wire, &calling(wire, &nothing)).await);
        assert_eq!(named(&calls), [("get_contact", Some(&json!({})))], "{wire:?}");
    }
}

/// 01/RUN-7: Gemini says that it tried to call and failed; the turn goes on without a call.
#[tokio::test]
async fn a_malformed_call_of_gemini_is_no_end() {
    let mut body = replied(Wire::Google, "");
    body["candidates"] = json!([{ "index": 0, "finishReason": "MALFORMED_FUNCTION_CALL", "content": {} }]);
    let answered = step(Wire::Google, &body).await;
    assert_eq!(answered.output, ModelOutput::Calls(ToolCalls::default()));
    assert_eq!(answered.usage.input, Some(2000));
}

/// 01/RUN-4, RUN-7: a reply whose arguments are encoded twice is read as those of any other tool.
#[tokio::test]
async fn a_reply_encoded_twice_is_read() {
    let text = reply_object().to_string();
    for (wire, model, arguments) in [
        (Wire::Ollama, "llama3.1:8b", json!(json!(text).to_string())),
        (Wire::Google, "gemini-2.5-flash", json!(text)),
    ] {
        let body = calling(wire, &[(REPLY_TOOL, arguments)]);
        let (answered, _) = step_with(wire, model, offering(), &[body]).await;
        assert_eq!(answered.unwrap().output, ModelOutput::Json(reply_object()), "{wire:?}");
    }
}

/// LOOP-1: a reply beside calls was written before their results were known: the calls count, and the model is told.
#[tokio::test]
async fn a_reply_beside_calls_comes_too_early() {
    for (wire, model) in [(Wire::Google, "gemini-2.5-flash"), (Wire::Ollama, "llama3.1:8b")] {
        let [tag, _] = two_calls();
        let mixed = calling(wire, &[(REPLY_TOOL, reply_object()), tag]);
        let good = calling(wire, &[(REPLY_TOOL, reply_object())]);
        let fake = FakeProvider::start(vec![answer(200, &mixed), answer(200, &good)]).await;
        let hosted = fake.model(wire, model);
        let calls = calls_of(hosted.step(offering()).await.unwrap());
        assert_eq!(named(&calls), [("add_tag", Some(&json!({ "tag": "likes_glaze" })))], "{wire:?}");
        let answered = hosted.step(after(calls, &[(json!({ "staged": true }), false)])).await.unwrap();
        assert_eq!(answered.output, ModelOutput::Json(reply_object()));
        let sent = fake.asked().remove(1).body;
        let results: Vec<String> = match wire {
            Wire::Google => {
                sent["contents"][4]["parts"].as_array().unwrap().iter().map(Value::to_string).collect()
            }
            _ => sent["messages"].as_array().unwrap()[5..].iter().map(Value::to_string).collect(),
        };
        assert_eq!(results.len(), 2, "{wire:?}: every call is answered, in their order");
        assert!(results[0].contains("not sent") && results[1].contains("staged"), "{results:?}");
    }
}

/// 01/RUN-4: a refusal of tools beside a schema turns the reply into a tool, for good, and leaves requests without tools
/// as they were.
#[tokio::test]
async fn a_refusal_with_tools_says_nothing_about_requests_without() {
    let refusal = json!({ "error": { "message": "The compiled grammar is too large." } });
    for wire in [Wire::Anthropic, Wire::OpenAi, Wire::Google] {
        let through_tool = answer(200, &calling(wire, &[(REPLY_TOOL, reply_object())]));
        let acts: Vec<Act> = vec![
            answer(400, &refusal),
            through_tool.clone(),
            through_tool,
            answer(200, &replied(wire, &reply_object().to_string())),
        ];
        let fake = FakeProvider::start(acts).await;
        let model = fake.model(wire, model_of(wire));
        for request in [offering(), offering(), request()] {
            assert!(model.step(request).await.is_ok(), "{wire:?}");
        }
        let asked = fake.asked();
        let native: Vec<bool> = asked.iter().map(|asked| has_schema(&asked.body)).collect();
        assert_eq!(native, [true, false, false, true], "{wire:?}");
        assert_eq!(tools_in(wire, &asked[2].body).len(), 3, "{wire:?}");
        assert!(!asked[2].body.to_string().contains("\"strict\":true"), "{wire:?}");
    }
}

/// 01/RUN-4: a reply tool that is refused becomes a schema, once; when both are refused the call has failed.
#[tokio::test]
async fn each_form_is_tried_once() {
    let refusal = json!({ "error": { "message": "Invalid schema for function 'send_reply'." } });
    let good = replied(Wire::Google, &reply_object().to_string());
    let fake = FakeProvider::start(vec![answer(400, &refusal), answer(200, &good)]).await;
    let model = fake.model(Wire::Google, "gemini-2.5-flash");
    assert!(model.step(offering()).await.is_ok() && model.step(offering()).await.is_ok());
    let native: Vec<bool> = fake.asked().iter().map(|asked| has_schema(&asked.body)).collect();
    assert_eq!(native, [false, true, true]);

    let fake = FakeProvider::start(vec![answer(400, &refusal)]).await;
    let outcome = fake.model(Wire::Google, "gemini-2.5-flash").step(offering()).await;
    assert_eq!((outcome, fake.asked().len()), (Err(ModelError::Status(400)), 2));
}

/// PROV-6, PROV-10: a local model that chats although a call was demanded is asked once more, held to the schema; both
/// calls are counted, and the words go nowhere.
#[tokio::test]
async fn a_local_model_that_chats_is_held_to_the_schema() {
    let chat = replied(Wire::Ollama, SECRET);
    let good = replied(Wire::Ollama, &reply_object().to_string());
    let spent = Spent::default();
    let asking = ModelRequest { meter: Meter::of(&spent), ..offering() };
    let (outcome, asked) = step_with(Wire::Ollama, "llama3.1:8b", asking, &[chat.clone(), good]).await;
    let answered = outcome.unwrap();
    assert_eq!(answered.output, ModelOutput::Text(reply_object().to_string()));
    let once = Usage { input: Some(2000), output: Some(100), cache_read: Some(0), cache_write: None };
    assert_eq!((answered.usage, spent.bill().usage), (once, once));
    assert!(has_schema(&asked[1].body) && asked[1].body.get("tools").is_none());

    let object = replied(Wire::Ollama, &reply_object().to_string());
    let (outcome, asked) = step_with(Wire::Ollama, "llama3.1:8b", offering(), &[object]).await;
    assert_eq!((asked.len(), outcome.unwrap().output), (1, ModelOutput::Text(reply_object().to_string())));
    let (_, asked) =
        step_with(Wire::Google, "gemini-2.5-flash", offering(), &[replied(Wire::Google, "hm")]).await;
    assert_eq!(asked.len(), 1, "a model that obeys is not asked twice");
}

/// 01/RUN-6, 01 section 8: calls that no provider made, as from another one, are told in the wire's own form.
#[tokio::test]
async fn calls_without_a_providers_form_are_told() {
    for wire in ALL_WIRES {
        let mut calls = calls_of(step(wire, &calling(wire, &two_calls())).await);
        calls.opaque = None;
        let good = replied(wire, &reply_object().to_string());
        let (_, asked) = step_with(wire, model_of(wire), after(calls, &two_results()), &[good]).await;
        let sent = asked[0].body.to_string();
        for word in ["likes_glaze", "no such tag", "available"] {
            assert!(sent.contains(word), "{wire:?}: {sent}");
        }
        let request = ModelRequest { messages: vec![text(MessageRole::User, "x")], ..offering() };
        assert!(format!("{request:?}").contains("tools: 2"));
    }
}
