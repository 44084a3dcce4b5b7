//! Every rule of reading an answer, without a socket.

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::domain::{Redacted, SubscriberId};
use crate::manychat::Class;

const KEY: &str = "1234:the-key-of-the-account";

fn call(command: Command) -> Call {
    Call { contact: SubscriberId::new("7301144").unwrap(), command }
}

fn write() -> Call {
    call(Command::SetField {
        field: "ai_message".into(),
        value: ContactText::new("The kiln is free on Friday."),
    })
}

fn token() -> Call {
    call(Command::WriteToken { field: "ai_token".into(), token: Redacted::new("tokentokentoken".into()) })
}

fn answer(call: &Call, status: u16, body: &str) -> Result<Answer, ManyChatError> {
    let status = StatusCode::from_u16(status).unwrap();
    read(call, KEY, &Received { status, retry_after: None, body: body.as_bytes() })
}

fn refused(call: &Call, status: u16, body: &str) -> ManyChatError {
    answer(call, status, body).unwrap_err()
}

/// API-7, API-20 to API-27, PERF-1: the bodies, with the subscriber id as a string.
#[test]
fn each_command_has_its_body() {
    let cases = [
        (
            write(),
            json!({"subscriber_id": "7301144", "field_name": "ai_message",
                         "field_value": "The kiln is free on Friday."}),
        ),
        (
            token(),
            json!({"subscriber_id": "7301144", "field_name": "ai_token", "field_value": "tokentokentoken"}),
        ),
        (
            call(Command::SendFlow { flow_ns: "content2027_42".into() }),
            json!({"subscriber_id": "7301144", "flow_ns": "content2027_42"}),
        ),
        (
            call(Command::AddTag { tag: "open-day".into() }),
            json!({"subscriber_id": "7301144", "tag_name": "open-day"}),
        ),
        (
            call(Command::RemoveTag { tag: "open-day".into() }),
            json!({"subscriber_id": "7301144", "tag_name": "open-day"}),
        ),
        (call(Command::GetInfo), json!({"subscriber_id": "7301144"})),
    ];
    for (call, body) in cases {
        assert_eq!(serde_json::to_value(call.parameters()).unwrap(), body);
        assert!(call.endpoint().path().starts_with("/fb/s"), "API-28: nothing below /fb/page/");
    }
}

/// API-40: `data` is ignored for commands, whatever `status` says unless it says error.
#[test]
fn a_command_succeeds_with_any_object_that_is_no_error() {
    for body in [
        r#"{"status":"success"}"#,
        " \n{\"status\":\"success\",\"data\":[1]}",
        r#"{"status":"queued"}"#,
        r#"{"status":null}"#,
        r#"{"other":{"status":"error"}}"#,
        "{}",
    ] {
        assert_eq!(answer(&write(), 200, body), Ok(Answer::Accepted), "{body}");
    }
    assert_eq!(answer(&write(), 201, "{}"), Ok(Answer::Accepted));
}

