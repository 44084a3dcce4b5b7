//! Everything outside the service on one thread: a provider of models, ManyChat, and the contacts' requests. What they
//! do is decided by two scripts; what they see goes into the journal.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use manychat_agent::http::MESSAGE_PATH;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Handle;
use tokio::sync::{oneshot, watch};

use super::journal::{Journal, Life, Marker, What, contact_of};
use super::wire;
use crate::app::SECRET;

/// ManyChat ends a request after half of this; the rest is a busy machine's.
const REQUEST_LIMIT: Duration = Duration::from_secs(20);
/// What a token of ManyChat's API begins with; the process's life follows.
pub const TOKEN_PREFIX: &str = "proof-token-of-";
pub const REPLY_FLOW: &str = "content20300101000000_000001";
/// What ManyChat's names of the turns' own flows and tags begin with; the id in `tools.json` follows.
pub const ACT_PREFIX: &str = "act-";
/// Messages with greater numbers are answered without actions.
pub const MOST_ACTS: u32 = 40;

/// What a stand-in does with one request.
#[derive(Clone, Copy, Debug)]
pub enum Act {
    /// Answers properly after this time.
    Answer(Duration),
    /// Refuses with this status.
    Refuse(u16),
    /// Never answers, and does nothing.
    Hang,
    /// Closes the connection, and does nothing.
    Close,
    /// Does what it is asked, and closes the connection instead of saying so.
    Lose,
    /// Does what it is asked, and says so when the gate opens.
    Hold,
}

impl Act {
    pub const AT_ONCE: Self = Self::Answer(Duration::ZERO);

    pub const fn after_ms(time: u64) -> Self {
        Self::Answer(Duration::from_millis(time))
    }
}

/// Decides: what is asked (`q1x1` and so on for the model, `field 1` and `flow 1` for ManyChat), and how often that has
/// been asked before.
pub type Script = Box<dyn Fn(&str, u32) -> Act + Send + Sync>;

pub struct Outside {
    pub journal: Journal,
    pub model_url: String,
    pub manychat_url: String,
    pub gate: Arc<watch::Sender<bool>>,
    handle: Handle,
    /// Dropping it ends the thread.
    _keep: oneshot::Sender<()>,
}

/// What the stand-ins share.
struct Shared {
    journal: Journal,
    model: Script,
    manychat: Script,
    asked: Mutex<HashMap<String, u32>>,
    fields: Mutex<HashMap<u32, String>>,
    gate: watch::Receiver<bool>,
}

impl Outside {
    pub fn start(model: Script, manychat: Script) -> Self {
        let journal = Journal::default();
        let (gate, opened) = watch::channel(false);
        let shared = Arc::new(Shared {
            journal: journal.clone(),
            model,
            manychat,
            asked: Mutex::default(),
            fields: Mutex::default(),
            gate: opened,
        });
        let (tell, told) = mpsc::channel();
        let (keep, end) = oneshot::channel::<()>();
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async move {
                let model = TcpListener::bind("127.0.0.1:0").await.unwrap();
                let manychat = TcpListener::bind("127.0.0.1:0").await.unwrap();
                let addresses = (model.local_addr().unwrap(), manychat.local_addr().unwrap());
                tokio::spawn(serve(model, Arc::clone(&shared), Part::Model));
                tokio::spawn(serve(manychat, shared, Part::ManyChat));
                tell.send((Handle::current(), addresses)).unwrap();
                let _ = end.await;
            });
        });
        let (handle, (model, manychat)) = told.recv().unwrap();
        Self {
            journal,
            model_url: format!("http://{model}/v1"),
            manychat_url: format!("http://{manychat}"),
            gate: Arc::new(gate),
            handle,
            _keep: keep,
        }
    }

    /// A contact's message to the process on `port`, not waited for. Who aborts it hangs up.
    pub fn ask(&self, life: &Life, port: u16, marker: Marker) -> tokio::task::JoinHandle<bool> {
        let (journal, life) = (self.journal.clone(), life.clone());
        self.handle.spawn(async move {
            journal.write(What::Asked { marker, life: life.clone() });
            let ended = tokio::time::timeout(REQUEST_LIMIT, exchange(port, marker)).await;
            let what = match ended {
                Ok(Ok(texts)) => What::Answered { marker, life, texts },
                Ok(Err(why)) => What::NotAnswered { marker, why },
                Err(_) => What::NotAnswered { marker, why: "the caller hung up".to_owned() },
            };
            let answered = matches!(what, What::Answered { .. });
            journal.write(what);
            answered
        })
    }
}

