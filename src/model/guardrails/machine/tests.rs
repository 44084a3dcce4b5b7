use proptest::prelude::*;

use super::*;

fn taken_out(text: &str) -> Option<String> {
    take_out(text.to_owned())
}

/// GUARD-2: a reply's object or a call of a tool, in every dress, is all there is: nothing to send.
#[test]
fn objects_and_calls_leave_nothing() {
    for text in [
        r#"{"messages":["Hi"],"escalate":false}"#,
        " {\n \"messages\": []\n}\n",
        "```json\n{\"messages\":[\"Hi\"]}\n```",
        r#"Sure! {"messages":["Hello"],"escalate":false,"confidence":0.9}"#,
        "Sure!\n{\n \"messages\": [\n \"Hello\"\n ],\n \"confidence\": 0.9\n}",
        "Here is the reply in JSON:\n```json\n{\"messages\": [\"Hello }\"]}\n```",
        r#"{"escalate":false,"confidence":0.9}"#,
        r#"{"name":"send_flow","parameters":{"flow":"leaflet"}}"#,
        r#"{"name":"roomsLeft","arguments":{"course":"clay"}}"#,
        r#"[{"type":"function","function":{"name":"send_flow","arguments":"{}"}}, {"tool":"add_tag","tag":"x"}]"#,
        r#"<tool_call>{"name":"send_flow","arguments":{"flow":"leaflet"}}</tool_call>"#,
        "<tool_call>send_flow",
        "<function=send_flow>{\"flow\":\"leaflet\"}</function>",
        "<x:function_calls>\n<x:invoke name=\"send_flow\">y</x:invoke>\n</x:function_calls>",
        r#"send_reply({"messages":["Hello"]})"#,
        "print(default_api.send_flow(flow=\"leaflet\"))",
        "send_flow (flow='leaflet')",
        "call: send_flow{flow: leaflet}",
        r#"{'messages': ['Hello'], 'escalate': False}"#,
        r#"{\"messages\":[\"Hello\"]}"#,
        "{“messages”: [“Hello”]}",
        r#"{messages: ["Hello"], confidence: 0.9}"#,
        r#"{"messages":["Hello, this was cut o"#,
        r#"{"reply":{"messages":["Hello"]}}"#,
        "<think>The customer wants X.",
        "The customer wants X.</think>",
    ] {
        assert!(has_any(text), "{text}");
        assert_eq!(taken_out(text), None, "{text}");
    }
}

/// GUARD-2, GUARD-3: the answer beside it stays, and no bracket of what is gone.
#[test]
fn the_answer_beside_it_is_kept() {
    let object = r#"{"messages":["x"],"confidence":0.9}"#;
    let cases = [
        ("<think>The customer wants X…</think>Hello".to_owned(), "Hello"),
        ("<think>a <think>b</think> c</think>\n\nHello".to_owned(), "Hello"),
        ("They want X.</think>Hello".to_owned(), "Hello"),
        ("<think>call <tool_call></think>Hello".to_owned(), "Hello"),
        ("Yes.<thinking>a</thinking> No.".to_owned(), "Yes. No."),
        (format!("It is $25.00. {object} See you then!"), "It is $25.00. See you then!"),
        (format!("It is $25.00.\n```json\n{object}\n```\nSee you!"), "It is $25.00.\nSee you!"),
        (format!("It is $25.00.\nAs JSON:\n[{object}, {object}]"), "It is $25.00."),
        (format!("It is {{about}} $25.00. send_reply({object})"), "It is {about} $25.00."),
        (
            "I am sending the leaflet now. <tool_call>{}</tool_call>".to_owned(),
            "I am sending the leaflet now.",
        ),
        (format!("日曜は休みです。{object}"), "日曜は休みです。"),
    ];
    for (text, expected) in cases {
        assert!(has_any(&text), "{text}");
        assert_eq!(taken_out(&text).as_deref(), Some(expected), "{text}");
    }
}

/// GUARD-3: braces and angle brackets of people.
#[test]
fn ordinary_brackets_are_left_alone() {
    for text in [
        r#"{"size": 3}"#,
        "{messages}",
        r#"["messages"]"#,
        "Dear {name}, your {messages} are here: {two}",
        "I <3 clay :-} and 2 < 3 > 1 <b>bold</b> <https://example.org>",
        "Use function(x) { return x } and std::function<void>",
        "We think (and our messages: all of them) so {see: below}",
        r#"{"name": "Ana", "course": "clay"}"#,
        "{ {{ }",
        "<thinkers> meet on Mondays",
    ] {
        assert!(!has_any(text), "{text}");
        assert_eq!(taken_out(text).as_deref(), Some(text), "{text}");
    }
}

/// GUARD-2: the names of the tools that a turn can offer.
#[test]
fn every_tool_is_known() {
    use crate::tools::FlowMode;
    let tenant = std::sync::Arc::new(crate::config::demo::tenant().unwrap());
    let tools = crate::model::test_support::tools_of(&tenant, FlowMode::Staged);
    assert!(tools.definitions().len() > 4);
    for tool in tools.definitions().iter() {
        assert!(braces::TOOLS.contains(&tool.name), "{}", tool.name);
    }
}

/// Words and brackets as people write them; no name of ours.
fn ordinary() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        prop::sample::select(vec![
            "size",
            "course",
            "{name}",
            "<b>",
            "</b>",
            "i <3 u",
            "a < b",
            "{\"size\": 3}",
            "<https://x.org>",
            "(call us)",
            "f(x)",
            "`code`",
            "```",
            "[1]",
            "it's",
            "5\" wide",
            "name: Ana",
            "Monday:",
            "日曜",
            "🙂",
            "👩‍🎨 ❤️",
            "$1,180.00",
            "45.000 ARS",
            "ana_maria@example.org",
            "<ana@example.org>",
            "- 18:00: clay",
            "1. Wheel (6 weeks)",
            "“three”",
            "«dos»",
            "name=value",
            "function (x)",
            "think: why",
            "input",
            "\"name\"",
            "\\",
            "\n",
        ])
        .prop_map(str::to_owned),
        "[a-d{}<>()\\[\\]\"':,.=_$€@0-9 \\n]{0,8}",
    ];
    proptest::collection::vec(piece, 0..14).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2048))]

    /// GUARD-3: no false alarm.
    #[test]
    fn ordinary_texts_are_not_touched(text in ordinary()) {
        prop_assert!(!has_any(&text), "{}", text);
        prop_assert_eq!(taken_out(&text), Some(text));
    }

    /// GUARD-2: wherever an object stands, between whatever, nothing of it comes through.
    #[test]
    fn an_object_is_found_anywhere(before in "[a-z ().!<>]{0,20}", behind in "[a-z ().!<>]{0,20}") {
        let text = format!("{before}\n{{\"messages\": [\"secret {{words}}\"],\n \"escalate\": false}} {behind}");
        prop_assert!(has_any(&text));
        let kept = taken_out(&text).unwrap_or_default();
        prop_assert!(!kept.contains("secret") && !kept.contains("escalate") && !kept.contains('{'), "{}", kept);
    }
}
