//! A process that is stopped for a while in the middle of something, and goes on as if nothing had happened.

use std::time::Duration;

use crate::app::{BEAT, CONTACT, DEAD, DEAD_AFTER, Setup, TestApp};

fn impatient() -> Setup {
    Setup::default().env("PROCESS_BEAT_MS", BEAT).env("PROCESS_DEAD_MS", DEAD)
}

/// ARC-43, ARC-44: a process that was stopped between Settle and the response does not give a reply that another one has
/// sent meanwhile: the contact reads it once.
#[tokio::test]
async fn a_reply_that_others_have_sent_is_not_given_again() {
    let app = impatient().start().await;
    let other = app.second_process().await;
    app.send("hello").await;
    app.await_that("select 1 from rs_owed", <[_]>::is_empty).await;
    // Settle takes long enough to stop its process in the middle; the server carries it out all the same.
    app.run(
        "create function linger() returns trigger language plpgsql as
           $$begin perform pg_sleep(2); return new; end$$;
         create trigger linger before update on rs_owed for each row
           when (new.status = 'said' and old.status = 'running') execute function linger()",
    )
    .await;
    let answer = app.send_later(CONTACT, "how much is it?");
    app.await_rows("select 1 from pg_stat_activity where wait_event = 'PgSleep'").await;
    app.signal(libc::SIGSTOP);
    other.log_line("reply of a dead process taken over").await;
    let queued = app.await_rows("select payload from outbox where kind = 'reply'").await;
    assert!(queued[0]["payload"]["messages"][0].as_str().unwrap().contains("$450.00"), "{queued:?}");
    app.signal(libc::SIGCONT);
    assert_eq!(answer.await.unwrap().texts(), [] as [String; 0], "it went through the outbox");
    app.log_line("reply left to others after a silence of its process").await;
    app.await_that("select 1 from rs_owed", <[_]>::is_empty).await;
    assert_eq!(app.rows("select 1 from outbox where kind = 'reply'").await.len(), 1);
}

/// ARC-40, ARC-43, ERR-1: requests whose turns are not heard of in time get an answer, but no copy that nobody recorded:
/// what the turn owes comes through the outbox, once.
#[tokio::test]
async fn a_late_answer_says_nothing_that_the_turn_does_not_know_of() {
    let app = Setup::default()
        .env("AGENT_MODEL", "mock:slow")
        .env("RACE_DEADLINE_MS", "5000")
        .env("MODEL_ABORT_MS", "11000")
        .start()
        .await;
    let contacts: Vec<String> = (0..24).map(|number| format!("{}", 80_000_000 + number)).collect();
    let answers: Vec<_> = contacts.iter().map(|contact| app.send_later(contact, "how much is it?")).collect();
    app.await_that("select 1 from rs_owed where status = 'running'", |rows| rows.len() == contacts.len())
        .await;
    stopped_for(&app, Duration::from_secs(6)).await;
    let copy = app.copy("escalation");
    for answer in answers {
        let answer = answer.await.unwrap();
        assert_eq!(answer.status, 200);
        assert!(!answer.texts().contains(&copy), "the turn still runs: {}", answer.body);
    }
    let replies = "select 1 from outbox where kind = 'reply'";
    app.await_that(replies, |rows| rows.len() == contacts.len()).await;
    app.await_that("select 1 from rs_owed", <[_]>::is_empty).await;
    assert_eq!(app.rows(replies).await.len(), contacts.len(), "one for each");
}

/// ARC-44, ARC-43: a process that stood still while it looked for what the dead have left takes nothing of it over before it
/// has beaten for long enough again: others may have done so.
#[tokio::test]
async fn a_look_from_before_a_silence_takes_nothing_over() {
    let app = impatient().start().await;
    app.send("hello").await;
    app.await_that("select 1 from rs_owed", <[_]>::is_empty).await;
    // From now on it may call others dead.
    tokio::time::sleep(DEAD_AFTER + Duration::from_secs(1)).await;
    app.run(
        "begin; lock table rs_owed in access exclusive mode;
         insert into rs_owed (turn_id, conversation_id, tenant_id, process_id, status, binding, user_turn_ids, received_at,
                              said_at, payload)
           select gen_random_uuid(), id, 'test', gen_random_uuid(), 'said', 'bound', '{}', now(), now(),
                  '{\"messages\": [\"reply\"]}' from conversations",
    )
    .await;
    // It looks once a second, and waits for the table then.
    tokio::time::sleep(Duration::from_secs(2)).await;
    app.signal(libc::SIGSTOP);
    tokio::time::sleep(DEAD_AFTER + Duration::from_secs(1)).await;
    app.run("commit").await;
    app.signal(libc::SIGCONT);
    let taken = app.log_line("reply of a dead process taken over").await["time"].as_i64().unwrap();
    let renewed =
        app.log_line("silent for too long: going on under a new process id").await["time"].as_i64().unwrap();
    assert!(taken - renewed >= 3000, "{taken} {renewed}");
}

async fn stopped_for(app: &TestApp, time: Duration) {
    app.signal(libc::SIGSTOP);
    tokio::time::sleep(time).await;
    app.signal(libc::SIGCONT);
}
