use std::time::Duration as Time;

use serde_json::json;

use super::*;
use crate::config::{FieldTool, FlowTool};
use crate::domain::{EscalationReason, Usd};
use crate::model::{Reply, TurnResult, Usage};
use crate::store::acted::{ActedTurn, Tried};
use crate::tools::StagedAction;

fn flow(id: &str) -> FlowTool {
    FlowTool {
        id: id.to_owned(),
        description: "A flow.".to_owned(),
        flow_ns: format!("content_{id}"),
        repeatable: false,
        role: None,
        on_stage: None,
        offering: None,
        settle_seconds: 0,
    }
}

fn offering_field() -> FieldTool {
    FieldTool {
        id: "what_class".to_owned(),
        field: "class".to_owned(),
        values: vec!["wheel".to_owned(), "glaze".to_owned()],
        description: "The class they want.".to_owned(),
        funnel: false,
        offering: true,
        intent: false,
    }
}

fn tools() -> Tools {
    Tools { flows: vec![flow("a"), flow("b")], fields: vec![offering_field()], ..Tools::default() }
}

fn turn(seq: i64, id: &str, status: &str) -> ActedTurn {
    let actions = json!([{ "tool": "send_flow", "id": id, "status": status }, { "tool": "add_tag", "id": "t", "status": "performed" }]);
    ActedTurn { seq, at: Timestamp::from_second(1000 + seq).unwrap(), actions, open: false, tried: None }
}

/// TSET-8, ARC-34: the stored summary and every turn behind it count; a turn without a summary counts from the first on.
#[test]
fn what_earlier_turns_did_is_the_summary_and_all_behind_it() {
    let mut acted =
        Acted { known: None, upto: 0, turns: vec![turn(4, "a", "performed"), turn(9, "b", "failed")] };
    let known = known(&tools(), Some(&acted));
    assert_eq!(known.sent_flows.keys().collect::<Vec<_>>(), ["a"]);
    acted =
        Acted { known: serde_json::to_value(known).ok(), upto: 9, turns: vec![turn(12, "b", "performed")] };
    let mut sent: Vec<_> = super::known(&tools(), Some(&acted)).sent_flows.into_keys().collect();
    sent.sort();
    assert_eq!(sent, ["a", "b"]);
    assert_eq!(super::known(&tools(), None), Known::default());
}

/// 10 section 16.1: what a turn has staged counts as pending while something holds it; what the reference's dead process left
/// never does.
#[test]
fn open_actions_are_pending() {
    let write =
        |status: &str| json!({ "tool": "set_field", "id": "what_class", "value": "glaze", "status": status });
    let acted = |open, tried| {
        let turn = ActedTurn { actions: json!([write("staged")]), open, tried, ..turn(4, "a", "staged") };
        let known = known_of(&Acted { known: None, upto: 3, turns: vec![turn] });
        (known.offering, known.pending.offering)
    };
    let glaze = Some("glaze".to_owned());
    let tried = |status| Some(vec![Tried { action: 0, entry: write(status) }]);
    assert_eq!(acted(true, None), (None, glaze.clone()));
    assert_eq!(acted(true, tried("performed")), (glaze, None));
    assert_eq!((acted(true, tried("failed")), acted(false, None)), ((None, None), (None, None)));
}

/// ARC-34: a summary that cannot be read is no empty one: none is stored in its place that would lack what it counts.
#[test]
fn an_unreadable_summary_is_not_an_empty_one() {
    let acted = |known| Acted { known, upto: 3, turns: vec![turn(4, "a", "performed")] };
    let summed = |acted: &Acted| summed(&tools(), "config".to_owned(), acted, Timestamp::UNIX_EPOCH);
    for known in [json!({}), json!("flows"), json!({ "sent_flows": 3 })] {
        let unreadable = acted(Some(known));
        assert_eq!((stored(&unreadable), summed(&unreadable).is_none()), (None, true), "{unreadable:?}");
        assert!(known_of(&unreadable).has_sent("a", Timestamp::UNIX_EPOCH), "later turns count all the same");
    }
    assert_eq!(stored(&acted(None)), Some(Known::default()));
    assert_eq!(summed(&acted(None)).map(|summary| summary.upto_seq), Some(4));
}

fn known_of(acted: &Acted) -> Known {
    known(&tools(), Some(acted))
}

/// ARC-34: the summary goes as far as everything is done, never past a turn with a `staged` entry.
#[test]
fn a_summary_never_passes_what_is_not_done() {
    let acted = |turns| Acted { known: None, upto: 3, turns };
    let upto = |turns| {
        summed(&tools(), "config".to_owned(), &acted(turns), Timestamp::UNIX_EPOCH)
            .map(|summary| summary.upto_seq)
    };
    assert_eq!(upto(vec![turn(4, "a", "performed"), turn(6, "b", "performed")]), Some(6));
    assert_eq!(
        upto(vec![turn(4, "a", "performed"), turn(6, "b", "staged"), turn(8, "a", "performed")]),
        Some(4)
    );
    assert_eq!(upto(vec![turn(4, "a", "staged"), turn(6, "b", "performed")]), None);
    assert_eq!(upto(Vec::new()), None, "nothing new is nothing to write");
}

