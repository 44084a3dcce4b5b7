//! What a dead process has left behind accepted actions. It is made to stop there by a database that refuses the attempt of
//! what follows.

use serde_json::{Value, json};

use super::super::perform::tests::{Bench, accepts, flow, payment_link, refuses};
use super::super::reach::ActionNumber;
use super::*;

/// `id status` of each entry on record.
async fn record(bench: &Bench) -> Vec<String> {
    let word = |entry: &Value, key: &str| entry[key].as_str().unwrap_or_default().to_owned();
    let entries = bench.acting.record().await;
    entries.iter().map(|entry| format!("{} {}", word(entry, "id"), word(entry, "status"))).collect()
}

/// A turn of which nothing was attempted but action 2, up to the request with this number.
async fn stopped_before(bench: &Bench, action: Action, number: i32) {
    bench.acting.refuse_attempt(number).await;
    bench.reach(false).send(ActionNumber(2), action).await;
    bench.acting.refuse_attempt(-1).await;
}

async fn completed(bench: &Bench) -> usize {
    let (turn, process) = (bench.acting.turn, bench.acting.process);
    bench.performer.complete_follow_ons(turn, process, true).await.unwrap()
}

/// FN-LINK-1, FN-LINK-3, PERF-3, ARC-41: what hung on an accepted flow is made once, wherever in the chain its process died, and
/// stands right behind it, before the turn's next action.
#[tokio::test(flavor = "multi_thread")]
async fn what_was_to_follow_an_accepted_flow_is_made_once() {
    for number in [17, 18] {
        let bench = Bench::new(accepts()).await;
        stopped_before(&bench, payment_link(), number).await;
        bench.reach(true).send(ActionNumber(0), flow("b")).await;
        let (first, again) = (completed(&bench).await, completed(&bench).await);
        assert_eq!((first, again), (1, 0), "{number}");
        let mut made = bench.made();
        made.sort();
        assert_eq!(made, ["f_stage=link_sent", "flow-b", "flow-event", "flow-pay"], "{number}");
        let expected = ["pay performed", "stage performed", "event performed", "b performed"];
        assert_eq!(record(&bench).await, expected, "{number}");
        let numbers: Vec<i32> = bench.acting.attempts().await.iter().map(|(number, ..)| *number).collect();
        assert_eq!(numbers, [16, 17, 18, 4096], "ARC-46a: each has an attempt of its own");
    }
}

/// FN-EVT-1, FLD-1: the event of a stage that went ahead of a payment link as well.
#[tokio::test(flavor = "multi_thread")]
async fn the_event_behind_a_stage_is_made() {
    let bench = Bench::new(accepts()).await;
    let write = json!({ "tool": "set_field", "id": "stage", "field": "f_stage", "value": "prepared",
                        "followOn": { "tool": "send_event", "id": "event", "flowNs": "flow-event" } });
    stopped_before(&bench, serde_json::from_value(write).unwrap(), 17).await;
    assert_eq!(completed(&bench).await, 1);
    assert_eq!(bench.made(), ["f_stage=prepared", "flow-event"]);
    assert_eq!(record(&bench).await, ["stage performed", "event performed"]);
}

/// FN-LINK-2, ARC-41: nothing follows a flow that was refused, or of which nobody knows; what was begun is not made again.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_follows_what_is_not_known_to_be_accepted() {
    for status in [400, 503] {
        let bench = Bench::new(refuses("flow-pay", status)).await;
        bench.reach(false).send(ActionNumber(2), payment_link()).await;
        assert_eq!((completed(&bench).await, bench.made()), (0, vec!["flow-pay".to_owned()]), "{status}");
    }
    let bench = Bench::new(accepts()).await;
    stopped_before(&bench, payment_link(), 17).await;
    bench.acting.write_attempt(17).await;
    assert_eq!(completed(&bench).await, 0, "the write is under way");
    assert_eq!(bench.made(), ["flow-pay"]);
}

/// ARC-41: when a turn of the contact has settled since, it is not made, and the record says why, once.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_later_turn_has_outrun_is_not_made() {
    let bench = Bench::new(accepts()).await;
    stopped_before(&bench, payment_link(), 17).await;
    bench.acting.settle_a_later_turn().await;
    assert_eq!((completed(&bench).await, completed(&bench).await), (1, 0));
    assert_eq!(bench.made(), ["flow-pay"]);
    assert_eq!(record(&bench).await, ["pay performed", "stage failed"]);
    assert_eq!(bench.acting.record().await[1]["error"], "process ended first");
}

/// PERF-3, FN-LINK-2: a write that ManyChat refuses takes no event along.
#[tokio::test(flavor = "multi_thread")]
async fn a_refused_write_takes_no_event_along() {
    let bench = Bench::new(refuses("f_stage=link_sent", 400)).await;
    stopped_before(&bench, payment_link(), 17).await;
    assert_eq!((completed(&bench).await, completed(&bench).await), (1, 0));
    assert_eq!(bench.made(), ["flow-pay", "f_stage=link_sent"]);
    assert_eq!(record(&bench).await, ["pay performed", "stage failed"]);
}

/// ARC-45: a turn that another process has taken over is left alone.
#[tokio::test(flavor = "multi_thread")]
async fn the_turn_of_another_process_is_left_alone() {
    let bench = Bench::new(accepts()).await;
    stopped_before(&bench, payment_link(), 17).await;
    bench.acting.give_turn_away().await;
    assert_eq!((completed(&bench).await, bench.made()), (0, vec!["flow-pay".to_owned()]));
}

/// ARC-46: a contact whom nothing reaches any more gets no flow; the stage is written all the same.
#[tokio::test(flavor = "multi_thread")]
async fn no_event_is_sent_to_whom_nothing_reaches() {
    let bench = Bench::new(accepts()).await;
    stopped_before(&bench, payment_link(), 17).await;
    let (turn, process) = (bench.acting.turn, bench.acting.process);
    assert_eq!(bench.performer.complete_follow_ons(turn, process, false).await.unwrap(), 1);
    assert_eq!(bench.made(), ["flow-pay", "f_stage=link_sent"]);
    assert_eq!(bench.performer.complete_follow_ons(turn, process, false).await.unwrap(), 0);
}

/// ARC-46a: what the database refuses at the moment is made when it answers, though nobody knows whether the attempt stands
/// there.
#[tokio::test(flavor = "multi_thread")]
async fn it_waits_for_the_database() {
    let bench = Bench::new(accepts()).await;
    stopped_before(&bench, payment_link(), 17).await;
    bench.acting.refuse_attempt(17).await;
    let lets_go = async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        bench.acting.refuse_attempt(-1).await;
        bench.acting.write_attempt(17).await;
    };
    assert_eq!(tokio::join!(completed(&bench), lets_go).0, 1);
    assert_eq!(bench.made(), ["flow-pay", "f_stage=link_sent", "flow-event"]);
}
