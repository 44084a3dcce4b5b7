//! A turn that sends a flow and stages an action: what goes out in which order, and what happens while the flow plays
//! (08 sections 6 to 9).

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use crate::app::{Setup, TestApp};
use crate::handoffs;
use crate::stub_manychat::{ADD_TAG, SEND_FLOW, StubManyChat};
use crate::stub_model::StubModel;

const TEXTS: [&str; 2] = ["We are open.", "Bring a friend."];
const QUESTION: &str = "Which day suits you?";
/// As one response holds them (CHC-3).
const FOLDED: &str = "We are open.\n\nBring a friend.\n\nWhich day suits you?";
const REPLIES: &str = "select payload, next_attempt_at > now() + interval '10 seconds' as later
                       from outbox where kind = 'reply'";

/// A flow that plays so long that its reply cannot go inline, one that plays a moment, one that plays no time, and a tag.
fn shop(tools: &mut Value) {
    let flow = |id: &str, seconds: u8| {
        json!({ "id": id, "flowNs": format!("content_{id}"), "description": "A look around.",
                "settleSeconds": seconds })
    };
    *tools = json!({
        "flows": [flow("tour", 0), flow("clip", 1), flow("film", 25)],
        "tags": [{ "id": "keen", "tag": "keen-tag", "description": "Likes it." }],
    });
}

/// With a model that makes one call a step, in this order, and then replies, after `pause`.
fn acting(stub: &StubManyChat, calls: &'static [(&'static str, &'static str)], pause: Duration) -> Setup {
    let model = StubModel::answering(Arc::new(move |body| {
        let messages = body["messages"].as_array().unwrap();
        let done = messages.iter().filter(|message| message["role"] == "tool").count();
        if let Some((tool, id)) = calls.get(done) {
            let key = if *tool == "send_flow" { "flow" } else { "tag" };
            return json!({ "call": tool, "arguments": { (key): id } });
        }
        std::thread::sleep(pause);
        json!({ "messages": TEXTS, "closing_question": QUESTION,
                "escalate": false, "escalation_reason": null, "confidence": 0.9 })
    }));
    handoffs::with(stub)
        .tools(shop)
        .env("AGENT_MODEL", "openai:stub")
        .env("OPENAI_API_KEY", "any-key")
        .env("OPENAI_BASE_URL", model.base_url)
}

/// The actions on the record of the only agent's turn: `tool id status`.
async fn on_record(app: &TestApp) -> Vec<String> {
    let turns = app.turns().await;
    let actions = turns[1]["actions"].as_array().cloned().unwrap_or_default();
    let word = |entry: &Value, key: &str| entry[key].as_str().unwrap().to_owned();
    actions.iter().map(|one| ["tool", "id", "status"].map(|key| word(one, key)).join(" ")).collect()
}

/// AFTER-2, AFTER-8, PERF-4, FLOW-1, QST-1, WAIT-8, PACE-7, acceptance 5 and 6 of 08: the flow is out before the
/// response, the response waits for nothing behind it, its texts are not spaced, and the question is the last of them.
#[tokio::test]
async fn a_flow_goes_before_its_reply_and_a_tag_behind_it() {
    let stub = StubManyChat::start().await;
    stub.fall_silent(ADD_TAG);
    let calls = &[("add_tag", "keen"), ("send_flow", "tour")];
    let gap = ("MANYCHAT_REPLY_GAP_MS", "10000");
    let app = acting(&stub, calls, Duration::ZERO).env(gap.0, gap.1).start().await;
    let answer = app.send("hello").await;
    assert_eq!(answer.texts(), [FOLDED]);
    let [flow] = &stub.calls_to(SEND_FLOW)[..] else { panic!("one flow: {:?}", stub.calls()) };
    assert_eq!(flow.body["flow_ns"], "content_tour");
    assert_eq!(stub.await_call(ADD_TAG).await.body["tag_name"], "keen-tag");
    assert_eq!(on_record(&app).await, ["add_tag keen staged", "send_flow tour performed"]);
}

