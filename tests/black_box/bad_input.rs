//! Bodies that nobody should send: never a server error, never a panic, never a hang, and every refusal names its place.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use manychat_agent::domain::{ChannelName, TenantId};
use manychat_agent::http::request;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use serde_json::Value;

use crate::app::{SECRET, Setup};

/// Bodies as ManyChat sends them.
const VALID: [&str; 5] = [
    r#"{"subscriber_id":"7301144","text":"Do you have evening classes?"}"#,
    r#"{"subscriber_id":7301144,"text":"","first_name":"Noor","last_name":null,"locale":"en_GB"}"#,
    r#"{"subscriber_id":"1","text":"\ud83d\ude00 hi","channel":"whatsapp","ai_token":"{{ai_token}}","offering":"x"}"#,
    r#"{"subscriber_id":"1","text":"https://manybot-files.s3.eu-central-1.amazonaws.com/1/wa/2026/01/02/original_a.ogg"}"#,
    r#"{ "text" : "a\u0000b" , "subscriber_id" : "9007199254740993" , "course" : null }"#,
];

/// Pieces that break JSON, or nearly.
const PIECES: [&str; 22] = [
    "\"",
    "\\",
    "{",
    "}",
    "[",
    "]",
    ":",
    ",",
    "null",
    "\\u",
    "\\ud800",
    "\\udc00",
    "\u{0}",
    "\u{feff}",
    "1e999",
    "-",
    "0x1",
    "é",
    "👩‍👧",
    "\"text\":",
    "\"unknown\":1,",
    "\r\n",
];

#[derive(Clone, Debug)]
enum Edit {
    Insert(Index, &'static str),
    Replace(Index, u8),
    Cut(Index, Index),
    Repeat(Index, Index),
}

fn any_edit() -> impl Strategy<Value = Edit> {
    prop_oneof![
        (any::<Index>(), select(&PIECES[..])).prop_map(|(at, piece)| Edit::Insert(at, piece)),
        (any::<Index>(), any::<u8>()).prop_map(|(at, byte)| Edit::Replace(at, byte)),
        (any::<Index>(), any::<Index>()).prop_map(|(from, to)| Edit::Cut(from, to)),
        (any::<Index>(), any::<Index>()).prop_map(|(from, to)| Edit::Repeat(from, to)),
    ]
}

fn edited(mut body: Vec<u8>, edits: &[Edit]) -> Vec<u8> {
    for edit in edits {
        let place = |index: &Index, body: &[u8]| index.index(body.len() + 1);
        match edit {
            Edit::Insert(at, piece) => {
                let at = place(at, &body);
                body.splice(at..at, piece.bytes());
            }
            Edit::Replace(at, byte) if !body.is_empty() => {
                let at = at.index(body.len());
                body[at] = *byte;
            }
            Edit::Replace(..) => {}
            Edit::Cut(from, to) | Edit::Repeat(from, to) => {
                let (one, other) = (place(from, &body), place(to, &body));
                let range = one.min(other)..one.max(other);
                if matches!(edit, Edit::Cut(..)) {
                    // A short cut breaks a value, a long one leaves nothing to look at.
                    body.drain(range.start..range.end.min(range.start + 12));
                } else {
                    let copy = body[range.clone()].to_vec();
                    body.splice(range.end..range.end, copy);
                }
            }
        }
    }
    body
}

const KEYS: [&str; 9] = [
    "subscriber_id",
    "text",
    "first_name",
    "last_name",
    "locale",
    "channel",
    "ai_token",
    "offering",
    "course",
];

/// Numbers that a JSON parser can stumble over, and texts with escapes that no text should have.
const ODD_VALUES: [&str; 16] = [
    "1e400",
    "-1e-400",
    "-0",
    "1E+2",
    "9007199254740993",
    "00",
    "1.",
    "123456789012345678901234567890123456789012345678901234567890",
    r#""\ud800""#,
    r#""a\udfff\ud83dz""#,
    r#""\u0000\u0000""#,
    r#""\ud83d\ude00""#,
    r#""\x41""#,
    "\"\u{0}\"",
    "\"\u{feff}\u{2028}\"",
    "tru",
];

const fn closing(open: char) -> Option<char> {
    match open {
        '[' => Some(']'),
        '{' => Some('}'),
        _ => None,
    }
}

/// The text of a value of any kind, most of them JSON.
fn any_value() -> impl Strategy<Value = String> {
    let plain = prop_oneof![
        "\\PC{0,30}".prop_map(Value::from),
        "[a-z]{250,260}".prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any::<bool>().prop_map(Value::from),
        Just(Value::Null),
    ];
    let plain = plain.prop_map(|value| value.to_string());
    let nested = plain.clone().prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(|items| format!("[{}]", items.join(","))),
            vec((select(&KEYS[..]), inner), 0..4).prop_map(|members| {
                let members: Vec<String> =
                    members.into_iter().map(|(key, value)| format!("\"{key}\":{value}")).collect();
                format!("{{{}}}", members.join(","))
            }),
        ]
    });
    let deep = (
        select(&["[", "{\"a\":", "[{\"b\":["][..]),
        select(&[3_usize, 127, 128, 2_000, 15_000][..]),
        any::<bool>(),
    )
        .prop_map(|(open, depth, closed)| {
            let close: String = open.chars().rev().filter_map(closing).collect();
            format!("{}1{}", open.repeat(depth), if closed { close.repeat(depth) } else { String::new() })
        });
    prop_oneof![6 => plain, 4 => nested, 2 => select(&ODD_VALUES[..]).prop_map(str::to_owned), 1 => deep]
}

