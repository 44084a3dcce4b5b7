//! Two processes on one database: order per contact, and who waits for whom.

use serde_json::json;

use crate::answers::{free_lane, hold_lane};
use crate::app::{CONTACT, SECRET, Setup, TestApp};

/// PROC-4, GAP-CH-4, GAP-DB-6, ARC-45a, DEC-5, DEC-8: messages that alternate between two processes are recorded and answered in the order in which
/// they came; those of one process are not merged across the other's.
#[tokio::test]
async fn alternating_messages_keep_their_order() {
    let first = TestApp::start().await;
    let second = first.second_process().await;
    first.send("hello").await;
    hold_lane(&first).await;
    let mut answers = Vec::new();
    let words = ["one", "two", "three", "four", "five"];
    for (index, text) in words.iter().enumerate() {
        let app = if index % 2 == 0 { &first } else { &second };
        answers.push(app.send_later(CONTACT, text));
        first.await_that("select 1 from rs_inbox", |rows| rows.len() == index + 1).await;
    }
    free_lane(&first).await;
    for answer in answers {
        // Without a text where the reply before it was not known to be out yet: it goes behind that one (ARC-47).
        assert_eq!(answer.await.unwrap().status, 200);
    }
    let turns = first.turns().await;
    let said: Vec<&str> =
        turns.iter().skip(2).step_by(2).map(|turn| turn["text"].as_str().unwrap()).collect();
    assert_eq!(said, words, "{turns:?}");
    assert!(turns.iter().skip(1).step_by(2).all(|turn| turn["role"] == "agent"), "{turns:?}");
    assert_eq!(turns.len(), 12, "each is answered by itself: {turns:?}");
    assert_eq!(first.rows("select 1 from rs_inbox").await.len(), 0);
}

/// TURN-1, LANE-3, AC-CH-21: a message that proves nothing waits for nobody, whoever runs the contact's turn, and holds nobody
/// up.
#[tokio::test]
async fn an_unbound_message_runs_beside_the_contacts_turn() {
    let setup = Setup::default().env("AGENT_MODEL", "mock:slow").env("CONTACT_TOKENS_ENFORCED", "true");
    let app = setup.env("RACE_DEADLINE_MS", "8000").start().await;
    // The SHA-256 of the token `right`.
    app.run(&format!(
        "insert into conversations (tenant_id, subscriber_id, channel, turn_count, last_message_at, token_hash)
         values ('test', '{CONTACT}', 'whatsapp', 0, now(), encode(sha256('right'), 'hex'))"
    ))
    .await;
    let body = |text: &str, token: &str| {
        json!({"subscriber_id": CONTACT, "text": text, "ai_token": token}).to_string()
    };
    let running = body("how much is it?", "right");
    let (port, running) = (app.port, running);
    let bound = tokio::spawn(crate::app::post(port, running, Some(SECRET)));
    app.await_rows("select 1 from rs_owed where fence is not null").await;
    let forged = app.post(&body("this is a scam", "wrong"), Some(SECRET)).await;
    assert_eq!(forged.texts(), [app.copy("escalation")], "a keyword, answered without the model");
    assert!(!bound.is_finished(), "the bound turn still runs");
    assert_eq!(app.rows("select 1 from rs_inbox").await.len(), 0, "it never entered the inbox");
    assert_eq!(bound.await.unwrap().texts(), [app.copy("acknowledgement")]);
}
