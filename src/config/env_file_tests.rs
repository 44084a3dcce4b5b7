use std::os::unix::ffi::OsStringExt;

use super::*;
use crate::config::Settings;
use crate::config::test_dir::TestDir;

fn parsed(content: &[u8], process: &[(&str, &str)]) -> Environment {
    let dir = TestDir::new();
    let path = dir.write(".env", content);
    merged(&path, process.iter().map(|(name, value)| ((*name).into(), (*value).into()))).unwrap()
}

/// The variables of a file that is sound.
fn read(content: &[u8], process: &[(&str, &str)]) -> BTreeMap<String, String> {
    let environment = parsed(content, process);
    assert_eq!((environment.faults, environment.warnings), (Vec::new(), Vec::new()));
    environment.variables
}

fn value(line: &str) -> String {
    let found = read(format!("NAME={line}\n").as_bytes(), &[]);
    found.get("NAME").cloned().unwrap_or_default()
}

/// CFG-3: the process wins, an empty value of it too; a missing file is fine.
#[test]
fn the_process_wins_over_the_file() {
    let vars = read(b"ONE=file\nTWO=file\nTHREE=file\n", &[("ONE", "process"), ("TWO", "")]);
    let found: Vec<_> = vars.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    assert_eq!(found, [("ONE", "process"), ("THREE", "file"), ("TWO", "")]);
    let dir = TestDir::new();
    assert!(merged(&dir.path().join(".env"), Vec::new()).unwrap().variables.is_empty());
}

/// CFG-4
#[test]
fn lines_are_names_and_values() {
    let text = "\u{feff}\n# a comment\n  ONE = 1 \r\nexport TWO=2\nTHREE=\n\t\nONE=again";
    let vars = read(text.as_bytes(), &[]);
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

/// CFG-5, DEC-1: a line that is no variable of ours is skipped, and named by its number alone (ENV-26).
#[test]
fn a_line_that_says_nothing_is_skipped_with_a_warning() {
    let lines: [&[u8]; 8] = [
        b"planted-secret",
        b"MY-PLANTED=1",
        b"=planted",
        b"1A=planted",
        b"A B=planted",
        b"THEIR_KEY=\"planted",
        b"THEIR_KEY='planted",
        b"THEIR_KEY=\xffplanted",
    ];
    for line in lines {
        let environment = parsed(&[b"PORT=1\n", line, b"\nLOG_LEVEL=info\n"].concat(), &[]);
        let shown = String::from_utf8_lossy(line);
        assert_eq!(environment.variables.len(), 2, "{shown}");
        assert_eq!(environment.faults, [], "{shown}");
        let [warning] = environment.warnings.as_slice() else {
            panic!("{shown}: {:?}", environment.warnings)
        };
        let warning = warning.to_string();
        assert!(
            warning.starts_with(".env: line 2 is skipped: ") && !warning.contains("planted"),
            "{warning}"
        );
    }
    let comment = parsed(b"# caf\xe9\nPORT=1\n", &[]);
    assert_eq!((comment.warnings.len(), comment.variables.len()), (0, 1));
}

/// DEC-6's advice for the lines of `.env`: a name close to one of ours is named with it and its line, and never with its value
/// (ENV-26). Others' names are nobody's business (CFG-5), and those of the process neither.
#[test]
fn a_misspelt_name_is_answered_with_the_known_one() {
    for (written, meant) in [
        ("MANYCHAT_API_TOCEN", "MANYCHAT_API_TOKEN"),
        ("RACE_DEADLINE", "RACE_DEADLINE_MS"),
        ("DATABSE_URL", "DATABASE_URL"),
        ("database_url", "DATABASE_URL"),
        ("LOGLEVEL", "LOG_LEVEL"),
    ] {
        let environment = parsed(format!("PORT=1\n{written}=planted\n").as_bytes(), &[]);
        let [warning] = environment.warnings.as_slice() else {
            panic!("{written}: {:?}", environment.warnings)
        };
        let said = format!(
            ".env: line 2: `{written}` is no variable of this service, it has no effect; did you mean `{meant}`?"
        );
        assert_eq!(warning.to_string(), said);
    }
    for theirs in [
        "POSTGRES_PASSWORD",
        "HOST",
        "APP_ENV",
        "GOOGLE_API_KEY",
        "DATABASE_URL2",
        "PORT_2",
        "TEST_DATABASE_URL",
    ] {
        assert_eq!(parsed(format!("{theirs}=x\n").as_bytes(), &[]).warnings, [], "{theirs}");
    }
    assert_eq!(parsed(b"PORT=1\n", &[("DATABSE_URL", "x")]).warnings, []);
}

/// A variable of ours that cannot be read is a fault beside all others (ENV-1), named with its line and without its value
/// (ENV-26); a later line or the process makes it good.
#[test]
fn a_variable_of_ours_that_cannot_be_read_is_a_fault() {
    for (line, word) in [
        ("PUBLIC_BASE_URL=\"planted".as_bytes(), "not closed"),
        (b"PUBLIC_BASE_URL='planted", "not closed"),
        (b"PUBLIC_BASE_URL=planted\xff", "UTF-8"),
    ] {
        let content = [b"PORT=0\n", line, b"\n"].concat();
        let message = Settings::from_environment(&parsed(&content, &[]), |_| Ok(())).unwrap_err().to_string();
        for told in ["  PUBLIC_BASE_URL: line 2 of .env: ", word, "  PORT: ", "  AGENT_MODEL: is missing"] {
            assert!(message.contains(told), "{message}");
        }
        assert_eq!(message.matches("PUBLIC_BASE_URL: ").count(), 1, "{message}");
        assert!(!message.contains("planted"), "{message}");
        let again = parsed(&[&content[..], b"PUBLIC_BASE_URL=https://one.example\n"].concat(), &[]);
        assert_eq!(again.faults, []);
        assert_eq!(parsed(&content, &[("PUBLIC_BASE_URL", "https://one.example")]).faults, []);
    }
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
    let environment = merged(&dir.path().join(".env"), process).unwrap();
    assert_eq!(environment.faults, [VariableFault::new("TENANT_ID", "is not UTF-8 text")]);
    assert_eq!(environment.variables.len(), 1);
}
