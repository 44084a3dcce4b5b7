use std::os::unix::ffi::OsStringExt;

use super::*;
use crate::config::test_dir::TestDir;

fn read(content: &[u8], process: &[(&str, &str)]) -> Result<BTreeMap<String, String>, SettingsError> {
    let dir = TestDir::new();
    let path = dir.write(".env", content);
    merged(&path, process.iter().map(|(name, value)| ((*name).into(), (*value).into())))
}

fn value(line: &str) -> String {
    let found = read(format!("NAME={line}\n").as_bytes(), &[]).unwrap();
    found.get("NAME").cloned().unwrap_or_default()
}

/// CFG-3: the process wins, an empty value of it too; a missing file is fine.
#[test]
fn the_process_wins_over_the_file() {
    let vars = read(b"ONE=file\nTWO=file\nTHREE=file\n", &[("ONE", "process"), ("TWO", "")]).unwrap();
    let found: Vec<_> = vars.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    assert_eq!(found, [("ONE", "process"), ("THREE", "file"), ("TWO", "")]);
    let dir = TestDir::new();
    assert!(merged(&dir.path().join(".env"), Vec::new()).unwrap().is_empty());
}

/// CFG-4
#[test]
fn lines_are_names_and_values() {
    let text = "\u{feff}\n# a comment\n  ONE = 1 \r\nexport TWO=2\nTHREE=\n\t\nONE=again";
    let vars = read(text.as_bytes(), &[]).unwrap();
    let found: Vec<_> = vars.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    assert_eq!(found, [("ONE", "again"), ("THREE", ""), ("TWO", "2")]);
}

/// CFG-4, DEC-1: quotes and comments go, nothing is expanded, spaces inside stay.
#[test]
fn values_are_taken_as_they_stand() {
    for (written, expected) in [
        ("plain", "plain"),
        ("\"quoted # kept\"", "quoted # kept"),
        ("'single'  # comment", "single"),
        ("10.0.0.0/8, loopback", "10.0.0.0/8, loopback"),
        ("pa$$word${HOME}\\n", "pa$$word${HOME}\\n"),
        ("\"$HOME\\n\"", "$HOME\\n"),
        ("a#b", "a#b"),
        ("a # b", "a"),
        ("# b", ""),
        ("a=b==", "a=b=="),
        ("{\"mock:x\": {\"input\": 1}}", "{\"mock:x\": {\"input\": 1}}"),
        ("'{\"it\": \"x\"}'", "{\"it\": \"x\"}"),
        ("'it' # it's", "it"),
        ("\"\"", ""),
        ("a\"b\"", "a\"b\""),
    ] {
        assert_eq!(value(written), expected, "{written}");
    }
}

/// A malformed line is a clear fault with its number; its content is not repeated (ENV-26).
#[test]
fn a_malformed_line_is_named_by_its_number() {
    for line in ["planted secret", "=planted", "1A=planted", "A B=planted", "KEY=\"planted", "KEY='planted"] {
        let message = read(format!("OK=1\n{line}\n").as_bytes(), &[]).unwrap_err().to_string();
        assert!(
            message.starts_with("invalid environment: ") && message.contains(".env: line 2: "),
            "{message}"
        );
        assert!(!message.contains("planted"), "{message}");
    }
    let message = read(b"ONE=\xff\n", &[]).unwrap_err().to_string();
    assert!(message.contains(".env: is not UTF-8 text"), "{message}");
}

/// A file that cannot be read is a fault, not a missing file.
#[test]
fn an_unreadable_file_is_a_fault() {
    let dir = TestDir::new();
    let message = merged(dir.path(), Vec::new()).unwrap_err().to_string();
    assert!(message.contains(".env: cannot be read: "), "{message}");
}

/// A variable that is not UTF-8 is a clear fault if the service knows it (CFG-5).
#[test]
fn variables_that_are_not_utf8_are_named() {
    let dir = TestDir::new();
    let odd = || OsString::from_vec(vec![b'p', 0xff]);
    let process = [("TENANT_ID".into(), odd()), ("SOMETHING".into(), odd()), ("PORT".into(), "1".into())];
    let error = merged(&dir.path().join(".env"), process).unwrap_err();
    assert_eq!(error.faults, [VariableFault::new("TENANT_ID", "is not UTF-8 text")]);
    let unknown = merged(&dir.path().join(".env"), [("SOMETHING".into(), odd())]).unwrap();
    assert!(unknown.is_empty());
}
