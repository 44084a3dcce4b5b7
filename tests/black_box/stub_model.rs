//! A small language model behind OpenAI's wire: it repeats the code words of the earlier messages it was shown, so that
//! a test reads in the reply what the service let the model see. Asked to answer slowly, it takes
//! 5 s; asked to repeat
//! itself, it always says the same.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use actix_web::{App, HttpResponse, HttpServer, web};
use serde_json::{Value, json};

/// Code words begin with these letters, which no text of the demo tenant holds.
pub const CODE: &str = "zq";

/// How long it takes when it is asked to answer slowly.
pub const SLOWLY: Duration = Duration::from_secs(5);

pub struct StubModel {
    pub base_url: String,
}

/// What a test lets the model answer: the body of a request in, the reply's object out, or `{"call": name, "arguments"}`.
pub type Answering = dyn Fn(&Value) -> Value + Send + Sync;

impl StubModel {
    pub fn start() -> Self {
        let calls = Arc::new(AtomicU64::new(0));
        Self::serving(move |config| {
            config.app_data(web::Data::from(Arc::clone(&calls))).default_service(web::post().to(answer));
        })
    }

    /// A model that answers as `answering` says.
    pub fn answering(answering: Arc<Answering>) -> Self {
        Self::serving(move |config| {
            let answering = Arc::clone(&answering);
            let respond = move |body: web::Json<Value>| std::future::ready(completion(&answering(&body)));
            config.default_service(web::post().to(respond));
        })
    }

    fn serving(configure: impl Fn(&mut web::ServiceConfig) + Clone + Send + 'static) -> Self {
        let server = HttpServer::new(move || {
            App::new().app_data(web::JsonConfig::default().limit(1024 * 1024)).configure(configure.clone())
        });
        let server = server.workers(1).disable_signals().bind(("127.0.0.1", 0)).unwrap();
        let base_url = format!("http://{}/v1", server.addrs()[0]);
        tokio::spawn(server.run());
        Self { base_url }
    }
}

async fn answer(calls: web::Data<AtomicU64>, body: web::Json<Value>) -> HttpResponse {
    let number = calls.fetch_add(1, Ordering::Relaxed);
    let messages = body["messages"].as_array().cloned().unwrap_or_default();
    let earlier = messages.len().saturating_sub(1);
    let asked = messages.last().map(|message| message["content"].to_string()).unwrap_or_default();
    if asked.contains("slowly") {
        tokio::time::sleep(SLOWLY).await;
    }
    let said: Vec<String> = messages[..earlier]
        .iter()
        .filter(|message| message["role"] != "system")
        .flat_map(|message| code_words(&message["content"].to_string()))
        .collect();
    let text = if said.is_empty() { "nothing at all".to_owned() } else { said.join(" and ") };
    // The number keeps two replies from being alike, which a guardrail would replace.
    let text = match asked.contains("repeat yourself") {
        true => "I have said so before.".to_owned(),
        false => format!("Reply {number}: you have told me {text}."),
    };
    completion(&json!({
        "messages": [text],
        "escalate": false, "escalation_reason": null, "confidence": 0.9, "closing_question": null,
    }))
}

fn completion(reply: &Value) -> HttpResponse {
    let message = match reply.get("call") {
        Some(name) => json!({ "role": "assistant", "content": null, "tool_calls": [{
            "id": "call_1", "type": "function",
            "function": { "name": name, "arguments": reply["arguments"].to_string() },
        }] }),
        None => json!({ "role": "assistant", "content": reply.to_string() }),
    };
    HttpResponse::Ok().json(json!({
        "id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "stub",
        "choices": [{ "index": 0, "finish_reason": "stop", "message": message }],
        "usage": { "prompt_tokens": 10, "completion_tokens": 10, "total_tokens": 20 },
    }))
}

/// The code words in a text, each once.
pub fn code_words(text: &str) -> Vec<String> {
    let mut words: Vec<String> = text
        .split(|letter: char| !letter.is_ascii_lowercase())
        .filter(|word| word.starts_with(CODE))
        .map(str::to_owned)
        .collect();
    words.dedup();
    words
}
