//! Flights, slow databases, killed processes.

use std::time::Duration;

use manychat_agent::store::embedded::testing::TestServer;
use serde_json::json;

use crate::answers::{free_lane, hold_lane};
use crate::app::{ABORTED, BEAT, CONTACT, DEAD, LOST, PATIENCE, Setup, TestApp};
use crate::proxy::Proxy;

async fn behind_proxy(delay: Duration, setup: Setup) -> (TestApp, Proxy) {
    let database = TestServer::database().unwrap();
    let proxy = Proxy::start(database.config(), delay).await;
    let url = proxy.url(database.name());
    // A beat would count as a flight.
    let setup = setup.env("PROCESS_BEAT_MS", "600000").env("PROCESS_DEAD_MS", "3600000");
    let mut app = Setup { database: Some(database), database_url: Some(url), ..setup }.prepare().await;
    // Looks of the outbox worker would count as flights too.
    app.arguments.push("--no-workers");
    app.launch().await;
    (app, proxy)
}

/// ARC-30, ARC-33: a turn without tools costs two flights before its answer; the confirmation is a third behind it.
#[tokio::test]
async fn a_turn_costs_two_flights() {
    let delay = Duration::from_millis(100);
    let (mut app, proxy) = behind_proxy(delay, Setup::default()).await;
    // ARC-34: what earlier turns have done is read in the same flight.
    let tools = json!({ "flows": [{ "id": "leaflet", "flowNs": "content20300101000000_000009", "description": "x" }] });
    std::fs::write(app.folder.path.join("config/tools.json"), tools.to_string()).unwrap();
    app.stop(libc::SIGTERM).await;
    app.launch().await;
    // The first message issues a token, and its write asks for a place in ManyChat's rate.
    app.send("hello").await;
    app.log_line("contact token write failed").await;
    for text in ["hello", "how much is it?", "this is a scam", "begin larkspur chat"] {
        let mut costs = Vec::new();
        // Of several, because the process asks for something by itself now and then.
        while !costs.contains(&3) {
            assert!(costs.len() < 8, "flights with the confirmation of {text:?}: {costs:?}");
            costs.push(flights_of(&app, &proxy, text, delay).await);
        }
    }
}

/// The flights of a message. The confirmation leaves with the answer's last byte, so only the sum can be observed for
/// certain.
async fn flights_of(app: &TestApp, proxy: &Proxy, text: &str, delay: Duration) -> u64 {
    app.await_that("select 1 from rs_owed", <[_]>::is_empty).await;
    // Without a free connection the turn would open one.
    app.await_free_connections().await;
    tokio::time::sleep(delay * 3).await;
    let before = proxy.flights();
    assert_eq!(app.send(text).await.status, 200);
    app.await_that("select 1 from rs_owed", <[_]>::is_empty).await;
    proxy.flights() - before
}

/// ARC-30, TOK-20, TOK-23: a token is issued inside Open's flight; what its write needs is asked for beside the turn.
#[tokio::test]
async fn issuing_a_token_costs_the_turn_no_flight() {
    let delay = Duration::from_millis(100);
    let (app, proxy) = behind_proxy(delay, Setup::default()).await;
    app.send("hello").await;
    let mut costs = Vec::new();
    // A question of its own each time: a repeated reply would be replaced.
    let questions = [
        ("how much is it?", "$450.00"),
        ("is there a certificate?", "certificate"),
        ("is a kit included?", "practice kit"),
    ];
    for (round, (question, told)) in questions.into_iter().enumerate() {
        app.await_that("select 1 from rs_owed", <[_]>::is_empty).await;
        app.run("update conversations set token_issued_at = null, rs_reissued_at = null").await;
        app.await_free_connections().await;
        tokio::time::sleep(delay * 5).await;
        let before = proxy.flights();
        let answer = app.send(question).await;
        assert!(answer.texts()[0].contains(told), "{}", answer.body);
        app.await_that("select 1 from rs_owed", <[_]>::is_empty).await;
        let rows = app.rows("select 1 from outbox where kind = 'contact_token'").await;
        assert_eq!(rows.len(), round + 2, "a token was issued");
        app.log_lines("contact token write failed", round + 2).await;
        costs.push(proxy.flights() - before);
    }
    // Open, Settle and the confirmation, and the place in ManyChat's rate, which the turn does not wait for. A connection
    // that happens to be opened adds to one round, and flights that share a connection can count as one: the middle one
    // of three tells.
    costs.sort_unstable();
    assert!(costs[1] <= 4, "{costs:?}");
}

