//! A provider in the test's own process: answers what it is told to, and keeps what it was asked.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

use super::hosted::{Access, HostedModel};
use super::retry::Backoff;
use super::wire::Wire;
use crate::model::fence::FencedText;
use crate::model::meter::Meter;
use crate::model::port::{MessageRole, ModelMessage, ModelRequest, Part};
use crate::model::reply;
use crate::model::slots::Place;

pub const ALL_WIRES: [Wire; 4] = [Wire::Anthropic, Wire::OpenAi, Wire::Google, Wire::Ollama];
/// Words that may stand in a request or an answer and nowhere else.
pub const SECRET: &str = "secret-words";

/// The key that every fake provider is called with.
pub const KEY: &str = "test-key";

/// What to do with a request.
#[derive(Clone)]
pub enum Act {
    Answer {
        status: u16,
        headers: &'static str,
        body: String,
    },
    /// Promise more than comes, and close the connection.
    Cut(String),
    /// Never answer.
    Hang,
    /// Close the connection without an answer.
    Close,
}

/// An answer with status 200 that is not JSON by its type.
pub fn page(headers: &'static str, body: &str) -> Act {
    Act::Answer { status: 200, headers, body: body.to_owned() }
}

/// An answer in JSON.
pub fn answer(status: u16, body: &Value) -> Act {
    Act::Answer { status, headers: "content-type: application/json\r\n", body: body.to_string() }
}

/// A request as it came in.
#[derive(Clone, Debug)]
pub struct Asked {
    pub path: String,
    pub headers: HashMap<String, String>,
    pub body: Value,
}

pub struct FakeProvider {
    address: String,
    asked: Arc<Mutex<Vec<Asked>>>,
    left: Arc<Semaphore>,
}

impl FakeProvider {
    /// One act for each request; the last one repeats.
    pub async fn start(acts: Vec<Act>) -> Self {
        install_tls_provider();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let fake = Self { address, asked: Arc::default(), left: Arc::new(Semaphore::new(0)) };
        let (asked, left) = (Arc::clone(&fake.asked), Arc::clone(&fake.left));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, acts.clone(), Arc::clone(&asked), Arc::clone(&left)));
            }
        });
        fake
    }

    /// A base URL as an operator writes it.
    pub fn url(&self, path: &str) -> String {
        format!("{}{path}", self.address)
    }

    pub fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }

    /// Waits until the caller of a request that hangs has closed its connection.
    pub async fn caller_left(&self) {
        self.left.acquire().await.unwrap().forget();
    }

    /// `model` at this provider, with retries that do not wait.
    pub fn model(&self, wire: Wire, model: &str) -> HostedModel {
        let base_url = self.url(base_path(wire));
        let access = Access { base_url: &base_url, key: KEY };
        let http = super::http_client().unwrap();
        let hosted = HostedModel::new(wire, model, access, http).unwrap();
        hosted.with_backoff(Backoff { first: Duration::from_millis(1), longest: Duration::from_millis(50) })
    }
}

async fn serve(mut stream: TcpStream, acts: Vec<Act>, asked: Arc<Mutex<Vec<Asked>>>, left: Arc<Semaphore>) {
    let request = read_request(&mut stream).await;
    let number = {
        let mut asked = asked.lock().unwrap();
        asked.push(request);
        asked.len() - 1
    };
    match acts.get(number).or(acts.last()).unwrap() {
        Act::Answer { status, headers, body } => {
            let head = format!(
                "HTTP/1.1 {status} status\r\n{headers}content-length: {}\r\nconnection: close\r\n\r\n",
                body.len()
            );
            stream.write_all(format!("{head}{body}").as_bytes()).await.unwrap();
        }
        Act::Cut(body) => {
            let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 99999\r\n\r\n";
            stream.write_all(format!("{head}{body}").as_bytes()).await.unwrap();
        }
        Act::Hang => {
            let closed = stream.read(&mut [0]).await;
            assert!(matches!(closed, Ok(0) | Err(_)), "nothing follows a request");
            left.add_permits(1);
        }
        Act::Close => {}
    }
}

async fn read_request(stream: &mut TcpStream) -> Asked {
    let mut bytes = Vec::new();
    loop {
        assert_ne!(stream.read_buf(&mut bytes).await.unwrap(), 0, "the request is whole");
        let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") else { continue };
        let (path, headers) = read_head(std::str::from_utf8(&bytes[..end]).unwrap());
        let length: usize = headers["content-length"].parse().unwrap();
        while bytes.len() < end + 4 + length {
            assert_ne!(stream.read_buf(&mut bytes).await.unwrap(), 0, "the request is whole");
        }
        let body = serde_json::from_slice(&bytes[end + 4..]).unwrap();
        return Asked { path, headers, body };
    }
}

