//! `tools.json` from JSON (05 section 6.2). Rules between entries are in `tools_rules`.

use super::check::{Object, Report, Spot};
use super::hints::{later_versions, tools_hints};
use super::parsers::{filled, flag, id, list, literally_true, one_of, repeated, small, some};
use super::tools_rules::check_rules;
use crate::config::{
    Delay, Event, FieldTool, FlowRole, FlowTool, NoteTool, Nudge, Readable, ReadableField, TagTool, Tools,
    WindowClosing,
};
use crate::domain::Stage;

const TOOLS: &[&str] = &["flows", "tags", "fields", "readable", "notes", "nudge", "events", "windowClosing"];
const FLOW: &[&str] =
    &["id", "description", "flowNs", "repeatable", "role", "onStage", "offering", "settleSeconds"];
const TAG: &[&str] = &["id", "tag", "description"];
const FIELD: &[&str] = &["id", "field", "values", "description", "funnel", "offering", "intent"];
const READABLE: &[&str] = &["tags", "fields"];
const READABLE_FIELD: &[&str] = &["id", "field", "values", "description"];
const NOTE: &[&str] = &["id", "description", "field", "maxLength", "neverRendered", "onEscalation"];
const NUDGE: &[&str] = &["delays", "humanActiveTag"];
const DELAY: &[&str] = &["id", "minutes"];
const EVENT: &[&str] = &["id", "stage", "flowNs"];
const WINDOW_CLOSING: &[&str] = &["flowNs"];

/// All keys of the file.
#[cfg(test)]
pub(super) const KEYS: &[&[&str]] =
    &[TOOLS, FLOW, TAG, FIELD, READABLE, READABLE_FIELD, NOTE, NUDGE, DELAY, EVENT, WINDOW_CLOSING];

// Limits of TOOL-12.
const MOST_NOTE_CHARACTERS: u16 = 500;
const MOST_DELAY_MINUTES: u16 = 1380;
const MOST_SETTLE_SECONDS: u8 = 30;

const ROLES: &[(&str, FlowRole)] = &[("payment_link", FlowRole::PaymentLink), ("opening", FlowRole::Opening)];

/// The whole file; each list defaults to empty (TOOL-1).
pub(in crate::config) fn tools(root: &Spot<'_>, report: &mut Report) -> Option<Tools> {
    let object = Object::open(root, TOOLS, report)?;
    let flows = object.or_default("flows", Vec::new(), report, list(flow));
    let tags = object.or_default("tags", Vec::new(), report, list(tag));
    let fields = object.or_default("fields", Vec::new(), report, list(field));
    let readable = object.or_default("readable", Readable::default(), report, readable);
    let notes = object.or_default("notes", Vec::new(), report, list(note));
    let nudge = object.optional("nudge", report, nudge);
    let events = object.or_default("events", Vec::new(), report, list(event));
    let window_closing = object.optional("windowClosing", report, window_closing);
    let tools = Tools {
        flows: flows?,
        tags: tags?,
        fields: fields?,
        readable: readable?,
        notes: notes?,
        nudge: nudge?,
        events: events?,
        window_closing: window_closing?,
    };
    check_rules(&tools, report);
    tools_hints(&tools, report);
    later_versions(&tools, report);
    Some(tools)
}

fn flow(spot: &Spot<'_>, report: &mut Report) -> Option<FlowTool> {
    let object = Object::open(spot, FLOW, report)?;
    let tied = stage_except(&[Stage::New, Stage::LinkSent]);
    let id = object.required("id", report, id);
    let description = object.required("description", report, filled);
    let flow_ns = object.required("flowNs", report, filled);
    let repeatable = object.or_default("repeatable", false, report, flag);
    let role = object.optional("role", report, one_of(ROLES));
    let on_stage = object.optional("onStage", report, one_of(&tied));
    let offering = object.optional("offering", report, filled);
    let settle_seconds = object.or_default("settleSeconds", 0, report, small(0..=MOST_SETTLE_SECONDS));
    Some(FlowTool {
        id: id?,
        description: description?,
        flow_ns: flow_ns?,
        repeatable: repeatable?,
        role: role?,
        on_stage: on_stage?,
        offering: offering?,
        settle_seconds: settle_seconds?,
    })
}

