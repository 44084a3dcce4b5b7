//! What a contact reads, and what is recorded of it.

use serde_json::json;

use crate::app::{ABORTED, CONTACT, LOST, SECRET, Setup, TestApp, time_in_this_hour};

/// HTTP-20, OUT-1 to OUT-3, CHC-3, 01/AC-1, TURN-6, TURN-16, USE-7, BUD-3, DEC-3, W-13, W-14, QUIET-4
#[tokio::test]
async fn a_question_is_answered_inline_and_recorded() {
    let app = TestApp::start().await;
    let answer = app.send("how much is the foundation course?").await;
    assert_eq!(answer.status, 200);
    let block = answer.json();
    assert_eq!(block["version"], "v2");
    assert_eq!(block["content"]["type"], "whatsapp");
    let callback = &block["content"]["external_message_callback"];
    assert_eq!(callback["url"], "https://agent.test.example/v1/channels/manychat/message");
    assert_eq!(callback["headers"]["Authorization"], format!("Bearer {SECRET}"));
    assert_eq!(callback["timeout"], 86400);
    let [text] = &answer.texts()[..] else { panic!("WhatsApp delivers one text") };
    assert!(text.starts_with("The Foundation Course is $450.00.\n\n"), "{text}");

    let turns = app.turns().await;
    assert_eq!(turns.len(), 2);
    assert_eq!((&turns[0]["role"], &turns[0]["bound"]), (&json!("user"), &json!(true)));
    assert_eq!(turns[0]["text"], "how much is the foundation course?");
    assert_eq!((&turns[1]["role"], &turns[1]["outcome"]), (&json!("agent"), &json!("answered_inline")));
    assert_eq!(turns[1]["text"].as_str().unwrap().replace('\n', "\n\n"), *text);
    assert_eq!(turns[1]["actions"], json!(null), "no tool is offered (DB-11)");
    let spent = app.await_rows("select tokens, cost_usd from budget_counters").await;
    assert_eq!(spent, [json!({"tokens": 1260, "cost_usd": 0.003})]);
}

/// CONV-1, CONV-4, 02/HISTW-1: one conversation, counted, with the earlier turns in order.
#[tokio::test]
async fn later_messages_join_the_same_conversation() {
    let app = TestApp::start().await;
    for text in ["hello", "how much is it?", "thanks"] {
        assert_eq!(app.send(text).await.status, 200);
    }
    assert_eq!(app.rows("select turn_count from conversations").await, [json!({"turn_count": 3})]);
    let roles: Vec<_> = app.turns().await.iter().map(|turn| turn["role"].clone()).collect();
    assert_eq!(roles, ["user", "agent", "user", "agent", "user", "agent"]);
}

/// LANE-1, LANE-2, 02/AC-5, DEC-5: messages that arrive together are counted without a race, and recorded in the
/// order in which they are answered.
#[tokio::test]
async fn concurrent_messages_of_a_contact_take_turns() {
    let app = Setup::default().rules(|rules| rules["burst"] = json!({"answerTogether": false})).start().await;
    let sent: Vec<_> =
        (0..5).map(|number| app.send_later(CONTACT, &format!("how much is it? {number}"))).collect();
    for request in sent {
        assert_eq!(request.await.unwrap().texts().len(), 1);
    }
    assert_eq!(app.rows("select turn_count from conversations").await, [json!({"turn_count": 5})]);
    let roles: Vec<_> = app.turns().await.iter().map(|turn| turn["role"].clone()).collect();
    assert_eq!(roles, ["user", "agent"].repeat(5));
}

