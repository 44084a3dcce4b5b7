//! Turns whose first flight fails: late, at a stop, for a caller who is gone, for a message that proves nothing.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::app::{ABORTED, CONTACT, LOST, PATIENCE, SECRET, Setup, TestApp};

/// Refuses the user's row only, as no constraint of ours would.
const REFUSE: &str = "alter table turns add constraint no_user check (role <> 'user') not valid";
const ALLOW: &str = "alter table turns drop constraint no_user";
const COPIES: &str = "select payload from outbox where kind = 'reply'";
const MARKED: &str = "select 1 from conversations where escalated_at is not null";

/// A turn runs for about 9 s, and a second message waits behind it, answered silently.
async fn with_a_message_that_waits() -> TestApp {
    let setup = Setup::default().env("AGENT_MODEL", "mock:slow").env("RACE_DEADLINE_MS", LOST);
    let app = setup.env("MODEL_ABORT_MS", "9000").start().await;
    let first = app.send_later(CONTACT, "how much is it?");
    app.await_rows("select 1 from rs_owed where status = 'running'").await;
    assert_eq!(app.send("second").await.texts(), [] as [String; 0], "it waits");
    assert_eq!(first.await.unwrap().texts(), [app.copy("acknowledgement")]);
    app
}

/// LANE-9, AC-CH-22, GAP-CH-1, ARC-40: a late turn whose Open is refused ends with a person at once.
#[tokio::test]
async fn a_late_turn_that_cannot_be_opened_ends_with_a_person() {
    let app = with_a_message_that_waits().await;
    app.run(REFUSE).await;
    let line = app.log_line("waiting turn failed").await;
    assert!(line["conversation"].is_string() && line["err"].as_str().unwrap().contains("23514"), "{line}");
    app.await_that(COPIES, |rows| rows.len() == 2).await;
    assert_eq!(app.rows(MARKED).await.len(), 1);
    assert_eq!(app.rows("select 1 from rs_handoffs").await.len(), 2);
    assert_eq!(app.rows("select 1 from rs_inbox union all select 1 from rs_owed").await.len(), 0);
}

/// LANE-9, OPS-5, ARC-49: an orderly stop hands off what the database has not taken before it ends. LOG-1: meanwhile its
/// tries are told now and then, not each.
#[tokio::test]
async fn a_stop_does_not_lose_a_message_that_cannot_be_opened() {
    let mut app = with_a_message_that_waits().await;
    app.run(&format!("{REFUSE}; alter table rs_handoffs rename to rs_handoffs_away")).await;
    let told = app.log_lines("waiting turn handoff not queued", 2).await;
    let times: Vec<i64> = told.iter().filter_map(|line| line["time"].as_i64()).collect();
    assert!(times[1] - times[0] >= 4900, "one line in five seconds: {times:?}");
    app.signal(libc::SIGTERM);
    app.log_line("shutting down").await;
    app.run(&format!("{ALLOW}; alter table rs_handoffs_away rename to rs_handoffs")).await;
    let started = Instant::now();
    while app.exited().is_none() {
        assert!(started.elapsed() < PATIENCE, "{}", app.output());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(app.rows(COPIES).await.len(), 2, "{}", app.output());
    assert_eq!((app.rows(MARKED).await.len(), app.rows("select 1 from rs_handoffs").await.len()), (1, 2));
    assert!(!app.output().contains("another process takes"), "nothing is left over");
}

/// ESCS-2, TURN-12, TOK-13, DEC-25: a forged message that cannot be opened marks nobody and calls nobody.
#[tokio::test]
async fn a_forged_message_that_cannot_be_opened_calls_nobody() {
    let app = Setup::default().env("CONTACT_TOKENS_ENFORCED", "true").start().await;
    app.run(&format!(
        "insert into conversations (tenant_id, subscriber_id, channel, last_message_at, token_hash,
                                    token_generation, token_issued_at)
         values ('test', '{CONTACT}', 'whatsapp', now(), encode(sha256('right'), 'hex'), 3, now()); {REFUSE}"
    ))
    .await;
    let said = |token: &str| {
        json!({"subscriber_id": CONTACT, "text": "how much is it?", "ai_token": token}).to_string()
    };
    assert_eq!(app.post(&said("wrong"), Some(SECRET)).await.texts(), [app.copy("escalation")]);
    app.log_line("waiting turn failed").await;
    assert_eq!(app.rows(MARKED).await.len() + app.rows("select 1 from rs_handoffs").await.len(), 0);
    assert_eq!(app.post(&said("right"), Some(SECRET)).await.texts(), [app.copy("escalation")]);
    app.log_lines("waiting turn failed", 2).await;
    assert_eq!((app.rows(MARKED).await.len(), app.rows("select 1 from rs_handoffs").await.len()), (1, 1));
    assert_eq!(app.rows(COPIES).await, [] as [Value; 0], "the contact has read it");
}

/// ARC-32, ARC-40, GAP-CH-7: the escalation copy for a caller who hung up goes through the outbox.
#[tokio::test]
async fn a_handoff_for_a_caller_who_is_gone_goes_through_the_outbox() {
    let app = TestApp::start().await;
    app.send("hello").await;
    app.await_that("select 1 from rs_owed", <[_]>::is_empty).await;
    app.run(&format!("{REFUSE}; begin; lock table turns in exclusive mode")).await;
    let request = app.raw_request("how much is it?");
    // Open stands before the lock when its conversation is locked by it.
    app.await_rows("select 1 from pg_locks where relation = 'turns'::regclass and not granted").await;
    drop(request);
    tokio::time::sleep(Duration::from_millis(100)).await;
    app.run("commit").await;
    let queued = app.await_rows(COPIES).await;
    assert_eq!(queued, [json!({"payload": {"messages": [app.copy("escalation")]}})]);
    assert_eq!(app.rows(MARKED).await.len(), 1);
}

