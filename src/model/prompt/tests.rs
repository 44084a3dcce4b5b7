use super::*;
use crate::config::Event;
use crate::domain::Stage;
use crate::model::test_support::{shop, tenant, tenant_with};

fn text_of(tenant: &Tenant) -> String {
    SystemPrompt::build(tenant).text().to_string()
}

fn position(text: &str, line: &str) -> usize {
    text.split('\n').position(|candidate| candidate == line).unwrap_or_else(|| panic!("no line {line:?}"))
}

/// PROMPT-1, PROMPT-2, PROMPT-3: persona first, then the sections in order, each after a blank line.
#[test]
fn sections_stand_in_order_after_the_persona() {
    let text = text_of(&tenant());
    assert!(text.starts_with("You are the studio's assistant.\n\nOPERATING RULES\n1. "));
    let headings = ["OPERATING RULES", "SECURITY", "FORMAT", "CATALOG (Northside Pottery)"];
    let positions: Vec<usize> = headings.iter().map(|heading| position(&text, heading)).collect();
    assert!(positions.is_sorted(), "{positions:?}");
    let lines: Vec<&str> = text.split('\n').collect();
    for place in positions {
        assert_eq!(lines[place - 1], "");
    }
}

/// PROMPT-9: the layout of the document, letter for letter.
#[test]
fn the_catalog_block_has_the_fixed_layout() {
    let text = text_of(&tenant());
    let expected = "\n\nCATALOG (Northside Pottery)\n\
        - id: wheel-basics\n\
        \x20 name: Wheel Throwing Basics\n\
        \x20 price: 310.00 USD\n\
        \x20 description: First steps on the wheel.\n\
        \x20 duration_hours: 18\n\
        \x20 schedule: Mondays 7pm\n\
        \x20 url: https://example.org/wheel\n\
        \n\
        FREQUENTLY ASKED\n\
        - Q: Is clay included?\n\
        \x20 A: Yes, two bags.\n\
        \n\
        PAYMENT OPTIONS\n\
        - two-parts: Half now, half before week three.";
    assert!(text.ends_with(expected), "{text}");
}

/// PROMPT-9: no label without a value, no heading without entries; the words of the payment options then stand only
/// inside a sentence.
#[test]
fn absent_values_leave_no_label_and_no_heading() {
    let bare = tenant_with(|tenant| {
        let offering = &mut tenant.catalog.offerings[0];
        offering.description = String::new();
        offering.duration_hours = None;
        offering.schedule = Some(" ".to_owned());
        offering.url = None;
        tenant.catalog.faq.clear();
        tenant.catalog.payment_options.clear();
    });
    let text = text_of(&bare);
    assert!(
        text.ends_with("- id: wheel-basics\n  name: Wheel Throwing Basics\n  price: 310.00 USD"),
        "{text}"
    );
    assert!(!text.contains("FREQUENTLY ASKED"));
    assert!(text.contains(PAYMENT_OPTIONS) && text.split('\n').all(|line| line != PAYMENT_OPTIONS));
}

/// 01/AC-17, PROMPT-2: blank lines around the persona change nothing; a blank persona leaves no gap.
#[test]
fn the_persona_is_trimmed() {
    let padded = tenant_with(|tenant| tenant.prompt = format!("\n \n{}\n\n", tenant.prompt));
    assert_eq!(text_of(&padded), text_of(&tenant()));
    let blank = tenant_with(|tenant| tenant.prompt = " \n".to_owned());
    assert!(text_of(&blank).starts_with("OPERATING RULES\n"));
}

/// PROMPT-4, 01/AC-6: one configuration, one text.
#[test]
fn the_system_part_is_the_same_for_every_turn() {
    assert_eq!(text_of(&tenant()), text_of(&tenant()));
}

/// PROMPT-12: a tenant without tools has no section that speaks of one; `ACTIONS` does not even occur as a word.
#[test]
fn there_is_no_section_about_tools() {
    let text = text_of(&tenant());
    for word in ["ACTIONS", "INTENT", "SALES", "OFFERINGS", "FOLLOW-UPS"] {
        assert!(!text.contains(word), "{word}");
    }
}

/// PROMPT-6: every rule is there, numbered, with the reason it leads to.
#[test]
fn every_operating_rule_is_numbered() {
    let text = operating_rules();
    let numbered = text.split('\n').skip(1).enumerate();
    for (index, line) in numbered {
        assert!(line.starts_with(&format!("{}. ", index + 1)), "{line}");
    }
    let reasons = [
        (3, "price_negotiation"),
        (4, "complaint"),
        (5, "explicit_request"),
        (6, "out_of_scope"),
        (7, "low_confidence"),
        (12, "payment_reported"),
    ];
    for (number, reason) in reasons {
        assert!(RULES[number - 1].contains(reason), "rule {number}");
    }
}

