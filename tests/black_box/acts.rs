//! What a turn has done: on its record, whatever becomes of the turn, and in what the next turn is told of it (08 sections 6
//! and 12, ARC-41, ARC-46).

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::app::{BEAT, CONTACT, DEAD, SECRET, Setup};
use crate::handoffs;
use crate::stub_manychat::{SEND_FLOW, StubManyChat};
use crate::stub_model::StubModel;

pub const ACTIONS: &str = "select actions, outcome from turns where role = 'agent' order by seq";

/// A model that sends the payment link to who asks for it and then takes its time; to anybody else it says hello. What it
/// was asked is kept.
pub fn selling(stub: &StubManyChat) -> (Setup, Arc<Mutex<Vec<String>>>) {
    let asked: Arc<Mutex<Vec<String>>> = Arc::default();
    let kept = Arc::clone(&asked);
    let model = StubModel::answering(Arc::new(move |body| {
        let messages = body["messages"].as_array().unwrap();
        let from = messages.iter().rposition(|message| message["role"] == "user").unwrap();
        let text = messages[from]["content"].to_string();
        kept.lock().unwrap().push(text.clone());
        match messages.len() - from {
            _ if !text.contains("the link") => json!({ "messages": ["Hello."], "closing_question": null,
                "escalate": false, "escalation_reason": null, "confidence": 0.9 }),
            1 => json!({ "call": "set_field", "arguments": { "field": "intent", "value": "prospect" } }),
            3 => {
                json!({ "call": "send_flow", "arguments": { "flow": "enrolment_link", "contactAsked": true } })
            }
            _ => {
                std::thread::sleep(Duration::from_secs(5));
                Value::Null
            }
        }
    }));
    let setup = handoffs::with(stub)
        .tools(|_| {})
        .env("CONTACT_TOKENS_ENFORCED", "false")
        .env("AGENT_MODEL", "openai:stub")
        .env("OPENAI_API_KEY", "any-key")
        .env("OPENAI_BASE_URL", model.base_url)
        .env("RACE_DEADLINE_MS", "1000");
    (setup, asked)
}

/// `tool id[=value] status` of each entry.
pub fn short(record: &Value) -> Vec<String> {
    let word = |entry: &Value, key: &str| entry[key].as_str().unwrap_or_default().to_owned();
    let value = |entry: &Value| entry["value"].as_str().map(|value| format!("={value}")).unwrap_or_default();
    let entry = |one: &Value| {
        format!("{} {}{} {}", word(one, "tool"), word(one, "id"), value(one), word(one, "status"))
    };
    record.as_array().map(|entries| entries.iter().map(entry).collect()).unwrap_or_default()
}

