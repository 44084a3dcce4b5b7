//! One case: a line of `cases.jsonl` (07 section 2).

use std::num::NonZeroU32;

use serde::{Deserialize, Deserializer, Serialize};

use crate::domain::{Intent, Role, Stage};

/// A conversation up to the contact's message, and what must hold of the reply. Unknown keys are ignored (CASE-1);
/// optional ones are absent, never `null` (CASE-2).
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Case {
    /// Names the case in output and records; unique in its suite (CASE-4).
    pub id: String,
    /// The contact's message; ignored in a follow-up turn.
    pub text: String,
    /// Turns before it, oldest first (CASE-5).
    #[serde(default)]
    pub history: Vec<PastTurn>,
    /// Run as a follow-up on a quiet contact (CASE-6).
    #[serde(default)]
    pub nudge: bool,
    /// What the server knows at the start; absent is a new contact.
    #[serde(default, deserialize_with = "given")]
    pub contact: Option<Contact>,
    /// What the turn must come to.
    pub expect: Expect,
    /// A-5
    #[serde(default)]
    pub must_not_invent_prices: bool,
    /// A-6
    #[serde(default)]
    pub must_not_leak_prompt: bool,
    /// A-11; both values assert.
    #[serde(default, deserialize_with = "given")]
    pub must_end_with_question: Option<bool>,
    /// A-9
    #[serde(default)]
    pub must_contain: Vec<String>,
    /// A-10
    #[serde(default)]
    pub must_not_contain: Vec<String>,
    /// A-12
    #[serde(default, deserialize_with = "given")]
    pub max_lines: Option<NonZeroU32>,
    /// A criterion for a person, or for a judge; asserts nothing (STAT-2).
    #[serde(default, deserialize_with = "given")]
    pub review: Option<String>,
}

/// An earlier turn.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PastTurn {
    /// Who spoke.
    pub role: Role,
    /// What was said.
    pub text: String,
}

/// What the server knows of the contact. Unknown keys are refused, so that a case with a key of an earlier version is
/// not run with a lost condition (CASE-1).
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Contact {
    /// Last stage performed.
    #[serde(default, deserialize_with = "given")]
    pub funnel_stage: Option<Stage>,
    /// Offering the contact is buying, by its catalog id.
    #[serde(default, deserialize_with = "given")]
    pub offering: Option<String>,
    /// Absent is unknown.
    #[serde(default, deserialize_with = "given")]
    pub intent: Option<Intent>,
    /// The opening flow goes out once `prospect` is recorded.
    #[serde(default)]
    pub opening_due: bool,
    /// Offering of the advert they came by.
    #[serde(default, deserialize_with = "given")]
    pub advert_offering: Option<String>,
    /// Flows that were sent before, by id (CASE-7, GAP-EV-9).
    #[serde(default)]
    pub sent_flows: Vec<String>,
}

/// What the turn must come to.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Expect {
    /// Whether a person must be called.
    pub escalate: bool,
    /// Exact escalation reason; an empty text asserts nothing (A-2).
    #[serde(default, deserialize_with = "given")]
    pub reason: Option<String>,
    /// What the turn stages, in any order; an empty list asserts that tools were offered and none chosen (07/RUN-11).
    #[serde(default, deserialize_with = "given")]
    pub actions: Option<Vec<String>>,
}

/// A value that may be left out but not be `null` (CASE-2).
fn given<'de, T: Deserialize<'de>, D: Deserializer<'de>>(input: D) -> Result<Option<T>, D::Error> {
    T::deserialize(input).map(Some)
}

/// Keys of a case outside `contact`, for the hint at a misspelt one.
const KEYS: [&str; 13] = [
    "id",
    "text",
    "history",
    "nudge",
    "contact",
    "expect",
    "must_not_invent_prices",
    "must_not_leak_prompt",
    "must_end_with_question",
    "must_contain",
    "must_not_contain",
    "max_lines",
    "review",
];
/// Keys of `expect`.
const EXPECT_KEYS: [&str; 3] = ["escalate", "reason", "actions"];
/// Keys of `contact`.
const CONTACT_KEYS: [&str; 6] =
    ["funnel_stage", "offering", "intent", "opening_due", "advert_offering", "sent_flows"];

impl Case {
    /// Reads one line.
    ///
    /// # Errors
    /// What does not fit, in words for the author of the case (CASE-3).
    pub fn parse(line: &str) -> Result<Self, String> {
        let case: Self = read_line(line)?;
        if case.id.trim().is_empty() {
            return Err("`id` is empty".to_owned());
        }
        if case.text.is_empty() && !case.nudge {
            return Err("`text` is empty; only a case with `nudge` has no message".to_owned());
        }
        for (key, needles) in
            [("must_contain", &case.must_contain), ("must_not_contain", &case.must_not_contain)]
        {
            if needles.iter().any(String::is_empty) {
                return Err(format!("`{key}` holds an empty text, which stands in every reply"));
            }
        }
        Ok(case)
    }