/// FENCE-1, PROMPT-7: the prompt names the markers that the fence uses.
#[test]
fn the_security_section_names_both_markers() {
    let text = security();
    assert!(text.contains(fence::OPEN) && text.contains(fence::CLOSE));
}

/// PROMPT-8, 01/REP-7: the configured threshold is printed, and the question is described as in the schema.
#[test]
fn the_format_section_prints_the_threshold_and_the_shared_guide() {
    let text = text_of(&tenant_with(|tenant| tenant.rules.confidence_threshold = 0.65));
    assert!(text.contains("Below 0.65 the conversation"));
    assert!(text.contains(CLOSING_QUESTION_GUIDE));
}

/// LANG-2: what is ours is English whatever the persona is written in, and leaves the language of the reply to it.
#[test]
fn the_persona_decides_the_language() {
    let own = [operating_rules(), security(), format_section(0.6), ACTIONS.to_owned()].concat();
    assert!(own.is_ascii() && own.contains("in the language your persona names"));
    let other = text_of(&tenant_with(|tenant| tenant.prompt = "Eres la asistente.".to_owned()));
    let english = text_of(&tenant());
    let behind = |text: &str| text.split_once("\n\n").map(|(_, behind)| behind.to_owned());
    assert_eq!(behind(&other), behind(&english));
}

/// 10 section 11.1: the fixed instructions use words no trade owns.
#[test]
fn the_instructions_belong_to_no_trade() {
    let fixed = [operating_rules(), security(), format_section(0.6)].concat().to_lowercase();
    for word in ["course", "enrol", "student", "class"] {
        assert!(!fixed.contains(word), "{word}");
    }
}

/// PROMPT-3, GUARD-4: the detector catches the headings the prompt really has.
#[test]
fn the_leak_markers_are_in_the_prompt() {
    let text = text_of(&tenant());
    for marker in LEAK_MARKERS {
        assert!(text.contains(marker), "{marker}");
        let said = format!("It says {marker}Northside Pottery)");
        assert!(SystemPrompt::build(&tenant()).leaks().finds([said.as_str()]));
    }
}

/// LOG-9
#[test]
fn debug_shows_no_prompt() {
    let printed = format!("{:?}", SystemPrompt::build(&tenant()));
    assert!(printed.starts_with("SystemPrompt(") && !printed.contains("studio"), "{printed}");
}

/// PROMPT-2, PROMPT-10: the section stands between the format and the catalog, whatever the tools are; nothing in it
/// names one.
#[test]
fn a_tenant_with_tools_has_a_section_for_them() {
    let text = text_of(&shop());
    let headings = ["FORMAT", "ACTIONS", "CATALOG (Northside Pottery)"];
    let positions: Vec<usize> = headings.iter().map(|heading| position(&text, heading)).collect();
    assert!(positions.is_sorted(), "{positions:?}");
    let lines: Vec<&str> = text.split('\n').collect();
    assert_eq!(lines[positions[1] - 1], "");
    for word in ["at most 8", "stages", "`[actions performed:`"] {
        assert!(text.contains(word), "{word}");
    }
    for word in ["likes_glaze", "leaflet", "content_1"] {
        assert!(!text.contains(word), "{word}");
    }
}

/// QST-3: a flow that asks makes the reply's own question dispensable, and only who has flows is told.
#[test]
fn a_flow_that_asks_needs_no_second_question() {
    let told = "`closing_question` may then be null";
    assert!(text_of(&shop()).contains(told) && !text_of(&tenant()).contains(told));
}

/// PROMPT-12, TCFG-31: without tools, or with events alone, it is the prompt without the section, byte for byte.
#[test]
fn a_tenant_without_tools_has_no_section_for_them() {
    let plain = text_of(&tenant());
    assert!(!plain.contains("ACTIONS"));
    let event = Event { id: "offer".to_owned(), stage: Stage::Offered, flow_ns: "content_2".to_owned() };
    let events = Tools { events: vec![event], ..Tools::default() };
    assert_eq!(text_of(&tenant_with(|tenant| tenant.tools = Some(events))), plain);
    let section = format!("{ACTIONS}\n\n");
    assert_eq!(text_of(&shop()).replace(&section, ""), plain);
}
