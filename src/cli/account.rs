//! The names of ManyChat that environment and `tools.json` hold, to be looked up in the account (GAP-CFG-10, 08 LIM-12).

use crate::config::{ManyChatSettings, Tools, Warning};
use crate::manychat::AccountList;

/// One name, where it is written and in which list it must stand.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Wanted {
    pub(super) list: AccountList,
    place: String,
    name: String,
}

/// All of them, in the order of the files.
pub(super) fn wanted(settings: &ManyChatSettings, tools: Option<&Tools>) -> Vec<Wanted> {
    let mut wanted = of_delivery(settings);
    wanted.extend(tools.map(of_tools).into_iter().flatten());
    wanted
}

fn named(list: AccountList, place: impl Into<String>, name: &str) -> Wanted {
    Wanted { list, place: place.into(), name: name.to_owned() }
}

fn of_delivery(settings: &ManyChatSettings) -> Vec<Wanted> {
    let flow =
        settings.reply_flow_ns.as_deref().map(|name| (AccountList::Flows, "MANYCHAT_REPLY_FLOW_NS", name));
    let fields = [
        (AccountList::Fields, "MANYCHAT_REPLY_FIELD", settings.reply_field.as_str()),
        (AccountList::Fields, "MANYCHAT_TOKEN_FIELD", settings.token_field.as_str()),
    ];
    flow.into_iter().chain(fields).map(|(list, place, name)| named(list, place, name)).collect()
}

fn of_tools(tools: &Tools) -> Vec<Wanted> {
    use AccountList::{Fields, Flows, Tags};
    let flows = listed("flows", "flowNs", Flows, tools.flows.iter().map(|flow| flow.flow_ns.as_str()));
    let tags = listed("tags", "tag", Tags, tools.tags.iter().map(|tag| tag.tag.as_str()));
    let fields = listed("fields", "field", Fields, tools.fields.iter().map(|field| field.field.as_str()));
    let readable = &tools.readable;
    let read_tags = listed("readable.tags", "tag", Tags, readable.tags.iter().map(|tag| tag.tag.as_str()));
    let read_fields =
        listed("readable.fields", "field", Fields, readable.fields.iter().map(|field| field.field.as_str()));
    let notes = listed("notes", "field", Fields, tools.notes.iter().map(|note| note.field.as_str()));
    let silencing = tools.nudge.as_ref().and_then(|nudge| nudge.human_active_tag.as_deref());
    let silencing = silencing.map(|tag| named(Tags, "tools.json: nudge.humanActiveTag", tag));
    let events = listed("events", "flowNs", Flows, tools.events.iter().map(|event| event.flow_ns.as_str()));
    let closing = tools.window_closing.as_ref();
    let closing = closing.map(|closing| named(Flows, "tools.json: windowClosing.flowNs", &closing.flow_ns));
    let entries = flows.chain(tags).chain(fields).chain(read_tags).chain(read_fields).chain(notes);
    entries.chain(silencing).chain(events).chain(closing).collect()
}

fn listed<'a>(
    path: &'static str,
    key: &'static str,
    list: AccountList,
    names: impl Iterator<Item = &'a str>,
) -> impl Iterator<Item = Wanted> {
    names.enumerate().map(move |(place, name)| named(list, format!("tools.json: {path}.{place}.{key}"), name))
}

/// A warning for each name of this list that the account does not have.
pub(super) fn missing(wanted: &[Wanted], list: AccountList, known: &[String]) -> Vec<Warning> {
    let of_list = wanted.iter().filter(|name| name.list == list);
    let missing = of_list.filter(|wanted| !known.contains(&wanted.name));
    let kind = list.noun().trim_end_matches('s');
    let text = |name: &str| {
        format!(
            "ManyChat has no {kind} `{name}`: make it there, letter by letter, or correct the name; until then \
                 each use of it fails"
        )
    };
    missing.map(|wanted| Warning::new(wanted.place.clone(), text(&wanted.name))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::demo;

    /// 08 LIM-12: every name of the demo tenant's file is looked up, at its place; exactly those that lack warn.
    #[test]
    fn every_name_of_the_file_is_looked_up() {
        let tools = demo::tenant().unwrap().tools.unwrap();
        let wanted = of_tools(&tools);
        let of = |list| wanted.iter().filter(|name| name.list == list).count();
        assert_eq!((of(AccountList::Flows), of(AccountList::Tags), of(AccountList::Fields)), (9, 3, 8));
        let all: Vec<String> = wanted.iter().map(|name| name.name.clone()).collect();
        for list in [AccountList::Flows, AccountList::Tags, AccountList::Fields] {
            assert!(missing(&wanted, list, &all).is_empty());
        }
        let but_one: Vec<String> = all.into_iter().filter(|name| name != "note_aim").collect();
        let found = missing(&wanted, AccountList::Fields, &but_one);
        assert_eq!(found.len(), 1, "{found:?}");
        let shown = found[0].to_string();
        assert!(shown.starts_with("tools.json: notes.0.field: ManyChat has no field `note_aim`"), "{shown}");
        let places: Vec<String> =
            missing(&wanted, AccountList::Tags, &[]).iter().map(|warning| warning.place.clone()).collect();
        assert_eq!(
            places,
            ["tools.json: tags.0.tag", "tools.json: readable.tags.0.tag", "tools.json: nudge.humanActiveTag"]
        );
    }
}
