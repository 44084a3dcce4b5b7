//! The other routes: health, readiness, operators, refusals.

use std::ffi::CString;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::time::Duration;

use manychat_agent::store::embedded::testing::TestServer;
use reqwest::Method;
use serde_json::json;

use crate::app::{ADMIN, CONTACT, LOST, PATIENCE, SECRET, Setup, TestApp};

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
        .env("RACE_DEADLINE_MS", LOST)
        .env("MODEL_ABORT_MS", "20000")
        .start()
        .await;
    app.send("how much is it?").await;
    app.send_later(CONTACT, "are you there?");
    app.await_rows("select 1 from rs_owed").await;
    for token in [None, Some("wrong"), Some(SECRET)] {
        assert_eq!(app.get_as("/admin/actors", token).await.unwrap().status, 401, "{token:?}");
    }
    let until = std::time::Instant::now() + PATIENCE;
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

/// The answer's status at each path of `/admin` with this token.
async fn admin_statuses(app: &TestApp, token: Option<&str>) -> Vec<u16> {
    let mut found = Vec::new();
    for path in
        ["/admin/actors", "/admin", "/admin/", "/admin/nothing", "/admin/actors/more", "/administrator"]
    {
        found.push(app.get_as(path, token).await.unwrap().status);
    }
    found
}

/// DEC-14, DEC-35: all of `/admin` asks for the token before it tells what is there; without `ADMIN_TOKEN` nothing is.
#[tokio::test]
async fn all_of_admin_is_behind_the_token() {
    let mut app = TestApp::start().await;
    for token in [None, Some("wrong"), Some(SECRET)] {
        assert_eq!(admin_statuses(&app, token).await, [401, 401, 401, 401, 401, 404], "{token:?}");
    }
    assert_eq!(admin_statuses(&app, Some(ADMIN)).await, [200, 404, 404, 404, 404, 404]);
    let posted = app.ask(Method::POST, "/admin/actors", |request| request.bearer_auth(ADMIN)).await;
    assert_eq!(posted.status, 404, "HTTP-6");
    let refused = app.get("/admin/nothing").await.unwrap();
    assert_eq!(refused.json(), json!({"error": "unauthorized"}));
    assert_eq!(refused.headers["x-content-type-options"], "nosniff");
    app.env.remove("ADMIN_TOKEN");
    app.stop(libc::SIGTERM).await;
    app.launch().await;
    for token in [None, Some(ADMIN)] {
        assert_eq!(admin_statuses(&app, token).await, [404; 6], "{token:?}");
    }
}

/// RLD-1, RLD-11, ACC-CLI-4: a signal while the configuration is read for the first time ends nothing, and is not
/// forgotten; a port of `.env` yields to that of the environment.
#[tokio::test]
async fn a_signal_during_the_start_is_a_reload_after_it() {
    let mut app = Setup::default().prepare().await;
    let dot_env = app.folder.path.join(".env");
    make_pipe(&dot_env);
    app.spawn();
    // Opening it returns when the process reads; the process waits until it is closed.
    let mut writer = open_pipe(&dot_env).await;
    app.signal(libc::SIGHUP);
    writer.write_all(b"PORT=1\n").unwrap();
    drop(writer);
    app.await_ready().await;
    app.log_line("config reloaded").await;
}

/// CLI-20, OPS-8, MIG-3: the steps of a start in their order, the port last; what media the process can read.
#[tokio::test]
async fn the_port_opens_last() {
    let database = TestServer::empty_database().unwrap();
    let app = Setup { database: Some(database), ..Setup::default() }.start().await;
    let output = app.output();
    let steps = ["configuration loaded", "migrations applied", "media capabilities", "Server listening"];
    let places: Vec<_> =
        steps.iter().map(|step| output.find(step).unwrap_or_else(|| panic!("{step}"))).collect();
    assert!(places.is_sorted(), "{output}");
    let media = app.log_line("media capabilities").await;
    let fields = ["transcription", "images", "ffmpeg"].map(|name| media[name].clone());
    assert_eq!(fields, [json!(null), json!(false), json!(false)]);
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

/// RLD-11, ARC-21: however many signals come at once, the service answers meanwhile, what was written before the last
/// of them is in force in the end, and the process ends in order.
#[tokio::test]
async fn many_signals_lead_to_what_was_written_last() {
    let mut app = TestApp::start().await;
    let prompt = app.folder.path.join("config/prompt.md");
    let sound = std::fs::read_to_string(&prompt).unwrap();
    let last = 40;
    for round in 1..=last {
        std::fs::write(&prompt, format!("{sound}\nRound {round}.\n")).unwrap();
        app.signal(libc::SIGHUP);
        if round % 10 == 0 {
            assert_eq!(app.send("hello").await.status, 200, "the service answers meanwhile");
        }
    }
    let digest = manychat_agent::turn::digest(&std::fs::read_to_string(&prompt).unwrap());
    let until = std::time::Instant::now() + PATIENCE;
    while !app.logs("configuration loaded").iter().any(|line| {
        line["file"] == "prompt.md"
            && line["hash"].as_str().is_some_and(|hash| digest.starts_with(&hash[7..]))
    }) {
        assert!(std::time::Instant::now() < until, "{}", app.output());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let reloads = app.log_lines("config reloaded", 1).await.len();
    assert!(reloads <= last, "no more reloads than signals: {reloads}");
    assert_eq!(app.stop(libc::SIGTERM).await.code(), Some(0));
}

fn make_pipe(path: &Path) {
    let path = CString::new(path.to_str().unwrap()).unwrap();
    // SAFETY: `path` is a text that ends with NUL.
    assert_eq!(unsafe { libc::mkfifo(path.as_ptr(), 0o600) }, 0);
}

async fn open_pipe(path: &Path) -> File {
    let path = path.to_owned();
    let opening = tokio::task::spawn_blocking(move || OpenOptions::new().write(true).open(path).unwrap());
    tokio::time::timeout(PATIENCE, opening).await.expect("nobody reads").unwrap()
}

fn opening() -> &'static str {
    "Hi, this is the Larkspur Woodshop assistant. What would you like to make?"
}