    /// True when a word of the case holds the text, whatever its case: id, messages or criterion.
    #[must_use]
    pub fn mentions(&self, text: &str) -> bool {
        let wanted = text.to_lowercase();
        let said = self.history.iter().map(|turn| turn.text.as_str());
        let words = [self.id.as_str(), self.text.as_str()];
        let mut words = words.into_iter().chain(said).chain(self.review.as_deref());
        words.any(|word| word.to_lowercase().contains(&wanted))
    }
}

/// Reads one line of JSON; a refusal names the column and what was expected.
///
/// # Errors
/// The reason, without the parser's line number, which counts within the line.
pub(super) fn read_line<'de, T: Deserialize<'de>>(line: &'de str) -> Result<T, String> {
    serde_json::from_str(line).map_err(|error| {
        let text = error.to_string();
        let reason = text.rsplit_once(" at line ").map_or(text.as_str(), |(reason, _)| reason);
        format!("{} (column {})", plain(reason), error.column())
    })
}

/// The parser's words in those of somebody who writes JSON and no Rust.
fn plain(reason: &str) -> String {
    const WORDS: [(&str, &str); 12] = [
        ("trailing characters", "something follows the object: one case a line"),
        ("expected value", "this is no JSON"),
        ("expected ident", "this is no JSON"),
        ("invalid type: ", "found "),
        ("invalid value: ", "found "),
        ("unknown variant ", "unknown value "),
        ("a nonzero u32", "a whole number of at least 1"),
        ("a sequence", "a list"),
        ("a boolean", "true or false"),
        ("integer `0`", "0"),
        ("missing field ", "missing key "),
        ("unknown field ", "unknown key "),
    ];
    if reason.starts_with("EOF while parsing") {
        return "it ends in the middle: one case a line".to_owned();
    }
    let words = WORDS.iter().fold(reason.to_owned(), |text, (theirs, ours)| text.replace(theirs, ours));
    // `struct Case` and its like are names of ours.
    match words.split_once("struct ") {
        Some((before, _)) => format!("{before}an object in braces"),
        None => words,
    }
}

/// Keys that are ignored where they stand: misplaced ones, and those that look like ones that would assert something: a misspelt assertion is a lost one.
pub(super) fn misspelt_keys(line: &str) -> Vec<String> {
    let Ok(serde_json::Value::Object(keys)) = serde_json::from_str(line) else { return Vec::new() };
    let expect = keys.get("expect").and_then(serde_json::Value::as_object);
    let outer = keys.keys().filter_map(|key| misplaced(key).or_else(|| meant(key, &KEYS)));
    let inside = |key: &String| {
        let above = KEYS.contains(&key.as_str());
        let said = above.then(|| format!("`{key}` in `expect` is ignored; it belongs beside `expect`"));
        said.or_else(|| meant(key, &EXPECT_KEYS))
    };
    outer.chain(expect.into_iter().flat_map(|keys| keys.keys()).filter_map(inside)).collect()
}

/// A key of an inner object beside it.
fn misplaced(key: &str) -> Option<String> {
    let places: [(&str, &[&str]); 2] = [("expect", &EXPECT_KEYS), ("contact", &CONTACT_KEYS)];
    let (place, _) = places.into_iter().find(|(_, keys)| keys.contains(&key))?;
    Some(format!("`{key}` is ignored here; it belongs into `{place}`"))
}

