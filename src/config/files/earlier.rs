//! Keys of earlier shapes of the files (LOAD-20, LOAD-21). They are refused by name before the shape is checked
//! and never read through an alias.

use serde_json::Value;

use super::{CATALOG_FILE, RULES_FILE, TOOLS_FILE};

/// The keys of an earlier shape that `file` still carries, as the message shows them.
pub(in crate::config) fn earlier_keys(file: &str, root: &Value) -> Vec<String> {
    match file {
        CATALOG_FILE => catalog(root),
        TOOLS_FILE => tools(root),
        RULES_FILE => rules(root),
        _ => Vec::new(),
    }
}

fn catalog(root: &Value) -> Vec<String> {
    let mut found = Vec::new();
    if root.get("courses").is_some() {
        found.push("courses".to_owned());
    }
    for list in ["offerings", "courses"] {
        found.extend(entries_with(root, list, "enrollmentUrl"));
    }
    found
}

fn tools(root: &Value) -> Vec<String> {
    ["fields", "flows"].into_iter().flat_map(|list| entries_with(root, list, "course")).collect()
}

fn rules(root: &Value) -> Vec<String> {
    let tag = root.get("learning").and_then(|learning| learning.get("enrolledTag"));
    tag.map(|_| "learning.enrolledTag".to_owned()).into_iter().collect()
}

/// `list[<id>].key` for each entry that has the key; the position stands in for an entry without an id.
fn entries_with(root: &Value, list: &str, key: &str) -> Vec<String> {
    let entries = root.get(list).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let named =
        entries.iter().enumerate().filter(|(_, entry)| entry.get(key).is_some()).map(|(at, entry)| {
            let id = entry.get("id").and_then(Value::as_str).map_or_else(|| at.to_string(), str::to_owned);
            format!("{list}[{id}].{key}")
        });
    named.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// LOAD-20, LOAD-21: old keys are found even beside the new ones, whatever their value.
    #[test]
    fn keys_of_earlier_shapes_are_named() {
        let catalog = json!({ "courses": [{ "id": "a", "enrollmentUrl": "https://x.example" }], "offerings": [{ "enrollmentUrl": null }] });
        assert_eq!(
            earlier_keys(CATALOG_FILE, &catalog),
            ["courses", "offerings[0].enrollmentUrl", "courses[a].enrollmentUrl"]
        );
        let tools = json!({ "fields": [{ "id": "course", "course": true }], "flows": [{ "id": "leaflet", "course": "a" }] });
        assert_eq!(earlier_keys(TOOLS_FILE, &tools), ["fields[course].course", "flows[leaflet].course"]);
        let rules = json!({ "learning": { "enrolledTag": "paid" } });
        assert_eq!(earlier_keys(RULES_FILE, &rules), ["learning.enrolledTag"]);
    }

    /// A field whose id is `course` keeps it (CLI-73), and odd shapes are left to the next check.
    #[test]
    fn current_shapes_and_odd_ones_name_nothing() {
        for value in [
            json!({ "fields": [{ "id": "course" }] }),
            json!([]),
            json!(null),
            json!({ "flows": { "course": 1 } }),
        ] {
            assert!(earlier_keys(TOOLS_FILE, &value).is_empty(), "{value}");
        }
    }
}
