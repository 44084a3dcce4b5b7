//! The bodies that arrive at a provider.

use bytes::Bytes;
use serde_json::{Value, json};

use super::{REPLY_TOOL, Wire, schema};
use crate::config::ReasoningEffort;
use crate::model::port::{Image, MessageRole, ModelOutput, ModelProvider, ModelRequest, Part};
use crate::model::registry::test_support::{
    ALL_WIRES, Asked, FakeProvider, SECRET, answer, base_path, replied, reply_object, request, text,
};
use crate::model::reply;

/// What the provider was asked for one step of `model`.
async fn asked(wire: Wire, model: &str, request: ModelRequest) -> Asked {
    let fake = FakeProvider::start(vec![answer(200, &replied(wire, &reply_object().to_string()))]).await;
    fake.model(wire, model).step(request).await.unwrap();
    let mut asked = fake.asked();
    assert_eq!(asked.len(), 1);
    asked.remove(0)
}

fn fenced(text: &str) -> String {
    format!("<<<CONTACT_MESSAGE>>>\n{text}\n<<<END_CONTACT_MESSAGE>>>")
}

/// PROV-2, PROV-3, 01/RUN-3, 01/RUN-10: one call with structured output, the limits, and nothing else.
#[tokio::test]
async fn openai_gets_a_strict_schema() {
    let asked = asked(Wire::OpenAi, "gpt-4o-mini", request()).await;
    assert_eq!(asked.path, "/v1/chat/completions");
    assert_eq!(asked.headers["authorization"], "Bearer test-key");
    assert_eq!(asked.headers.get("accept-encoding"), None, "ARC-73: no answer is asked for packed");
    let expected = json!({
        "model": "gpt-4o-mini",
        "stream": false,
        "messages": [
            { "role": "system", "content": "You are the studio's assistant." },
            { "role": "user", "content": fenced("price?") },
            { "role": "assistant", "content": "It is $310.00." },
            { "role": "user", "content": fenced(SECRET) },
        ],
        "response_format": { "type": "json_schema", "json_schema": {
            "name": "agent_reply", "strict": true, "schema": schema::safe(Wire::OpenAi, &reply::schema()),
        } },
        "temperature": 0.3,
        "max_tokens": 400,
    });
    assert_eq!(asked.body, expected);
}

/// PROV-6: Ollama is asked in OpenAI's language, with the same schema and without any tool.
#[tokio::test]
async fn ollama_gets_the_schema_over_openais_interface() {
    let asked = asked(Wire::Ollama, "llama3.1:8b", request()).await;
    assert_eq!(asked.path, "/v1/chat/completions");
    assert_eq!(asked.body["model"], "llama3.1:8b");
    assert_eq!(asked.body["response_format"]["type"], "json_schema");
    assert_eq!((&asked.body["max_tokens"], &asked.body["temperature"]), (&json!(400), &json!(0.3)));
    let keys: Vec<&String> = asked.body.as_object().unwrap().keys().collect();
    assert_eq!(keys.len(), 6, "{keys:?}");
}

/// 01/RUN-10, 01/RUN-12: the mark stands at the end of the system part and nowhere else.
#[tokio::test]
async fn anthropic_gets_a_cache_breakpoint_after_the_system_part() {
    let asked = asked(Wire::Anthropic, "claude-haiku-4-5", request()).await;
    assert_eq!(asked.path, "/v1/messages");
    assert_eq!(asked.headers["x-api-key"], "test-key");
    assert_eq!(asked.headers["anthropic-version"], "2023-06-01");
    let expected = json!({
        "model": "claude-haiku-4-5",
        "stream": false,
        "system": [{
            "type": "text", "text": "You are the studio's assistant.", "cache_control": { "type": "ephemeral" },
        }],
        "messages": [
            { "role": "user", "content": fenced("price?") },
            { "role": "assistant", "content": "It is $310.00." },
            { "role": "user", "content": fenced(SECRET) },
        ],
        "output_config": { "format": {
            "type": "json_schema", "schema": schema::safe(Wire::Anthropic, &reply::schema()),
        } },
        "temperature": 0.3,
        "max_tokens": 400,
    });
    assert_eq!(asked.body, expected);
}

/// 01/RUN-3, 01/RUN-10
#[tokio::test]
async fn google_gets_a_json_schema() {
    let asked = asked(Wire::Google, "gemini-2.5-flash", request()).await;
    assert_eq!(asked.path, "/v1beta/models/gemini-2.5-flash:generateContent");
    assert_eq!(asked.headers["x-goog-api-key"], "test-key");
    let said = |role: &str, text: &str| json!({ "role": role, "parts": [{ "text": text }] });
    let expected = json!({
        "systemInstruction": { "parts": [{ "text": "You are the studio's assistant." }] },
        "contents": [
            said("user", &fenced("price?")),
            said("model", "It is $310.00."),
            said("user", &fenced(SECRET)),
        ],
        "generationConfig": {
            "responseMimeType": "application/json",
            "responseJsonSchema": schema::safe(Wire::Google, &reply::schema()),
            "temperature": 0.3,
            "maxOutputTokens": 400,
            "thinkingConfig": { "thinkingBudget": 0 },
        },
    });
    assert_eq!(asked.body, expected);
}