/// ARC-31, ARC-42, GAP-CH-5: a database that stops answering ends in the handoff copy, in time, and nothing of it
/// holds the contact up afterwards.
#[tokio::test]
async fn a_stalled_database_ends_in_the_handoff_in_time() {
    let setup = Setup::default().env("RACE_DEADLINE_MS", LOST);
    let (app, proxy) = behind_proxy(Duration::ZERO, setup).await;
    app.send("hello").await;
    app.await_that("select 1 from rs_owed", <[_]>::is_empty).await;
    // Without a free connection the turn would open one, and its messages would never reach the server.
    app.await_free_connections().await;
    proxy.stall(true);
    let answer = app.send("how much is it?").await;
    assert_eq!((answer.status, answer.texts()), (200, vec![app.copy("escalation")]));
    assert!(answer.elapsed < Duration::from_secs(8), "a flight may take 10 s: {:?}", answer.elapsed);
    proxy.stall(false);
    // The server carried Open out although nobody heard of it: the turn is found by its id and ended.
    let ended = app.await_that("select outcome, text from turns where role = 'agent' order by seq", |rows| {
        rows.len() == 2
    });
    assert_eq!(ended.await[1], json!({"outcome": "error", "text": app.copy("escalation")}));
    app.await_that("select 1 from rs_owed", <[_]>::is_empty).await;
    assert_eq!(app.rows("select turn_id from rs_lanes").await, [json!({"turn_id": null})]);
    assert_eq!(app.rows("select reason from rs_handoffs").await, [json!({"reason": "low_confidence"})]);
    assert!(app.send("how much is it?").await.texts()[0].contains("$450.00"));
}

/// FAIL-8, DEC-20, ARC-46, GAP-CH-3, GAP-DL-3, CRASH-2: a Settle that fails records nothing and is told as a handoff.
#[tokio::test]
async fn a_refused_settle_records_nothing_and_is_told_as_a_handoff() {
    let app = TestApp::start().await;
    app.send("hello").await;
    // Refuses the agent's row only, as no constraint of ours would.
    app.run("alter table turns add constraint no_agent check (role <> 'agent') not valid").await;
    let answer = app.send("how much is it?").await;
    assert_eq!(answer.texts(), [app.copy("escalation")]);
    let line = app.log_line("turn not settled").await;
    assert_eq!(line["level"], 50);
    assert!(line["conversation"].is_string());
    app.run("alter table turns drop constraint no_agent").await;
    app.await_that("select 1 from rs_owed", <[_]>::is_empty).await;
    let last = app.turns().await.pop().unwrap();
    assert_eq!((&last["outcome"], &last["text"]), (&json!("error"), &json!(app.copy("escalation"))));
}

/// ERR-1, ERR-2, FAIL-8, FAIL-16, AC-CH-23, HTTP-31, WRITE-9: a database error is a handoff, and shows nowhere.
#[tokio::test]
async fn a_broken_table_is_a_handoff_without_details() {
    let app = TestApp::start().await;
    app.run("alter table turns rename to turns_away").await;
    let answer = app.send("my number is +1 555 010 7788, what is the price?").await;
    assert_eq!((answer.status, answer.texts()), (200, vec![app.copy("escalation")]));
    assert_eq!(app.log_line("unhandled error").await["level"], 50);
    for word in ["555 010", "turns_away", "relation", CONTACT] {
        assert!(!app.output().contains(word), "{word} in the log");
        assert!(!answer.body.contains(word), "{word} in the answer");
    }
    assert_eq!(app.get("/ready").await.unwrap().status, 200, "/ready only asks for select 1");
    app.run("alter table turns_away rename to turns").await;
    assert!(app.send("how much is it?").await.texts()[0].contains("$450.00"));
}

/// ARC-42, ARC-44, ARC-45: what a killed process held is free when its beats are too old, not only when its lease
/// ends.
#[tokio::test]
async fn the_lane_of_a_killed_process_becomes_free() {
    let setup = Setup::default()
        .env("AGENT_MODEL", "mock:slow")
        .env("RACE_DEADLINE_MS", LOST)
        .env("MODEL_ABORT_MS", "40000")
        .env("PROCESS_BEAT_MS", BEAT)
        .env("PROCESS_DEAD_MS", DEAD);
    let mut app = setup.start().await;
    assert_eq!(app.send("how much is it?").await.texts(), [app.copy("acknowledgement")]);
    app.stop(libc::SIGKILL).await;
    let held =
        "select 1 from rs_lanes where turn_id is not null and expires_at > now() + interval '20 seconds'";
    assert_eq!(app.rows(held).await.len(), 1, "the lease of the dead process still runs");
    let owed = app.rows("select status, binding, process_id from rs_owed").await;
    assert_eq!(
        (owed.len(), &owed[0]["status"]),
        (1, &json!("running")),
        "the owed reply outlives the process"
    );
    app.env.insert("AGENT_MODEL".to_owned(), "mock:demo".to_owned());
    app.env.insert("RACE_DEADLINE_MS".to_owned(), "20000".to_owned());
    app.launch().await;
    // It waits for the turn that is still owed, and its reply goes out behind that one's (DEC-35, LANE-6).
    assert_eq!(app.send("how much is the foundation course?").await.texts(), [] as [String; 0]);
    app.await_that("select 1 from outbox where kind = 'reply'", |rows| rows.len() == 2).await;
    let turns = app.turns().await;
    assert_eq!((turns.len(), &turns[3]["outcome"]), (4, &json!("answered_inline")), "{turns:?}");
}

