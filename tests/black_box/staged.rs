//! What a turn goes by while an earlier turn of its contact still has actions to come: those that wait for ManyChat, or for a
//! flow to end (10 section 16.1).

use std::sync::Arc;

use serde_json::{Value, json};

use crate::acts::short;
use crate::app::{CONTACT, Setup, TestApp, eventually};
use crate::handoffs;
use crate::stub_manychat::{Call, SEND_FLOW, SET_FIELD, StubManyChat};
use crate::stub_model::StubModel;

const RECORDS: &str = "select actions from turns where role = 'agent' order by seq";
const LEAD_READY: &str = "content00000000000000_900101";

/// Nothing is sent beside what a message asks for.
fn untied(tools: &mut Value) {
    for flow in tools["flows"].as_array_mut().unwrap() {
        flow.as_object_mut().unwrap().remove("onStage");
    }
}

/// A model that makes the calls that its message names, one a step: `field=value` writes, a single word sends that flow.
fn obedient(stub: &StubManyChat) -> Setup {
    let model = StubModel::answering(Arc::new(|body| {
        let messages = body["messages"].as_array().unwrap();
        let from = messages.iter().rposition(|message| message["role"] == "user").unwrap();
        let done = messages[from..].iter().filter(|message| message["role"] == "tool").count();
        let text = messages[from]["content"].to_string();
        let asked = text.split("do:").nth(1).and_then(|rest| rest.split(':').next()).unwrap_or_default();
        match asked.split_whitespace().nth(done).map(|word| word.split_once('=').ok_or(word)) {
            Some(Ok((field, value))) => {
                json!({ "call": "set_field", "arguments": { "field": field, "value": value } })
            }
            Some(Err(flow)) => json!({ "call": "send_flow", "arguments": { "flow": flow } }),
            None => json!({ "messages": ["Done."], "closing_question": null,
                "escalate": false, "escalation_reason": null, "confidence": 0.9 }),
        }
    }));
    handoffs::with(stub)
        .tools(untied)
        .env("CONTACT_TOKENS_ENFORCED", "false")
        .env("AGENT_MODEL", "openai:stub")
        .env("OPENAI_API_KEY", "any-key")
        .env("OPENAI_BASE_URL", model.base_url)
}

/// The records when none of `turns` has an action to come any more.
async fn settled(app: &TestApp, turns: usize) -> Vec<Vec<String>> {
    let over = |rows: &[Value]| rows.len() == turns && !json!(rows).to_string().contains("staged");
    let rows = app.await_that(RECORDS, over).await;
    rows.iter().map(|row| short(&row["actions"])).collect()
}

/// What was written into fields, the contact's token left out.
fn written(stub: &StubManyChat) -> Vec<String> {
    let calls = stub.calls_to(SET_FIELD);
    calls.iter().filter(|call| call.body["field_name"] != "ai_token").map(words).collect()
}

fn words(call: &Call) -> String {
    let word = |key: &str| call.body[key].as_str().map(str::to_owned);
    word("field_value").or_else(|| word("flow_ns")).unwrap_or_default()
}

/// FN-EVT-4, FN-STAGE-5, FN-STAGE-6, FN-INT-1, FN-INT-7: what an earlier turn has staged is the floor of the next one, its
/// `prospect` is final, and an event goes out once although both turns move to its stage.
#[tokio::test(flavor = "multi_thread")]
async fn a_turn_knows_what_the_one_before_is_about_to_do() {
    let stub = StubManyChat::start().await;
    let app = obedient(&stub).start().await;
    stub.hold(CONTACT);
    app.send("do: intent=prospect funnel_stage=nurturing :").await;
    app.await_rows("select 1 from rs_actions").await;
    app.send("do: funnel_stage=qualifying intent=not_prospect funnel_stage=nurturing :").await;
    stub.let_go();
    let records = settled(&app, 2).await;
    let first = [
        "set_field intent=prospect performed",
        "set_field funnel_stage=nurturing performed",
        "send_event lead_ready performed",
    ];
    assert_eq!(records[0], first);
    assert_eq!(records[1], ["set_field funnel_stage=nurturing performed"]);
    assert_eq!(written(&stub), ["prospect", "nurturing", "nurturing"]);
    assert_eq!(stub.calls_to(SEND_FLOW).iter().map(words).collect::<Vec<_>>(), [LEAD_READY]);
}

/// FN-EVT-2, FN-EVT-3, FN-STAGE-2: where the earlier turn's write fails, the event is the next turn's, whose write of the stage
/// is the first that ManyChat takes.
#[tokio::test(flavor = "multi_thread")]
async fn an_event_is_not_lost_with_the_write_that_failed() {
    let stub = StubManyChat::start().await;
    let app = obedient(&stub).start().await;
    app.send("do: intent=prospect :").await;
    settled(&app, 1).await;
    stub.hold(CONTACT);
    stub.answer_contact(SET_FIELD, CONTACT, 400);
    app.send("do: funnel_stage=nurturing :").await;
    eventually("the write under way", || written(&stub).len() == 2).await;
    stub.answer_contact(SET_FIELD, CONTACT, 200);
    app.send("do: funnel_stage=nurturing :").await;
    stub.let_go();
    let records = settled(&app, 3).await;
    assert_eq!(records[1], ["set_field funnel_stage=nurturing failed"]);
    assert_eq!(records[2], ["set_field funnel_stage=nurturing performed", "send_event lead_ready performed"]);
    assert_eq!(stub.calls_to(SEND_FLOW).iter().map(words).collect::<Vec<_>>(), [LEAD_READY]);
}

/// FN-READY-1, FN-READY-5, FN-LINK-6: a `prepared` that is still to be written opens the gate of the payment link, and the link's
/// stage is the last one that ManyChat gets.
#[tokio::test(flavor = "multi_thread")]
async fn a_staged_prepared_opens_the_gate_of_the_link() {
    let stub = StubManyChat::start().await;
    let app = obedient(&stub).start().await;
    stub.hold(CONTACT);
    app.send("do: intent=prospect funnel_stage=prepared :").await;
    app.await_rows("select 1 from rs_actions").await;
    let asked = app.send_later(CONTACT, "do: enrolment_link :");
    app.await_that("select 1 from turns where role = 'user'", |rows| rows.len() == 2).await;
    stub.let_go();
    assert_eq!(asked.await.unwrap().status, 200);
    let records = settled(&app, 2).await;
    let link = ["send_flow enrolment_link performed", "set_field funnel_stage=link_sent performed"];
    assert_eq!(records[1][..2], link, "{records:?}");
    let rows = app.rows(RECORDS).await;
    assert!(!rows[1].to_string().contains("contactAsked"), "{rows:?}");
    assert_eq!(written(&stub).last().map(String::as_str), Some("link_sent"));
}
