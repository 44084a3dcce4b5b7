//! The sale: stage, payment link, tied flows, offering.

use super::*;
use crate::tools::Pending;

/// STAGE-7, FN-STAGE-4 to FN-STAGE-7, FN-STAGE-12, FN-ACC-1 to FN-ACC-3: only forward, equal allowed.
#[tokio::test]
async fn a_stage_moves_only_forward() {
    let tools = turn(&World::new(), Some(Stage::Qualifying));
    let (yes, no) = (json!({ "staged": true }), json!({ "staged": false }));
    let calls =
        ["new", "qualifying", "offered", "nurturing", "offered"].map(|stage| set("sale_stage", stage));
    assert_eq!(told(&tools, calls).await, [no.clone(), yes.clone(), yes.clone(), no, yes]);
    assert_eq!(
        recorded(&tools).await,
        ["set_field sale_stage=qualifying staged", "set_field sale_stage=offered staged"]
    );
}

/// FLD-1, FN-EVT-2, FN-EVT-4: the event hangs on the write that moves, unless the stage was recorded before.
#[tokio::test]
async fn a_move_carries_its_event() {
    let event = |stage, to: &'static str| async move {
        let tools = turn(&World::new(), stage);
        one(&tools, set("sale_stage", to)).await;
        let finished = tools.finish(Ending::Answered).await;
        finished.staged[0].action.follow_on().map(|event| event.id().to_owned())
    };
    assert_eq!(event(None, "offered").await.as_deref(), Some("offer_made"));
    assert_eq!(event(Some(Stage::Offered), "offered").await, None);
    assert_eq!(event(None, "prepared").await, None);
}

/// FLOW-3, FN-LINK-6 to FN-LINK-8, FN-ACC-6, FN-ACC-8, acceptance 12: stage writes go ahead of the link, the floor is
/// `link_sent` at once, and nothing of the stage is left for after the reply.
#[tokio::test]
async fn a_payment_link_takes_the_stage_writes_with_it() {
    let world = World::new();
    let tools = turn(&world, Some(Stage::Nurturing));
    let calls = [
        set("sale_stage", "offered"),
        tagged("has_kiln"),
        set("sale_stage", "prepared"),
        send("pay_page"),
        set("sale_stage", "prepared"),
        set("what_class", "glaze"),
    ];
    let (yes, no) = (json!({ "staged": true }), json!({ "staged": false }));
    assert_eq!(
        told(&tools, calls).await,
        [yes.clone(), yes.clone(), yes, json!({ "sent": true }), no.clone(), no]
    );
    let asked = [
        "pottery_stage=offered",
        "ev_offer_made",
        "pottery_stage=prepared",
        "ns_pay_page",
        "pottery_stage=link_sent",
        "ev_link_out",
    ];
    assert_eq!(world.asked(), asked);
    assert_eq!(tools.summary().sent, ["send_flow pay_page"], "STATE-8");
    let finished = tools.finish(Ending::Escalated).await;
    assert_eq!(
        short(&finished.record.unwrap()),
        [
            "set_field sale_stage=offered performed",
            "send_event offer_made performed",
            "add_tag has_kiln discarded",
            "set_field sale_stage=prepared performed",
            "send_flow pay_page performed",
            "set_field sale_stage=link_sent performed",
            "send_event link_out performed"
        ]
    );
    assert_eq!((finished.staged.len(), finished.discarded), (0, 1));
}

/// SEND-3, FN-READY-1 to FN-READY-5, FN-ACC-9, FN-ACC-10, acceptance 13
#[tokio::test]
async fn the_link_waits_for_prepared_or_for_the_contacts_question() {
    let not_prepared = json!({ "sent": false, "reason": "not_prepared" });
    let sent = json!({ "sent": true });
    let early = turn(&World::new(), Some(Stage::Offered));
    assert_eq!(
        told(&early, [send("pay_page"), asked("pay_page", false)]).await,
        [not_prepared.clone(), not_prepared]
    );
    assert_eq!(one(&early, asked("pay_page", true)).await, sent);
    assert!(early.finish(Ending::Answered).await.record.unwrap()[0].contact_asked);
    let ready = turn(&World::new(), Some(Stage::Prepared));
    assert_eq!(
        told(&ready, [asked("pay_page", true), asked("studio_tour", true)]).await,
        [sent.clone(), sent]
    );
    assert!(ready.finish(Ending::Answered).await.record.unwrap().iter().all(|entry| !entry.contact_asked));
}