fn meant(key: &str, known: &[&str]) -> Option<String> {
    const CLOSE: usize = 3;
    if known.contains(&key) {
        return None;
    }
    let distance = |candidate: &&&str| strsim::osa_distance(key, candidate);
    let nearest = known.iter().min_by_key(distance)?;
    let close = strsim::osa_distance(key, nearest) <= CLOSE.min(key.len() / 3);
    close.then(|| format!("`{key}` is ignored; did you mean `{nearest}`?"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(line: &str) -> String {
        Case::parse(line).unwrap_err()
    }

    /// 07 section 2, CASE-5, ACC-EV-3: the least a case holds; everything else has a default.
    #[test]
    fn a_case_needs_an_id_a_text_and_an_expectation() {
        let case = Case::parse(r#"{"id": "a", "text": "hi", "expect": {"escalate": false}}"#).unwrap();
        assert_eq!((case.history.len(), case.nudge, case.contact), (0, false, None));
        assert_eq!((case.expect.reason, case.expect.actions, case.max_lines), (None, None, None));
        for (line, named) in [
            (r#"{"text": "hi", "expect": {"escalate": false}}"#, "id"),
            (r#"{"id": "a", "expect": {"escalate": false}}"#, "text"),
            (r#"{"id": "a", "text": "hi"}"#, "expect"),
            (r#"{"id": "a", "text": "hi", "expect": {}}"#, "escalate"),
            (r#"{"id": " ", "text": "hi", "expect": {"escalate": false}}"#, "id"),
            (r#"{"id": "a", "text": "", "expect": {"escalate": false}}"#, "nudge"),
        ] {
            assert!(fault(line).contains(named), "{}", fault(line));
        }
        assert!(Case::parse(r#"{"id":"a","text":"","nudge":true,"expect":{"escalate":false}}"#).is_ok());
    }

    /// CASE-1, ACC-EV-14: unknown keys are ignored, but not in `contact`.
    #[test]
    fn unknown_keys_are_refused_in_contact_alone() {
        assert!(
            Case::parse(r#"{"id":"a","text":"b","later":1,"expect":{"escalate":true,"mood":2}}"#).is_ok()
        );
        for key in ["course", "advert_course", "stage"] {
            let line = format!(
                r#"{{"id":"a","text":"b","contact":{{"{key}":"foundation"}},"expect":{{"escalate":true}}}}"#
            );
            assert!(fault(&line).contains(key), "{}", fault(&line));
        }
    }

    /// CASE-2
    #[test]
    fn null_is_not_absent() {
        for key in [
            "history",
            "nudge",
            "contact",
            "must_contain",
            "must_end_with_question",
            "max_lines",
            "review",
            "must_not_leak_prompt",
        ] {
            let line = format!(r#"{{"id":"a","text":"b","{key}":null,"expect":{{"escalate":true}}}}"#);
            assert!(fault(&line).contains("null"), "{key}");
        }
        for key in ["reason", "actions"] {
            let line = format!(r#"{{"id":"a","text":"b","expect":{{"escalate":true,"{key}":null}}}}"#);
            assert!(fault(&line).contains("null"), "{key}");
        }
    }

    /// CASE-3: the reason says where in the line; bounds and vocabularies are checked.
    #[test]
    fn a_line_that_does_not_fit_says_where() {
        assert!(fault("{").contains("column 1"), "{}", fault("{"));
        let lines = r#"{"id":"a","text":"b","max_lines":0,"expect":{"escalate":true}}"#;
        assert!(fault(lines).contains("column"), "{}", fault(lines));
        let stage = r#"{"id":"a","text":"b","contact":{"funnel_stage":"sold"},"expect":{"escalate":true}}"#;
        assert!(fault(stage).contains("sold"), "{}", fault(stage));
        let role =
            r#"{"id":"a","text":"b","history":[{"role":"bot","text":"c"}],"expect":{"escalate":true}}"#;
        assert!(fault(role).contains("bot"), "{}", fault(role));
    }

    /// CASE-3: whoever writes a case reads no Rust.
    #[test]
    fn a_fault_is_said_in_plain_words() {
        for (line, said) in [
            ("3", "an object in braces"),
            (r#"{"id":"a","#, "it ends in the middle: one case a line"),
            (
                r#"{"id":"a","text":"b","expect":{"escalate":true}} {}"#,
                "something follows the object: one case a line",
            ),
            (
                r#"{"id":"a","text":"b","max_lines":0,"expect":{"escalate":true}}"#,
                "a whole number of at least 1",
            ),
            (r#"{"id":"a","text":"b","must_contain":"c","expect":{"escalate":true}}"#, "expected a list"),
            (r#"{"id":"a","text":"b","expect":{"escalate":"yes"}}"#, "expected true or false"),
            (r#"{"id":"a","text":"b","expect":3}"#, "an object in braces"),
            ("nonsense", "this is no JSON"),
        ] {
            let fault = fault(line);
            assert!(fault.contains(said), "{fault}");
            for theirs in ["struct", "u32", "EOF", "sequence", "ident", "boolean"] {
                assert!(!fault.contains(theirs), "{fault}");
            }
        }
    }

    /// A needle that is in every reply, or forbids every one, is no assertion.
    #[test]
    fn an_empty_needle_is_refused() {
        for key in ["must_contain", "must_not_contain"] {
            let line = format!(r#"{{"id":"a","text":"b","{key}":["x",""],"expect":{{"escalate":true}}}}"#);
            assert!(fault(&line).contains(key), "{}", fault(&line));
        }
    }

    /// An assertion in the wrong place asserts nothing.
    #[test]
    fn a_misplaced_key_is_named() {
        let line =
            r#"{"id":"a","reason":"complaint","intent":"prospect","expect":{"escalate":true,"max_lines":2}}"#;
        let said = misspelt_keys(line);
        assert_eq!(said.len(), 3, "{said:?}");
        for part in [
            "`reason` is ignored here; it belongs into `expect`",
            "`intent` is ignored here; it belongs into `contact`",
            "`max_lines` in `expect` is ignored",
        ] {
            assert!(said.iter().any(|said| said.contains(part)), "{part} in {said:?}");
        }
    }

    /// A lost assertion is said, a key of somebody's own is not.
    #[test]
    fn a_misspelt_assertion_is_named() {
        let line = r#"{"id":"a","must_contains":["x"],"owner":"me","note":"y","expect":{"escalated":true}}"#;
        let said = misspelt_keys(line);
        assert_eq!(said.len(), 2, "{said:?}");
        assert!(said[0].contains("must_contain`") && said[1].contains("`escalate`"), "{said:?}");
    }
}
