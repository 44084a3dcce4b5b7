//! Parsers of single values. Each takes a place and the report, and returns `None` after recording why.

use std::ops::RangeInclusive;

use serde_json::Value;

use super::check::{Report, Spot, kind};

/// The largest integer a tenant file may hold, 2^53 − 1 (LOAD-13).
pub(super) const MAX_INTEGER: u64 = 9_007_199_254_740_991;

/// Any text, the empty one too. Nothing is trimmed (LOAD-16).
pub(super) fn text(spot: &Spot<'_>, report: &mut Report) -> Option<String> {
    match spot.value {
        Value::String(text) if text.contains('\0') => {
            report.refuse(&spot.path, "contains the character U+0000, which the database cannot hold")
        }
        Value::String(text) => Some(text.clone()),
        other => report.refuse(&spot.path, format!("must be text, not {}", kind(other))),
    }
}

/// Text of at least one character; one space is enough (LOAD-16).
pub(super) fn filled(spot: &Spot<'_>, report: &mut Report) -> Option<String> {
    let found = text(spot, report)?;
    if found.is_empty() { report.refuse(&spot.path, "must have at least one character") } else { Some(found) }
}

/// Exactly three characters, in UTF-16 units; case and existence are not checked (LOAD-17).
pub(super) fn currency(spot: &Spot<'_>, report: &mut Report) -> Option<String> {
    let found = text(spot, report)?;
    if found.encode_utf16().count() == 3 {
        Some(found)
    } else {
        report.refuse(&spot.path, "must be a currency code of exactly three characters, for example USD")
    }
}

/// An id the model may see: `^[a-z0-9][a-z0-9_-]*$` (TOOL-2).
pub(super) fn id(spot: &Spot<'_>, report: &mut Report) -> Option<String> {
    let found = text(spot, report)?;
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let starts_well = found.bytes().next().is_some_and(plain);
    if starts_well && found.bytes().all(|byte| plain(byte) || byte == b'_' || byte == b'-') {
        Some(found)
    } else {
        let rule = "must start with a small letter or a digit and go on with small letters, digits, _ and -";
        report.refuse(&spot.path, rule)
    }
}

/// An absolute URL of any scheme; others than http and https load with a warning (GAP-CFG-2).
pub(super) fn web_address(spot: &Spot<'_>, report: &mut Report) -> Option<String> {
    let found = text(spot, report)?;
    match url::Url::parse(&found) {
        Ok(_) => Some(found),
        Err(error) => report.refuse(&spot.path, format!("must be an absolute URL ({error})")),
    }
}

/// `true` or `false`.
pub(super) fn flag(spot: &Spot<'_>, report: &mut Report) -> Option<bool> {
    match spot.value {
        Value::Bool(flag) => Some(*flag),
        other => report.refuse(&spot.path, format!("must be true or false, not {}", kind(other))),
    }
}

/// Nothing but the literal `true`.
pub(super) fn literally_true(spot: &Spot<'_>, report: &mut Report) -> Option<()> {
    match spot.value {
        Value::Bool(true) => Some(()),
        _ => report.refuse(&spot.path, "must be true: a note is for colleagues and no contact ever reads it"),
    }
}

/// A whole number by value: `45000`, `45000.0` and `4.5e4` are the same (LOAD-13).
pub(super) fn whole(bounds: RangeInclusive<u64>) -> impl Fn(&Spot<'_>, &mut Report) -> Option<u64> {
    move |spot, report| {
        let found = integer(spot, report)?;
        match u64::try_from(found) {
            Ok(found) if bounds.contains(&found) => Some(found),
            _ => report.refuse(&spot.path, range_reason(*bounds.start(), *bounds.end())),
        }
    }
}

