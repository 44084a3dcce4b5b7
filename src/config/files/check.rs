//! A checker over parsed JSON that goes on after a fault, so that one run reports them all (LOAD-2).

use std::fmt;

use serde_json::{Map, Value};

use crate::config::Warning;
use crate::domain::visible;

/// One thing that is wrong in a tenant file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// For example `rules.json`.
    pub file: &'static str,
    /// Dotted path with list positions; empty for the whole file (LOAD-4).
    pub path: String,
    /// What is wrong and what would be right.
    pub reason: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = if self.path.is_empty() { "(root)" } else { &self.path };
        write!(out, "{}: {}", visible(path), visible(&self.reason))
    }
}

/// What was found in one file so far.
#[derive(Debug)]
pub(in crate::config) struct Report {
    file: &'static str,
    pub(in crate::config) faults: Vec<Fault>,
    pub(in crate::config) warnings: Vec<Warning>,
}

impl Report {
    pub(in crate::config) const fn new(file: &'static str) -> Self {
        Self { file, faults: Vec::new(), warnings: Vec::new() }
    }

    pub(in crate::config) fn fault(&mut self, path: impl Into<String>, reason: impl Into<String>) {
        self.faults.push(Fault { file: self.file, path: path.into(), reason: reason.into() });
    }

    /// Records the fault and gives the "no value" that a parser returns.
    pub(in crate::config) fn refuse<T>(&mut self, path: &str, reason: impl Into<String>) -> Option<T> {
        self.fault(path, reason);
        None
    }

    pub(in crate::config) fn warn(&mut self, path: &str, text: impl Into<String>) {
        self.warnings.push(Warning::new(format!("{}: {path}", self.file), text));
    }
}

/// A value and where it stands.
#[derive(Debug)]
pub(in crate::config) struct Spot<'a> {
    pub(in crate::config) path: String,
    pub(in crate::config) value: &'a Value,
}

impl<'a> Spot<'a> {
    /// The whole file.
    pub(in crate::config) const fn root(value: &'a Value) -> Self {
        Self { path: String::new(), value }
    }

    /// An entry of this list.
    pub(in crate::config) fn entry(&self, position: usize, value: &'a Value) -> Self {
        Self { path: join(&self.path, &position.to_string()), value }
    }
}

/// A JSON object whose keys are known. Getters return `None` after recording a fault; fields are read one after
/// another before the first `?`, so that each is reported.
#[derive(Debug)]
pub(in crate::config) struct Object<'a> {
    path: String,
    map: &'a Map<String, Value>,
    known: &'static [&'static str],
}

