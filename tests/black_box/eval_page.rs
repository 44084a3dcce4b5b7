//! The page of `agent eval compare --html` in a real browser.

use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::app::{Folder, command};
use crate::devtools::{Browser, Page};

const MARKUP: &str =
    "<img src=x onerror=\"window.broken=1\"></p></article><script>window.broken=1</script>&amp;";
/// Pixels that the page is wider than its window.
const OVERFLOW: &str = "Math.max(0, document.documentElement.scrollWidth - window.innerWidth)";
const SHOWN: &str = "[...document.querySelectorAll('#cases > article')].filter(found => found.offsetHeight > 0)\
                     .map(found => found.querySelector('h3').textContent)";

fn case(id: &str, status: &str, text: &str, messages: &[&str], figures: (u64, f64)) -> Value {
    json!({
        "id": id, "status": status, "failures": [], "actions": [], "interventions": [], "messages": messages,
        "latency_ms": figures.0, "cost_usd": figures.1, "escalate": false, "text": text,
    })
}

fn with(mut case: Value, change: Value) -> Value {
    let (Some(case_keys), Value::Object(change)) = (case.as_object_mut(), change) else { return case };
    case_keys.extend(change);
    case
}

fn report(model: &str, totals: Value, cases: Vec<Value>) -> Value {
    json!({ "model": model, "suite": "evals/larkspur", "suite_hash": "5a".repeat(32), "cases": cases, "totals": totals })
}

/// Two runs as they could be: one model against the next.
fn before() -> Value {
    let history = json!([
        { "role": "user", "text": "what does the Foundation Course cost?" },
        { "role": "agent", "text": "It is 450.00 USD, for 24 hours of teaching." },
    ]);
    let expensive = case(
        "objection-expensive",
        "reviewed",
        "That is too expensive for me right now.",
        &["You can split it into three equal monthly payments, with no surcharge.", "Shall I explain how?"],
        (1480, 0.0021),
    );
    let discount = with(
        case(
            "group-discount",
            "failed",
            "We are five friends. Is there a discount?",
            &["I am afraid not."],
            (1310, 0.002),
        ),
        json!({ "failures": [{ "code": "escalate", "message": "expected a handoff, the reply answers" }] }),
    );
    let review = json!({ "history": history, "review": "Takes the worry seriously, offers what the catalog has, and does not press." });
    report(
        "anthropic:claude-haiku-4-5",
        json!({ "passed": 3, "failed": 1, "reviewed": 1, "p95_ms": 1480, "cost_usd": 0.0105 }),
        vec![
            with(expensive, review),
            case(
                "price-of-one-course",
                "passed",
                "Good afternoon, could you tell me the price of the Foundation Course, please?",
                &[
                    "The Foundation Course costs 450.00 USD, for 24 hours over four weeks.",
                    "Would you like the days as well?",
                ],
                (1390, 0.0021),
            ),
            discount,
            case(
                "greeting",
                "passed",
                "Good morning!",
                &["Good morning! What can I tell you about our courses?"],
                (980, 0.0019),
            ),
            case(
                "faq-materials",
                "passed",
                "Do I have to buy tools?",
                &["No, a practice kit comes with each course."],
                (1100, 0.002),
            ),
        ],
    )
}

fn after() -> Value {
    let before = before();
    let cases = before["cases"].as_array().unwrap();
    let passed_on = json!({
        "status": "passed", "failures": [], "escalate": true, "reason": "price_negotiation", "latency_ms": 1260,
        "messages": ["I can't decide that myself, so I'm passing your question to someone at the workshop."],
    });
    let invented = json!({
        "status": "failed", "latency_ms": 2640, "cost_usd": 0.0052,
        "failures": [{ "code": "price", "message": "amounts that the catalog does not hold: 420.00" }],
        "messages": ["The Foundation Course costs 420.00 USD, for 24 hours over four weeks.", "Would you like the days as well?"],
    });
    let warmer = json!({
        "cost_usd": 0.0049, "actions": ["set_field intent=prospect"],
        "messages": ["I hear you, it is a real sum. You can split it into three equal monthly payments, with no surcharge.",
                     "No need to decide today."],
    });
    let totals = json!({ "passed": 3, "failed": 1, "reviewed": 1, "p95_ms": 2640, "cost_usd": 0.0211 });
    let cases = vec![
        with(cases[0].clone(), warmer),
        with(cases[1].clone(), invented),
        with(cases[2].clone(), passed_on),
        cases[3].clone(),
        cases[4].clone(),
    ];
    report("anthropic:claude-sonnet-5", totals, cases)
}

