//! What a process that dies or falls silent leaves behind, and what becomes of it.

use std::time::{Duration, Instant};

use manychat_agent::store::embedded::testing::TestServer;
use serde_json::{Value, json};

use crate::answers::{free_lane, hold_lane};
use crate::app::{ADMIN, BEAT, CONTACT, DEAD, DEAD_AFTER, LOST, PATIENCE, SECRET, Setup, TestApp};
use crate::proxy::Proxy;

const TURNS: &str = "select role, outcome, text from turns order by seq";

/// A process that counts as dead soon, with a model that never answers in time.
pub fn short_lived() -> Setup {
    Setup::default()
        .env("AGENT_MODEL", "mock:slow")
        .env("RACE_DEADLINE_MS", LOST)
        .env("MODEL_ABORT_MS", "40000")
        .env("PROCESS_BEAT_MS", BEAT)
        .env("PROCESS_DEAD_MS", DEAD)
}

/// The same service with a model that answers.
async fn relaunch(app: &mut TestApp) {
    app.env.insert("AGENT_MODEL".to_owned(), "mock:demo".to_owned());
    app.launch().await;
}

/// A turn runs and its caller has the holding line; then the process is killed.
async fn killed_in_a_turn() -> TestApp {
    let mut app = short_lived().start().await;
    assert_eq!(app.send("how much is it?").await.texts(), [app.copy("acknowledgement")]);
    app.stop(libc::SIGKILL).await;
    app
}

async fn nothing_is_left(app: &TestApp) {
    app.await_that("select 1 from rs_owed union all select 1 from rs_inbox", <[_]>::is_empty).await;
    assert_eq!(app.rows("select 1 from rs_lanes where turn_id is not null").await.len(), 0);
}

fn shape(turns: &[Value]) -> Vec<(&str, &str)> {
    let word = |turn: &Value, key: &str| turn[key].as_str().unwrap_or("").to_owned().leak() as &str;
    turns.iter().map(|turn| (word(turn, "role"), word(turn, "outcome"))).collect()
}

