//! The layout itself: who may call whom, and what every room says of itself.

use std::fs;
use std::path::{Path, PathBuf};

/// The rooms from the top down; a room uses only those behind it (ARC-1).
const ROOMS: [&str; 18] = [
    "cli",
    "http",
    "evals",
    "learning",
    "playground",
    "actors",
    "turn",
    "model",
    "tools",
    "funnel",
    "channel",
    "manychat",
    "store",
    "media",
    "config",
    "telemetry",
    "domain",
    "lib",
];

fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(sources(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    found
}

fn source_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
}

fn room_of(path: &Path) -> Option<String> {
    let inside = path.strip_prefix(source_folder()).unwrap();
    let first = inside.components().next()?.as_os_str().to_str()?;
    ROOMS.contains(&first).then(|| first.to_owned())
}

/// Rooms that a file names behind `crate::`, those of a braced list included.
fn used_rooms(text: &str) -> Vec<String> {
    let mut rooms = Vec::new();
    for (start, _) in text.match_indices("crate::") {
        let rest = &text[start + "crate::".len()..];
        let names: Vec<&str> = match rest.strip_prefix('{') {
            Some(list) => list.split('}').next().unwrap_or("").split(',').collect(),
            None => vec![rest],
        };
        for name in names {
            let word: String = name
                .trim_start()
                .chars()
                .take_while(|letter| letter.is_alphanumeric() || *letter == '_')
                .collect();
            rooms.push(word);
        }
    }
    rooms
}

fn rank(room: &str) -> Option<usize> {
    ROOMS.iter().position(|known| *known == room)
}

/// ARC-1
#[test]
fn calls_go_down_the_list_of_rooms() {
    let mut arrows = 0;
    let mut upward = Vec::new();
    for path in sources(&source_folder()) {
        let Some(room) = room_of(&path) else { continue };
        for used in used_rooms(&fs::read_to_string(&path).unwrap()) {
            let (Some(from), Some(to)) = (rank(&room), rank(&used)) else { continue };
            arrows += 1;
            if to < from {
                upward.push(format!("{} uses {used}", path.display()));
            }
        }
    }
    assert!(arrows > 50, "the test must see the arrows, it saw {arrows}");
    assert!(upward.is_empty(), "arrows that go up: {upward:#?}");
}

/// The check above can fail.
#[test]
fn the_reader_of_arrows_sees_lists_and_paths() {
    let text =
        "use crate::turn::Draft;\nuse crate::{actors, store::Database};\nlet x = crate::http::start();";
    assert_eq!(used_rooms(text), ["turn", "actors", "store", "http"]);
    assert!(rank("http") < rank("actors"));
}

/// ARC-7: three lines say what a room is for, what it owns and what it never does.
#[test]
fn every_room_says_what_it_is_for() {
    for room in ROOMS {
        let path = source_folder().join(room).join("mod.rs");
        let Ok(text) = fs::read_to_string(&path) else { continue };
        let header: String = text.lines().take_while(|line| line.starts_with("//!")).collect();
        assert!(header.contains("Owns:") && header.contains("Never:"), "{}: {header}", path.display());
    }
}

/// ARC-6, PRIN-C2: SQL stands in `store`, genai in `model/registry`.
#[test]
fn sql_and_providers_stay_in_their_rooms() {
    let words = ["insert into ", "delete from ", "select * from", "update conversations"];
    for path in sources(&source_folder()) {
        let text = fs::read_to_string(&path).unwrap();
        let place = path.strip_prefix(source_folder()).unwrap().to_string_lossy().into_owned();
        if !place.starts_with("store") {
            for word in words {
                assert!(!text.to_lowercase().contains(&format!("\"{word}")), "{word} in {place}");
            }
        }
        if !place.starts_with("model/registry") {
            assert!(!text.contains("genai::"), "genai in {place}");
        }
    }
}

/// The code of a file without its comments.
fn code_of(path: &Path) -> String {
    let text = fs::read_to_string(path).unwrap();
    text.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n")
}

/// ARC-2, ARC-19: what a turn does, and everything below it, knows no actor system and no web server; neither does the
/// conversation's state machine.
#[test]
fn actix_stays_at_the_doors_and_in_the_actors() {
    let is_free = |place: &str| {
        let below =
            ["turn", "model", "tools", "funnel", "channel", "manychat", "store", "media", "config", "domain"];
        let room = place.split('/').next().unwrap_or_default();
        below.contains(&room)
            || place == "actors/conversation/machine.rs"
            || place == "actors/conversation/events.rs"
    };
    let mut seen = 0;
    for path in sources(&source_folder()) {
        let place = path.strip_prefix(source_folder()).unwrap().to_string_lossy().into_owned();
        if is_free(&place) {
            seen += 1;
            assert!(!code_of(&path).contains("actix"), "actix in {place}");
        }
    }
    assert!(seen > 50, "the test must see the files, it saw {seen}");
}

