//! A small ManyChat: it keeps what was asked of it and answers as it is told.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

pub const ADD_TAG: &str = "/fb/subscriber/addTagByName";
pub const REMOVE_TAG: &str = "/fb/subscriber/removeTagByName";
pub const SET_FIELD: &str = "/fb/subscriber/setCustomFieldByName";
pub const SEND_FLOW: &str = "/fb/sending/sendFlow";
pub const GET_INFO: &str = "/fb/subscriber/getInfo";
pub const GET_TAGS: &str = "/fb/page/getTags";
pub const GET_FIELDS: &str = "/fb/page/getCustomFields";
pub const GET_FLOWS: &str = "/fb/page/getFlows";

/// One call as it arrived.
#[derive(Clone, Debug)]
pub struct Call {
    pub path: String,
    pub body: Value,
}

#[derive(Default)]
struct Inner {
    calls: Vec<Call>,
    statuses: BTreeMap<String, u16>,
    /// By path and contact; they win over the others.
    of_contact: BTreeMap<(String, String), u16>,
    silent: Vec<String>,
    /// Contacts whose calls are answered later.
    held: Vec<String>,
    message: Option<String>,
    /// Tags of every contact and of the account.
    tags: Vec<String>,
    /// Fields of the account.
    fields: Vec<String>,
    /// Flows of the account.
    flows: Vec<String>,
}

#[derive(Clone)]
pub struct StubManyChat {
    pub url: String,
    inner: Arc<Mutex<Inner>>,
}

impl StubManyChat {
    pub async fn start() -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let stub = Self { url, inner: Arc::default() };
        let inner = Arc::clone(&stub.inner);
        tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                tokio::spawn(serve(socket, Arc::clone(&inner)));
            }
        });
        stub
    }

    /// From now on this path is answered with this status; 200 is what it does by itself.
    pub fn answer(&self, path: &str, status: u16) {
        self.inner.lock().unwrap().statuses.insert(path.to_owned(), status);
    }

    /// From now on this is the message of every answer.
    pub fn say(&self, message: &str) {
        self.inner.lock().unwrap().message = Some(message.to_owned());
    }

    /// The same for one contact.
    pub fn answer_contact(&self, path: &str, subscriber: &str, status: u16) {
        self.inner.lock().unwrap().of_contact.insert((path.to_owned(), subscriber.to_owned()), status);
    }

    /// From now on this path is never answered.
    pub fn fall_silent(&self, path: &str) {
        self.inner.lock().unwrap().silent.push(path.to_owned());
    }

    /// From now on nothing about this contact is answered.
    pub fn hold(&self, subscriber: &str) {
        self.inner.lock().unwrap().held.push(subscriber.to_owned());
    }

    /// Answers what was held.
    pub fn let_go(&self) {
        self.inner.lock().unwrap().held.clear();
    }

    pub fn set_tags(&self, tags: &[&str]) {
        self.inner.lock().unwrap().tags = tags.iter().map(|tag| (*tag).to_owned()).collect();
    }

    /// The account's fields and flows, for `config check --online` alone.
    pub fn set_account(&self, fields: &[&str], flows: &[&str]) {
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let mut inner = self.inner.lock().unwrap();
        (inner.fields, inner.flows) = (owned(fields), owned(flows));
    }

    pub fn calls(&self) -> Vec<Call> {
        self.inner.lock().unwrap().calls.clone()
    }

    pub fn calls_to(&self, path: &str) -> Vec<Call> {
        self.calls().into_iter().filter(|call| call.path == path).collect()
    }

    /// Waits for the first call to this path.
    pub async fn await_call(&self, path: &str) -> Call {
        let until = Instant::now() + crate::app::PATIENCE;
        loop {
            if let Some(call) = self.calls_to(path).into_iter().next() {
                return call;
            }
            assert!(Instant::now() < until, "no call to {path}: {:?}", self.calls());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

async fn serve(mut socket: TcpStream, inner: Arc<Mutex<Inner>>) {
    while let Some(call) = read_call(&mut socket).await {
        let contact = call.body["subscriber_id"].as_str().unwrap_or_default().to_owned();
        let (status, silent, body) = {
            let mut inner = inner.lock().unwrap();
            let path = call.path.clone();
            inner.calls.push(call);
            let tags: Vec<Value> = inner.tags.iter().map(|tag| json!({ "id": 1, "name": tag })).collect();
            let data = match path.as_str() {
                GET_INFO => json!({ "id": "1", "name": "Somebody", "tags": tags, "custom_fields": [] }),
                GET_TAGS => Value::Array(tags),
                GET_FIELDS => inner.fields.iter().map(|field| json!({ "id": 1, "name": field })).collect(),
                GET_FLOWS => {
                    let flows = inner.flows.iter().map(|flow| json!({ "ns": flow, "name": "A flow" }));
                    json!({ "flows": flows.collect::<Vec<Value>>(), "folders": [] })
                }
                _ => json!({}),
            };
            let special = inner.of_contact.get(&(path.clone(), contact.clone()));
            let status = special.or(inner.statuses.get(&path)).copied().unwrap_or(200);
            let word = if status == 200 { "success" } else { "error" };
            let message = inner.message.as_deref().unwrap_or("as the test wishes");
            let body = json!({ "status": word, "data": data, "message": message }).to_string();
            (status, inner.silent.contains(&path), body)
        };
        if silent {
            return std::future::pending().await;
        }
        while inner.lock().unwrap().held.contains(&contact) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let head = format!("HTTP/1.1 {status} Played\r\nContent-Type: application/json\r\n");
        let answer = format!("{head}Content-Length: {}\r\n\r\n{body}", body.len());
        if socket.write_all(answer.as_bytes()).await.is_err() {
            return;
        }
    }
}

async fn read_call(socket: &mut TcpStream) -> Option<Call> {
    let mut bytes = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| {
                line.to_ascii_lowercase()
                    .strip_prefix("content-length: ")
                    .map(|rest| rest.parse::<usize>().unwrap())
            });
            if body.len() >= length.unwrap_or(0) {
                let target = head.split(' ').nth(1)?;
                let path = target.split('?').next()?.to_owned();
                return Some(Call { path, body: serde_json::from_str(body).unwrap_or(Value::Null) });
            }
        }
        let mut chunk = [0; 4096];
        match socket.read(&mut chunk).await {
            Ok(0) | Err(_) => return None,
            Ok(read) => bytes.extend_from_slice(&chunk[..read]),
        }
    }
}