/// DEC-5, DEC-23: what waits behind a running turn is one turn; the last request gets the reply, the others silence.
#[tokio::test]
async fn messages_behind_a_running_turn_are_answered_together() {
    let app = TestApp::start().await;
    app.send("hello").await;
    hold_lane(&app).await;
    let mut sent = Vec::new();
    for (index, text) in ["how much", "is the", "foundation course?"].into_iter().enumerate() {
        sent.push(app.send_later(CONTACT, text));
        app.await_that("select 1 from rs_inbox", |rows| rows.len() == index + 1).await;
    }
    free_lane(&app).await;
    let mut texts = Vec::new();
    for answer in sent {
        texts.push(answer.await.unwrap().texts().len());
    }
    assert_eq!(texts, [0, 0, 1], "the last message of the burst gets the reply");
    let turns = app.turns().await;
    let shape: Vec<_> = turns.iter().map(|turn| turn["role"].as_str().unwrap()).collect();
    assert_eq!(shape, ["user", "agent", "user", "user", "user", "agent"]);
    assert_eq!(app.rows("select turn_count from conversations").await, [json!({"turn_count": 4})]);
}

/// Another living process holds the contact's lane.
pub async fn hold_lane(app: &TestApp) {
    app.run(
        "insert into rs_processes (id, tenant_id, beat_at)
           values ('00000000-0000-4000-8000-000000000001', 'test', now() + interval '1 hour');
         update rs_lanes set process_id = '00000000-0000-4000-8000-000000000001', turn_id = gen_random_uuid(),
           expires_at = now() + interval '1 hour'",
    )
    .await;
}

pub async fn free_lane(app: &TestApp) {
    app.run("update rs_lanes set process_id = null, turn_id = null, expires_at = null").await;
}

/// OPEN-1 to OPEN-6, 02/AC-12, TURN-9, RUL-5, W-7
#[tokio::test]
async fn the_scripted_opening_answers_without_the_model() {
    let app = TestApp::start().await;
    let answer = app.send("  Begin LARKSPUR chat\n").await;
    assert_eq!(answer.texts(), ["Hi, this is the Larkspur Woodshop assistant. What would you like to make?"]);
    let agent = &app.turns().await[1];
    assert_eq!((&agent["outcome"], &agent["model"]), (&json!("answered_scripted"), &json!(null)));
    assert_eq!(app.rows("select count from rate_counters").await, [] as [serde_json::Value; 0], "OPEN-2");
    assert_eq!(app.log_line("scripted opening sent").await["level"], 30);
}

/// GRD-2, GRD-3, TURN-11, TURN-12, RUL-5, ESCS-1, DEC-25, 02/AC-11, W-8, W-9
#[tokio::test]
async fn a_keyword_hands_off_and_opens_a_handoff() {
    let app = TestApp::start().await;
    let answer = app.send("This is a SCAM, I want my money").await;
    assert_eq!(answer.texts(), [app.copy("escalation")]);
    let agent = &app.turns().await[1];
    assert_eq!(
        (&agent["outcome"], &agent["text"]),
        (&json!("escalated_precheck"), &json!(app.copy("escalation")))
    );
    let marked = app.rows("select escalated_at is not null as marked from conversations").await;
    assert_eq!(marked, [json!({"marked": true})]);
    assert_eq!(
        app.rows("select reason, closed_at from rs_handoffs").await,
        [json!({"reason": "explicit_request", "closed_at": null})]
    );
    assert_eq!(app.rows("select count from rate_counters").await, [json!({"count": 1})]);
    app.await_that("select 1 from rs_owed", <[_]>::is_empty).await;
    assert_eq!(app.rows("select tokens from budget_counters").await, [] as [serde_json::Value; 0], "BUD-5");
}

/// 02/CAP-1, 02/CAP-2, 02/AC-1, 02/AC-2, QUIET-1
#[tokio::test]
async fn the_turn_cap_hands_off_until_a_gap() {
    let app = Setup::default().rules(|rules| rules["maxTurnsPerConversation"] = json!(2)).start().await;
    for text in ["how much is it?", "when does it start?"] {
        assert_ne!(app.send(text).await.texts(), [app.copy("escalation")]);
    }
    assert_eq!(app.send("is there a certificate?").await.texts(), [app.copy("escalation")]);
    app.run("update conversations set last_message_at = now() - interval '25 hours'").await;
    assert!(app.send("is there a certificate?").await.texts()[0].contains("certificate"));
    assert_eq!(app.rows("select turn_count from conversations").await, [json!({"turn_count": 1})]);
}

