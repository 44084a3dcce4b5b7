//! What may be said passes as it stands, and long texts of whatever kind are done with soon.

use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::config::demo;
use crate::model::SystemPrompt;
use crate::model::test_support::rules;

/// Replies of the judge's calibration, and questions of the golden suite.
const CALIBRATION: &str =
    include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/evals/golden/calibration.jsonl"));
const GOLDEN: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/evals/golden/cases.jsonl"));

/// Characters of a text that is much longer than any reply.
const LONG: usize = 100_000;
/// Far more than a text of that length needs, and far less than it would need if the work grew with its square.
const SOON: Duration = Duration::from_secs(60);

fn demo_check() -> (crate::config::Tenant, SystemPrompt) {
    let tenant = demo::tenant().unwrap();
    let system = SystemPrompt::build(&tenant);
    (tenant, system)
}

fn strings(value: &Value) -> Vec<String> {
    match value {
        Value::String(text) => vec![text.clone()],
        Value::Array(items) => items.iter().flat_map(strings).collect(),
        Value::Object(fields) => fields.values().flat_map(strings).collect(),
        _ => Vec::new(),
    }
}

/// Every text that stands under this key, at any depth.
fn under(value: &Value, key: &str) -> Vec<String> {
    match value {
        Value::Array(items) => items.iter().flat_map(|item| under(item, key)).collect(),
        Value::Object(fields) => fields
            .iter()
            .flat_map(|(name, value)| if name == key { strings(value) } else { under(value, key) })
            .collect(),
        _ => Vec::new(),
    }
}

fn of_lines(lines: &str, key: &str) -> Vec<String> {
    lines.lines().flat_map(|line| under(&serde_json::from_str(line).unwrap(), key)).collect()
}

/// GUARD-3, GUARD-13: no reply of the suites, nothing that the demo tenant publishes and no question of its contacts is
/// changed or taken for a leak.
#[test]
fn replies_of_the_suites_and_of_the_demo_tenant_pass() {
    let (tenant, system) = demo_check();
    let replies = of_lines(CALIBRATION, "reply");
    let questions = of_lines(GOLDEN, "text");
    let is_honest = |text: &String| !text.contains("<<<");
    assert!(replies.len() > 15 && questions.len() > 20, "{} {}", replies.len(), questions.len());
    let catalog = &tenant.catalog;
    let offerings =
        catalog.offerings.iter().flat_map(|entry| [entry.name.clone(), entry.description.clone()]);
    let answers = catalog.faq.iter().flat_map(|faq| [faq.question.clone(), faq.answer.clone()]);
    let copy = tenant.rules.copy().map(str::to_owned);
    for text in replies
        .into_iter()
        .chain(questions.into_iter().filter(is_honest))
        .chain(offerings)
        .chain(answers)
        .chain(copy)
    {
        assert!(!echoes(&text, system.leaks()), "{text}");
        assert!(!system.leaks().finds([text.as_str()]), "{text}");
        assert_eq!(without_echoes(text.clone(), system.leaks()), Some(text));
    }
}

/// GUARD-2, 01 section 17: a bound on the work.
#[test]
fn long_texts_end_soon() {
    let (_, system) = demo_check();
    let words = "Wheel courses begin on Monday. ".repeat(LONG / 31);
    let twice = BASE64_STANDARD.encode(BASE64_STANDARD.encode(words));
    let twice: String = twice.chars().take(LONG).collect();
    let of = |piece: &str| piece.repeat(LONG / piece.len());
    let mut texts = vec![twice.clone(), twice.chars().rev().collect()];
    let pieces = [
        "{",
        "<",
        "(",
        "[",
        "{\"",
        "<think",
        "<think>",
        "</think>",
        "send_flow(",
        "send_flow()",
        "a.send_flow()",
        "send_flow.",
        "{\"messages\":",
        "}",
        "QWx3YXlz ",
        "4f ",
        "01",
        "ɐ",
        "é",
        "\u{fe01}",
    ];
    texts.extend(pieces.map(of));
    for text in texts {
        let begun = Instant::now();
        let kept = without_echoes(text.clone(), system.leaks());
        assert!(kept.is_none_or(|kept| kept.len() <= text.len()));
        assert!(!system.leaks().finds([text.as_str()]));
        let start: String = text.chars().take(12).collect();
        assert!(begun.elapsed() < SOON, "{start} {:?}", begun.elapsed());
    }
}

/// What people write to each other; no name of ours.
fn ordinary() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "The course is $1,180.00",
        "45.000 ARS",
        "US$ 99 (or €90)",
        "{name}",
        "{size: 3}",
        "{\"course\": \"clay\"}",
        "<ana_maria@example.org>",
        "ana@example.org",
        "https://example.org/a_b?x={y}&z=(1)",
        "i <3 clay",
        "5 > 3 < 4",
        "<b>free</b>",
        "\"quoted\"",
        "«dos» “three” 'four'",
        "- Monday: 18:00",
        "* **Clay**: red, white",
        "1) wheel",
        "Note: bring an apron",
        "Confidence grows",
        "Messages arrive",
        "we escalate nothing",
        "I think so",
        "🙂👍🏽 ❤️",
        "日曜は休みです",
        "¿Cuándo querés venir?",
        "0800-555-0100",
        "[1]",
        "f(x) = {x}",
        "```",
        "`code`",
    ]);
    let between = prop::sample::select(vec![" ", "\n", ", ", ": ", "", "\n\n", " - "]);
    proptest::collection::vec((piece, between), 1..12).prop_map(|pieces| {
        ["Hello. "].into_iter().chain(pieces.into_iter().flat_map(<[&str; 2]>::from)).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    /// GUARD-3, GUARD-13: no false alarm in anything ordinary, in whatever order.
    #[test]
    fn ordinary_replies_pass_unchanged(text in ordinary()) {
        let object = json!({
            "messages": [text], "escalate": false, "escalation_reason": null, "confidence": 0.9,
            "closing_question": null,
        });
        let result = check(&object, &rules(), &[], &LeakCheck::default());
        prop_assert_eq!(result.reply.messages, [text]);
        prop_assert!(result.interventions.is_empty() && result.cause.is_none());
    }
}
