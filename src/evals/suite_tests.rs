use std::fs;

use super::*;

const GOOD: &str = r#"{"id":"one","text":"hi","expect":{"escalate":false},"review":"Friendly."}"#;
const OTHER: &str = r#"{"id":"two","text":"PRICE?","expect":{"escalate":false}}"#;

fn read(text: &str) -> Result<Suite, EvalError> {
    Suite::read("evals/shop", text.as_bytes(), None)
}

/// CASE-3, CASE-4: every faulty line is named at once, with its number; blank lines count and are skipped.
#[test]
fn all_faulty_lines_are_named_at_once() {
    let text = format!("{GOOD}\n\n{{\"id\":\"x\"}}\n{GOOD}\nno json\n");
    let error = read(&text).unwrap_err().to_string();
    assert!(error.starts_with("invalid evals/shop/cases.jsonl: "), "{error}");
    let lines: Vec<&str> = error.lines().skip(1).collect();
    assert_eq!(lines.len(), 3, "{error}");
    assert!(lines[0].contains("line 3: missing key"), "{error}");
    assert!(lines[1].contains("line 4: the id `one` is that of line 1"), "{error}");
    assert!(lines[2].contains("line 5: "), "{error}");
}

/// 07 section 2: JSON Lines in UTF-8, whichever line ends; a byte order mark is no character of the first line.
#[test]
fn line_ends_and_a_byte_order_mark_do_not_matter() {
    let suite = read(&format!("\u{feff}{GOOD}\r\n\r\n{OTHER}")).unwrap();
    assert_eq!(suite.cases.iter().map(|case| case.id.as_str()).collect::<Vec<_>>(), ["one", "two"]);
    let error = Suite::read("s", b"\xff\xfe{}", None).unwrap_err().to_string();
    assert!(error.contains("line 1: is not UTF-8 text"), "{error}");
}

/// An id goes into terminals, records and pages: it is one line of plain letters.
#[test]
fn an_id_that_drives_a_terminal_is_refused() {
    for id in ["a\\nb", "\\u001b[31m", "a\\u202eb"] {
        let error = read(&GOOD.replace("one", id)).unwrap_err().to_string();
        assert!(error.contains("line 1: `id` holds a control character"), "{error}");
    }
}

/// What is no file, and what does not end, is refused instead of read.
#[test]
fn a_suite_is_a_regular_file_of_a_sane_size() {
    let dir = std::env::temp_dir().join(format!("suite-{}", uuid::Uuid::new_v4()));
    fs::create_dir_all(&dir).unwrap();
    std::os::unix::fs::symlink("/dev/zero", dir.join(CASES_FILE)).unwrap();
    let error = Suite::load(&dir).unwrap_err().to_string();
    fs::remove_dir_all(&dir).unwrap();
    assert!(error.contains("it is not a regular file"), "{error}");
}

/// 07/REP-7, GAP-EV-5: an empty suite is refused.
#[test]
fn an_empty_suite_is_refused() {
    for text in ["", "\n \n"] {
        assert!(matches!(read(text), Err(EvalError::Empty { .. })), "{text:?}");
    }
}

/// 07/REC-2: the hash is that of the bytes; any change is another suite.
#[test]
fn the_hash_is_that_of_the_bytes() {
    let hash = |text: &str| read(text).unwrap().hash;
    assert_eq!(hash(GOOD).len(), 64);
    assert_eq!(hash(GOOD), hash(GOOD));
    assert_ne!(hash(GOOD), hash(&format!("{GOOD}\n")));
}

/// 07/REP-8: exact ids, and a text anywhere in the case; what is not there is an error, not a green run of nothing.
#[test]
fn cases_are_chosen_by_id_and_by_text() {
    let suite = || read(&format!("{GOOD}\n{OTHER}")).unwrap();
    let choose = |only: &[&str], grep: Option<&str>| {
        let only = only.iter().map(|id| (*id).to_owned()).collect();
        suite().choose(&Choice { only, grep: grep.map(str::to_owned) })
    };
    let ids = |suite: Suite| suite.cases.into_iter().map(|case| case.id).collect::<Vec<_>>();
    assert_eq!(ids(choose(&[], None).unwrap()), ["one", "two"]);
    assert_eq!(ids(choose(&["two"], None).unwrap()), ["two"]);
    assert_eq!(ids(choose(&[], Some("price")).unwrap()), ["two"]);
    assert_eq!(ids(choose(&[], Some("FRIENDLY")).unwrap()), ["one"]);
    assert!(choose(&["three"], None).unwrap_err().to_string().contains("no id `three`"));
    assert!(choose(&["one"], Some("price")).unwrap_err().to_string().contains("--only one --grep price"));
    assert!(choose(&[], None).unwrap().whole && !choose(&["one"], None).unwrap().whole);
}

/// TEN-4: a malformed suite of this repository fails here, before a run that costs money; calibration sets too.
#[test]
fn every_suite_of_the_repository_loads() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("evals");
    let mut loaded = 0;
    for entry in fs::read_dir(folder).unwrap().flatten() {
        if !entry.path().join(CASES_FILE).is_file() {
            continue;
        }
        let suite = Suite::load(&entry.path()).unwrap();
        assert!(suite.warnings.is_empty(), "{:?}: {:?}", entry.path(), suite.warnings);
        let doubts = crate::evals::doubts(&suite.cases, &crate::evals::test_support::tenant());
        assert!(doubts.is_empty(), "{:?}: {doubts:?}", entry.path());
        if let Some((path, text)) = &suite.calibration {
            crate::evals::judge::Calibration::read(path, text).unwrap();
        }
        loaded += 1;
    }
    assert!(loaded >= 2, "golden and redteam, found {loaded}");
    assert_eq!(Suite::golden().unwrap().name, GOLDEN);
}