/// FN-LINK-2, FN-LINK-8, FN-ACC-7, acceptance 14: a link that ManyChat refuses writes nothing, and the floor falls back.
#[tokio::test]
async fn a_refused_link_leaves_the_stage_alone() {
    let world = World::new().refuse("ns_pay_page");
    let tools = turn(&world, Some(Stage::Offered));
    let calls = [asked("pay_page", true), set("sale_stage", "prepared")];
    assert_eq!(told(&tools, calls).await, [json!({ "sent": false }), json!({ "staged": false })]);
    assert_eq!(one(&tools, set("sale_stage", "prepared")).await, json!({ "staged": true }));
    assert_eq!(recorded(&tools).await, ["send_flow pay_page failed", "set_field sale_stage=prepared staged"]);
}

/// FLOW-2: a leading write that fails does not stop the link.
#[tokio::test]
async fn a_failed_leading_write_does_not_stop_the_link() {
    let world = World::new().refuse("pottery_stage=prepared");
    let tools = turn(&world, None);
    assert_eq!(
        told(&tools, [set("sale_stage", "prepared"), send("pay_page")]).await[1],
        json!({ "sent": true })
    );
    assert_eq!(
        recorded(&tools).await[..2],
        ["set_field sale_stage=prepared failed", "send_flow pay_page performed"]
    );
}

/// FN-LINK-4, FN-ACC-12: at `link_sent` a repeatable link writes it again and fires nothing.
#[tokio::test]
async fn a_second_link_fires_no_event() {
    let world = World::new();
    let tools = turn(&world, Some(Stage::LinkSent));
    assert_eq!(one(&tools, send("pay_page")).await, json!({ "sent": true }));
    assert_eq!(world.asked(), ["ns_pay_page", "pottery_stage=link_sent"]);
}

/// FN-LINK-11, FN-ACC-14: a staged link counts for the floor too.
#[tokio::test]
async fn a_staged_link_raises_the_floor() {
    let tools = staging(Some(Stage::Prepared));
    let calls = [send("pay_page"), set("sale_stage", "prepared")];
    assert_eq!(told(&tools, calls).await, [json!({ "staged": true }), json!({ "staged": false })]);
}

/// SEND-4, FN-CHK-30: without a funnel the link is a flow like any other.
#[tokio::test]
async fn a_link_without_a_funnel_is_an_ordinary_flow() {
    let world = World::new();
    let tools = TurnTools::new(offer(plain_shop(), Known::default(), world.mode()));
    assert_eq!(one(&tools, send("pay_page")).await, json!({ "sent": true }));
    assert_eq!(world.asked(), ["ns_pay_page"]);
}

/// FLD-2, SEND-6, FN-TIED-1 to FN-TIED-7, FN-ACC-27 to FN-ACC-30: the flow of a stage goes out with the move.
#[tokio::test]
async fn a_stage_brings_its_flow() {
    let world = World::new();
    let tools = turn(&world, Some(Stage::Qualifying));
    let calls = [set("sale_stage", "nurturing"), set("sale_stage", "nurturing")];
    assert_eq!(
        told(&tools, calls).await,
        [json!({ "staged": true, "flowSent": "studio_tour" }), json!({ "staged": true })]
    );
    let record = tools.finish(Ending::Answered).await.record.unwrap();
    assert_eq!(short(&record), ["set_field sale_stage=nurturing staged", "send_flow studio_tour performed"]);
    assert_eq!(record[1].origin, Some(crate::tools::FlowOrigin::Stage));

    let refused = turn(&World::new().refuse("ns_studio_tour"), None);
    assert_eq!(
        one(&refused, set("sale_stage", "nurturing")).await,
        json!({ "staged": true, "flowRefused": "studio_tour" })
    );
    let staged = staging(None);
    assert_eq!(
        one(&staged, set("sale_stage", "nurturing")).await,
        json!({ "staged": true, "flowStaged": "studio_tour" })
    );
    assert_eq!(one(&staged, send("studio_tour")).await, json!({ "staged": true }), "FN-TIED-11");
    assert_eq!(staged.finish(Ending::Answered).await.staged.len(), 2);

    let full = turn(&World::new(), None);
    told(&full, (0..7).map(|number| noted("goal", &number.to_string()))).await;
    let dropped =
        json!({ "staged": true, "flowDropped": "studio_tour", "reason": "over the per-turn limit" });
    assert_eq!(one(&full, set("sale_stage", "nurturing")).await, dropped);
}

