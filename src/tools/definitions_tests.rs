use std::collections::HashMap;

use jiff::Timestamp;

use super::super::test_support::{World, offer, plain_shop, prospect, shop};
use super::super::{FlowMode, Known, Offer, TurnTools};
use super::*;
use crate::config::{FlowRole, Tools};
use crate::domain::Stage;

fn shown(offer: Offer) -> Arc<[ToolDefinition]> {
    TurnTools::new(offer).definitions()
}

fn names(offer: Offer) -> Vec<&'static str> {
    shown(offer).iter().map(|tool| tool.name).collect()
}

fn tool_of(offer: Offer, name: &str) -> ToolDefinition {
    shown(offer).iter().find(|tool| tool.name == name).unwrap().clone()
}

fn choices(tool: &ToolDefinition, key: &str) -> Vec<String> {
    let list = tool.parameters["properties"][key]["enum"].as_array().unwrap();
    list.iter().map(|value| value.as_str().unwrap().to_owned()).collect()
}

fn sent(flows: &[(&str, i64)]) -> Known {
    let at = |at: i64| Timestamp::from_second(1_000_000 + at).unwrap();
    let sent_flows: HashMap<_, _> = flows.iter().map(|(flow, age)| ((*flow).to_owned(), at(*age))).collect();
    Known { sent_flows, ..Known::default() }
}

fn at_call(tools: Tools, known: Known) -> Offer {
    offer(tools, known, World::new().mode())
}

/// TCFG-1, TSET-7: nothing configured, nothing offered; follow-ups alone are a tool.
#[test]
fn an_empty_configuration_offers_nothing() {
    assert!(shown(at_call(Tools::default(), Known::default())).is_empty());
    let nudge = Tools { nudge: shop().nudge, ..Tools::default() };
    assert_eq!(names(at_call(nudge, Known::default())), ["schedule_nudge"]);
    let nudge = Tools { nudge: shop().nudge, ..Tools::default() };
    let not_yet = Offer { follow_ups: false, ..at_call(nudge, Known::default()) };
    assert!(shown(not_yet).is_empty(), "TSET-6: what nobody carries out is not offered");
    let flows = Tools { flows: plain_shop().flows, ..Tools::default() };
    assert_eq!(names(at_call(flows, Known::default())), ["send_flow"], "TSET-2: flows leave nothing to read");
}

/// TSET-2 to TSET-6, TSET-10, TSET-11, TSET-13, LANG-3, acceptance 2 and 27 of 08.
#[test]
fn each_tool_is_offered_when_there_is_something_to_name() {
    let tags = Tools { tags: shop().tags, ..Tools::default() };
    assert_eq!(names(at_call(tags.clone(), Known::default())), ["add_tag", "remove_tag", "get_contact"]);
    let unbound = Offer { may_read: false, ..at_call(tags, Known::default()) };
    assert_eq!(names(unbound), ["add_tag", "remove_tag"]);
    let all =
        ["add_tag", "remove_tag", "set_field", "write_note", "schedule_nudge", "get_contact", "send_flow"];
    assert_eq!(names(at_call(shop(), Known::default())), all);
    let nudge = Offer { nudge: true, ..offer(shop(), Known::default(), FlowMode::Staged) };
    assert_eq!(names(nudge), ["add_tag", "remove_tag", "set_field", "write_note", "send_flow"]);
    let readable = Tools { readable: shop().readable, ..Tools::default() };
    assert_eq!(names(at_call(readable, Known::default())), ["get_contact"]);
}

/// NOTE-1, TSET-12: whatever the model fills in is chosen from a list, or true and false, but the text of a note.
#[test]
fn only_a_note_takes_free_text() {
    let mut free = Vec::new();
    for tool in shown(at_call(shop(), prospect(Some(Stage::Offered)))).iter() {
        for (key, schema) in tool.parameters["properties"].as_object().unwrap() {
            if schema["enum"].is_null() && schema["type"] != "boolean" {
                free.push(format!("{} {key}", tool.name));
            }
        }
        assert_eq!(tool.parameters["additionalProperties"], false, "{}", tool.name);
    }
    assert_eq!(free, ["write_note text"]);
}

