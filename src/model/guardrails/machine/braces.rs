//! Objects that hold a field of the reply or call a tool, and calls in the syntax of a program. Found from the names: what
//! has none of them between its braces is a contact's to read, whatever it is.

use super::Span;
use crate::model::reply::FIELDS;

/// Every name a model can call, the reply's own tool included.
pub const TOOLS: [&str; 8] = [
    "send_flow",
    "add_tag",
    "remove_tag",
    "set_field",
    "write_note",
    "schedule_nudge",
    "get_contact",
    "send_reply",
];
/// Keys of which a call in JSON has one of each, whatever the tool is called.
const CALLED: [&str; 4] = ["name", "tool", "tool_name", "function"];
const GIVEN: [&str; 5] = ["parameters", "arguments", "args", "input", "tool_input"];

/// Where names stand, in order.
struct Names {
    own: Vec<usize>,
    called: Vec<usize>,
    given: Vec<usize>,
}

/// Objects and calls, each from its first byte to behind its last.
pub fn objects(text: &str) -> Vec<Span> {
    // Every name of a tool has one.
    let may_call = text.contains('_');
    let has_braces = text.contains('{');
    if !may_call && !has_braces {
        return Vec::new();
    }
    let lower = text.to_ascii_lowercase();
    let mut spans = if may_call { programs(&lower) } else { Vec::new() };
    if has_braces {
        let names = Names::of(&lower);
        let own = braces(&lower).into_iter().filter(|(from, to)| names.are_in(*from, *to));
        spans.extend(own.map(|(from, to)| Span { from, to, is_thought: false }));
    }
    spans
}

impl Names {
    fn of(lower: &str) -> Self {
        let keys = |names: &[&str], bare: bool| {
            all(lower, names, |before, behind| {
                is_key(behind) && (is_quoted(before) || bare && before.trim_end().ends_with(['{', ',']))
            })
        };
        let tools = all(lower, &TOOLS, |before, behind| is_quoted(before) && behind.starts_with(is_quote));
        let mut own = keys(&FIELDS, true);
        own.extend(tools);
        own.sort_unstable();
        Self { own, called: keys(&CALLED, false), given: keys(&GIVEN, false) }
    }

    fn are_in(&self, from: usize, to: usize) -> bool {
        let any = |places: &[usize]| {
            places.get(places.partition_point(|place| *place < from)).is_some_and(|place| *place < to)
        };
        any(&self.own) || any(&self.called) && any(&self.given)
    }
}

fn all(lower: &str, names: &[&str], fits: impl Fn(&str, &str) -> bool) -> Vec<usize> {
    let mut places: Vec<usize> = names
        .iter()
        .flat_map(|name| lower.match_indices(name).map(|(at, name)| (at, at + name.len())))
        .filter(|(at, end)| fits(lower.get(..*at).unwrap_or_default(), lower.get(*end..).unwrap_or_default()))
        .map(|(at, _)| at)
        .collect();
    places.sort_unstable();
    places
}

/// Quotation marks of JSON and of what phones make of them; a backslash in JSON inside JSON.
fn is_quote(glyph: char) -> bool {
    "\"'`“”‘’\\".contains(glyph)
}

fn is_quoted(before: &str) -> bool {
    before.ends_with(is_quote)
}

fn is_key(behind: &str) -> bool {
    behind.trim_start_matches(is_quote).trim_start().starts_with([':', '='])
}

/// Every pair of braces; one that is never closed and begins like JSON was cut off and goes to the end of the text. Braces
/// in strings do not count, unless that leaves one open.
fn braces(lower: &str) -> Vec<(usize, usize)> {
    let mut pairs = paired(lower, true);
    if pairs.iter().any(|(_, to)| to.is_none()) {
        pairs = paired(lower, false);
    }
    let begins =
        |from: usize| lower.get(from + 1..).is_some_and(|rest| rest.trim_start().starts_with(is_quote));
    pairs
        .into_iter()
        .filter_map(|(from, to)| Some((from, to.or_else(|| begins(from).then_some(lower.len()))?)))
        .collect()
}

fn paired(lower: &str, knows_strings: bool) -> Vec<(usize, Option<usize>)> {
    let mut pairs: Vec<(usize, Option<usize>)> = Vec::new();
    let mut open: Vec<usize> = Vec::new();
    let (mut is_string, mut is_escaped) = (false, false);
    for (at, byte) in lower.bytes().enumerate() {
        let was_escaped = std::mem::take(&mut is_escaped);
        match byte {
            _ if was_escaped => {}
            b'\\' if is_string => is_escaped = true,
            b'"' if knows_strings && !open.is_empty() => is_string = !is_string,
            b'{' if !is_string => {
                open.push(pairs.len());
                pairs.push((at, None));
            }
            b'}' if !is_string => {
                if let Some(pair) = open.pop().and_then(|place| pairs.get_mut(place)) {
                    pair.1 = Some(at + 1);
                }
            }
            _ => {}
        }
    }
    pairs
}

/// `send_flow(flow="leaflet")`, `send_flow{flow: leaflet}`, `tools.send_flow()`: to the bracket that closes it, or to the end.
fn programs(lower: &str) -> Vec<Span> {
    let is_called = |before: &str, behind: &str| {
        !before.ends_with(|glyph: char| glyph.is_alphanumeric() || glyph == '_')
            && behind.trim_start_matches(' ').starts_with(['(', '{'])
    };
    let mut spans: Vec<Span> = Vec::new();
    for name in all(lower, &TOOLS, is_called) {
        let done = spans.last().map_or(0, |last| last.to);
        if done <= name {
            let from = done + owner(lower.get(done..name).unwrap_or_default()).len();
            spans.push(Span { from, to: end_of_call(lower, name), is_thought: false });
        }
    }
    spans
}

/// What stands before a call without what the tool is a member of: `default_api.`.
fn owner(before: &str) -> &str {
    let is_path = |glyph: char| glyph.is_ascii_alphanumeric() || "_.".contains(glyph);
    if before.ends_with('.') { before.trim_end_matches(is_path) } else { before }
}

fn end_of_call(lower: &str, from: usize) -> usize {
    let mut depth = 0_usize;
    for (at, byte) in lower.bytes().enumerate().skip(from) {
        match byte {
            b'(' | b'{' => depth += 1,
            b')' | b'}' if depth <= 1 => return at + 1,
            b')' | b'}' => depth -= 1,
            _ => {}
        }
    }
    lower.len()
}
