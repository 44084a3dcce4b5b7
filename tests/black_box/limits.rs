//! What a request passes before its route: overload, the limit per address, and the id it is given.

use std::time::Duration;

use manychat_agent::http::MESSAGE_PATH;
use reqwest::Method;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::app::{ADMIN, Answer, CONTACT, PATIENCE, SECRET, Setup, TestApp};

fn header<'answer>(answer: &'answer Answer, name: &str) -> Option<&'answer str> {
    answer.headers.get(name).and_then(|value| value.to_str().ok())
}

fn message() -> String {
    json!({ "subscriber_id": CONTACT, "text": "how much is it?" }).to_string()
}

/// A message with the secret, as if it came through the proxy from this address.
async fn from_address(app: &TestApp, address: &str, body: &str) -> Answer {
    app.ask(Method::POST, MESSAGE_PATH, |request| {
        let request = request.header("X-Forwarded-For", address).header("Content-Type", "application/json");
        request.bearer_auth(SECRET).body(body.to_owned())
    })
    .await
}

/// 03/RATE-1, 03/RATE-2, 03/RATE-3, RATE-4, HTTP-26, DEC-26, DEC-35, SHED-2, SHED-4, AC-CH-3, GAP-CH-13: over the limit a
/// message with the secret gets the handoff and no model, everything else 429; liveness is never counted.
#[tokio::test]
async fn over_the_limit_a_message_gets_the_handoff_and_everything_else_429() {
    let app = Setup::default().env("RATE_LIMIT_PER_MINUTE", "3").start().await;
    for remaining in ["2", "1", "0"] {
        let answer = app.post("{broken", Some(SECRET)).await;
        assert_eq!(answer.status, 400, "refused requests count");
        assert_eq!(header(&answer, "x-ratelimit-limit"), Some("3"));
        assert_eq!(header(&answer, "x-ratelimit-remaining"), Some(remaining));
        let reset: u64 = header(&answer, "x-ratelimit-reset").unwrap().parse().unwrap();
        assert!((1..=60).contains(&reset), "{reset}");
        assert_eq!(header(&answer, "retry-after"), None);
    }
    let shed = app.post(&message(), Some(SECRET)).await;
    assert_eq!((shed.status, shed.texts()), (200, vec![app.copy("escalation")]));
    assert!(shed.json()["content"]["external_message_callback"].is_object());
    assert_eq!(header(&shed, "retry-after"), None);
    assert_eq!(app.turns().await.len(), 0, "no turn runs");
    let line = app.log_line("load shed").await;
    assert_eq!((&line["level"], &line["cause"]), (&json!(40), &json!("rate limit")));
    let invalid = app.post("{broken", Some(SECRET)).await;
    assert_eq!((invalid.status, &invalid.json()["statusCode"]), (429, &json!(429)));
    assert_eq!(invalid.json()["error"], "Too Many Requests");
    assert!(invalid.json()["message"].is_string(), "{}", invalid.body);
    assert_eq!(header(&invalid, "retry-after"), header(&invalid, "x-ratelimit-reset"));

    // The callers without the secret have a budget of their own, for every path but the health checks.
    let anonymous = app.post("{broken", None).await;
    assert_eq!(anonymous.status, 401, "the other budget is not used up");
    let mut last = anonymous;
    for _ in 0..3 {
        last = app.ask(Method::GET, "/nothing-here", |request| request).await;
    }
    assert_eq!(last.status, 429);
    assert_eq!(app.get("/ready").await.unwrap().status, 429);
    assert_eq!(app.post(&message(), Some("a-wrong-secret-of-some-length")).await.status, 429);
    for _ in 0..5 {
        let health = app.get("/health").await.unwrap();
        assert_eq!((health.status, header(&health, "x-ratelimit-limit")), (200, None));
    }
}

/// RATE-5, RATE-6, AC-CH-4, GAP-CH-14, OPS-1: behind a trusted proxy every client has a budget, and the proxy's id comes
/// back and stands on the lines of the turn.
#[tokio::test]
async fn a_trusted_proxy_names_the_client_and_the_request() {
    let app = Setup::default().env("RATE_LIMIT_PER_MINUTE", "1").env("TRUST_PROXY", "loopback").start().await;
    for address in ["198.51.100.1", "198.51.100.2, 127.0.0.1"] {
        let texts = from_address(&app, address, &message()).await.texts();
        assert_ne!(texts, [app.copy("escalation")], "{address}");
        assert_eq!(from_address(&app, address, &message()).await.texts(), [app.copy("escalation")]);
    }
    let answer = app
        .ask(Method::POST, MESSAGE_PATH, |request| {
            let request =
                request.header("x-request-id", "edge-7.f_1").header("X-Forwarded-For", "198.51.100.3");
            request.header("Content-Type", "application/json").bearer_auth(SECRET).body(message())
        })
        .await;
    assert_eq!(header(&answer, "x-request-id"), Some("edge-7.f_1"));
    // Two turns through the proxy before it, and this one.
    let lines = app.log_lines("turn complete", 3).await;
    let line = lines.iter().find(|line| line["requestId"] == "edge-7.f_1").unwrap();
    assert!(line["request"].is_u64(), "{line}");
    let numbers: Vec<_> = lines.iter().map(|line| line["request"].as_u64().unwrap()).collect();
    assert!(numbers.is_sorted_by(|one, next| one < next), "{numbers:?}");
    for odd in ["with blank", "", &"x".repeat(129)] {
        let answer = app.ask(Method::GET, "/ready", |request| request.header("x-request-id", odd)).await;
        assert_eq!(header(&answer, "x-request-id"), None, "{odd:?}");
    }
}

