use super::*;

fn valid() -> Value {
    json!({
        "messages": ["The Wheel Throwing course is $310.00.", "It runs on Mondays at 7pm."],
        "escalate": false,
        "escalation_reason": null,
        "confidence": 0.88,
        "closing_question": "Would you like the enrolment link?",
    })
}

fn with(key: &str, value: Value) -> Value {
    let mut object = valid();
    object[key] = value;
    object
}

fn faults(object: &Value, bounds: Bounds) -> String {
    Reply::parse(object, bounds).map_or_else(|faults| faults.to_string(), |_| "none".to_owned())
}

/// 01/REP-1 to 01/REP-5: the bounds of every field, in both schemas.
#[test]
fn every_field_has_its_bounds() {
    let long = "x".repeat(MAX_MESSAGE_UNITS);
    let too_long = "x".repeat(MAX_MESSAGE_UNITS + 1);
    let cases = [
        (valid(), "none"),
        (with("messages", json!(["a", "b", "c"])), "none"),
        (with("messages", json!(["a", "b", "c", "d", "e"])), "messages"),
        (with("messages", json!([])), "messages"),
        (with("messages", json!("one")), "messages"),
        (with("messages", json!(["a", "", 7])), "messages.1, messages.2"),
        (with("messages", json!([long])), "none"),
        (with("messages", json!([too_long])), "messages.0"),
        (with("escalate", json!("false")), "escalate"),
        (with("escalation_reason", json!("boredom")), "escalation_reason"),
        (with("escalation_reason", json!(1)), "escalation_reason"),
        (with("confidence", json!(0)), "none"),
        (with("confidence", json!(1)), "none"),
        (with("confidence", json!(1.01)), "confidence"),
        (with("confidence", json!(-0.01)), "confidence"),
        (with("confidence", json!("0.9")), "confidence"),
        (with("closing_question", json!(null)), "none"),
        (with("closing_question", json!("")), "closing_question"),
        (with("closing_question", json!(too_long)), "closing_question"),
        (with("closing_question", json!(false)), "closing_question"),
        (json!([1]), "(root)"),
        (json!({}), "messages, escalate, escalation_reason, confidence, closing_question"),
    ];
    for (object, expected) in cases {
        for bounds in [Bounds::Model, Bounds::Validated] {
            assert_eq!(faults(&object, bounds), expected, "{object} by {bounds:?}");
        }
    }
}

/// 01/REP-1: nullable is not optional.
#[test]
fn every_field_is_required() {
    for field in FIELDS {
        let mut object = valid();
        object.as_object_mut().unwrap().remove(field);
        assert_eq!(faults(&object, Bounds::Model), field);
    }
}

/// 01/REP-2: the model may write three messages, a validated reply has at most four.
#[test]
fn a_fourth_message_passes_only_the_validated_schema() {
    let object = with("messages", json!(["a", "b", "c", "d"]));
    assert_eq!(faults(&object, Bounds::Model), "messages");
    assert_eq!(faults(&object, Bounds::Validated), "none");
}

/// 01/REP-3: a character outside the basic plane counts two.
#[test]
fn lengths_are_utf16_units() {
    assert_eq!(faults(&with("messages", json!(["😀".repeat(500)])), Bounds::Model), "none");
    assert_eq!(faults(&with("messages", json!(["😀".repeat(501)])), Bounds::Model), "messages.0");
    assert_eq!(faults(&with("messages", json!(["é".repeat(1000)])), Bounds::Model), "none");
}

/// 01/REP-4, 01/REP-5, FAIL-4: reason and `escalate` are compared only in the validated schema, and only once the rest fits.
#[test]
fn a_reason_goes_with_an_escalation_and_only_with_one() {
    let reason_alone = with("escalation_reason", json!("complaint"));
    let escalation_alone = with("escalate", json!(true));
    for object in [&reason_alone, &escalation_alone] {
        assert_eq!(faults(object, Bounds::Model), "none");
        assert_eq!(faults(object, Bounds::Validated), "escalation_reason");
    }
    let mut both = reason_alone;
    both["escalate"] = json!(true);
    assert_eq!(faults(&both, Bounds::Validated), "none");
    both["confidence"] = json!(7);
    both["escalate"] = json!(false);
    assert_eq!(faults(&both, Bounds::Validated), "confidence");
}

/// 01/REP-6
#[test]
fn unknown_keys_are_ignored() {
    assert_eq!(
        Reply::parse(&with("mood", json!("sunny")), Bounds::Validated),
        Reply::parse(&valid(), Bounds::Model)
    );
}

/// Postgres cannot store a NUL, so it must not reach the settled row.
#[test]
fn nul_characters_are_dropped() {
    let reply = Reply::parse(&with("messages", json!(["a\0b"])), Bounds::Model).unwrap();
    assert_eq!(reply.messages, ["ab"]);
    assert_eq!(faults(&with("messages", json!(["\0"])), Bounds::Model), "messages.0");
}

/// ESC-2: all six reasons are accepted.
#[test]
fn every_reason_is_accepted() {
    for reason in EscalationReason::ALL {
        let mut object = with("escalate", json!(true));
        object["escalation_reason"] = json!(reason.as_str());
        assert_eq!(Reply::parse(&object, Bounds::Validated).unwrap().escalation_reason, Some(*reason));
    }
}

/// 01/REP-4, 01/REP-7: the schema has the model's bounds, names each field once, and says of the question what the prompt
/// says.
#[test]
fn the_schema_given_to_the_model_has_the_models_bounds() {
    let schema = schema();
    let mut properties: Vec<&str> =
        schema["properties"].as_object().unwrap().keys().map(String::as_str).collect();
    let mut fields = FIELDS.to_vec();
    properties.sort_unstable();
    fields.sort_unstable();
    assert_eq!(properties, fields);
    assert_eq!(schema["required"], json!(FIELDS));
    let messages = &schema["properties"]["messages"];
    assert_eq!((&messages["minItems"], &messages["maxItems"]), (&json!(1), &json!(3)));
    assert_eq!(messages["items"]["maxLength"], json!(1000));
    let reasons = schema["properties"]["escalation_reason"]["enum"].as_array().unwrap();
    assert_eq!(reasons.len(), EscalationReason::ALL.len() + 1);
    assert_eq!(schema["properties"]["closing_question"]["description"], json!(CLOSING_QUESTION_GUIDE));
}

/// ESC-4, OPEN-5
#[test]
fn replies_of_the_server_are_certain_and_ask_nothing() {
    let handoff = Reply::handoff("A colleague will write.", EscalationReason::ExplicitRequest);
    assert_eq!(handoff.messages, ["A colleague will write."]);
    assert!(handoff.escalate);
    assert_eq!(handoff.escalation_reason, Some(EscalationReason::ExplicitRequest));
    let scripted = Reply::scripted("Welcome.");
    assert!(!scripted.escalate && scripted.escalation_reason.is_none());
    for reply in [handoff, scripted] {
        assert_eq!((reply.confidence, &reply.closing_question, reply.messages.len()), (1.0, &None, 1));
    }
}

/// WRITE-3, LOG-9
#[test]
fn a_reply_is_stored_by_line_and_printed_without_words() {
    let reply = Reply::parse(&valid(), Bounds::Validated).unwrap();
    assert_eq!(reply.text(), "The Wheel Throwing course is $310.00.\nIt runs on Mondays at 7pm.");
    let printed = format!("{reply:?}");
    assert!(!printed.contains("Wheel") && !printed.contains("enrolment"), "{printed}");
}
