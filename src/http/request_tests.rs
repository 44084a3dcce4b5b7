use proptest::prelude::*;

use super::*;
use crate::domain::MediaKind;

fn ok(body: &str) -> MessageRequest {
    parse(body.as_bytes()).unwrap_or_else(|error| panic!("{body} was refused: {error}"))
}

fn bad(body: &str) -> BadBody {
    match parse(body.as_bytes()) {
        Ok(_) => panic!("{body} was accepted"),
        Err(error) => error,
    }
}

/// A valid body with one more member.
fn with(member: &str) -> String {
    format!(r#"{{"subscriber_id":"7301144","text":"hello",{member}}}"#)
}

fn shown(value: &Option<Redacted<String>>) -> Option<&str> {
    value.as_ref().map(|value| value.expose().as_str())
}

/// 03 section 5: the documented example.
#[test]
fn the_documented_body_is_read() {
    let request =
        ok(r#"{"subscriber_id":"7301144","text":"Do you have evening classes?","first_name":"Noor",
        "last_name":null,"locale":"en_GB","channel":"instagram","ai_token":"q0w"}"#);
    assert_eq!(request.subscriber.expose(), "7301144");
    assert_eq!(request.text.expose(), "Do you have evening classes?");
    assert_eq!(shown(&request.contact_name), Some("Noor"));
    assert_eq!(request.locale.as_deref(), Some("en_GB"));
    assert_eq!(request.channel.as_deref(), Some("instagram"));
    assert_eq!(shown(&request.token), Some("q0w"));
    assert_eq!(request.offering, None);
}

/// INB-2: absence and null are the same.
#[test]
fn optional_keys_may_be_null() {
    let bare = ok(r#"{"subscriber_id":"1","text":""}"#);
    let nulls = ok(r#"{"subscriber_id":"1","text":"","first_name":null,"last_name":null,"locale":null,
        "channel":null,"ai_token":null,"offering":null,"course":null}"#);
    assert_eq!(bare, nulls);
    assert!(bare.text.is_empty());
}

/// INB-7, AC-CH-8, DEC-35
#[test]
fn a_numeric_subscriber_keeps_every_digit() {
    for digits in ["998", "0", "9007199254740993123", "123456789012345678901234567890"] {
        let request = ok(&format!(r#"{{"subscriber_id": {digits} ,"text":""}}"#));
        assert_eq!(request.subscriber.expose(), digits);
    }
    for value in ["-1", "-0", "1.0", "1.5", "1e3", "true", "null", "[1]", "{}"] {
        let error = bad(&format!(r#"{{"subscriber_id":{value},"text":""}}"#));
        assert!(matches!(error, BadBody::WrongType { field: "subscriber_id", .. }), "{value}: {error}");
    }
}

/// GAP-CH-10
#[test]
fn a_subscriber_that_many_would_share_is_refused() {
    for id in ["", "  ", "{{contact.id}}", r"\u0000", r"\ufeff"] {
        let error = bad(&format!(r#"{{"subscriber_id":"{id}","text":"hi"}}"#));
        assert_eq!(error, BadBody::NoSubscriber, "{id:?}");
    }
}

/// INB-1, HTTP-22: the unknown key is named, unless it could be somebody's words.
#[test]
fn unknown_keys_are_refused_by_name() {
    assert_eq!(bad(&with(r#""phone":"1""#)), BadBody::UnknownKey("phone".to_owned()));
    assert_eq!(bad(&with(r#""Text":"x""#)), BadBody::UnknownKey("Text".to_owned()));
    for key in ["", "my number is 555", "+15550107788", "ключ", &"k".repeat(41)] {
        let error = bad(&with(&format!(r#""{key}":1"#)));
        assert_eq!(error, BadBody::UnreadableKey, "{key}");
        assert!(key.is_empty() || !error.message().contains(key));
    }
}

/// AC-CH-7, DEC-35: bounds count UTF-16 units.
#[test]
fn bounds_count_utf16_units() {
    let text = |text: &str| format!(r#"{{"subscriber_id":"1","text":"{text}"}}"#);
    assert_eq!(ok(&text(&"x".repeat(4096))).text.expose().len(), 4096);
    ok(&text(&"😀".repeat(2048)));
    ok(&text(&"é".repeat(4096)));
    ok(&text(&r"\ud83d".repeat(4096)));
    let too_long = BadBody::TooLong { field: "text", most: 4096 };
    assert_eq!(bad(&text(&"x".repeat(4097))), too_long);
    assert_eq!(bad(&text(&format!("{}x", "😀".repeat(2048)))), too_long);
    assert_eq!(too_long.message(), "body/text is longer than 4096 characters");
    for field in ["ai_token", "offering", "course"] {
        let member = |len| with(&format!(r#""{field}":"{}""#, "t".repeat(len)));
        ok(&member(256));
        assert_eq!(bad(&member(257)), BadBody::TooLong { field, most: 256 });
    }
    ok(&with(&format!(r#""first_name":"{}""#, "n".repeat(5000))));
}

/// INB-2, AC-CH-7: missing keys and wrong types name their place.
#[test]
fn missing_keys_and_wrong_types_name_their_place() {
    assert_eq!(bad(r#"{"text":"a"}"#), BadBody::Missing("subscriber_id"));
    assert_eq!(bad(r#"{"subscriber_id":"1"}"#), BadBody::Missing("text"));
    for value in ["5", "null", "[]"] {
        let error = bad(&format!(r#"{{"subscriber_id":"1","text":{value}}}"#));
        assert_eq!(error.message(), "body/text must be a text", "{value}");
    }
    for field in ["first_name", "last_name", "locale", "channel", "ai_token", "offering", "course"] {
        let error = bad(&with(&format!(r#""{field}":5"#)));
        assert_eq!(error.message(), format!("body/{field} must be a text or null"));
    }
}

/// HTTP-22: each kind of broken body has a code and says what to send.
#[test]
fn broken_bodies_are_told_apart() {
    for body in ["", "  \n", "\u{FEFF}"] {
        assert_eq!(bad(body), BadBody::Empty);
    }
    for body in
        ["{cut off", "hello", "{\"a\":1", "{\"text\":\"\n\"}", "{}x", "{\"a\" 1}", "[1", "nul", "{\"a\":01}"]
    {
        let error = bad(body);
        assert!(matches!(error, BadBody::NotJson { .. }), "{body}: {error:?}");
        assert_eq!(error.code(), "INVALID_JSON");
        assert!(error.message().contains("line 1, column") || body.contains('\n'), "{error}");
    }
    for body in ["[]", "null", "\"text\"", "5", "true", "[{\"subscriber_id\":\"1\",\"text\":\"a\"}]"] {
        assert_eq!(bad(body), BadBody::NotAnObject, "{body}");
    }
    assert_eq!(parse(b"\xff\xfe{").map_err(|error| error.code()), Err("INVALID_JSON"));
    assert_eq!(bad("").code(), "EMPTY_BODY");
    assert_eq!(bad("{}").code(), "INVALID_BODY");
}

/// INB-8
#[test]
fn a_repeated_key_takes_its_last_value() {
    let request = ok(r#"{"subscriber_id":5.5,"subscriber_id":"2","text":7,"te\u0078t":"hello again"}"#);
    assert_eq!((request.subscriber.expose(), request.text.expose()), ("2", "hello again"));
    assert_eq!(bad(r#"{"subscriber_id":"1","text":"a","text":null}"#).code(), "INVALID_BODY");
}

/// INB-8: lone halves become U+FFFD, pairs and escaped backslashes stay.
#[test]
fn lone_surrogates_are_accepted() {
    let text =
        |text: &str| ok(&format!(r#"{{"subscriber_id":"1","text":"{text}"}}"#)).text.expose().to_owned();
    assert_eq!(text(r"lone \ud83d half"), "lone \u{FFFD} half");
    assert_eq!(text(r"\uDE00\uD83D"), "\u{FFFD}\u{FFFD}");
    assert_eq!(text(r"\ud83d\ud83d\ude00\ude00"), "\u{FFFD}😀\u{FFFD}");
    assert_eq!(text(r"\ud83d\ude00 \uD83D\uDE00"), "😀 😀");
    assert_eq!(text(r"\\ud83d \\\ud83d"), "\\ud83d \\\u{FFFD}");
    assert_eq!(text(r"\ud83d\n\u0041"), "\u{FFFD}\nA");
    assert_eq!(text(r"end \ud83d"), "end \u{FFFD}");
    assert_eq!(bad(r#"{"subscriber_id":"1","text":"\ud8"#).code(), "INVALID_JSON");
}

/// INB-3
#[test]
fn an_empty_token_is_none_and_an_unrendered_one_is_just_wrong() {
    assert_eq!(ok(&with(r#""ai_token":"""#)).token, None);
    assert_eq!(shown(&ok(&with(r#""ai_token":"{{ai_token}}""#)).token), Some("{{ai_token}}"));
}

/// INB-4
#[test]
fn offering_wins_over_its_older_name() {
    let offering = |members: &str| ok(&with(members)).offering;
    assert_eq!(offering(r#""offering":"a","course":"b""#).as_deref(), Some("a"));
    assert_eq!(offering(r#""offering":null,"course":"b""#).as_deref(), Some("b"));
    assert_eq!(offering(r#""course":"b""#).as_deref(), Some("b"));
    assert_eq!(offering(r#""offering":"","course":"b""#), None);
    assert_eq!(offering(r#""offering":"{{offering}}""#), None);
    assert_eq!(offering(r#""offering":"  ""#), None);
}

/// INB-5
#[test]
fn names_are_joined_and_trimmed() {
    let name = |members: &str| shown(&ok(&with(members)).contact_name).map(str::to_owned);
    assert_eq!(name(r#""first_name":" Noor ","last_name":"van Dam""#).as_deref(), Some("Noor van Dam"));
    assert_eq!(name(r#""first_name":"","last_name":"Dam""#).as_deref(), Some("Dam"));
    assert_eq!(name(r#""first_name":" ","last_name":null"#), None);
}

/// GAP-CH-16
#[test]
fn nul_characters_are_dropped_everywhere() {
    let request =
        ok(r#"{"subscriber_id":"1\u0000","text":"a\u0000b","first_name":"N\u0000","ai_token":"\u0000"}"#);
    assert_eq!((request.subscriber.expose(), request.text.expose()), ("1", "ab"));
    assert_eq!(shown(&request.contact_name), Some("N"));
    assert_eq!(request.token, None);
}

/// Depth is no danger: values are never walked recursively.
#[test]
fn a_deeply_nested_body_is_refused_without_harm() {
    let deep = "[".repeat(30_000);
    assert_eq!(bad(&deep).code(), "INVALID_JSON");
    let closed = format!("{deep}{}", "]".repeat(30_000));
    assert_eq!(bad(&closed), BadBody::NotAnObject);
    assert!(matches!(
        bad(&with(&format!(r#""locale":{closed}"#))),
        BadBody::WrongType { field: "locale", .. }
    ));
    let objects = format!("{}1{}", r#"{"a":"#.repeat(9_000), "}".repeat(9_000));
    assert_eq!(bad(&objects), BadBody::UnknownKey("a".to_owned()));
}

/// INB-6, IN-1, CHM-1, CHM-5, IN-3: media is recognised and its link is not what gets recorded.
#[test]
fn the_normalised_message_carries_everything() {
    let link = "https://manybot-files.s3.eu-central-1.amazonaws.com/1/wa/2026/11/30/original_ab.ogg";
    let tenant = TenantId::new("studio").unwrap();
    let at = Timestamp::UNIX_EPOCH;
    let body =
        format!(r#"{{"subscriber_id":"1","text":" {link} ","channel":" ","ai_token":"t","offering":"o"}}"#);
    let inbound = ok(&body).into_inbound(tenant.clone(), ChannelName::Telegram, at);
    assert_eq!((inbound.tenant.as_str(), inbound.channel.as_str()), ("studio", "telegram"));
    assert_eq!((inbound.received_at, inbound.offering.as_deref()), (at, Some("o")));
    assert_eq!(inbound.recorded_text().expose(), "[voice note]");
    let media = inbound.media.as_ref().unwrap();
    assert_eq!((media.kind, media.url.expose().as_str()), (MediaKind::Audio, link));
    assert!(!format!("{inbound:?}").contains("manybot"));

    assert_eq!((shown(&inbound.token), shown(&inbound.contact_name)), (Some("t"), None));

    let typed = with(r#""channel":"instagram","first_name":"Noor","last_name":"Lind","locale":"en_GB""#);
    let typed = ok(&typed).into_inbound(tenant, ChannelName::Telegram, at);
    assert_eq!((typed.channel.as_str(), typed.media.as_ref()), ("instagram", None));
    assert_eq!((shown(&typed.contact_name), typed.locale.as_deref()), (Some("Noor Lind"), Some("en_GB")));
    assert_eq!((typed.subscriber.expose(), typed.text.expose()), ("7301144", "hello"));
    assert_eq!(typed.recorded_text().expose(), "hello");
}

fn any_value() -> impl Strategy<Value = String> {
    prop_oneof![
        "\"\\PC{0,20}\"",
        "\"(\\\\u[dD][89a-f][0-9a-f]{2}|\\\\\\\\|\\\\n|x){0,6}\"",
        "-?[0-9]{1,25}(\\.[0-9]{1,3})?(e[0-9])?",
        Just("null".to_owned()),
        Just("true".to_owned()),
        "[\\[\\]{},:\"a1]{0,8}",
    ]
}

fn any_key() -> impl Strategy<Value = String> {
    prop_oneof![
        8 => proptest::sample::select(vec![
            "subscriber_id", "text", "first_name", "last_name", "locale", "channel", "ai_token", "offering", "course",
        ]).prop_map(str::to_owned),
        1 => "[a-zA-Z +0-9]{0,12}",
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// HTTP-22: no body panics; every refusal names a place and has a code; nothing of a value is repeated.
    #[test]
    fn every_refusal_names_its_place(members in proptest::collection::vec((any_key(), any_value()), 0..8), cut in 0_usize..400) {
        let members: Vec<String> = members.iter().map(|(key, value)| format!("\"{key}\":{value}")).collect();
        let body = format!("{{{}}}", members.join(","));
        let body = body.as_bytes();
        let body = body.get(..body.len() - cut.saturating_sub(300).min(body.len())).unwrap();
        if let Err(error) = parse(body) {
            prop_assert!(error.message().starts_with("body"), "{}", error);
            prop_assert!(error.code().bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_'));
        }
    }

    /// No bytes at all panic.
    #[test]
    fn arbitrary_bytes_are_answered(body in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = parse(&body);
    }

    /// A refused value never stands in the message (HTTP-31).
    #[test]
    fn no_value_is_repeated_in_a_message(words in "[a-z]{9,20}", field in proptest::sample::select(vec!["text", "locale", "ai_token"])) {
        let long = words.repeat(500);
        for value in [format!("[\"{words}\"]"), format!("\"{long}\""), format!("{{\"{words}\":1}}")] {
            if let Err(error) = parse(with(&format!("\"{field}\":{value}")).as_bytes()) {
                prop_assert!(!error.message().contains(&words));
            }
        }
    }
}