/// ARC-49, OPS-5, CLI-24, GAP-DB-7: an orderly end answers what is open, leaves no lane, no owed reply and no process row.
#[tokio::test]
async fn an_orderly_end_answers_what_is_open_and_leaves_nothing() {
    let mut app = Setup::default()
        .env("AGENT_MODEL", "mock:slow")
        .env("RACE_DEADLINE_MS", LOST)
        .env("MODEL_ABORT_MS", ABORTED)
        .start()
        .await;
    let open = app.send_later(CONTACT, "how much is it?");
    app.await_rows("select 1 from rs_owed where status = 'running'").await;
    let status = app.stop(libc::SIGTERM).await;
    assert_eq!(status.code(), Some(0));
    assert_eq!(open.await.unwrap().texts(), [app.copy("acknowledgement")]);
    assert_eq!(app.rows("select 1 from rs_owed").await.len(), 0);
    assert_eq!(app.rows("select 1 from rs_lanes where turn_id is not null").await.len(), 0);
    assert_eq!(app.rows("select 1 from rs_processes").await.len(), 0);
    assert_eq!(
        app.rows("select payload from outbox where kind = 'reply'").await.len(),
        1,
        "the late reply is queued"
    );
    assert_eq!(app.logs("shutting down")[0]["signal"], "SIGTERM");
}

/// CLI-24: a second signal ends at once.
#[tokio::test]
async fn a_second_signal_ends_at_once() {
    let mut app = Setup::default()
        .env("AGENT_MODEL", "mock:slow")
        .env("RACE_DEADLINE_MS", "20000")
        .env("MODEL_ABORT_MS", "60000")
        .start()
        .await;
    let open = app.send_later(CONTACT, "how much is it?");
    app.await_rows("select 1 from rs_owed where status = 'running'").await;
    app.signal(libc::SIGINT);
    app.log_line("shutting down").await;
    let started = std::time::Instant::now();
    app.stop(libc::SIGINT).await;
    assert!(started.elapsed() < Duration::from_secs(15), "{:?}", started.elapsed());
    open.abort();
}

/// CLI-24, ARC-49: nor does it wait for a database that is away, when nothing but the end of the heartbeat is left to do.
#[tokio::test]
async fn a_second_signal_does_not_wait_for_the_database() {
    let (mut app, proxy) = behind_proxy(Duration::ZERO, Setup::default()).await;
    proxy.stall(true);
    app.signal(libc::SIGTERM);
    let until = std::time::Instant::now() + PATIENCE;
    while app.get("/health").await.is_some() {
        assert!(std::time::Instant::now() < until, "the port stays open: {}", app.output());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let started = std::time::Instant::now();
    app.stop(libc::SIGTERM).await;
    assert!(started.elapsed() < Duration::from_millis(1500), "{:?}", started.elapsed());
    app.log_line("second signal: ending at once").await;
}

/// ARC-45, ARC-40: a settle that carries an old fence records and sends nothing of its reply; the turn of a process that
/// lives ends with a person, and leaves no owed row behind.
#[tokio::test]
async fn a_superseded_turn_ends_with_a_person() {
    let app = Setup::default()
        .env("AGENT_MODEL", "mock:slow")
        .env("RACE_DEADLINE_MS", LOST)
        .env("MODEL_ABORT_MS", "9000")
        .start()
        .await;
    app.send("how much is it?").await;
    app.run("update rs_lanes set fence = fence + 1").await;
    app.log_line("turn superseded").await;
    app.await_that("select 1 from rs_owed", <[_]>::is_empty).await;
    let queued = app.rows("select payload from outbox where kind = 'reply'").await;
    assert_eq!(queued, [json!({"payload": {"messages": [app.copy("escalation")]}})]);
    let turns = app.turns().await;
    assert_eq!((turns.len(), &turns[1]["outcome"]), (2, &json!("error")));
    assert_eq!(app.rows("select 1 from rs_handoffs").await.len(), 1);
}

/// ARC-32, GAP-CH-7, ARC-40: a caller who hung up gets the reply through the outbox, once.
#[tokio::test]
async fn a_caller_that_hangs_up_gets_the_reply_through_the_outbox() {
    let app = TestApp::start().await;
    app.send("hello").await;
    hold_lane(&app).await;
    let request = app.raw_request("how much is it?");
    app.await_rows("select 1 from rs_inbox").await;
    drop(request);
    tokio::time::sleep(Duration::from_millis(100)).await;
    free_lane(&app).await;
    let queued = app.await_rows("select payload from outbox where kind = 'reply'").await;
    assert!(queued[0]["payload"]["messages"][0].as_str().unwrap().contains("$450.00"), "{queued:?}");
    app.await_that("select 1 from rs_owed", <[_]>::is_empty).await;
    assert_eq!(app.turns().await[3]["outcome"], "answered_inline");
    assert_eq!(app.rows("select 1 from outbox where kind = 'reply'").await.len(), 1);
}
