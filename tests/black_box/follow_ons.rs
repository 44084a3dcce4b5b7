//! A process dies between a payment link that ManyChat has accepted and what was to follow it: whoever takes the turn over
//! makes it, once, however the turn then ends (ARC-41, ARC-46, FN-LINK-1).

use std::time::{Duration, Instant};

use serde_json::Value;

use crate::acts::{ACTIONS, CHAIN, selling, short};
use crate::app::{PATIENCE, TestApp};
use crate::stub_manychat::StubManyChat;

const LINK: &str = "content00000000000000_900007";
const STAGE: &str = "link_sent";
const EVENT: &str = "content00000000000000_900102";

/// What ManyChat was asked for of the link and what follows it, in order.
fn asked(stub: &StubManyChat) -> Vec<String> {
    let word = |body: &Value, key: &str| body[key].as_str().unwrap_or_default().to_owned();
    let name = |body: &Value| match body["field_name"] == "sale_stage" {
        true => word(body, "field_value"),
        false => word(body, "flow_ns"),
    };
    let calls = stub.calls().into_iter().map(|call| name(&call.body));
    calls.filter(|name| [LINK, STAGE, EVENT].contains(&name.as_str())).collect()
}

/// A contact has asked for the link, and the process has ended itself at this point. A follow-up is planned.
async fn died_at(stub: &StubManyChat, point: &str) -> TestApp {
    let (setup, _) = selling(stub);
    let setup = setup.env("MODEL_ABORT_MS", "20000").env("PROCESS_BEAT_MS", "300");
    let mut app = setup.env("PROCESS_DEAD_MS", "1500").env("CRASH_AT", point).start().await;
    drop(app.raw_request("please send me the link"));
    ended(&mut app).await;
    assert_eq!(asked(stub), [LINK]);
    app.run(
        "insert into nudges (conversation_id, due_at) select id, now() + interval '1 day' from conversations",
    )
    .await;
    app
}

