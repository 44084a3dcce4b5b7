//! Environments that tests check, with secrets planted in them.

use std::collections::BTreeMap;

use super::{Settings, Warning};

/// The least that boots, with planted secrets that must never be printed.
pub(super) fn vars(changes: &[(&str, Option<&str>)]) -> BTreeMap<String, String> {
    let base = [
        ("AGENT_MODEL", "mock:demo"),
        ("PUBLIC_BASE_URL", "https://agent.example.com"),
        ("MANYCHAT_SHARED_SECRET", "planted-shared-secret-1"),
        ("DATABASE_URL", "postgres://agent:planted-password@localhost/agent"),
    ];
    let mut vars: BTreeMap<String, String> =
        base.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    for (name, value) in changes {
        match value {
            Some(value) => vars.insert((*name).to_owned(), (*value).to_owned()),
            None => vars.remove(*name),
        };
    }
    vars
}

pub(super) fn boot(changes: &[(&str, &str)]) -> (Settings, Vec<Warning>) {
    let changes: Vec<_> = changes.iter().map(|(name, value)| (*name, Some(*value))).collect();
    Settings::from_vars(&vars(&changes)).unwrap_or_else(|error| panic!("{changes:?}: {error}"))
}

pub(super) fn settings(changes: &[(&str, &str)]) -> Settings {
    boot(changes).0
}

pub(super) fn warnings(changes: &[(&str, &str)]) -> Vec<String> {
    boot(changes).1.iter().map(ToString::to_string).collect()
}

/// The message of a refusal, after checking what holds for every refusal.
pub(super) fn refusal(changes: &[(&str, &str)]) -> String {
    let changes: Vec<_> = changes.iter().map(|(name, value)| (*name, Some(*value))).collect();
    refusal_of(&vars(&changes))
}

pub(super) fn refusal_of(vars: &BTreeMap<String, String>) -> String {
    let message = match Settings::from_vars(vars) {
        Ok(_) => panic!("{vars:?} must be refused"),
        Err(error) => error.to_string(),
    };
    assert!(message.starts_with("invalid environment: "), "{message}");
    assert!(message.lines().last().unwrap().contains(".env.example"), "{message}");
    assert!(!message.contains("planted"), "{message}");
    message
}

/// Whether the message has a line for the variable.
pub(super) fn names(message: &str, variable: &str) -> bool {
    message.lines().any(|line| line.trim_start().starts_with(&format!("{variable}: ")))
}

pub(super) fn assert_refused(name: &str, values: &[&str]) {
    for value in values {
        let message = refusal(&[(name, value)]);
        assert!(names(&message, name), "{name}={value:?}: {message}");
    }
}
