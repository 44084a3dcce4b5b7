//! Replies in the outbox and the worker that delivers them (04 sections 3, 5 and 6).

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::app::{Setup, TestApp, eventually};
use crate::stub_manychat::{ADD_TAG, SEND_FLOW, SET_FIELD, StubManyChat};

const ANN: &str = "81";
const BEN: &str = "82";

/// A worker process that is not started yet.
async fn worker(stub: &StubManyChat) -> TestApp {
    Setup::default()
        .env("MANYCHAT_API_TOKEN", "1234:a-key-of-the-stub")
        .env("MANYCHAT_API_BASE", &stub.url)
        .env("MANYCHAT_REPLY_FLOW_NS", "content_reply")
        .env("MANYCHAT_REPLY_GAP_MS", "0")
        .command(&["worker"])
        .prepare()
        .await
}

/// A reply that another process has left.
pub async fn queue(app: &TestApp, contact: &str, texts: &[&str]) {
    app.run(&format!(
        "insert into conversations (tenant_id, subscriber_id, channel) values ('test', '{contact}', 'whatsapp')
           on conflict do nothing;
         insert into outbox (tenant_id, subscriber_id, conversation_id, payload)
         select tenant_id, subscriber_id, id, '{}' from conversations where subscriber_id = '{contact}'",
        json!({ "messages": texts })
    ))
    .await;
}

/// What ManyChat was asked to do for this contact: a text that was written, or `play`.
pub fn asked(stub: &StubManyChat, contact: &str) -> Vec<String> {
    let calls = stub.calls().into_iter().filter(|call| call.body["subscriber_id"] == contact);
    let told = calls.filter_map(|call| match call.path.as_str() {
        SET_FIELD => call.body["field_value"].as_str().map(str::to_owned),
        SEND_FLOW => Some("play".to_owned()),
        _ => None,
    });
    told.collect()
}

/// WRK-1, WRK-2, WRK-10, WRK-12, CRASH-9, DEL-3, DEL-7, PACE-1, AC-DL-10: a worker alone delivers what stands there, text by
/// text and, with a gap of 0, without a pause; a failed look is told, and the next one goes on.
#[tokio::test]
async fn a_worker_alone_delivers_and_outlives_a_failed_look() {
    let stub = StubManyChat::start().await;
    let mut app = worker(&stub).await;
    let texts = ["one", "two", "three", "four", "five", "six", "seven", "eight"];
    queue(&app, ANN, &texts).await;
    let started = Instant::now();
    app.spawn();
    app.await_rows("select 1 from outbox where status = 'delivered'").await;
    assert!(
        started.elapsed() < Duration::from_secs(14),
        "seven gaps of the default: {:?}",
        started.elapsed()
    );
    assert_eq!(asked(&stub, ANN), texts.map(|text| [text, "play"]).concat());
    let batch = app.log_line("outbox batch processed").await;
    let counts =
        ["claimed", "delivered", "retrying", "deadLettered", "released"].map(|name| batch[name].clone());
    assert_eq!(counts, [1, 1, 0, 0, 0].map(Value::from), "{batch}");
    app.run("alter table outbox rename to outbox_away").await;
    assert_eq!(app.log_line("outbox worker iteration failed").await["level"], 50);
    app.run("alter table outbox_away rename to outbox").await;
    queue(&app, ANN, &["nine"]).await;
    app.await_that("select 1 from outbox where status = 'delivered'", |rows| rows.len() == 2).await;
    assert_eq!(app.stop(libc::SIGTERM).await.code(), Some(0));
}

/// WRK-3, WRK-4, WRK-5, DEL-2, BOX-14, AC-DL-17: a contact's replies go in their order; one that must be tried again holds back those
/// behind it and nobody else's; each attempt writes the field again before it plays.
#[tokio::test]
async fn a_failing_reply_holds_back_its_own_contact_only() {
    let stub = StubManyChat::start().await;
    stub.answer_contact(SEND_FLOW, ANN, 503);
    let mut app = worker(&stub).await;
    for (contact, text) in [(ANN, "a one"), (BEN, "b one"), (ANN, "a two"), (BEN, "b two")] {
        queue(&app, contact, &[text]).await;
    }
    app.spawn();
    app.await_that("select 1 from outbox where status = 'delivered'", |rows| rows.len() == 2).await;
    assert_eq!(asked(&stub, BEN), ["b one", "play", "b two", "play"]);
    let of_ann = "select attempts from outbox where subscriber_id = '81' order by created_at";
    let waiting = app.await_that(of_ann, |rows| rows[0]["attempts"] != 0).await;
    assert_eq!(waiting[1]["attempts"], 0, "not attempted");
    stub.answer_contact(SEND_FLOW, ANN, 200);
    app.await_that("select 1 from outbox where status = 'delivered'", |rows| rows.len() == 4).await;
    let calls = asked(&stub, ANN);
    let (last, tries) = calls.split_at(calls.len() - 2);
    assert_eq!(tries, ["a two", "play"]);
    assert!(last.len() >= 4 && last.chunks(2).all(|attempt| attempt == ["a one", "play"]), "{calls:?}");
}

