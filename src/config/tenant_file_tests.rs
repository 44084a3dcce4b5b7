//! What becomes of files that are missing, unreadable, or no tenant's.

use super::*;

/// ACC-CFG-1, LOAD-3: a missing file is named with its path and its example; without tools.json there are no tools.
#[test]
fn a_missing_file_is_named_and_tools_may_be_missing() {
    for file in ["prompt.md", "catalog.json", "rules.json"] {
        let dir = demo_dir();
        std::fs::remove_file(dir.path().join(file)).unwrap();
        let message = refusal(&dir);
        assert!(message.contains(&dir.path().join(file).display().to_string()), "{message}");
        assert!(message.contains(&format!("{file}.example")), "{message}");
    }
    let dir = demo_dir();
    std::fs::remove_file(dir.path().join("tools.json")).unwrap();
    assert_eq!(load(&dir).unwrap().0.tools, None);
    assert!(refusal(&TestDir::new()).contains("prompt.md"));
}

/// LOAD-2: the first file that fails ends the load, in the order of the documents.
#[test]
fn the_first_faulty_file_ends_the_load() {
    let dir = demo_dir();
    dir.write("catalog.json", "{}");
    dir.write("rules.json", "{}");
    dir.write("tools.json", "[]");
    dir.write("prompt.md", b"\xff");
    assert!(refusal(&dir).contains("Invalid catalog.json"));
    dir.write("catalog.json", demo::CATALOG);
    assert!(refusal(&dir).contains("Invalid rules.json"));
    dir.write("rules.json", demo::RULES);
    assert!(refusal(&dir).contains("Invalid tools.json"));
    dir.write("tools.json", "{}");
    assert!(refusal(&dir).contains("prompt.md is not UTF-8 text"));
}

/// ACC-CFG-2, LOAD-3, LOAD-6: invalid JSON is called that, with path and place, and the shape is not spoken of.
#[test]
fn invalid_json_is_called_that() {
    let cut_off = demo::CATALOG.get(..200).unwrap();
    for content in [cut_off, "", "{} // comment", "{\"a\": 1,}", "{\"a\": \"\\ud800\"}", "{\"a\": 1e999}"] {
        let dir = demo_dir();
        dir.write("catalog.json", content);
        let message = refusal(&dir);
        let path = dir.path().join("catalog.json").display().to_string();
        assert!(message.contains("not valid JSON") && message.contains(&path), "{message}");
        assert!(message.contains("line 1") || message.contains("column"), "{message}");
        assert!(!message.contains("Invalid") && !message.contains("businessName"), "{message}");
    }
}

/// LOAD-3: what a parser of JSON cannot know is told before its reason: an empty file, and one in another encoding.
#[test]
fn a_file_that_is_no_text_of_json_is_called_what_it_is() {
    let utf16: Vec<u8> = "\u{feff}{}".encode_utf16().flat_map(u16::to_le_bytes).collect();
    for (content, words) in [
        (&b""[..], "is not valid JSON: the file is empty: EOF"),
        (b" \n", "is not valid JSON: the file is empty: EOF"),
        (b"\xef\xbb\xbf", "is not valid JSON: the file is empty: EOF"),
        (&utf16, "is not valid JSON: it is not UTF-8 text, save it as UTF-8: expected value"),
    ] {
        let dir = demo_dir();
        dir.write("catalog.json", content);
        let message = refusal(&dir);
        assert!(message.contains(words), "{words}: {message}");
    }
}

/// CFG-1: a folder that is not there is most likely named wrongly.
#[test]
fn a_folder_that_is_not_there_is_named_with_its_variable() {
    let dir = TestDir::new();
    let message = Tenant::load(&dir.path().join("conf"), &ReservedNames::default()).unwrap_err().to_string();
    assert!(message.contains("conf/prompt.md does not exist, and neither does its folder"), "{message}");
    assert!(message.contains("CONFIG_DIR"), "{message}");
    assert!(!refusal(&dir).contains("CONFIG_DIR"), "the folder is there");
}

/// A file that exists and cannot be read is not called missing.
#[test]
fn an_unreadable_file_is_called_that() {
    let dir = demo_dir();
    std::fs::remove_file(dir.path().join("tools.json")).unwrap();
    std::fs::create_dir(dir.path().join("tools.json")).unwrap();
    let message = refusal(&dir);
    assert!(message.contains("tools.json cannot be read"), "{message}");
}

/// LOAD-2, LOAD-3, LOAD-4, LOAD-5: all faults of a file, one line each, with dotted paths.
#[test]
fn all_faults_of_a_file_are_reported_with_paths() {
    let files = Files::demo()
        .set("catalog.offerings.0.price.amount", json!(450.5))
        .set("catalog.offerings.2.name", json!(""))
        .set("catalog.currency", json!("US"))
        .set("catalog.faq", json!({}))
        .remove("catalog.businessName");
    let message = files.refusal();
    let expected = [
        "Invalid catalog.json",
        "  businessName: is missing",
        "  currency: must be a currency code",
        "  offerings.0.price.amount: must be a whole number",
        "  offerings.2.name: must have at least one character",
        "  faq: must be a list, not an object",
    ];
    let lines: Vec<_> = message.lines().collect();
    assert_eq!(lines.len(), expected.len(), "{message}");
    for (line, start) in lines.iter().zip(expected) {
        assert!(line.starts_with(start), "{line} does not start with {start}");
    }
}

/// LOAD-4: a file that is no object is refused as a whole.
#[test]
fn a_file_of_another_kind_is_refused_at_the_root() {
    for file in ["catalog", "rules", "tools"] {
        let mut files = Files::demo();
        *files.file(file) = json!(null);
        let message = files.refusal();
        assert_eq!(message, format!("Invalid {file}.json\n  (root): must be an object, not null"));
    }
}
