use serde_json::{Value, json};

use crate::config::test_files::{Files, assert_loads, assert_refused};
use crate::config::{FlowRole, ReservedNames};
use crate::domain::Stage;

/// The demo tenant with another tools.json; its catalog has the offerings foundation, advanced, weekend-intensive.
fn tools(tools: Value) -> Files {
    Files { tools: Some(tools), ..Files::demo() }
}

fn flow(id: &str, more: Value) -> Value {
    let mut flow = json!({ "id": id, "description": "d", "flowNs": format!("content_{id}") });
    flow.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    flow
}

fn field(id: &str, more: Value) -> Value {
    let mut field = json!({ "id": id, "description": "d", "field": format!("mc_{id}"), "values": ["x"] });
    field.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    field
}

fn intent() -> Value {
    field("intent", json!({ "intent": true, "values": ["not_prospect", "prospect"] }))
}

fn funnel() -> Value {
    let stages: Vec<_> = Stage::ALL.iter().map(|stage| stage.as_str()).collect();
    field("stage", json!({ "funnel": true, "values": stages }))
}

fn refused(file: Value, words: &[&str]) {
    let message = tools(file).refusal();
    for word in words {
        assert!(message.contains(word), "`{word}` is missing in: {message}");
    }
}

/// TOOL-1, TOOL-5: an absent list is empty; events and the window-closing flow alone offer nothing.
#[test]
fn empty_lists_offer_no_tool() {
    for file in
        [json!({}), json!({ "flows": [], "readable": {} }), json!({ "windowClosing": { "flowNs": "c" } })]
    {
        assert!(!tools(file).tenant().tools.unwrap().offers_any());
    }
    let tag = json!([{ "id": "a", "tag": "t", "description": "d" }]);
    for file in [
        json!({ "tags": tag }),
        json!({ "readable": { "tags": tag } }),
        json!({ "nudge": { "delays": [{ "id": "later", "minutes": 1 }] } }),
        json!({ "flows": [flow("a", json!({}))] }),
    ] {
        assert!(tools(file).tenant().tools.unwrap().offers_any());
    }
}

/// TOOL-2, TOOL-3 in every list.
#[test]
fn ids_and_descriptions_follow_their_rules_in_every_list() {
    let places = ["flows.0", "tags.0", "fields.0", "notes.0", "readable.tags.0"];
    for place in places {
        assert_refused(&format!("tools.{place}.id"), json!("Upper Case"), &[&format!("  {place}.id: ")]);
        assert_refused(
            &format!("tools.{place}.description"),
            json!(""),
            &[&format!("  {place}.description: ")],
        );
    }
    assert_refused("tools.nudge.delays.0.id", json!("-x"), &["nudge.delays.0.id"]);
    assert_refused("tools.events.0.id", json!(""), &["events.0.id"]);
    for (place, other) in [
        ("flows.1.id", "hello_clip"),
        ("fields.1.id", "intent"),
        ("notes.1.id", "aim"),
        ("events.1.id", "lead_ready"),
        ("nudge.delays.1.id", "in_three_hours"),
    ] {
        assert_refused(
            &format!("tools.{place}"),
            json!(other),
            &["occurs more than once", &format!("`{other}`")],
        );
    }
}

/// Section 6.2: types, bounds and words of the lists; TOOL-12.
#[test]
fn entries_of_a_wrong_type_or_out_of_bounds_are_refused_with_their_place() {
    for (place, value) in [
        ("flows.0.flowNs", json!("")),
        ("flows.0.settleSeconds", json!(31)),
        ("flows.0.settleSeconds", json!(1.5)),
        ("flows.0.role", json!("checkout")),
        ("flows.4.onStage", json!("new")),
        ("flows.4.onStage", json!("link_sent")),
        ("flows.4.onStage", json!("paid")),
        ("flows.1.offering", json!("")),
        ("flows.1.repeatable", json!("yes")),
        ("tags.0.tag", json!("")),
        ("fields.2.field", json!("")),
        ("fields.2.values", json!([])),
        ("fields.2.values", json!(["none", "none"])),
        ("fields.2.values.1", json!("")),
        ("readable.fields", json!([{ "id": "a", "field": "f", "values": [], "description": "d" }])),
        ("notes.0.maxLength", json!(0)),
        ("notes.0.field", json!("")),
        ("nudge.delays", json!([])),
        ("nudge.delays.0.minutes", json!(0)),
        ("nudge.humanActiveTag", json!("")),
        ("events.0.flowNs", json!("")),
        ("events.0.stage", json!("paid")),
        ("windowClosing", json!({ "flowNs": "" })),
    ] {
        let path = if place == "windowClosing" { "windowClosing.flowNs" } else { place };
        assert_refused(&format!("tools.{place}"), value, &["Invalid tools.json", &format!("  {path}")]);
    }
}

