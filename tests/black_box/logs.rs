//! What the log says and what it never says.

use std::io::pipe;
use std::os::fd::AsRawFd;
use std::process::{Command, Stdio};

use serde_json::json;

use crate::app::{CONTACT, NOWHERE, SECRET, Setup, TestApp, binary, tenant_folder};

/// LOG-1, LOG-2, LOG-3, LOG-5, TURN-17, AC-CH-24, 02/AC-17: every line is JSON with a numeric level, lines of a turn name the
/// conversation, and nothing of the contact is in any of them.
#[tokio::test]
async fn nothing_of_the_contact_reaches_the_log() {
    let app = TestApp::start().await;
    let body = json!({
        "subscriber_id": "887766554433", "text": "I am Perpetua, +54 9 11 5555 0101, perpetua@example.org, scam?",
        "first_name": "Perpetua", "last_name": "Quince", "ai_token": "token-of-perpetua-0123456789", "locale": "en_GB",
    });
    app.post(&body.to_string(), Some(SECRET)).await;
    app.post("{\"subscriber_id\": \"887766554433\", \"text\": 5}", Some(SECRET)).await;
    app.post(&body.to_string(), Some("a-wrong-secret-of-some-length")).await;
    app.send_as("887766554433", "how much is it?").await;
    app.log_lines("turn complete", 2).await;
    let output = app.output();
    let parts = [
        "887766554433",
        "Perpetua",
        "perpetua",
        "Quince",
        "5555 0101",
        "token-of-perpetua",
        "a-wrong-secret",
        "how much",
        SECRET,
        CONTACT,
    ];
    for part in parts {
        assert!(!output.contains(part), "{part} in {output}");
    }
    let id = app.rows("select id from conversations").await[0]["id"].clone();
    for msg in ["turn complete", "turn escalated before model"] {
        let line = app.log_line(msg).await;
        assert_eq!((&line["conversation"], &line["level"]), (&id, &json!(30)), "{msg}");
    }
    let complete = app.log_line("turn complete").await;
    assert_eq!((&complete["outcome"], &complete["binding"]), (&json!("escalated_precheck"), &json!("first")));
    assert_eq!((&complete["escalated"], complete.get("silent")), (&json!(true), None));
    for line in output.lines() {
        let parsed: serde_json::Value =
            serde_json::from_str(line).unwrap_or_else(|_| panic!("not JSON: {line}"));
        assert!(
            parsed["level"].is_u64() && parsed["msg"].is_string() && parsed["time"].is_number(),
            "{line}"
        );
    }
}

/// HTTP-5: health checks leave no line.
#[tokio::test]
async fn health_checks_are_not_logged() {
    let app = TestApp::start().await;
    let before = app.output().lines().count();
    for path in ["/health", "/ready", "/health"] {
        assert_eq!(app.get(path).await.unwrap().status, 200);
    }
    assert_eq!(app.output().lines().count(), before);
}

/// LOG-1, OPS-2: a reader of the log that has stopped holds nobody up: hundreds of messages are answered, and the
/// process ends as always.
#[tokio::test]
async fn a_log_that_nobody_reads_holds_nobody_up() {
    let setup = Setup::default().env("RATE_LIMIT_PER_MINUTE", "100000");
    // Else the stop waits for hundreds of token writes in ManyChat's rate.
    let mut app = setup.env("MANYCHAT_CALLS_PER_SECOND", "1000").prepare().await;
    let (unread, log) = pipe().unwrap();
    // SAFETY: changes the size of a pipe of ours. Its least size is one page: a dozen lines.
    assert!(unsafe { libc::fcntl(log.as_raw_fd(), libc::F_SETPIPE_SZ, 4096) } >= 4096);
    app.spawn_into(log);
    app.await_ready().await;
    for group in 0..30 {
        let send =
            |number| app.send_later(&format!("6{group:02}{number}"), "how much is the foundation course?");
        for sent in [0, 1, 2, 3, 4, 5, 6, 7, 8, 9].map(send) {
            let answer = sent.await.unwrap();
            assert!(answer.texts()[0].contains("$450.00"), "{group}: {}", answer.body);
        }
    }
    assert_eq!(app.rows("select 1 from turns where role = 'agent'").await.len(), 300);
    assert_eq!(app.stop(libc::SIGTERM).await.code(), Some(0));
    drop(unread);
}

/// LOG-1: a log whose reader has gone costs its lines and nothing else.
#[tokio::test]
async fn a_log_whose_reader_has_gone_does_no_harm() {
    let mut app = Setup::default().prepare().await;
    let (reader, log) = pipe().unwrap();
    drop(reader);
    app.spawn_into(log);
    app.await_ready().await;
    for text in ["how much is the foundation course?", "this is a scam"] {
        assert_eq!(app.send(text).await.status, 200);
    }
    assert_eq!(app.stop(libc::SIGTERM).await.code(), Some(0));
    assert_eq!(app.output(), "", "nothing is said on standard error");
}

/// CLI-5, CLI-6: a command does its work and tells it by its exit code, whoever reads what it prints.
#[test]
fn commands_do_not_panic_when_nobody_reads() {
    let (folder, env) = tenant_folder(NOWHERE, None);
    for (words, code) in [
        (vec!["config", "check"], 0),
        (vec!["--help"], 0),
        (vec!["completions", "bash"], 0),
        (vec!["bootstrap"], 0),
        (vec!["frobnicate"], 2),
        (vec!["serve"], 1),
    ] {
        let closed = || {
            let (reader, writer) = pipe().unwrap();
            drop(reader);
            Stdio::from(writer)
        };
        let mut command = Command::new(binary());
        command.args(&words).env_clear().envs(&env).current_dir(&folder.path);
        let status = command.stdin(Stdio::null()).stdout(closed()).stderr(closed()).status().unwrap();
        assert_eq!(status.code(), Some(code), "{words:?}");
    }
}
