//! Stand-ins for what is outside: a model provider that thinks for a fixed time, and a ManyChat that accepts all it is
//! told and notes when. One thread of their own serves both, so that they cost the generator nothing.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Context;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// First call for each contact, by the contact's number.
type FirstCalls = Arc<Mutex<HashMap<u64, Instant>>>;

/// Running stand-ins; they live as long as the process.
pub struct StandIns {
    /// Base address of the provider, OpenAI's wire.
    pub model: String,
    /// Base address of ManyChat.
    pub manychat: String,
    first_calls: FirstCalls,
}

impl StandIns {
    /// Starts them. The model answers after `thinking`.
    pub fn start(thinking: Duration) -> anyhow::Result<Self> {
        let first_calls = FirstCalls::default();
        let noted = Arc::clone(&first_calls);
        let (tell, told) = std::sync::mpsc::channel();
        std::thread::spawn(move || -> anyhow::Result<()> {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(async move {
                let model = TcpListener::bind("127.0.0.1:0").await?;
                let manychat = TcpListener::bind("127.0.0.1:0").await?;
                tell.send((model.local_addr()?, manychat.local_addr()?))?;
                tokio::join!(
                    serve(model, Part::Model { thinking, answer: model_answer().into() }),
                    serve(manychat, Part::ManyChat { first_calls: noted }),
                );
                Ok(())
            })
        });
        let (model, manychat): (SocketAddr, SocketAddr) =
            told.recv_timeout(Duration::from_secs(5)).context("the stand-ins did not start")?;
        Ok(Self { model: format!("http://{model}/v1"), manychat: format!("http://{manychat}"), first_calls })
    }

    /// The variables that make the service talk to them.
    pub fn variables(&self) -> Vec<(&str, &str)> {
        vec![
            ("AGENT_MODEL", "openai:gpt-4.1-mini"),
            ("OPENAI_API_KEY", "bench-key"),
            ("OPENAI_BASE_URL", &self.model),
            ("MANYCHAT_API_TOKEN", "bench-token"),
            ("MANYCHAT_API_BASE", &self.manychat),
            ("MANYCHAT_REPLY_FLOW_NS", "content20300101000000_000001"),
            ("MANYCHAT_REPLY_GAP_MS", "0"),
            ("MANYCHAT_CALLS_PER_SECOND", "1000000"),
        ]
    }

    /// Takes what was noted so far: when ManyChat was first called for each contact.
    pub fn take_first_calls(&self) -> HashMap<u64, Instant> {
        std::mem::take(&mut *self.first_calls.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// One of the two.
#[derive(Clone)]
enum Part {
    Model { thinking: Duration, answer: Arc<str> },
    ManyChat { first_calls: FirstCalls },
}

impl Part {
    async fn answer(&self, body: &[u8]) -> Arc<str> {
        match self {
            Self::Model { thinking, answer } => {
                tokio::time::sleep(*thinking).await;
                Arc::clone(answer)
            }
            Self::ManyChat { first_calls } => {
                let body: Value = serde_json::from_slice(body).unwrap_or_default();
                let contact =
                    body.get("subscriber_id").and_then(Value::as_str).and_then(|id| id.parse().ok());
                if let Some(contact) = contact {
                    let mut calls = first_calls.lock().unwrap_or_else(PoisonError::into_inner);
                    calls.entry(contact).or_insert_with(Instant::now);
                }
                r#"{"status":"success"}"#.into()
            }
        }
    }
}

/// A model's answer in OpenAI's shape.
fn model_answer() -> String {
    let reply = json!({
        "messages": ["We are open every weekday."],
        "escalate": false, "escalation_reason": null, "confidence": 0.9, "closing_question": null
    });
    json!({
        "id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "gpt-4.1-mini",
        "choices": [{ "index": 0, "finish_reason": "stop", "logprobs": null,
                      "message": { "role": "assistant", "content": reply.to_string(), "refusal": null } }],
        "usage": { "prompt_tokens": 900, "completion_tokens": 30, "total_tokens": 930 }
    })
    .to_string()
}

async fn serve(listener: TcpListener, part: Part) {
    while let Ok((stream, _)) = listener.accept().await {
        let part = part.clone();
        // A caller that goes away ends its task; nobody waits for it.
        tokio::spawn(async move { converse(stream, part).await });
    }
}

async fn converse(mut stream: TcpStream, part: Part) -> anyhow::Result<()> {
    stream.set_nodelay(true)?;
    let mut input = Vec::with_capacity(16_384);
    loop {
        let (body_at, end) = loop {
            if let Some((body_at, end)) = extent(&input)?.filter(|(_, end)| input.len() >= *end) {
                break (body_at, end);
            }
            if stream.read_buf(&mut input).await? == 0 {
                return Ok(());
            }
        };
        let answer = part.answer(input.get(body_at..end).unwrap_or_default()).await;
        input.drain(..end);
        let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length:";
        stream.write_all(format!("{head} {}\r\n\r\n{answer}", answer.len()).as_bytes()).await?;
    }
}

/// Where a request's body begins and ends, once its head is there.
fn extent(input: &[u8]) -> anyhow::Result<Option<(usize, usize)>> {
    let Some(head_end) = input.windows(4).position(|four| four == b"\r\n\r\n") else { return Ok(None) };
    let head = std::str::from_utf8(input.get(..head_end).unwrap_or_default())?;
    let length = head
        .lines()
        .filter_map(|line| line.split_once(':'))
        .find(|(name, _)| name.eq_ignore_ascii_case("content-length"))
        .map_or(Ok(0), |(_, value)| value.trim().parse::<usize>())?;
    Ok(Some((head_end + 4, head_end + 4 + length)))
}