/// A member with a value of any kind, known keys and unknown ones.
fn any_member() -> impl Strategy<Value = String> {
    let key = prop_oneof![
        12 => select(&KEYS[..]).prop_map(|key| format!("\"{key}\"")),
        1 => "\\PC{0,50}".prop_map(|key| Value::from(key).to_string()),
        1 => Just(r#""te\u0078t""#.to_owned()),
        1 => Just(r#""\ud800""#.to_owned()),
    ];
    (key, any_value()).prop_map(|(key, value)| format!("{key}:{value}"))
}

/// Members before and behind the two that must be there, so that keys repeat in both orders.
fn any_object() -> impl Strategy<Value = Vec<u8>> {
    (vec(any_member(), 0..3), vec(any_member(), 0..6), select(&["", "\u{feff}", "\r\n\t ", "\u{0}"][..]))
        .prop_map(|(before, behind, start)| {
            let required = [r#""subscriber_id":"1""#, r#""text":"a""#].map(str::to_owned);
            let members: Vec<String> = before.into_iter().chain(required).chain(behind).collect();
            format!("{start}{{{}}}", members.join(",")).into_bytes()
        })
}

fn any_body() -> impl Strategy<Value = Vec<u8>> {
    let mutated = (select(&VALID[..]), vec(any_edit(), 0..5))
        .prop_map(|(body, edits)| edited(body.as_bytes().to_vec(), &edits));
    let broken = (any_object(), vec(any_edit(), 1..3)).prop_map(|(body, edits)| edited(body, &edits));
    let value = any_value().prop_map(String::into_bytes);
    let noise = vec(any::<u8>(), 0..120);
    prop_oneof![5 => mutated, 5 => any_object(), 1 => broken, 1 => value, 1 => noise]
}

/// What became of a body; a refusal names its place: the line of broken JSON, or the member that is wrong.
fn judged(body: &[u8]) -> &'static str {
    match request::parse(body) {
        Ok(parsed) => {
            let inbound = parsed.into_inbound(
                TenantId::new("t").unwrap(),
                ChannelName::Whatsapp,
                Timestamp::UNIX_EPOCH,
            );
            assert!(inbound.text.expose().encode_utf16().count() <= 4096);
            assert!(!inbound.text.expose().contains('\0'));
            assert!(!inbound.subscriber.expose().trim().is_empty());
            "accepted"
        }
        Err(refused) => {
            let message = refused.message();
            let placed = message.starts_with("body/") && KEYS.iter().any(|key| message.contains(key))
                || message.starts_with("body has ") && message.contains("unknown key")
                || message.starts_with("body must be a JSON object")
                || message.starts_with("body is not valid JSON (line ")
                || message.starts_with("body is empty");
            assert!(placed && message.len() < 200, "{message}");
            refused.code()
        }
    }
}

/// What this thread has computed so far: a busy machine does not count.
fn own_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a value of ours that lives through the call.
    assert_eq!(unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) }, 0);
    Duration::new(u64::try_from(time.tv_sec).unwrap(), u32::try_from(time.tv_nsec).unwrap())
}