/// ACC-CFG-12, TOOL-12: a note is never shown and has at most 500 characters.
#[test]
fn notes_are_literally_never_rendered() {
    for value in [json!(false), json!("true"), json!(1)] {
        assert_refused("tools.notes.0.neverRendered", value, &["notes.0.neverRendered"]);
    }
    assert!(
        Files::demo()
            .remove("tools.notes.0.neverRendered")
            .refusal()
            .contains("notes.0.neverRendered: is missing")
    );
    assert_refused("tools.notes.0.maxLength", json!(501), &["notes.0.maxLength: must be from 1 to 500"]);
    assert_eq!(assert_loads("tools.notes.0.maxLength", json!(500.0)).tools.unwrap().notes[0].max_length, 500);
}

/// ACC-CFG-13, TOOL-12: one hour inside the 24-hour window.
#[test]
fn a_delay_is_at_most_1380_minutes() {
    assert_refused("tools.nudge.delays.0.minutes", json!(1381), &["nudge.delays.0.minutes", "1380"]);
    assert_eq!(
        assert_loads("tools.nudge.delays.0.minutes", json!(1380)).tools.unwrap().nudge.unwrap().delays[0]
            .minutes,
        1380
    );
}

/// TOOL-20, TOOL-21, TOOL-22
#[test]
fn roles_of_flows_follow_their_rules() {
    let with = |first: Value, second: Value| json!({ "flows": [flow("a", first), flow("b", second)], "fields": [intent(), funnel()] });
    let pay = || json!({ "role": "payment_link" });
    let open = || json!({ "role": "opening" });
    refused(with(pay(), pay()), &["  flows: at most one flow has the role payment_link; found a, b"]);
    refused(with(open(), open()), &["  flows: at most one flow has the role opening; found a, b"]);
    refused(
        with(json!({ "role": "payment_link", "offering": "advanced" }), json!({})),
        &["flow `a` has a role", "offering"],
    );
    refused(
        with(json!({ "role": "opening", "offering": "advanced" }), json!({})),
        &["flow `a` has a role", "offering"],
    );
    refused(
        with(json!({ "role": "opening", "repeatable": true }), json!({})),
        &["flow `a`", "not repeatable"],
    );
    for role in ["opening", "payment_link"] {
        let tied = json!({ "role": role, "onStage": "offered" });
        refused(with(tied, json!({})), &["flow `a` has a role and so carries no onStage"]);
    }
    let tied = || json!({ "onStage": "offered" });
    refused(with(tied(), tied()), &["  flows: at most one flow has the onStage offered"]);
    let tenant = tools(with(json!({ "role": "opening", "repeatable": false }), tied())).tenant();
    let flows = tenant.tools.unwrap().flows;
    assert_eq!((flows[0].role, flows[1].on_stage), (Some(FlowRole::Opening), Some(Stage::Offered)));
}

