//! HTTP/1.1 as far as the stand-ins and the contacts' client need it.

use std::collections::HashMap;
use std::io;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// A request or an answer, whole.
pub struct Message {
    /// First line.
    pub start: String,
    pub headers: HashMap<String, String>,
    pub body: Vec<u8>,
}

impl Message {
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }
}

/// The next message of a connection; `None` when it ended before one was whole.
pub async fn read(stream: &mut TcpStream, input: &mut Vec<u8>) -> Option<Message> {
    loop {
        if let Some(message) = take(input) {
            return Some(message);
        }
        if stream.read_buf(input).await.ok()? == 0 {
            return None;
        }
    }
}

fn take(input: &mut Vec<u8>) -> Option<Message> {
    let head_end = input.windows(4).position(|four| four == b"\r\n\r\n")?;
    let head = String::from_utf8_lossy(&input[..head_end]).into_owned();
    let mut lines = head.split("\r\n");
    let start = lines.next()?.to_owned();
    let headers: HashMap<String, String> = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
        .collect();
    let length: usize = headers.get("content-length").and_then(|text| text.parse().ok()).unwrap_or(0);
    let end = head_end + 4 + length;
    if input.len() < end {
        return None;
    }
    let body = input[head_end + 4..end].to_vec();
    input.drain(..end);
    Some(Message { start, headers, body })
}

/// An answer in JSON.
pub async fn answer(stream: &mut TcpStream, status: u16, body: &str) -> io::Result<()> {
    let head = format!(
        "HTTP/1.1 {status} status\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(format!("{head}{body}").as_bytes()).await
}
