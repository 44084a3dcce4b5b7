//! Callers who take connections and give nothing: the places are bounded, and nobody may keep one without a request.

use std::time::{Duration, Instant};

use manychat_agent::http::MESSAGE_PATH;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::app::{SECRET, Setup, TestApp};

/// More than the silence after an answer and the time for a head together, and a sweep: 9 s.
const GONE: Duration = Duration::from_secs(25);
/// Longer than that: an answer that takes so long must still find its connection.
const DEADLINE: Duration = Duration::from_secs(26);
/// With so many open files the service has 88 places.
const OPEN_FILES: u64 = 400;

/// A model that takes every request and answers none.
async fn silent_model() -> (String, TcpListener) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    (format!("http://{}/v1", listener.local_addr().unwrap()), listener)
}

async fn app(model_url: String) -> TestApp {
    let setup = Setup { open_files: Some(OPEN_FILES), ..Setup::default() };
    setup
        .env("RATE_LIMIT_PER_MINUTE", "100000")
        .env("RACE_DEADLINE_MS", DEADLINE.as_millis().to_string())
        .env("MODEL_ABORT_MS", "40000")
        .env("AGENT_MODEL", "openai:gpt-4.1-mini")
        .env("OPENAI_API_KEY", "a-key")
        .env("OPENAI_BASE_URL", model_url)
        .start()
        .await
}

async fn answer_on(stream: &mut TcpStream) -> String {
    let mut answer = vec![0; 65_536];
    let length = stream.read(&mut answer).await.unwrap_or(0);
    String::from_utf8_lossy(&answer[..length]).into_owned()
}

/// Asks once with the secret, reads the answer and sends the beginning of another request.
async fn half_a_head(app: &TestApp) -> TcpStream {
    let mut stream = TcpStream::connect(("127.0.0.1", app.port)).await.unwrap();
    let whole = format!(
        "POST {MESSAGE_PATH} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {SECRET}\r\n\
         Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{{}}"
    );
    stream.write_all(whole.as_bytes()).await.unwrap();
    assert!(answer_on(&mut stream).await.starts_with("HTTP/1.1 400"));
    stream.write_all(b"POST /v1/chan").await.unwrap();
    stream
}

/// Waits until the service has closed the connection.
async fn is_gone(stream: &mut TcpStream) -> bool {
    let end = async { while !matches!(stream.read(&mut [0; 1024]).await, Ok(0) | Err(_)) {} };
    tokio::time::timeout(GONE, end).await.is_ok()
}

/// SHED-1, ARC-32: all places are taken by callers who have asked once and then sent half a head. They lose them
/// within seconds, a caller who waits for a slow turn keeps its own, and an honest one gets in.
#[tokio::test]
async fn nobody_keeps_a_place_with_half_a_head() {
    let (url, model) = silent_model().await;
    let app = app(url).await;
    let asked = Instant::now();
    let slow = app.raw_request("how much is the foundation course?");
    slow.set_nonblocking(true).unwrap();
    let mut slow = TcpStream::from_std(slow).unwrap();
    let _call = model.accept().await.unwrap();
    let mut held = Vec::new();
    while let Ok(stream) = tokio::time::timeout(Duration::from_secs(3), half_a_head(&app)).await {
        held.push(stream);
        assert!(held.len() < 200, "the number of connections has no bound");
    }
    assert!(held.len() > 40, "only {} places", held.len());
    let honest = app.send_as("8610001", "begin larkspur chat").await;
    assert_eq!(honest.status, 200);
    assert!(honest.elapsed < GONE, "{:?}", honest.elapsed);
    for stream in &mut held {
        assert!(is_gone(stream).await, "half a head has kept its place");
    }
    let late = answer_on(&mut slow).await;
    assert!(late.starts_with("HTTP/1.1 200") && late.contains(&app.copy("acknowledgement")), "{late}");
    assert!(asked.elapsed() >= DEADLINE, "{:?}", asked.elapsed());
}

/// SHED-1, HTTP-23: whoever does not know the secret gets its answer and no place.
#[tokio::test]
async fn strangers_keep_no_connection() {
    let app = TestApp::start().await;
    for request in ["GET /health", "GET /ready", "GET /nowhere", &format!("POST {MESSAGE_PATH}")] {
        let mut stream = TcpStream::connect(("127.0.0.1", app.port)).await.unwrap();
        let head = format!("{request} HTTP/1.1\r\nHost: a\r\n\r\n");
        stream.write_all(head.as_bytes()).await.unwrap();
        let answer = answer_on(&mut stream).await;
        assert!(answer.to_ascii_lowercase().contains("\r\nconnection: close\r\n"), "{request}: {answer}");
        let asked = Instant::now();
        // An open connection is kept for 5 s of silence.
        assert!(is_gone(&mut stream).await && asked.elapsed() < Duration::from_secs(5), "{request}");
    }
}
