//! Notes, reads, and how a turn ends.

use futures_util::FutureExt;

use super::super::super::test_support::Kept;
use super::*;

/// NOTE-2, NOTE-5, NOTE-6, acceptance 25: cleaned before it is staged; the record has the length only.
#[tokio::test]
async fn a_note_is_cleaned_before_it_is_staged() {
    let tools = turn(&World::new(), None);
    let (yes, no) = (json!({ "staged": true }), json!({ "staged": false }));
    let calls = [
        noted("goal", "mail mia@studio.example"),
        noted("goal", " \n "),
        noted("goal", "mail ana@studio.example"),
    ];
    assert_eq!(told(&tools, calls).await, [yes.clone(), no, yes]);
    let finished = tools.finish(Ending::Answered).await;
    let Action::WriteNote { text, field, .. } = &finished.staged[0].action else { panic!() };
    assert_eq!((text.expose(), field.as_str()), ("mail [removed]", "agent_goal"));
    assert_eq!(finished.record.unwrap()[0].length, Some(14));
    assert_eq!(finished.staged.len(), 1, "STAGE-2: both are the same once cleaned");
}

/// 08 section 8, NOTE-7, DISC-1 to DISC-3, REC-7, AFTER-1, acceptance 15 and 24
#[tokio::test]
async fn each_ending_keeps_what_it_may() {
    for (ending, kept, goal, handover) in [
        (Ending::Answered, 3, "staged", "staged"),
        (Ending::Escalated, 1, "discarded", "staged"),
        (Ending::Failed, 0, "discarded", "discarded"),
        (Ending::Aborted, 0, "discarded", "discarded"),
    ] {
        let tools = turn(&World::new(), None);
        told(&tools, [tagged("has_kiln"), send("studio_tour"), noted("goal", "a"), noted("handover", "b")])
            .await;
        let finished = tools.finish(ending).await;
        let record = short(finished.record.as_deref().unwrap());
        assert_eq!(
            record[1..],
            [
                "send_flow studio_tour performed".to_owned(),
                format!("write_note goal {goal}"),
                format!("write_note handover {handover}")
            ]
        );
        assert_eq!((finished.staged.len(), finished.discarded), (kept, 3 - kept), "{ending:?}");
    }
}

/// REC-1, DB-11
#[tokio::test]
async fn a_turn_without_actions_records_nothing_or_an_empty_list() {
    let offered = |ending| async move { turn(&World::new(), None).finish(ending).await.record };
    assert_eq!(offered(Ending::Answered).await, Some(Vec::new()));
    assert_eq!(offered(Ending::Failed).await, Some(Vec::new()));
    assert_eq!(offered(Ending::Aborted).await, None);
    let none = TurnTools::new(offer(crate::config::Tools::default(), Known::default(), World::new().mode()));
    assert_eq!(none.finish(Ending::Answered).await.record, None);
    assert!(matches!(none.call_all(vec![send("x")]).await[..], [CallResult::Invalid(_)]));
}

/// STAGE-1, FLOW-5, FLOW-7, FLOW-9, LIM-8, acceptance 16 and 17: an abort stops nothing that began, starts nothing new, and the real
/// outcome is recorded.
#[tokio::test]
async fn an_abort_waits_for_the_request_in_flight() {
    let world = World::new();
    let gate = world.hold("ns_studio_tour");
    let tools = Arc::new(TurnTools::new(offer(plain_shop(), Known::default(), world.mode())));
    let calls = vec![send("studio_tour"), send("wheel_brochure"), tagged("has_kiln")];
    {
        let mut calling = Box::pin(tools.call_all(calls));
        while world.asked().is_empty() {
            assert!(calling.as_mut().now_or_never().is_none());
        }
    }
    let mut finishing = Box::pin(tools.finish(Ending::Aborted));
    assert!(finishing.as_mut().now_or_never().is_none());
    gate.add_permits(1);
    let finished = finishing.await;
    assert_eq!(
        short(&finished.record.unwrap()),
        [
            "send_flow studio_tour performed",
            "send_flow wheel_brochure discarded",
            "add_tag has_kiln discarded"
        ]
    );
    assert_eq!(world.asked(), ["ns_studio_tour"]);
    assert!(matches!(tools.call_all(vec![tagged("has_kiln")]).await[..], [CallResult::Invalid(_)]));
}