/// 01/RUN-10, 01/AC-16: no temperature, no effort, and the limit under the name that reasoning models know.
#[tokio::test]
async fn a_reasoning_model_gets_what_it_takes() {
    let unset = ModelRequest { temperature: None, ..request() };
    let body = asked(Wire::OpenAi, "gpt-5-mini", unset.clone()).await.body;
    assert_eq!(body["max_completion_tokens"], json!(400));
    for key in ["temperature", "max_tokens", "reasoning_effort"] {
        assert_eq!(body.get(key), None, "{key}");
    }
    let set = ModelRequest { reasoning_effort: Some(ReasoningEffort::Minimal), ..unset };
    assert_eq!(asked(Wire::OpenAi, "gpt-5-mini", set.clone()).await.body["reasoning_effort"], "minimal");
    for wire in [Wire::Anthropic, Wire::Google, Wire::Ollama] {
        let body = asked(wire, "some-model", set.clone()).await.body.to_string();
        assert!(!body.contains("effort") && !body.contains("thinking"), "{wire:?}: {body}");
    }
}

/// PROV-1, DEC-12: names that genai would take for another provider, an effort or a namespace arrive as they are.
#[tokio::test]
async fn a_model_name_arrives_as_it_is() {
    let names = [
        "claud-typo",
        "my-deploy-max",
        "claude-x-high",
        "qwen-none",
        "a::b",
        "hf.co/org/model:Q4",
        "x-minimal",
    ];
    for wire in ALL_WIRES {
        for name in names {
            let asked = asked(wire, name, request()).await;
            match wire {
                Wire::Google => {
                    assert_eq!(asked.path, format!("{}/models/{name}:generateContent", base_path(wire)));
                }
                Wire::Anthropic | Wire::OpenAi | Wire::Ollama => {
                    assert_eq!(asked.body["model"], name, "{wire:?}");
                    assert!(asked.path.starts_with(base_path(wire)), "{wire:?} {name}: {}", asked.path);
                }
            }
            let body = asked.body.to_string();
            assert!(
                !body.contains("reasoning_effort") && !body.contains("thinking"),
                "{wire:?} {name}: {body}"
            );
        }
    }
}

/// 01/RUN-12: newer GPT models keep the provider's automatic cache; older ones get no parameter for it.
#[tokio::test]
async fn newer_gpt_models_keep_their_automatic_cache() {
    let body =
        asked(Wire::OpenAi, "gpt-5.6-mini", ModelRequest { temperature: None, ..request() }).await.body;
    assert_eq!(body["prompt_cache_key"], "manychat-agent");
    assert_eq!(body.get("prompt_cache_options"), None);
    assert_eq!(asked(Wire::OpenAi, "gpt-4.1-mini", request()).await.body.get("prompt_cache_key"), None);
}

/// 01/RUN-10: `AGENT_TEMPERATURE` goes up to 2, Anthropic's to 1.
#[tokio::test]
async fn anthropic_is_not_asked_for_more_temperature_than_it_has() {
    let hot = ModelRequest { temperature: Some(1.7), ..request() };
    assert_eq!(asked(Wire::Anthropic, "claude-haiku-4-5", hot.clone()).await.body["temperature"], json!(1.0));
    assert_eq!(asked(Wire::OpenAi, "gpt-4o-mini", hot).await.body["temperature"], json!(1.7));
}

/// 01/RUN-11: models that think unless told otherwise would use up the output limit.
#[tokio::test]
async fn claude_models_that_think_by_default_are_told_not_to() {
    let body = asked(Wire::Anthropic, "claude-sonnet-5", request()).await.body;
    assert_eq!(body["thinking"], json!({ "type": "disabled" }));
}

/// 01/RUN-11: Gemini 2.5 Flash thinks unless it gets no budget for it; others do not take that, or do not think.
#[tokio::test]
async fn gemini_flash_gets_no_budget_for_thoughts() {
    for (model, budget) in [
        ("gemini-2.5-flash", Some(0)),
        ("gemini-2.5-flash-lite", Some(0)),
        ("models/gemini-2.5-flash-preview-09-2025", Some(0)),
        ("gemini-2.5-pro", None),
        ("gemini-2.0-flash", None),
        ("gemini-3-flash", None),
    ] {
        let body = asked(Wire::Google, model, request()).await.body;
        let config = body.pointer("/generationConfig/thinkingConfig");
        assert_eq!(config, budget.map(|budget| json!({ "thinkingBudget": budget })).as_ref(), "{model}");
        assert_eq!(body["generationConfig"]["maxOutputTokens"], 400, "{model}");
    }
}