/// TSET-3, FN-ONCE-1, FN-ONCE-2, FN-ONCE-6, FN-ACC-15 to FN-ACC-17: a flow is named once a window, a repeatable one
/// always, the opening never.
#[test]
fn flows_are_offered_once_in_the_window() {
    let flows = |known| choices(&tool_of(at_call(shop(), known), "send_flow"), "flow");
    let all = ["wheel_brochure", "glaze_brochure", "studio_tour", "pay_page"];
    assert_eq!(flows(Known::default()), all);
    assert_eq!(
        flows(sent(&[("glaze_brochure", 0), ("pay_page", 5)])),
        ["wheel_brochure", "studio_tour", "pay_page"]
    );
    assert_eq!(flows(sent(&[("glaze_brochure", -1)])), all, "sent before the window");
    let mut tools = shop();
    tools.flows.retain(|flow| flow.role != Some(FlowRole::PaymentLink));
    let every = sent(&[("wheel_brochure", 0), ("glaze_brochure", 0), ("studio_tour", 0)]);
    assert!(!names(at_call(tools, every)).contains(&"send_flow"), "FN-ONCE-7: only the opening is left");
}

/// FN-STAGE-8, FN-STAGE-10, FN-STAGE-13, FN-ACC-4: all values once, never the service's own stage.
#[test]
fn link_sent_is_in_no_schema_and_no_description() {
    let tool = tool_of(at_call(shop(), Known::default()), "set_field");
    assert_eq!(choices(&tool, "field"), ["day_choice", "sale_stage", "what_class", "purpose"]);
    let values = choices(&tool, "value");
    assert_eq!(&values[..4], ["weekday", "saturday", "new", "qualifying"]);
    assert_eq!(values.len(), 2 + 5 + 2 + 2);
    let mut tools = shop();
    tools.fields[0].values.push("wheel".to_owned());
    let shared = choices(&tool_of(at_call(tools, Known::default()), "set_field"), "value");
    assert_eq!(shared.iter().filter(|value| *value == "wheel").count(), 1);
    for tool in shown(at_call(shop(), Known::default())).iter() {
        let text = format!("{} {}", tool.description, tool.parameters);
        assert!(!text.contains("link_sent"), "{text}");
    }
}

/// TCFG-30, FN-EVT-11, FN-ACC-35: ids, values and descriptions; no name of ManyChat, nothing of events.
#[test]
fn no_name_of_manychat_is_shown() {
    let shown = shown(at_call(shop(), Known::default()));
    let all: String =
        shown.iter().map(|tool| format!("{} {}\n", tool.description, tool.parameters)).collect();
    for hidden in
        ["ns_", "pottery_", "agent_", "likes-glazing", "src-door", "newsletter_on", "desk-took-over"]
    {
        assert!(!all.contains(hidden), "{hidden} in {all}");
    }
    for hidden in ["ev_", "offer_made", "link_out", "send_event", "hello_card"] {
        assert!(!all.contains(hidden), "{hidden} in {all}");
    }
    for visible in
        ["About likes_glaze.", "About day_choice.", "Newsletter choice.", "after 240 minutes", "at most 400"]
    {
        assert!(all.contains(visible), "{visible} not in {all}");
    }
}

/// Every schema is a closed object; all but `contactAsked` is required.
#[test]
fn schemas_are_closed_objects() {
    for tool in shown(at_call(shop(), Known::default())).iter() {
        let schema = &tool.parameters;
        assert_eq!((&schema["type"], &schema["additionalProperties"]), (&json!("object"), &json!(false)));
        let required: Vec<_> =
            schema["required"].as_array().unwrap().iter().map(|key| key.as_str().unwrap()).collect();
        for key in schema["properties"].as_object().unwrap().keys() {
            assert_eq!(required.contains(&key.as_str()), key != "contactAsked", "{}: {key}", tool.name);
        }
    }
}

