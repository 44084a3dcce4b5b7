//! Rules between the entries of `tools.json` (05 section 6.4). Each breach names the rule and what to change.

use super::check::Report;
use super::parsers::repeated;
use crate::config::{FieldTool, FlowRole, FlowTool, Tools};
use crate::domain::{Intent, Stage};

/// Every rule of 6.4 and TOOL-2's uniqueness.
pub(super) fn check_rules(tools: &Tools, report: &mut Report) {
    unique_ids(tools, report);
    roles(tools, report);
    stages_of_flows(tools, report);
    marks(tools, report);
    fixed_values(tools, report);
    needed_fields(tools, report);
    events(tools, report);
    human_active_tag(tools, report);
    window_closing(tools, report);
}

/// TOOL-2 and TOOL-27.
fn unique_ids(tools: &Tools, report: &mut Report) {
    let flows = tools.flows.iter().map(|flow| flow.id.as_str());
    let tags = tools.tags.iter().map(|tag| tag.id.as_str());
    let fields = tools.fields.iter().map(|field| field.id.as_str());
    let readable_tags = tools.readable.tags.iter().map(|tag| tag.id.as_str());
    let readable_fields = tools.readable.fields.iter().map(|field| field.id.as_str());
    let notes = tools.notes.iter().map(|note| note.id.as_str());
    let events = tools.events.iter().map(|event| event.id.as_str());
    let delays = tools.nudge.iter().flat_map(|nudge| &nudge.delays).map(|delay| delay.id.as_str());
    one_id_each("flows", flows, report);
    one_id_each("tags", tags.clone(), report);
    one_id_each("fields", fields.clone(), report);
    one_id_each("notes", notes, report);
    one_id_each("events", events, report);
    one_id_each("nudge.delays", delays, report);
    one_id_each_with("readable.tags", "tags", tags, readable_tags, report);
    one_id_each_with("readable.fields", "fields", fields, readable_fields, report);
}

fn one_id_each<'a>(path: &str, ids: impl Iterator<Item = &'a str>, report: &mut Report) {
    for id in repeated(ids) {
        report.fault(path, format!("the id `{id}` occurs more than once"));
    }
}

fn one_id_each_with<'a>(
    path: &str,
    other: &str,
    taken: impl Iterator<Item = &'a str>,
    ids: impl Iterator<Item = &'a str> + Clone,
    report: &mut Report,
) {
    one_id_each(path, ids.clone(), report);
    let taken: Vec<_> = taken.collect();
    for id in ids.filter(|id| taken.contains(id)) {
        report.fault(
            path,
            format!("the id `{id}` is also one of `{other}`; it must be unique in both together"),
        );
    }
}

/// TOOL-20, TOOL-21 and the first half of TOOL-22.
fn roles(tools: &Tools, report: &mut Report) {
    for (role, name) in [(FlowRole::PaymentLink, "payment_link"), (FlowRole::Opening, "opening")] {
        let ids: Vec<_> = with_role(tools, role).map(|flow| flow.id.as_str()).collect();
        if ids.len() > 1 {
            report.fault("flows", format!("at most one flow has the role {name}; found {}", ids.join(", ")));
        }
    }
    for flow in tools.flows.iter().filter(|flow| flow.role.is_some()) {
        if flow.offering.is_some() {
            report.fault("flows", format!("flow `{}` has a role and so carries no offering", flow.id));
        }
        if flow.on_stage.is_some() {
            report.fault("flows", format!("flow `{}` has a role and so carries no onStage", flow.id));
        }
        if flow.role == Some(FlowRole::Opening) && flow.repeatable {
            report
                .fault("flows", format!("flow `{}` has the role opening and so is not repeatable", flow.id));
        }
    }
}

fn with_role(tools: &Tools, role: FlowRole) -> impl Iterator<Item = &FlowTool> {
    tools.flows.iter().filter(move |flow| flow.role == Some(role))
}

/// The second half of TOOL-22.
fn stages_of_flows(tools: &Tools, report: &mut Report) {
    let stages = tools.flows.iter().filter_map(|flow| flow.on_stage).map(Stage::as_str);
    for stage in repeated(stages) {
        report.fault("flows", format!("at most one flow has the onStage {stage}"));
    }
}

