//! Tools of a tenant's own that look something up, and what the mock model makes of their answer (MOCK-13). This version
//! loads no such tool; the rules stand for whoever adds one.

use serde_json::{Map, Value, json};

use super::scene::Scene;
use super::wishes::Wish;
use crate::tools::ToolDefinition;

/// How the last line of a read tool's description begins (EXT-407).
pub const MARK: &str = "Comes back:";
const ASKED: &[&str] = &["room", "seat", "seats", "space", "start", "next intake"];

/// What was looked up.
pub enum Found {
    /// So many places are left.
    Seats(f64),
    /// No number of places.
    Nothing,
}

/// The lookup that the message asks for, where a tool for it is offered.
pub fn wish(scene: &Scene<'_>) -> Option<Wish> {
    let tool = scene.tools.iter().find(|tool| is_lookup(tool))?;
    let asks = scene.has_words && scene.heard.any_word(ASKED);
    asks.then(|| Wish::lookup(tool.name, arguments(scene, tool)))
}

/// What this turn's lookup found; `None` when there was none. In the reply step the server's note holds it (EXT-410).
pub fn found(scene: &Scene<'_>) -> Option<Found> {
    if let Some(seats) = scene.note.as_ref().and_then(|note| note.seats_left) {
        return Some(Found::Seats(seats));
    }
    let looks_up = |name: &str| scene.tools.iter().any(|tool| tool.name == name && is_lookup(tool));
    let result = scene.results.iter().find(|result| looks_up(&result.name))?;
    let fields = result.content.get("fields").unwrap_or(&result.content);
    let seats = fields.get("seatsLeft").and_then(Value::as_f64);
    Some(seats.map_or(Found::Nothing, Found::Seats))
}

fn is_lookup(tool: &ToolDefinition) -> bool {
    tool.description.lines().last().is_some_and(|line| line.starts_with(MARK))
}

/// Each enumerated parameter takes the value that the message names, or its first.
fn arguments(scene: &Scene<'_>, tool: &ToolDefinition) -> Value {
    let properties = tool.parameters.get("properties").and_then(Value::as_object);
    let mut arguments = Map::new();
    for name in properties.into_iter().flat_map(Map::keys) {
        let values = scene.choices(tool.name, name);
        let named = values.iter().find(|value| scene.heard.any(&[value.to_lowercase().as_str()]));
        if let Some(value) = named.or(values.first()) {
            arguments.insert(name.clone(), json!(value));
        }
    }
    Value::Object(arguments)
}