fn tag(spot: &Spot<'_>, report: &mut Report) -> Option<TagTool> {
    let object = Object::open(spot, TAG, report)?;
    let id = object.required("id", report, id);
    let tag = object.required("tag", report, filled);
    let description = object.required("description", report, filled);
    Some(TagTool { id: id?, tag: tag?, description: description? })
}

fn field(spot: &Spot<'_>, report: &mut Report) -> Option<FieldTool> {
    let object = Object::open(spot, FIELD, report)?;
    let id = object.required("id", report, id);
    let field = object.required("field", report, filled);
    let values = object.required("values", report, values);
    let description = object.required("description", report, filled);
    let funnel = object.or_default("funnel", false, report, flag);
    let offering = object.or_default("offering", false, report, flag);
    let intent = object.or_default("intent", false, report, flag);
    Some(FieldTool {
        id: id?,
        field: field?,
        values: values?,
        description: description?,
        funnel: funnel?,
        offering: offering?,
        intent: intent?,
    })
}

/// At least one value, none empty, no repeats.
fn values(spot: &Spot<'_>, report: &mut Report) -> Option<Vec<String>> {
    let values = some(filled)(spot, report)?;
    for value in repeated(values.iter().map(String::as_str)) {
        report.fault(&spot.path, format!("the value `{value}` occurs more than once"));
    }
    Some(values)
}

fn readable(spot: &Spot<'_>, report: &mut Report) -> Option<Readable> {
    let object = Object::open(spot, READABLE, report)?;
    let tags = object.or_default("tags", Vec::new(), report, list(tag));
    let fields = object.or_default("fields", Vec::new(), report, list(readable_field));
    Some(Readable { tags: tags?, fields: fields? })
}

fn readable_field(spot: &Spot<'_>, report: &mut Report) -> Option<ReadableField> {
    let object = Object::open(spot, READABLE_FIELD, report)?;
    let id = object.required("id", report, id);
    let field = object.required("field", report, filled);
    let values = object.required("values", report, values);
    let description = object.required("description", report, filled);
    Some(ReadableField { id: id?, field: field?, values: values?, description: description? })
}

fn note(spot: &Spot<'_>, report: &mut Report) -> Option<NoteTool> {
    let object = Object::open(spot, NOTE, report)?;
    let id = object.required("id", report, id);
    let description = object.required("description", report, filled);
    let field = object.required("field", report, filled);
    let max_length = object.required("maxLength", report, small(1..=MOST_NOTE_CHARACTERS));
    let never_rendered = object.required("neverRendered", report, literally_true);
    let on_escalation = object.or_default("onEscalation", false, report, flag);
    never_rendered?;
    Some(NoteTool {
        id: id?,
        description: description?,
        field: field?,
        max_length: max_length?,
        on_escalation: on_escalation?,
    })
}

fn nudge(spot: &Spot<'_>, report: &mut Report) -> Option<Nudge> {
    let object = Object::open(spot, NUDGE, report)?;
    let delays = object.required("delays", report, some(delay));
    let human_active_tag = object.optional("humanActiveTag", report, filled);
    Some(Nudge { delays: delays?, human_active_tag: human_active_tag? })
}

fn delay(spot: &Spot<'_>, report: &mut Report) -> Option<Delay> {
    let object = Object::open(spot, DELAY, report)?;
    let id = object.required("id", report, id);
    let minutes = object.required("minutes", report, small(1..=MOST_DELAY_MINUTES));
    Some(Delay { id: id?, minutes: minutes? })
}

fn event(spot: &Spot<'_>, report: &mut Report) -> Option<Event> {
    let object = Object::open(spot, EVENT, report)?;
    let advanced = stage_except(&[Stage::New]);
    let id = object.required("id", report, id);
    let stage = object.required("stage", report, one_of(&advanced));
    let flow_ns = object.required("flowNs", report, filled);
    Some(Event { id: id?, stage: stage?, flow_ns: flow_ns? })
}

fn window_closing(spot: &Spot<'_>, report: &mut Report) -> Option<WindowClosing> {
    let object = Object::open(spot, WINDOW_CLOSING, report)?;
    Some(WindowClosing { flow_ns: object.required("flowNs", report, filled)? })
}

fn stage_except(excluded: &[Stage]) -> Vec<(&'static str, Stage)> {
    let stages = Stage::ALL.iter().copied().filter(|stage| !excluded.contains(stage));
    stages.map(|stage| (stage.as_str(), stage)).collect()
}
