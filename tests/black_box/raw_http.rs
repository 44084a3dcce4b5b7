//! Requests as no client should send them: wrong headers, broken framing, half a body. Never a server error, never a hang,
//! and nothing of it is an error in our log.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

use manychat_agent::http::MESSAGE_PATH;
use reqwest::Method;

use crate::app::{SECRET, Setup, TestApp};

const BODY: &str = r#"{"subscriber_id":"77","text":"how much is the foundation course?"}"#;
const DEADLINE: Duration = Duration::from_secs(5);
/// Whatever takes so long hangs.
const HANGS: Duration = Duration::from_secs(60);

async fn app() -> TestApp {
    let setup = Setup::default().env("RATE_LIMIT_PER_MINUTE", "100000");
    setup.env("RACE_DEADLINE_MS", DEADLINE.as_millis().to_string()).start().await
}

/// Sends bytes as they are, half-closes, and reads to the end. The statuses of all answers in order.
fn exchange(app: &TestApp, bytes: &[u8]) -> Vec<u16> {
    let mut stream = TcpStream::connect(("127.0.0.1", app.port)).unwrap();
    stream.set_read_timeout(Some(HANGS)).unwrap();
    // The service may have refused and closed before it took everything.
    let _ = stream.write_all(bytes);
    let _ = stream.shutdown(Shutdown::Write);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    let text = String::from_utf8_lossy(&answer);
    text.split("HTTP/1.").skip(1).filter_map(|part| part.get(2..5)?.parse().ok()).collect()
}

/// A message with these header lines beside the secret, and these bytes as its body.
fn message(headers: &str, body: &str) -> Vec<u8> {
    format!(
        "POST {MESSAGE_PATH} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {SECRET}\r\n{headers}\r\n{body}"
    )
    .into_bytes()
}

fn json(framing: &str, body: &str) -> Vec<u8> {
    message(&format!("Content-Type: application/json\r\n{framing}"), body)
}

fn whole() -> Vec<u8> {
    json(&format!("Content-Length: {}\r\n", BODY.len()), BODY)
}

/// HTTP-22, HTTP-25, HTTP-29, AUTH-1: what is no JSON by its header is not read.
#[tokio::test]
async fn other_content_types_are_refused() {
    let app = app().await;
    for (value, status) in [
        (Some("application/json"), 200),
        (Some("Application/JSON; charset=utf-8"), 200),
        (Some("text/plain"), 400),
        (Some("text/plain;charset=utf-8"), 400),
        (Some("text/html"), 415),
        (Some("application/jsonx"), 415),
        (Some("application/x-www-form-urlencoded"), 415),
        (Some("multipart/form-data; boundary=x"), 415),
        (Some("application/json, text/html"), 415),
        (Some(""), 415),
        (None, 415),
    ] {
        let answer = app
            .ask(Method::POST, MESSAGE_PATH, |request| {
                let request = request.bearer_auth(SECRET).body(BODY);
                value.map_or_else(
                    || request.try_clone().unwrap(),
                    |value| request.try_clone().unwrap().header("Content-Type", value),
                )
            })
            .await;
        assert_eq!(answer.status, status, "{value:?}: {}", answer.body);
        if status != 200 {
            let refusal = answer.json();
            assert!(refusal["code"].is_string() && refusal["message"].is_string(), "{refusal}");
        }
    }
    let large = format!("{{\"text\":\"{}\"}}", "x".repeat(70_000));
    let both = message(&format!("Content-Type: text/html\r\nContent-Length: {}\r\n", large.len()), &large);
    assert_eq!(exchange(&app, &both), [415], "DEC-35: the type is judged before the size");
    assert_eq!(exchange(&app, &message("Content-Type: \u{e9}\r\nContent-Length: 2\r\n", "{}")), [415]);
}

