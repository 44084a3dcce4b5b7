//! The client against a small HTTP server of this process.

use std::collections::VecDeque;
use std::sync::Mutex;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::*;
use crate::domain::{ContactText, SubscriberId};
use crate::manychat::{Class, Command};

const KEY: &str = "1234:the-key-of-the-account";

/// What the server does with one request.
enum Play {
    Answer {
        status: u16,
        headers: &'static str,
        body: String,
    },
    /// Half an answer, then the end of the connection.
    Cut,
    Close,
    Hang,
}

/// One request as it arrived.
struct Seen {
    first_line: String,
    /// Names in small letters.
    headers: Vec<(String, String)>,
    body: String,
}

struct Server {
    url: String,
    seen: Arc<Mutex<Vec<Seen>>>,
}

impl Server {
    async fn start(plays: Vec<Play>) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let seen = Arc::new(Mutex::new(Vec::new()));
        let plays = Arc::new(Mutex::new(VecDeque::from(plays)));
        let log = Arc::clone(&seen);
        tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                tokio::spawn(serve(socket, Arc::clone(&plays), Arc::clone(&log)));
            }
        });
        Self { url, seen }
    }

    fn client(&self) -> ManyChat {
        connect(&self.url, Duration::from_secs(20))
    }

    fn requests(&self) -> std::sync::MutexGuard<'_, Vec<Seen>> {
        self.seen.lock().unwrap()
    }
}

async fn serve(mut socket: TcpStream, plays: Arc<Mutex<VecDeque<Play>>>, seen: Arc<Mutex<Vec<Seen>>>) {
    while let Some(request) = request(&mut socket).await {
        seen.lock().unwrap().push(request);
        let play = plays.lock().unwrap().pop_front().unwrap_or(Play::Close);
        let bytes = match play {
            Play::Answer { status, headers, body } => {
                format!("HTTP/1.1 {status} Played\r\nContent-Length: {}\r\n{headers}\r\n{body}", body.len())
            }
            Play::Cut => "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{\"status\":".to_owned(),
            Play::Close => return,
            Play::Hang => std::future::pending().await,
        };
        let cut = bytes.ends_with("{\"status\":");
        if socket.write_all(bytes.as_bytes()).await.is_err() || cut {
            return;
        }
    }
}

async fn request(socket: &mut TcpStream) -> Option<Seen> {
    let mut bytes = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let mut lines = head.lines();
            let first_line = lines.next().unwrap().to_owned();
            let headers: Vec<(String, String)> = lines
                .filter_map(|line| line.split_once(": "))
                .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
                .collect();
            let length = headers.iter().find(|(name, _)| name == "content-length");
            let length: usize = length.map_or(0, |(_, length)| length.parse().unwrap());
            if body.len() >= length {
                return Some(Seen { first_line, headers, body: body.to_owned() });
            }
        }
        let mut chunk = [0; 4096];
        match socket.read(&mut chunk).await {
            Ok(0) | Err(_) => return None,
            Ok(length) => bytes.extend_from_slice(&chunk[..length]),
        }
    }
}

fn connect(base: &str, limit: Duration) -> ManyChat {
    let _ = rustls::crypto::ring::default_provider().install_default();
    ManyChat::new(base, Redacted::new(KEY.to_owned()), limit).unwrap()
}

fn success() -> Play {
    json_answer(200, &json!({ "status": "success" }))
}

fn json_answer(status: u16, body: &Value) -> Play {
    Play::Answer { status, headers: "Content-Type: application/json\r\n", body: body.to_string() }
}

fn call(command: Command) -> Call {
    Call { contact: SubscriberId::new("7301144").unwrap(), command }
}

fn write() -> Call {
    call(Command::SetField { field: "ai_message".into(), value: ContactText::new("Café, 10:30? 🙂") })
}