fn read_head(head: &str) -> (String, HashMap<String, String>) {
    let mut lines = head.split("\r\n");
    let path = lines.next().unwrap().split(' ').nth(1).unwrap().to_owned();
    let headers = lines.map(|line| line.split_once(": ").unwrap());
    (path, headers.map(|(name, value)| (name.to_lowercase(), value.to_owned())).collect())
}

/// Before any HTTP client is built; the first of the tests does it.
pub fn install_tls_provider() {
    let _ = rustls::crypto::ring::default_provider().install_default();
}

/// The version path of a provider (DEC-22).
pub const fn base_path(wire: Wire) -> &'static str {
    match wire {
        Wire::Anthropic | Wire::OpenAi | Wire::Ollama => "/v1",
        Wire::Google => "/v1beta",
    }
}

pub fn text(role: MessageRole, words: &str) -> ModelMessage {
    let part = match role {
        MessageRole::User => Part::Contact(FencedText::new(words)),
        MessageRole::Assistant | MessageRole::ToolResults | MessageRole::StepNote => {
            Part::Text(words.to_owned())
        }
    };
    ModelMessage { role, parts: vec![part] }
}

/// The request of a second turn, with the words to look for in errors.
pub fn request() -> ModelRequest {
    ModelRequest {
        system: "You are the studio's assistant.".into(),
        messages: vec![
            text(MessageRole::User, "price?"),
            text(MessageRole::Assistant, "It is $310.00."),
            text(MessageRole::User, SECRET),
        ],
        response_schema: reply::schema(),
        tools: Arc::new([]),
        max_output_tokens: 400,
        temperature: Some(0.3),
        reasoning_effort: None,
        meter: Meter::default(),
        retry_within: None,
        place: Place::default(),
    }
}

pub fn reply_object() -> Value {
    json!({
        "messages": ["On Mondays."], "escalate": false, "escalation_reason": null, "confidence": 0.9,
        "closing_question": null,
    })
}

/// A reply as each provider sends it: 2000 tokens read, 1800 of them from the cache, 100 written.
pub fn replied(wire: Wire, said: &str) -> Value {
    match wire {
        Wire::OpenAi => json!({
            "id": "c", "object": "chat.completion", "model": "m",
            "choices": [{ "index": 0, "finish_reason": "stop", "message": {
                "role": "assistant", "content": said, "refusal": null } }],
            "usage": { "prompt_tokens": 2000, "completion_tokens": 100, "total_tokens": 2100,
                "prompt_tokens_details": { "cached_tokens": 1800, "audio_tokens": 0 } },
        }),
        Wire::Ollama => json!({
            "id": "c", "object": "chat.completion", "model": "m",
            "choices": [{ "index": 0, "finish_reason": "stop", "message": {
                "role": "assistant", "content": said } }],
            "usage": { "prompt_tokens": 2000, "completion_tokens": 100, "total_tokens": 2100 },
        }),
        Wire::Anthropic => json!({
            "id": "m", "type": "message", "role": "assistant", "model": "m",
            "content": [{ "type": "text", "text": said }], "stop_reason": "end_turn",
            "usage": { "input_tokens": 150, "cache_creation_input_tokens": 50,
                "cache_read_input_tokens": 1800, "output_tokens": 100 },
        }),
        Wire::Google => json!({
            "candidates": [{ "index": 0, "finishReason": "STOP",
                "content": { "role": "model", "parts": [{ "text": said }] } }],
            "usageMetadata": { "promptTokenCount": 2000, "candidatesTokenCount": 90, "thoughtsTokenCount": 10,
                "totalTokenCount": 2100, "cachedContentTokenCount": 1800 },
            "modelVersion": "m",
        }),
    }
}

/// An answer that calls; arguments are written as they are given.
pub fn calling(wire: Wire, calls: &[(&str, Value)]) -> Value {
    let mut body = replied(wire, "");
    match wire {
        Wire::Anthropic => {
            let blocks = calls.iter().enumerate().map(|(index, (name, arguments))| {
                json!({ "type": "tool_use", "id": format!("id{index}"), "name": name, "input": arguments })
            });
            body["content"] = blocks.collect();
            body["stop_reason"] = json!("tool_use");
        }
        Wire::OpenAi | Wire::Ollama => {
            let calls = calls.iter().enumerate().map(|(index, (name, arguments))| {
                let arguments = arguments.as_str().map_or_else(|| arguments.to_string(), str::to_owned);
                json!({ "id": format!("id{index}"), "type": "function",
                    "function": { "name": name, "arguments": arguments } })
            });
            body["choices"][0]["message"]["tool_calls"] = calls.collect();
            body["choices"][0]["finish_reason"] = json!("tool_calls");
        }
        Wire::Google => {
            let parts = calls.iter().enumerate().map(|(index, (name, arguments))| {
                let mut part = json!({ "functionCall": { "name": name, "args": arguments } });
                if index == 0 {
                    part["thoughtSignature"] = json!("c2lnbmVk");
                }
                part
            });
            body["candidates"][0]["content"]["parts"] = parts.collect();
        }
    }
    body
}