/// HTTP-22, HTTP-24: bodies in chunks, with odd lengths, and bodies that end early.
#[tokio::test]
async fn odd_framing_is_read_or_refused() {
    let app = app().await;
    let chunk = format!("{:x}\r\n{BODY}\r\n0\r\n\r\n", BODY.len());
    let chunked = "Transfer-Encoding: chunked\r\n";
    let length = BODY.len();
    let large = format!("{:x}\r\n{}\r\n", 30_000, "x".repeat(30_000));
    let cases: Vec<(&str, Vec<u8>, &[u16])> = vec![
        ("whole", whole(), &[200]),
        ("chunked", json(chunked, &chunk), &[200]),
        (
            "byte by byte",
            json(
                chunked,
                &(BODY.chars().map(|ch| format!("1\r\n{ch}\r\n")).collect::<String>() + "0\r\n\r\n"),
            ),
            &[200],
        ),
        ("chunked and too large", json(chunked, &(large.repeat(3) + "0\r\n\r\n")), &[413]),
        ("chunked and cut off", json(chunked, &chunk[..40]), &[400]),
        ("a chunk's length that is none", json(chunked, "zz\r\nab\r\n0\r\n\r\n"), &[400]),
        ("a chunk's length without end", json(chunked, "fffffffffffffffffff\r\nab"), &[400]),
        ("cut off", json(&format!("Content-Length: {}\r\n", length + 20), BODY), &[400]),
        ("nothing of it", json("Content-Length: 100\r\n", ""), &[400]),
        ("shorter than it is", json("Content-Length: 5\r\n", BODY), &[400, 400]),
        ("empty", json("Content-Length: 0\r\n", ""), &[400]),
        ("no length", json("", ""), &[400]),
        ("announced as too large", json("Content-Length: 70000\r\n", ""), &[413]),
        ("two lengths", json(&format!("Content-Length: {length}\r\nContent-Length: 5\r\n"), BODY), &[400]),
        ("a length that is none", json("Content-Length: many\r\n", BODY), &[400]),
        ("a negative length", json("Content-Length: -5\r\n", BODY), &[400]),
        ("a length beyond 64 bits", json("Content-Length: 99999999999999999999999\r\n", BODY), &[400]),
        ("length and chunks", json(&format!("Content-Length: {length}\r\n{chunked}"), &chunk), &[400]),
        (
            "compressed",
            json(&format!("Content-Encoding: gzip\r\nContent-Length: {length}\r\n"), BODY),
            &[200],
        ),
        (
            "with an expectation",
            json(&format!("Expect: 100-continue\r\nContent-Length: {length}\r\n"), BODY),
            &[100, 200],
        ),
    ];
    for (what, bytes, expected) in cases {
        let started = Instant::now();
        let seen = exchange(&app, &bytes);
        assert!(started.elapsed() < HANGS, "{what}: {:?}", started.elapsed());
        // A request that cannot be framed may also be answered by closing the connection.
        let closed = seen.is_empty() && expected != [200];
        assert!(closed || seen.first() == expected.first(), "{what}: {seen:?}");
        assert!(seen.iter().all(|status| *status < 500), "{what}: {seen:?}");
    }
    assert_quiet(&app).await;
}

/// HTTP-6, HTTP-30, RATE-3: what is hardly HTTP, from strangers, is refused and is no error in our log (LOG-5).
#[tokio::test]
async fn what_is_hardly_http_is_refused_quietly() {
    let app = app().await;
    let long = "x".repeat(200_000);
    let many: String = (0..300).map(|number| format!("x-{number}: 1\r\n")).collect();
    let cases: Vec<Vec<u8>> = vec![
        b"\r\n\r\n".to_vec(),
        b"GET\r\n\r\n".to_vec(),
        b"GET / HTTP/9.9\r\n\r\n".to_vec(),
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03planted-zanzibar".to_vec(),
        vec![0; 5000],
        (0..=255).cycle().take(9000).collect(),
        format!("GET /{long} HTTP/1.1\r\nHost: a\r\n\r\n").into_bytes(),
        format!("GET / HTTP/1.1\r\nHost: a\r\nx: {long}\r\n\r\n").into_bytes(),
        format!("GET / HTTP/1.1\r\n{many}\r\n").into_bytes(),
        b"GET /zanzibar%zz HTTP/1.1\r\nHost: a\r\n\r\n".to_vec(),
        b"GET /\xff\xfe HTTP/1.1\r\nHost: a\r\n\r\n".to_vec(),
        b"GET / HTTP/1.1\r\nHost: a\r\nzanzibar marmalade: 1\r\n\r\n".to_vec(),
        b"GET / HTTP/1.1\r\nHost: a\r\nno colon\r\n\r\n".to_vec(),
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(),
        b"GET / HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\n".to_vec(),
        b"OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n".to_vec(),
        b"CONNECT example.org:443 HTTP/1.1\r\nHost: a\r\n\r\n".to_vec(),
        b"POST /v1/channels/manychat/message HTTP/1.0\r\n\r\n".to_vec(),
        b"GET /health HTTP/1.1\r\nHost: a\r\n\r\nGET /heal".to_vec(),
    ];
    for bytes in cases {
        let shown = String::from_utf8_lossy(&bytes[..bytes.len().min(60)]).into_owned();
        let started = Instant::now();
        let seen = exchange(&app, &bytes);
        assert!(seen.iter().all(|status| *status < 500), "{shown}: {seen:?}");
        assert!(started.elapsed() < HANGS, "{shown}: {:?}", started.elapsed());
    }
    assert_eq!(app.get("/ready").await.unwrap().status, 200);
    assert_quiet(&app).await;
}

/// HTTP-20: two messages on one connection are answered in their order.
#[tokio::test]
async fn requests_behind_each_other_are_answered_in_order() {
    let app = app().await;
    let refused = json("Content-Length: 2\r\n", "{}");
    assert_eq!(exchange(&app, &[whole(), refused, whole()].concat()), [200, 400, 200]);
}

async fn assert_quiet(app: &TestApp) {
    // Lines are written in order: with those of this turn all before them are there.
    app.send_as("the-last", "begin larkspur chat").await;
    app.log_line("scripted opening sent").await;
    for line in app.output().lines() {
        let parsed: serde_json::Value =
            serde_json::from_str(line).unwrap_or_else(|_| panic!("no JSON: {line}"));
        // TOK-24: this tenant has no key, so a token cannot be written.
        let expected = parsed["msg"] == "contact token write failed";
        assert!(expected || parsed["level"].as_u64().unwrap() < 50, "{line}");
        assert!(!line.contains("zanzibar") && !line.contains("marmalade"), "{line}");
    }
}