/// AC-DL-14, WRK-3, WRK-6: five replies of one contact go out in the order in which they were written; while the first hangs,
/// the others wait unattempted and another contact's goes out; the batch is over only when the last chain is.
#[tokio::test]
async fn a_hanging_reply_stops_its_own_contact_only() {
    let stub = StubManyChat::start().await;
    stub.hold(ANN);
    let mut app = worker(&stub).await;
    for text in ["one", "two", "three", "four", "five"] {
        queue(&app, ANN, &[text]).await;
    }
    queue(&app, BEN, &["for Ben"]).await;
    app.spawn();
    app.await_rows("select 1 from outbox where status = 'delivered' and subscriber_id = '82'").await;
    eventually("the first text", || !asked(&stub, ANN).is_empty()).await;
    let of_ann = "select status, attempts from outbox where subscriber_id = '81' order by created_at, rs_seq";
    let rows = app.await_that(of_ann, |rows| rows[0]["status"] == "delivering").await;
    assert!(rows[1..].iter().all(|row| row["status"] == "pending" && row["attempts"] == 0), "{rows:?}");
    assert_eq!(asked(&stub, ANN), ["one"]);
    assert!(app.logs("outbox batch processed").is_empty(), "a chain of it has not ended");
    stub.let_go();
    app.await_that("select 1 from outbox where status = 'delivered'", |rows| rows.len() == 6).await;
    let texts: Vec<String> = asked(&stub, ANN).into_iter().filter(|asked| asked != "play").collect();
    assert_eq!(texts, ["one", "two", "three", "four", "five"]);
    app.log_line("outbox batch processed").await;
    assert!(app.rows("select 1 from outbox where status = 'delivering'").await.is_empty());
}

/// AC-DL-18, ACC-CLI-12, WRK-11, PROC-6: a stop finishes the reply that is being sent and leaves the next one as it was,
/// in a worker and in a server.
#[tokio::test]
async fn a_stop_finishes_what_is_being_sent_and_nothing_more() {
    for command in ["worker", "serve"] {
        let stub = StubManyChat::start().await;
        stub.hold(ANN);
        let mut app = worker(&stub).await;
        app.arguments = vec![command];
        queue(&app, ANN, &["first"]).await;
        queue(&app, ANN, &["second"]).await;
        app.spawn();
        stub.await_call(SET_FIELD).await;
        app.signal(libc::SIGTERM);
        app.log_line("shutting down").await;
        stub.let_go();
        assert_eq!(app.stop(libc::SIGCONT).await.code(), Some(0), "{command}");
        assert_eq!(asked(&stub, ANN), ["first", "play"], "{command}");
        let rows = app.rows("select status, attempts from outbox order by created_at, rs_seq").await;
        assert_eq!(
            rows,
            [json!({"status": "delivered", "attempts": 1}), json!({"status": "pending", "attempts": 0})]
        );
    }
}

/// A queued reply that carries a tag to be added, with its turn.
async fn queue_with_a_tag(app: &TestApp, contact: &str) {
    queue(app, contact, &["one"]).await;
    app.run(&format!(
        "with turn as (
           insert into turns (conversation_id, role, text, outcome, actions)
           select id, 'agent', 'one', 'deferred', '[{{\"tool\": \"add_tag\", \"id\": \"keen\", \"status\": \"staged\"}}]'
           from conversations where subscriber_id = '{contact}' returning id)
         update outbox set payload = payload || jsonb_build_object('turnId', turn.id,
           'actions', '[{{\"tool\": \"add_tag\", \"id\": \"keen\", \"tag\": \"keen-tag\"}}]'::jsonb)
         from turn where subscriber_id = '{contact}'"
    ))
    .await;
}

