//! Document 08, section 1, clause by clause: one change of the demo tenant's whole file, and the lines it is answered with.
//!
//! The two tables are longer than other functions because they are read row by row beside the document.

use serde_json::{Value, json};

use crate::config::test_files::Files;

/// The clause, where the file is changed, to what, and what each line of the refusal holds, in order.
type Bad = (&'static str, &'static str, Value, &'static [&'static str]);

fn flow(more: Value) -> Value {
    let mut flow = json!({ "id": "extra", "description": "d", "flowNs": "content_extra" });
    flow.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    flow
}

fn of_entries() -> Vec<Bad> {
    let read_tag = |id: &str| json!([{ "id": id, "tag": "t", "description": "d" }]);
    let read_field = |id: &str| json!([{ "id": id, "field": "f", "values": ["x"], "description": "d" }]);
    let five = json!(["new", "qualifying", "nurturing", "offered", "link_sent"]);
    vec![
        ("section 1.1", "tools.flows.0.id", json!("Big"), &["flows.0.id: must start with a small letter"]),
        ("section 1.1", "tools.tags.0.description", json!(""), &["tags.0.description: must have"]),
        ("section 1.1", "tools.flows.0.flowNs", json!(""), &["flows.0.flowNs: must have"]),
        (
            "section 1.1",
            "tools.flows.0.settleSeconds",
            json!(31),
            &["flows.0.settleSeconds: must be from 0 to 30"],
        ),
        ("section 1.1", "tools.flows.0.role", json!("link"), &["flows.0.role: must be"]),
        ("section 1.1", "tools.flows.4.onStage", json!("link_sent"), &["flows.4.onStage: must be"]),
        ("section 1.1", "tools.fields.2.values", json!(["a", "b", "a"]), &["fields.2.values: the value `a`"]),
        ("section 1.1", "tools.notes.0.maxLength", json!(501), &["notes.0.maxLength: must be from 1 to 500"]),
        (
            "section 1.1",
            "tools.notes.0.neverRendered",
            json!(false),
            &["notes.0.neverRendered: must be true"],
        ),
        ("section 1.1", "tools.events.0.stage", json!("new"), &["events.0.stage: must be"]),
        ("section 1.1", "tools.readable", json!([]), &["readable: must be an object, not a list"]),
        ("section 1.1", "tools.nudge", json!(null), &["nudge: must be an object, not null"]),
        (
            "section 1.1, role",
            "tools.flows.6",
            flow(json!({ "id": "second_hello", "role": "opening" })),
            &["flows: at most one flow has the role opening; found hello_clip, second_hello"],
        ),
        (
            "section 1.1, onStage",
            "tools.flows.5.onStage",
            json!("nurturing"),
            &["flows: at most one flow has the onStage nurturing"],
        ),
        (
            "TCFG-10",
            "tools.readable.tags",
            read_tag("likes_foundation"),
            &["readable.tags: the id `likes_foundation` is also"],
        ),
        (
            "TCFG-10",
            "tools.readable.fields",
            read_field("course"),
            &["readable.fields: the id `course` is also"],
        ),
        (
            "TCFG-10",
            "tools.flows.1.id",
            json!("hello_clip"),
            &["flows: the id `hello_clip` occurs more than once"],
        ),
        (
            "TCFG-11",
            "tools.fields.1.values",
            five,
            &["fields.1.values: field `funnel_stage` is marked funnel"],
        ),
        (
            "TCFG-11",
            "tools.fields.0.values",
            json!(["prospect", "not_prospect"]),
            &["fields.0.values: field `intent` is marked intent"],
        ),
        (
            "TCFG-11",
            "tools.fields.4.funnel",
            json!(true),
            &[
                "fields: at most one field is marked funnel; found funnel_stage, course",
                "fields: field `course` is marked funnel and offering",
                "fields.4.values: field `course` is marked funnel",
            ],
        ),
        (
            "TCFG-12",
            "tools.fields.0.intent",
            json!(false),
            &[
                "fields: field `funnel_stage` is marked funnel, which needs a field marked intent",
                "flows: flow `hello_clip` has the role opening, which needs a field marked intent",
            ],
        ),
        (
            "TCFG-12",
            "tools.fields.1.funnel",
            json!(false),
            &[
                "flows: flow `student_results` has an onStage, which needs a field marked funnel",
                "events: events need a field marked funnel",
            ],
        ),
    ]
}