/// As [`whole`], from 1. What is above `most` would overflow counters or time arithmetic and never be reached:
/// it is read as `most`, with a warning, so that a file with "no limit" as a huge number still loads.
pub(super) fn counted<T>(most: T) -> impl Fn(&Spot<'_>, &mut Report) -> Option<T>
where
    T: Copy + Into<u64> + TryFrom<u64>,
{
    move |spot, report| {
        let found = whole(1..=MAX_INTEGER)(spot, report)?;
        if found > most.into() {
            report.warn(&spot.path, format!("is larger than {} and is read as that", most.into()));
        }
        Some(T::try_from(found.min(most.into())).unwrap_or(most))
    }
}

/// A whole number within bounds that fit the smaller type.
pub(super) fn small<T>(bounds: RangeInclusive<T>) -> impl Fn(&Spot<'_>, &mut Report) -> Option<T>
where
    T: Copy + Into<u64> + TryFrom<u64>,
{
    move |spot, report| {
        let found = whole((*bounds.start()).into()..=(*bounds.end()).into())(spot, report)?;
        T::try_from(found).ok()
    }
}

/// A number within inclusive bounds.
pub(in crate::config) fn number(
    bounds: RangeInclusive<f64>,
) -> impl Fn(&Spot<'_>, &mut Report) -> Option<f64> {
    move |spot, report| {
        let found = any_number(spot, report)?;
        if bounds.contains(&found) {
            Some(found)
        } else {
            report.refuse(&spot.path, format!("must be from {} to {}", bounds.start(), bounds.end()))
        }
    }
}

/// A number above zero.
pub(super) fn above_zero(spot: &Spot<'_>, report: &mut Report) -> Option<f64> {
    let found = any_number(spot, report)?;
    if found > 0.0 { Some(found) } else { report.refuse(&spot.path, "must be above 0") }
}

/// The most dollars a cap can mean; what is above is read as this, since it fits every later computation.
const MOST_DOLLARS: f64 = 1_000_000_000.0;

/// An amount of US dollars above zero.
pub(super) fn dollars(spot: &Spot<'_>, report: &mut Report) -> Option<f64> {
    let found = above_zero(spot, report)?;
    if found > MOST_DOLLARS {
        report.warn(&spot.path, format!("is larger than {MOST_DOLLARS} and is read as that"));
    }
    Some(found.min(MOST_DOLLARS))
}

/// A list; every entry is looked at.
pub(super) fn list<T>(
    parser: impl Fn(&Spot<'_>, &mut Report) -> Option<T>,
) -> impl Fn(&Spot<'_>, &mut Report) -> Option<Vec<T>> {
    move |spot, report| {
        let Value::Array(entries) = spot.value else {
            return report.refuse(&spot.path, format!("must be a list, not {}", kind(spot.value)));
        };
        let parsed = entries.iter().enumerate().map(|(at, value)| parser(&spot.entry(at, value), report));
        // Collected first: an early stop at the first faulty entry would hide the others.
        parsed.collect::<Vec<_>>().into_iter().collect()
    }
}

/// A list with at least one entry.
pub(super) fn some<T>(
    parser: impl Fn(&Spot<'_>, &mut Report) -> Option<T>,
) -> impl Fn(&Spot<'_>, &mut Report) -> Option<Vec<T>> {
    let entries = list(parser);
    move |spot, report| {
        let found = entries(spot, report)?;
        if found.is_empty() { report.refuse(&spot.path, "must have at least one entry") } else { Some(found) }
    }
}

/// One of a few words.
pub(super) fn one_of<T: Copy>(words: &[(&'static str, T)]) -> impl Fn(&Spot<'_>, &mut Report) -> Option<T> {
    move |spot, report| {
        let found = text(spot, report)?;
        let value = words.iter().find(|(word, _)| *word == found).map(|(_, value)| *value);
        let Some(value) = value else {
            let known = words.iter().map(|(word, _)| *word).collect::<Vec<_>>().join(", ");
            return report.refuse(&spot.path, format!("must be one of: {known}"));
        };
        Some(value)
    }
}

/// Entries that occur more than once, each named once, in order.
pub(super) fn repeated<'a>(entries: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let mut seen = std::collections::HashSet::new();
    let mut repeated = Vec::new();
    for entry in entries {
        if !seen.insert(entry) && !repeated.contains(&entry) {
            repeated.push(entry);
        }
    }
    repeated
}

fn any_number(spot: &Spot<'_>, report: &mut Report) -> Option<f64> {
    match spot.value.as_f64() {
        Some(found) => Some(found),
        None => report.refuse(&spot.path, format!("must be a number, not {}", kind(spot.value))),
    }
}

/// Doubles hold every integer up to 2^53 − 1 exactly, so the value of the double decides.
fn integer(spot: &Spot<'_>, report: &mut Report) -> Option<i64> {
    let found = any_number(spot, report)?;
    if found.fract() != 0.0 {
        return report.refuse(&spot.path, "must be a whole number, without a fraction");
    }
    if found.abs() > MAX_INTEGER as f64 {
        return report.refuse(&spot.path, format!("must be at most {MAX_INTEGER}"));
    }
    Some(found as i64)
}

fn range_reason(least: u64, most: u64) -> String {
    if most == MAX_INTEGER {
        format!("must be at least {least}")
    } else {
        format!("must be from {least} to {most}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn run<T>(value: &Value, parser: impl Fn(&Spot<'_>, &mut Report) -> Option<T>) -> Result<T, String> {
        let mut report = Report::new("catalog.json");
        let spot = Spot { path: "here".to_owned(), value };
        match (parser(&spot, &mut report), report.faults.first()) {
            (Some(found), None) => Ok(found),
            (_, Some(fault)) => Err(fault.to_string()),
            (None, None) => panic!("refused without a fault"),
        }
    }

    fn parse(text: &str) -> Value {
        serde_json::from_str(text).unwrap()
    }

    /// LOAD-13
    #[test]
    fn integers_count_by_value_up_to_two_to_the_53_minus_1() {
        let amount = whole(0..=MAX_INTEGER);
        for same in ["45000", "45000.0", "4.5e4", "450e2"] {
            assert_eq!(run(&parse(same), &amount), Ok(45000), "{same}");
        }
        assert_eq!(run(&parse("9007199254740991"), &amount), Ok(MAX_INTEGER));
        assert_eq!(run(&parse("-0"), &amount), Ok(0));
        for refused in
            ["450.5", "9007199254740992", "1e300", "18446744073709551615", "-1", "null", "\"7\"", "[7]"]
        {
            assert!(run(&parse(refused), &amount).is_err(), "{refused}");
        }
    }

    /// LOAD-16, LOAD-17
    #[test]
    fn nothing_is_trimmed_and_a_currency_is_three_characters() {
        assert_eq!(run(&json!(" "), filled), Ok(" ".to_owned()));
        assert!(run(&json!(""), filled).is_err());
        assert_eq!(run(&json!("zz9"), currency), Ok("zz9".to_owned()));
        assert_eq!(run(&json!("€uro"), currency).unwrap_err().split(':').next(), Some("here"));
        assert!(run(&json!("a\u{0}b"), text).unwrap_err().contains("U+0000"));
    }

    /// TOOL-2
    #[test]
    fn ids_are_small_letters_digits_underscore_and_hyphen() {
        for good in ["a", "0", "hello_clip", "weekend-intensive", "9_-"] {
            assert!(run(&json!(good), id).is_ok(), "{good}");
        }
        for bad in ["", "_a", "-a", "Upper", "a b", "ä", "a.b"] {
            assert!(run(&json!(bad), id).is_err(), "{bad}");
        }
    }

    /// Every entry of a list is reported, not only the first faulty one (LOAD-2).
    #[test]
    fn a_list_reports_each_faulty_entry() {
        let mut report = Report::new("tools.json");
        let value = json!(["", "x", ""]);
        let spot = Spot { path: "values".to_owned(), value: &value };
        assert!(list(filled)(&spot, &mut report).is_none());
        let paths: Vec<_> = report.faults.iter().map(|fault| fault.path.as_str()).collect();
        assert_eq!(paths, ["values.0", "values.2"]);
    }

    /// Counts that no contact can reach are read as the largest usable one.
    #[test]
    fn a_huge_count_is_clamped_with_a_warning() {
        let mut report = Report::new("rules.json");
        let value = parse("9007199254740991");
        let spot = Spot { path: "historyDays".to_owned(), value: &value };
        assert_eq!(counted(36_500_u32)(&spot, &mut report), Some(36_500));
        assert!(report.faults.is_empty());
        assert_eq!(
            report.warnings[0].to_string(),
            "rules.json: historyDays: is larger than 36500 and is read as that"
        );
        assert!(run(&json!(0), counted(9_u32)).is_err());
    }

    /// Repeats are named once each.
    #[test]
    fn repeated_names_each_repeat_once() {
        assert_eq!(repeated(["a", "b", "a", "a", "b", "c"]), ["a", "b"]);
    }
}
