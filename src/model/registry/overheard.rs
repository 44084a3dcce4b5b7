//! A provider's own words about a failure, for the operator's terminal in `agent model check` and for nothing else:
//! they can quote the request, so no log and no error of a turn may have them (FAIL-17).

use std::error::Error;
use std::sync::{Mutex, PoisonError};

use genai::chat::ChatResponse;
use genai::webc;
use serde_json::Value;

/// Longest text that is kept, in characters.
const LONGEST: usize = 600;
/// A piece of the key from this length on is taken out. Providers quote its beginning and its end.
const SHORTEST_PIECE: usize = 5;
/// Where providers say what went wrong, or why an answer holds nothing.
const PLACES: [&str; 11] = [
    "/error/message",
    "/0/error/message",
    "/error",
    "/message",
    "/detail",
    "/choices/0/message/refusal",
    "/promptFeedback/blockReason",
    "/candidates/0/finishMessage",
    "/candidates/0/finishReason",
    "/stop_reason",
    "/choices/0/finish_reason",
];

/// How answers end that the provider has nothing to say about.
const ORDINARY_ENDS: [&str; 5] = ["end_turn", "tool_use", "stop", "tool_calls", "STOP"];

/// Keeps the last words.
pub(super) struct Overheard {
    key: String,
    words: Mutex<Option<String>>,
}

impl Overheard {
    /// Never shows `key` or a piece of it.
    pub(super) fn new(key: &str) -> Self {
        Self { key: key.to_owned(), words: Mutex::default() }
    }

    /// Hears what came of a request.
    pub(super) fn listen(&self, outcome: &Result<ChatResponse, genai::Error>) {
        let words = match outcome {
            Ok(response) => response.captured_raw_body.as_ref().and_then(in_body),
            Err(genai::Error::ChatResponseGeneration { response_body, .. }) => in_body(response_body),
            Err(genai::Error::WebModelCall { webc_error, .. }) => in_error(webc_error),
            // Others are made before anything is sent and can hold the request.
            Err(_) => None,
        };
        let words = words.map(|words| self.without_key(&words).chars().take(LONGEST).collect());
        *self.words.lock().unwrap_or_else(PoisonError::into_inner) = words;
    }

    /// The last words, once.
    pub(super) fn take(&self) -> Option<String> {
        self.words.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// `words` with `[key]` for every run of characters that stands in the key as well.
    fn without_key(&self, words: &str) -> String {
        let letters: Vec<char> = words.chars().collect();
        let mut clean = String::with_capacity(words.len());
        let mut at = 0;
        while let Some(letter) = letters.get(at) {
            match self.piece_at(letters.get(at..).unwrap_or_default()) {
                0 => {
                    clean.push(*letter);
                    at += 1;
                }
                length => {
                    clean.push_str("[key]");
                    at += length;
                }
            }
        }
        clean
    }

    /// How many of the letters, from the first on, are a piece of the key; 0 for fewer than [`SHORTEST_PIECE`].
    fn piece_at(&self, letters: &[char]) -> usize {
        let mut piece = String::new();
        let mut length = 0;
        for letter in letters {
            piece.push(*letter);
            if !self.key.contains(&piece) {
                break;
            }
            length += 1;
        }
        if length >= SHORTEST_PIECE { length } else { 0 }
    }
}

fn in_body(body: &Value) -> Option<String> {
    let words = PLACES.iter().find_map(|place| body.pointer(place)?.as_str())?;
    (!ORDINARY_ENDS.contains(&words)).then(|| said(words))
}

fn said(words: &str) -> String {
    format!("the provider says: {words}")
}

fn in_error(error: &webc::Error) -> Option<String> {
    match error {
        webc::Error::ResponseFailedStatus { body, .. } => {
            let parsed = serde_json::from_str(body).ok();
            parsed
                .as_ref()
                .and_then(in_body)
                .or_else(|| Some(body.trim()).filter(|text| !text.is_empty()).map(said))
        }
        webc::Error::ResponseFailedNotJson { content_type, .. } => Some(format!(
            "the answer has the type {content_type:?} and is not JSON: is this the address of an API?"
        )),
        webc::Error::ResponseFailedInvalidJson { cause, .. } => {
            Some(format!("the answer is broken JSON: {cause}"))
        }
        webc::Error::Reqwest(cause) => Some(format!("the connection failed: {}", innermost(cause))),
        _ => None,
    }
}

/// What the system says; the outer errors only repeat the address, which can hold a password.
fn innermost(error: &reqwest::Error) -> String {
    let mut cause: &dyn Error = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    if cause.source().is_none() && cause.to_string() == error.to_string() {
        return "the connection broke".to_owned();
    }
    cause.to_string()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// ENV-26: neither the key nor the pieces that providers quote of it are shown.
    #[test]
    fn the_key_is_taken_out() {
        let overheard = Overheard::new("sk-proj-abcdefghij1234");
        let cases = [
            ("Incorrect API key provided: sk-proj-abcdefghij1234.", "Incorrect API key provided: [key]."),
            ("key sk-pr***********1234 is wrong", "key [key]***********1234 is wrong"),
            ("bearer=abcdefghij", "bearer=[key]"),
            ("no key here", "no key here"),
        ];
        for (words, expected) in cases {
            assert_eq!(overheard.without_key(words), expected);
        }
        assert_eq!(Overheard::new("").without_key("all of it"), "all of it");
    }

    /// The words stand in different places.
    #[test]
    fn the_words_of_every_provider_are_found() {
        let cases = [
            (json!({ "error": { "message": "a", "type": "t" } }), Some("a")),
            (json!([{ "error": { "message": "b" } }]), Some("b")),
            (json!({ "error": "c" }), Some("c")),
            (json!({ "stop_reason": "refusal", "content": [] }), Some("refusal")),
            (json!({ "choices": [{ "finish_reason": "stop", "message": { "refusal": "d" } }] }), Some("d")),
            (json!({ "promptFeedback": { "blockReason": "SAFETY" } }), Some("SAFETY")),
            (json!({ "stop_reason": "end_turn" }), None),
            (json!({}), None),
        ];
        for (body, expected) in cases {
            assert_eq!(in_body(&body), expected.map(said), "{body}");
        }
    }
}
