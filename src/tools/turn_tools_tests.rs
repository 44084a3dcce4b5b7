use std::time::Duration;

use serde_json::{Value, json};

use super::super::test_support::{
    World, answers, call, noted, offer, plain_shop, prospect, send, set, shop, short, tagged,
};
use super::*;
use crate::domain::{ContactText, Intent, Stage};
use crate::manychat::ContactInfo;
use crate::tools::{Action, ActionNumber, Status};

#[path = "turn_tools_ending_tests.rs"]
mod ending;
#[path = "turn_tools_random_tests.rs"]
mod random;
#[path = "turn_tools_sale_tests.rs"]
mod sale;

fn turn(world: &Arc<World>, stage: Option<Stage>) -> TurnTools {
    TurnTools::new(offer(shop(), prospect(stage), world.mode()))
}

fn staging(stage: Option<Stage>) -> TurnTools {
    TurnTools::new(offer(shop(), prospect(stage), FlowMode::Staged))
}

async fn told(tools: &TurnTools, calls: impl IntoIterator<Item = Call>) -> Vec<Value> {
    answers(tools.call_all(calls.into_iter().collect()).await)
}

async fn one(tools: &TurnTools, call: Call) -> Value {
    told(tools, [call]).await.remove(0)
}

async fn recorded(tools: &TurnTools) -> Vec<String> {
    short(&tools.finish(Ending::Answered).await.record.unwrap())
}

fn asked(flow: &str, asked: bool) -> Call {
    call("send_flow", json!({ "flow": flow, "contactAsked": asked }))
}

/// TSET-14, RUN-7: what does not fit the schema stages nothing, takes no slot, and does not echo what was given.
#[tokio::test]
async fn calls_that_do_not_fit_stage_nothing() {
    let tools =
        TurnTools::new(Offer { may_read: false, ..offer(shop(), prospect(None), World::new().mode()) });
    let wrong = [
        tagged("unknown"),
        set("day_choice", "wheel"),
        set("sale_stage", "link_sent"),
        send("hello_card"),
        call("send_flow", json!({ "flow": "pay_page", "contactAsked": "yes" })),
        call("write_note", json!({ "note": "goal" })),
        call("write_note", json!({ "note": "goal", "text": 5 })),
        call("add_tag", Value::Null),
        call("get_contact", json!({})),
        call("drop_table_zanzibar", json!({ "tag": "likes_glaze" })),
    ];
    for result in tools.call_all(wrong.to_vec()).await {
        let CallResult::Invalid(words) = result else { panic!("must be invalid: {result:?}") };
        assert!(!words.contains("zanzibar") && !words.contains("unknown"), "{words}");
    }
    assert_eq!(tools.finish(Ending::Answered).await.record, Some(Vec::new()));
}

/// 08 section 3, TSET-12: a key that no schema names is ignored, a contact's too.
#[tokio::test]
async fn further_keys_are_ignored() {
    let tools = turn(&World::new(), None);
    let extra = call("add_tag", json!({ "tag": "has_kiln", "subscriber_id": "1", "contactAsked": 7 }));
    assert_eq!(one(&tools, extra).await, json!({ "staged": true }));
    let plain = TurnTools::new(offer(plain_shop(), Known::default(), World::new().mode()));
    assert_eq!(
        one(&plain, call("send_flow", json!({ "flow": "pay_page", "contactAsked": 7 }))).await,
        json!({ "sent": true })
    );
}

/// TGATE-1 to TGATE-3, FN-INT-6, FN-ACC-41: shut until the contact means to buy; a refusal is free.
#[tokio::test]
async fn the_gate_refuses_and_costs_nothing() {
    let world = World::new();
    let tools = TurnTools::new(offer(shop(), Known::default(), world.mode()));
    let gated = [
        tagged("has_kiln"),
        call("remove_tag", json!({ "tag": "has_kiln" })),
        set("day_choice", "weekday"),
        set("sale_stage", "offered"),
        set("what_class", "wheel"),
        call("schedule_nudge", json!({ "delay": "tonight" })),
    ];
    for result in told(&tools, gated).await {
        assert_eq!(result, json!({ "staged": false, "reason": "not_prospect" }));
    }
    assert_eq!(one(&tools, send("studio_tour")).await, json!({ "sent": false, "reason": "not_prospect" }));
    let notes = (0..9).map(|number| noted("goal", &format!("Note {number}.")));
    let results = told(&tools, notes).await;
    assert_eq!(results.iter().filter(|result| **result == json!({ "staged": true })).count(), 8);
    assert!(world.asked().is_empty());
    let staged = TurnTools::new(offer(shop(), Known::default(), FlowMode::Staged));
    assert_eq!(one(&staged, send("studio_tour")).await, json!({ "staged": false, "reason": "not_prospect" }));
}