/// TOOL-23; `false` counts as not marked.
#[test]
fn a_mark_stands_once_and_alone() {
    for mark in ["funnel", "intent"] {
        let values = if mark == "funnel" { funnel()["values"].clone() } else { intent()["values"].clone() };
        let second = field("again", json!({ mark: true, "values": values }));
        refused(
            json!({ "fields": [intent(), funnel(), second] }),
            &[&format!("at most one field is marked {mark}")],
        );
    }
    let ids = json!(["foundation", "advanced", "weekend-intensive"]);
    let buying = |id: &str| field(id, json!({ "offering": true, "values": ids }));
    refused(
        json!({ "fields": [buying("a"), buying("b")] }),
        &["at most one field is marked offering; found a, b"],
    );
    for (first, second) in [("funnel", "offering"), ("funnel", "intent"), ("offering", "intent")] {
        let both = field("both", json!({ first: true, second: true }));
        refused(json!({ "fields": [both] }), &[&format!("field `both` is marked {first} and {second}")]);
    }
    let plain = field("plain", json!({ "funnel": false, "offering": false, "intent": false }));
    tools(json!({ "fields": [plain] })).tenant();
}

/// ACC-CFG-11, TOOL-24, TOOL-10, TOOL-11, FN-CHK-33: the message says what to write.
#[test]
fn marked_fields_have_exactly_their_values() {
    let five = json!(["new", "qualifying", "nurturing", "offered", "link_sent"]);
    let stages = "new, qualifying, nurturing, offered, prepared, link_sent";
    assert_refused("tools.fields.1.values", five, &["  fields.1.values: ", stages]);
    assert_refused(
        "tools.fields.0.values",
        json!(["prospect", "not_prospect"]),
        &["fields.0.values", "not_prospect, prospect"],
    );
}

/// ACC-CFG-11, TOOL-25, FN-CHK-33
#[test]
fn what_needs_another_field_names_it() {
    refused(json!({ "fields": [funnel()] }), &["  fields: field `stage`", "not_prospect, prospect"]);
    refused(
        json!({ "flows": [flow("hi", json!({ "role": "opening" }))] }),
        &["  flows: flow `hi`", "intent"],
    );
    refused(
        json!({ "flows": [flow("tied", json!({ "onStage": "offered" }))] }),
        &["  flows: flow `tied`", "funnel"],
    );
    let event = json!([{ "id": "e", "stage": "offered", "flowNs": "c" }]);
    refused(json!({ "events": event }), &["  events: events need a field marked funnel"]);
}

/// ACC-CFG-14, TOOL-26: two flows may share a flowNs, an event shares it with nobody.
#[test]
fn events_have_a_stage_and_a_flow_of_their_own() {
    assert_refused("tools.events.0.stage", json!("new"), &["events.0.stage"]);
    assert_refused(
        "tools.events.1.stage",
        json!("nurturing"),
        &["at most one event is on the stage nurturing"],
    );
    let of_flow = json!("content00000000000000_900002");
    assert_refused(
        "tools.events.0.flowNs",
        of_flow.clone(),
        &["event `lead_ready`", "flow `foundation_brochure`"],
    );
    let of_event = json!("content00000000000000_900101");
    assert_refused("tools.events.1.flowNs", of_event, &["lead_ready, link_out"]);
    let shared = Files::demo().set("tools.flows.2.flowNs", of_flow);
    assert!(
        shared.warnings()[0].contains("foundation_brochure, advanced_brochure"),
        "{:?}",
        shared.warnings()
    );
}

/// TOOL-27: reported at the readable lists.
#[test]
fn readable_ids_are_unique_beside_the_writable_ones() {
    let tag = |id: &str| json!([{ "id": id, "tag": "t", "description": "d" }]);
    assert_refused(
        "tools.readable.tags",
        tag("likes_foundation"),
        &["  readable.tags: ", "`likes_foundation`"],
    );
    let read = |id: &str| json!([{ "id": id, "field": "f", "values": ["x"], "description": "d" }]);
    assert_refused("tools.readable.fields", read("course"), &["  readable.fields: ", "`course`"]);
    assert_loads("tools.readable.fields", read("likes_foundation"));
}

/// TOOL-28: the agent cannot remove the tag that silences it; it may read it.
#[test]
fn the_silencing_tag_is_not_writable() {
    assert_refused(
        "tools.nudge.humanActiveTag",
        json!("likes-foundation"),
        &["  nudge.humanActiveTag: ", "`likes_foundation`"],
    );
    assert_loads("tools.nudge.humanActiveTag", json!("from-advert"));
}