/// IN-3, DEC-33, 01 section 8: pictures as bytes, parts of a burst in order, notes of the server from the user.
#[tokio::test]
async fn parts_and_pictures_keep_their_order() {
    let picture = Image { media_type: "image/png".to_owned(), bytes: Bytes::from_static(b"\x89PNG") };
    let mut current = text(MessageRole::User, "one");
    current.parts.push(text(MessageRole::User, "two").parts.remove(0));
    current.parts.push(Part::Image(picture));
    let messages = vec![current, text(MessageRole::StepNote, "ACTIONS: none")];
    let request = ModelRequest { messages, ..request() };
    let (one, two) = (fenced("one"), fenced("two"));
    let encoded = "iVBORw==";
    let of_anthropic = json!([
        { "type": "text", "text": one }, { "type": "text", "text": two },
        { "type": "image", "source": { "type": "base64", "media_type": "image/png", "data": encoded } },
    ]);
    let of_openai = json!([
        { "type": "text", "text": one }, { "type": "text", "text": two },
        { "type": "image_url", "image_url": { "url": format!("data:image/png;base64,{encoded}") } },
    ]);
    let of_google = json!([
        { "text": one }, { "text": two }, { "inline_data": { "mime_type": "image/png", "data": encoded } },
    ]);
    for (wire, place, expected) in [
        (Wire::Anthropic, "/messages/0/content", &of_anthropic),
        (Wire::OpenAi, "/messages/1/content", &of_openai),
        (Wire::Ollama, "/messages/1/content", &of_openai),
        (Wire::Google, "/contents/0/parts", &of_google),
    ] {
        let body = asked(wire, "some-model", request.clone()).await.body;
        assert_eq!(body.pointer(place), Some(expected), "{wire:?}");
        let last = body.as_object().unwrap().get("messages").or(body.get("contents")).unwrap();
        let last = last.as_array().unwrap().last().unwrap();
        assert_eq!(last["role"], "user", "{wire:?}");
        assert!(last.to_string().contains("ACTIONS: none"), "{wire:?}");
    }
}

/// A reply as the arguments of the reply tool.
fn called(wire: Wire, arguments: &Value) -> Value {
    let mut answer = replied(wire, "");
    match wire {
        Wire::Anthropic => {
            answer["content"] =
                json!([{ "type": "tool_use", "id": "t", "name": REPLY_TOOL, "input": arguments }]);
        }
        Wire::OpenAi | Wire::Ollama => {
            answer["choices"][0]["message"]["tool_calls"] = json!([{ "id": "t", "type": "function",
                "function": { "name": REPLY_TOOL, "arguments": arguments.to_string() } }]);
        }
        Wire::Google => {
            answer["candidates"][0]["content"]["parts"] =
                json!([{ "functionCall": { "name": REPLY_TOOL, "args": arguments } }]);
        }
    }
    answer
}

/// 01/RUN-3: a model that refuses the schema is asked through a tool, at once and from then on.
#[tokio::test]
async fn a_refused_schema_becomes_a_tool_for_good() {
    let refusal = json!({ "error": { "message": "The compiled grammar is too large." } });
    for wire in ALL_WIRES {
        let fake =
            FakeProvider::start(vec![answer(400, &refusal), answer(200, &called(wire, &reply_object()))])
                .await;
        let model = fake.model(wire, "some-model");
        for _ in 0..2 {
            let answered = model.step(request()).await.unwrap();
            assert_eq!(answered.output, ModelOutput::Json(reply_object()), "{wire:?}");
        }
        let asked = fake.asked();
        assert_eq!(asked.len(), 3, "{wire:?}");
        for later in &asked[1..] {
            let (tools, choice) = tool_of(wire, &later.body);
            assert_eq!(tools, json!(REPLY_TOOL), "{wire:?}");
            assert!(choice.to_string().contains(REPLY_TOOL), "{wire:?}: {choice}");
            for key in ["response_format", "output_config", "responseJsonSchema"] {
                assert!(!later.body.to_string().contains(key), "{wire:?}");
            }
        }
    }
}

/// Name of the only tool, and the choice.
fn tool_of(wire: Wire, body: &Value) -> (Value, Value) {
    let (name, choice) = match wire {
        Wire::Anthropic => ("/tools/0/name", "/tool_choice"),
        Wire::OpenAi | Wire::Ollama => ("/tools/0/function/name", "/tool_choice"),
        Wire::Google => ("/tools/0/functionDeclarations/0/name", "/toolConfig/functionCallingConfig"),
    };
    (body.pointer(name).unwrap().clone(), body.pointer(choice).unwrap().clone())
}

/// 01/RUN-10: newer models refuse a temperature that no list of ours knows of.
#[tokio::test]
async fn a_refused_temperature_is_left_out_for_good() {
    let refusal = json!({ "error": { "message": "`temperature` is deprecated for this model." } });
    let good = replied(Wire::Anthropic, &reply_object().to_string());
    let fake = FakeProvider::start(vec![answer(400, &refusal), answer(200, &good)]).await;
    let model = fake.model(Wire::Anthropic, "claude-next");
    for _ in 0..2 {
        assert!(model.step(request()).await.is_ok());
    }
    let asked = fake.asked();
    let sent: Vec<bool> = asked.iter().map(|asked| asked.body.get("temperature").is_some()).collect();
    assert_eq!(sent, [true, false, false]);
    assert!(asked[2].body.get("output_config").is_some());
}
