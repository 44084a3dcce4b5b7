//! The other routes: health, readiness, operators, refusals.

use serde_json::json;

use crate::app::{ADMIN, CONTACT, SECRET, Setup, TestApp};

/// HTTP-2 to HTTP-8
#[tokio::test]
async fn health_readiness_and_unknown_paths() {
    let app = TestApp::start().await;
    let health = app.get("/health").await.unwrap();
    assert_eq!((health.status, health.json()), (200, json!({"status": "ok"})));
    assert_eq!(health.headers["x-content-type-options"], "nosniff");
    assert!(!health.headers.contains_key("content-security-policy"));
    assert_eq!(app.get("/ready").await.unwrap().json(), json!({"status": "ready"}));
    for path in ["/", "/nothing", "/v1/channels/manychat/message"] {
        let missing = app.get(path).await.unwrap();
        assert_eq!((missing.status, &missing.json()["statusCode"]), (404, &json!(404)), "{path}");
        assert!(missing.json()["error"].is_string() && missing.json()["message"].is_string());
    }
}

/// HTTP-10, HTTP-11, HTTP-22 to HTTP-25, HTTP-29, HTTP-30, AC-CH-2, AC-CH-7, DEC-35: the order of the checks.
#[tokio::test]
async fn a_request_is_refused_by_the_first_check_that_fails() {
    let app = TestApp::start().await;
    let refused = app.post("{broken", None).await;
    assert_eq!((refused.status, refused.json()), (401, json!({"error": "unauthorized"})));
    assert!(!refused.headers.contains_key("www-authenticate"));
    let large = format!("{{\"subscriber_id\": \"1\", \"text\": \"{}\"}}", "x".repeat(70_000));
    for (body, status) in
        [("", 400), ("{broken", 400), ("[]", 400), ("{\"text\": \"hi\"}", 400), (large.as_str(), 413)]
    {
        let refused = app.post(body, Some(SECRET)).await;
        let answer = refused.json();
        assert_eq!((refused.status, &answer["statusCode"]), (status, &json!(status)), "{answer}");
        assert!(answer["code"].is_string() && answer["error"].is_string() && answer["message"].is_string());
    }
    assert_eq!(app.rows("select 1 from conversations").await.len(), 0);
}

/// DEC-14, ARC-24: operators see the actors by conversation id, never by subscriber id.
#[tokio::test]
async fn operators_see_the_actors_and_nobody_else_does() {
    let app = Setup::default()
        .env("AGENT_MODEL", "mock:slow")
        .env("RACE_DEADLINE_MS", "900")
        .env("MODEL_ABORT_MS", "20000")
        .start()
        .await;
    app.send("how much is it?").await;
    app.send_later(CONTACT, "are you there?");
    app.await_rows("select 1 from rs_owed").await;
    for token in [None, Some("wrong"), Some(SECRET)] {
        assert_eq!(app.get_as("/admin/actors", token).await.unwrap().status, 401, "{token:?}");
    }
    let until = std::time::Instant::now() + std::time::Duration::from_secs(10);
    let report = loop {
        let answer = app.get_as("/admin/actors", Some(ADMIN)).await.unwrap();
        assert_eq!(answer.status, 200);
        assert!(!answer.body.contains(CONTACT));
        let report = answer.json();
        if report["oldest_busy"][0]["waiting"] == 1 || std::time::Instant::now() > until {
            break report;
        }
    };
    assert_eq!((&report["conversations"], &report["busy"]), (&json!(1), &json!(1)), "{report}");
    let busy = &report["oldest_busy"][0];
    let id = app.rows("select id from conversations").await[0]["id"].clone();
    assert_eq!(
        (&busy["conversation"], &busy["phase"], &busy["waiting"]),
        (&id, &json!("deciding"), &json!(1))
    );
    assert!(report["heartbeat_age_ms"].is_u64(), "{report}");
    let manychat = &report["manychat"];
    assert_eq!((&manychat["bucket_level"], &manychat["open"]), (&json!(5.0), &json!(0)), "{manychat}");
}