/// 08 section 3.4, TSET-1: the note's words are all there whether or not the turn may read, so that all turns share them.
#[test]
fn a_note_is_described_alike_on_every_turn() {
    let bound = tool_of(at_call(shop(), Known::default()), "write_note");
    let unbound = Offer { may_read: false, ..at_call(shop(), Known::default()) };
    assert_eq!(tool_of(unbound, "write_note"), bound);
    assert!(bound.description.contains("read the contact first"));
}

/// GUARD-4, 01 section 17: every sentence that is kept secret is one that a model is shown.
#[test]
fn the_secret_sentences_are_those_that_are_shown() {
    let mut brochures = shop();
    brochures.flows.truncate(2);
    let gone = Offer {
        offering: Some("wheel".to_owned()),
        ..at_call(brochures.clone(), sent(&[("wheel_brochure", 0)]))
    };
    let offers = [
        at_call(shop(), Known::default()),
        offer(shop(), Known::default(), FlowMode::Staged),
        at_call(brochures, Known::default()),
        gone,
    ];
    let shown: String = offers
        .into_iter()
        .flat_map(|offer| shown(offer).to_vec())
        .map(|tool| format!("{} {} {}\n", tool.name, tool.description, tool.parameters))
        .collect();
    let (names, sentences) = SENTENCES.split_last().unwrap();
    for part in sentences.iter().copied().chain(names.split(' ')) {
        assert!(shown.contains(part), "{part}");
    }
}

/// FN-OFF-14, FN-TIED-10: the description lists what is acceptable as the turn starts, and says why there is nothing.
#[test]
fn the_flows_of_the_offering_are_described() {
    let described = |offering: Option<&str>, known| {
        let offer = Offer { offering: offering.map(str::to_owned), ..at_call(shop(), known) };
        tool_of(offer, "send_flow").description
    };
    let wheel = described(Some("wheel"), Known::default());
    assert!(wheel.contains("- wheel_brochure (for the offering wheel): About wheel_brochure."), "{wheel}");
    assert!(
        wheel.contains("- studio_tour (the system sends it when the stage nurturing is recorded)"),
        "{wheel}"
    );
    assert!(!wheel.contains("About glaze_brochure"), "{wheel}");
    let mut tools = shop();
    tools.flows.truncate(2);
    let only_brochures = |offering: Option<&str>, known| {
        let offer = Offer { offering: offering.map(str::to_owned), ..at_call(tools.clone(), known) };
        tool_of(offer, "send_flow").description
    };
    assert!(
        only_brochures(None, Known::default())
            .contains("record the contact's offering first, with set_field what_class")
    );
    let gone = only_brochures(Some("wheel"), sent(&[("wheel_brochure", 0)]));
    assert!(gone.contains("nothing left to send") && !gone.contains("set_field"), "{gone}");
}

/// FN-READY-3, FN-READY-6, SEND-4: `contactAsked` exists only beside a link that a funnel guards.
#[test]
fn contact_asked_comes_with_a_guarded_link_only() {
    let has = |tools, known| {
        let tool = tool_of(at_call(tools, known), "send_flow");
        let described = tool.description.contains("contactAsked")
            && tool.description.contains("refused before the stage");
        let exists = tool.parameters["properties"].get("contactAsked").is_some();
        assert_eq!(described, exists);
        exists
    };
    assert!(has(shop(), Known::default()));
    assert!(!has(plain_shop(), Known::default()));
    let mut tools = shop();
    tools.flows[4].repeatable = false;
    assert!(!has(tools, sent(&[("pay_page", 0)])));
}

/// FLOW-1: how a flow goes out is said in the words of the turn's mode.
#[test]
fn the_description_says_when_a_flow_goes_out() {
    let at_call = tool_of(at_call(shop(), Known::default()), "send_flow").description;
    let staged = tool_of(offer(shop(), Known::default(), FlowMode::Staged), "send_flow").description;
    assert!(at_call.contains("before your reply") && staged.contains("after your reply"));
}

/// TSET-1: two contacts with the same unsent flows and offering are shown the same bytes, whatever else is known of them.
#[test]
fn definitions_are_equal_over_contacts() {
    let known = Known { opening_spent: true, ..prospect(Some(Stage::Prepared)) };
    assert_eq!(shown(at_call(shop(), Known::default())), shown(at_call(shop(), known)));
}