async fn ended(app: &mut TestApp) {
    let until = Instant::now() + PATIENCE;
    while app.exited().is_none() {
        assert!(Instant::now() < until, "the point was not passed: {}", app.output());
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

async fn launch_again(app: &mut TestApp, point: &str) {
    app.env.insert("CRASH_AT".to_owned(), point.to_owned());
    app.launch().await;
}

/// The outcome of the turn, and its record in short, when none of its entries is staged any more.
async fn record(app: &TestApp) -> (String, Value) {
    let ended = |rows: &[Value]| rows.len() == 1 && !rows[0]["actions"].to_string().contains("staged");
    let row = app.await_that(ACTIONS, ended).await.remove(0);
    (row["outcome"].as_str().unwrap_or_default().to_owned(), row["actions"].clone())
}

async fn follow_up(app: &TestApp) -> String {
    app.rows("select status, cancel_reason from nudges").await.remove(0).to_string()
}

/// ARC-41, ARC-46, FN-LINK-1, FN-LINK-3, FN-LINK-9, FN-LINK-10: the second run has the chain made before anything else, and
/// sends no link again.
#[tokio::test(flavor = "multi_thread")]
async fn a_second_run_makes_what_was_to_follow_the_link() {
    let stub = StubManyChat::start().await;
    let mut app = died_at(&stub, "flow_recorded").await;
    launch_again(&mut app, "").await;
    let (outcome, record) = record(&app).await;
    assert_eq!((outcome.as_str(), short(&record)), ("deferred", CHAIN.map(str::to_owned).to_vec()));
    assert_eq!(asked(&stub), [LINK, STAGE, EVENT]);
    let told = follow_up(&app).await;
    assert!(told.contains("cancelled") && told.contains(STAGE), "{told}");
}

/// ARC-41, ARC-46, FN-LINK-7: so does a turn that ends with a person because it is too old.
#[tokio::test(flavor = "multi_thread")]
async fn a_turn_that_ends_with_a_person_makes_it_too() {
    let stub = StubManyChat::start().await;
    let mut app = died_at(&stub, "flow_recorded").await;
    app.run("update rs_owed set received_at = received_at - interval '16 minutes'").await;
    launch_again(&mut app, "").await;
    let (outcome, record) = record(&app).await;
    assert_eq!((outcome.as_str(), short(&record)), ("error", CHAIN.map(str::to_owned).to_vec()));
    assert_eq!(asked(&stub), [LINK, STAGE, EVENT]);
    assert!(follow_up(&app).await.contains(STAGE));
}

/// ARC-41, ARC-46: a second death over the write leaves it attempted: the turn ends with a person, nobody makes it again, and
/// the record says that nobody knows.
#[tokio::test(flavor = "multi_thread")]
async fn a_second_death_over_the_write_makes_it_no_second_time() {
    let stub = StubManyChat::start().await;
    let mut app = died_at(&stub, "flow_recorded").await;
    app.env.insert("CRASH_AT".to_owned(), "attempt_written".to_owned());
    app.spawn();
    ended(&mut app).await;
    launch_again(&mut app, "").await;
    let (outcome, record) = record(&app).await;
    let expected = ["send_flow enrolment_link performed", "set_field funnel_stage=link_sent failed"];
    assert_eq!((outcome.as_str(), &short(&record)[..]), ("error", &expected.map(str::to_owned)[..]));
    assert!(record[1]["error"].as_str().unwrap().starts_with("outcome unknown"), "{record}");
    assert_eq!(asked(&stub), [LINK]);
}

/// ARC-41, ARC-46: a second death before the write, of a turn that then ends with a person without another run.
#[tokio::test(flavor = "multi_thread")]
async fn the_third_process_makes_what_the_second_did_not() {
    let stub = StubManyChat::start().await;
    let mut app = died_at(&stub, "flow_recorded").await;
    app.run("update rs_owed set second_run = true").await;
    launch_again(&mut app, "").await;
    let (outcome, record) = record(&app).await;
    assert_eq!((outcome.as_str(), short(&record)), ("error", CHAIN.map(str::to_owned).to_vec()));
    assert_eq!(asked(&stub), [LINK, STAGE, EVENT]);
}

/// FN-LINK-2, ARC-41: a link of which nobody knows whether ManyChat took it writes no stage.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_follows_a_link_whose_outcome_is_unknown() {
    let stub = StubManyChat::start().await;
    let mut app = died_at(&stub, "flow_accepted").await;
    launch_again(&mut app, "").await;
    let (_, record) = record(&app).await;
    assert_eq!(short(&record), ["send_flow enrolment_link failed"], "{record}");
    assert_eq!(asked(&stub), [LINK]);
    assert!(follow_up(&app).await.contains("pending"));
}

/// ARC-41: where a turn of the contact has settled since, it is not made any more, and the record says why.
#[tokio::test(flavor = "multi_thread")]
async fn a_turn_that_settled_since_comes_before_it() {
    let stub = StubManyChat::start().await;
    let mut app = died_at(&stub, "flow_recorded").await;
    app.run(
        "update rs_owed set received_at = received_at - interval '16 minutes';
         insert into turns (conversation_id, role, text, bound) select id, 'agent', 'later', false from conversations",
    )
    .await;
    launch_again(&mut app, "").await;
    let ended = "select actions from turns where role = 'agent' and text <> 'later'";
    let record = app.await_rows(ended).await.remove(0)["actions"].clone();
    let expected = ["send_flow enrolment_link performed", "set_field funnel_stage=link_sent failed"];
    assert_eq!(short(&record), expected);
    assert_eq!(record[1]["error"], "process ended first");
    assert_eq!(asked(&stub), [LINK]);
}

/// ARC-46, ARC-41: after a day nothing is sent, an event as little as a text; the stage is written, for the contact has the
/// link.
#[tokio::test(flavor = "multi_thread")]
async fn after_a_day_the_stage_is_written_and_nothing_is_sent() {
    let stub = StubManyChat::start().await;
    let mut app = died_at(&stub, "flow_recorded").await;
    app.run(
        "update rs_owed set received_at = received_at - interval '25 hours';
         update conversations set last_message_at = last_message_at - interval '25 hours'",
    )
    .await;
    launch_again(&mut app, "").await;
    let (_, record) = record(&app).await;
    assert_eq!(short(&record), CHAIN[..2]);
    assert_eq!(asked(&stub), [LINK, STAGE]);
}