/// HTTP-22, HTTP-31, INB-1, INB-2, INB-8: ten thousand bodies are read or refused, at once and with their place, and
/// none of the ways a body can end is left out.
#[test]
fn every_body_is_read_or_refused_with_its_place() {
    let tried = RefCell::new(BTreeMap::<&str, usize>::new());
    let config = ProptestConfig { cases: 10_000, max_shrink_iters: 200, ..ProptestConfig::default() };
    let mut runner = TestRunner::new(config);
    let outcome = runner.run(&any_body(), |body| {
        let started = own_time();
        *tried.borrow_mut().entry(judged(&body)).or_default() += 1;
        let taken = own_time() - started;
        prop_assert!(taken < Duration::from_secs(1), "{:?}", taken);
        Ok(())
    });
    outcome.unwrap();
    let tried = tried.into_inner();
    assert!(tried.values().sum::<usize>() >= 10_000, "{tried:?}");
    for (way, least) in
        [("accepted", 1000), ("INVALID_BODY", 2000), ("INVALID_JSON", 1000), ("EMPTY_BODY", 1)]
    {
        assert!(tried.get(way).copied().unwrap_or_default() >= least, "{way}: {tried:?}");
    }
}

/// HTTP-20, HTTP-22, HTTP-29: the same kind of bodies over HTTP.
#[tokio::test]
async fn hundreds_of_bodies_over_http_end_in_200_or_400() {
    let app = Setup::default().env("RATE_LIMIT_PER_MINUTE", "1000000").start().await;
    let mut runner = TestRunner::deterministic();
    let bodies = any_body();
    let mut seen = [0, 0];
    for _ in 0..400 {
        let body = bodies.new_tree(&mut runner).unwrap().current();
        let answer = app
            .ask(reqwest::Method::POST, manychat_agent::http::MESSAGE_PATH, |request| {
                request.header("Content-Type", "application/json").bearer_auth(SECRET).body(body.clone())
            })
            .await;
        let shown = String::from_utf8_lossy(&body);
        assert!(answer.elapsed < Duration::from_secs(60), "{:?} for {shown}", answer.elapsed);
        match answer.status {
            200 => {
                assert!(answer.json()["content"]["external_message_callback"].is_object(), "{shown}");
                seen[0] += 1;
            }
            400 => {
                let refusal = answer.json();
                assert!(refusal["message"].as_str().unwrap().starts_with("body"), "{refusal} for {shown}");
                assert!(refusal["code"].is_string() && refusal["statusCode"] == 400, "{refusal}");
                seen[1] += 1;
            }
            413 => assert!(body.len() > 65_536, "{shown}"),
            other => panic!("{other} for {shown}: {}", answer.body),
        }
    }
    assert!(seen[0] > 30 && seen[1] > 100, "answered and refused: {seen:?}");
    assert_eq!(app.get("/ready").await.unwrap().status, 200);
    assert!(app.logs("panic").is_empty() && app.logs("unhandled error").is_empty(), "{}", app.output());
}