/// ARC-34: what a process of the reference left staged, and nothing holds, stops the summary for two days and not for ever.
#[test]
fn a_summary_passes_what_can_never_be_done() {
    let later = Timestamp::from_second(1000 + 49 * 3600).unwrap();
    let upto = |open, now| {
        let stuck = ActedTurn { open, ..turn(4, "a", "staged") };
        let acted = Acted { known: None, upto: 3, turns: vec![stuck, turn(6, "b", "performed")] };
        summed(&tools(), "config".to_owned(), &acted, now).map(|summary| summary.upto_seq)
    };
    assert_eq!(upto(false, later), Some(6));
    assert_eq!(upto(true, later), None, "somebody still has it");
    assert_eq!(upto(false, Timestamp::from_second(1000 + 47 * 3600).unwrap()), None, "too early to say");
}

/// ARC-45, FLOW-7: where the lane cannot be held for longer, a turn waits as long as it allows and leaves Settle its time.
#[test]
fn a_turn_waits_no_longer_than_its_lane() {
    let seconds = Time::from_secs;
    let wait = |spent| left_of_lane(seconds(53), seconds(spent));
    assert_eq!((wait(30), wait(2), wait(50)), (seconds(10), seconds(38), seconds(0)));
}

/// LIM-17, TSET-10: tools are kept from unbound turns where the tenant says so and tokens are required.
#[test]
fn the_tenant_can_keep_tools_from_unbound_turns() {
    let mut tenant = crate::config::demo::tenant().unwrap();
    assert!(!withheld(&tenant, Binding::Unbound, true));
    tenant.rules.unbound_tools = false;
    assert!(withheld(&tenant, Binding::Unbound, true));
    assert!(!withheld(&tenant, Binding::Unbound, false) && !withheld(&tenant, Binding::Bound, true));
}

/// ARC-34: a summary is one of a configuration: of what its marks mean.
#[test]
fn a_summary_names_what_it_was_made_by() {
    let mut tenant = crate::config::demo::tenant().unwrap();
    tenant.tools = Some(Tools::default());
    assert_eq!(acted_by(&tenant), None, "no flows, no fields: nothing is read");
    tenant.tools = Some(Tools { flows: vec![flow("a")], ..Tools::default() });
    let plain = acted_by(&tenant);
    tenant.tools = Some(tools());
    assert!(plain.is_some() && acted_by(&tenant) != plain);
    tenant.tools = None;
    assert_eq!(acted_by(&tenant), None);
}

fn draft(cause: Option<Cause>, error: Option<&str>) -> Draft {
    let reply = match cause {
        None => Reply::scripted("Hello."),
        Some(_) => Reply::handoff("A person will answer.", EscalationReason::LowConfidence),
    };
    let result = TurnResult {
        reply: reply.clone(),
        usage: Usage::default(),
        cost: Usd::ZERO,
        interventions: Vec::new(),
        error: error.map(str::to_owned),
        error_detail: None,
        latency: Time::ZERO,
        model: "mock:test".to_owned(),
        tools_offered: true,
        cause,
    };
    Draft::of_copy(reply, Decision::Model(Box::new(result)))
}

/// GUARD-14, FAIL-15, DISC-1, 08 section 8: only a handoff by the model or for its confidence leaves notes standing.
#[test]
fn the_ending_follows_the_cause() {
    for (cause, error, expected) in [
        (None, None, Ending::Answered),
        (Some(Cause::Model), None, Ending::Escalated),
        (Some(Cause::Confidence), None, Ending::Escalated),
        (Some(Cause::Leak), None, Ending::Failed),
        (Some(Cause::Schema), None, Ending::Failed),
        (Some(Cause::Error), Some("provider_unreachable"), Ending::Failed),
    ] {
        assert_eq!(ending(&draft(cause, error)), expected, "{cause:?}");
    }
    let aborted = Decision::Aborted { bill: Box::default(), latency: Time::ZERO };
    assert_eq!(ending(&Draft::of_copy(Reply::scripted("x"), aborted)), Ending::Aborted);
}

/// REC-1, FAIL-15, ARC-41: the tools' own record, which takes in what a first run attempted; without them that alone.
#[test]
fn what_a_first_run_attempted_stays_on_record() {
    let earlier = [json!({ "tool": "send_flow", "id": "a", "status": "performed" })];
    let mut draft = draft(None, None);
    assert_eq!(record(&draft, &[]), None);
    assert_eq!(record(&draft, &earlier), Some(json!(earlier)));
    draft.finished.record = Some(Vec::new());
    assert_eq!(record(&draft, &earlier), Some(json!([])));
}

/// BOX-1, DB-12, TCFG-5: the payload has `actions` and `turnId` only where something is staged, in the shape of 08 section 4.
#[test]
fn a_payload_takes_staged_actions_along() {
    let (mut draft, row) = (draft(None, None), AgentRowId::fresh());
    let payload = || json!({ "messages": ["Hello."] });
    assert_eq!(with_actions(payload(), &draft, row), payload());
    let action = json!({ "tool": "add_tag", "id": "open_day", "tag": "open-day" });
    let number = crate::tools::ActionNumber(3);
    draft.finished.staged =
        vec![StagedAction { number, action: serde_json::from_value(action.clone()).unwrap() }];
    let with = with_actions(payload(), &draft, row);
    assert_eq!(with, json!({ "messages": ["Hello."], "actions": [action], "turnId": row.to_string() }));
}

/// WAIT-1, WAIT-2: what has played, and what plays for less than a millisecond, is not waited for.
#[test]
fn a_flow_plays_until_its_end() {
    assert_eq!(plays_for(None), None);
    assert_eq!(plays_for(Some(Instant::now())), None);
    let left = plays_for(Some(Instant::now() + Time::from_secs(5))).unwrap();
    assert!(left > Time::from_secs(4) && left <= Time::from_secs(5));
}
