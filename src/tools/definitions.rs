//! The tools as a turn's model is shown them (08 sections 2 and 3).
//!
//! Providers keep a prompt's beginning, the tools included, in a cache, so equal things must be equal byte for byte. All
//! definitions come from the tenant's files, but these: `get_contact` is there or not, by the turn's binding;
//! `schedule_nudge` is missing in a follow-up; `send_flow`, which therefore stands last, varies with the unsent flows and
//! with the offering the turn starts with. Nothing varies with stage, intent, steps or the contact's words.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::limits::MOST_READS;
use super::menu::{Menu, writable};
use crate::config::{Delay, FieldTool, FlowTool, NoteTool, TagTool};
use crate::funnel;

const ADD_TAG: &str = "Adds a tag to the contact. It is carried out after your reply, like every write.";
const REMOVE_TAG: &str = "Takes a tag off the contact. It is carried out after your reply, like every write.";
const SET_FIELD: &str = "Records what the contact said in one of their fields, after your reply. The value must be one of those \
     listed for that field.";
const FORWARD: &str = "only ever forward in this order";
const WRITE_NOTE: &str = "Writes a note for the colleagues of the business; no contact ever sees it. It replaces what the note \
     held. To add to what a note holds, read the contact first. Leave out names, phone numbers, e-mail addresses and links.";
const KEPT: &str = "kept when you hand over to a person";
const SCHEDULE: &str = "Gives you one more turn later, for a follow-up, if the contact has not written by then. A later call \
     replaces an earlier one.";
const READ: &str = "Reads the contact's tags, fields and notes as they are now, at most";
const VALUES: &str = "A field without a value is null; `other` stands for a value that is not listed.";
const BESIDES: &str = "Besides what the other tools write it shows:";
const SEND: &str = "Sends the contact ready-made content.";
const AT_CALL: &str = "It goes out at the call, before your reply: do not repeat in the reply what it says. `sent` tells whether \
     it went out; never claim what did not.";
const STAGED: &str = "It goes out after your reply.";
const LINK: &str = "is refused before the stage prepared is recorded. Pass contactAsked: true with it only when the contact's \
     message of this turn asks for the link, for payment methods or how to pay; that you passed it is recorded.";
const ASKED: &str =
    "true when the contact's message of this turn asks for the link, for payment methods or how to pay";
const NO_OFFERING: &str = "No flow fits yet: record the contact's offering first, with set_field";
const ALL_SENT: &str =
    "Everything there is for the contact's offering has been sent; there is nothing left to send.";
const TIED: &str = "the system sends it when the stage";
/// Names that only definitions know.
const NAMES: &str =
    "add_tag remove_tag set_field write_note schedule_nudge get_contact send_flow contactAsked";

/// What the definitions say besides the tenant's own words, and their names: no reply says it (GUARD-4, 01 section 17).
pub const SENTENCES: [&str; 19] = [
    ADD_TAG,
    REMOVE_TAG,
    SET_FIELD,
    FORWARD,
    WRITE_NOTE,
    KEPT,
    SCHEDULE,
    READ,
    VALUES,
    BESIDES,
    SEND,
    AT_CALL,
    STAGED,
    LINK,
    ASKED,
    NO_OFFERING,
    ALL_SENT,
    TIED,
    NAMES,
];

/// A tool as the model is shown it (TCFG-30).
#[derive(Clone, Debug, PartialEq)]
pub struct ToolDefinition {
    /// For example `send_flow`.
    pub name: &'static str,
    /// What it does and when to use it.
    pub description: String,
    /// JSON Schema of its parameters: an object, closed, closed lists as `enum`. All properties are required but
    /// `contactAsked`.
    pub parameters: Arc<Value>,
}

/// What this turn offers; empty when there is nothing to offer (TSET-7).
pub(super) fn definitions(menu: &Menu) -> Arc<[ToolDefinition]> {
    let offered = [
        tag_tool(menu, "add_tag", ADD_TAG),
        tag_tool(menu, "remove_tag", REMOVE_TAG),
        set_field(menu),
        write_note(menu),
        schedule_nudge(menu),
        get_contact(menu),
        send_flow(menu),
    ];
    offered.into_iter().flatten().collect()
}

fn tag_tool(menu: &Menu, name: &'static str, what: &str) -> Option<ToolDefinition> {
    let tags = &menu.tools().tags;
    let ids: Vec<_> = tags.iter().map(|tag| tag.id.as_str()).collect();
    let description = format!("{what} Tags:{}", lines(tags.iter().map(tag_line)));
    (!ids.is_empty()).then(|| tool(name, description, json!({ "tag": choice(&ids) }), &["tag"]))
}

fn tag_line(tag: &TagTool) -> String {
    format!("{}: {}", tag.id, tag.description)
}

/// FN-STAGE-10, FN-STAGE-13
fn set_field(menu: &Menu) -> Option<ToolDefinition> {
    let fields = &menu.tools().fields;
    let ids: Vec<_> = fields.iter().map(|field| field.id.as_str()).collect();
    let mut values: Vec<&str> = Vec::new();
    for value in fields.iter().flat_map(writable) {
        if !values.contains(&value.as_str()) {
            values.push(value);
        }
    }
    let line = |field: &FieldTool| {
        let values = writable(field).map(String::as_str).collect::<Vec<_>>().join(", ");
        let order = if field.funnel { format!("; {FORWARD}") } else { String::new() };
        format!("{} ({values}{order}): {}", field.id, field.description)
    };
    let description = format!("{SET_FIELD} Fields:{}", lines(fields.iter().map(line)));
    let properties = json!({ "field": choice(&ids), "value": choice(&values) });
    (!ids.is_empty()).then(|| tool("set_field", description, properties, &["field", "value"]))
}