/// FLOW-7, ARC-41: a request that never answers is recorded as unknown.
#[tokio::test(start_paused = true)]
async fn a_request_that_never_answers_is_unknown() {
    let world = World::new();
    let _gate = world.hold("ns_studio_tour");
    let tools = TurnTools::new(offer(plain_shop(), Known::default(), world.mode()));
    let _ = tokio::time::timeout(Duration::from_secs(1), tools.call_all(vec![send("studio_tour")])).await;
    let record = tools.finish(Ending::Aborted).await.record.unwrap();
    assert_eq!(record[0].status, Status::Failed);
    assert!(record[0].error.as_deref().unwrap().starts_with(crate::tools::OUTCOME_UNKNOWN));
}

/// FLOW-3, FLOW-7: what has ended is on record as it ended, however long what came behind it takes.
#[tokio::test(start_paused = true)]
async fn the_outcome_of_a_write_does_not_wait_for_the_flow_behind_it() {
    let world = World::new();
    let _gate = world.hold("ns_pay_page");
    let tools = turn(&world, Some(Stage::Offered));
    let calls = vec![set("sale_stage", "prepared"), send("pay_page")];
    let _ = tokio::time::timeout(Duration::from_secs(1), tools.call_all(calls)).await;
    assert!(tools.is_sending());
    let record = tools.finish(Ending::Aborted).await.record.unwrap();
    assert_eq!(short(&record), ["set_field sale_stage=prepared performed", "send_flow pay_page failed"]);
    assert!(record[1].error.as_deref().unwrap().starts_with(crate::tools::OUTCOME_UNKNOWN));
    let idle = turn(&World::new(), None);
    told(&idle, [send("studio_tour"), tagged("has_kiln")]).await;
    assert!(!idle.is_sending(), "all of it is known");
}

/// WAIT-1: the longest of the accepted flows that play; refused ones and those without a time do not count.
#[tokio::test]
async fn a_playing_flow_sets_a_moment() {
    let mut shop = plain_shop();
    shop.flows[1].settle_seconds = 30;
    let world = World::new().refuse("ns_glaze_brochure");
    let tools = TurnTools::new(offer(shop, Known::default(), world.mode()));
    told(&tools, [send("glaze_brochure"), send("studio_tour")]).await;
    assert_eq!(tools.finish(Ending::Answered).await.plays_until, None);
    let tools = TurnTools::new(offer(plain_shop(), Known::default(), World::new().mode()));
    let before = std::time::Instant::now();
    told(&tools, [send("wheel_brochure"), send("studio_tour")]).await;
    let until = tools.finish(Ending::Escalated).await.plays_until.unwrap();
    assert!(
        until >= before + Duration::from_secs(6)
            && until <= std::time::Instant::now() + Duration::from_secs(6)
    );
}

/// AFTER-10, WAIT-1, PERF-3: the time counts from the answer to what hangs on the flow, not from the flow's own.
#[tokio::test]
async fn a_flow_plays_from_the_end_of_its_follow_ons() {
    let mut shop = shop();
    shop.flows.iter_mut().for_each(|flow| flow.settle_seconds = 6);
    let world = World::new();
    let gate = world.hold("pottery_stage=link_sent");
    let tools = TurnTools::new(offer(shop, prospect(Some(Stage::Prepared)), world.mode()));
    let mut calling = Box::pin(tools.call_all(vec![send("pay_page")]));
    while world.asked() != ["ns_pay_page", "pottery_stage=link_sent"] {
        assert!(calling.as_mut().now_or_never().is_none());
    }
    let flow_was_out = std::time::Instant::now();
    gate.add_permits(1);
    calling.await;
    let until = tools.finish(Ending::Answered).await.plays_until.unwrap();
    assert!(until >= flow_was_out + Duration::from_secs(6));
}

