//! Dead letters and what an operator does about them (GAP-DL-10).

use serde_json::{Value, json};

use crate::app::{CONTACT, Ended, Setup, TestApp, command};
use crate::stub_manychat::{SEND_FLOW, SET_FIELD, StubManyChat};

const WORDS: &str = "The kiln is free on Friday, Ann.";

async fn with_dead_letter(stub: &StubManyChat) -> (TestApp, String) {
    stub.answer(SEND_FLOW, 400);
    let app = Setup::default()
        .env("MANYCHAT_API_TOKEN", "1234:a-key-of-the-stub")
        .env("MANYCHAT_API_BASE", &stub.url)
        .env("MANYCHAT_REPLY_FLOW_NS", "content_reply")
        .env("MANYCHAT_REPLY_GAP_MS", "0")
        .start()
        .await;
    queue(&app, "test").await;
    app.await_rows("select 1 from outbox where status = 'failed'").await;
    let id = app.rows("select id from outbox").await[0]["id"].as_str().unwrap().to_owned();
    (app, id)
}

/// API-49, BOX-15, LOG-9, PII-1: whatever ManyChat quotes, neither the log nor the row nor the export repeats the reply, a
/// name, a street or a token; what is no quote stays.
#[tokio::test(flavor = "multi_thread")]
async fn a_dead_letter_repeats_nothing_that_manychat_quotes() {
    let stub = StubManyChat::start().await;
    stub.say(&format!(
        "Field reply is invalid: '{WORDS}' for Mrs Oduya, Gartenweg 12; ai_token q83vZx1Yd9LmPAbcTT is not allowed"
    ));
    stub.answer(SET_FIELD, 400);
    let (app, _) = with_dead_letter(&stub).await;
    let row = app.rows("select last_error from outbox").await[0]["last_error"].clone();
    let line = app.log_line("outbox dead-lettered").await;
    assert_eq!(row, line["err"]);
    let said = row.as_str().unwrap();
    assert!(
        said.contains("with 400: Field [...] is invalid: '[sent]' for") && said.contains("is not allowed")
    );
    let exported = run(&app, &["contact", "export", CONTACT]).stdout;
    for part in ["Oduya", "Gartenweg", "q83vZx1Yd9LmPAbcTT"] {
        for place in [said, &app.output(), &exported] {
            assert!(!place.contains(part), "{part} in {place}");
        }
    }
    assert!(!app.output().contains("kiln") && exported.contains("kiln"), "the export holds the reply itself");
}

/// A reply of two texts that is older than the retry window.
async fn queue(app: &TestApp, tenant: &str) {
    app.run(&format!(
        "insert into conversations (tenant_id, subscriber_id, channel) values ('{tenant}', '{CONTACT}', 'whatsapp');
         insert into outbox (tenant_id, subscriber_id, conversation_id, created_at, payload)
         select tenant_id, subscriber_id, id, now() - interval '3 hours',
                '{{\"messages\": [\"{WORDS}\", \"Shall I?\"], \"actions\": [], \"turnId\": \"x\"}}'
         from conversations where tenant_id = '{tenant}'"
    ))
    .await;
}

fn run(app: &TestApp, words: &[&str]) -> Ended {
    command(&app.folder.path, &app.env, words)
}

#[track_caller]
fn assert_impersonal(ended: &Ended) {
    for part in [CONTACT, "kiln", "Ann", "Shall"] {
        assert!(!ended.stdout.contains(part) && !ended.stderr.contains(part), "{part} in {}", ended.stdout);
    }
}

/// GAP-DL-10: what is dead and why, without a word of it; then a fresh window, and the reply goes out.
#[tokio::test(flavor = "multi_thread")]
async fn a_dead_letter_is_listed_and_sent_after_all() {
    let stub = StubManyChat::start().await;
    let (app, id) = with_dead_letter(&stub).await;
    let listed = run(&app, &["outbox", "list"]);
    assert_eq!(listed.code, Some(0), "{}", listed.stderr);
    for part in [id.as_str(), "reply", "dead", "3h", "0/2", "refused 400"] {
        assert!(listed.stdout.contains(part), "{part} in {}", listed.stdout);
    }
    assert_impersonal(&listed);
    let json: Value = serde_json::from_str(&run(&app, &["outbox", "list", "--json"]).stdout).unwrap();
    assert_eq!((&json[0]["state"], &json[0]["attempts"]), (&json!("dead"), &json!(1)));
    assert_eq!(json[0]["lengths"], json!([WORDS.len(), 8]));
    assert_eq!(json[0]["due_in_seconds"], Value::Null, "nothing of it is due");
    let limited = run(&app, &["outbox", "list", "--limit", "1"]);
    assert!(limited.stderr.contains("--limit"), "{}", limited.stderr);
    let shown = run(&app, &["outbox", "show", &id]);
    assert!(shown.code == Some(0) && shown.stdout.contains("32, 8"), "{}{}", shown.stdout, shown.stderr);
    assert_impersonal(&shown);

    stub.answer(SEND_FLOW, 503);
    let retried = run(&app, &["outbox", "retry", &id]);
    assert_eq!((retried.code, retried.stdout.as_str()), (Some(0), format!("retried {id}\n").as_str()));
    let sql = "select status, attempts from outbox";
    app.await_that(sql, |rows| rows[0]["status"] == "pending" && rows[0]["attempts"] == 1).await;
    assert!(run(&app, &["outbox", "list", "--state", "pending"]).stdout.contains("refused 503"));
    stub.answer(SEND_FLOW, 200);
    app.await_rows("select 1 from outbox where status = 'delivered'").await;
    let last = stub.calls_to(SET_FIELD).pop().unwrap();
    assert_eq!(last.body["field_value"], "Shall I?");
    assert_eq!(run(&app, &["outbox", "list"]).stdout, "nothing in these states\n");
    let payload = app.rows("select payload from outbox").await[0]["payload"].clone();
    assert!(payload.get("actions").is_none(), "BOX-17: {payload}");
}

