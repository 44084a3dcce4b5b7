//! The door as a whole: which requests need what, what a response may hold, what is written beside it (03, 06).

use manychat_agent::http::MESSAGE_PATH;
use reqwest::Method;
use serde_json::{Value, json};

use crate::app::{CONTACT, LOST, SECRET, Setup, TestApp, time_in_this_hour};
use crate::tokens::Stage;

fn message(text: &str, token: Option<&str>) -> String {
    json!({ "subscriber_id": CONTACT, "text": text, "ai_token": token }).to_string()
}

fn keys(value: &Value) -> Vec<&str> {
    let mut keys: Vec<&str> = value.as_object().unwrap().keys().map(String::as_str).collect();
    keys.sort_unstable();
    keys
}

/// HTTP-1, HTTP-9, AUTH-5: one business endpoint; entries and callbacks need the secret alike; no other channel has a
/// route.
#[tokio::test]
async fn entries_and_callbacks_need_the_secret_alike() {
    let app = TestApp::start().await;
    for body in [message("hello", None), message("hello", Some("x"))] {
        assert_eq!(app.post(&body, None).await.status, 401);
        assert_eq!(app.post(&body, Some(SECRET)).await.status, 200);
    }
    for path in ["/v1/channels/push/message", "/v1/channels/manychat", "/v1/channels/manychat/message/"] {
        let answer = app
            .ask(Method::POST, path, |request| {
                request
                    .bearer_auth(SECRET)
                    .header("Content-Type", "application/json")
                    .body(message("hello", None))
            })
            .await;
        assert_eq!(answer.status, 404, "{path}");
    }
    for method in [Method::PUT, Method::GET, Method::DELETE, Method::PATCH, Method::OPTIONS] {
        assert_eq!(
            app.ask(method.clone(), MESSAGE_PATH, |request| request.bearer_auth(SECRET)).await.status,
            404,
            "{method}"
        );
    }
    for path in ["/health", "/ready"] {
        let answer = app.ask(Method::HEAD, path, |request| request).await;
        assert_eq!((answer.status, answer.body.as_str()), (200, ""), "HTTP-6: {path}");
    }
}

/// HTTP-21, OUT-1, OUT-6, OUT-9, AC-CH-9, AC-CH-11, ERR-1, HTTP-31: whatever became of a turn, the response holds the
/// block's own keys, the callback with its placeholders, and nothing of outcome, confidence or reason.
#[tokio::test]
async fn a_response_holds_the_block_and_nothing_else() {
    let app = Setup::default().env("RATE_LIMIT_PER_MINUTE", "6").start().await;
    let mut answers = Vec::new();
    for text in ["how much is the foundation course?", "a scam! refund!", "begin larkspur chat", "[sticker]"]
    {
        answers.push(app.send(text).await);
    }
    app.run("alter table turns rename to turns_away").await;
    answers.push(app.send("how much is it?").await);
    app.run("alter table turns_away rename to turns").await;
    for _ in 0..2 {
        answers.push(app.send("over the limit").await);
    }
    app.log_line("load shed").await;
    for answer in &answers {
        assert_eq!(answer.status, 200, "{}", answer.body);
        let block = answer.json();
        assert_eq!(keys(&block), ["content", "version"]);
        assert_eq!(keys(&block["content"]), ["external_message_callback", "messages", "type"]);
        let callback = &block["content"]["external_message_callback"];
        assert_eq!(keys(callback), ["headers", "method", "payload", "timeout", "url"]);
        let placeholders = json!({"text": "{{last_input_text}}", "subscriber_id": "{{contact.id}}", "ai_token": "{{ai_token}}"});
        assert_eq!((&callback["payload"], &callback["timeout"]), (&placeholders, &json!(86400)));
        for message in block["content"]["messages"].as_array().unwrap() {
            assert_eq!(keys(message), ["text", "type"]);
        }
        for word in ["outcome", "confidence", "escalated", "reason", "error", "turns", "select"] {
            assert!(!answer.body.contains(word), "{word} in {}", answer.body);
        }
    }
}

/// RATE-7, RUL-4: the hourly limit of a contact lives in the database, whatever the limit of the address is; it ends in
/// the handoff, never in 429.
#[tokio::test]
async fn the_hourly_limit_of_a_contact_is_another_one() {
    let setup = Setup::default().rules(|rules| rules["rateLimit"]["turnsPerSubscriberPerHour"] = json!(2));
    let mut app = setup.env("RATE_LIMIT_PER_MINUTE", "1000").start().await;
    time_in_this_hour().await;
    app.send("hello").await;
    assert_eq!(app.stop(libc::SIGINT).await.code(), Some(0));
    app.launch().await;
    app.send("how much is it?").await;
    let third = app.send("when does it start?").await;
    assert_eq!((third.status, third.texts()), (200, vec![app.copy("escalation")]));
    assert_eq!(app.send_as("another", "hello").await.status, 200);
    let outcomes = app.rows("select outcome from turns where role = 'agent' order by seq").await;
    assert_eq!(outcomes[2]["outcome"], "escalated_precheck");
    assert_ne!(outcomes[3]["outcome"], "escalated_precheck", "other contacts have a count of their own");
}

/// CLI-23, OPS-5: both signals end the process in order, with their names.
#[tokio::test]
async fn either_signal_ends_the_process_in_order() {
    let mut app = TestApp::start().await;
    for (number, name) in [(libc::SIGTERM, "SIGTERM"), (libc::SIGINT, "SIGINT")] {
        app.send("hello").await;
        assert_eq!(app.stop(number).await.code(), Some(0));
        let stops = app.logs("shutting down");
        assert_eq!(stops.last().unwrap()["signal"], name);
        assert!(app.get("/health").await.is_none());
        app.launch().await;
    }
}