/// READ-6 to READ-9, RUN-9, LIM-13, acceptance 20 and 21
#[tokio::test(start_paused = true)]
async fn reads_are_bounded_and_never_recorded() {
    let world = World::new();
    let info = ContactInfo {
        tags: vec!["src-door".to_owned()],
        fields: vec![("agent_goal".to_owned(), Some(ContactText::new("sail")))],
    };
    world.reads.lock().unwrap().push_back(Ok(info));
    let tools = turn(&world, None);
    let read = || call("get_contact", json!({}));
    let results = tools.call_all(vec![read(), read(), read()]).await;
    let CallResult::Contact(view) = &results[0] else { panic!() };
    assert_eq!(view.tags, ["walked_in"]);
    assert_eq!(
        answers(results[1..].to_vec()),
        [json!({ "available": false }), json!({ "available": false })]
    );
    assert_eq!(*world.read_count.lock().unwrap(), 2);
    assert_eq!(tools.summary().contact.as_ref(), Some(view));
    assert_eq!(tools.finish(Ending::Answered).await.record, Some(Vec::new()));
    let unknown = crate::tools::COUNTERS.report();
    assert!(
        unknown.iter().any(|line| (line.tool, line.what) == ("get_contact", "timed_out") && line.count >= 1)
    );
}

/// ARC-46: what a dead process attempted keeps its place, its slot and its outcome, and is not attempted again.
#[tokio::test]
async fn a_second_run_goes_on_where_the_first_ended() {
    let world = World::new();
    let first = turn(&world, Some(Stage::Offered));
    told(&first, [set("sale_stage", "prepared"), send("pay_page"), send("studio_tour")]).await;
    let mut record = first.finish(Ending::Answered).await.record.unwrap();
    record[4].status = Status::Failed;
    record[4].error = Some("outcome unknown: process ended".to_owned());
    let offered = offer(shop(), prospect(Some(Stage::Offered)), world.mode());
    let second = TurnTools::new(Offer { earlier: record.clone(), ..offered });
    assert_eq!(second.summary().sent, ["send_flow pay_page"]);
    assert_eq!(second.summary().refused, ["send_flow studio_tour"]);
    let calls = [set("sale_stage", "prepared"), send("pay_page"), send("studio_tour"), tagged("has_kiln")];
    let (sent, not) = (json!({ "sent": true }), json!({ "sent": false }));
    assert_eq!(
        told(&second, calls).await,
        [json!({ "staged": false }), sent, not, json!({ "staged": true })]
    );
    assert_eq!(world.asked().len(), 5, "nothing is asked twice");
    let finished = second.finish(Ending::Answered).await;
    assert_eq!(finished.record.unwrap()[..5], record[..]);
    assert_eq!(finished.staged[0].number, crate::tools::ActionNumber(3));
}

/// READ-6, LOG-9, section 14: ids and classes; no word of a contact.
#[tokio::test]
async fn log_lines_hold_ids_and_counts_only() {
    // The line is known before anybody listens: another test's thread that met it first, without a listener, would have
    // it left out here too.
    speak_of_a_failed_read().await;
    let kept = Kept::default();
    let subscriber =
        crate::telemetry::subscriber(crate::telemetry::LogLevel::Trace, &[], kept.clone()).unwrap();
    let _guard = tracing::subscriber::set_default(subscriber);
    tracing::callsite::rebuild_interest_cache();
    speak_of_a_failed_read().await;
    let written = kept.written();
    let lines: Vec<Value> = written.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 1, "{written}");
    assert_eq!(
        (&lines[0]["msg"], &lines[0]["error"], &lines[0]["timedOut"], &lines[0]["level"]),
        (&json!("contact read failed"), &json!("api_error"), &json!(false), &json!(40))
    );
    assert!(lines.iter().all(|line| line["conversation"].is_string()));
    assert!(!written.contains("zanzibar"));
}

async fn speak_of_a_failed_read() {
    let world = World::new();
    world.reads.lock().unwrap().push_back(Err(ReadFailure { class: "api_error", timed_out: false }));
    let tools = turn(&world, None);
    told(&tools, [noted("goal", "sails to zanzibar"), call("get_contact", json!({})), tagged("has_kiln")])
        .await;
    tools.finish(Ending::Failed).await;
}