/// GAP-DL-10, GAP-DL-2: of a reply that was given up half out, log, row and list say how much of it reached ManyChat, and
/// none of its words.
#[tokio::test(flavor = "multi_thread")]
async fn a_dead_letter_says_how_much_of_it_is_out() {
    let stub = StubManyChat::start().await;
    let app = Setup::default()
        .env("MANYCHAT_API_TOKEN", "1234:a-key-of-the-stub")
        .env("MANYCHAT_API_BASE", &stub.url)
        .env("MANYCHAT_REPLY_FLOW_NS", "content_reply")
        .env("MANYCHAT_REPLY_GAP_MS", "2000")
        .start()
        .await;
    queue(&app, "test").await;
    // The second text comes a gap after the first.
    stub.await_call(SEND_FLOW).await;
    stub.answer(SEND_FLOW, 400);
    let row = app.await_rows("select last_error from outbox where status = 'failed'").await[0].clone();
    let error = row["last_error"].as_str().unwrap();
    assert!(error.starts_with("1 of 2 texts reached ManyChat; the rest: ManyChat refused"), "{error}");
    let line = app.log_line("outbox dead-lettered").await;
    assert_eq!((&line["sent"], &line["texts"], &line["err"]), (&json!(1), &json!(2), &json!(error)));
    for words in [vec!["outbox", "list"], vec!["outbox", "show", line["outboxId"].as_str().unwrap()]] {
        let shown = run(&app, &words);
        assert!(shown.stdout.contains("refused 400, after 1 of 2 texts"), "{}{}", shown.stdout, shown.stderr);
        assert_impersonal(&shown);
    }
    let json: Value = serde_json::from_str(&run(&app, &["outbox", "list", "--json"]).stdout).unwrap();
    assert_eq!((&json[0]["last_error"], &json[0]["texts_sent"]), (&json!("refused 400"), &json!(1)));
    assert!(!app.output().contains("kiln"));
}

/// GAP-DL-10, COMP-5: discarded is failed to the reference, is not listed, and is not tried again.
#[tokio::test(flavor = "multi_thread")]
async fn a_dead_letter_is_discarded() {
    let stub = StubManyChat::start().await;
    let (app, id) = with_dead_letter(&stub).await;
    let discarded = run(&app, &["outbox", "discard", &id]);
    assert_eq!((discarded.code, discarded.stdout.as_str()), (Some(0), format!("discarded {id}\n").as_str()));
    assert_eq!(app.rows("select status from outbox").await, [json!({ "status": "failed" })]);
    assert_eq!(run(&app, &["outbox", "list"]).stdout, "nothing in these states\n");
    assert!(run(&app, &["outbox", "list", "--state", "discarded"]).stdout.contains(&id));
    let refused = run(&app, &["outbox", "retry", &id]);
    assert_eq!(refused.code, Some(1));
    assert!(refused.stderr.contains("is discarded, not dead"), "{}", refused.stderr);
}

/// CLI-6, PROC-7: wrong use is 2, an unknown or foreign row is 1, and every dead row can be named at once.
#[tokio::test(flavor = "multi_thread")]
async fn rows_of_another_tenant_are_refused() {
    let stub = StubManyChat::start().await;
    let (app, id) = with_dead_letter(&stub).await;
    for words in [
        vec!["outbox"],
        vec!["outbox", "retry"],
        vec!["outbox", "retry", "--json"],
        vec!["outbox", "retry", "x"],
        vec!["outbox", "show"],
        vec!["outbox", "list", "--state", "odd"],
        vec!["outbox", "discard", "--all-dead", &id],
    ] {
        assert_eq!(run(&app, &words).code, Some(2), "{words:?}");
    }
    let mut foreign = app.env.clone();
    foreign.insert("TENANT_ID".to_owned(), "other".to_owned());
    for verb in ["retry", "discard", "show"] {
        let refused = command(&app.folder.path, &foreign, &["outbox", verb, &id]);
        assert_eq!(refused.code, Some(1), "{verb}");
        assert!(refused.stderr.contains("no row"), "{}", refused.stderr);
    }
    let none = command(&app.folder.path, &foreign, &["outbox", "retry", "--all-dead"]);
    assert_eq!((none.code, none.stdout.as_str()), (Some(0), "no row was changed\n"));
    assert_eq!(app.rows("select status from outbox").await, [json!({ "status": "failed" })]);
    stub.answer(SEND_FLOW, 200);
    assert_eq!(run(&app, &["outbox", "retry", "--all-dead"]).stdout, format!("retried {id}\n"));
    app.await_rows("select 1 from outbox where status = 'delivered'").await;
    let late = run(&app, &["outbox", "discard", &id]);
    assert!(late.code == Some(1) && late.stderr.contains("is delivered"), "{}", late.stderr);
}
