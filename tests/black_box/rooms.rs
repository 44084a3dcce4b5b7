//! The layout itself: who may call whom, and what every room says of itself.

use std::fs;
use std::path::{Path, PathBuf};

use regex::Regex;

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
        let names = match rest.strip_prefix('{') {
            Some(list) => members(list),
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
    rooms.retain(|word| !word.is_empty());
    rooms
}

/// The members of a list whose opening brace has been read, up to the brace that closes it; a list inside a member is a
/// part of it.
fn members(list: &str) -> Vec<&str> {
    let (mut depth, mut start, mut found) = (0, 0, Vec::new());
    for (index, letter) in list.char_indices() {
        match letter {
            '{' => depth += 1,
            '}' if depth > 0 => depth -= 1,
            '}' => {
                found.push(&list[start..index]);
                break;
            }
            ',' if depth == 0 => {
                found.push(&list[start..index]);
                start = index + 1;
            }
            _ => {}
        }
    }
    found
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
    let nested = "use crate::{\n    model::{Reply, runner::{Runner}},\n    cli::run,\n};\nuse std::{fs, io};";
    assert_eq!(used_rooms(nested), ["model", "cli"]);
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

/// What begins a statement, in any case and over line breaks.
fn statement() -> Regex {
    Regex::new(
        r"(?is)\b(insert\s+into\s+\w+|delete\s+from\s+\w+|update\s+\w+\s+set\b|select\s[^;]{1,300}?\sfrom\s+\w+|(create|alter|drop)\s+(unique\s+)?(table|index)\b)",
    )
    .unwrap()
}

/// ARC-6, PRIN-C2: SQL stands in `store`, genai in `model/registry`.
#[test]
fn sql_and_providers_stay_in_their_rooms() {
    let (statement, mut inside) = (statement(), 0);
    for path in sources(&source_folder()) {
        let text = code_of(&path);
        let place = path.strip_prefix(source_folder()).unwrap().to_string_lossy().into_owned();
        let found = statement.find(&text).map(|found| found.as_str());
        if place.starts_with("store/") {
            inside += usize::from(found.is_some());
        } else {
            assert_eq!(found, None, "SQL in {place}");
        }
        if !place.starts_with("model/registry") {
            assert!(!text.contains("genai::"), "genai in {place}");
        }
    }
    assert!(inside > 20, "the test must see statements, it saw them in {inside} files");
}

/// ARC-6: the check above can fail, and English is no statement.
#[test]
fn the_reader_of_statements_sees_them_in_any_form() {
    let statement = statement();
    let forms = [
        "client.query(\"select id\\n  from turns where true\")",
        "r#\"INSERT INTO outbox (id) values ($1)\"#",
        "\"with gone as (delete from rs_owed returning turn_id) select 1\"",
        "format!(\"update {name}\"); \"update rs_lanes set fence = fence + 1\"",
    ];
    for form in forms {
        assert!(statement.is_match(form), "{form}");
    }
    assert!(!statement.is_match("tokio::select! { _ = one => {} } // from here the update of a set is over"));
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
const OF_NO_CLAUSE: [&str; 10] = [
    "completions_know_the_commands",
    "cases_can_be_filtered_and_searched",
    "markup_in_a_report_stays_text",
    "the_page_fits_every_screen",
    "the_second_program_is_the_same_command",
    "a_misspelt_key_is_pointed_at",
    "the_suite_of_attacks_tells_a_firm_model_from_a_weak_one",
    "two_reports_are_compared",
    "the_reader_of_arrows_sees_lists_and_paths",
    "links_between_pages_lead_where_they_say",
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

/// The lines before a file's first code: what it says of itself.
fn header_of(text: &str) -> String {
    text.lines().take_while(|line| line.starts_with("//!")).collect()
}

/// Whether a header or doc comment says why something is longer than the rule.
fn gives_a_reason(comment: &str) -> bool {
    comment.to_lowercase().contains("longer than")
}

/// The product's code and its tests.
fn code_and_tests() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    ["src", "tests", "benches"].iter().flat_map(|folder| sources(&root.join(folder))).collect()
}

/// ARC-8: a file that is longer than about 500 lines is two files, or says at its top why not.
#[test]
fn no_file_is_too_long_without_a_reason() {
    for path in code_and_tests() {
        let text = fs::read_to_string(&path).unwrap();
        let lines = text.lines().count();
        assert!(lines <= 520 || gives_a_reason(&header_of(&text)), "{} has {lines} lines", path.display());
    }
}

/// Functions with more than 60 lines of code, blank lines and comments aside: name, lines, and the comment above. Read as
/// rustfmt writes them: a function ends at the first brace that stands as far left as its beginning.
fn long_functions(text: &str) -> Vec<(String, usize, String)> {
    let begins = Regex::new(
        r#"^(\s*)(?:pub(?:\([^)]*\))? )?(?:const )?(?:async )?(?:unsafe )?(?:extern "C" )?fn (\w+)"#,
    )
    .unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let mut found = Vec::new();
    for (first, line) in lines.iter().enumerate() {
        let Some(begin) = begins.captures(line) else { continue };
        let (closing, declared) = (format!("{}}}", &begin[1]), format!("{})", &begin[1]));
        let is_end =
            |line: &&str| line.starts_with(&closing) || line.starts_with(&declared) && line.ends_with(';');
        let body = lines[first..].iter().take_while(|line| !is_end(line));
        let is_code = |line: &&&str| !line.trim().is_empty() && !line.trim_start().starts_with("//");
        let length = body.filter(is_code).count() + 1;
        let is_declaration = line.ends_with(';') || line.ends_with('}');
        if length > 60 && !is_declaration {
            let above = lines[..first].iter().rev().map(|line| line.trim_start());
            let comment: Vec<&str> =
                above.take_while(|line| line.starts_with("///") || line.starts_with("#[")).collect();
            found.push((begin[2].to_owned(), length, comment.concat()));
        }
    }
    found
}

/// ARC-8: a function that is longer than 60 lines is two functions, or says why not, itself or at the top of its file.
#[test]
fn no_function_is_too_long_without_a_reason() {
    let mut seen = 0;
    for path in code_and_tests() {
        let text = fs::read_to_string(&path).unwrap();
        for (name, lines, comment) in long_functions(&text) {
            seen += 1;
            let is_said = gives_a_reason(&comment) || gives_a_reason(&header_of(&text));
            assert!(is_said, "{name} in {} has {lines} lines", path.display());
        }
    }
    assert!(seen > 0, "the test must see the tables that are long on purpose");
}

/// ARC-8: the check above can fail.
#[test]
fn the_reader_of_functions_counts_their_code() {
    let body = |lines: usize| {
        let code: String = (0..lines).map(|_| "        step();\n").collect();
        format!(
            "    /// Longer than most.\n    #[test]\n    pub(crate) async fn long() {{\n\n        // why\n{code}    }}\n}}\n"
        )
    };
    assert_eq!(long_functions(&body(58)), []);
    let found = long_functions(&body(59));
    assert_eq!(found.len(), 1);
    assert!(found[0].0 == "long" && found[0].1 == 61 && gives_a_reason(&found[0].2), "{found:?}");
    assert_eq!(long_functions("    fn short(&self);\n"), []);
}

/// ARC-7: the README's screen has a line for every room, in the order in which calls go, and none that is not there.
#[test]
fn the_readme_has_a_line_for_every_room() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let readme = fs::read_to_string(root.join("README.md")).unwrap();
    let screen = readme.split("## The source on one screen").nth(1).unwrap();
    let places: Vec<&str> =
        screen.lines().filter_map(|line| line.split_whitespace().next()?.strip_prefix("src/")).collect();
    for place in &places {
        assert!(source_folder().join(place).exists(), "src/{place} is in the README and not in the source");
    }
    for entry in fs::read_dir(source_folder()).unwrap().flatten() {
        let is_folder = entry.path().is_dir();
        let name = entry.file_name().to_string_lossy().into_owned() + if is_folder { "/" } else { "" };
        assert!(places.contains(&name.as_str()), "src/{name} is not in the README");
    }
    let ranks: Vec<usize> = places.iter().filter_map(|place| rank(place.strip_suffix('/')?)).collect();
    assert!(ranks.is_sorted(), "the README's order is not that of the calls: {places:?}");
}

/// Links of the pages: the words of each that are a path, and where it leads.
fn links(text: &str) -> Vec<(String, String)> {
    let link = Regex::new(r"\[([^\]\n]+)\]\(([^)\s]+)\)").unwrap();
    link.captures_iter(text).map(|found| (found[1].to_owned(), found[2].to_owned())).collect()
}

/// A link leads to a file that is there, and one that shows a file's name leads to that file.
#[test]
fn links_between_pages_lead_where_they_say() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut seen = 0;
    for folder in ["", "config", "docs", "docs/adr", "specs", "evals"] {
        for entry in fs::read_dir(root.join(folder)).unwrap().flatten() {
            let page = entry.path();
            if page.extension().is_none_or(|extension| extension != "md") {
                continue;
            }
            for (shown, target) in links(&fs::read_to_string(&page).unwrap()) {
                let file = target.split('#').next().unwrap();
                if file.is_empty() || target.contains("://") {
                    continue;
                }
                seen += 1;
                assert!(page.parent().unwrap().join(file).exists(), "{}: {target}", page.display());
                let is_name = shown.ends_with(".md") && !shown.contains(' ');
                let name = |path: &str| Path::new(path).file_name().map(ToOwned::to_owned);
                assert!(!is_name || name(&shown) == name(file), "{}: [{shown}]({target})", page.display());
            }
        }
    }
    assert!(seen > 100, "the test must see the links, it saw {seen}");
}
