//! `PRICING_OVERRIDES`: rows of the price table from the environment (USE-6).

use serde_json::Value;

use super::ModelName;
use super::files::{Object, Report, Spot, number};
use super::variables::Variables;

const NAME: &str = "PRICING_OVERRIDES";
const REQUIRED: &[&str] = &["input", "output", "cacheRead"];
const CACHE_WRITE: &str = "cacheWrite";
const ROW: &[&str] = &["input", "output", "cacheRead", CACHE_WRITE];
/// US dollars per million tokens; more than any model costs, and exact in every later computation.
const MOST_DOLLARS: f64 = 1_000_000.0;

/// A JSON object, model name → `{"input", "output", "cacheRead", "cacheWrite"}` in US dollars per million tokens; the last
/// may be left out. Unset and blank mean no overrides.
pub(super) fn overrides(vars: &mut Variables<'_>) -> Option<Option<Value>> {
    let Some(text) = vars.filled(NAME) else { return Some(None) };
    let root: Value = match serde_json::from_str(text) {
        Ok(root) => root,
        Err(error) => return vars.refuse(NAME, format!("is not valid JSON: {error}")),
    };
    let mut report = Report::new(NAME);
    check(&root, &mut report);
    if !report.faults.is_empty() {
        let faults = report.faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
        return vars.refuse(NAME, faults);
    }
    Some(Some(root))
}

fn check(root: &Value, report: &mut Report) {
    let Some(table) = Object::any(&Spot::root(root), report) else { return };
    for (model, spot) in table.entries() {
        if let Err(error) = model.parse::<ModelName>() {
            report.fault(&spot.path, error.to_string());
        }
        let Some(row) = Object::open_strict(&spot, ROW, report) else { continue };
        for price in REQUIRED {
            row.required(price, report, number(0.0..=MOST_DOLLARS));
        }
        row.optional(CACHE_WRITE, report, number(0.0..=MOST_DOLLARS));
    }
}
