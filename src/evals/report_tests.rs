use std::num::NonZeroU32;

use super::*;
use crate::evals::json::{GroupReport, LostSamples, Report};
use crate::evals::outcome::run_case;
use crate::evals::test_support::{Scripted, answer, bench_of, reply, tenant};

async fn outcome(rest: &str, messages: &'static [&'static str], times: u32) -> CaseOutcome {
    let bench = bench_of(Scripted::new(move |_| Ok(reply(messages))), tenant());
    run_case(&bench, None, &answer(rest), NonZeroU32::new(times).unwrap()).await
}

/// 07/REP-2: the mark, the id padded to 28, the time; below it everything, and always the whole reply.
#[tokio::test(start_paused = true)]
async fn a_case_is_one_line_with_everything_below_it() {
    let rest = r#", "must_contain": ["615"], "review": "Friendly.""#;
    let lines =
        case_lines(&outcome(rest, &["One\ntwo.", "confidence: 0.9", "Three."], 1).await, Style::Plain);
    let expected = "FAIL case                         0ms\n     failed: must contain `615`\n     guardrails: \
                    field_echo_stripped\n     review: Friendly.\n     > One\n       two.\n     > Three.\n";
    assert_eq!(lines, expected);
    let read = case_lines(&outcome(r#", "review": "Friendly.""#, &["Hi."], 1).await, Style::Plain);
    assert!(read.starts_with("read case "), "{read}");
    let passed = case_lines(&outcome("", &["Hi."], 3).await, Style::Plain);
    assert_eq!(passed.lines().next(), Some("pass case                         0ms  3 of 3 runs passed"));
}

/// 07/REP-3: colours only where they are wanted, and never by the words of a reply.
#[tokio::test]
async fn colours_mark_the_status_alone() {
    let hostile = outcome("", &["\u{1b}[31mred\u{1b}[0m"], 1).await;
    let coloured = case_lines(&hostile, Style::Coloured);
    assert!(coloured.starts_with("\u{1b}[32mpass\u{1b}[0m "), "{coloured:?}");
    assert_eq!(coloured.matches('\u{1b}').count(), 2, "{coloured:?}");
    assert!(!case_lines(&hostile, Style::Plain).contains('\u{1b}'));
}

/// 07/REP-4: three separate numbers, the percentile, the cost with four decimals.
#[tokio::test]
async fn the_last_line_counts() {
    let outcomes = [
        outcome("", &["Hi."], 1).await,
        outcome(r#", "review": "x""#, &["Hi."], 1).await,
        outcome(r#", "must_contain": ["x"]"#, &["Hi."], 1).await,
    ];
    let totals = Totals { p95_ms: 7, ..Totals::of(&outcomes) };
    assert_eq!(summary(&totals, None), "\n1 passed, 1 failed, 1 to review  p95 7ms  cost $0.0225\n");
    assert_eq!(
        summary(&Totals::default(), None),
        "\n0 passed, 0 failed, 0 to review  p95 0ms  cost $0.0000\n"
    );
}

/// 07/RUN-8: turns whose model failed stand in the totals and in the last lines; their cases are judged all the same.
#[tokio::test]
async fn turns_without_a_model_are_counted() {
    let calls = std::sync::atomic::AtomicUsize::new(0);
    let failing_once =
        Scripted::new(move |_| match calls.fetch_add(1, std::sync::atomic::Ordering::Relaxed) {
            0 => Err(crate::model::ModelError::Status(401)),
            _ => Ok(reply(&["Hi."])),
        });
    let bench = bench_of(failing_once, tenant());
    let totals = Totals::of(&[run_case(&bench, None, &answer(""), NonZeroU32::new(3).unwrap()).await]);
    assert_eq!((totals.turns, totals.turns_without_model, totals.had_no_model()), (3, 1, false));
    let last = summary(&totals, None);
    assert!(last.contains("\n1 of 3 turns had no model: agent model check\n0 passed, 1 failed"), "{last}");
    let dead = Totals { turns: 2, turns_without_model: 2, ..Totals::default() };
    assert!(dead.had_no_model() && !Totals::default().had_no_model());
    let whole = Totals { turns: 2, ..Totals::default() };
    assert!(!summary(&whole, None).contains("no model"));
}

/// JUDGE-31, JUDGE-22: five counts, the agreement of each group, the judge's own cost.
#[test]
fn the_judge_is_summed_up_apart() {
    let group = |calibrated: bool| GroupReport {
        group: "implicit_concession".to_owned(),
        items: 4,
        agreed: if calibrated { 4 } else { 2 },
        calibrated,
        missing_label: (!calibrated).then(|| "fail".to_owned()),
    };
    let judge = JudgeReport {
        model: "mock:judge".to_owned(),
        groups: vec![group(true), group(false)],
        ungraded: 7,
        failed_samples: 12,
        failures: lost(&[("provider_status_429", 11), (NO_VERDICT, 1)]),
        cost_usd: 0.5,
    };
    let totals = Totals { passed: 1, judged_fail: 2, judged_pass: 3, reviewed: 4, ..Totals::default() };
    let lines = summary(&totals, Some(&judge));
    for part in [
        "agreed on 4 of 4\n",
        "agreed on 2 of 4, not calibrated: it graded nothing (no item is labelled fail)\n",
        "7 criteria ungraded  judge cost $0.5000",
        "1 passed, 0 failed, 2 judged-fail, 3 judged-pass, 4 to review",
    ] {
        assert!(lines.contains(part), "{part} in {lines}");
    }
}

fn lost(reasons: &[(&str, usize)]) -> Vec<LostSamples> {
    let of =
        |(reason, samples): &(&str, usize)| LostSamples { reason: (*reason).to_owned(), samples: *samples };
    reasons.iter().map(of).collect()
}

/// JUDGE-10, JUDGE-32: every reason with its count; `model check` is the advice for calls that failed, another judge for
/// answers that do not count, and the commoner of the two stands first.
#[test]
fn the_advice_for_lost_samples_follows_their_counts() {
    let said = |reasons: &[(&str, usize)]| {
        let judge = JudgeReport {
            model: "mock:judge".to_owned(),
            groups: Vec::new(),
            ungraded: 0,
            failed_samples: reasons.iter().map(|(_, samples)| samples).sum(),
            failures: lost(reasons),
            cost_usd: 0.0,
        };
        summary(&Totals::default(), Some(&judge))
    };
    let mixed = said(&[("provider_status_429", 6), (NO_VERDICT, 4), ("aborted", 2)]);
    let expected = "  12 samples failed: 6 with provider_status_429, 4 with no verdict that counts, 2 with aborted\n    \
                    8 times no answer came: agent model check\n    \
                    4 times the judge answers, but not as asked";
    assert!(mixed.contains(expected), "{mixed}");
    let answers = said(&[(NO_VERDICT, 12)]);
    assert!(answers.contains("the judge answers, but") && !answers.contains("model check"), "{answers}");
    let dead = said(&[("provider_status_401", 12)]);
    assert!(dead.contains("12 times no answer came: agent model check\n"), "{dead}");
    assert!(!dead.contains("the judge answers"), "{dead}");
    assert!(!said(&[]).contains("failed:"));
}

/// 07/REP-8, DEC-35: the keys of the object; it reads back as it was written.
#[tokio::test]
async fn the_json_report_has_the_agreed_keys() {
    let suite = Suite::golden().unwrap();
    let outcomes = [outcome(r#", "must_contain": ["x"]"#, &["Hi."], 2).await];
    let report = Report::of(&suite, "mock:test", &outcomes, None);
    let json = serde_json::to_value(&report).unwrap();
    let keys = |value: &serde_json::Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    assert_eq!(keys(&json), ["model", "suite", "suite_hash", "cases", "totals"]);
    for key in ["id", "status", "failures", "actions", "interventions", "messages", "latency_ms", "cost_usd"]
    {
        assert!(json["cases"][0].get(key).is_some(), "{key}");
    }
    for key in ["passed", "failed", "reviewed", "p95_ms", "cost_usd"] {
        assert!(json["totals"].get(key).is_some(), "{key}");
    }
    assert_eq!(json["cases"][0]["status"], "failed");
    assert_eq!(json["cases"][0]["failures"][0]["code"], "missing_text");
    assert_eq!((&json["cases"][0]["runs"], &json["cases"][0]["runs_passed"]), (&2.into(), &0.into()));
    assert_eq!(json["cases"][0]["cost_usd"], 0.015);
    let back = crate::evals::parse_report(std::path::Path::new("a.json"), &json.to_string()).unwrap();
    assert_eq!(back, report);
    let error = crate::evals::parse_report(std::path::Path::new("a.json"), "{}").unwrap_err().to_string();
    assert!(error.starts_with("a.json is no report"), "{error}");
}