/// BUD-2, ESC-3, ESC-6, 02/AC-10, ARC-33: the budget guard counts the day's spend, that of unconfirmed replies included.
#[tokio::test]
async fn unconfirmed_spend_counts_against_the_daily_budget() {
    let app = Setup::default()
        .rules(|rules| rules["budget"] = json!({"dailyTokenCap": 2000, "dailyCostCapUsd": 5}))
        .start()
        .await;
    time_in_this_hour().await;
    assert!(app.send("how much is it?").await.texts()[0].contains("$450.00"));
    app.await_rows("select 1 from budget_counters where tokens = 1260").await;
    app.run(
        "insert into rs_owed (turn_id, conversation_id, tenant_id, process_id, status, binding, user_turn_ids,
                              received_at, tokens, charged)
         select gen_random_uuid(), id, 'test', gen_random_uuid(), 'said', 'first', '{}', now(), 740, true
         from conversations",
    )
    .await;
    assert_eq!(app.send_as("2", "how much is it?").await.texts(), [app.copy("escalation")]);
    let line = app.log_line("turn escalated before model").await;
    assert_eq!((&line["reason"], &line["detail"]), (&json!("out_of_scope"), &json!("daily token cap")));
}

/// TOK-10, TOK-12, TOK-13, CAP-4, 02/AC-13, ESCS-2, FAIL-14: without the token a caller reads nothing and changes
/// nothing of the contact.
#[tokio::test]
async fn an_unbound_request_neither_reads_nor_changes_the_contact() {
    let app = Setup::default().env("CONTACT_TOKENS_ENFORCED", "true").start().await;
    app.send("hello").await;
    app.run(&format!(
        "update conversations set token_hash = '{}', last_message_at = '2026-01-01',
           token_issued_at = now() - interval '1 minute'",
        manychat_agent::turn::digest("right")
    ))
    .await;
    hold_lane(&app).await;
    let answer = app.send("this is a scam").await;
    assert_eq!(answer.texts(), [app.copy("escalation")], "it is answered beside the held lane");
    let state =
        "select turn_count, escalated_at, last_message_at = '2026-01-01' as untouched from conversations";
    assert_eq!(app.rows(state).await, [json!({"turn_count": 1, "escalated_at": null, "untouched": true})]);
    let bound: Vec<_> = app.turns().await.iter().map(|turn| turn["bound"].clone()).collect();
    assert_eq!(bound, [true, true, false, false]);
    assert_eq!(app.rows("select 1 from rs_handoffs").await.len(), 0);
    assert_eq!(app.log_line("unbound turn").await["enforced"], true);
    free_lane(&app).await;
    let body = json!({"subscriber_id": CONTACT, "text": "hello", "ai_token": "right"}).to_string();
    assert_eq!(app.post(&body, Some(SECRET)).await.status, 200);
    assert_eq!(
        app.rows("select turn_count from conversations").await,
        [json!({"turn_count": 1})],
        "an idle gap"
    );
    assert_eq!(app.turns().await.last().unwrap()["bound"], true);
}

/// 03 section 6.2, WRITE-1, IN-3: a file nobody can read yet gets the tenant's text, and its address stays nowhere.
#[tokio::test]
async fn unreadable_media_gets_the_tenants_text() {
    let app = TestApp::start().await;
    let link = "https://manybot-files.s3.eu-central-1.amazonaws.com/1234/wa/2026/03/02/original_0a1b2c3d.ogg";
    assert_eq!(app.send(link).await.texts(), [app.copy("mediaFallback")]);
    let turns = app.turns().await;
    assert_eq!((&turns[0]["text"], &turns[0]["media_kind"]), (&json!("[voice note]"), &json!("audio")));
    assert_eq!(turns[1]["outcome"], "media_fallback");
    assert!(!app.output().contains("manybot-files"));
}