/// One request on a connection of its own; the texts of its answer.
async fn exchange(port: u16, marker: Marker) -> Result<Vec<String>, String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await.map_err(|_| "no connection".to_owned())?;
    let text = format!("Where do I find {marker}?");
    let body = json!({ "subscriber_id": marker.subscriber(), "text": text }).to_string();
    let request = format!(
        "POST {MESSAGE_PATH} HTTP/1.1\r\nHost: test\r\nAuthorization: Bearer {SECRET}\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).await.map_err(|_| "the connection broke".to_owned())?;
    let answer = wire::read(&mut stream, &mut Vec::new()).await.ok_or("the connection ended")?;
    let status = answer.start.split(' ').nth(1).unwrap_or_default().to_owned();
    if status != "200" {
        return Err(format!("status {status}"));
    }
    let block = answer.json();
    let messages = block.pointer("/content/messages").and_then(Value::as_array);
    let texts = messages.into_iter().flatten().filter_map(|message| message["text"].as_str());
    Ok(texts.map(str::to_owned).collect())
}

#[derive(Clone, Copy)]
enum Part {
    Model,
    ManyChat,
}

async fn serve(listener: TcpListener, shared: Arc<Shared>, part: Part) {
    while let Ok((stream, _)) = listener.accept().await {
        let shared = Arc::clone(&shared);
        tokio::spawn(async move { converse(stream, &shared, part).await });
    }
}

async fn converse(mut stream: TcpStream, shared: &Shared, part: Part) -> Option<()> {
    let _ = stream.set_nodelay(true);
    let mut input = Vec::new();
    loop {
        let request = wire::read(&mut stream, &mut input).await?;
        match part {
            Part::Model => shared.think(&mut stream, &request).await?,
            Part::ManyChat => shared.carry_out(&mut stream, &request).await?,
        }
    }
}

impl Shared {
    fn next(&self, script: &Script, what: &str) -> Act {
        let mut asked = self.asked.lock().unwrap();
        let times = asked.entry(what.to_owned()).or_insert(0);
        *times += 1;
        script(what, *times - 1)
    }

    async fn opened(&self) {
        let _ = self.gate.clone().wait_for(|open| *open).await;
    }