/// 08 section 3.4
fn write_note(menu: &Menu) -> Option<ToolDefinition> {
    let notes = &menu.tools().notes;
    let ids: Vec<_> = notes.iter().map(|note| note.id.as_str()).collect();
    let line = |note: &NoteTool| {
        let kept = if note.on_escalation { format!(", {KEPT}") } else { String::new() };
        format!("{} (at most {} characters{kept}): {}", note.id, note.max_length, note.description)
    };
    let description = format!("{WRITE_NOTE} Notes:{}", lines(notes.iter().map(line)));
    let properties = json!({ "note": choice(&ids), "text": { "type": "string" } });
    (!ids.is_empty()).then(|| tool("write_note", description, properties, &["note", "text"]))
}

/// NTOOL-1
fn schedule_nudge(menu: &Menu) -> Option<ToolDefinition> {
    let delays = &menu.tools().nudge.as_ref().filter(|_| menu.nudges)?.delays;
    let ids: Vec<_> = delays.iter().map(|delay| delay.id.as_str()).collect();
    let line = |delay: &Delay| format!("{}: after {} minutes", delay.id, delay.minutes);
    let description = format!("{SCHEDULE} Delays:{}", lines(delays.iter().map(line)));
    Some(tool("schedule_nudge", description, json!({ "delay": choice(&ids) }), &["delay"]))
}

/// 08 section 10
fn get_contact(menu: &Menu) -> Option<ToolDefinition> {
    if !menu.reads {
        return None;
    }
    let readable = &menu.tools().readable;
    let fields = readable
        .fields
        .iter()
        .map(|field| format!("{} ({}): {}", field.id, field.values.join(", "), field.description));
    let only_here: Vec<_> = readable.tags.iter().map(tag_line).chain(fields).collect();
    let more = if only_here.is_empty() {
        String::new()
    } else {
        format!(" {BESIDES}{}", lines(only_here.into_iter()))
    };
    let description = format!("{READ} {MOST_READS} times a turn. {VALUES}{more}");
    Some(tool("get_contact", description, json!({}), &[]))
}

/// 08 section 3.1, FN-OFF-14, FN-TIED-10
fn send_flow(menu: &Menu) -> Option<ToolDefinition> {
    let ids: Vec<_> = menu.unsent_flows().map(|flow| flow.id.as_str()).collect();
    if ids.is_empty() {
        return None;
    }
    let mut properties = Map::new();
    properties.insert("flow".to_owned(), choice(&ids));
    let mut parts = vec![timing(menu), acceptable(menu)];
    if let Some(link) = menu.guarded_link() {
        properties.insert("contactAsked".to_owned(), json!({ "type": "boolean", "description": ASKED }));
        parts.push(format!("{} {LINK}", link.id));
    }
    Some(tool("send_flow", parts.join("\n"), Value::Object(properties), &["flow"]))
}

fn timing(menu: &Menu) -> String {
    format!("{SEND} {}", if menu.sends_at_call { AT_CALL } else { STAGED })
}

/// The flows that would be accepted as the turn starts. A flow of another offering stays in the list of choices, because
/// recording that offering opens it within the turn.
fn acceptable(menu: &Menu) -> String {
    let offering = menu.start.offering.as_deref();
    let fitting: Vec<_> =
        menu.unsent_flows().filter(|flow| funnel::fits(flow, offering)).map(flow_line).collect();
    match (fitting.is_empty(), offering, menu.tools().offering_field()) {
        (false, ..) => format!("Flows:{}", lines(fitting.into_iter())),
        (true, None, Some(field)) => {
            format!("{NO_OFFERING} {}.", field.id)
        }
        (true, ..) => ALL_SENT.to_owned(),
    }
}

fn flow_line(flow: &FlowTool) -> String {
    let offering = flow.offering.as_ref().map(|offering| format!("for the offering {offering}"));
    let tied = flow.on_stage.map(|stage| format!("{TIED} {stage} is recorded"));
    let remarks: Vec<_> = offering.into_iter().chain(tied).collect();
    let remarks = if remarks.is_empty() { String::new() } else { format!(" ({})", remarks.join("; ")) };
    format!("{}{remarks}: {}", flow.id, flow.description)
}

fn tool(name: &'static str, description: String, properties: Value, required: &[&str]) -> ToolDefinition {
    let parameters = json!({
        "type": "object", "properties": properties, "required": required, "additionalProperties": false,
    });
    ToolDefinition { name, description, parameters: Arc::new(parameters) }
}

fn choice(ids: &[&str]) -> Value {
    json!({ "type": "string", "enum": ids })
}

fn lines(items: impl Iterator<Item = String>) -> String {
    items.map(|item| format!("\n- {item}")).collect()
}

#[cfg(test)]
#[path = "definitions_tests.rs"]
mod tests;
