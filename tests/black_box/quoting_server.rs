//! A server that stands in for a provider or for ManyChat, keeps what it was asked, and quotes it in what it answers.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use serde_json::json;

pub struct QuotingServer {
    port: u16,
    requests: Arc<Mutex<Vec<String>>>,
}

impl QuotingServer {
    /// Answers with one status after the other, again and again, quoting the whole request, headers included, and `more`.
    pub fn start(statuses: &'static [u16], more: &'static str) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let server = Self { port: listener.local_addr().unwrap().port(), requests: Arc::default() };
        let requests = Arc::clone(&server.requests);
        thread::spawn(move || {
            for (stream, status) in listener.incoming().zip(statuses.iter().cycle()) {
                // A caller that hangs up is none of a test's business.
                let _ = answer(stream.unwrap(), *status, more, &requests);
            }
        });
        server
    }

    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// The bodies so far.
    pub fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }
}

fn answer(
    mut stream: TcpStream,
    status: u16,
    more: &str,
    requests: &Mutex<Vec<String>>,
) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head)? == 0 {
            return Ok(());
        }
    }
    let lower = head.to_ascii_lowercase();
    let length = lower.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap_or("0");
    let mut body = vec![0; length.trim().parse().unwrap()];
    reader.read_exact(&mut body)?;
    let body = String::from_utf8(body).unwrap();
    let quoted = format!("refused {more} {head} {body}");
    requests.lock().unwrap().push(body);
    let error = json!({ "message": quoted, "type": quoted, "code": quoted, "param": quoted });
    let answer =
        json!({ "status": "error", "message": quoted, "error": error, "details": { "messages": [quoted] } });
    let answer = answer.to_string();
    write!(
        stream,
        "HTTP/1.1 {status} Odd\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{answer}",
        answer.len()
    )
}