/// What the model is shown of a turn with these words.
async fn shown(asked: &Mutex<Vec<String>>, words: &str) -> String {
    let until = Instant::now() + Duration::from_secs(30);
    loop {
        let found = asked.lock().unwrap().iter().rfind(|text| text.contains(words)).cloned();
        match found {
            Some(text) => return text,
            None => assert!(Instant::now() < until, "the model was not asked: {words}"),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

pub const CHAIN: [&str; 3] = [
    "send_flow enrolment_link performed",
    "set_field funnel_stage=link_sent performed",
    "send_event link_out performed",
];

/// FLOW-7, FN-STAGE-2, ARC-45, acceptance 17 of 08: a turn whose model is given up waits for what ManyChat is slow to answer,
/// and for what follows it, longer than its lane was taken for; the real outcomes are on record, and the next turn knows
/// them.
#[tokio::test(flavor = "multi_thread")]
async fn an_aborted_turn_waits_for_its_chain() {
    let stub = StubManyChat::start().await;
    stub.hold(CONTACT);
    let (setup, asked) = selling(&stub);
    let app = setup.env("MODEL_ABORT_MS", "3500").start().await;
    let began = Instant::now();
    assert_eq!(app.send("please send me the link").await.texts(), [app.copy("acknowledgement")]);
    stub.await_call(SEND_FLOW).await;
    // The abort and what would be left of the lane for waiting, 3 s: time itself has to pass, less than a request may take.
    tokio::time::sleep(Duration::from_millis(7500).saturating_sub(began.elapsed())).await;
    assert!(app.rows(ACTIONS).await.is_empty(), "nothing is recorded before the outcome is known");
    stub.let_go();
    let record = app.await_rows(ACTIONS).await.remove(0);
    assert_eq!(record["outcome"], "error");
    assert_eq!(short(&record["actions"])[1..], CHAIN, "{record}");
    app.send("hello").await;
    let last = shown(&asked, "hello").await;
    assert!(last.contains("FUNNEL: link_sent"), "{last}");
}

/// ARC-41, ARC-46, TSET-8, FN-STAGE-2: what a turn has sent before its process died stays on record when its second run comes
/// too late for the model.
#[tokio::test(flavor = "multi_thread")]
async fn a_late_second_run_keeps_what_the_first_has_sent() {
    let stub = StubManyChat::start().await;
    let (setup, asked) = selling(&stub);
    let mut app = setup.env("MODEL_ABORT_MS", "20000").env("PROCESS_BEAT_MS", BEAT).start().await;
    app.send("please send me the link").await;
    app.await_that("select 1 from rs_attempts where outcome = 'performed'", |rows| rows.len() == 3).await;
    app.stop(libc::SIGKILL).await;
    app.run("update rs_owed set received_at = received_at - interval '16 minutes'").await;
    app.env.insert("PROCESS_DEAD_MS".to_owned(), DEAD.to_owned());
    app.launch().await;
    let record = app.await_rows(ACTIONS).await.remove(0);
    assert_eq!(record["outcome"], "error");
    assert_eq!(short(&record["actions"]), CHAIN, "{record}");
    app.send("hello").await;
    let last = shown(&asked, "hello").await;
    assert!(last.contains("FUNNEL: link_sent"), "{last}");
}

/// STATE-4, FN-OFF-7, FN-OFF-4: a contact who comes back for another offering is asked about it; one whose offering is not
/// for sale any more is not.
#[tokio::test]
async fn a_changed_offering_is_told_once() {
    let stub = StubManyChat::start().await;
    let (setup, asked) = selling(&stub);
    let app = setup.start().await;
    let told = async |offering: &str| {
        let body = json!({ "subscriber_id": CONTACT, "text": "hello", "offering": offering });
        assert_eq!(app.post(&body.to_string(), Some(SECRET)).await.status, 200);
        let last = asked.lock().unwrap().last().cloned().unwrap();
        let from = last.find("OFFERING: ").unwrap_or_else(|| panic!("{last}"));
        last[from..].split(['"', '\\']).next().unwrap().to_owned()
    };
    assert_eq!(told("foundation").await, "OFFERING: foundation");
    assert!(told("advanced").await.starts_with("OFFERING: changed from foundation to advanced "));
    assert_eq!(told("advanced").await, "OFFERING: advanced");
    app.run("update conversations set offering = 'gone-course'").await;
    assert_eq!(told("foundation").await, "OFFERING: foundation");
}

/// ARC-34, TSET-8, LOG-9: a summary that cannot be read is not taken for one in which nothing was done: what earlier turns did
/// is read from the turns, told once without a word of it, and summed up again.
#[tokio::test]
async fn an_unreadable_summary_is_made_anew() {
    let stub = StubManyChat::start().await;
    let (setup, asked) = selling(&stub);
    let app = setup.start().await;
    let funnel = async || {
        app.send("hello").await;
        asked.lock().unwrap().last().is_some_and(|last| last.contains("FUNNEL: link_sent"))
    };
    assert!(!funnel().await);
    let sold =
        json!([{ "tool": "set_field", "id": "funnel_stage", "value": "link_sent", "status": "performed" }]);
    app.run(&format!("update turns set actions = '{sold}' where role = 'agent'")).await;
    assert!(funnel().await);
    let summary = "select known ->> 'stage' as stage from rs_summaries";
    assert_eq!(app.await_rows(summary).await, [json!({ "stage": "link_sent" })]);

    app.run("update rs_summaries set known = '\"garbled\"'").await;
    assert!(funnel().await);
    assert_eq!(app.await_rows(summary).await, [json!({ "stage": "link_sent" })]);
    assert!(funnel().await);
    let told = app.logs("summary of earlier actions not readable: made anew");
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0]["conversation"].is_string() && !told[0].to_string().contains("garbled"), "{told:?}");
}
