//! The race against the deadline and what follows a lost one (03 sections 7 and 8).

use std::fs;

use serde_json::{Value, json};

use crate::app::{CONTACT, LOST, Setup, TestApp};
use crate::quoting_server::QuotingServer;
use crate::stub_manychat::SET_FIELD;
use crate::stub_model::SLOWLY;
use crate::tokens::{Stage, recalled};

/// Replies wait in the outbox as they were written: nobody delivers.
fn undelivered() -> Setup {
    Setup::default().command(&["serve", "--no-workers"])
}

/// The texts of the contact's replies in the outbox, in order of writing.
async fn queued(app: &TestApp) -> Vec<String> {
    let rows = app.rows("select payload from outbox where kind = 'reply' order by created_at").await;
    rows.iter().map(|row| row["payload"]["messages"][0].as_str().unwrap().to_owned()).collect()
}

/// AC-CH-12, PRIN-C7, RACE-5, RACE-6, BOX-4, DEL-7: the holding line at the deadline; later one row with the model's text, which
/// is what ManyChat gets, and an agent turn with model and usage.
#[tokio::test]
async fn a_late_reply_is_queued_and_recorded_as_deferred() {
    let setup = Setup::default().env("RACE_DEADLINE_MS", LOST);
    let stage = Stage::with(false, setup).await;
    let answer = stage.app.send("how much is it? take it slowly").await;
    assert_eq!(answer.texts(), [stage.app.copy("acknowledgement")]);
    assert!(answer.elapsed < SLOWLY, "the model was waited for: {:?}", answer.elapsed);
    stage.app.await_rows("select 1 from outbox where kind = 'reply' and status = 'delivered'").await;
    let texts = queued(&stage.app).await;
    let [text] = &texts[..] else { panic!("one row: {texts:?}") };
    let said =
        stage.app.rows("select outcome, text, model, input_tokens from turns where role = 'agent'").await;
    let wanted = json!({"outcome": "deferred", "text": text, "model": "openai:stub", "input_tokens": 10});
    assert_eq!(said, [wanted]);
    let written = stage.manychat.calls_to(SET_FIELD);
    assert!(written.iter().any(|call| call.body["field_value"] == **text), "{written:?}");
}

/// RACE-8, RACE-9, AC-CH-14, FAIL-16: a provider that refuses, and one whose answer is no reply, end in time as a handoff in a 200,
/// recorded `error` without usage.
#[tokio::test]
async fn a_model_that_fails_at_once_is_a_handoff() {
    let model = QuotingServer::start(&[400, 200], "");
    let setup = Setup::default().env("AGENT_MODEL", "openai:stub").env("OPENAI_API_KEY", "key-of-the-model");
    let app = setup.env("OPENAI_BASE_URL", format!("{}/v1", model.url())).start().await;
    for contact in ["71", "72"] {
        let answer = app.send_as(contact, "how much is it?").await;
        assert_eq!((answer.status, answer.texts()), (200, vec![app.copy("escalation")]), "{contact}");
    }
    let said = app.rows("select outcome, text, input_tokens from turns where role = 'agent'").await;
    let wanted = json!({"outcome": "error", "text": app.copy("escalation"), "input_tokens": null});
    assert_eq!(said, [wanted.clone(), wanted]);
    let marked =
        app.rows("select id from conversations where escalated_at is not null order by created_at").await;
    let lines = app.log_lines("model call failed", 2).await;
    let named: Vec<Value> = lines.iter().map(|line| json!({"id": line["conversation"]})).collect();
    assert_eq!(named, marked);
    assert!(lines.iter().all(|line| line["level"] == 50), "{lines:?}");
    assert_eq!(app.rows("select 1 from outbox where kind = 'reply'").await.len(), 0);
}

/// AC-CH-18, LANE-1, ORD-1, TURN-13: the second message's history ends with the reply to the first; the model repeats the code
/// words it was shown, and a reply repeats those of its own history.
#[tokio::test]
async fn the_next_turn_knows_the_reply_before_it() {
    let stage = Stage::with(false, Setup::default()).await;
    stage.app.send("keep zqone in mind").await;
    let first = stage.app.send_later(CONTACT, "keep zqtwo in mind, slowly");
    stage.app.await_rows("select 1 from turns where text like '%zqtwo%'").await;
    let second = stage.app.send("what have I told you?").await;
    assert_eq!(recalled(&first.await.unwrap()), ["zqone"]);
    assert_eq!(recalled(&second), ["zqone", "zqtwo", "zqone"], "the last one stands in the first reply");
    let roles: Vec<_> = stage.app.turns().await.iter().map(|turn| turn["role"].clone()).collect();
    assert_eq!(roles, ["user", "agent"].repeat(3));
}