fn between_entries() -> Vec<Bad> {
    let of_flow = json!("content00000000000000_900002");
    vec![
        (
            "TCFG-13",
            "tools.flows.6.offering",
            json!("advanced"),
            &["flows: flow `enrolment_link` has a role and so carries no offering"],
        ),
        (
            "TCFG-13",
            "tools.flows.0.offering",
            json!("advanced"),
            &["flows: flow `hello_clip` has a role and so carries no offering"],
        ),
        (
            "TCFG-13",
            "tools.flows.0.repeatable",
            json!(true),
            &["flows: flow `hello_clip` has the role opening and so is not repeatable"],
        ),
        (
            "TCFG-13",
            "tools.flows.0.onStage",
            json!("offered"),
            &["flows: flow `hello_clip` has a role and so carries no onStage"],
        ),
        (
            "TCFG-14",
            "tools.events.0.flowNs",
            of_flow,
            &["events: event `lead_ready` has the flowNs of flow `foundation_brochure`"],
        ),
        (
            "TCFG-14",
            "tools.events.0.flowNs",
            json!("content00000000000000_900102"),
            &["events: events lead_ready, link_out have the same flowNs"],
        ),
        (
            "TCFG-15",
            "tools.nudge.humanActiveTag",
            json!("likes-foundation"),
            &["nudge.humanActiveTag: is the tag of `likes_foundation` in tags"],
        ),
        (
            "TCFG-16",
            "tools.fields.4.values",
            json!(["foundation", "advanced"]),
            &[
                "fields.4.values: field `course` is marked offering, its values must be exactly the catalog's offering ids: foundation, advanced, weekend-intensive; missing: weekend-intensive",
            ],
        ),
        (
            "TCFG-16",
            "tools.flows.1.offering",
            json!("evening"),
            &["flows.1.offering: flow `foundation_brochure`: `evening` is none of"],
        ),
        (
            "TCFG-16",
            "tools.fields.4.offering",
            json!(false),
            &[
                "flows.1.offering: flow `foundation_brochure` has an offering, which needs a field marked offering",
                "flows.2.offering: flow `advanced_brochure` has an offering",
                "flows.3.offering: flow `intensive_brochure` has an offering",
            ],
        ),
        (
            "TCFG-20",
            "tools.flows.2.flowNs",
            json!("content_reply"),
            &["flows.2.flowNs: flow `advanced_brochure` has the value of MANYCHAT_REPLY_FLOW_NS"],
        ),
        (
            "TCFG-20",
            "tools.events.1.flowNs",
            json!("content_reply"),
            &["events.1.flowNs: event `link_out` has the value of MANYCHAT_REPLY_FLOW_NS"],
        ),
        (
            "TCFG-21",
            "tools.fields.2.field",
            json!("ai_message"),
            &["fields.2.field: field `bench_experience` has the value of MANYCHAT_REPLY_FIELD"],
        ),
        (
            "TCFG-21",
            "tools.fields.2.field",
            json!("ai_token"),
            &["fields.2.field: field `bench_experience` has the value of MANYCHAT_TOKEN_FIELD"],
        ),
        (
            "TCFG-21",
            "tools.notes.2.field",
            json!("ai_message"),
            &["notes.2.field: note `handover` has the value of MANYCHAT_REPLY_FIELD"],
        ),
        (
            "TCFG-21",
            "tools.notes.2.field",
            json!("ai_token"),
            &["notes.2.field: note `handover` has the value of MANYCHAT_TOKEN_FIELD"],
        ),
        (
            "TCFG-22",
            "tools.notes.1.field",
            json!("preferred_slot"),
            &["notes.1.field: note `doubts` writes the same ManyChat field as field `preferred_slot`"],
        ),
        (
            "TCFG-22",
            "tools.notes.1.field",
            json!("note_aim"),
            &["notes.1.field: note `doubts` writes the same ManyChat field as note `aim`"],
        ),
    ]
}

