//! Whatever stands in the files, a load ends in a snapshot or in a message that names the file.

use std::cell::RefCell;
use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use serde_json::Value;

use super::tenant::TenantFiles;
use super::test_files::Files;
use super::{ReservedNames, TenantProblem, demo};

/// Any JSON value, small.
fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        prop_oneof![Just(u64::MAX), Just(9_007_199_254_740_992), Just(4_294_967_296)].prop_map(Value::from),
        prop_oneof![Just(1e308), Just(-0.0), Just(5e-324), Just(2_147_483_648.0)].prop_map(Value::from),
        "[a-z_ {}\u{e9}\u{0}]{0,8}".prop_map(Value::from),
        prop_oneof![Just("link_sent"), Just("opening"), Just("foundation"), Just("ai_token")]
            .prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 3, |inner| {
        let key = prop_oneof!["[a-z]{1,6}", Just("id".to_owned()), Just("tag".to_owned())];
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            proptest::collection::vec((key, inner), 0..3).prop_map(|entries| entries.into_iter().collect()),
        ]
    })
}

/// How many values a file holds, itself included.
fn count(value: &Value) -> usize {
    let children: usize = match value {
        Value::Array(entries) => entries.iter().map(count).sum(),
        Value::Object(entries) => entries.values().map(count).sum(),
        _ => 0,
    };
    children + 1
}

/// Replaces the value at a position of the walk through the file.
fn replace(value: &mut Value, at: usize, new: &Value) -> usize {
    if at == 0 {
        *value = new.clone();
        return 0;
    }
    let mut left = at - 1;
    let children: Vec<&mut Value> = match value {
        Value::Array(entries) => entries.iter_mut().collect(),
        Value::Object(entries) => entries.values_mut().collect(),
        _ => Vec::new(),
    };
    for child in children {
        let size = count(child);
        if left < size {
            return replace(child, left, new);
        }
        left -= size;
    }
    left
}

/// A refusal says where: the file, and in a file that is JSON the place of each fault.
fn names_its_place(problem: &TenantProblem) -> bool {
    let message = problem.to_string();
    let is_file = |text: &str| {
        ["prompt.md", "catalog.json", "rules.json", "tools.json"].iter().any(|name| text.contains(name))
    };
    match problem {
        TenantProblem::Invalid { faults } => {
            !faults.is_empty()
                && faults.iter().all(|fault| {
                    is_file(fault.file) && !fault.reason.is_empty() && message.contains(&fault.to_string())
                })
        }
        TenantProblem::NotJson { reason, .. } => {
            is_file(&message) && reason.line() > 0 && message.contains("line ")
        }
        TenantProblem::EarlierShape { keys, .. } => is_file(&message) && !keys.is_empty(),
        TenantProblem::Missing { .. } | TenantProblem::Unreadable { .. } | TenantProblem::NotText { .. } => {
            is_file(&message)
        }
    }
}

/// Pieces that break JSON, or nearly.
const PIECES: [&str; 26] = [
    "\"",
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    "\\u",
    "null",
    "1e400",
    "\u{0}",
    "\"id\": \"\",",
    "\"id\": [[[]]],",
    "\"messages\": 1, ",
    "\"offerings\": {\"0\": null}, ",
    "\"\\u0000\": \"\\ud800\", ",
    "\\ud800",
    "\\udfff\\ud83d",
    "\u{feff}",
    "-0",
    "00",
    "1e-400",
    "123456789012345678901234567890123456789012345678901234567890",
    "true",
    "\u{2028}",
    "// ",
];

/// A file's text with pieces put in and stretches cut out.
fn edited(text: &str, edits: &[(prop::sample::Index, usize, bool)]) -> String {
    let mut text = text.to_owned();
    for (place, piece, cut) in edits {
        let at = text.floor_char_boundary(place.index(text.len() + 1));
        if *cut {
            let end = text.ceil_char_boundary((at + piece).min(text.len()));
            text.replace_range(at..end, "");
        } else {
            let deep = ["[", "{\"a\":"][piece % 2].repeat(200);
            let piece = PIECES.get(*piece).copied().unwrap_or(&deep);
            text.insert_str(at, piece);
        }
    }
    text
}

/// LOAD-3, LOAD-4, LOAD-6, LOAD-14, LOAD-15: the text of a file with pieces put in and cut out, three thousand times;
/// none of the ways a load can end is left out.
#[test]
fn any_edit_of_a_file_loads_or_is_refused_with_its_place() {
    let edits = proptest::collection::vec((any::<prop::sample::Index>(), 0_usize..30, any::<bool>()), 1..4);
    let tried = RefCell::new(BTreeMap::<&str, usize>::new());
    let mut runner = TestRunner::new(ProptestConfig::with_cases(3000));
    let outcome = runner.run(&(0_usize..4, edits), |(file, edits)| {
        let mut texts = [demo::PROMPT, demo::CATALOG, demo::RULES, demo::TOOLS].map(str::to_owned);
        texts[file] = edited(&texts[file], &edits);
        let [prompt, catalog, rules, tools] = &texts;
        let files = TenantFiles::given(prompt, catalog, rules, Some(tools));
        let way = match files.check(&ReservedNames::default()) {
            Ok(_) => "loaded",
            Err(problem) => {
                prop_assert!(names_its_place(&problem), "{}", problem);
                match problem {
                    TenantProblem::NotJson { .. } => "not JSON",
                    TenantProblem::Invalid { .. } => "invalid",
                    _ => "other",
                }
            }
        };
        *tried.borrow_mut().entry(way).or_default() += 1;
        Ok(())
    });
    outcome.unwrap();
    let tried = tried.into_inner();
    for (way, least) in [("loaded", 300), ("not JSON", 500), ("invalid", 20)] {
        assert!(tried.get(way).copied().unwrap_or_default() >= least, "{way}: {tried:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// DEC-6, LOAD-3: whatever stands in a file, nothing panics and every refusal names the file and the place.
    #[test]
    fn any_change_loads_or_is_refused_by_name(
        file in prop_oneof![Just("catalog"), Just("rules"), Just("tools")],
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any_json()), 1..4),
    ) {
        let mut files = Files::demo();
        for (place, value) in &changes {
            let root = files.file(file);
            let at = place.index(count(root));
            replace(root, at, value);
        }
        if let Err(problem) = files.load() {
            prop_assert!(names_its_place(&problem), "{}", problem);
            let message = problem.to_string();
            let of_this_file = message.contains(&format!("{file}.json"));
            // A changed catalog can leave tools.json behind, a changed tools.json the learning block.
            let across = matches!(problem, TenantProblem::Invalid { .. }) && message.contains("Invalid tools.json");
            prop_assert!(of_this_file || across, "{}", message);
        }
    }

    /// LOAD-3: bytes that are no JSON are refused by name.
    #[test]
    fn any_bytes_load_or_are_refused_by_name(content in "[\\[\\]{}\",:0-9a-z\u{feff} ]{0,40}") {
        let files = TenantFiles::given("Persona", &content, demo::RULES, None);
        let message = files.check(&ReservedNames::default()).unwrap_err().to_string();
        prop_assert!(message.contains("catalog.json"), "{}", message);
    }
}