/// LANG-4, PRIN-C9, RUL-2: everything a contact reads comes from the tenant's files.
#[tokio::test]
async fn a_tenant_in_another_language_produces_no_english() {
    let app = Setup::default()
        .rules(|rules| {
            rules["messages"] = json!({
                "acknowledgement": "Tavo minuti.", "escalation": "Kolegulo al vi respondas.",
                "mediaFallback": "Bonvolu skribi.", "closer": "Gis venonta fojo."
            });
            rules["openingTrigger"] = json!({"keywords": ["salo"], "message": "Bonvenon al ni."});
        })
        .start()
        .await;
    let link = "https://manybot-files.s3.eu-central-1.amazonaws.com/1234/wa/2026/03/02/original_0a1b2c3d.ogg";
    assert_eq!(app.send("scam").await.texts(), ["Kolegulo al vi respondas."]);
    assert_eq!(app.send("Salo").await.texts(), ["Bonvenon al ni."]);
    assert_eq!(app.send(link).await.texts(), ["Bonvolu skribi."]);
    let twice = "how much is the course?";
    app.send(twice).await;
    assert_eq!(app.send(twice).await.texts(), ["Gis venonta fojo."], "a repetition");
}

/// RACE-5, RACE-6, RACE-7, RACE-14, AC-CH-13, TURN-15, FAIL-9 as FAIL-12 decides it, LIM-9, GAP-CH-1, DEC-19: a model that does not end leaves the
/// holding line, then, at the abort, a person.
#[tokio::test]
async fn a_model_that_never_ends_is_handed_to_a_person() {
    let app = Setup::default()
        .env("AGENT_MODEL", "mock:slow")
        .env("RACE_DEADLINE_MS", LOST)
        .env("MODEL_ABORT_MS", ABORTED)
        .start()
        .await;
    let answer = app.send("how much is it?").await;
    assert_eq!(answer.texts(), [app.copy("acknowledgement")]);
    assert_eq!(app.turns().await.len(), 1, "the model is still at work");
    let queued = app.await_rows("select kind, status, payload from outbox where kind = 'reply'").await;
    assert_eq!(queued[0]["payload"], json!({"messages": [app.copy("escalation")]}));
    // The worker may have it in hand already: without an API token it keeps trying.
    assert_eq!(queued[0]["kind"], "reply");
    assert!(["pending", "delivering"].contains(&queued[0]["status"].as_str().unwrap()), "{queued:?}");
    let agent = &app.turns().await[1];
    assert_eq!((&agent["outcome"], &agent["text"]), (&json!("error"), &json!(app.copy("escalation"))));
    assert_eq!(app.rows("select reason from rs_handoffs").await, [json!({"reason": "low_confidence"})]);
    let line = app.log_line("deferred model call failed").await;
    let id = app.rows("select id from conversations").await[0]["id"].clone();
    assert_eq!((&line["level"], &line["conversation"]), (&json!(50), &id));
    app.await_that("select 1 from rs_owed", <[_]>::is_empty).await;
}

/// LANE-4, LANE-6, ORD-3, ARC-45: a message whose lane another process holds is answered silently at its deadline, runs
/// when the lane is free, and is delivered through the outbox.
#[tokio::test]
async fn a_message_behind_another_process_runs_late() {
    let app = Setup::default().env("RACE_DEADLINE_MS", LOST).start().await;
    app.send("hello").await;
    hold_lane(&app).await;
    let answer = app.send("how much is it?").await;
    assert_eq!((answer.status, answer.texts().len()), (200, 0));
    assert_eq!(app.turns().await.len(), 2, "nothing is recorded beside the held lane");
    free_lane(&app).await;
    let queued = app.await_rows("select payload from outbox where kind = 'reply'").await;
    assert!(queued[0]["payload"]["messages"][0].as_str().unwrap().contains("$450.00"), "{queued:?}");
    assert_eq!(app.turns().await[3]["outcome"], "deferred");
    let next = app.send("when is it?").await;
    assert_eq!(next.texts().len(), 0, "behind a queued reply (LANE-6)");
    app.await_that("select 1 from outbox where kind = 'reply'", |rows| rows.len() == 2).await;
    assert_eq!(app.log_line("reply queued behind the previous one").await["path"], "outbox");
}