/// TGATE-3, FN-INT-7, FN-ACC-42, FN-ACC-43, acceptance 28 of 08: recording `prospect` opens the gate in the same step.
#[tokio::test]
async fn a_prospect_write_opens_the_gate_at_once() {
    let world = World::new();
    let tools = TurnTools::new(offer(shop(), Known::default(), world.mode()));
    let calls = [
        set("purpose", "prospect"),
        send("studio_tour"),
        tagged("has_kiln"),
        set("purpose", "not_prospect"),
        set("purpose", "prospect"),
    ];
    let yes = json!({ "staged": true });
    assert_eq!(
        told(&tools, calls).await,
        [yes.clone(), json!({ "sent": true }), yes.clone(), json!({ "staged": false }), yes]
    );
    assert_eq!(world.asked(), ["ns_studio_tour"]);
}

/// FN-INT-9: a write that found no slot opens nothing.
#[tokio::test]
async fn a_dropped_prospect_write_opens_nothing() {
    let tools = TurnTools::new(offer(shop(), Known::default(), World::new().mode()));
    told(&tools, (0..8).map(|number| noted("goal", &number.to_string()))).await;
    assert_eq!(one(&tools, set("purpose", "prospect")).await, json!({ "staged": false }));
    assert_eq!(one(&tools, tagged("has_kiln")).await, json!({ "staged": false, "reason": "not_prospect" }));
}

/// STAGE-2, STAGE-3, STAGE-4, NOTE-5, acceptance 10 and 11: repeats are free, the ninth is refused and recorded once, last.
#[tokio::test]
async fn eight_actions_and_no_more() {
    let tools = TurnTools::new(offer(plain_shop(), Known::default(), World::new().mode()));
    let mut calls: Vec<_> = (0..7).map(|number| noted("goal", &format!("Note {number}."))).collect();
    calls.extend([set("day_choice", "weekday"), set("day_choice", "weekday"), noted("goal", "Note 6.")]);
    assert!(told(&tools, calls).await.iter().all(|result| *result == json!({ "staged": true })));
    let no = json!({ "staged": false });
    let more = [
        noted("goal", "Too many"),
        noted("goal", "Too many"),
        noted("goal", "Too much"),
        set("day_choice", "saturday"),
        noted("goal", "Note 3."),
    ];
    assert_eq!(told(&tools, more).await, [no.clone(), no.clone(), no.clone(), no.clone(), no]);
    let record = recorded(&tools).await;
    assert_eq!(record.len(), 8 + 3);
    assert_eq!(record[7], "set_field day_choice=weekday staged");
    assert_eq!(
        &record[8..],
        [
            "write_note goal dropped_over_cap",
            "write_note goal dropped_over_cap",
            "set_field day_choice=saturday dropped_over_cap"
        ]
    );
}

/// FLOW-2, LIM-6, REC-5, acceptance 7: flows go out one at a time in call order; the record keeps the order of the calls.
#[tokio::test]
async fn flows_are_sent_one_after_the_other() {
    let world = World::new().refuse("ns_studio_tour");
    let tools = TurnTools::new(offer(plain_shop(), Known::default(), world.mode()));
    let calls = [
        tagged("has_kiln"),
        send("studio_tour"),
        send("wheel_brochure"),
        noted("goal", "x"),
        send("glaze_brochure"),
    ];
    let (yes, sent) = (json!({ "staged": true }), json!({ "sent": true }));
    assert_eq!(told(&tools, calls).await, [yes.clone(), json!({ "sent": false }), sent.clone(), yes, sent]);
    assert_eq!(world.asked(), ["ns_studio_tour", "ns_wheel_brochure", "ns_glaze_brochure"]);
    assert_eq!(world.open.lock().unwrap().1, 1, "never two at once");
    let summary = tools.summary();
    assert_eq!(summary.sent, ["send_flow wheel_brochure", "send_flow glaze_brochure"]);
    assert_eq!(summary.refused, ["send_flow studio_tour"]);
    assert_eq!(summary.staged, ["add_tag has_kiln", "write_note goal"]);
    assert_eq!(
        recorded(&tools).await,
        [
            "add_tag has_kiln staged",
            "send_flow studio_tour failed",
            "send_flow wheel_brochure performed",
            "write_note goal staged",
            "send_flow glaze_brochure performed"
        ]
    );
}