/// ARC-40, ARC-43, ARC-45a, ARC-46, GAP-CH-2, CRASH-1: neither the turn that ran nor the messages that waited are lost; they are answered
/// in order, the waiting ones together, and no token stands in the database.
#[tokio::test]
async fn a_killed_process_loses_neither_its_turn_nor_what_waited() {
    let mut app = short_lived().start().await;
    assert_eq!(app.send("how much is it?").await.texts(), [app.copy("acknowledgement")]);
    for text in ["and the table", "is also a workshop?"] {
        let body = json!({"subscriber_id": CONTACT, "text": text, "ai_token": "a-token-of-the-contact"});
        assert_eq!(app.post(&body.to_string(), Some(SECRET)).await.texts(), [] as [String; 0]);
    }
    let kept = app.rows("select text, token_digest, binding, media_kind from rs_inbox order by id").await;
    assert_eq!(kept.len(), 2, "{kept:?}");
    assert_eq!(kept[0]["token_digest"].as_str().unwrap().len(), 64, "a digest, never the token");
    assert_eq!(app.rows("select 1 from rs_inbox i where i::text like '%a-token-of%'").await.len(), 0);
    app.stop(libc::SIGKILL).await;
    relaunch(&mut app).await;
    app.await_that("select 1 from outbox where kind = 'reply'", |rows| rows.len() == 2).await;
    nothing_is_left(&app).await;
    let turns = app.rows(TURNS).await;
    let roles: Vec<&str> = turns.iter().map(|turn| turn["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["user", "agent", "user", "user", "agent"], "{turns:?}");
    assert!(
        turns[1]["text"].as_str().unwrap().contains("$450.00"),
        "the first turn ran once more: {turns:?}"
    );
    assert_eq!(turns[1]["outcome"], "deferred");
    assert_eq!(turns[2]["text"], "and the table");
    let counts = "select turn_count, (select sum(count) from rate_counters)::int as hour from conversations";
    assert_eq!(app.rows(counts).await, [json!({"turn_count": 3, "hour": 3})], "a second run counts nothing");
    assert_eq!(app.logs("waiting messages of a dead process taken over").len(), 1);
}

/// ARC-46, PRIN-C6: a turn that has killed two processes ends with a person.
#[tokio::test]
async fn a_turn_is_run_twice_at_most() {
    let mut app = killed_in_a_turn().await;
    app.run("update rs_owed set second_run = true").await;
    relaunch(&mut app).await;
    nothing_is_left(&app).await;
    assert_eq!(shape(&app.rows(TURNS).await), [("user", ""), ("agent", "error")]);
    let queued = app.rows("select payload from outbox where kind = 'reply'").await;
    assert_eq!(queued, [json!({"payload": {"messages": [app.copy("escalation")]}})]);
    assert_eq!(app.rows("select 1 from rs_handoffs").await.len(), 1);
}

/// ARC-46: after a quarter of an hour the model is not asked any more.
#[tokio::test]
async fn an_old_turn_ends_with_a_person() {
    let mut app = killed_in_a_turn().await;
    app.run("update rs_owed set received_at = received_at - interval '16 minutes'").await;
    relaunch(&mut app).await;
    nothing_is_left(&app).await;
    let turns = app.rows(TURNS).await;
    assert_eq!(turns[1], json!({"role": "agent", "outcome": "error", "text": app.copy("escalation")}));
    assert_eq!(app.rows("select 1 from outbox where kind = 'reply'").await.len(), 1);
    assert_eq!(app.rows("select 1 from conversations where escalated_at is not null").await.len(), 1);
}

/// ARC-46: what the channel does not deliver any more is not sent; a person finds the contact marked.
#[tokio::test]
async fn after_a_day_the_contact_is_only_marked() {
    let mut app = killed_in_a_turn().await;
    app.run(
        "update rs_owed set received_at = received_at - interval '25 hours';
         update conversations set last_message_at = last_message_at - interval '25 hours'",
    )
    .await;
    relaunch(&mut app).await;
    nothing_is_left(&app).await;
    assert_eq!(app.rows("select 1 from outbox where kind = 'reply'").await.len(), 0);
    assert_eq!(shape(&app.rows(TURNS).await), [("user", "")]);
    assert_eq!(app.rows("select 1 from conversations where escalated_at is not null").await.len(), 1);
    assert_eq!(app.rows("select 1 from rs_handoffs where closed_at is null").await.len(), 1);
    assert_eq!(app.log_line("too late to answer: a person has to write").await["level"], 50);
}

/// ARC-46: the same for a reply that was settled and not handed over when its process died.
#[tokio::test]
async fn after_a_day_a_reply_that_was_said_is_not_sent_either() {
    let mut app =
        short_lived().env("AGENT_MODEL", "mock:demo").env("CRASH_AT", "settle_committed").start().await;
    // The answer never comes.
    drop(app.raw_request("how much is it?"));
    app.await_rows("select 1 from rs_owed where status = 'said'").await;
    app.env.remove("CRASH_AT");
    app.run(
        "update rs_owed set received_at = received_at - interval '25 hours', said_at = said_at - interval '25 hours';
         update turns set created_at = created_at - interval '25 hours';
         update conversations set last_message_at = last_message_at - interval '25 hours'",
    )
    .await;
    relaunch(&mut app).await;
    let queued = "select status, last_error from outbox where kind = 'reply' and status <> 'pending'";
    let ended = app.await_that(queued, |rows| rows.iter().any(|row| row["status"] == "failed")).await;
    assert_eq!(
        ended,
        [json!({"status": "failed", "last_error": "not sent: the contact wrote more than 24 hours ago"})]
    );
    nothing_is_left(&app).await;
    assert_eq!(app.rows("select 1 from conversations where escalated_at is not null").await.len(), 1);
    assert_eq!(app.rows("select 1 from rs_handoffs where closed_at is null").await.len(), 1);
}

/// ARC-45a: the link of a file dies with its process, so a file that waited ends with a person.
#[tokio::test]
async fn a_file_that_waited_in_a_dead_process_ends_with_a_person() {
    let mut app = short_lived().start().await;
    app.send("how much is it?").await;
    let link = "https://manybot-files.s3.eu-central-1.amazonaws.com/1/wa/2026/01/02/original_ab12.ogg";
    app.send(link).await;
    let kept = app.rows("select text, media_kind from rs_inbox").await;
    assert_eq!(kept, [json!({"text": "[voice note]", "media_kind": "audio"})]);
    app.stop(libc::SIGKILL).await;
    relaunch(&mut app).await;
    app.await_that("select 1 from outbox where kind = 'reply'", |rows| rows.len() == 2).await;
    nothing_is_left(&app).await;
    let turns = app.rows(TURNS).await;
    assert_eq!(turns[3], json!({"role": "agent", "outcome": "error", "text": app.copy("escalation")}));
}

/// ARC-43, DEC-35: a message to the successor waits for the turn that the dead process owes.
#[tokio::test]
async fn a_new_message_waits_for_the_owed_turn() {
    let mut app = killed_in_a_turn().await;
    app.env.insert("RACE_DEADLINE_MS".to_owned(), "20000".to_owned());
    // The lane is free, as if its lease had ended during a long outage.
    app.run(
        "update rs_lanes set expires_at = now(); update rs_processes set beat_at = beat_at - interval '1 minute'",
    )
    .await;
    relaunch(&mut app).await;
    let answer = app.send("thanks, and the opening hours?").await;
    assert_eq!(answer.status, 200);
    nothing_is_left(&app).await;
    let turns = app.rows(TURNS).await;
    let texts: Vec<&str> = turns.iter().map(|turn| turn["text"].as_str().unwrap()).collect();
    assert_eq!((turns.len(), texts[0], texts[2]), (4, "how much is it?", "thanks, and the opening hours?"));
    assert!(texts[1].contains("$450.00"), "{texts:?}");
}

/// ARC-44, ARC-40: a process that was stopped for so long that others may have counted it as dead goes on under a new
/// id; its turn is dropped, run once more, and told once.
#[tokio::test]
async fn a_process_that_was_paused_goes_on_as_a_new_one() {
    let app = short_lived().env("MODEL_ABORT_MS", "10000").start().await;
    let before = process_of(&app).await;
    assert_eq!(app.send("how much is it?").await.texts(), [app.copy("acknowledgement")]);
    app.signal(libc::SIGSTOP);
    tokio::time::sleep(DEAD_AFTER + Duration::from_secs(1)).await;
    app.signal(libc::SIGCONT);
    app.log_line("silent for too long: going on under a new process id").await;
    assert_ne!(process_of(&app).await, before);
    app.log_line("turn dropped after a silence of its process").await;
    app.await_rows("select 1 from outbox where kind = 'reply'").await;
    nothing_is_left(&app).await;
    assert_eq!(shape(&app.rows(TURNS).await), [("user", ""), ("agent", "error")]);
    assert_eq!(app.rows("select 1 from outbox where kind = 'reply'").await.len(), 1);
    let alive = "select 1 from rs_processes where beat_at > now() - interval '4 seconds'";
    assert_eq!(app.rows(alive).await.len(), 1, "the old id never beats again");
    // Without a key for ManyChat every attempt fails, so the worker claims the reply again and again.
    app.run("create table claimants as select rs_process_id from outbox where false").await;
    app.run(
        "create function note() returns trigger language plpgsql as
           $$begin insert into claimants values (new.rs_process_id); return new; end$$;
         create trigger note before update on outbox for each row when (new.status = 'delivering')
           execute function note();
         update outbox set next_attempt_at = now()",
    )
    .await;
    let claimed = app.await_rows("select distinct rs_process_id::text as id from claimants").await;
    assert_eq!(claimed, [json!({ "id": process_of(&app).await })], "the worker claims under the new id");
}

async fn process_of(app: &TestApp) -> String {
    // After a pause a kept connection can be gone, and a late process sheds load for a moment.
    let until = Instant::now() + PATIENCE;
    loop {
        assert!(Instant::now() < until, "the service tells no process: {}", app.output());
        let report = app.get_as("/admin/actors", Some(ADMIN)).await.map(|answer| answer.json());
        if let Some(process) = report.as_ref().and_then(|report| report["process"].as_str()) {
            return process.to_owned();
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// ARC-42, ARC-44: an outage of the database longer than `PROCESS_DEAD_MS` makes nobody dead but the process's own id,
/// and the contact is answered when it is over.
#[tokio::test]
async fn an_outage_of_the_database_silences_nobody() {
    let database = TestServer::database().unwrap();
    let proxy = Proxy::start(database.config(), Duration::ZERO).await;
    let url = proxy.url(database.name());
    let setup = short_lived().env("AGENT_MODEL", "mock:demo").env("RACE_DEADLINE_MS", "20000");
    let app = Setup { database: Some(database), database_url: Some(url), ..setup }.start().await;
    let before = process_of(&app).await;
    assert!(app.send("how much is it?").await.texts()[0].contains("$450.00"));
    proxy.stall(true);
    app.log_line("silent for too long: what this process held is left to others").await;
    assert_eq!(process_of(&app).await, before, "an id that has not beaten belongs to nobody yet");
    proxy.stall(false);
    app.log_line("silent for too long: going on under a new process id").await;
    assert_ne!(process_of(&app).await, before);
    assert_eq!(app.send("thanks").await.texts().len(), 1);
    assert_eq!(app.turns().await[3]["outcome"], "answered_inline");
    nothing_is_left(&app).await;
    assert_eq!(app.logs("silent for too long: going on under a new process id").len(), 1, "one new id");
}

/// DEC-30, GAP-CH-8: a caller who hung up before the answer and asks again gets the reply to the message, which is one message.
#[tokio::test]
async fn a_repeated_request_joins_the_turn_of_a_caller_who_is_gone() {
    let app = TestApp::start().await;
    app.send("hello").await;
    hold_lane(&app).await;
    let gone = app.raw_request("how much is it?");
    app.await_rows("select 1 from rs_inbox").await;
    drop(gone);
    let again = app.send_later(CONTACT, "how much is it?");
    app.log_line("repeated request joins the turn of the first").await;
    free_lane(&app).await;
    assert!(again.await.unwrap().texts()[0].contains("$450.00"));
    assert_eq!(app.turns().await.len(), 4, "one message, one answer");
    assert_eq!(app.rows("select 1 from outbox where kind = 'reply'").await.len(), 0);
}

/// DEC-30: two equal messages of a contact who is there are two messages.
#[tokio::test]
async fn equal_messages_of_callers_who_wait_are_two_messages() {
    let app = TestApp::start().await;
    app.send("hello").await;
    hold_lane(&app).await;
    let first = app.send_later(CONTACT, "ok");
    app.await_rows("select 1 from rs_inbox").await;
    let second = app.send_later(CONTACT, "ok");
    app.await_that("select 1 from rs_inbox", |rows| rows.len() == 2).await;
    free_lane(&app).await;
    assert_eq!(first.await.unwrap().texts().len(), 0, "the earlier one of a burst");
    assert_eq!(second.await.unwrap().texts().len(), 1);
    assert_eq!(app.turns().await.len(), 5);
}

/// DEC-30: the same through another process, while the first one is dead.
#[tokio::test]
async fn a_repeated_request_joins_the_turn_of_a_dead_process() {
    let mut app = killed_in_a_turn().await;
    app.env.insert("RACE_DEADLINE_MS".to_owned(), "20000".to_owned());
    relaunch(&mut app).await;
    assert_eq!(app.send("how much is it?").await.texts(), [] as [String; 0], "the reply comes later");
    let queued = app.await_rows("select payload from outbox where kind = 'reply'").await;
    assert!(queued[0]["payload"]["messages"][0].as_str().unwrap().contains("$450.00"));
    nothing_is_left(&app).await;
    assert_eq!(app.turns().await.len(), 2);
    assert_eq!(app.rows("select 1 from outbox where kind = 'reply'").await.len(), 1);
}

/// ARC-42: contacts who wait longest and whose messages nobody can take keep nobody behind them from being found.
#[tokio::test]
async fn who_cannot_be_served_holds_nobody_up() {
    let app = short_lived().env("AGENT_MODEL", "mock:demo").env("MODEL_MAX_CONCURRENT", "4").start().await;
    let left = "with c as (
          insert into conversations (tenant_id, subscriber_id, channel)
          select (select tenant_id from rs_processes limit 1), (9000 + n)::text, 'whatsapp' from generate_series(1, 7) as n
          returning id, subscriber_id)
        insert into rs_inbox (conversation_id, process_id, message_id, text, media_kind, binding, received_at, created_at)
        select id, gen_random_uuid(), gen_random_uuid(), 'how much is it?',
               case when subscriber_id <> '9007' then 'a kind of another version' end, 'first', now(),
               now() - interval '1 minute' + make_interval(secs => subscriber_id::integer - 9000)
        from c";
    app.run(left).await;
    app.await_rows(
        "select 1 from turns t join conversations c on c.id = t.conversation_id
         where t.role = 'agent' and c.subscriber_id = '9007'",
    )
    .await;
    assert_eq!(app.rows("select 1 from rs_inbox").await.len(), 6, "nothing of the others is lost");
}
