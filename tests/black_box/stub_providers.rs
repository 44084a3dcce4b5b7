//! All four providers behind one address, each in its own wire: `<address>/anthropic/v1`, `/openai/v1`,
//! `/google/v1beta`, `/ollama/v1`. They reply, call the first tool they are offered with the first choice of each
//! parameter, reply once that call is answered, and refuse a key that is not theirs in the provider's own form.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use actix_web::{App, HttpRequest, HttpResponse, HttpServer, web};
use serde_json::{Map, Value, json};

/// The key they take.
pub const KEY: &str = "stub-key-0123456789-abcdef";
/// What they say about another key; providers quote the end of it.
pub const REFUSAL: &str = "that key is not known here";

#[derive(Default)]
struct State {
    asked: Mutex<Vec<Value>>,
    pause: Mutex<Duration>,
}

pub struct StubProviders {
    pub address: String,
    state: Arc<State>,
}

impl StubProviders {
    pub fn start() -> Self {
        let state = Arc::new(State::default());
        let shared = Arc::clone(&state);
        let server = HttpServer::new(move || {
            App::new()
                .app_data(web::Data::from(Arc::clone(&shared)))
                .app_data(web::JsonConfig::default().limit(1024 * 1024))
                .default_service(web::post().to(answer))
        });
        let server = server.workers(2).disable_signals().bind(("127.0.0.1", 0)).unwrap();
        let address = format!("http://{}", server.addrs()[0]);
        tokio::spawn(server.run());
        Self { address, state }
    }

    /// Answers take so long from now on.
    pub fn pause(&self, pause: Duration) {
        *self.state.pause.lock().unwrap() = pause;
    }

    /// The bodies that came in.
    pub fn asked(&self) -> Vec<Value> {
        self.state.asked.lock().unwrap().clone()
    }

    /// The variables that lead every provider here.
    pub fn variables(&self, key: &str) -> Vec<(String, String)> {
        let pairs = [
            ("ANTHROPIC_API_KEY", key.to_owned()),
            ("OPENAI_API_KEY", key.to_owned()),
            ("GOOGLE_GENERATIVE_AI_API_KEY", key.to_owned()),
            ("ANTHROPIC_BASE_URL", format!("{}/anthropic/v1", self.address)),
            ("OPENAI_BASE_URL", format!("{}/openai/v1", self.address)),
            ("GOOGLE_BASE_URL", format!("{}/google/v1beta", self.address)),
            ("OLLAMA_BASE_URL", format!("{}/ollama/v1", self.address)),
        ];
        pairs.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    }
}

async fn answer(state: web::Data<State>, request: HttpRequest, body: web::Json<Value>) -> HttpResponse {
    let body = body.into_inner();
    state.asked.lock().unwrap().push(body.clone());
    let pause = *state.pause.lock().unwrap();
    tokio::time::sleep(pause).await;
    let wire = request.path().split('/').nth(1).unwrap_or_default().to_owned();
    let header =
        |name: &str| request.headers().get(name).and_then(|value| value.to_str().ok().map(str::to_owned));
    let key = match wire.as_str() {
        "anthropic" => header("x-api-key"),
        "google" => header("x-goog-api-key"),
        _ => header("authorization").map(|value| value.replace("Bearer ", "")),
    };
    let key = key.unwrap_or_default();
    if wire != "ollama" && key != KEY {
        let message = format!("{REFUSAL}: {key}");
        return HttpResponse::Unauthorized().json(
            json!({ "type": "error", "error": { "type": "authentication_error", "message": message } }),
        );
    }
    HttpResponse::Ok().json(said(&wire, &body))
}

fn said(wire: &str, body: &Value) -> Value {
    match offered(wire, body).filter(|_| !is_answered(wire, body)) {
        Some((name, parameters)) => called(wire, &name, &arguments(&parameters)),
        None => replied(wire),
    }
}

/// Whether the last message holds results of calls. A provider that gets them back without the call before them, or
/// Gemini without its signature, would refuse.
fn is_answered(wire: &str, body: &Value) -> bool {
    let (messages, call, result) = match wire {
        "anthropic" => ("messages", "tool_use", "tool_result"),
        "google" => ("contents", "thoughtSignature", "functionResponse"),
        _ => ("messages", "tool_calls", "tool_call_id"),
    };
    match body[messages].as_array().map(Vec::as_slice) {
        Some([.., before, last]) => before.to_string().contains(call) && last.to_string().contains(result),
        _ => false,
    }
}

/// The first tool and its parameters.
fn offered(wire: &str, body: &Value) -> Option<(String, Value)> {
    let (tool, parameters) = match wire {
        "anthropic" => (body.pointer("/tools/0")?, "input_schema"),
        "google" => (body.pointer("/tools/0/functionDeclarations/0")?, "parameters"),
        _ => (body.pointer("/tools/0/function")?, "parameters"),
    };
    let parameters = tool.get(parameters).or_else(|| tool.get("parametersJsonSchema"))?;
    Some((tool["name"].as_str()?.to_owned(), parameters.clone()))
}

/// The first choice of each parameter.
fn arguments(parameters: &Value) -> Value {
    let properties = parameters["properties"].as_object().cloned().unwrap_or_default();
    let chosen = properties.into_iter().map(|(name, schema)| (name, schema["enum"][0].clone()));
    Value::Object(chosen.collect::<Map<_, _>>())
}

fn called(wire: &str, name: &str, arguments: &Value) -> Value {
    match wire {
        "anthropic" => json!({
            "id": "m", "type": "message", "role": "assistant", "model": "m", "stop_reason": "tool_use",
            "content": [{ "type": "tool_use", "id": "call-1", "name": name, "input": arguments }],
            "usage": { "input_tokens": 20, "output_tokens": 10 },
        }),
        "google" => json!({
            "candidates": [{ "index": 0, "finishReason": "STOP", "content": { "role": "model",
                "parts": [{ "functionCall": { "name": name, "args": arguments },
                    "thoughtSignature": "c2lnbmVk" }] } }],
            "usageMetadata": { "promptTokenCount": 20, "candidatesTokenCount": 10 },
        }),
        _ => json!({
            "id": "c", "object": "chat.completion", "model": "m",
            "choices": [{ "index": 0, "finish_reason": "tool_calls", "message": { "role": "assistant",
                "content": null, "tool_calls": [{ "id": "call-1", "type": "function",
                    "function": { "name": name, "arguments": arguments.to_string() } }] } }],
            "usage": { "prompt_tokens": 20, "completion_tokens": 10, "total_tokens": 30 },
        }),
    }
}

fn replied(wire: &str) -> Value {
    let reply =
        json!({ "messages": ["Hello."], "escalate": false, "escalation_reason": null, "confidence": 0.9,
        "closing_question": null })
        .to_string();
    match wire {
        "anthropic" => json!({
            "id": "m", "type": "message", "role": "assistant", "model": "m", "stop_reason": "end_turn",
            "content": [{ "type": "text", "text": reply }],
            "usage": { "input_tokens": 20, "output_tokens": 10 },
        }),
        "google" => json!({
            "candidates": [{ "index": 0, "finishReason": "STOP",
                "content": { "role": "model", "parts": [{ "text": reply }] } }],
            "usageMetadata": { "promptTokenCount": 20, "candidatesTokenCount": 10 },
        }),
        _ => json!({
            "id": "c", "object": "chat.completion", "model": "m",
            "choices": [{ "index": 0, "finish_reason": "stop",
                "message": { "role": "assistant", "content": reply } }],
            "usage": { "prompt_tokens": 20, "completion_tokens": 10, "total_tokens": 30 },
        }),
    }
}