/// TOOL-29, 08 LIM-11: entries may name the same ManyChat tag or field, as the reference allows, with a warning.
#[test]
fn entries_that_share_a_name_load_and_warn() {
    let tag = |id: &str| json!({ "id": id, "tag": "t", "description": "d" });
    let read = json!([{ "id": "r", "field": "note_aim", "values": ["x"], "description": "d" }]);
    for (place, value, words) in [
        (
            "tools.tags",
            json!([tag("a"), tag("b"), tag("c")]),
            ["tools.json: tags: a, b, c", "ManyChat tag `t`"],
        ),
        (
            "tools.fields.2.field",
            json!("preferred_slot"),
            ["tools.json: fields: bench_experience, preferred_slot", "ManyChat field `preferred_slot`"],
        ),
        ("tools.readable.fields", read, ["tools.json: notes.0.field: note `aim`", "readable.fields `r`"]),
    ] {
        let warnings = Files::demo().set(place, value).warnings();
        assert!(
            warnings.len() == 1 && words.iter().all(|word| warnings[0].contains(word)),
            "{place}: {warnings:?}"
        );
    }
}

/// WCF-1: the window-closing flow is nobody else's.
#[test]
fn the_window_closing_flow_is_its_own() {
    let named = |flow_ns: &str| json!({ "flowNs": flow_ns });
    let tenant = assert_loads("tools.windowClosing", named("content_last"));
    assert_eq!(tenant.tools.unwrap().window_closing.unwrap().flow_ns, "content_last");
    assert_refused(
        "tools.windowClosing",
        named("content00000000000000_900002"),
        &["windowClosing.flowNs", "`foundation_brochure`"],
    );
    assert_refused(
        "tools.windowClosing",
        named("content00000000000000_900101"),
        &["windowClosing.flowNs", "`lead_ready`"],
    );
    let mut files = Files::demo().set("tools.windowClosing", named("content_reply"));
    files.reserved.reply_flow_ns = Some("content_reply".to_owned());
    assert!(files.refusal().contains("MANYCHAT_REPLY_FLOW_NS"));
}

/// ACC-CFG-8, ACC-CFG-9, XCK-1 to XCK-5: all collisions in one message, with kind, id and variable or entry.
#[test]
fn collisions_with_the_delivery_are_listed_together() {
    let mut files = Files::demo()
        .set("tools.flows.1.flowNs", json!("content_reply"))
        .set("tools.events.0.flowNs", json!("content_reply_too"))
        .set("tools.fields.2.field", json!("ai_message"))
        .set("tools.fields.3.field", json!("ai_token"))
        .set("tools.notes.0.field", json!("ai_token"))
        .set("tools.notes.2.field", json!("note_doubts"));
    files.reserved.reply_flow_ns = Some("content_reply".to_owned());
    let message = files.refusal();
    let expected = [
        ("flows.1.flowNs: flow `foundation_brochure`", "MANYCHAT_REPLY_FLOW_NS"),
        ("fields.2.field: field `bench_experience`", "MANYCHAT_REPLY_FIELD"),
        ("fields.3.field: field `preferred_slot`", "MANYCHAT_TOKEN_FIELD"),
        ("notes.0.field: note `aim`", "MANYCHAT_TOKEN_FIELD"),
        ("notes.0.field: note `aim`", "field `preferred_slot`"),
        ("notes.2.field: note `handover`", "note `doubts`"),
    ];
    let lines: Vec<_> = message.lines().skip(1).collect();
    assert_eq!(lines.len(), expected.len(), "{message}");
    for (line, (start, end)) in lines.iter().zip(expected) {
        assert!(line.trim_start().starts_with(start) && line.contains(end), "{line}");
    }
}

/// XCK-1 for events; skipped while the variable is unset; values are compared exactly (XCK-5).
#[test]
fn collisions_need_the_exact_value_of_a_set_variable() {
    let event = Files::demo().set("tools.events.0.flowNs", json!("content_reply"));
    event.tenant();
    let reply =
        |flow_ns: &str| ReservedNames { reply_flow_ns: Some(flow_ns.to_owned()), ..ReservedNames::default() };
    let colliding = Files { reserved: reply("content_reply"), ..event.clone() };
    assert!(colliding.refusal().contains("event `lead_ready`"));
    Files { reserved: reply("Content_reply"), ..event }.tenant();
    assert_loads("tools.notes.0.field", json!("AI_token"));
}

