use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::model::prompt::LEAK_MARKERS;
use crate::model::reply::utf16_units;
use crate::model::test_support::{CLOSER, ESCALATION, rules};

fn answer(messages: Value) -> Value {
    json!({
        "messages": messages, "escalate": false, "escalation_reason": null, "confidence": 0.9,
        "closing_question": null,
    })
}

fn asking(messages: Value, question: &str) -> Value {
    let mut object = answer(messages);
    object["closing_question"] = json!(question);
    object
}

fn confident(confidence: f64) -> Value {
    let mut object = answer(json!(["Maybe."]));
    object["confidence"] = json!(confidence);
    object
}

fn escalating(messages: Value, confidence: f64) -> Value {
    json!({
        "messages": messages, "escalate": true, "escalation_reason": "complaint", "confidence": confidence,
        "closing_question": "Anything else?",
    })
}

/// Knows the fixed markers only (GUARD-4).
fn no_secrets() -> LeakCheck {
    LeakCheck::default()
}

fn checked(object: &Value) -> Checked {
    check(object, &rules(), &[], &no_secrets())
}

fn with_closer() -> Rules {
    let mut rules = rules();
    rules.messages.closer = Some(CLOSER.to_owned());
    rules
}

/// The tenant's escalation text, server-made, with the given traces.
fn assert_handoff(checked: &Checked, interventions: &[&str], cause: Cause) {
    assert_eq!(checked.reply, Reply::handoff(ESCALATION, EscalationReason::LowConfidence));
    assert_eq!(checked.interventions, interventions);
    assert_eq!(checked.cause, Some(cause));
}

/// GUARD-13
#[test]
fn a_good_reply_passes_unchanged() {
    let object = answer(json!(["  The course is $310.00.", "It runs on Mondays. "]));
    let result = check(&object, &with_closer(), &["Hello."], &no_secrets());
    assert_eq!(result.reply, Reply::parse(&object, Bounds::Validated).unwrap());
    assert_eq!((result.interventions.len(), result.cause), (0, None));
}

/// GUARD-1, FAIL-4
#[test]
fn an_invalid_object_hands_off_and_names_the_paths() {
    let mut object = answer(json!(["Well."]));
    object["escalation_reason"] = json!("complaint");
    assert_handoff(&checked(&object), &["schema_invalid: escalation_reason"], Cause::Schema);
    object["messages"] = json!([""]);
    object["confidence"] = json!(2);
    assert_handoff(&checked(&object), &["schema_invalid: messages.0, confidence"], Cause::Schema);
}

/// GUARD-2, GUARD-3, 01/AC-3, 08/HIST-4: the echo line goes, the rest stays, other messages are not even trimmed.
#[test]
fn echo_lines_are_stripped_and_the_rest_is_kept() {
    for line in
        ["confidence: 0.9", "\"escalate\": false", "**confidence:** 0.8", "[actions performed: add_tag x]"]
    {
        let result = checked(&answer(json!([format!("It is $25.00.\n{line}"), " On Mondays. "])));
        assert_eq!(result.reply.messages, ["It is $25.00.", " On Mondays. "], "{line}");
        assert_eq!((result.interventions, result.cause), (vec![Intervention::FieldEchoStripped], None));
    }
}

/// GUARD-2: a message that is nothing but an echo is dropped, a question too.
#[test]
fn a_text_of_echo_lines_only_is_dropped() {
    let result = checked(&asking(json!(["It is $25.00.", "escalate: false"]), "closing_question: null"));
    assert_eq!(result.reply.messages, ["It is $25.00."]);
    assert_eq!(result.reply.closing_question, None);
    assert_eq!(result.interventions, ["field_echo_stripped"]);
}

/// GUARD-2, FAIL-6
#[test]
fn a_reply_of_echo_lines_only_hands_off() {
    let object = asking(json!(["confidence: 0.9\nescalate: false"]), "Shall we?");
    assert_handoff(&checked(&object), &["field_echo_stripped"], Cause::Leak);
    let escalated = escalating(json!(["confidence: 0.9"]), 0.9);
    assert_handoff(&checked(&escalated), &["field_echo_stripped"], Cause::Leak);
}

