//! Checks across the files and the environment (05 section 7).

use super::check::{Fault, Report};
use super::parsers::repeated;
use super::{RULES_FILE, TOOLS_FILE};
use crate::config::{Catalog, ReservedNames, Rules, TagTool, Tools, Warning};

/// What must fit together.
#[derive(Clone, Copy, Debug)]
pub(in crate::config) struct Parts<'a> {
    pub(in crate::config) catalog: &'a Catalog,
    pub(in crate::config) rules: &'a Rules,
    pub(in crate::config) tools: Option<&'a Tools>,
    pub(in crate::config) reserved: &'a ReservedNames,
}

/// All faults and warnings of section 7, each with its file.
pub(in crate::config) fn cross_check(parts: Parts<'_>) -> (Vec<Fault>, Vec<Warning>) {
    let mut of_rules = Report::new(RULES_FILE);
    let mut of_tools = Report::new(TOOLS_FILE);
    learning_needs_a_funnel(parts, &mut of_rules);
    if let Some(tools) = parts.tools {
        reserved_flows(tools, parts.reserved, &mut of_tools);
        reserved_fields(tools, parts.reserved, &mut of_tools);
        note_fields(tools, &mut of_tools);
        offering_values(tools, parts.catalog, &mut of_tools);
        offerings_of_flows(tools, parts.catalog, &mut of_tools);
        service_tags(tools, parts.rules, &mut of_rules);
        readable_delivery_fields(tools, parts.reserved, &mut of_tools);
        shared_names(tools, &mut of_tools);
    }
    let faults = of_rules.faults.into_iter().chain(of_tools.faults).collect();
    let warnings = of_rules.warnings.into_iter().chain(of_tools.warnings).collect();
    (faults, warnings)
}

/// RUL-7, XCK-9.
fn learning_needs_a_funnel(parts: Parts<'_>, report: &mut Report) {
    let funnel = parts.tools.and_then(Tools::funnel_field);
    if parts.rules.learning.is_some() && funnel.is_none() {
        report.fault("learning", "needs a field marked funnel in tools.json");
    }
}

/// XCK-1 and, for the window-closing flow, WCF-1.
fn reserved_flows(tools: &Tools, reserved: &ReservedNames, report: &mut Report) {
    let Some(reply_flow) = reserved.reply_flow_ns.as_deref() else { return };
    let collision = "has the value of MANYCHAT_REPLY_FLOW_NS, which delivers the replies";
    for (position, flow) in tools.flows.iter().enumerate().filter(|(_, flow)| flow.flow_ns == reply_flow) {
        report.fault(format!("flows.{position}.flowNs"), format!("flow `{}` {collision}", flow.id));
    }
    for (position, event) in tools.events.iter().enumerate().filter(|(_, event)| event.flow_ns == reply_flow)
    {
        report.fault(format!("events.{position}.flowNs"), format!("event `{}` {collision}", event.id));
    }
    if tools.window_closing.as_ref().is_some_and(|closing| closing.flow_ns == reply_flow) {
        report.fault("windowClosing.flowNs", format!("windowClosing {collision}"));
    }
}

/// XCK-2 and XCK-3.
fn reserved_fields(tools: &Tools, reserved: &ReservedNames, report: &mut Report) {
    let fields =
        tools.fields.iter().enumerate().map(|(at, field)| ("fields", "field", at, &field.id, &field.field));
    let notes = tools.notes.iter().enumerate().map(|(at, note)| ("notes", "note", at, &note.id, &note.field));
    for (list, entry, position, id, name) in fields.chain(notes) {
        for variable in reserved.variables_of_field(name) {
            let reason =
                format!("{entry} `{id}` has the value of {variable}, which the service writes itself");
            report.fault(format!("{list}.{position}.field"), reason);
        }
    }
}

/// XCK-4.
fn note_fields(tools: &Tools, report: &mut Report) {
    for (position, note) in tools.notes.iter().enumerate() {
        let path = format!("notes.{position}.field");
        for field in tools.fields.iter().filter(|field| field.field == note.field) {
            report.fault(
                &path,
                format!("note `{}` writes the same ManyChat field as field `{}`", note.id, field.id),
            );
        }
        for other in tools.notes.iter().take(position).filter(|other| other.field == note.field) {
            report.fault(
                &path,
                format!("note `{}` writes the same ManyChat field as note `{}`", note.id, other.id),
            );
        }
    }
}

/// XCK-6.
fn offering_values(tools: &Tools, catalog: &Catalog, report: &mut Report) {
    let ids: Vec<_> = catalog.offerings.iter().map(|offering| offering.id.as_str()).collect();
    for (position, field) in tools.fields.iter().enumerate().filter(|(_, field)| field.offering) {
        let missing = ids.iter().copied().filter(|id| !field.values.iter().any(|value| value == id));
        let missing: Vec<_> = missing.collect();
        let unknown = field.values.iter().map(String::as_str).filter(|value| !ids.contains(value));
        let unknown: Vec<_> = unknown.collect();
        if missing.is_empty() && unknown.is_empty() {
            continue;
        }
        let reason = format!(
            "field `{}` is marked offering, its values must be exactly the catalog's offering ids: {}{}{}",
            field.id,
            ids.join(", "),
            listed("; missing: ", &missing),
            listed("; not in the catalog: ", &unknown),
        );
        report.fault(format!("fields.{position}.values"), reason);
    }
}