/// XCK-2 with other names of the variables.
#[test]
fn reserved_names_follow_the_variables() {
    let mut files = Files::demo().set("tools.fields.2.field", json!("ai_message"));
    files.reserved.reply_field = "answer".to_owned();
    files.tenant();
    files.reserved.token_field = "ai_message".to_owned();
    assert!(files.refusal().contains("MANYCHAT_TOKEN_FIELD"));
}

/// ACC-CFG-9, XCK-4
#[test]
fn a_note_has_a_field_of_its_own() {
    assert_refused("tools.notes.1.field", json!("note_aim"), &["note `doubts`", "note `aim`"]);
    assert_refused("tools.notes.1.field", json!("buying_intent"), &["note `doubts`", "field `intent`"]);
}

/// ACC-CFG-10, XCK-6, XCK-8: all ids of the catalog are listed, in any order they fit.
#[test]
fn the_offering_field_lists_exactly_the_catalog() {
    let all = "foundation, advanced, weekend-intensive";
    assert_refused(
        "tools.fields.4.values",
        json!(["foundation", "advanced"]),
        &["field `course`", all, "missing: weekend-intensive"],
    );
    let extra = json!(["foundation", "advanced", "weekend-intensive", "evening"]);
    assert_refused("tools.fields.4.values", extra, &[all, "not in the catalog: evening"]);
    assert_loads("tools.fields.4.values", json!(["weekend-intensive", "foundation", "advanced"]));
}

/// XCK-7, XCK-8: faults of field and flows together.
#[test]
fn a_flow_belongs_to_an_offering_of_the_catalog() {
    let files = Files::demo()
        .set("tools.flows.1.offering", json!("evening"))
        .set("tools.fields.4.values", json!(["foundation"]));
    let message = files.refusal();
    assert!(
        message.contains("field `course`") && message.contains("flow `foundation_brochure`: `evening`"),
        "{message}"
    );
    let unmarked = Files::demo().set("tools.fields.4.offering", json!(false)).refusal();
    for id in ["foundation_brochure", "advanced_brochure", "intensive_brochure"] {
        assert!(
            unmarked.contains(&format!("flow `{id}` has an offering, which needs a field marked offering")),
            "{unmarked}"
        );
    }
}

/// TSET-6, FN-OPEN-4: what is configured and this version does not do, is said.
#[test]
fn what_waits_for_a_later_version_warns() {
    let nudge = tools(json!({ "nudge": { "delays": [{ "id": "tonight", "minutes": 240 }] } })).all_warnings();
    assert!(nudge.len() == 1 && nudge[0].contains("nudge: is not carried out yet"), "{nudge:?}");
    let opening = json!({ "fields": [intent()], "flows": [flow("hello", json!({ "role": "opening" }))] });
    let opening = tools(opening).all_warnings();
    assert!(opening.len() == 1 && opening[0].contains("the opening `hello` is not sent yet"), "{opening:?}");
}

/// 10 section 16, point 9, FN-CHK-30: allowed, and worth a warning.
#[test]
fn rarely_meant_funnels_warn() {
    let warnings = tools(json!({ "fields": [intent(), funnel()] })).warnings();
    assert!(warnings.len() == 1 && warnings[0].contains("payment_link"), "{warnings:?}");
    let once = tools(json!({ "flows": [flow("pay", json!({ "role": "payment_link" }))] })).warnings();
    assert!(once.len() == 1 && once[0].contains("not repeatable"), "{once:?}");
    let token = json!([{ "id": "t", "field": "ai_token", "values": ["x"], "description": "d" }]);
    let warnings = Files::demo().set("tools.readable.fields", token).warnings();
    assert!(warnings.len() == 1 && warnings[0].contains("MANYCHAT_TOKEN_FIELD"), "{warnings:?}");
}