/// DEC-14: without `ADMIN_TOKEN` there is nothing to see.
#[tokio::test]
async fn without_a_token_there_is_no_admin() {
    let mut app = Setup::default().prepare().await;
    app.env.remove("ADMIN_TOKEN");
    app.launch().await;
    assert_eq!(app.get_as("/admin/actors", Some(ADMIN)).await.unwrap().status, 404);
}

/// AUTH-2, AUTH-3, AUTH-6, AC-CH-1: every listed secret is valid, and the callback carries the presented one.
#[tokio::test]
async fn the_callback_carries_the_presented_secret() {
    const SECOND: &str = "another-secret-of-some-length";
    let app = Setup::default().env("MANYCHAT_SHARED_SECRET", format!(" {SECRET} ,{SECOND},")).start().await;
    for secret in [SECRET, SECOND] {
        let answer = app.post(&json!({"subscriber_id": 5, "text": "hello"}).to_string(), Some(secret)).await;
        let callback = &answer.json()["content"]["external_message_callback"];
        assert_eq!(callback["headers"]["Authorization"], format!("Bearer {secret}"));
    }
}

/// RLD-1 to RLD-5, ACC-RLD-1 to ACC-RLD-3, GAP-CFG-7: all or nothing, on `SIGHUP`.
#[tokio::test]
async fn a_reload_takes_all_files_or_none() {
    let app = TestApp::start().await;
    let config = app.folder.path.join("config");
    let rules = std::fs::read_to_string(config.join("rules.json")).unwrap();
    let edited = rules.replace("begin larkspur chat", "good day");
    std::fs::write(config.join("rules.json"), &edited).unwrap();
    let catalog = std::fs::read_to_string(config.join("catalog.json")).unwrap();
    std::fs::write(config.join("catalog.json"), "{broken").unwrap();
    app.signal(libc::SIGHUP);
    let failed = app.log_line("config reload failed; keeping previous config").await;
    assert_eq!(failed["level"], 50);
    assert!(failed["error"].as_str().unwrap().contains("catalog.json"), "{failed}");
    assert_ne!(app.send("good day").await.texts()[0], opening(), "the old rules still hold");
    std::fs::write(config.join("catalog.json"), catalog).unwrap();
    app.signal(libc::SIGHUP);
    assert_eq!(app.log_line("config reloaded").await["level"], 30);
    assert_eq!(app.send("good day").await.texts()[0], opening());
    let loaded = app.logs("configuration loaded");
    let hashes: Vec<_> =
        loaded.iter().filter(|line| line["file"] == "rules.json").map(|line| &line["hash"]).collect();
    assert_eq!(hashes.len(), 2);
    assert_ne!(hashes[0], hashes[1]);
    assert!(hashes.iter().all(|hash| hash.as_str().unwrap().len() == "sha256:".len() + 12), "{hashes:?}");
}

/// RLD-11, ARC-21, OPS-4: signals in quick succession disturb no message, end in a reload after the last of them, and do
/// not keep the process from ending. That one reload follows a long one is tested beside the code: no file can be slow.
#[tokio::test]
async fn signals_during_a_reload_lead_to_one_more() {
    let mut app = TestApp::start().await;
    for round in 0..5 {
        std::fs::write(app.folder.path.join("config/prompt.md"), format!("You answer, {round}.")).unwrap();
        app.signal(libc::SIGHUP);
        assert_eq!(app.send("hello").await.status, 200, "the service answers meanwhile");
    }
    let reloads = app.log_lines("config reloaded", 1).await.len();
    assert!((1..=5).contains(&reloads), "{reloads}");
    app.signal(libc::SIGHUP);
    assert_eq!(app.stop(libc::SIGTERM).await.code(), Some(0));
}

fn opening() -> &'static str {
    "Hi, this is the Larkspur Woodshop assistant. What would you like to make?"
}