/// GUARD-2, FAIL-6: what a machine wrote for a machine reaches nobody; an answer beside it does.
#[test]
fn objects_calls_and_thoughts_are_taken_out() {
    let object = r#"Sure! {"messages":["Hello"],"escalate":false,"confidence":0.9}"#;
    assert_handoff(&checked(&answer(json!([object]))), &["field_echo_stripped"], Cause::Leak);
    let call = r#"<tool_call>{"name":"send_flow","arguments":{"flow":"leaflet"}}</tool_call>"#;
    assert_handoff(&checked(&answer(json!([call]))), &["field_echo_stripped"], Cause::Leak);
    let result = checked(&asking(json!(["<think>They want X.</think>Hello", call]), r#"{"escalate":false}"#));
    assert_eq!((result.reply.messages, result.reply.closing_question), (vec!["Hello".to_owned()], None));
    assert_eq!((result.interventions, result.cause), (vec![Intervention::FieldEchoStripped], None));
}

/// GUARD-8, GUARD-9: one question ends the turn, in whatever script.
#[test]
fn a_question_in_another_script_is_one() {
    // foreign text
    for last in ["何時ですか？", "متى؟"] {
        let result = checked(&asking(json!([last]), "Shall we?"));
        assert_eq!(result.reply.messages, [last]);
        assert_eq!(result.interventions, [Intervention::ClosingQuestionAlreadyInBody]);
    }
}

/// FAIL-3, GUARD-8: what shows nothing is dropped, a question too; a reply of nothing else hands off.
#[test]
fn blank_texts_are_dropped() {
    for blank in [" ", "\n\n", "\u{200b}", "**", "```\n```"] {
        let result = checked(&asking(json!([blank, "It is $25.00.", blank]), blank));
        assert_eq!(result.reply.messages, ["It is $25.00."], "{blank:?}");
        assert_eq!((result.reply.closing_question, result.cause), (None, None), "{blank:?}");
        assert_eq!(result.interventions, ["blank_text_dropped"], "{blank:?}");
        assert_handoff(&checked(&answer(json!([blank]))), &["blank_text_dropped"], Cause::Schema);
    }
}

/// GUARD-4, 01/AC-4, FAIL-5: markers and headings, in escalating replies as well; other traces are forgotten.
#[test]
fn a_leak_hands_off() {
    for leak in
        ["My OPERATING RULES say so.", "SECURITY", "see CATALOG (Northside", "a <<<CONTACT_MESSAGE>>>"]
    {
        assert_handoff(&checked(&answer(json!(["Hi.", leak]))), &["prompt_leak_detected"], Cause::Leak);
        assert_handoff(&checked(&escalating(json!([leak]), 1.0)), &["prompt_leak_detected"], Cause::Leak);
    }
    let both = answer(json!(["confidence: 1\n<<<END_CONTACT_MESSAGE>>>"]));
    assert_handoff(&checked(&both), &["prompt_leak_detected"], Cause::Leak);
}

/// GUARD-5
#[test]
fn a_leak_in_the_question_hands_off() {
    let object = asking(json!(["Fine."]), "Shall I quote CATALOG (Northside?");
    assert_handoff(&checked(&object), &["prompt_leak_detected"], Cause::Leak);
}

/// GUARD-4: case-sensitive.
#[test]
fn security_as_an_ordinary_word_is_no_leak() {
    assert_eq!(checked(&answer(json!(["For security, our catalog (printed) stays here."]))).cause, None);
}

/// GUARD-6, 01/AC-2, FAIL-7
#[test]
fn confidence_strictly_below_the_threshold_hands_off() {
    assert_handoff(&checked(&confident(0.59)), &["confidence_below_threshold: 0.59"], Cause::Confidence);
    assert_handoff(&checked(&confident(0.0)), &["confidence_below_threshold: 0"], Cause::Confidence);
    assert_eq!(checked(&confident(0.6)).reply.messages, ["Maybe."]);
    let mut strict = rules();
    strict.confidence_threshold = 0.95;
    assert_eq!(check(&confident(0.9), &strict, &[], &no_secrets()).cause, Some(Cause::Confidence));
}

/// GUARD-6, GUARD-8, ESC-5, 01/AC-10: the model's own escalation keeps reason and words, and asks nothing.
#[test]
fn an_escalation_of_the_model_keeps_its_words() {
    let result = checked(&escalating(json!(["I am sorry. A colleague will write."]), 0.1));
    assert_eq!(result.reply.messages, ["I am sorry. A colleague will write."]);
    assert_eq!(result.reply.escalation_reason, Some(EscalationReason::Complaint));
    assert_eq!((result.interventions.len(), result.cause), (0, Some(Cause::Model)));
}

/// GUARD-7
#[test]
fn a_fourth_message_is_cut_off() {
    let result = checked(&answer(json!(["a", "b", "c", "d"])));
    assert_eq!(result.reply.messages, ["a", "b", "c"]);
    assert_eq!(result.interventions, ["messages_truncated"]);
}

/// GUARD-7: a model's message is cut between two characters; its schema leaves none so long, so the step is asked alone.
#[test]
fn an_overlong_message_is_cut_to_the_limit() {
    let mut reply = Reply::scripted(&format!("{}😀😀", "x".repeat(999)));
    let mut interventions = Vec::new();
    clamp(&mut reply, &mut interventions);
    assert_eq!(reply.messages, ["x".repeat(999)]);
    assert_eq!(interventions, ["message_truncated"]);
}

/// ESC-4: the tenant's own copy is no message of the model's: it goes out whole, whatever called for it.
#[test]
fn the_tenants_copy_is_never_cut() {
    let mut wordy = rules();
    wordy.messages.escalation = "x".repeat(1500);
    let result = check(&confident(0.1), &wordy, &[], &no_secrets());
    assert_eq!(result.reply.messages, ["x".repeat(1500)]);
    assert_eq!(result.interventions, ["confidence_below_threshold: 0.1"]);
}

/// GUARD-8, 01/AC-9: the question is the last message, a fourth one when the model wrote three.
#[test]
fn the_question_is_appended_as_the_last_message() {
    let result = checked(&asking(json!(["a", "b", "See https://example.org"]), "Shall we?"));
    assert_eq!(result.reply.messages, ["a", "b", "See https://example.org", "Shall we?"]);
    assert_eq!((result.interventions.len(), result.cause), (0, None));
}

/// GUARD-8, GUARD-9, DEC-35, 01/AC-8
#[test]
fn a_body_that_ends_with_a_question_gets_no_second_one() {
    for last in ["Would you like to come?😊", "**Ready?**"] {
        let result = checked(&asking(json!(["Hi.", last]), "Shall we?"));
        assert_eq!(result.reply.messages, ["Hi.", last]);
        assert_eq!(result.interventions, ["closing_question_already_in_body"]);
    }
}

/// GUARD-10, GUARD-11, 01/AC-7: the whole reply, or any message of the body, equal in normal form.
#[test]
fn a_repetition_is_replaced_by_the_closer() {
    let cases = [
        (answer(json!(["a 🙂", " B"])), "A\nB"),
        (answer(json!(["Something new.", "LESSONS start  at nine. 🙂"])), "Lessons start at nine."),
        (asking(json!(["a"]), "More?"), "A\nmore?"),
    ];
    for (object, earlier) in cases {
        let result = check(&object, &with_closer(), &["Hello.", earlier], &no_secrets());
        assert_eq!(result.reply.messages, [CLOSER], "{earlier}");
        assert_eq!(result.reply.closing_question, None);
        assert_eq!((result.reply.escalate, result.reply.confidence), (false, 0.9));
        assert_eq!((result.interventions, result.cause), (vec![Intervention::DuplicateReplaced], None));
    }
}

/// GUARD-11: without a closer the reply goes out and is noted.
#[test]
fn a_repetition_without_a_closer_goes_out() {
    let result = check(&answer(json!(["a 🙂", " B"])), &rules(), &["A\nB"], &no_secrets());
    assert_eq!(result.reply.messages, ["a 🙂", " B"]);
    assert_eq!((result.interventions, result.cause), (vec![Intervention::DuplicateDetected], None));
}

/// GUARD-10: what is not compared.
#[test]
fn shared_parts_are_no_repetition() {
    let cases = [
        (asking(json!(["Something new."]), "More?"), "more?"),
        (answer(json!(["Lessons start at nine.\nBring a jacket."])), "Lessons start at nine."),
        (answer(json!(["Lessons start at nine."])), "Lessons start at nine.\nBring a jacket."),
        (answer(json!(["🙂"])), "👍"),
    ];
    for (object, earlier) in cases {
        assert!(
            check(&object, &with_closer(), &[earlier], &no_secrets()).interventions.is_empty(),
            "{earlier}"
        );
    }
    let escalated = escalating(json!(["A\nB"]), 0.9);
    assert_eq!(check(&escalated, &with_closer(), &["A\nB"], &no_secrets()).reply.messages, ["A\nB"]);
}

/// LOG-9
#[test]
fn debug_shows_no_words() {
    let printed = format!("{:?}", checked(&asking(json!(["Secret words."]), "Secret question?")));
    assert!(!printed.contains("Secret"), "{printed}");
}

/// Texts in which markers, headings, echoes and ordinary words meet.
fn risky_text() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        prop::sample::select(LEAK_MARKERS.to_vec()).prop_map(str::to_owned),
        prop::sample::select(vec![
            "confidence: 1",
            "\n",
            "escalate=",
            "[actions staged: ",
            "CATALOG",
            "{\"messages\": [\"Hi\"]}",
            "{",
            "}",
            "\"escalate\": ",
            "<think>",
            "</think>",
            "<tool_call>",
            "send_flow(",
            "FUNNEL: new",
            "\r",
            "\u{2028}",
            "Shall we?"
        ])
        .prop_map(str::to_owned),
        "[a-z😀 \\n]{0,6}",
    ];
    proptest::collection::vec(piece, 1..6).prop_map(|pieces| pieces.concat())
}

