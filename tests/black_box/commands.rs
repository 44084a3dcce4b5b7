//! The commands, as a person types them.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use crate::app::{Folder, Setup, TestApp, binary, command, environment, free_port, write_tenant};

/// CLI-3, CLI-6, CLI-8, ACC-CLI-1
#[test]
fn wrong_use_prints_the_usage_and_exits_with_2() {
    let folder = Folder::new();
    let env = BTreeMap::new();
    let nothing = command(&folder.path, &env, &[]);
    assert_eq!(nothing.code, Some(2));
    let unknown = command(&folder.path, &env, &["frobnicate", "now"]);
    assert_eq!(unknown.code, Some(2));
    assert!(unknown.stderr.starts_with("Unknown command: frobnicate\n"), "{}", unknown.stderr);
    for usage in [&nothing.stderr, &unknown.stderr] {
        for name in ["serve", "dev", "bootstrap", "simulate", "health", "config"] {
            assert!(usage.lines().any(|line| line.trim_start().starts_with(name)), "{name} in {usage}");
        }
    }
    assert_eq!(command(&folder.path, &env, &["serve", "--frob"]).code, Some(2));
    let help = command(&folder.path, &env, &["--help"]);
    assert_eq!((help.code, help.stderr.as_str()), (Some(0), ""));
    let version = command(&folder.path, &env, &["--version"]);
    assert_eq!(version.stdout.trim(), format!("agent {}", env!("CARGO_PKG_VERSION")));
}

/// CLI-4, CLI-25, ACC-CLI-2, ACC-CLI-3: the environment first, then the files; one message, exit 1.
#[test]
fn a_faulty_configuration_stops_every_command() {
    let folder = Folder::new();
    let mut env = environment(free_port(), "postgres://app@127.0.0.1:1/none", &folder.path);
    write_tenant(&folder.path.join("config"), Some(|rules| rules["historyDays"] = 0.into()));
    for words in [vec!["serve"], vec!["config", "check"], vec!["simulate", "hello"]] {
        let ended = command(&folder.path, &env, &words);
        assert_eq!(ended.code, Some(1), "{words:?}");
        assert!(ended.stderr.starts_with("invalid config ("), "{}", ended.stderr);
        assert!(
            ended.stderr.contains("rules.json") && ended.stderr.contains("historyDays"),
            "{}",
            ended.stderr
        );
    }
    env.insert("AGENT_MODEL".to_owned(), "nope".to_owned());
    let ended = command(&folder.path, &env, &["serve"]);
    assert!(ended.stderr.starts_with("invalid environment:"), "{}", ended.stderr);
    assert!(!ended.stderr.contains("historyDays"), "{}", ended.stderr);
}

/// OPS-6, CLI-5: a database that cannot be reached is one clear line, without a secret.
#[test]
fn an_unreachable_database_is_one_line() {
    let folder = Folder::new();
    write_tenant(&folder.path.join("config"), None);
    let env = environment(free_port(), "postgres://app:hidden-password@127.0.0.1:1/none", &folder.path);
    let ended = command(&folder.path, &env, &["serve"]);
    assert_eq!((ended.code, ended.stderr.lines().count()), (Some(1), 1), "{}", ended.stderr);
    assert!(ended.stderr.contains("DATABASE_URL"), "{}", ended.stderr);
    assert!(!ended.stderr.contains("hidden-password") && !ended.stdout.contains("hidden-password"));
}

/// HTTP-7, CLI-25: a port in use is named.
#[tokio::test]
async fn a_port_in_use_is_named() {
    let app = TestApp::start().await;
    let ended = command(&app.folder.path, &app.env, &["serve"]);
    assert_eq!(ended.code, Some(1));
    assert!(ended.stderr.contains(&format!("port {}", app.port)), "{}", ended.stderr);
}

