use serde_json::json;

use super::*;

fn scrubber(secrets: &[&str]) -> Scrubber {
    Scrubber::new(&secrets.iter().map(|secret| (*secret).to_owned()).collect::<Vec<_>>()).unwrap()
}

/// PRIN-C5, ENV-26: real secrets are found wherever they stand; the longer of two wins.
#[test]
fn the_processes_secrets_are_replaced() {
    let scrubber = scrubber(&["abcdef", "abcdef-long", "x", "geheimñis"]);
    assert_eq!(scrubber.clean("err", "a abcdef-longb abcdef geheimñis x"), "a [secret]b [secret] [secret] x");
    assert_eq!(scrubber.clean("err", "nothing here"), "nothing here");
    // Also where the shapes of personal data would leave the field alone.
    assert_eq!(scrubber.clean("model", "mock:abcdef"), "mock:[secret]");
}

/// ENV-26: of a URL the password alone is a secret too, as written and decoded.
#[test]
fn the_password_of_a_url_is_a_secret() {
    let scrubber = scrubber(&["postgres://agent:p%40ssw%6Frd@db.internal/agent"]);
    assert_eq!(scrubber.clean("err", "wrong p@ssword or p%40ssw%6Frd"), "wrong [secret] or [secret]");
}

/// Credentials that are not ours: bearer headers, provider keys, passwords in URLs, contact tokens.
#[test]
fn shapes_of_credentials_are_replaced() {
    let scrubber = scrubber(&[]);
    let token = "q0wErTyUiOpAsDfGhJkLzXcVbNm1234567890-_AbCd";
    let cases = [
        ("Authorization: Bearer abc.def-ghi".to_owned(), "Authorization: Bearer [secret]"),
        ("key sk-proj-abcdefgh123 refused".to_owned(), "key [secret] refused"),
        ("key AIzaSyA0123456789abcdefghijk".to_owned(), "key [secret]"),
        (format!("token {token} is wrong"), "token [secret] is wrong"),
        ("cannot reach postgres://agent:hunter2@db".to_owned(), "cannot reach postgres://[secret]@db"),
        (
            "conversations_tenant_id_subscriber_id_unique_index".to_owned(),
            "conversations_tenant_id_subscriber_id_unique_index",
        ),
        ("risk-free and task-based".to_owned(), "risk-free and task-based"),
    ];
    for (text, expected) in cases {
        assert_eq!(scrubber.clean("err", &text), expected);
    }
}

/// PII-8: what the program itself makes stays readable.
#[test]
fn structural_values_stay_readable() {
    let scrubber = scrubber(&[]);
    let kept = [
        ("conversation", "0193a5c2-1111-7222-8333-444455556666"),
        ("outboxId", "01234567-8901-2345-6789-012345678901"),
        ("dueAt", "2026-11-30T10:00:00Z"),
        ("dueAt", "2026-11-30T10:00:00.123456789+02:00"),
        ("day", "2026-11-30"),
        ("model", "anthropic:claude-haiku-4-5-20251001"),
        ("migrations", "20260101120000_init"),
        ("outcome", "answered_inline"),
    ];
    for (field, value) in kept {
        assert_eq!(scrubber.clean(field, value), value);
    }
    // The same fields do not let a contact through.
    assert_eq!(scrubber.clean("conversation", "70010001"), "[number]");
    assert_eq!(scrubber.clean("model", "70010001"), "[number]");
    assert_eq!(scrubber.clean("model", "call +1 555 010 3388"), "call [phone]");
    assert_eq!(scrubber.clean("model", "https://a.example"), "[url]");
}

/// PII-1, PII-9: nested objects are cleaned at every depth, keys included.
#[test]
fn nested_values_are_cleaned() {
    let mut value = json!({
        "headers": {"authorization": "Bearer x", "x-api-key": "k", "host": "a"},
        "body": [{"text": "hello", "first_name": "Noor", "ok": true, "count": 5}],
        "error": {"message": "no +1 555 010 3388", "cause": {"message": "mail li@a.example"}},
        "li@a.example": null,
        "migrations": ["20260101120000_init"]
    });
    scrubber(&[]).clean_json("err", &mut value);
    let expected = json!({
        "headers": {"host": "a"},
        "body": [{"ok": true, "count": 5}],
        "error": {"message": "no [phone]", "cause": {"message": "mail [email]"}},
        "[email]": null,
        "migrations": ["20260101120000_init"]
    });
    assert_eq!(value, expected);
}

/// PII-8, GAP-CFG-7: a hash of digits alone is no phone number where hashes stand.
#[test]
fn names_inside_a_structural_field_are_structural() {
    let mut value = json!({"rules.json": "sha256:123456789012", "prompt.md": "call +1 555 010 3388"});
    scrubber(&[]).clean_json("files", &mut value);
    assert_eq!(value, json!({"rules.json": "sha256:123456789012", "prompt.md": "call [phone]"}));
}

#[test]
fn the_shapes_compile() {
    assert!(Credentials::compile().is_ok());
}