/// AC-CH-19, RACE-2, LANE-4, LANE-10, BOX-3: the wait for the turn before counts against the deadline; the abort counts
/// from the start of the model's call; the later reply is due no earlier than the one before it.
#[tokio::test]
async fn a_message_behind_a_late_turn_is_later_still() {
    let setup = undelivered().env("RACE_DEADLINE_MS", LOST).env("MODEL_ABORT_MS", "8000");
    let stage = Stage::with(false, setup).await;
    let first = stage.app.send_later(CONTACT, "how much is it? slowly");
    stage.app.await_rows("select 1 from rs_owed").await;
    let second = stage.app.send("when does it start? slowly").await;
    assert_eq!(first.await.unwrap().texts(), [stage.app.copy("acknowledgement")]);
    assert_eq!((second.status, second.texts().len()), (200, 0), "its deadline passed while it waited");
    assert!(second.elapsed < SLOWLY, "it waited for the first: {:?}", second.elapsed);
    let due = "select next_attempt_at as due from outbox where kind = 'reply' order by created_at";
    stage.app.await_that(due, |rows| rows.len() == 2).await;
    let outcomes = stage.app.rows("select outcome from turns where role = 'agent'").await;
    // 5 s behind a wait of about as long: by its arrival it would have been aborted.
    assert_eq!(outcomes, [json!({"outcome": "deferred"}), json!({"outcome": "deferred"})]);
    let due = stage.app.rows(&format!("select bool_and(later) as ordered from (select due >= lag(due) over () as later from ({due}) d) l")).await;
    assert_eq!(due, [json!({"ordered": true})]);
}

/// AC-CH-20, LANE-6, LANE-7, BOX-3, BOX-4: whatever follows a queued reply is silent and due no earlier; a lost race
/// brings no holding line.
#[tokio::test]
async fn whatever_follows_a_queued_reply_goes_behind_it() {
    let setup = undelivered().env("RACE_DEADLINE_MS", LOST);
    let stage = Stage::with(false, setup).await;
    stage.app.send("how much is it? slowly").await;
    stage.app.await_rows("select 1 from outbox where kind = 'reply'").await;
    stage.app.run("update outbox set next_attempt_at = now() + interval '1 hour' where kind = 'reply'").await;
    let following = ["this is a scam", "begin larkspur chat", "when does it start?", "is it far? slowly"];
    for (index, text) in following.into_iter().enumerate() {
        let answer = stage.app.send(text).await;
        assert_eq!((answer.status, answer.texts().len()), (200, 0), "{text}");
        let behind =
            "select 1 from outbox where kind = 'reply' and next_attempt_at > now() + interval '59 minutes'";
        stage.app.await_that(behind, |rows| rows.len() == index + 2).await;
    }
    assert_eq!(queued(&stage.app).await.len(), 5);
    let outcomes = stage.app.rows("select outcome from turns where role = 'agent' order by seq").await;
    let outcomes: Vec<_> = outcomes.iter().map(|row| row["outcome"].as_str().unwrap()).collect();
    let wanted = ["deferred", "escalated_precheck", "answered_scripted", "answered_inline", "deferred"];
    assert_eq!(outcomes, wanted);
}

/// TURN-19, TCFG-5, RLD-8, RULE-2: a turn keeps the texts it began with, whatever is reloaded meanwhile.
#[tokio::test]
async fn a_running_turn_keeps_its_configuration() {
    let setup = Setup::default().env("AGENT_MODEL", "mock:slow").env("RACE_DEADLINE_MS", LOST);
    let app = setup.env("MODEL_ABORT_MS", "9000").start().await;
    let before = app.copy("escalation");
    assert_eq!(app.send("how much is it?").await.texts(), [app.copy("acknowledgement")]);
    let path = app.folder.path.join("config/rules.json");
    let mut rules: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    rules["messages"]["escalation"] = json!("A colleague will write to you.");
    fs::write(path, rules.to_string()).unwrap();
    app.signal(libc::SIGHUP);
    app.log_line("config reloaded").await;
    assert_eq!(app.turns().await.len(), 1, "the turn still runs");
    app.await_rows("select 1 from outbox where kind = 'reply'").await;
    assert_eq!(queued(&app).await, [before]);
    app.run("update outbox set status = 'delivered'").await;
    assert_eq!(app.send("this is a scam").await.texts(), ["A colleague will write to you."]);
}

/// LOG-7: what a guardrail changed is logged on both paths.
#[tokio::test]
async fn interventions_are_logged_on_both_paths() {
    let setup = Setup::default().env("RACE_DEADLINE_MS", LOST);
    let stage = Stage::with(false, setup).await;
    for _ in 0..2 {
        assert_eq!(stage.app.send("repeat yourself").await.texts().len(), 1);
    }
    let inline = stage.app.log_line("guardrails intervened").await;
    assert_eq!(inline.get("deferred"), None, "{inline}");
    let lost = stage.app.send("repeat yourself slowly").await;
    assert_eq!(lost.texts(), [stage.app.copy("acknowledgement")]);
    let late = stage.app.log_lines("guardrails intervened", 2).await.remove(1);
    assert_eq!((&late["deferred"], &late["conversation"]), (&json!(true), &inline["conversation"]));
    assert_eq!(late["interventions"], inline["interventions"]);
}

/// RUL-2: without the optional texts a file ends in the handoff, and a repeated reply is sent as it is.
#[tokio::test]
async fn optional_texts_may_be_absent() {
    let setup = Setup::default().rules(|rules| {
        let messages = rules["messages"].as_object_mut().unwrap();
        messages.remove("mediaFallback");
        messages.remove("closer");
    });
    let app = setup.start().await;
    let replies = [app.send("how much is it?").await.texts(), app.send("how much is it?").await.texts()];
    assert!(replies[0][0].contains("$450.00") && replies[0] == replies[1], "{replies:?}");
    let link = "https://manybot-files.s3.eu-central-1.amazonaws.com/1234/wa/2026/03/02/original_0a1b2c3d.ogg";
    assert_eq!(app.send(link).await.texts(), [app.copy("escalation")]);
}