fn any_object() -> impl Strategy<Value = Value> {
    let messages = proptest::collection::vec(risky_text(), 0..6);
    let reason = prop::option::of(prop::sample::select(vec!["complaint", "out_of_scope", "boredom"]));
    (messages, any::<bool>(), reason, 0.0..1.1f64, prop::option::of(risky_text())).prop_map(
        |(messages, escalate, reason, confidence, question)| {
            json!({
                "messages": messages, "escalate": escalate, "escalation_reason": reason,
                "confidence": confidence, "closing_question": question,
            })
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1024))]

    /// GUARD-2, GUARD-4, GUARD-5, GUARD-7, 01/REP-2: whatever the model wrote, no marker, heading or echo line comes out,
    /// and the reply is within its bounds.
    #[test]
    fn what_comes_out_is_always_a_valid_reply(object in any_object(), earlier in risky_text()) {
        let result = check(&object, &with_closer(), &[&earlier], &no_secrets());
        let reply = &result.reply;
        prop_assert!((1..=crate::model::MAX_MESSAGES).contains(&reply.messages.len()));
        prop_assert_eq!(reply.escalate, reply.escalation_reason.is_some());
        prop_assert_eq!(reply.escalate, result.cause.is_some());
        for text in reply.messages.iter().chain(&reply.closing_question) {
            prop_assert!(!no_secrets().finds([text.as_str()]), "{}", text);
            prop_assert!(!echoes(text, &no_secrets()), "{}", text);
            prop_assert!(!is_blank(text), "{}", text);
            prop_assert!((1..=MAX_MESSAGE_UNITS).contains(&utf16_units(text)));
        }
    }
}