/// FN-TIED-2, FN-TIED-3, FN-TIED-4: not for a skipped stage, a sent flow, a move that is none, another offering.
#[tokio::test]
async fn a_stage_brings_no_flow_that_does_not_fit() {
    let plain = json!({ "staged": true });
    let skipped = turn(&World::new(), None);
    assert_eq!(one(&skipped, set("sale_stage", "offered")).await, plain);
    let equal = turn(&World::new(), Some(Stage::Nurturing));
    assert_eq!(one(&equal, set("sale_stage", "nurturing")).await, plain);
    let by_model = turn(&World::new(), None);
    assert_eq!(told(&by_model, [send("studio_tour"), set("sale_stage", "nurturing")]).await[1], plain);
    let mut known = prospect(None);
    known.sent_flows.insert("studio_tour".to_owned(), Timestamp::from_second(1_000_000).unwrap());
    let before = TurnTools::new(offer(shop(), known, World::new().mode()));
    assert_eq!(one(&before, set("sale_stage", "nurturing")).await, plain);
    let mut tools = shop();
    tools.flows[2].offering = Some("glaze".to_owned());
    let other = TurnTools::new(offer(tools, prospect(None), World::new().mode()));
    assert_eq!(one(&other, set("sale_stage", "nurturing")).await, plain);
}

/// FLD-3, SEND-2, FN-OFF-10 to FN-OFF-13, FN-ACC-38, FN-ACC-39: the offering opens its flows, until it is locked.
#[tokio::test]
async fn recording_the_offering_opens_its_flows() {
    let tools = turn(&World::new(), None);
    let opened = json!({ "staged": true, "flowsAvailable": [{ "flow": "wheel_brochure", "description": "About wheel_brochure." }] });
    let again = json!({ "staged": true, "flowsAvailable": [] });
    let calls = [
        send("wheel_brochure"),
        set("what_class", "wheel"),
        set("what_class", "wheel"),
        send("wheel_brochure"),
        send("glaze_brochure"),
    ];
    let (sent, not) = (json!({ "sent": true }), json!({ "sent": false }));
    assert_eq!(told(&tools, calls).await, [not.clone(), opened, again, sent, not]);
    let locked = [set("sale_stage", "offered"), set("what_class", "glaze"), set("what_class", "wheel")];
    assert_eq!(told(&tools, locked).await[1..], [json!({ "staged": false }), json!({ "staged": false })]);
    let Action::SetField { offering, .. } = &tools.finish(Ending::Answered).await.staged[0].action else {
        panic!()
    };
    assert!(offering, "PERF-7");
}

