//! From a call of the model to what it wants, checked against what the turn offered (TSET-14).

use serde_json::Value;

use super::menu::{Menu, writable};
use super::turn_tools::Call;
use crate::config::{Delay, FieldTool, FlowTool, NoteTool, TagTool};

/// A call that satisfies its tool's schema.
pub(super) enum Wanted<'menu> {
    Flow { flow: &'menu FlowTool, asked: bool },
    Tag { tag: &'menu TagTool, add: bool },
    Field { field: &'menu FieldTool, value: &'menu str },
    Note { note: &'menu NoteTool, text: String },
    Nudge(&'menu Delay),
    Contact,
}

/// What is wrong with a call, in words for the model: ids of ours, never what the model gave.
pub(super) type Wrong = String;

pub(super) fn parse<'menu>(menu: &'menu Menu, call: &Call) -> Result<Wanted<'menu>, Wrong> {
    let given = Given(&call.arguments);
    let tools = menu.tools();
    match call.name.as_str() {
        "send_flow" if menu.unsent_flows().next().is_some() => flow(menu, &given),
        "add_tag" if !tools.tags.is_empty() => tag(menu, &given, true),
        "remove_tag" if !tools.tags.is_empty() => tag(menu, &given, false),
        "set_field" if !tools.fields.is_empty() => field(menu, &given),
        "write_note" if !tools.notes.is_empty() => note(menu, &given),
        "schedule_nudge" if menu.nudges => delay(menu, &given),
        "get_contact" if menu.reads => Ok(Wanted::Contact),
        _ => Err("no tool of this name is offered".to_owned()),
    }
}

fn flow<'menu>(menu: &'menu Menu, given: &Given<'_>) -> Result<Wanted<'menu>, Wrong> {
    let flow = given.one_of("flow", menu.unsent_flows(), |flow| &flow.id)?;
    let asked = match given.value("contactAsked").filter(|_| menu.guarded_link().is_some()) {
        // Some providers fill in what is optional.
        None | Some(Value::Null) => false,
        Some(Value::Bool(asked)) => *asked,
        Some(_) => return Err("contactAsked must be true or false".to_owned()),
    };
    Ok(Wanted::Flow { flow, asked })
}

fn tag<'menu>(menu: &'menu Menu, given: &Given<'_>, add: bool) -> Result<Wanted<'menu>, Wrong> {
    let tag = given.one_of("tag", menu.tools().tags.iter(), |tag| &tag.id)?;
    Ok(Wanted::Tag { tag, add })
}

fn field<'menu>(menu: &'menu Menu, given: &Given<'_>) -> Result<Wanted<'menu>, Wrong> {
    let field = given.one_of("field", menu.tools().fields.iter(), |field| &field.id)?;
    let value = given.one_of("value", writable(field), |value| value)?;
    Ok(Wanted::Field { field, value })
}

fn note<'menu>(menu: &'menu Menu, given: &Given<'_>) -> Result<Wanted<'menu>, Wrong> {
    let note = given.one_of("note", menu.tools().notes.iter(), |note| &note.id)?;
    let text = given.text("text").ok_or("text must be a string")?.to_owned();
    Ok(Wanted::Note { note, text })
}

fn delay<'menu>(menu: &'menu Menu, given: &Given<'_>) -> Result<Wanted<'menu>, Wrong> {
    let delays = menu.tools().nudge.iter().flat_map(|nudge| &nudge.delays);
    given.one_of("delay", delays, |delay| &delay.id).map(Wanted::Nudge)
}

/// The arguments; keys that no schema names are ignored.
struct Given<'call>(&'call Value);

impl<'call> Given<'call> {
    fn value(&self, key: &str) -> Option<&'call Value> {
        self.0.get(key)
    }

    fn text(&self, key: &str) -> Option<&'call str> {
        self.value(key).and_then(Value::as_str)
    }

    fn one_of<'menu, T: ?Sized>(
        &self,
        key: &str,
        choices: impl Iterator<Item = &'menu T> + 'menu,
        id: fn(&T) -> &String,
    ) -> Result<&'menu T, Wrong> {
        let given = self.text(key);
        let mut ids = Vec::new();
        for choice in choices {
            if given == Some(id(choice).as_str()) {
                return Ok(choice);
            }
            ids.push(id(choice).as_str());
        }
        Err(format!("{key} must be one of: {}", ids.join(", ")))
    }
}