/// ARC-5: the lints that keep panics and short names out are errors, and `anyhow` is for commands only.
#[test]
fn panics_are_refused_by_the_lints() {
    let manifest = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml")).unwrap();
    for lint in ["unwrap_used", "expect_used", "indexing_slicing", "panic", "todo", "min_ident_chars"] {
        let line = format!("{lint} = \"deny\"");
        assert!(manifest.lines().any(|found| found.trim() == line), "{line}");
    }
    for path in sources(&source_folder()) {
        let place = path.strip_prefix(source_folder()).unwrap().to_string_lossy().into_owned();
        let is_command = place.starts_with("cli") || place.starts_with("bin") || place == "main.rs";
        assert!(is_command || !code_of(&path).contains("anyhow::"), "anyhow in {place}");
    }
}

/// Tests of what no clause asks for.
const OF_NO_CLAUSE: [&str; 9] = [
    "completions_know_the_commands",
    "cases_can_be_filtered_and_searched",
    "markup_in_a_report_stays_text",
    "the_page_fits_every_screen",
    "the_second_program_is_the_same_command",
    "a_misspelt_key_is_pointed_at",
    "the_suite_of_attacks_tells_a_firm_model_from_a_weak_one",
    "two_reports_are_compared",
    "the_reader_of_arrows_sees_lists_and_paths",
];

/// The tests of a file, each with what stands above it.
fn tests_in(text: &str) -> Vec<(String, String)> {
    let (mut above, mut is_test, mut found) = (String::new(), false, Vec::new());
    for line in text.lines().map(str::trim) {
        if line.starts_with("///") {
            above.push_str(line);
        } else if line.starts_with("#[") {
            is_test |= line.starts_with("#[test") || line.starts_with("#[tokio::test");
        } else {
            let name = line.split_once("fn ").and_then(|(_, rest)| rest.split_once('('));
            if let (true, Some((name, _))) = (is_test, name) {
                found.push((name.to_owned(), above.clone()));
            }
            (above, is_test) = (String::new(), false);
        }
    }
    found
}

/// True where a clause is named, such as `ARC-7`, or a section of a document.
fn names_a_clause(comment: &str) -> bool {
    let is_clause = |word: &str| {
        word.split_once('-').is_some_and(|(prefix, number)| {
            prefix.len() > 1
                && prefix.chars().all(|letter| letter.is_ascii_uppercase())
                && number.ends_with(|last: char| last.is_ascii_alphanumeric())
                && number.contains(|digit: char| digit.is_ascii_digit())
        })
    };
    let mut words = comment.split(|letter: char| !(letter.is_ascii_alphanumeric() || letter == '-'));
    comment.contains("section ") || words.any(is_clause)
}

/// PRIN-C8: a test of behaviour names the clause it holds.
#[test]
fn every_test_from_outside_names_its_clause() {
    assert!(names_a_clause("/// 02/AC-5, GAP-CH-7: twice.") && !names_a_clause("/// A half-open one, TLS."));
    let mut seen = Vec::new();
    let all = sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests"));
    // What gathers evidence is no part of the product, and tried by itself.
    for path in all.iter().filter(|path| !path.to_string_lossy().contains("/evidence/")) {
        for (name, above) in tests_in(&fs::read_to_string(path).unwrap()) {
            let excused = OF_NO_CLAUSE.contains(&name.as_str());
            assert!(excused || names_a_clause(&above), "{name} in {}: {above}", path.display());
            seen.push(name);
        }
    }
    assert!(seen.len() > 250, "the test must see the tests, it saw {}", seen.len());
    assert!(OF_NO_CLAUSE.iter().all(|name| seen.iter().any(|seen| seen == name)), "one of them is gone");
}

/// PRIN-C1, LANG-5: what is committed is looked through for secrets and for copy in another language before it passes.
#[test]
fn ci_looks_through_what_is_committed() {
    let steps = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(".ci/run")).unwrap();
    let stops = steps.lines().any(|line| line.starts_with("set -e"));
    for scan in ["scripts/scan-secrets", "scripts/scan-foreign-text"] {
        assert!(stops && steps.lines().any(|line| line == scan), "{scan}");
    }
}

/// ARC-8: a file that is much longer than 500 lines is two files.
#[test]
fn no_file_is_too_long() {
    for path in sources(&source_folder()) {
        let lines = fs::read_to_string(&path).unwrap().lines().count();
        assert!(lines <= 560, "{} has {lines} lines", path.display());
    }
}
