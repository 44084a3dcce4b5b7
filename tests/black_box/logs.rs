//! What the log says and what it never says.

use serde_json::json;

use crate::app::{CONTACT, SECRET, TestApp};

/// LOG-1, LOG-2, LOG-5, TURN-17, AC-CH-24, 02/AC-17: every line is JSON with a numeric level, lines of a turn name the
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