/// API-41, API-42, GAP-DL-11, AC-DL-3: an error in a successful response is an error, whatever its code is.
#[test]
fn a_refusal_is_read_whole() {
    let body = r#"{"status":"error","message":"Validation error","code":3011,
                   "details":{"messages":[{"message":"Field is unknown"},{"message":"Tag is unknown"}]}}"#;
    for status in [200, 400, 429, 500] {
        let error = refused(&write(), status, body);
        assert_eq!((error.status(), error.code()), (Some(status), Some(3011)));
        let expected = format!(
            "ManyChat refused /fb/subscriber/setCustomFieldByName with {status}: Validation error (Field is unknown; \
             Tag is unknown)"
        );
        assert_eq!(error.to_string(), expected);
    }
    for code in [r#""x""#, "null", "{}", "1.5"] {
        let error = refused(&write(), 200, &format!(r#"{{"status":"error","code":{code}}}"#));
        assert_eq!((error.name(), error.code(), error.class()), ("api_error", None, Class::Final), "{code}");
    }
    assert_eq!(refused(&write(), 200, r#"{"status":"error","code":"3011"}"#).code(), Some(3011), "API-32");
}

/// API-41: all but `status` is optional, and of any shape.
#[test]
fn a_refusal_of_a_strange_shape_is_still_a_refusal() {
    for rest in
        [r#","details":"x""#, r#","details":{"messages":null}"#, r#","message":7"#, r#","data":null"#, ""]
    {
        let error = refused(&write(), 200, &format!(r#"{{"status":"error"{rest}}}"#));
        assert_eq!((error.name(), error.status()), ("api_error", Some(200)), "{rest}");
    }
}

/// API-49: without a message the body's first 200 characters, without a body the reason phrase.
#[test]
fn a_refusal_without_a_message_quotes_the_body_or_the_status() {
    let page = format!("  <html>{}</html>", "wait ".repeat(200));
    let error = refused(&write(), 502, &page);
    let said = error.to_string();
    assert!(
        said.starts_with("ManyChat refused /fb/subscriber/setCustomFieldByName with 502: <html>wait wait"),
        "{said}"
    );
    assert_eq!(said.split_once(": ").unwrap().1.chars().count(), 200);
    assert!(refused(&write(), 503, " \n ").to_string().ends_with("with 503: Service Unavailable"));
    assert!(refused(&write(), 302, "").to_string().ends_with("with 302: Found"), "GAP-DL-13");
    assert!(refused(&write(), 400, r#"{"message":"  "}"#).to_string().contains(r#"{"message""#));
}

/// API-43, API-44, AC-DL-5: an answer that is not what was promised is final: ManyChat may have acted.
#[test]
fn a_success_of_the_wrong_shape_is_final() {
    let cases = [
        ("<html>fine</html>", "is not JSON"),
        ("", "is not JSON"),
        ("{\"status\":\"success\"", "is not JSON"),
        ("[\"success\"]", "not a JSON object"),
        ("\"success\"", "not a JSON object"),
        ("[\"error\"]", "not a JSON object"),
    ];
    for (body, problem) in cases {
        let error = refused(&write(), 200, body);
        assert_eq!((error.name(), error.class()), ("response_error", Class::Final), "{body}");
        assert!(error.to_string().contains(problem), "{error}");
    }
    for data in
        ["", r#","data":null"#, r#","data":[]"#, r#","data":{"tags":7}"#, r#","data":{"tags":[{"id":1}]}"#]
    {
        let error = refused(&call(Command::GetInfo), 200, &format!(r#"{{"status":"success"{data}}}"#));
        assert_eq!(error.name(), "response_error", "{data}");
    }
}

/// API-31, API-32, READ-2, READ-5: only tags and fields come out, values in their text form.
#[test]
fn a_contact_is_reduced_to_tags_and_fields() {
    let body = r#"{"status":"success","data":{"id":"7301144","first_name":"Noor","whatsapp_phone":"+10005550100",
        "last_input_text":"\ud83d","page_id":99999999999999999999999,"phone":null,
        "tags":[{"id":99999999999999999999,"name":"open-day"},{"id":6,"name":"Noël"}],
        "custom_fields":[{"id":9,"name":"shift","type":"text","description":"","value":"eve\nning"},
          {"id":10,"name":"visits","value":null},{"id":11,"name":"absent"},{"id":12,"name":"count","value":12},
          {"id":13,"name":"big","value":99999999999999999999},{"id":14,"name":"half","value":2.50},
          {"id":15,"name":"whole","value":5.0},{"id":16,"name":"yes","value":true},{"id":17,"name":"empty","value":""}]}}"#;
    let Ok(Answer::Contact(info)) = answer(&call(Command::GetInfo), 200, body) else { panic!("no contact") };
    assert_eq!(info.tags, ["open-day", "Noël"]);
    let fields: Vec<(&str, Option<&str>)> = info
        .fields
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_ref().map(ContactText::expose)))
        .collect();
    let expected = [
        ("shift", Some("eve\nning")),
        ("visits", None),
        ("absent", None),
        ("count", Some("12")),
        ("big", Some("99999999999999999999")),
        ("half", Some("2.5")),
        ("whole", Some("5")),
        ("yes", Some("true")),
        ("empty", Some("")),
    ];
    assert_eq!(fields, expected);
    assert_eq!(info.field("count").map(ContactText::expose), Some("12"));
    assert_eq!(format!("{info:?}"), "ContactInfo(2 tags, 9 fields)", "nothing of it is printed");
}

/// API-31: a new contact has none of either, in every form that says so.
#[test]
fn missing_and_null_lists_are_empty() {
    for data in ["{}", r#"{"tags":null,"custom_fields":null}"#, r#"{"tags":[],"custom_fields":[]}"#] {
        let body = format!(r#"{{"status":"success","data":{data}}}"#);
        let found = answer(&call(Command::GetInfo), 200, &body);
        assert_eq!(found, Ok(Answer::Contact(ContactInfo::default())), "{data}");
    }
}

/// LOG-8, TOK-24, TOK-3: of an answer to a token write nothing is repeated, wherever it stands.
#[test]
fn an_answer_to_a_token_write_is_not_repeated() {
    let quoting = r#"{"status":"error","message":"bad tokentokentoken","code":7,
                      "details":{"messages":[{"message":"tokentokentoken"}]}}"#;
    for (status, body) in [(400, quoting), (200, quoting), (502, "<html>tokentokentoken</html>")] {
        let error = refused(&token(), status, body);
        let everything = format!("{error} {error:?}");
        assert!(!everything.contains("tokentoken"), "{everything}");
        assert_eq!(error.status(), Some(status));
    }
    assert!(!format!("{:?}", token()).contains("tokentoken"));
}

/// API-49: nor does an escape hide it.
#[test]
fn an_escaped_quote_is_found_as_well() {
    let value = ContactText::new("Noël said \"hi\"\nand left");
    let call = call(Command::SetField { field: "note".into(), value });
    let body = r#"{"error":{"field_value":"No\u00ebl said \"hi\"\nand left"}}"#;
    assert!(
        refused(&call, 422, body).to_string().ends_with(r#"with 422: {"error":{"field_value":"[sent]"}}"#)
    );
}

/// The shapes in which ManyChat might quote a request.
fn quoting(status: u16, quote: &str) -> Vec<(u16, String)> {
    let message = json!({"status": "error", "message": format!("no: {quote}!")}).to_string();
    let details =
        json!({"status": "error", "details": {"messages": [{"message": format!("<{quote}>")}]}}).to_string();
    vec![
        (status, message.clone()),
        (200, message),
        (status, details),
        (status, format!("<html>{quote}</html>")),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    /// API-8, API-49, PERF-10, ARC-62: neither the key, nor the contact's id, nor what was written comes back in an
    /// error, wherever ManyChat quotes it.
    #[test]
    fn no_error_repeats_what_was_sent(value in "[a-zA-Z ]{12,60}", status in 400_u16..600) {
        let value = value.trim().to_owned();
        prop_assume!(value.len() > 8);
        let call = call(Command::SetField { field: "note".into(), value: ContactText::new(value.clone()) });
        for part in [value.as_str(), "7301144", KEY] {
            for (status, body) in quoting(status, part) {
                let error = refused(&call, status, &body);
                let shown = format!("{error} {error:?}");
                prop_assert!(!shown.contains(part), "{shown}");
            }
        }
    }

    /// API-40 to API-44: any bytes at all are read as one of the promised outcomes.
    #[test]
    fn any_body_is_read_without_a_panic(body in proptest::collection::vec(any::<u8>(), 0..200), status in 200_u16..600) {
        for call in [write(), token(), call(Command::GetInfo)] {
            let status = StatusCode::from_u16(status).unwrap();
            let outcome = read(&call, KEY, &Received { status, retry_after: None, body: &body });
            prop_assert!(status.is_success() || outcome.is_err());
        }
    }
}