/// WAIT-2, WAIT-3, WAIT-7: a reply whose flow ends before the deadline is kept back as long, and the log says so.
#[tokio::test]
async fn a_reply_is_held_while_its_flow_plays() {
    let stub = StubManyChat::start().await;
    let app = acting(&stub, &[("send_flow", "clip")], Duration::ZERO).start().await;
    let answer = app.send("hello").await;
    assert_eq!(answer.texts(), [FOLDED]);
    assert!(answer.elapsed >= Duration::from_secs(1), "{:?}", answer.elapsed);
    let line = app.log_line("reply held for flow").await;
    assert_eq!((&line["path"], &line["level"]), (&json!("inline"), &json!(30)));
    assert!((1..=1000).contains(&line["heldMs"].as_u64().unwrap()), "{line}");
    let id = app.rows("select id from conversations").await[0]["id"].clone();
    assert_eq!(line["conversation"], id);
}

/// WAIT-2, WAIT-7, AFTER-9, QST-1, TCFG-5, acceptance 19 of 08: past the deadline the reply goes through the outbox, due
/// when the flow has played, with its actions; these keep the names they were staged with, whatever is reloaded.
#[tokio::test]
async fn a_reply_behind_a_long_flow_takes_its_actions_along() {
    let stub = StubManyChat::start().await;
    let calls = &[("add_tag", "keen"), ("send_flow", "film")];
    let app = acting(&stub, calls, Duration::ZERO).start().await;
    let answer = app.send("hello").await;
    assert_eq!((answer.status, answer.texts().len()), (200, 0));
    let row = app.await_rows(REPLIES).await.remove(0);
    assert_eq!(row["payload"]["messages"], json!([TEXTS[0], TEXTS[1], QUESTION]));
    assert_eq!((&row["later"], &row["payload"]["actions"][0]["id"]), (&json!(true), &json!("keen")));
    let line = app.log_line("reply held for flow").await;
    assert_eq!(line["path"], "outbox");
    assert!((15_000..=25_000).contains(&line["heldMs"].as_u64().unwrap()), "{line}");
    assert_eq!(app.turns().await[1]["outcome"], "answered_inline");

    let path = app.folder.path.join("config/tools.json");
    let renamed = std::fs::read_to_string(&path).unwrap().replace("keen-tag", "other-tag");
    std::fs::write(path, renamed).unwrap();
    app.signal(libc::SIGHUP);
    app.log_line("config reloaded").await;
    app.run("update outbox set next_attempt_at = now()").await;
    assert_eq!(stub.await_call(ADD_TAG).await.body["tag_name"], "keen-tag");
    let flows: Vec<_> =
        stub.calls_to(SEND_FLOW).into_iter().map(|call| call.body["flow_ns"].clone()).collect();
    assert_eq!(flows, ["content_film", "content_reply", "content_reply", "content_reply"]);
    app.await_that("select actions from turns where role = 'agent'", |rows| {
        rows[0]["actions"][0]["status"] == "performed"
    })
    .await;
}

/// WAIT-5, and FAIL-10, FAIL-15 and WAIT-6 as FAIL-12 and DEC-19 decide them: a call that is aborted after a silent
/// response leaves the escalation copy, due when the flow has played; the flow stays on record, the contact is marked.
#[tokio::test]
async fn an_abort_behind_a_long_flow_ends_with_a_person() {
    let stub = StubManyChat::start().await;
    let calls = &[("add_tag", "keen"), ("send_flow", "film")];
    let setup = acting(&stub, calls, Duration::from_secs(6)).env("RACE_DEADLINE_MS", "2000");
    let app = setup.env("MODEL_ABORT_MS", "3500").start().await;
    let answer = app.send("hello").await;
    assert_eq!((answer.status, answer.texts().len()), (200, 0), "the flow plays: no holding line");
    let row = app.await_rows(REPLIES).await.remove(0);
    assert_eq!(row, json!({ "payload": { "messages": [app.copy("escalation")] }, "later": true }));
    let turn = app.turns().await.remove(1);
    assert_eq!((&turn["outcome"], &turn["text"]), (&json!("error"), &json!(app.copy("escalation"))));
    assert_eq!(on_record(&app).await, ["add_tag keen discarded", "send_flow film performed"]);
    assert_eq!(app.rows("select 1 from conversations where escalated_at is not null").await.len(), 1);
    assert_eq!(stub.calls_to(ADD_TAG).len(), 0);
}

