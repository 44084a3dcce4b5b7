//! A failover that drops packets: the connections there were go silent and are never closed, new ones work. And a database
//! that refuses what is written for one contact.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use manychat_agent::store::embedded::testing::TestServer;

use crate::answers::{free_lane, hold_lane};
use crate::app::{BEAT, CONTACT, DEAD, LOST, Setup, TestApp};
use crate::delivery::queue;
use crate::proxy::Proxy;
use crate::stub_manychat::StubManyChat;

/// Whose reply is due when the connections go silent.
const DUE: &str = "7101";

/// ARC-31, ARC-42: neither the outbox nor what a dead process has left waits for a connection that says nothing any more,
/// and however many of them the pool has, they cost one time limit.
#[tokio::test]
async fn silent_connections_stop_neither_delivery_nor_recovery() {
    let stub = StubManyChat::start().await;
    let database = TestServer::database().unwrap();
    let proxy = Proxy::start(database.config(), Duration::ZERO).await;
    let url = proxy.url(database.name());
    let setup = Setup { database: Some(database), database_url: Some(url), ..Setup::default() }
        .env("AGENT_MODEL", "mock:slow")
        .env("RACE_DEADLINE_MS", LOST)
        .env("MODEL_ABORT_MS", "30000")
        .env("PROCESS_BEAT_MS", "1000")
        .env("PROCESS_DEAD_MS", "6000")
        .env("MANYCHAT_API_TOKEN", "1234:a-key-of-the-stub")
        .env("MANYCHAT_API_BASE", &stub.url)
        .env("MANYCHAT_REPLY_FLOW_NS", "content_reply");
    let mut app = setup.start().await;
    let mut victim = app.second_process().await;
    app.stop(libc::SIGTERM).await;
    app.env.insert("AGENT_MODEL".to_owned(), "mock:demo".to_owned());
    app.env.insert("RACE_DEADLINE_MS".to_owned(), "20000".to_owned());
    app.launch().await;
    assert_eq!(victim.send("how much is it?").await.texts(), [app.copy("acknowledgement")]);
    // Several at once, so that several connections are at rest afterwards.
    let crowd = (0..8).map(|number| app.send_later(&format!("72{number}"), "hello"));
    for answer in join_all(crowd).await {
        assert_eq!(answer.unwrap().status, 200);
    }
    app.await_that("select 1 from rs_owed where status <> 'running'", <[_]>::is_empty).await;
    victim.stop(libc::SIGKILL).await;
    proxy.fail_over();
    let silent = Instant::now();
    queue(&app, DUE, &["due"]).await;
    let delivered = |contact: &str| {
        format!(
            "select 1 from outbox where subscriber_id = '{contact}' and kind = 'reply' and status = 'delivered'"
        )
    };
    app.await_rows(&delivered(DUE)).await;
    assert!(silent.elapsed() < Duration::from_secs(30), "{:?}\n{}", silent.elapsed(), app.output());
    app.await_rows(&delivered(CONTACT)).await;
    assert!(silent.elapsed() < Duration::from_secs(40), "{:?}\n{}", silent.elapsed(), app.output());
    assert_eq!(app.logs("outbox worker iteration failed").len(), 1, "{}", app.output());
    assert_eq!(app.rows("select 1 from rs_owed").await.len(), 0);
}

/// Refuses what is done to rows of the test's contact, as no constraint of ours would.
fn refusing(event: &str, table: &str, row: &str) -> String {
    format!(
        "create function refuse() returns trigger language plpgsql as $$
           begin
             if {row}.conversation_id = (select id from conversations where subscriber_id = '{CONTACT}') then
               raise exception 'refused' using errcode = '23514';
             end if;
             return {row};
           end $$;
         create trigger refuse before {event} on {table} for each row execute function refuse()"
    )
}

/// A reply that the database refuses, and others behind it.
async fn others_go_on(app: &TestApp) {
    app.log_line("reply refused by the database: tried again later").await;
    for contact in ["7301", "7302"] {
        assert_eq!(app.send_as(contact, "hello").await.texts().len(), 1);
    }
    let owed =
        "select c.subscriber_id as contact from rs_owed o join conversations c on c.id = o.conversation_id";
    let left = app.await_that(owed, |rows| rows.len() == 1).await;
    assert_eq!(left[0]["contact"], CONTACT, "it is still owed");
}

/// ARC-46, DEC-20: a reply whose way into the outbox the database refuses holds no other reply up, and is tried again.
#[tokio::test]
async fn a_reply_that_cannot_be_queued_holds_nobody_up() {
    let app = TestApp::start().await;
    app.send("hello").await;
    hold_lane(&app).await;
    let gone = app.raw_request("how much is it?");
    app.await_rows("select 1 from rs_inbox").await;
    drop(gone);
    app.run(&refusing("insert", "outbox", "new")).await;
    free_lane(&app).await;
    others_go_on(&app).await;
    app.run("drop trigger refuse on outbox").await;
    app.await_rows(&format!("select 1 from outbox where subscriber_id = '{CONTACT}' and kind = 'reply'"))
        .await;
    app.await_that("select 1 from rs_owed", <[_]>::is_empty).await;
}

/// ARC-33, ARC-46: the same for a reply that is out and whose confirmation is refused; its spend is counted in the end.
#[tokio::test]
async fn a_reply_that_cannot_be_confirmed_is_confirmed_later() {
    let app = TestApp::start().await;
    app.run(&refusing("delete", "rs_owed", "old")).await;
    assert_eq!(app.send("hello").await.texts().len(), 1);
    others_go_on(&app).await;
    let spent = "select tokens from budget_counters";
    let before = app.rows(spent).await[0]["tokens"].as_i64().unwrap();
    app.run("drop trigger refuse on rs_owed").await;
    app.await_that("select 1 from rs_owed", <[_]>::is_empty).await;
    assert!(app.rows(spent).await[0]["tokens"].as_i64().unwrap() > before);
}

/// ARC-43, ARC-46: a dead process's reply that the database refuses is taken over once, however often the successor looks
/// meanwhile, and goes out when it is taken.
#[tokio::test]
async fn a_refused_reply_of_the_dead_is_taken_over_once() {
    let setup = Setup::default().env("PROCESS_BEAT_MS", BEAT).env("PROCESS_DEAD_MS", DEAD);
    let mut app = setup.env("CRASH_AT", "settle_committed").start().await;
    // The answer never comes.
    drop(app.raw_request("how much is it?"));
    app.await_rows("select 1 from rs_owed where status = 'said'").await;
    app.env.remove("CRASH_AT");
    app.run(&refusing("insert", "outbox", "new")).await;
    app.launch().await;
    // The third try comes 3 s after the first; there are looks every second.
    app.log_lines("reply refused by the database: tried again later", 3).await;
    let taken_over = app.logs("reply of a dead process taken over");
    assert_eq!(taken_over.len(), 1, "{}", app.output());
    app.run("drop trigger refuse on outbox").await;
    app.await_rows(&format!("select 1 from outbox where subscriber_id = '{CONTACT}' and kind = 'reply'"))
        .await;
    app.await_that("select 1 from rs_owed", <[_]>::is_empty).await;
}
