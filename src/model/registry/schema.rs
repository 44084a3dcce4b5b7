//! The schemas of the reply and of the tools as each provider accepts them.

use serde_json::{Map, Value};

use super::wire::Wire;

/// Keywords that bound a value. Where a provider refuses one it moves into the description, for the model to read;
/// the answer is checked here in any case (REP-5).
const BOUNDS: [&str; 6] = ["minLength", "maxLength", "minItems", "maxItems", "minimum", "maximum"];

/// Keywords that some provider refuses and that a model can read as well: they move into the description.
const TOLD: [&str; 6] =
    ["format", "pattern", "multipleOf", "exclusiveMinimum", "exclusiveMaximum", "uniqueItems"];

/// Keywords that some provider refuses and that say nothing to a model.
const DROPPED: [&str; 16] = [
    "$schema",
    "$id",
    "$comment",
    "title",
    "examples",
    "default",
    "allOf",
    "not",
    "if",
    "then",
    "else",
    "dependentRequired",
    "dependentSchemas",
    "patternProperties",
    "propertyNames",
    "unevaluatedProperties",
];

/// `schema` without what `wire` refuses: keywords it does not know, and objects that are open to further keys. Every
/// answer and every call is checked here in any case (REP-5, TSET-14).
pub(super) fn safe(wire: Wire, schema: &Value) -> Value {
    match schema {
        Value::Object(members) => Value::Object(safe_object(wire, members)),
        other => other.clone(),
    }
}

/// `schema` with every property required, as strict tools must have it: one that was not may be null instead.
pub(super) fn all_required(mut schema: Value) -> Value {
    let required = schema.get("required").cloned().unwrap_or_default();
    let names = required.as_array().map(Vec::as_slice).unwrap_or_default();
    let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) else { return schema };
    for (name, property) in properties.iter_mut() {
        if !names.iter().any(|required| required == name) {
            allow_null(property);
        }
    }
    let all: Vec<Value> = properties.keys().map(|name| name.as_str().into()).collect();
    if let Some(members) = schema.as_object_mut() {
        members.insert("required".to_owned(), all.into());
    }
    schema
}

/// Whether an object's schema requires a property.
pub(super) fn requires(schema: &Value, name: &str) -> bool {
    let required = schema.get("required").and_then(Value::as_array);
    required.is_some_and(|names| names.iter().any(|required| required == name))
}

fn allow_null(property: &mut Value) {
    if let Some(kind) = property.get_mut("type")
        && kind.is_string()
    {
        *kind = Value::Array(vec![kind.take(), "null".into()]);
    }
    if let Some(values) = property.get_mut("enum").and_then(Value::as_array_mut)
        && !values.contains(&Value::Null)
    {
        values.push(Value::Null);
    }
}

fn safe_object(wire: Wire, members: &Map<String, Value>) -> Map<String, Value> {
    let mut kept = Map::new();
    let mut told = Vec::new();
    for (keyword, value) in members {
        let word = keyword.as_str();
        if TOLD.contains(&word) || (BOUNDS.contains(&word) && !accepts(wire, word, value)) {
            told.push(format!("{keyword}: {value}"));
        } else if word == "const" {
            kept.insert("enum".to_owned(), Value::Array(vec![value.clone()]));
        } else if !DROPPED.contains(&word) {
            let name = if word == "oneOf" { "anyOf" } else { word };
            kept.insert(name.to_owned(), safe_member(wire, word, value));
        }
    }
    if kept.contains_key("properties") {
        kept.insert("additionalProperties".to_owned(), Value::Bool(false));
    }
    if !told.is_empty() {
        let before = kept.get("description").and_then(Value::as_str).unwrap_or_default();
        let described = format!("{before} ({})", told.join(", "));
        kept.insert("description".to_owned(), described.trim_start().into());
    }
    kept
}

fn safe_member(wire: Wire, keyword: &str, value: &Value) -> Value {
    match (keyword, value) {
        ("properties" | "$defs" | "definitions", Value::Object(named)) => {
            Value::Object(named.iter().map(|(name, schema)| (name.clone(), safe(wire, schema))).collect())
        }
        ("anyOf" | "oneOf", Value::Array(schemas)) => {
            Value::Array(schemas.iter().map(|schema| safe(wire, schema)).collect())
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

    /// RUN-4: keywords that one provider or another refuses are told in words, renamed or left out, at every depth.
    #[test]
    fn keywords_that_are_refused_are_gone() {
        let schema = json!({
            "$schema": "https://json-schema.org/draft/2020-12/schema", "title": "Room", "type": "object",
            "properties": {
                "room": { "oneOf": [{ "const": "blue" }, { "type": "string", "format": "uuid" }] },
                "seats": { "type": "integer", "multipleOf": 2, "default": 4, "description": "how many" },
            },
            "required": ["room"], "allOf": [{ "not": { "type": "null" } }],
        });
        let expected = json!({
            "type": "object",
            "properties": {
                "room": { "anyOf": [
                    { "enum": ["blue"] }, { "type": "string", "description": "(format: \"uuid\")" },
                ] },
                "seats": { "type": "integer", "description": "how many (multipleOf: 2)" },
            },
            "required": ["room"], "additionalProperties": false,
        });
        for wire in [Wire::Anthropic, Wire::OpenAi, Wire::Google, Wire::Ollama] {
            assert_eq!(safe(wire, &schema), expected, "{wire:?}");
        }
    }

    /// RUN-4: strict tools have no optional parameter; null stands for one that is left out.
    #[test]
    fn optional_parameters_become_nullable() {
        let schema = json!({
            "type": "object",
            "properties": {
                "flow": { "type": "string", "enum": ["a"] },
                "asked": { "type": "boolean" },
                "day": { "type": "string", "enum": ["x"] },
            },
            "required": ["flow"],
        });
        let strict = all_required(schema.clone());
        assert_eq!(strict["required"], json!(["flow", "asked", "day"]));
        assert_eq!(strict["properties"]["flow"], schema["properties"]["flow"]);
        assert_eq!(strict["properties"]["asked"]["type"], json!(["boolean", "null"]));
        assert_eq!(strict["properties"]["day"], json!({ "type": ["string", "null"], "enum": ["x", null] }));
        assert!(requires(&schema, "flow") && !requires(&schema, "asked"));
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