/// DB-16, 02/BUD-1: the day is UTC's, whatever the database's clock zone is, and spend is added to it.
#[tokio::test]
async fn a_day_is_a_day_in_utc() {
    let mut app = Setup::default().prepare().await;
    app.run(
        "do $$ begin
           execute format('alter database %I set timezone to ''Pacific/Kiritimati''', current_database());
         end $$",
    )
    .await;
    app.launch().await;
    time_in_this_hour().await;
    app.send("how much is the foundation course?").await;
    let spent = "select tokens from budget_counters where day = (now() at time zone 'utc')::date";
    let first = app.await_rows(spent).await[0]["tokens"].as_i64().unwrap();
    app.send("how much is the advanced course?").await;
    app.await_that(spent, |rows| rows[0]["tokens"].as_i64().unwrap() > first).await;
    assert_eq!(app.rows("select 1 from budget_counters").await.len(), 1);
}

/// DB-10: rows of the same moment are read in the order of `seq`.
#[tokio::test]
async fn history_of_one_moment_keeps_its_order() {
    let app = TestApp::start().await;
    let asked = "how much is the foundation course?";
    app.send(asked).await;
    app.send("thanks").await;
    app.run("update turns set created_at = now()").await;
    // The mock model answers the same again; told by the newest row, the last answer was another one.
    app.send(asked).await;
    let outcomes = app.rows("select outcome from turns where role = 'agent' order by seq").await;
    assert_eq!(outcomes.len(), 3);
    assert_eq!(outcomes[2]["outcome"], "answered_inline");
    let seqs = app.rows("select role from turns order by created_at, seq").await;
    let roles: Vec<_> = seqs.iter().map(|row| row["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["user", "agent"].repeat(3));
}

/// COMP-4, COMP-5, DB-12: what we write into columns the reference reads is of its vocabulary and its form.
#[tokio::test]
async fn shared_columns_hold_the_shared_words() {
    let setup = Setup::default().env("RACE_DEADLINE_MS", LOST);
    let app = Stage::with(false, setup).await.app;
    for (contact, text) in [
        ("1", "how much is it? slowly"),
        ("2", "this is a scam"),
        ("3", "begin larkspur chat"),
        ("4", "https://manybot-files.s3.eu-central-1.amazonaws.com/1/wa/2026/01/02/original_a.ogg"),
    ] {
        app.send_as(contact, text).await;
    }
    app.await_rows("select 1 from outbox where kind = 'reply'").await;
    let odd = app
        .rows(
            "select role, outcome, media_kind from turns
             where role not in ('user', 'agent')
                or (role = 'user') is distinct from (outcome is null)
                or outcome not in ('answered_inline', 'answered_scripted', 'escalated_precheck', 'escalated_model',
                                   'error', 'media_fallback', 'deferred')
                or media_kind not in ('audio', 'image', 'video', 'unsupported')",
        )
        .await;
    assert_eq!(odd, Vec::<Value>::new());
    let rows = app
        .rows(
            "select kind, status, payload from outbox
             where kind not in ('reply', 'contact_token') or status not in ('pending', 'delivering', 'delivered', 'failed')
                or (kind = 'reply' and (jsonb_typeof(payload->'messages') <> 'array'
                    or exists (select 1 from jsonb_object_keys(payload) as key
                               where key not in ('messages', 'actions', 'turnId'))))",
        )
        .await;
    assert_eq!(rows, Vec::<Value>::new());
}

/// CFG-9: the tenant's name of the environment stands in every row that names one.
#[tokio::test]
async fn every_row_is_the_tenants() {
    let app =
        Setup::default().env("TENANT_ID", "workshop-7").env("CONTACT_TOKENS_ENFORCED", "true").start().await;
    app.send("this is a scam").await;
    app.await_rows("select 1 from outbox").await;
    let tables = app
        .rows("select table_name from information_schema.columns where table_schema = 'public' and column_name = 'tenant_id'")
        .await;
    let mut found = Vec::new();
    for table in &tables {
        let table = table["table_name"].as_str().unwrap();
        let tenants = app.rows(&format!("select distinct tenant_id from {table}")).await;
        assert!(tenants.iter().all(|row| row["tenant_id"] == "workshop-7"), "{table}: {tenants:?}");
        found.extend((!tenants.is_empty()).then(|| table.to_owned()));
    }
    for table in ["conversations", "outbox", "rate_counters", "rs_processes"] {
        assert!(found.iter().any(|name| name == table), "{table} has no row: {found:?}");
    }
}

/// COMP-10: a token that the reference issued (32 bytes in base64url, stored as its SHA-256 in hex) binds here.
#[tokio::test]
async fn a_token_of_the_reference_binds() {
    let app = Setup::default().env("CONTACT_TOKENS_ENFORCED", "true").start().await;
    app.run(&format!(
        "insert into conversations (tenant_id, subscriber_id, channel, token_hash, token_generation, token_issued_at)
         values ('test', '{CONTACT}', 'whatsapp', encode(sha256('{TOKEN}'::bytea), 'hex'), 1, now() - interval '10 minutes')"
    ))
    .await;
    for (token, bound) in [(Some(TOKEN), true), (Some("wrong"), false), (Some(""), false), (None, false)] {
        assert_eq!(app.post(&message("hello", token), Some(SECRET)).await.status, 200);
        let row = app.rows("select bound from turns where role = 'user' order by seq desc limit 1").await;
        assert_eq!(row, [json!({ "bound": bound })], "{token:?}");
    }
}

const TOKEN: &str = "AbCdEfGhIjKlMnOpQrStUvWxYz0123456789-_AbCdE";