/// LANE-4: a message that waits for a turn of another process says so in the log, with its conversation.
#[tokio::test]
async fn waiting_for_another_process_is_logged() {
    let app = Setup::default().env("RACE_DEADLINE_MS", LOST).start().await;
    app.send("hello").await;
    for _ in 0..3 {
        crate::answers::hold_lane(&app).await;
        assert_eq!(app.send("how much is it?").await.texts(), [] as [String; 0]);
        crate::answers::free_lane(&app).await;
        app.run("delete from rs_processes where beat_at > now() + interval '1 minute'").await;
        app.await_that("select 1 from rs_inbox", <[_]>::is_empty).await;
    }
    let lines = app.log_lines("turn waits for the previous one", 3).await;
    assert!(lines.len() == 3 && lines.iter().all(|line| line["conversation"].is_string()), "{lines:?}");
}

/// LANE-3, AC-CH-21, ORD-2: messages that prove nothing, however many, neither delay the contact nor use up the bound of
/// the contact's own.
#[tokio::test]
async fn forged_messages_neither_delay_nor_shed_the_contacts() {
    let setup = Setup::default().env("AGENT_MODEL", "mock:slow").env("CONTACT_TOKENS_ENFORCED", "true");
    let app = setup.env("RACE_DEADLINE_MS", "5000").env("MODEL_ABORT_MS", "9000").start().await;
    app.run(&format!(
        "insert into conversations (tenant_id, subscriber_id, channel, last_message_at, token_hash,
                                    token_generation, token_issued_at)
         values ('test', '{CONTACT}', 'whatsapp', now(), encode(sha256('right'), 'hex'), 3, now())"
    ))
    .await;
    let said = |text: &str, token: &str| {
        json!({"subscriber_id": CONTACT, "text": text, "ai_token": token}).to_string()
    };
    let forged: Vec<_> = (0..22)
        .map(|number| {
            let body = said(&format!("how much is number {number}?"), &format!("wrong-{number}"));
            tokio::spawn(crate::app::post(app.port, body, Some(SECRET)))
        })
        .collect();
    app.await_rows("select 1 from rs_owed where fence is null").await;
    let answer = app.post(&said("this is a scam", "right"), Some(SECRET)).await;
    assert_eq!((answer.status, answer.texts()), (200, vec![app.copy("escalation")]), "before its deadline");
    let shape = app.rows("select outcome from turns where role = 'agent' and bound").await;
    assert_eq!(shape, [json!({"outcome": "escalated_precheck"})], "it was not shed");
    for answer in forged {
        assert_eq!(answer.await.unwrap().status, 200);
    }
    assert_eq!(app.logs("load shed").len(), 0);
}

/// DEC-19, GAP-CH-1: an aborted call is recorded with the model's name and the time it took, and ends with a person.
#[tokio::test]
async fn an_aborted_call_names_its_model_and_time() {
    let setup = Setup::default().env("AGENT_MODEL", "mock:slow").env("RACE_DEADLINE_MS", LOST);
    let app = setup.env("MODEL_ABORT_MS", ABORTED).start().await;
    app.send("how much is it?").await;
    let query = "select outcome, model, latency_ms >= 5000 as timed, input_tokens, cost_usd
                 from turns where role = 'agent'";
    let wanted = json!({"outcome": "error", "model": "mock:slow", "timed": true, "input_tokens": null,
                        "cost_usd": null});
    assert_eq!(app.await_rows(query).await, [wanted]);
    let queued = app.rows(COPIES).await;
    assert_eq!(queued, [json!({"payload": {"messages": [app.copy("escalation")]}})]);
    assert_eq!((app.rows(MARKED).await.len(), app.rows("select 1 from rs_handoffs").await.len()), (1, 1));
}

/// LANE-9, ARC-40, ARC-45a: nobody knows what became of the flight, but the message still stands in the inbox: it is
/// ended at once, and a flight that is still on its way finds it gone.
#[tokio::test]
async fn a_late_turn_in_doubt_ends_with_a_person_at_once() {
    let app = with_a_message_that_waits().await;
    app.run(
        "create function lose() returns trigger language plpgsql as $$
           begin raise exception 'lost' using errcode = '57P01'; end $$;
         create trigger lose before insert on turns for each row when (new.role = 'user') execute function lose()",
    )
    .await;
    app.log_line("waiting turn failed").await;
    app.await_that(COPIES, |rows| rows.len() == 2).await;
    assert_eq!(app.rows("select 1 from rs_handoffs").await.len(), 2);
    assert_eq!(app.rows("select 1 from rs_inbox union all select 1 from rs_owed").await.len(), 0);
}

/// LOG-5, MEDIA-635: the line about a file that cannot be read names its kind, and never its link.
#[tokio::test]
async fn a_media_fallback_names_the_kind_of_file() {
    let app = TestApp::start().await;
    let link = "https://manybot-files.s3.eu-central-1.amazonaws.com/1/wa/2026/01/02/original_ab12.ogg";
    assert_eq!(app.send(link).await.status, 200);
    let line = app.log_line("media fallback").await;
    assert_eq!((&line["media"], line["conversation"].is_string()), (&json!("audio"), true), "{line}");
    assert!(!app.output().contains("original_ab12"));
}