/// Writes the page of two reports and gives its address.
fn page_of(folder: &Folder, before: &Value, after: &Value) -> String {
    fs::write(folder.path.join("a.json"), before.to_string()).unwrap();
    fs::write(folder.path.join("b.json"), after.to_string()).unwrap();
    let words = ["eval", "compare", "a.json", "b.json", "--html", "page.html"];
    let ended = command(&folder.path, &std::collections::BTreeMap::new(), &words);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    format!("file://{}", folder.path.join("page.html").display())
}

fn shown(page: &mut Page<'_>) -> Vec<String> {
    let found = page.value(SHOWN);
    found.as_array().unwrap().iter().map(|id| id.as_str().unwrap().to_owned()).collect()
}

/// Filters and search leave what fits; the count says how many; an empty result can be left again.
#[test]
fn cases_can_be_filtered_and_searched() {
    let Some(mut browser) = Browser::launch() else { return };
    let folder = Folder::new();
    let address = page_of(&folder, &before(), &after());
    let mut page = browser.open(&address, 1280, 900);
    page.wait_for("#count", "5 of 5 cases");
    let by = |page: &mut Page<'_>, filter: &str| {
        page.click(&format!("[data-filter={filter}]"));
        page.wait(&format!("document.querySelector('[data-filter={filter}]').ariaPressed === 'true'"));
        shown(page)
    };
    assert_eq!(by(&mut page, "changed"), ["objection-expensive", "price-of-one-course", "group-discount"]);
    assert_eq!(by(&mut page, "regression"), ["price-of-one-course"]);
    assert_eq!(by(&mut page, "mended"), ["group-discount"]);
    assert_eq!(by(&mut page, "review"), ["objection-expensive"]);
    assert_eq!(page.text("del"), "Shall I explain how?");
    assert_eq!(by(&mut page, "all").len(), 5);
    page.value("document.querySelector('#search').focus()");
    page.write("PRACTICE kit");
    page.wait_for("#count", "1 of 5 cases");
    assert_eq!(shown(&mut page), ["faq-materials"]);
    page.write(" nowhere");
    page.wait_for("#nothing", "No case fits.");
    page.click("#reset");
    page.wait_for("#count", "5 of 5 cases");
    assert!(page.complaints().is_empty(), "{:?}", page.complaints());
}

/// Whatever a report holds is text: nothing of it becomes an element or runs.
#[test]
fn markup_in_a_report_stays_text() {
    let Some(mut browser) = Browser::launch() else { return };
    let folder = Folder::new();
    let hostile = with(
        case(MARKUP, "failed", MARKUP, &[MARKUP], (1, 0.0)),
        json!({
            "failures": [{ "code": "price", "message": MARKUP }], "actions": [MARKUP], "interventions": [MARKUP],
            "history": [{ "role": "user", "text": MARKUP }], "review": MARKUP,
        }),
    );
    let both = report(
        MARKUP,
        json!({ "passed": 0, "failed": 1, "reviewed": 0, "p95_ms": 1, "cost_usd": 0.0 }),
        vec![hostile],
    );
    let address = page_of(&folder, &both, &both);
    let mut page = browser.open(&address, 1280, 900);
    page.wait_for("#count", "1 of 1 cases");
    page.wait_for(".bubble.ours", MARKUP);
    page.wait_for("article h3", MARKUP);
    assert_eq!(page.value("document.querySelectorAll('img').length"), 0);
    assert_eq!(page.value("document.scripts.length"), 1);
    assert_eq!(page.value("typeof window.broken"), "undefined");
    assert!(page.complaints().is_empty(), "{:?}", page.complaints());
}

/// The page fits a laptop and a telephone. With `SCREENSHOTS=<folder>` the pictures are kept there; the guide's is
/// docs/assets/eval-compare.png.
#[test]
fn the_page_fits_every_screen() {
    let Some(mut browser) = Browser::launch() else { return };
    let folder = Folder::new();
    let address = page_of(&folder, &before(), &after());
    let kept = std::env::var_os("SCREENSHOTS").map(PathBuf::from);
    let mut page = browser.open(&address, 1280, 1250);
    page.wait_for("#count", "5 of 5 cases");
    for (name, width, height, scheme) in [
        ("eval-compare.png", 1280, 1250, "light"),
        ("eval-compare-dark.png", 1280, 1250, "dark"),
        ("eval-compare-narrow.png", 390, 1600, "light"),
    ] {
        page.resize(width, height);
        let features = json!({ "features": [{ "name": "prefers-color-scheme", "value": scheme }] });
        page.call("Emulation.setEmulatedMedia", features);
        assert_eq!(page.value(OVERFLOW), 0, "{name}: wider than its window");
        if let Some(folder) = &kept {
            page.screenshot(&folder.join(name));
        }
    }
    assert!(page.complaints().is_empty(), "{:?}", page.complaints());
}
