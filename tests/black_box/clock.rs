//! The database's clock is set forward or back, or a standby with another clock takes over: the tests move the stored times,
//! which is the same.

use std::time::Duration;

use crate::app::{DEAD_AFTER, TestApp};
use crate::delivery::{asked, queue};
use crate::recovery::short_lived;
use crate::stub_manychat::{SET_FIELD, StubManyChat};

const BEN: &str = "82";

async fn answered_once(app: &TestApp) {
    let turns = app.rows("select text from turns where role = 'agent'").await;
    assert_eq!(turns.len(), 1, "{turns:?}");
    assert!(turns[0]["text"].as_str().unwrap().contains("$450.00"), "{turns:?}");
}

/// ARC-43, ARC-44: a process that is alone when the clock is set forward takes nobody for dead, itself included: its turn runs
/// once, and its contact gets each text once.
#[tokio::test]
async fn a_step_forward_makes_a_living_process_dead_to_nobody() {
    let stub = StubManyChat::start().await;
    let app = short_lived()
        .env("MANYCHAT_API_TOKEN", "1234:a-key-of-the-stub")
        .env("MANYCHAT_API_BASE", &stub.url)
        .env("MANYCHAT_REPLY_FLOW_NS", "content_reply")
        .env("MANYCHAT_REPLY_GAP_MS", "1000")
        .start()
        .await;
    // From now on it may call others dead.
    tokio::time::sleep(DEAD_AFTER + Duration::from_secs(1)).await;
    assert_eq!(app.send("how much is it?").await.texts(), [app.copy("acknowledgement")]);
    queue(&app, BEN, &["one", "two", "three", "four"]).await;
    stub.await_call(SET_FIELD).await;
    app.run("update rs_processes set beat_at = beat_at - interval '25 seconds'").await;
    let delivered = "select 1 from outbox where kind = 'reply' and status = 'delivered'";
    app.await_that(delivered, |rows| rows.len() == 2).await;
    let texts = ["one", "two", "three", "four"];
    assert_eq!(asked(&stub, BEN), texts.map(|text| [text, "play"]).concat());
    answered_once(&app).await;
    let output = app.output();
    assert!(!output.contains("dead process taken over"), "{output}");
    assert!(!output.contains("new process id"), "{output}");
}

/// ARC-42, ARC-44: a process that died before the clock was set back is dead all the same, and its turn is run.
#[tokio::test]
async fn a_step_back_makes_nobody_immortal() {
    let mut app = short_lived().start().await;
    assert_eq!(app.send("how much is it?").await.texts(), [app.copy("acknowledgement")]);
    app.stop(libc::SIGKILL).await;
    app.run("update rs_processes set beat_at = beat_at + interval '1 hour'").await;
    app.env.insert("AGENT_MODEL".to_owned(), "mock:demo".to_owned());
    app.launch().await;
    app.await_that("select 1 from outbox where kind = 'reply'", |rows| rows.len() == 1).await;
    answered_once(&app).await;
}