fn demo() -> Files {
    let mut files = Files::demo();
    files.reserved.reply_flow_ns = Some("content_reply".to_owned());
    files
}

/// TCFG-3: the file is named, and every problem stands on a line of its own with its place, and nothing else does.
#[test]
fn every_clause_is_checked_against_the_whole_file() {
    demo().tenant();
    for (clause, place, value, expected) in of_entries().into_iter().chain(between_entries()) {
        let message = demo().set(place, value).refusal();
        let mut lines = message.lines();
        assert_eq!(lines.next(), Some("Invalid tools.json"), "{clause}, {place}");
        let lines: Vec<&str> = lines.map(str::trim_start).collect();
        assert_eq!(lines.len(), expected.len(), "{clause}, {place}: {message}");
        for (line, start) in lines.iter().zip(expected) {
            assert!(line.starts_with(start), "{clause}, {place}: {line}");
        }
    }
}

/// TCFG-3, XCK-5: faults of several kinds come in one run.
#[test]
fn several_faults_come_together() {
    let message = demo()
        .set("tools.flows.0.repeatable", json!(true))
        .set("tools.events.0.flowNs", json!("content00000000000000_900002"))
        .set("tools.nudge.humanActiveTag", json!("likes-foundation"))
        .refusal();
    assert_eq!(message.lines().count(), 4, "{message}");
    let message = demo()
        .set("tools.flows.0.flowNs", json!("content_reply"))
        .set("tools.notes.0.field", json!("ai_token"))
        .refusal();
    assert_eq!(message.lines().count(), 3, "{message}");
}

/// TCFG-23: exact, with its case.
#[test]
fn names_are_compared_exactly() {
    for (place, value) in [
        ("tools.flows.2.flowNs", "Content_reply"),
        ("tools.fields.2.field", "AI_message"),
        ("tools.notes.0.field", "ai_token "),
        ("tools.notes.0.field", "Note_doubts"),
        ("tools.nudge.humanActiveTag", "Likes-foundation"),
    ] {
        demo().set(place, json!(value)).tenant();
    }
}

/// TCFG-4, 08 LIM-14, DEC-6: an unknown key loads at every level, and warns with its path and a close key.
#[test]
fn unknown_keys_warn_at_every_level() {
    for (place, path, close) in [
        ("tools.flow", "flow", "`flows`"),
        ("tools.flows.0.repeateble", "flows.0.repeateble", "`repeatable`"),
        ("tools.tags.0.descripton", "tags.0.descripton", "`description`"),
        ("tools.fields.2.value", "fields.2.value", "`values`"),
        ("tools.readable.tag", "readable.tag", "`tags`"),
        ("tools.readable.tags.0.tags", "readable.tags.0.tags", "`tag`"),
        ("tools.notes.0.on_escalation", "notes.0.on_escalation", "`onEscalation`"),
        ("tools.events.0.flowns", "events.0.flowns", "`flowNs`"),
        ("tools.nudge.delay", "nudge.delay", "`delays`"),
        ("tools.nudge.delays.0.minute", "nudge.delays.0.minute", "`minutes`"),
    ] {
        let warnings = demo().set(place, json!(true)).warnings();
        let expected = format!("tools.json: {path}: unknown key, it has no effect; did you mean {close}?");
        assert_eq!(warnings, [expected], "{place}");
    }
    let silent = demo().set("tools.comment", json!("ours")).warnings();
    assert_eq!(silent, ["tools.json: comment: unknown key, it has no effect"]);
}