    /// `None` ends the connection.
    async fn think(&self, stream: &mut TcpStream, request: &wire::Message) -> Option<()> {
        let body = request.json();
        let messages = body["messages"].as_array().cloned().unwrap_or_default();
        // A note of the service's own can stand behind the contact's words.
        let of_users = messages.iter().filter(|message| message["role"] == "user");
        let mut named = of_users.map(|message| Marker::all(&message.to_string()));
        let markers = named.rfind(|markers| !markers.is_empty()).unwrap_or_default();
        let last_is_users = messages.last().is_some_and(|message| message["role"] == "user");
        let offered = body["tools"].as_array().is_some_and(|tools| !tools.is_empty());
        let acting = markers.last().filter(|marker| marker.number <= MOST_ACTS && offered && last_is_users);
        if let Some(marker) = acting {
            return wire::answer(stream, 200, &model_calls(*marker, &body["tools"])).await.ok();
        }
        let names: Vec<String> = markers.iter().map(ToString::to_string).collect();
        let names = names.join(" ");
        let act = self.next(&self.model, &names);
        self.journal.write(What::Thought { markers });
        match act {
            Act::Answer(time) => tokio::time::sleep(time).await,
            Act::Hold => self.opened().await,
            Act::Refuse(status) => {
                return wire::answer(stream, status, r#"{"error":{"message":"not now"}}"#).await.ok();
            }
            Act::Hang => std::future::pending().await,
            Act::Close | Act::Lose => return None,
        }
        wire::answer(stream, 200, &model_answer(&names)).await.ok()
    }

    async fn carry_out(&self, stream: &mut TcpStream, request: &wire::Message) -> Option<()> {
        let life = request.headers.get("authorization")?.strip_prefix("Bearer ")?;
        let life = life.strip_prefix(TOKEN_PREFIX)?.to_owned();
        let body = request.json();
        let contact = contact_of(body["subscriber_id"].as_str()?)?;
        // A contact token is no reply: it is taken without a word, whatever the replies meet.
        if body["field_name"] == "ai_token" {
            return wire::answer(stream, 200, r#"{"status":"success"}"#).await.ok();
        }
        if let Some(name) = act_name(&body) {
            return self.act(stream, life, contact, name).await;
        }
        let is_flow = request.start.contains("/fb/sending/sendFlow");
        let what = if is_flow { format!("flow {contact}") } else { format!("field {contact}") };
        let act = self.next(&self.manychat, &what);
        match act {
            Act::Answer(time) => tokio::time::sleep(time).await,
            Act::Refuse(status) => {
                return wire::answer(stream, status, r#"{"status":"error","message":"not now"}"#).await.ok();
            }
            Act::Hang => std::future::pending().await,
            Act::Close => return None,
            Act::Lose | Act::Hold => {}
        }
        let known = !matches!(act, Act::Lose);
        if is_flow {
            let text = self.fields.lock().unwrap().get(&contact).cloned().unwrap_or_default();
            self.journal.write(What::Played { life, contact, text, known });
        } else {
            let value = body["field_value"].as_str().unwrap_or_default().to_owned();
            self.fields.lock().unwrap().insert(contact, value);
            self.journal.write(What::Written { life, contact });
        }
        match act {
            Act::Lose => return None,
            Act::Hold => self.opened().await,
            _ => {}
        }
        wire::answer(stream, 200, r#"{"status":"success"}"#).await.ok()
    }
}

impl Shared {
    /// An action of a turn: each request counts as an attempt, whatever becomes of it.
    async fn act(&self, stream: &mut TcpStream, life: String, contact: u32, name: String) -> Option<()> {
        let act = self.next(&self.manychat, &format!("act {contact}"));
        if let Act::Answer(time) = act {
            tokio::time::sleep(time).await;
        }
        let known = matches!(act, Act::Answer(_) | Act::Hold);
        self.journal.write(What::Acted { life, contact, name, known });
        match act {
            Act::Refuse(status) => {
                return wire::answer(stream, status, r#"{"status":"error","message":"not now"}"#).await.ok();
            }
            Act::Hang => std::future::pending().await,
            Act::Close | Act::Lose => return None,
            Act::Hold => self.opened().await,
            Act::Answer(_) => {}
        }
        wire::answer(stream, 200, r#"{"status":"success"}"#).await.ok()
    }
}

/// The id of a turn's own flow or tag in a request.
fn act_name(body: &Value) -> Option<String> {
    let name = body["flow_ns"].as_str().or_else(|| body["tag_name"].as_str())?;
    name.strip_prefix(ACT_PREFIX).map(str::to_owned)
}

/// The model's first step of a turn with tools: the flow and the tag of the message it answers, the flow only if it is
/// still offered.
fn model_calls(marker: Marker, tools: &Value) -> String {
    let flow = format!("f{}", marker.number);
    let is_offered = tools.to_string().contains(&format!("\"{flow}\""));
    let call = |number: u32, name: &str, arguments: Value| {
        json!({ "id": format!("call_{number}"), "type": "function",
                "function": { "name": name, "arguments": arguments.to_string() } })
    };
    let mut calls = vec![call(1, "add_tag", json!({ "tag": format!("t{}", marker.number) }))];
    if is_offered {
        calls.push(call(2, "send_flow", json!({ "flow": flow })));
    }
    json!({
        "id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "gpt-4.1-mini",
        "choices": [{ "index": 0, "finish_reason": "tool_calls", "logprobs": null,
                      "message": { "role": "assistant", "content": null, "tool_calls": calls, "refusal": null } }],
        "usage": { "prompt_tokens": 900, "completion_tokens": 30, "total_tokens": 930 }
    })
    .to_string()
}

/// A model's answer in OpenAI's shape: it names what it answers.
fn model_answer(names: &str) -> String {
    let reply = json!({
        "messages": [format!("You find {names} on the second floor.")],
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