/// FLD-4, SEND-2, FN-OFF-10, FN-OFF-13, NOTE-5, NTOOL-5: who changes their mind twice has the last word, for a field, a tag, a
/// note and a follow-up; only what repeats the last word is none of its own (STAGE-2).
#[tokio::test]
async fn the_last_of_several_writes_stands() {
    let tools = turn(&World::new(), None);
    let calls = [
        set("what_class", "wheel"),
        set("what_class", "glaze"),
        set("what_class", "wheel"),
        set("what_class", "wheel"),
        send("wheel_brochure"),
    ];
    let results = told(&tools, calls).await;
    assert_eq!(results[2]["flowsAvailable"][0]["flow"], "wheel_brochure");
    assert_eq!(results[4], json!({ "sent": true }));
    let writes = ["what_class=wheel", "what_class=glaze", "what_class=wheel"];
    let writes = writes.map(|write| format!("set_field {write} staged"));
    assert_eq!(recorded(&tools).await[..3], writes);

    let untagged = call("remove_tag", json!({ "tag": "has_kiln" }));
    let later = |delay| call("schedule_nudge", json!({ "delay": delay }));
    let tags = [tagged("has_kiln"), untagged, tagged("likes_glaze"), tagged("has_kiln"), tagged("has_kiln")];
    let notes = [noted("goal", "a"), noted("goal", "b"), noted("goal", "a"), noted("goal", "a")];
    for (calls, kept) in [
        (tags.to_vec(), 4),
        (notes.to_vec(), 3),
        (vec![later("tonight"), later("noon"), later("tonight"), later("tonight")], 3),
    ] {
        let tools = turn(&World::new(), None);
        for result in told(&tools, calls).await {
            assert_eq!(result, json!({ "staged": true }));
        }
        assert_eq!(recorded(&tools).await.len(), kept);
    }
}

/// FN-OFF-4, FN-OFF-5, FN-OFF-11: what opens flows is the offering the turn was given and the model was told, never one of an
/// old record.
#[tokio::test]
async fn an_old_record_opens_no_flow() {
    let known = Known { offering: Some("wheel".to_owned()), ..prospect(None) };
    let tools = TurnTools::new(offer(shop(), known, World::new().mode()));
    assert_eq!(one(&tools, send("wheel_brochure")).await, json!({ "sent": false }));
    let flows = tools.definitions().iter().find(|tool| tool.name == "send_flow").unwrap().description.clone();
    assert!(!flows.contains("- wheel_brochure"), "{flows}");
}

/// FN-INT-3: a contact past `new` needs no recorded intent.
#[tokio::test]
async fn the_rollout_rule_opens_the_gate() {
    let known = Known { stage: Some(Stage::Nurturing), ..Known::default() };
    let tools = TurnTools::new(offer(shop(), known, World::new().mode()));
    assert_eq!(one(&tools, tagged("has_kiln")).await, json!({ "staged": true }));
    let recorded =
        Known { intent: Some(Intent::NotProspect), stage: Some(Stage::Nurturing), ..Known::default() };
    let tools = TurnTools::new(offer(shop(), recorded, World::new().mode()));
    assert_eq!(one(&tools, tagged("has_kiln")).await, json!({ "staged": false, "reason": "not_prospect" }));
}

/// 10 section 16.1, FN-STAGE-5, FN-STAGE-6, FN-TIED-3, FN-EVT-2, FN-READY-1, FN-INT-7: what an earlier turn has staged counts for
/// the floor, the gates and the tied flow; the event goes by what was performed, for that write may fail.
#[tokio::test]
async fn what_an_earlier_turn_is_about_to_write_counts() {
    let later = |stage| {
        let pending = Pending { stage: Some(stage), intent: Some(Intent::Prospect), offering: None };
        let known = Known { pending, ..Known::default() };
        TurnTools::new(offer(shop(), known, World::new().mode()))
    };
    let (yes, no) = (json!({ "staged": true }), json!({ "staged": false }));
    let tools = later(Stage::Nurturing);
    let calls = [
        set("sale_stage", "qualifying"),
        set("sale_stage", "nurturing"),
        set("purpose", "not_prospect"),
        send("pay_page"),
    ];
    let refused = json!({ "sent": false, "reason": "not_prepared" });
    assert_eq!(told(&tools, calls).await, [no.clone(), yes.clone(), no.clone(), refused]);
    assert_eq!(recorded(&tools).await, ["set_field sale_stage=nurturing staged"]);

    let tools = later(Stage::Offered);
    assert_eq!(told(&tools, [set("sale_stage", "offered"), set("what_class", "glaze")]).await, [yes, no]);
    let finished = tools.finish(Ending::Answered).await;
    let event = finished.staged[0].action.follow_on().map(|event| event.id().to_owned());
    assert_eq!(event.as_deref(), Some("offer_made"));

    assert_eq!(one(&later(Stage::Prepared), send("pay_page")).await, json!({ "sent": true }));
}