/// WAIT-4 as DEC-20 decides it, FAIL-15: a reply that waits for a flow and cannot be queued is not recorded; the contact
/// reads the escalation copy in time, nothing staged is performed, and the flow stays on record.
#[tokio::test]
async fn a_held_reply_that_cannot_be_queued_ends_with_a_person() {
    let stub = StubManyChat::start().await;
    let calls = &[("add_tag", "keen"), ("send_flow", "film")];
    let app = acting(&stub, calls, Duration::ZERO).start().await;
    app.run("alter table outbox add constraint no_reply check (kind <> 'reply') not valid").await;
    assert_eq!(app.send("hello").await.texts(), [app.copy("escalation")]);
    assert_eq!(app.log_line("turn not settled").await["level"], 50);
    app.await_that("select 1 from rs_owed", <[_]>::is_empty).await;
    let turn = app.turns().await.remove(1);
    assert_eq!((&turn["outcome"], &turn["text"]), (&json!("error"), &json!(app.copy("escalation"))));
    assert_eq!(on_record(&app).await, ["send_flow film performed"]);
    assert_eq!(stub.calls_to(ADD_TAG).len(), 0);
}

/// AFTER-5: outcomes that cannot be written are told in the log, are tried again, and the actions are not.
#[tokio::test]
async fn outcomes_that_cannot_be_written_are_told_and_written_later() {
    for (flow, told) in [("tour", "inline actions not recorded"), ("film", "deferred actions not recorded")] {
        let stub = StubManyChat::start().await;
        let calls: &[_] = match flow {
            "tour" => &[("add_tag", "keen"), ("send_flow", "tour")],
            _ => &[("add_tag", "keen"), ("send_flow", "film")],
        };
        let app = acting(&stub, calls, Duration::ZERO).start().await;
        app.run(
            "create function refuse() returns trigger language plpgsql as
               $$begin raise exception 'no record today'; end$$;
             create trigger refuse before update of actions on turns for each row execute function refuse()",
        )
        .await;
        assert_eq!(app.send("hello").await.status, 200);
        app.await_that("select 1 from turns", |rows| rows.len() == 2).await;
        app.run("update outbox set next_attempt_at = now() where kind = 'reply'").await;
        let line = app.log_line(told).await;
        assert_eq!(line["level"], 50, "{line}");
        assert_eq!(on_record(&app).await[0], "add_tag keen staged");
        app.run("drop trigger refuse on turns").await;
        let record = "select actions from turns where role = 'agent'";
        app.await_that(record, |rows| rows[0]["actions"][0]["status"] == "performed").await;
        assert_eq!(stub.calls_to(ADD_TAG).len(), 1, "{told}");
    }
}

/// PERF-9, FLOW-6, acceptance 29 of 08: without ManyChat's key the turn answers as usual; every action has failed, and its
/// record names the variable.
#[tokio::test]
async fn without_a_key_actions_fail_and_say_why() {
    let stub = StubManyChat::start().await;
    let calls = &[("add_tag", "keen"), ("send_flow", "film")];
    let mut app = acting(&stub, calls, Duration::ZERO).prepare().await;
    app.env.remove("MANYCHAT_API_TOKEN");
    app.launch().await;
    assert_eq!(app.send("hello").await.texts(), [FOLDED], "a flow that was not sent does not play");
    let record = "select actions from turns where role = 'agent'";
    app.await_that(record, |rows| rows[0]["actions"][0]["status"] == "failed").await;
    let turn = app.turns().await.remove(1);
    for entry in turn["actions"].as_array().unwrap() {
        assert_eq!(entry["status"], "failed", "{turn}");
        assert!(entry["error"].as_str().unwrap().contains("MANYCHAT_API_TOKEN"), "{turn}");
    }
    assert!(stub.calls().is_empty());
}