/// AC-DL-19, AFTER-4, BOX-17, acceptance 18 of 08: the text before any action, however often it is tried; then each action
/// once; behind a dead letter none, and the record says so.
#[tokio::test]
async fn actions_wait_for_their_text_and_go_once() {
    let stub = StubManyChat::start().await;
    stub.answer_contact(SEND_FLOW, ANN, 503);
    stub.answer_contact(SET_FIELD, BEN, 400);
    let mut app = worker(&stub).await;
    for contact in [ANN, BEN] {
        queue_with_a_tag(&app, contact).await;
    }
    app.spawn();
    let record = |contact: &str| {
        format!(
            "select t.actions -> 0 ->> 'status' as status from turns t join conversations c on c.id = t.conversation_id
             where c.subscriber_id = '{contact}'"
        )
    };
    app.await_that("select attempts from outbox where subscriber_id = '81'", |rows| rows[0]["attempts"] == 2)
        .await;
    app.await_that(&record(BEN), |rows| rows[0]["status"] == "dead_lettered").await;
    assert_eq!(app.rows(&record(ANN)).await, [json!({ "status": "staged" })]);
    assert_eq!(stub.calls_to(ADD_TAG).len(), 0, "no text is out");
    stub.answer_contact(SEND_FLOW, ANN, 200);
    app.await_that(&record(ANN), |rows| rows[0]["status"] == "performed").await;
    let [tag] = &stub.calls_to(ADD_TAG)[..] else { panic!("once: {:?}", stub.calls()) };
    assert_eq!(tag.body, json!({ "subscriber_id": ANN, "tag_name": "keen-tag" }));
    let last_text = stub.calls().iter().rposition(|call| call.path == SEND_FLOW);
    assert!(last_text < stub.calls().iter().position(|call| call.path == ADD_TAG));
}

/// AC-DL-13 as DEC-31 decides it, BOX-13, BOX-16, DEC-25: a refusal ends with a person at the first attempt; what may work
/// later is tried again however many attempts there were, after the longest pause.
#[tokio::test]
async fn a_refusal_ends_at_once_and_attempts_alone_end_nothing() {
    let stub = StubManyChat::start().await;
    stub.answer_contact(SET_FIELD, ANN, 400);
    stub.answer_contact(SEND_FLOW, BEN, 503);
    let mut app = worker(&stub).await;
    queue(&app, ANN, &["refused"]).await;
    queue(&app, BEN, &["later"]).await;
    app.run("update outbox set attempts = 30 where subscriber_id = '82'").await;
    app.spawn();
    let of = |contact: &str| {
        format!(
            "select status, attempts, next_attempt_at > now() + interval '4 minutes' as late
             from outbox where subscriber_id = '{contact}' and status in ('failed', 'pending') and attempts not in (0, 30)"
        )
    };
    let refused = app.await_rows(&of(ANN)).await;
    assert_eq!(refused, [json!({ "status": "failed", "attempts": 1, "late": false })]);
    let later = app.await_rows(&of(BEN)).await;
    assert_eq!(later, [json!({ "status": "pending", "attempts": 31, "late": true })]);
    let called = "select subscriber_id from rs_handoffs h join conversations c on c.id = h.conversation_id
                  where c.escalated_at is not null";
    assert_eq!(app.rows(called).await, [json!({ "subscriber_id": ANN })]);
}

/// ARC-46: what waited until its contact could not be reached any more is not sent; the contact is marked, and a person
/// is called. Who has written since gets an old reply all the same.
#[tokio::test]
async fn nothing_is_sent_to_a_contact_who_wrote_a_day_ago() {
    let stub = StubManyChat::start().await;
    let mut app = worker(&stub).await;
    for contact in [ANN, BEN] {
        queue(&app, contact, &["late"]).await;
    }
    app.run(&format!(
        "update outbox set created_at = created_at - interval '25 hours';
         update conversations set last_message_at = now() - case when subscriber_id = '{ANN}'
           then interval '25 hours' else interval '1 hour' end"
    ))
    .await;
    app.spawn();
    let ends = app.await_that("select subscriber_id, status, last_error from outbox order by 1", |rows| {
        rows.iter().all(|row| row["status"] != "pending" && row["status"] != "delivering")
    });
    let [ann, ben]: [Value; 2] = ends.await.try_into().unwrap();
    assert_eq!((&ann["status"], &ben["status"]), (&json!("failed"), &json!("delivered")));
    assert_eq!(ann["last_error"], "not sent: the contact wrote more than 24 hours ago");
    assert_eq!((asked(&stub, ANN), asked(&stub, BEN)), (vec![], vec!["late".to_owned(), "play".to_owned()]));
    let marked = "select c.subscriber_id from conversations c join rs_handoffs h on h.conversation_id = c.id
                  where c.escalated_at is not null and h.closed_at is null";
    assert_eq!(app.rows(marked).await, [json!({ "subscriber_id": ANN })]);
    assert_eq!(app.log_line("outbox dead-lettered").await["level"], 50);
}