/// STAGE-5, FN-LINK-9, acceptance 8: a repeat makes no request and is told the first one's outcome, in the same step and in
/// later ones.
#[tokio::test]
async fn a_repeated_flow_gets_the_first_outcome() {
    for refused in [false, true] {
        let world = World::new();
        let world = if refused { world.refuse("ns_studio_tour") } else { world };
        let tools = TurnTools::new(offer(plain_shop(), Known::default(), world.mode()));
        let outcome = json!({ "sent": !refused });
        assert_eq!(
            told(&tools, [send("studio_tour"), send("studio_tour")]).await,
            [outcome.clone(), outcome.clone()]
        );
        assert_eq!(one(&tools, send("studio_tour")).await, outcome);
        assert_eq!(world.asked(), ["ns_studio_tour"]);
        assert_eq!(recorded(&tools).await.len(), 1);
    }
}

/// STAGE-4: what is over the limit is remembered, and a model in a loop cannot make the record grow without end.
#[tokio::test]
async fn what_is_dropped_is_bounded() {
    let tools = turn(&World::new(), None);
    told(&tools, (0..80).map(|number| noted("goal", &format!("Note {number}.")))).await;
    let record = tools.finish(Ending::Answered).await.record.unwrap();
    let dropped = record.iter().filter(|entry| entry.status == Status::DroppedOverCap).count();
    assert_eq!((record.len() - dropped, dropped), (8, 32));
}

/// STAGE-3, SEND-1, acceptance 9: a flow takes a slot; one too many says why and is recorded once by its id.
#[tokio::test]
async fn a_flow_over_the_cap_is_dropped() {
    let world = World::new();
    let tools = TurnTools::new(offer(plain_shop(), Known::default(), world.mode()));
    told(&tools, (0..7).map(|number| noted("goal", &number.to_string()))).await;
    let over = json!({ "sent": false, "reason": "over the per-turn limit" });
    assert_eq!(
        told(&tools, [send("studio_tour"), send("wheel_brochure"), send("wheel_brochure")]).await,
        [json!({ "sent": true }), over.clone(), over]
    );
    assert_eq!(recorded(&tools).await.last().unwrap(), "send_flow wheel_brochure dropped_over_cap");
    assert_eq!(world.asked(), ["ns_studio_tour"]);
    assert_eq!(tools.summary().dropped, ["send_flow wheel_brochure"]);
}

/// LIM-16, FN-TIED-11, FN-READY-1, 08 section 3.1 "when staging": where flows are staged they follow the same rules.
#[tokio::test]
async fn flows_are_staged_where_nothing_is_sent() {
    let tools = staging(None);
    let calls = [
        send("pay_page"),
        asked("pay_page", true),
        asked("pay_page", false),
        send("wheel_brochure"),
        send("studio_tour"),
    ];
    let (yes, no) = (json!({ "staged": true }), json!({ "staged": false }));
    let not_prepared = json!({ "staged": false, "reason": "not_prepared" });
    assert_eq!(told(&tools, calls).await, [not_prepared, yes.clone(), yes.clone(), no, yes.clone()]);
    let finished = tools.finish(Ending::Answered).await;
    assert_eq!(
        short(finished.record.as_deref().unwrap()),
        ["send_flow pay_page staged", "send_flow studio_tour staged"]
    );
    assert!(finished.record.unwrap()[0].contact_asked);
    assert_eq!(finished.staged[0].number, ActionNumber(0));
    let chain: Vec<_> = std::iter::successors(Some(&finished.staged[0].action), |action| action.follow_on())
        .map(Action::tool)
        .collect();
    assert_eq!(chain, ["send_flow", "set_field", "send_event"], "SEND-5");
}