/// First line and body of one call of each kind.
fn documented() -> [(&'static str, Option<Value>); 6] {
    [
        (
            "POST /fb/subscriber/setCustomFieldByName HTTP/1.1",
            Some(
                json!({"subscriber_id": "7301144", "field_name": "ai_message", "field_value": "Café, 10:30? 🙂"}),
            ),
        ),
        (
            "POST /fb/subscriber/setCustomFieldByName HTTP/1.1",
            Some(json!({"subscriber_id": "7301144", "field_name": "ai_token", "field_value": "tok"})),
        ),
        (
            "POST /fb/sending/sendFlow HTTP/1.1",
            Some(json!({"subscriber_id": "7301144", "flow_ns": "content2027_42"})),
        ),
        (
            "POST /fb/subscriber/addTagByName HTTP/1.1",
            Some(json!({"subscriber_id": "7301144", "tag_name": "open-day"})),
        ),
        (
            "POST /fb/subscriber/removeTagByName HTTP/1.1",
            Some(json!({"subscriber_id": "7301144", "tag_name": "open-day"})),
        ),
        ("GET /fb/subscriber/getInfo?subscriber_id=7301144 HTTP/1.1", None),
    ]
}

/// AC-DL-1, AC-DL-4, API-1, API-29, API-2, API-6, API-7, API-20 to API-27: what stands on the wire, and nothing else.
#[tokio::test]
async fn every_call_is_sent_as_documented() {
    let data = json!({"status": "success", "data": {"tags": [{"name": "open-day"}]}});
    let server =
        Server::start(vec![success(), success(), success(), success(), success(), json_answer(200, &data)])
            .await;
    let client = connect(&format!("{}//", server.url), CALL_LIMIT);
    let commands = [
        write().command,
        Command::WriteToken { field: "ai_token".into(), token: Redacted::new("tok".into()) },
        Command::SendFlow { flow_ns: "content2027_42".into() },
        Command::AddTag { tag: "open-day".into() },
        Command::RemoveTag { tag: "open-day".into() },
    ];
    for command in commands {
        assert_eq!(client.call(call(command)).await, Ok(Answer::Accepted));
    }
    let Ok(Answer::Contact(info)) = client.call(call(Command::GetInfo)).await else { panic!("no contact") };
    assert_eq!(info.tags, ["open-day"]);
    let expected = documented();
    let requests = server.requests();
    assert_eq!(requests.len(), expected.len());
    for (seen, (first_line, body)) in requests.iter().zip(expected) {
        assert_eq!(seen.first_line, first_line);
        assert_eq!(serde_json::from_str(&seen.body).ok(), body, "{first_line}");
        let mut names: Vec<&str> = seen.headers.iter().map(|(name, _)| name.as_str()).collect();
        // Present or not as other users of the same HTTP library want it to read compressed answers.
        names.retain(|name| *name != "accept-encoding");
        names.sort_unstable();
        let post = ["accept", "authorization", "content-length", "content-type", "host"];
        let get = ["accept", "authorization", "host"];
        assert_eq!(names, if body.is_some() { &post[..] } else { &get[..] }, "{first_line}");
        let header = |name| seen.headers.iter().find(|(known, _)| known == name).unwrap().1.as_str();
        assert_eq!(header("authorization"), format!("Bearer {KEY}"));
        assert_eq!(header("accept"), "application/json");
        assert!(body.is_none() || header("content-type") == "application/json");
    }
}

/// API-30: whatever the contact's id looks like, it stays one parameter.
#[tokio::test]
async fn a_strange_id_stays_one_parameter() {
    let server = Server::start(vec![json_answer(200, &json!({"status": "success", "data": {}}))]).await;
    let contact = SubscriberId::new("7&x=1#/é").unwrap();
    let call = Call { contact, command: Command::GetInfo };
    server.client().call(call).await.unwrap();
    let line = server.requests()[0].first_line.clone();
    assert_eq!(line, "GET /fb/subscriber/getInfo?subscriber_id=7%26x%3D1%23%2F%C3%A9 HTTP/1.1");
}

/// API-42 to API-44, AC-DL-3, AC-DL-5: each answer has its class, and one attempt is made (API-5).
#[tokio::test]
async fn each_answer_is_read_once_and_not_tried_again() {
    let html = |status| Play::Answer {
        status,
        headers: "Content-Type: text/html\r\n",
        body: "<html>Subscriber is gone</html>".to_owned(),
    };
    let error = json!({"status": "error", "message": "Subscriber is gone"});
    let cases = [
        (json_answer(400, &error), "api_error", Class::Final),
        (json_answer(200, &error), "api_error", Class::Final),
        (html(200), "response_error", Class::Final),
        (html(429), "api_error", Class::Retryable),
        (html(502), "api_error", Class::Retryable),
        (json_answer(503, &error), "api_error", Class::Retryable),
        (json_answer(401, &error), "api_error", Class::Final),
    ];
    for (play, name, class) in cases {
        let server = Server::start(vec![play]).await;
        let error = server.client().call(write()).await.unwrap_err();
        assert_eq!((error.name(), error.class()), (name, class), "{error}");
        assert!(name == "response_error" || error.to_string().contains("Subscriber is gone"), "{error}");
        assert_eq!(server.requests().len(), 1, "API-5");
    }
}

/// GAP-DL-13: the key does not travel with a redirect.
#[tokio::test]
async fn a_redirect_is_not_followed() {
    let other = Server::start(vec![success()]).await;
    for status in [301, 302, 303, 307, 308] {
        let location: &'static str = Box::leak(format!("Location: {}/\r\n", other.url).into_boxed_str());
        let play = Play::Answer { status, headers: location, body: String::new() };
        let server = Server::start(vec![play]).await;
        let error = server.client().call(write()).await.unwrap_err();
        assert_eq!((error.status(), error.class()), (Some(status), Class::Final));
    }
    assert!(other.requests().is_empty());
}

/// API-3, API-45, AC-DL-7: a call that is not answered ends at its limit, also in the middle of the answer.
#[tokio::test]
async fn a_call_without_an_answer_ends_at_its_limit() {
    let server = Server::start(vec![Play::Hang]).await;
    let client = connect(&server.url, Duration::from_millis(200));
    let error = client.call(write()).await.unwrap_err();
    assert_eq!(
        (error.reason(), error.class(), error.may_have_acted()),
        (Some("timeout"), Class::Retryable, true)
    );
    assert_eq!(CALL_LIMIT, Duration::from_secs(10));
}

/// API-47: a connection that is lost or was never there.
#[tokio::test]
async fn a_lost_connection_is_a_network_error() {
    for play in [Play::Close, Play::Cut] {
        let server = Server::start(vec![play]).await;
        let error = server.client().call(write()).await.unwrap_err();
        assert_eq!((error.reason(), error.class()), (Some("network"), Class::Retryable));
        assert!(error.may_have_acted(), "it was sent");
    }
    // Bound, so that nobody else gets the port, and not listened on.
    let closed = tokio::net::TcpSocket::new_v4().unwrap();
    closed.bind(([127, 0, 0, 1], 0).into()).unwrap();
    let address = closed.local_addr().unwrap();
    let error = connect(&format!("http://{address}"), CALL_LIMIT).call(write()).await.unwrap_err();
    assert_eq!((error.reason(), error.may_have_acted()), (Some("network"), false), "it was never sent");
}

/// GAP-DL-8: seconds or a date, and only where it means something.
#[tokio::test]
async fn a_pause_that_manychat_asks_for_is_read() {
    let dated = "Date: Tue, 01 Jan 2030 00:00:00 GMT\r\nRetry-After: Tue, 01 Jan 2030 00:01:30 GMT\r\n";
    let cases = [
        (429, "Retry-After: 7\r\n", Some(7)),
        (503, "Retry-After: 7\r\n", Some(7)),
        (429, dated, Some(90)),
        (429, "Retry-After: 99999999\r\n", Some(3600)),
        (429, "Retry-After: soon\r\n", None),
        (429, "Retry-After: -3\r\n", None),
        (429, "", None),
        (400, "Retry-After: 7\r\n", None),
    ];
    for (status, headers, seconds) in cases {
        let play = Play::Answer { status, headers, body: "{}".to_owned() };
        let server = Server::start(vec![play]).await;
        let error = server.client().call(write()).await.unwrap_err();
        assert_eq!(error.retry_after(), seconds.map(Duration::from_secs), "{status} {headers}");
    }
}

/// A body without an end is not kept in memory.
#[tokio::test]
async fn a_huge_body_is_cut() {
    let body = "x".repeat(LONGEST_BODY + 100_000);
    let server = Server::start(vec![Play::Answer { status: 500, headers: "", body }]).await;
    let error = server.client().call(write()).await.unwrap_err();
    assert_eq!((error.status(), error.to_string().len() < 300), (Some(500), true));
}

/// API-10, AC-DL-8, PERF-9: without a key nothing is sent, and the failure says why and can be tried again.
#[tokio::test]
async fn without_a_key_every_call_fails_and_nothing_is_sent() {
    let server = Server::start(vec![success()]).await;
    for token in [None, Some("  ")] {
        let settings = settings(&server.url, token);
        let error = client(&settings).unwrap().call(write()).await.unwrap_err();
        assert!(error.to_string().contains("MANYCHAT_API_TOKEN is not set"), "{error}");
        assert_eq!((error.class(), error.may_have_acted()), (Class::Retryable, false));
    }
    assert!(server.requests().is_empty());
    let _ = rustls::crypto::ring::default_provider().install_default();
    let with_key = client(&settings(&server.url, Some(KEY))).unwrap();
    assert_eq!(with_key.call(write()).await, Ok(Answer::Accepted));
}

/// API-8: a key that cannot be sent is refused at boot, without being shown.
#[test]
fn a_key_that_cannot_be_sent_is_refused() {
    let error = client(&settings("http://127.0.0.1:1", Some("bad\nkey"))).err().unwrap();
    assert!(
        error.to_string().contains("MANYCHAT_API_TOKEN") && !error.to_string().contains("bad"),
        "{error}"
    );
}

fn settings(base: &str, token: Option<&str>) -> ManyChatSettings {
    ManyChatSettings {
        api_token: token.map(|token| Redacted::new(token.to_owned())),
        api_base: base.to_owned(),
        reply_field: "ai_message".to_owned(),
        reply_flow_ns: None,
        reply_gap: Duration::ZERO,
        token_field: "ai_token".to_owned(),
        calls_per_second: std::num::NonZeroU32::new(10).unwrap(),
    }
}
