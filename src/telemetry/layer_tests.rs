use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use proptest::prelude::*;
use serde_json::{Value, json};
use tracing::subscriber::with_default;

use super::super::{Json, subscriber};
use super::*;

/// A writer that keeps what was written, one entry a call.
#[derive(Clone, Default)]
struct Captured(Arc<Mutex<Vec<Vec<u8>>>>);

impl Write for Captured {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().push(bytes.to_vec());
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// What a piece of code logs, line by line, each checked to be one write and one JSON object.
fn logged(level: LogLevel, secrets: &[&str], code: impl FnOnce()) -> Vec<Value> {
    let captured = Captured::default();
    let secrets: Vec<String> = secrets.iter().map(|secret| (*secret).to_owned()).collect();
    with_default(subscriber(level, &secrets, captured.clone()).unwrap(), code);
    let writes = captured.0.lock().unwrap().clone();
    writes
        .iter()
        .map(|line| {
            let text = std::str::from_utf8(line).unwrap();
            assert!(text.ends_with("}\n") && text.matches('\n').count() == 1, "one line a write: {text}");
            serde_json::from_str(text).unwrap_or_else(|error| panic!("{error} in {text}"))
        })
        .collect()
}

fn line(code: impl FnOnce()) -> Value {
    let mut lines = logged(LogLevel::Trace, &[], code);
    assert_eq!(lines.len(), 1);
    lines.remove(0)
}

/// The line without the members that differ from run to run.
fn fields(code: impl FnOnce()) -> Value {
    let mut line = line(code);
    let map = line.as_object_mut().unwrap();
    for name in ["time", "pid", "level", "msg"] {
        assert!(map.remove(name).is_some(), "{name} is missing");
    }
    line
}

/// LOG-1
#[test]
fn a_line_has_a_numeric_level_a_time_and_a_message() {
    let before = jiff::Timestamp::now().as_millisecond();
    let line = line(|| tracing::info!("turn complete"));
    assert_eq!((&line["level"], &line["msg"]), (&json!(30), &json!("turn complete")));
    assert_eq!(line["pid"], json!(std::process::id()));
    let time = line["time"].as_i64().unwrap();
    assert!((before..=jiff::Timestamp::now().as_millisecond()).contains(&time));
}

/// LOG-1: all six numbers, and the threshold.
#[test]
fn levels_are_numbers_and_the_threshold_holds() {
    let all = || {
        tracing::trace!("t");
        tracing::debug!("d");
        tracing::info!("i");
        tracing::warn!("w");
        tracing::error!("e");
        tracing::error!(fatal = true, "f");
        tracing::error!(fatal = false, "not fatal");
    };
    let expected = [10, 20, 30, 40, 50, 60, 50];
    for threshold in [10, 20, 30, 40, 50, 60] {
        let lines = logged(LogLevel::from_number(threshold), &[], all);
        let levels: Vec<u64> = lines.iter().map(|line| line["level"].as_u64().unwrap()).collect();
        let shown: Vec<u64> = expected.into_iter().filter(|level| *level >= u64::from(threshold)).collect();
        assert_eq!(levels, shown, "threshold {threshold}");
        assert!(lines.iter().all(|line| line.get("fatal").is_none()));
    }
}

/// LOG-5: values keep their JSON type.
#[test]
fn numbers_and_booleans_keep_their_type() {
    let id = crate::domain::ConversationId::fresh();
    let got = fields(|| {
        tracing::info!(
            conversation = %id, outcome = %crate::domain::Outcome::Deferred, escalated = false, heldMs = 1200_u64,
            delta = -3_i64, ratio = 0.5_f64, nan = f64::NAN, wide = 5_u128, word = "x", shown = ?Some("q"), "m"
        );
    });
    let expected = json!({
        "conversation": id.to_string(), "outcome": "deferred", "escalated": false, "heldMs": 1200, "delta": -3,
        "ratio": 0.5, "nan": null, "wide": 5, "word": "x", "shown": "Some(\"q\")"
    });
    assert_eq!(got, expected);
}

/// The `json.` convention: lists and objects, cleaned inside, with their own keys removed.
#[test]
fn json_fields_become_json() {
    let got = fields(|| {
        tracing::info!(
            json.interventions = %Json(["duplicate_replaced", "call +1 555 010 3388"]),
            json.transcription = %Json(None::<String>),
            json.request = r#"{"text":"secret words","ok":[1,true]}"#,
            json.broken = "not json 40223344",
            json.password = "[1]",
            "m"
        );
    });
    let expected = json!({
        "interventions": ["duplicate_replaced", "call [phone]"], "transcription": null,
        "request": {"ok": [1, true]}, "broken": "not json [number]"
    });
    assert_eq!(got, expected);
}

/// PII-1: removed keys disappear; keys of the layer cannot be forged.
#[test]
fn removed_and_reserved_keys_do_not_appear() {
    let got = line(|| {
        tracing::info!(
            text = "words",
            first_name = "Noor",
            ai_token = "t",
            apiKey = "k",
            password = 5,
            secret = true,
            level = 99,
            time = "never",
            pid = 0,
            kept = 1,
            "m"
        );
    });
    let mut names: Vec<&String> = got.as_object().unwrap().keys().collect();
    names.sort_unstable();
    assert_eq!(names, ["kept", "level", "msg", "pid", "time"]);
    assert_eq!((&got["level"], &got["pid"]), (&json!(30), &json!(std::process::id())));
}

/// LOG-2: the conversation of a span stands in every line of the turn, the event's own fields winning.
#[test]
fn fields_of_spans_are_merged() {
    let lines = logged(LogLevel::Warn, &[], || {
        let turn = tracing::info_span!(
            "turn",
            conversation = "outer",
            channel = "whatsapp",
            late = tracing::field::Empty
        );
        let _turn = turn.enter();
        tracing::warn!("first");
        turn.record("late", true);
        let _step = tracing::info_span!("step", channel = "telegram", phone = "+15550103388").entered();
        tracing::error!(conversation = "own", "second");
    });
    let picked: Vec<_> = lines
        .iter()
        .map(|line| (&line["conversation"], &line["channel"], &line["late"], line.get("phone")))
        .collect();
    assert_eq!(
        picked,
        [
            (&json!("outer"), &json!("whatsapp"), &Value::Null, None),
            (&json!("own"), &json!("telegram"), &json!(true), None)
        ]
    );
}

/// LOG-5, PII-8, PII-9: an error is its text and that of its causes, cleaned.
#[test]
fn errors_tell_their_causes_without_personal_data() {
    #[derive(Debug, thiserror::Error)]
    #[error("ManyChat refused li@a.example")]
    struct Refused(#[source] io::Error);

    let error = Refused(io::Error::other("no route to +54 9 11 5555 0188 for 70010001"));
    let got = fields(|| tracing::error!(err = &error as &dyn std::error::Error, "model call failed"));
    assert_eq!(got, json!({"err": "ManyChat refused [email]: no route to [phone] for [number]"}));
}

/// PRIN-C5: other crates are held at `warn` and cleaned, message included.
#[test]
fn other_crates_are_held_back_and_cleaned() {
    let lines = logged(LogLevel::Trace, &[], || {
        tracing::info!(target: "hyper::client", "GET https://a.example");
        tracing::debug!(target: "tokio_postgres::query", "executing with parameters");
        tracing::info!(target: "manychat_agent_lookalike", "x");
        let _span = tracing::error_span!(target: "genai", "call", body = "words").entered();
        tracing::warn!(target: "reqwest::connect", "cannot reach https://a.example/?t=1");
        tracing::debug!(target: "agent::boot", "ours");
    });
    let messages: Vec<&str> = lines.iter().map(|line| line["msg"].as_str().unwrap()).collect();
    assert_eq!(messages, ["cannot reach [url]", "ours"]);
    assert!(lines[0].get("body").is_none());
}

/// LOG-9: a crate that handles a contact's words, or that nobody judged, is named with its place and not quoted.
#[test]
fn crates_that_may_quote_a_contact_are_not_quoted() {
    let got =
        fields(|| tracing::warn!(target: "model_library::adapter", "unknown block: zanzibar marmalade"));
    let place = got["library"].as_str().unwrap();
    assert!(place.starts_with("model_library::adapter:") && !got.to_string().contains("zanzibar"), "{got}");
    let line = line(|| tracing::error!(target: "some_new_crate", "zanzibar"));
    assert_eq!(line["msg"], "a library reported a problem");
}

/// SHED-4, LOG-1: a stranger's malformed request is no error of ours: the HTTP library's complaints are at `debug`.
#[test]
fn malformed_requests_of_strangers_are_not_errors() {
    let code = || {
        tracing::error!(target: "actix_http::h1::dispatcher", "stream error: request parse error");
        tracing::info!(target: "actix_http::h1::dispatcher", "GET /?phone=1");
        tracing::warn!(target: "actix_server::accept", "no more sockets");
    };
    let levels = |threshold| -> Vec<u64> {
        logged(threshold, &[], code).iter().map(|line| line["level"].as_u64().unwrap()).collect()
    };
    assert_eq!(levels(LogLevel::Info), [40]);
    assert_eq!(levels(LogLevel::Debug), [20, 40]);
}

/// CLI-22: our own address stays readable, nothing else in its place does.
#[test]
fn the_address_we_listen_at_stays_readable() {
    let message = |text: &str| line(|| tracing::info!("{text}"))["msg"].clone();
    assert_eq!(message("Server listening at http://0.0.0.0:3000"), "Server listening at http://0.0.0.0:3000");
    assert_eq!(message("Server listening at http://[::1]:3000"), "Server listening at http://[::1]:3000");
    assert_eq!(message("Server listening at http://a.example"), "Server listening at [url]");
    assert_eq!(
        message("Server listening at http://1.2.3.4 +15550103388"),
        "Server listening at [url] [phone]"
    );
}

/// Hostile texts neither break the line nor grow it without bound.
#[test]
fn a_line_stays_one_line_of_bounded_length() {
    let long = "x ".repeat(50_000);
    let got = line(|| tracing::info!(err = long, quoted = "a\"b\nc\\d\u{7}\u{2028}", "two\nlines"));
    assert_eq!(got["msg"], "two\nlines");
    assert_eq!(got["quoted"], "a\"b\nc\\d\u{7}\u{2028}");
    assert!(got["err"].as_str().unwrap().len() <= 8192);
}

/// A closed standard output loses lines and nothing else.
#[test]
fn a_failing_writer_does_no_harm() {
    struct Closed;
    impl Write for Closed {
        fn write(&mut self, _bytes: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::BrokenPipe.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Err(io::ErrorKind::BrokenPipe.into())
        }
    }
    with_default(subscriber(LogLevel::Info, &[], Closed).unwrap(), || {
        tracing::info!("lost");
        tracing::info!("lost too");
    });
}

/// A `Debug` that fails must not take the turn with it.
#[test]
fn a_failing_debug_does_no_harm() {
    struct Broken;
    impl std::fmt::Debug for Broken {
        fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            out.write_str("start")?;
            Err(std::fmt::Error)
        }
    }
    assert_eq!(fields(|| tracing::info!(value = ?Broken, "m")), json!({"value": "start"}));
}

/// The lines about a panic of ours. Another test's panic can meet their place in the code first, on a thread without a
/// subscriber: then it is left out once, and not when the next subscriber asks.
fn played_panic() -> Vec<Value> {
    let _held = crate::telemetry::panic_hook::hold();
    let captured = Captured::default();
    let guard = tracing::subscriber::set_default(subscriber(LogLevel::Info, &[], captured.clone()).unwrap());
    let previous = std::panic::take_hook();
    super::super::panics::install_hook();
    let caught = std::panic::catch_unwind(|| panic!("call Noor at +1 555 010 3388"));
    std::panic::set_hook(previous);
    drop(guard);
    assert!(caught.is_err());
    captured
        .0
        .lock()
        .unwrap()
        .iter()
        .map(|line| serde_json::from_slice(line).unwrap())
        .filter(|line: &Value| {
            line["location"].as_str().is_some_and(|place| place.contains("layer_tests.rs"))
        })
        .collect()
}

/// A panic is logged with its place, and its payload is not.
#[test]
fn a_panic_tells_only_its_place() {
    let own = (0..3).map(|_| played_panic()).find(|own| !own.is_empty()).unwrap_or_default();
    assert_eq!(own.len(), 1);
    assert_eq!((&own[0]["level"], &own[0]["msg"]), (&json!(50), &json!("panic")));
    assert!(!own[0].to_string().contains("Noor") && !own[0].to_string().contains("555"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// ARC-62, PII-9: nothing planted survives in a line, in any place of it.
    #[test]
    fn nothing_planted_survives(
        noise in "[a-zA-Z \"\\\\\n{}:,é日]{0,30}",
        phone in "\\+[1-9]{1,2} [0-9]{3} [0-9]{3} [0-9]{4}",
        user in "[a-z]{4,9}",
        secret in "[A-Za-z0-9_-]{16,24}",
        words in "[a-z]{9}[A-Z][a-z]{9}",
    ) {
        let email = format!("{user}@{user}.example");
        let media = format!("https://manybot-files.s3.eu-central-1.amazonaws.com/9/wa/{user}.ogg");
        let planted = format!("{noise} {phone} {noise} {email} {secret} {media} {noise}");
        let lines = logged(LogLevel::Trace, &[&secret], || {
            let span = tracing::info_span!("turn", detail = planted.as_str(), text = words.as_str());
            let _entered = span.enter();
            tracing::info!(err = %planted, text = %words, conversation = %planted, model = %planted, "{planted}");
            tracing::warn!(target: "reqwest", { json.nested = %Json(json!({"first_name": words, "deep": [planted], planted.clone(): 1})) }, "m");
        });
        prop_assert_eq!(lines.len(), 2);
        for line in lines {
            let shown = line.to_string();
            for value in [&phone, &email, &secret, &words, &user] {
                prop_assert!(!shown.contains(value.as_str()), "{} in {}", value, shown);
            }
        }
    }
}