impl<'a> Object<'a> {
    /// Opens an object and warns about each key it does not know (LOAD-10, DEC-6).
    pub(in crate::config) fn open(
        spot: &Spot<'a>,
        known: &'static [&'static str],
        report: &mut Report,
    ) -> Option<Self> {
        let object = Self { known, ..Self::any(spot, report)? };
        for (path, advice) in object.unknown() {
            report.warn(&path, format!("unknown key, it has no effect{advice}"));
        }
        Some(object)
    }

    /// Opens an object and refuses each key it does not know; for `rules.learning` (LOAD-10).
    pub(in crate::config) fn open_strict(
        spot: &Spot<'a>,
        known: &'static [&'static str],
        report: &mut Report,
    ) -> Option<Self> {
        let object = Self { known, ..Self::any(spot, report)? };
        for (path, advice) in object.unknown() {
            report.fault(path, format!("is not a known key{advice}"));
        }
        Some(object)
    }

    /// Opens an object whose keys are data.
    pub(in crate::config) fn any(spot: &Spot<'a>, report: &mut Report) -> Option<Self> {
        match spot.value {
            Value::Object(map) => Some(Self { path: spot.path.clone(), map, known: &[] }),
            other => report.refuse(&spot.path, format!("must be an object, not {}", kind(other))),
        }
    }

    /// All entries with their places.
    pub(in crate::config) fn entries(&self) -> impl Iterator<Item = (&'a str, Spot<'a>)> {
        self.map.iter().map(|(key, value)| (key.as_str(), Spot { path: join(&self.path, key), value }))
    }

    fn unknown(&self) -> Vec<(String, String)> {
        self.unknown_keys().map(|key| (join(&self.path, key), advice(key, self.known))).collect()
    }

    fn unknown_keys(&self) -> impl Iterator<Item = &'a str> {
        self.map.keys().map(String::as_str).filter(|key| !self.known.contains(key))
    }

    /// What to say of a key that is not there; warnings are not shown beside faults, so the misspelt one is named here.
    fn missing(&self, key: &str) -> String {
        match self.unknown_keys().find(|given| !advice(given, &[key]).is_empty()) {
            Some(given) => format!("is missing; is `{given}` a misspelling of it?"),
            None => "is missing".to_owned(),
        }
    }

    fn spot(&self, key: &str) -> Option<Spot<'a>> {
        Some(Spot { path: join(&self.path, key), value: self.map.get(key)? })
    }

    /// A key that must be there.
    pub(in crate::config) fn required<T>(
        &self,
        key: &str,
        report: &mut Report,
        parser: impl Fn(&Spot<'a>, &mut Report) -> Option<T>,
    ) -> Option<T> {
        match self.spot(key) {
            Some(spot) => parser(&spot, report),
            None => report.refuse(&join(&self.path, key), self.missing(key)),
        }
    }

    /// A key that may be absent, but not `null` (LOAD-11).
    pub(in crate::config) fn optional<T>(
        &self,
        key: &str,
        report: &mut Report,
        parser: impl Fn(&Spot<'a>, &mut Report) -> Option<T>,
    ) -> Option<Option<T>> {
        match self.spot(key) {
            Some(spot) => parser(&spot, report).map(Some),
            None => Some(None),
        }
    }

    /// A key whose default applies only when it is absent (LOAD-12).
    pub(in crate::config) fn or_default<T>(
        &self,
        key: &str,
        default: T,
        report: &mut Report,
        parser: impl Fn(&Spot<'a>, &mut Report) -> Option<T>,
    ) -> Option<T> {
        match self.spot(key) {
            Some(spot) => parser(&spot, report),
            None => Some(default),
        }
    }

    /// A key for which `null` and absence mean the same; only three fields of an offering (LOAD-11).
    pub(in crate::config) fn nullable<T>(
        &self,
        key: &str,
        report: &mut Report,
        parser: impl Fn(&Spot<'a>, &mut Report) -> Option<T>,
    ) -> Option<Option<T>> {
        match self.spot(key) {
            Some(spot) if !spot.value.is_null() => parser(&spot, report).map(Some),
            _ => Some(None),
        }
    }
}

fn join(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}

/// What a value is, in the words of a person who edits the file.
pub(super) const fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// `; did you mean …?` when a known key is close: letter case and underscores aside, at most two edits and at
/// most a third of the key.
pub(in crate::config) fn advice(key: &str, known: &[&str]) -> String {
    let plain = |text: &str| text.replace(['_', '-'], "").to_lowercase();
    let wanted = plain(key);
    let distance = |candidate: &str| strsim::osa_distance(&wanted, &plain(candidate));
    let nearest = known.iter().map(|candidate| (distance(candidate), *candidate)).min();
    match nearest {
        Some((edits, candidate)) if edits <= 2 && edits * 3 <= wanted.chars().count() => {
            format!("; did you mean `{candidate}`?")
        }
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// DEC-6: a close key is suggested, a distant one is not.
    #[test]
    fn a_misspelt_key_is_answered_with_the_known_one() {
        let known = ["repeatable", "role", "onStage"];
        assert_eq!(advice("repeatible", &known), "; did you mean `repeatable`?");
        assert_eq!(advice("on_stage", &known), "; did you mean `onStage`?");
        assert_eq!(advice("colour", &known), "");
        assert_eq!(advice("x", &known), "");
    }

    /// DEC-6: a required key under a misspelt name is named with it; one that is known itself, or distant, is not.
    #[test]
    fn a_missing_key_names_its_misspelling() {
        let value = json!({ "flowNS": "x", "rol": "y", "descriptions": 1, "colour": 2, "ids": "z" });
        let mut report = Report::new("tools.json");
        let known = &["flowNs", "role", "description", "id", "ids"];
        let object = Object::open(&Spot::root(&value), known, &mut report).unwrap();
        for key in ["flowNs", "role", "description", "id", "currency"] {
            assert_eq!(object.required(key, &mut report, |_, _| Some(())), None);
        }
        let said: Vec<String> = report.faults.iter().map(ToString::to_string).collect();
        assert_eq!(
            said,
            [
                "flowNs: is missing; is `flowNS` a misspelling of it?",
                "role: is missing; is `rol` a misspelling of it?",
                "description: is missing; is `descriptions` a misspelling of it?",
                "id: is missing",
                "currency: is missing",
            ]
        );
    }

    /// LOAD-10, GAP-CFG-1: an unknown key warns with its path and is otherwise ignored.
    #[test]
    fn unknown_keys_warn_with_their_path() {
        let value = json!({ "flow": 1, "tags": [] });
        let mut report = Report::new("tools.json");
        let spot = Spot { path: "readable".to_owned(), value: &value };
        assert!(Object::open(&spot, &["tags", "flows"], &mut report).is_some());
        assert!(report.faults.is_empty());
        assert_eq!(report.warnings.len(), 1);
        let shown = report.warnings[0].to_string();
        assert_eq!(shown, "tools.json: readable.flow: unknown key, it has no effect; did you mean `flows`?");
    }

    /// DEC-6, CLI-7: a key from a file cannot drive the terminal that shows it.
    #[test]
    fn a_key_with_control_characters_is_written_out() {
        let value = json!({ "\u{1b}[2J\nwarning: all is well": 1 });
        let mut report = Report::new("rules.json");
        assert!(Object::open(&Spot::root(&value), &["flows"], &mut report).is_some());
        assert!(Object::open_strict(&Spot::root(&value), &["flows"], &mut report).is_some());
        let expected = r"\u001b[2J\u000awarning: all is well: ";
        let warned = report.warnings[0].to_string();
        assert!(warned.starts_with(&format!("rules.json: {expected}")), "{warned}");
        assert!(report.faults[0].to_string().starts_with(expected));
    }

    /// LOAD-4: the whole file is called (root).
    #[test]
    fn a_fault_of_the_whole_file_names_the_root() {
        let value = json!([1]);
        let mut report = Report::new("rules.json");
        assert!(Object::open(&Spot::root(&value), &[], &mut report).is_none());
        assert_eq!(report.faults[0].to_string(), "(root): must be an object, not a list");
    }
}