/// RATE-5, RATE-6, GAP-CH-14: nobody is believed by default.
#[tokio::test]
async fn without_a_trusted_proxy_headers_name_nobody() {
    let app = Setup::default().env("RATE_LIMIT_PER_MINUTE", "1").start().await;
    from_address(&app, "198.51.100.1", &message()).await;
    let second = from_address(&app, "198.51.100.2", &message()).await;
    assert_eq!(second.texts(), [app.copy("escalation")], "one budget for all");
    let answer = app.ask(Method::GET, "/ready", |request| request.header("x-request-id", "edge-7")).await;
    assert_eq!(header(&answer, "x-request-id"), None);
}

/// SHED-1 to SHED-4, HTTP-28, DEC-28, AC-CH-5: a process that was held up refuses what has piled up, and recovers.
#[tokio::test]
async fn a_process_that_lags_sheds_load() {
    // Half a second after it goes on it has caught up. A busy machine can bring the requests to it only then.
    for _ in 0..5 {
        let mut app = Setup::default().env("LAG_ALLOWED_MS", "").start().await;
        if sheds_after_a_lag(&mut app).await {
            return;
        }
    }
    panic!("a process that was held up has refused nothing");
}

/// Whether the requests that came during the lag were refused; all of them the way they must be.
async fn sheds_after_a_lag(app: &mut TestApp) -> bool {
    app.signal(libc::SIGSTOP);
    // The lag is time itself: it has to pass.
    tokio::time::sleep(Duration::from_millis(2500)).await;
    let with_secret = app.send_later(CONTACT, "how much is it?");
    let (elsewhere, health) = (app.get_later("/ready"), app.get_later("/health"));
    tokio::time::sleep(Duration::from_millis(100)).await;
    app.signal(libc::SIGCONT);
    let (shed, elsewhere) = (with_secret.await.unwrap(), elsewhere.await.unwrap());
    assert_eq!(health.await.unwrap().status, 200);
    if shed.texts() != [app.copy("escalation")] || elsewhere.status == 200 {
        return false;
    }
    assert_eq!(shed.status, 200);
    assert_eq!(header(&shed, "retry-after"), None);
    assert_eq!((elsewhere.status, elsewhere.json()), (503, json!({"error": "unavailable"})));
    assert_eq!(header(&elsewhere, "retry-after"), Some("10"));
    let line = app.log_line("load shed").await;
    assert_eq!((&line["level"], &line["cause"]), (&json!(40), &json!("scheduling lag")));
    assert_eq!(app.turns().await.len(), 0, "no model is called");
    assert_eq!(app.logs("unhandled error").len(), 0);
    app.await_ready().await;
    assert!(app.send("how much is it?").await.texts()[0].contains("$450.00"));
    assert!(app.get_as("/admin/actors", Some(ADMIN)).await.unwrap().json()["scheduling_lag_ms"].is_u64());
    true
}

/// OPS-3, HTTP-11: the schema is shown to who may know it.
#[tokio::test]
async fn the_openapi_document_needs_a_secret() {
    let app = TestApp::start().await;
    for token in [None, Some("wrong")] {
        let refused = app.get_as("/openapi.json", token).await.unwrap();
        assert_eq!((refused.status, refused.json()), (401, json!({"error": "unauthorized"})));
    }
    for token in [SECRET, ADMIN] {
        let shown = app.get_as("/openapi.json", Some(token)).await.unwrap();
        assert_eq!((shown.status, &shown.json()["info"]["title"]), (200, &json!("ManyChat AI Agent")));
    }
}

/// ARC-31, PRIN-C7, HTTP-22: a body that does not arrive holds nobody up past the deadline.
#[tokio::test]
async fn a_body_that_never_arrives_is_refused_at_the_deadline() {
    let app = Setup::default().env("RACE_DEADLINE_MS", "1000").start().await;
    let mut socket = tokio::net::TcpStream::connect(("127.0.0.1", app.port)).await.unwrap();
    let head = format!(
        "POST {MESSAGE_PATH} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {SECRET}\r\n\
         Content-Type: application/json\r\nContent-Length: 60\r\n\r\n{{\"subscriber_id\""
    );
    socket.write_all(head.as_bytes()).await.unwrap();
    let mut answer = vec![0; 4096];
    let length = tokio::time::timeout(PATIENCE, socket.read(&mut answer)).await.unwrap().unwrap();
    let answer = String::from_utf8_lossy(&answer[..length]);
    assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
    assert!(answer.contains("the body ended before its announced length"), "{answer}");
}

/// AUTH-4, HTTP-30, LOG-3: a wrong secret is told in the log, once a minute and without an address.
#[tokio::test]
async fn a_wrong_secret_leaves_a_trace() {
    let app = TestApp::start().await;
    for secret in [Some("a-rotated-secret-of-some-length"), None, Some("another-wrong-one-of-some-length")] {
        assert_eq!(app.post(&message(), secret).await.status, 401);
    }
    let line = app.log_line("requests refused: wrong or missing secret").await;
    assert_eq!((&line["level"], &line["count"], &line["wrong"]), (&json!(40), &json!(1), &json!(1)));
    assert!(!line.to_string().contains("127.0.0.1") && !app.output().contains("a-rotated-secret"), "{line}");
    app.post(&message(), Some(SECRET)).await;
    app.log_line("turn complete").await;
    assert_eq!(app.logs("requests refused: wrong or missing secret").len(), 1);
}
