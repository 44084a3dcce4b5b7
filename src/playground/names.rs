//! What the tenant calls the things in its ManyChat account: flows, tags, fields and notes by their ids in `tools.json`.

use super::board::{Field, KnownFlow, Profile, What};
use crate::config::{FlowRole, Tools};
use crate::domain::ContactText;
use crate::manychat::{ContactView, Happened};

/// What the account tells, as a line of the chat.
pub(super) fn line(what: Happened, tools: Option<&Tools>) -> What {
    match what {
        Happened::Delivered(text) => What::Delivered { text: text.expose().to_owned() },
        Happened::Flow(name) => What::Flow { known: tools.and_then(|tools| flow(tools, &name)), name },
        Happened::TagAdded(name) => What::Tag { called: tag(tools, &name), name, added: true },
        Happened::TagRemoved(name) => What::Tag { called: tag(tools, &name), name, added: false },
        Happened::FieldSet { name, value } => What::Field(field(tools, name, value)),
        Happened::Failed(error) => What::CallFailed { text: error.to_string() },
    }
}

/// The contact's tags and fields; what only colleagues read is marked.
pub(super) fn profile(view: ContactView, tools: Option<&Tools>) -> Profile {
    let fields = view.fields.into_iter().map(|(name, value)| field(tools, name, value));
    Profile { tags: view.tags, fields: fields.collect() }
}

fn flow(tools: &Tools, flow_ns: &str) -> Option<KnownFlow> {
    if let Some(flow) = tools.flows.iter().find(|flow| flow.flow_ns == flow_ns) {
        let kind = match flow.role {
            Some(FlowRole::PaymentLink) => "payment_link",
            Some(FlowRole::Opening) => "opening",
            None => "flow",
        };
        let (id, description) = (flow.id.clone(), flow.description.clone());
        return Some(KnownFlow { id, kind, description, plays_s: flow.settle_seconds });
    }
    let service =
        |id: &str, kind| KnownFlow { id: id.to_owned(), kind, description: String::new(), plays_s: 0 };
    if let Some(event) = tools.events.iter().find(|event| event.flow_ns == flow_ns) {
        return Some(service(&event.id, "event"));
    }
    let closing = tools.window_closing.as_ref().filter(|closing| closing.flow_ns == flow_ns);
    closing.map(|_| service("windowClosing", "window_closing"))
}

fn tag(tools: Option<&Tools>, name: &str) -> Option<String> {
    let tools = tools?;
    let mut tags = tools.tags.iter().chain(&tools.readable.tags);
    tags.find(|tag| tag.tag == name).map(|tag| tag.id.clone())
}

fn field(tools: Option<&Tools>, name: String, value: Option<ContactText>) -> Field {
    let value = value.map(|value| value.expose().to_owned());
    let note = tools.and_then(|tools| tools.notes.iter().find(|note| note.field == name));
    if let Some(note) = note {
        return Field { called: Some(note.id.clone()), name, value, note: true };
    }
    let readable = |tools: &Tools| {
        let found = tools.readable.fields.iter().find(|field| field.field == name)?;
        Some(found.id.clone())
    };
    let called = tools.and_then(|tools| {
        let written = tools.fields.iter().find(|field| field.field == name).map(|field| field.id.clone());
        written.or_else(|| readable(tools))
    });
    Field { called, name, value, note: false }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::config::demo;

    fn shown(what: Happened, tools: Option<&Tools>) -> Value {
        serde_json::to_value(line(what, tools)).unwrap()
    }

    /// DEC-16: what happens in the account is shown under the tenant's own names; without tools under ManyChat's.
    #[test]
    fn things_have_the_names_of_the_tenant() {
        let tools = demo::tenant().unwrap().tools.unwrap();
        let known = |what: Happened| shown(what, Some(&tools));
        let flow = |name: &str| known(Happened::Flow(name.to_owned()))["known"].clone();
        let opening = flow("content00000000000000_900001");
        assert_eq!(
            (&opening["id"], &opening["kind"], &opening["plays_s"]),
            (&json!("hello_clip"), &json!("opening"), &json!(8))
        );
        assert_eq!(flow("content00000000000000_900007")["kind"], "payment_link");
        assert_eq!(flow("content00000000000000_900102")["id"], "link_out");
        assert_eq!(flow("content_elsewhere"), Value::Null);
        assert_eq!(known(Happened::TagAdded("likes-foundation".to_owned()))["called"], "likes_foundation");
        let set = |name: &str, value: Option<&str>| Happened::FieldSet {
            name: name.to_owned(),
            value: value.map(ContactText::new),
        };
        assert_eq!(
            known(set("note_aim", Some("A stool"))),
            json!({ "kind": "field", "name": "note_aim", "called": "aim", "value": "A stool", "note": true })
        );
        assert_eq!(
            known(set("sale_stage", Some("offered"))),
            json!({ "kind": "field", "name": "sale_stage", "called": "funnel_stage", "value": "offered", "note": false })
        );
        assert_eq!(
            shown(set("ai_token", None), None),
            json!({ "kind": "field", "name": "ai_token", "called": null, "value": null, "note": false })
        );
        let fields = vec![("note_doubts".to_owned(), Some(ContactText::new("Too old?")))];
        let profile = profile(ContactView { tags: Vec::new(), fields }, Some(&tools));
        assert!(profile.fields[0].note);
    }
}