/// CLI-50 to CLI-55, SIM-1, SIM-2, ACC-CLI-5
#[tokio::test]
async fn simulate_talks_to_a_running_server() {
    let app = TestApp::start().await;
    let ended = command(&app.folder.path, &app.env, &["simulate", "how", "much", "is", "it?"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(ended.stdout.contains("how much is it?") && ended.stdout.contains("$450.00"), "{}", ended.stdout);
    assert!(ended.stdout.contains("callback registered, quick replies omitted"), "{}", ended.stdout);
    let other = command(&app.folder.path, &app.env, &["simulate", "-s", "42", "--json", "hello"]);
    assert!(serde_json::from_str::<serde_json::Value>(&other.stdout).is_ok(), "{}", other.stdout);
    let contacts = app.rows("select subscriber_id from conversations order by 1").await;
    assert_eq!(contacts[0]["subscriber_id"], "42");
    assert_eq!(contacts[1]["subscriber_id"], "sim-001");
    assert_eq!(command(&app.folder.path, &app.env, &["simulate"]).code, Some(2));
}

/// CLI-54: without a server the message says what to do.
#[tokio::test]
async fn simulate_and_health_without_a_server_fail_clearly() {
    let app = Setup::default().prepare().await;
    let ended = command(&app.folder.path, &app.env, &["simulate", "hello"]);
    assert_eq!(ended.code, Some(1));
    assert!(ended.stderr.contains("start the server first"), "{}", ended.stderr);
    assert_eq!(command(&app.folder.path, &app.env, &["health"]).code, Some(1));
}

/// IMG-6
#[tokio::test]
async fn health_asks_the_running_server() {
    let app = TestApp::start().await;
    assert_eq!(command(&app.folder.path, &app.env, &["health"]).code, Some(0));
}

/// CLI-60 to CLI-62, DEC-6
#[test]
fn config_check_passes_with_warnings_and_fails_strictly() {
    let folder = Folder::new();
    write_tenant(&folder.path.join("config"), Some(|rules| rules["historyDay"] = 5.into()));
    let env = environment(free_port(), "postgres://app@127.0.0.1:1/none", &folder.path);
    let checked = command(&folder.path, &env, &["config", "check"]);
    assert_eq!(checked.code, Some(0), "{}", checked.stderr);
    assert!(checked.stdout.starts_with("config check passed ("), "{}", checked.stdout);
    assert!(
        checked.stderr.contains("historyDay") && checked.stderr.contains("historyDays"),
        "{}",
        checked.stderr
    );
    assert_eq!(command(&folder.path, &env, &["config", "check", "--strict"]).code, Some(1));
}

/// CLI-96, ENV-32, DEMO-2: written once, kept afterwards.
#[test]
fn bootstrap_writes_what_is_missing_and_keeps_the_rest() {
    let folder = Folder::new();
    let env = BTreeMap::new();
    let first = command(&folder.path, &env, &["bootstrap"]);
    assert_eq!(first.code, Some(0), "{}", first.stderr);
    let dot_env = fs::read_to_string(folder.path.join(".env")).unwrap();
    assert!(
        dot_env.contains("AGENT_MODEL=mock:demo\n")
            && dot_env.contains("DATABASE_URL=embedded:.data/postgres\n")
    );
    assert!(
        folder.path.join("config/rules.json").exists() && !folder.path.join("config/tools.json").exists()
    );
    fs::write(folder.path.join("config/prompt.md"), "mine").unwrap();
    let second = command(&folder.path, &env, &["bootstrap"]);
    assert!(second.stdout.lines().all(|line| line.starts_with("kept")), "{}", second.stdout);
    assert_eq!(fs::read_to_string(folder.path.join("config/prompt.md")).unwrap(), "mine");
    assert_eq!(fs::read_to_string(folder.path.join(".env")).unwrap(), dot_env);
}

/// DEC-15, DEC-2, EMB-6, ACC-EMB-1: in an empty folder one command does everything, keeps its data, and leaves no
/// server behind.
#[test]
fn dev_does_everything_in_an_empty_folder() {
    let folder = Folder::new();
    let port = free_port();
    let env: BTreeMap<String, String> =
        [("PATH".to_owned(), std::env::var("PATH").unwrap()), ("PORT".to_owned(), port.to_string())].into();
    for (round, signal) in [(1, libc::SIGINT), (2, libc::SIGTERM)] {
        let mut dev = Command::new(binary())
            .arg("dev")
            .env_clear()
            .envs(&env)
            .current_dir(&folder.path)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(dev.stdout.take().unwrap()).lines().map(Result::unwrap);
        let shown: Vec<String> = lines.by_ref().take_while(|line| !line.contains("Ctrl-C")).collect();
        let shown = shown.join("\n");
        assert!(shown.contains(&format!("http://127.0.0.1:{port}/v1/channels/manychat/message")), "{shown}");
        assert!(shown.contains("curl ") && shown.contains("AGENT_MODEL"), "{shown}");
        let answered = command(&folder.path, &env, &["simulate", "how much is the foundation course?"]);
        assert!(answered.stdout.contains("$450.00"), "{}{}", answered.stdout, answered.stderr);
        // The second start finds the first one's conversation: a repetition gets the tenant's closer.
        let repeated = answered.stdout.contains("Happy to help. Write any time.");
        assert!(!repeated, "tokens are not enforced and the answer is new");
        // SAFETY: a signal to our own child, which has not been waited for.
        assert_eq!(unsafe { libc::kill(i32::try_from(dev.id()).unwrap(), signal) }, 0);
        let rest: Vec<String> = lines.collect();
        assert_eq!(dev.wait().unwrap().code(), Some(0), "round {round}: {rest:?}");
        let left = fs::read_dir(folder.path.join(".data/postgres")).unwrap().count();
        assert!(left >= 1, "the data stays");
        assert!(!postmaster_alive(&folder.path), "no server stays behind");
        fs::remove_dir_all(folder.path.join(".data/none")).ok();
        if round == 1 {
            forget_answers(&folder, &env);
        }
    }
}

/// The demo tenant replaces a verbatim repetition; a fresh text keeps the second round simple.
fn forget_answers(folder: &Folder, _: &BTreeMap<String, String>) {
    let rules = folder.path.join("config/rules.json");
    let text = fs::read_to_string(&rules).unwrap().replace("\"closer\"", "\"closerOff\"");
    fs::write(rules, text).unwrap();
}

fn postmaster_alive(folder: &std::path::Path) -> bool {
    let majors = fs::read_dir(folder.join(".data/postgres")).unwrap();
    majors.flatten().any(|major| major.path().join("postmaster.pid").exists())
}