/// XCK-7.
fn offerings_of_flows(tools: &Tools, catalog: &Catalog, report: &mut Report) {
    for (position, flow) in tools.flows.iter().enumerate() {
        let Some(wanted) = flow.offering.as_deref() else { continue };
        let path = format!("flows.{position}.offering");
        if !catalog.offerings.iter().any(|offering| offering.id == wanted) {
            let ids: Vec<_> = catalog.offerings.iter().map(|offering| offering.id.as_str()).collect();
            let reason = format!(
                "flow `{}`: `{wanted}` is none of the catalog's offering ids: {}",
                flow.id,
                ids.join(", ")
            );
            report.fault(&path, reason);
        }
        if tools.offering_field().is_none() {
            report.fault(
                &path,
                format!("flow `{}` has an offering, which needs a field marked offering", flow.id),
            );
        }
    }
}

/// As TOOL-28, for the tags of DEC-9 and DEC-25: the agent must not be able to remove what calls or waits for a
/// person. The tag of a conversion only distorts the figures, so it warns.
fn service_tags(tools: &Tools, rules: &Rules, report: &mut Report) {
    let takeover = rules.takeover.as_ref().and_then(|takeover| takeover.tag.as_deref());
    let handoff = rules.handoff.as_ref().map(|handoff| handoff.tag.as_str());
    for (path, wanted) in [("takeover.tag", takeover), ("handoff.tag", handoff)] {
        for tag in offered_tag(tools, wanted) {
            report.fault(
                path,
                format!("is the tag of `{}` in tools.json tags; the agent could remove it", tag.id),
            );
        }
    }
    let converted = rules.learning.as_ref().map(|learning| learning.converted_tag.as_str());
    for tag in offered_tag(tools, converted) {
        report.warn(
            "learning.convertedTag",
            format!("is the tag of `{}` in tools.json tags; the agent could set it", tag.id),
        );
    }
}

fn offered_tag<'a>(tools: &'a Tools, wanted: Option<&str>) -> impl Iterator<Item = &'a TagTool> {
    tools.tags.iter().filter(move |tag| wanted == Some(tag.tag.as_str()))
}

/// 08 LIM-11: allowed by TOOL-29, so that a tenant of the reference implementation still loads, and rarely meant. The
/// list of a note's field is in [`note_fields`].
fn shared_names(tools: &Tools, report: &mut Report) {
    let fields = tools.fields.iter().map(|field| (field.id.as_str(), field.field.as_str()));
    let readable = || tools.readable.fields.iter().map(|field| (field.id.as_str(), field.field.as_str()));
    let tags = tools.tags.iter().map(|tag| (tag.id.as_str(), tag.tag.as_str()));
    warn_shared("fields", "ManyChat field", fields, report);
    warn_shared("tags", "ManyChat tag", tags, report);
    for (position, note) in tools.notes.iter().enumerate() {
        for (id, _) in readable().filter(|(_, name)| *name == note.field) {
            let text = format!(
                "note `{}` writes the ManyChat field that readable.fields `{id}` reads: whatever it holds reads as \
                 `other`",
                note.id
            );
            report.warn(&format!("notes.{position}.field"), text);
        }
    }
}

/// One warning for each name that several entries use.
fn warn_shared<'a>(
    path: &str,
    kind: &str,
    entries: impl Iterator<Item = (&'a str, &'a str)>,
    report: &mut Report,
) {
    let entries: Vec<_> = entries.collect();
    for name in repeated(entries.iter().map(|(_, name)| *name)) {
        let ids = entries.iter().filter(|(_, other)| *other == name).map(|(id, _)| *id);
        let ids = ids.collect::<Vec<_>>().join(", ");
        report.warn(path, format!("{ids} are the same {kind} `{name}`: each overwrites what the others did"));
    }
}

/// A field the service writes for itself is not worth reading, and one of them holds the contact's token.
fn readable_delivery_fields(tools: &Tools, reserved: &ReservedNames, report: &mut Report) {
    for (position, field) in tools.readable.fields.iter().enumerate() {
        for variable in reserved.variables_of_field(&field.field) {
            let text = format!(
                "field `{}` has the value of {variable}, which the service uses for itself",
                field.id
            );
            report.warn(&format!("readable.fields.{position}.field"), text);
        }
    }
}

fn listed(title: &str, ids: &[&str]) -> String {
    if ids.is_empty() { String::new() } else { format!("{title}{}", ids.join(", ")) }
}
