//! The reply schema as each provider accepts it.

use serde_json::{Map, Value};

use super::wire::Wire;

/// Keywords that bound a value. Where a provider refuses one it moves into the description, for the model to read;
/// the answer is checked here in any case (REP-5).
const BOUNDS: [&str; 6] = ["minLength", "maxLength", "minItems", "maxItems", "minimum", "maximum"];

/// `schema` without what `wire` refuses: bounds it does not know, and objects that are open to further keys.
pub(super) fn safe(wire: Wire, schema: &Value) -> Value {
    match schema {
        Value::Object(members) => Value::Object(safe_object(wire, members)),
        other => other.clone(),
    }
}

fn safe_object(wire: Wire, members: &Map<String, Value>) -> Map<String, Value> {
    let mut kept = Map::new();
    let mut moved = Vec::new();
    for (keyword, value) in members {
        if BOUNDS.contains(&keyword.as_str()) && !accepts(wire, keyword, value) {
            moved.push(format!("{keyword}: {value}"));
        } else {
            kept.insert(keyword.clone(), safe_member(wire, keyword, value));
        }
    }
    if kept.contains_key("properties") {
        kept.insert("additionalProperties".to_owned(), Value::Bool(false));
    }
    if !moved.is_empty() {
        let before = kept.get("description").and_then(Value::as_str).unwrap_or_default();
        let described = format!("{before} ({})", moved.join(", "));
        kept.insert("description".to_owned(), described.trim_start().into());
    }
    kept
}

fn safe_member(wire: Wire, keyword: &str, value: &Value) -> Value {
    match (keyword, value) {
        ("properties", Value::Object(properties)) => {
            let safe_properties = properties.iter().map(|(name, schema)| (name.clone(), safe(wire, schema)));
            Value::Object(safe_properties.collect())
        }
        ("items", schema) => safe(wire, schema),
        _ => value.clone(),
    }
}

/// Anthropic compiles a grammar that knows no bound but "not empty"; the others know those of lists and numbers.
fn accepts(wire: Wire, keyword: &str, value: &Value) -> bool {
    match wire {
        Wire::Anthropic => keyword == "minItems" && value.as_u64().is_some_and(|least| least <= 1),
        Wire::OpenAi | Wire::Google | Wire::Ollama => !matches!(keyword, "minLength" | "maxLength"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::model::reply;

    /// REP-4: what a provider refuses is told in words instead; nothing is lost and nothing else changes.
    #[test]
    fn refused_bounds_move_into_the_description() {
        let schema = json!({
            "type": "array", "minItems": 1, "maxItems": 3, "description": "texts",
            "items": { "type": "string", "minLength": 1, "maxLength": 9 },
        });
        let anthropic = json!({
            "type": "array", "minItems": 1, "description": "texts (maxItems: 3)",
            "items": { "type": "string", "description": "(minLength: 1, maxLength: 9)" },
        });
        let others = json!({
            "type": "array", "minItems": 1, "maxItems": 3, "description": "texts",
            "items": { "type": "string", "description": "(minLength: 1, maxLength: 9)" },
        });
        assert_eq!(safe(Wire::Anthropic, &schema), anthropic);
        for wire in [Wire::OpenAi, Wire::Google, Wire::Ollama] {
            assert_eq!(safe(wire, &schema), others, "{wire:?}");
        }
    }

    /// REP-1, REP-4, REP-7: every provider gets all five fields, required, nullable where they are, and closed.
    #[test]
    fn the_reply_keeps_its_fields() {
        for wire in [Wire::Anthropic, Wire::OpenAi, Wire::Google, Wire::Ollama] {
            let schema = safe(wire, &reply::schema());
            assert_eq!(schema["required"], json!(reply::FIELDS), "{wire:?}");
            assert_eq!(schema["additionalProperties"], json!(false), "{wire:?}");
            let properties = schema["properties"].as_object().unwrap();
            assert_eq!(properties.len(), reply::FIELDS.len(), "{wire:?}");
            assert_eq!(properties["closing_question"]["type"], json!(["string", "null"]));
            assert!(properties["escalation_reason"]["enum"].as_array().unwrap().contains(&Value::Null));
            let guide = properties["closing_question"]["description"].as_str().unwrap();
            assert!(guide.starts_with(reply::CLOSING_QUESTION_GUIDE), "{wire:?}: {guide}");
        }
    }

    /// A property may be called like a keyword.
    #[test]
    fn a_property_named_like_a_bound_stays() {
        let schema =
            json!({ "type": "object", "properties": { "minimum": { "type": "number", "minimum": 0 } } });
        let safe = safe(Wire::Anthropic, &schema);
        assert_eq!(safe["properties"]["minimum"]["description"], json!("(minimum: 0)"));
    }
}