/// The name of a mark and whether a field has it.
type Mark = (&'static str, fn(&FieldTool) -> bool);

/// TOOL-23; `false` counts as not marked.
fn marks(tools: &Tools, report: &mut Report) {
    let marked: [Mark; 3] = [
        ("funnel", |field| field.funnel),
        ("offering", |field| field.offering),
        ("intent", |field| field.intent),
    ];
    for (mark, has) in marked {
        let ids: Vec<_> =
            tools.fields.iter().filter(|field| has(field)).map(|field| field.id.as_str()).collect();
        if ids.len() > 1 {
            report.fault("fields", format!("at most one field is marked {mark}; found {}", ids.join(", ")));
        }
    }
    for field in &tools.fields {
        let marks = marked.iter().filter(|(_, has)| has(field)).map(|(mark, _)| *mark).collect::<Vec<_>>();
        if marks.len() > 1 {
            let found = marks.join(" and ");
            report.fault(
                "fields",
                format!("field `{}` is marked {found}; a field has one mark at most", field.id),
            );
        }
    }
}

/// TOOL-24; the message says exactly what to write (FN-CHK-33).
fn fixed_values(tools: &Tools, report: &mut Report) {
    let stages: Vec<_> = Stage::ALL.iter().map(|stage| stage.as_str()).collect();
    let intents: Vec<_> = Intent::ALL.iter().map(|intent| intent.as_str()).collect();
    for (position, field) in tools.fields.iter().enumerate() {
        for (mark, marked, wanted) in [("funnel", field.funnel, &stages), ("intent", field.intent, &intents)]
        {
            if marked && field.values.iter().ne(wanted.iter()) {
                let path = format!("fields.{position}.values");
                let wanted = wanted.join(", ");
                report.fault(
                    path,
                    format!("field `{}` is marked {mark}, its values must be exactly: {wanted}", field.id),
                );
            }
        }
    }
}

/// TOOL-25.
fn needed_fields(tools: &Tools, report: &mut Report) {
    let intent_advice = "add a field with \"intent\": true and the values not_prospect, prospect";
    let funnel_advice = "add a field with \"funnel\": true and the six stages as values";
    if tools.intent_field().is_none() {
        if let Some(field) = tools.funnel_field() {
            let reason = format!(
                "field `{}` is marked funnel, which needs a field marked intent: {intent_advice}",
                field.id
            );
            report.fault("fields", reason);
        }
        for flow in with_role(tools, FlowRole::Opening) {
            let reason = format!(
                "flow `{}` has the role opening, which needs a field marked intent: {intent_advice}",
                flow.id
            );
            report.fault("flows", reason);
        }
    }
    if tools.funnel_field().is_none() {
        for flow in tools.flows.iter().filter(|flow| flow.on_stage.is_some()) {
            let reason = format!(
                "flow `{}` has an onStage, which needs a field marked funnel: {funnel_advice}",
                flow.id
            );
            report.fault("flows", reason);
        }
        if !tools.events.is_empty() {
            report.fault("events", format!("events need a field marked funnel: {funnel_advice}"));
        }
    }
}

/// TOOL-26.
fn events(tools: &Tools, report: &mut Report) {
    for stage in repeated(tools.events.iter().map(|event| event.stage.as_str())) {
        report.fault("events", format!("at most one event is on the stage {stage}"));
    }
    for flow_ns in repeated(tools.events.iter().map(|event| event.flow_ns.as_str())) {
        let sharing =
            tools.events.iter().filter(|event| event.flow_ns == flow_ns).map(|event| event.id.as_str());
        let ids = sharing.collect::<Vec<_>>().join(", ");
        report.fault("events", format!("events {ids} have the same flowNs; each needs its own"));
    }
    for event in &tools.events {
        if let Some(flow) = flow_named(tools, &event.flow_ns) {
            report.fault(
                "events",
                format!("event `{}` has the flowNs of flow `{}`; it needs its own", event.id, flow.id),
            );
        }
    }
}

/// TOOL-28: the agent must not be able to remove the tag that silences it.
fn human_active_tag(tools: &Tools, report: &mut Report) {
    let silencing = tools.nudge.as_ref().and_then(|nudge| nudge.human_active_tag.as_deref());
    for tag in tools.tags.iter().filter(|tag| Some(tag.tag.as_str()) == silencing) {
        let reason =
            format!("is the tag of `{}` in tags; the agent could remove the tag that silences it", tag.id);
        report.fault("nudge.humanActiveTag", reason);
    }
}

/// WCF-1.
fn window_closing(tools: &Tools, report: &mut Report) {
    let Some(closing) = &tools.window_closing else { return };
    if let Some(flow) = flow_named(tools, &closing.flow_ns) {
        report
            .fault("windowClosing.flowNs", format!("is the flowNs of flow `{}`; it needs its own", flow.id));
    }
    for event in tools.events.iter().filter(|event| event.flow_ns == closing.flow_ns) {
        report.fault(
            "windowClosing.flowNs",
            format!("is the flowNs of event `{}`; it needs its own", event.id),
        );
    }
}

fn flow_named<'a>(tools: &'a Tools, flow_ns: &str) -> Option<&'a FlowTool> {
    tools.flows.iter().find(|flow| flow.flow_ns == flow_ns)
}
