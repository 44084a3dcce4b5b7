//! What the mock model sees of a request: the contact's words, what the server says it knows, what is offered, and what
//! this turn has called so far (MOCK-4, MOCK-5, STATE-1).

use serde_json::Value;

use super::matching::{Heard, OFFERINGS};
use super::note::Note;
use crate::domain::{Intent, Stage};
use crate::model::port::{MessageRole, ModelMessage, ModelRequest, Part, ToolCall, ToolResult};
use crate::model::prompt::PAYMENT_OPTIONS;
use crate::tools::ToolDefinition;

/// How the server's note of a follow-up turn begins (PROMPT-15).
const FOLLOW_UP: &str = "[no reply from the contact since ";

/// One request, read.
pub struct Scene<'a> {
    /// The words the table goes by.
    pub heard: Heard,
    /// Whether the contact wrote or said anything; a picture and a follow-up have no words.
    pub has_words: bool,
    /// MOCK-8
    pub image_only: bool,
    /// A turn the service started (MOCK-16).
    pub follow_up: bool,
    /// The contact's last words before this turn.
    pub before: Option<Heard>,
    /// What the server knows.
    pub state: State,
    /// What may be called; nothing in the reply step.
    pub tools: &'a [ToolDefinition],
    /// What this turn has called, oldest first.
    pub called: Vec<&'a ToolCall>,
    /// What came of it.
    pub results: Vec<&'a ToolResult>,
    /// The server's note of the reply step (STATE-7).
    pub note: Option<Note>,
}

/// The state lines of the turn (STATE-1 to STATE-4).
#[derive(Default)]
pub struct State {
    /// Recorded intent.
    pub intent: Option<Intent>,
    /// The contact came through an advert that the server knows.
    pub advert: bool,
    /// Recorded stage.
    pub stage: Option<Stage>,
    /// Whether the tenant has an offering field: then the line is there.
    pub has_offering_line: bool,
    /// Recorded offering.
    pub offering: Option<&'static str>,
}

impl<'a> Scene<'a> {
    /// Reads a request.
    pub fn of(request: &'a ModelRequest) -> Self {
        let messages = &request.messages;
        let last = messages.iter().rposition(|message| message.role == MessageRole::User);
        let (earlier, turn) = messages.split_at(last.unwrap_or(0));
        let parts = turn.first().map_or(&[][..], |message| message.parts.as_slice());
        let has_payment_options = request.system.split('\n').any(|line| line == PAYMENT_OPTIONS);
        let said = parts.iter().any(|part| matches!(part, Part::Contact(_)));
        let pictured = parts.iter().any(|part| matches!(part, Part::Image(_)));
        Self {
            heard: Heard::new(&words(parts), has_payment_options),
            has_words: said,
            image_only: pictured && !said,
            follow_up: texts(parts).any(|text| text.starts_with(FOLLOW_UP)),
            before: last_words(earlier).map(|text| Heard::new(text, has_payment_options)),
            state: State::of(parts),
            tools: &request.tools,
            called: calls(turn).collect(),
            results: results(turn).collect(),
            note: turn.iter().rev().find(|message| message.role == MessageRole::StepNote).map(Note::of),
        }
    }

    /// The choices that a parameter of an offered tool enumerates (MOCK-9).
    pub fn choices(&self, tool: &str, parameter: &str) -> Vec<&'a str> {
        let schema = self.parameter(tool, parameter).and_then(|schema| schema.get("enum"));
        let choices = schema.and_then(Value::as_array).into_iter().flatten();
        choices.filter_map(Value::as_str).collect()
    }

    /// The schema of a parameter, where the offered tool has it.
    pub fn parameter(&self, tool: &str, parameter: &str) -> Option<&'a Value> {
        let tool = self.tools.iter().find(|offered| offered.name == tool)?;
        tool.parameters.get("properties")?.get(parameter)
    }
}

/// MOCK-4: the fenced parts if any, else all text parts, joined by spaces.
fn words(parts: &[Part]) -> String {
    let fenced: Vec<&str> = parts.iter().filter_map(fenced_words).collect();
    if fenced.is_empty() {
        return texts(parts).collect::<Vec<_>>().join(" ");
    }
    fenced.join(" ")
}

fn fenced_words(part: &Part) -> Option<&str> {
    match part {
        Part::Contact(fenced) => Some(fenced.inner()),
        Part::Text(_) | Part::Image(_) | Part::Calls(_) | Part::Result(_) => None,
    }
}

fn texts(parts: &[Part]) -> impl Iterator<Item = &str> {
    parts.iter().filter_map(Part::as_text)
}

fn last_words(messages: &[ModelMessage]) -> Option<&str> {
    messages.iter().rev().flat_map(|message| message.parts.iter().rev()).find_map(fenced_words)
}

fn calls(turn: &[ModelMessage]) -> impl Iterator<Item = &ToolCall> {
    let parts = turn.iter().flat_map(|message| &message.parts);
    parts.filter_map(|part| if let Part::Calls(calls) = part { Some(&calls.calls) } else { None }).flatten()
}

fn results(turn: &[ModelMessage]) -> impl Iterator<Item = &ToolResult> {
    let parts = turn.iter().flat_map(|message| &message.parts);
    parts.filter_map(|part| if let Part::Result(result) = part { Some(result) } else { None })
}

impl State {
    fn of(parts: &[Part]) -> Self {
        let line = |label: &str| texts(parts).find_map(|text| text.strip_prefix(label));
        let intent = line("INTENT:");
        let offering = line("OFFERING:");
        Self {
            intent: intent.and_then(recorded_intent),
            advert: intent.is_some_and(|line| line.contains("advert")),
            stage: line("FUNNEL:")
                .and_then(|line| line.split(between_words).find_map(|word| word.parse().ok())),
            has_offering_line: offering.is_some(),
            offering: offering.and_then(last_offering),
        }
    }
}

/// STATE-3: the three forms of the line. Both open ones may invite to record prospect, so the word alone proves nothing.
fn recorded_intent(line: &str) -> Option<Intent> {
    if line.contains("(not_prospect)") {
        return Some(Intent::NotProspect);
    }
    let is_open = line.contains("nothing") || line.contains("record prospect");
    (!is_open && line.contains(Intent::Prospect.as_str())).then_some(Intent::Prospect)
}

fn between_words(character: char) -> bool {
    !character.is_ascii_alphanumeric() && character != '_'
}

/// STATE-4: a line that tells of a change names the old one first.
fn last_offering(line: &str) -> Option<&'static str> {
    let ids = OFFERINGS.iter().filter_map(|(_, id)| Some((line.rfind(id)?, *id)));
    ids.max().map(|(_, id)| id)
}
