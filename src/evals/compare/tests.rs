use super::*;
use crate::evals::json::Totals;
use crate::evals::outcome::Status;

const MARKUP: &str =
    "<img src=x onerror=\"window.broken=1\"></p></article><script>window.broken=1</script>&amp;'";

fn case(id: &str, status: Status, message: &str) -> CaseReport {
    CaseReport {
        id: id.to_owned(),
        status,
        failures: Vec::new(),
        actions: Vec::new(),
        interventions: Vec::new(),
        messages: vec![message.to_owned()],
        latency_ms: 1000,
        cost_usd: 0.01,
        escalate: false,
        reason: None,
        text: "how much?".to_owned(),
        history: Vec::new(),
        review: None,
        runs: None,
        runs_passed: None,
        judged: Vec::new(),
    }
}

fn report(model: &str, cases: Vec<CaseReport>) -> Report {
    Report {
        model: model.to_owned(),
        suite: "evals/shop".to_owned(),
        suite_hash: "ab".repeat(32),
        cases,
        totals: Totals::default(),
        judge: None,
    }
}

/// A report is a file, which anybody may have written: no number in it ends the command, no name drives the terminal.
#[test]
fn absurd_numbers_and_names_are_only_shown() {
    let mut absurd = report("a\nb", vec![case("x\ny", Status::Failed, "hi")]);
    absurd.totals.passed = usize::MAX;
    absurd.totals.judged_pass = usize::MAX;
    absurd.totals.failed = usize::MAX;
    absurd.totals.judged_fail = usize::MAX;
    let text = compare(&report("m", Vec::new()), &absurd).text();
    assert!(text.contains(&format!("{0} passed, {0} failed", usize::MAX)), "{text}");
    assert!(text.contains("a\\u000ab") && text.contains("x\\u000ay"), "{text}");
}

fn lines(before: &Report, after: &Report) -> Vec<String> {
    compare(before, after).text().lines().map(str::to_owned).collect()
}

/// Which cases changed and how; those that did not are not named.
#[test]
fn changes_are_named_case_by_case() {
    let passed = |id: &str, message: &str| case(id, Status::Passed, message);
    let before = report(
        "a:1",
        vec![
            passed("same", "x"),
            passed("worse", "x"),
            case("better", Status::Failed, "x"),
            passed("gone", "x"),
        ],
    );
    let slow = CaseReport { latency_ms: 2500, cost_usd: 0.02, ..case("worse", Status::Failed, "y") };
    let staged = CaseReport { actions: vec!["add_tag a".to_owned()], ..passed("better", "x") };
    let after = report("b:2", vec![passed("same", "x"), slow, staged, passed("new", "x")]);
    let lines = lines(&before, &after);
    assert!(lines[0].starts_with("before  a:1, evals/shop: ") && lines[1].starts_with("after   b:2"));
    assert!(lines[3].starts_with("worse  worse "), "{lines:#?}");
    assert!(lines[3].ends_with("passed -> failed, text, 1000ms -> 2500ms, $0.0100 -> $0.0200"), "{lines:#?}");
    assert!(lines[4].starts_with("better better ") && lines[4].ends_with("failed -> passed, actions"));
    assert!(lines[5].starts_with("other  new ") && lines[5].ends_with(" new"));
    assert!(lines[6].starts_with("other  gone ") && lines[6].ends_with(" gone"));
    assert_eq!(lines.last().unwrap(), "4 of 5 cases changed: 1 newly failing, 1 mended");
}

/// Noise of a clock or of a token count is no change; another order of actions is none either.
#[test]
fn noise_is_no_change() {
    let one = CaseReport { actions: vec!["a".to_owned(), "b".to_owned()], ..case("x", Status::Passed, "m") };
    let two = CaseReport {
        actions: vec!["b".to_owned(), "a".to_owned()],
        latency_ms: 1240,
        cost_usd: 0.0105,
        ..one.clone()
    };
    let long = |latency_ms: u64| CaseReport { latency_ms, ..one.clone() };
    let changes = |before: &CaseReport, after: &CaseReport| {
        CasePair { id: "x", before: Some(before), after: Some(after) }.changes()
    };
    assert_eq!(changes(&one, &two), []);
    assert_eq!(changes(&long(10_000), &long(10_300)), []);
    assert_eq!(changes(&long(1000), &long(1400)), [Change::Latency]);
    let free = CaseReport { cost_usd: 0.0, ..one.clone() };
    assert_eq!(changes(&free, &free), []);
}

/// Another suite is said, and words of a report do not drive the terminal.
#[test]
fn another_suite_is_said() {
    let before = report("a:1", vec![case("x\u{1b}[2J", Status::Passed, "m")]);
    let after = Report { suite_hash: "cd".repeat(32), ..report("a:1", vec![]) };
    let text = compare(&before, &after).text();
    assert!(text.contains("note    the cases are not the same"), "{text}");
    assert!(!text.contains('\u{1b}'));
}

/// Whatever a report holds is text in the page: ids, messages, replies, failures, criteria, model names.
#[test]
fn markup_in_reports_is_escaped() {
    let mut hostile = case(MARKUP, Status::Failed, MARKUP);
    hostile.text = MARKUP.to_owned();
    hostile.review = Some(MARKUP.to_owned());
    hostile.history =
        vec![crate::evals::PastTurn { role: crate::domain::Role::User, text: MARKUP.to_owned() }];
    hostile.actions = vec![MARKUP.to_owned()];
    hostile.interventions = vec![MARKUP.to_owned()];
    hostile.failures =
        vec![crate::evals::Failure { code: crate::evals::FailureCode::Price, message: MARKUP.to_owned() }];
    hostile.judged = vec![crate::evals::json::VerdictReport {
        criterion: MARKUP.to_owned(),
        verdict: crate::evals::Verdict::Fail {
            split: true,
            reason: MARKUP.to_owned(),
            evidence: MARKUP.to_owned(),
        },
    }];
    let both =
        Report { suite: MARKUP.to_owned(), suite_hash: MARKUP.to_owned(), ..report(MARKUP, vec![hostile]) };
    let html = page(&compare(&both, &both));
    assert!(html.matches("&lt;img src=x").count() > 10, "the texts are there");
    assert!(!html.contains("<img"), "no element of a report");
    assert_eq!(html.matches("<script>").count(), 1, "the page's own");
    assert_eq!(html.matches("</article>").count(), 1);
}

/// The words that changed are marked on the side that has them.
#[test]
fn changed_words_are_marked() {
    let before = report("a:1", vec![case("x", Status::Passed, "It is 450 today.")]);
    let after = report("a:1", vec![case("x", Status::Passed, "It is 999 today.")]);
    let html = page(&compare(&before, &after));
    assert!(html.contains("It is <del>450</del> today."), "{html}");
    assert!(html.contains("It is <ins>999</ins> today."), "{html}");
    assert!(html.contains("data-kinds=\"all changed\""));
}
