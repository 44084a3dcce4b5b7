//! What a machine writes for a machine, inside a reply: an object with the reply's fields, a call of a tool in any of the
//! usual syntaxes, thoughts between tags (GUARD-2). It goes as a unit, wherever it stands.

mod braces;
mod tags;

use self::braces::objects;
use self::tags::elements;

/// Letters of a text that still says something once an object was taken out of it; `Sure!` does not.
const SENSIBLE: usize = 8;
/// From here on a letter stands for a syllable or a word (Kana, Han).
const WIDE_FROM: char = '\u{2e80}';
const WIDE: usize = 3;

/// Bytes of the text that are no contact's business.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Span {
    from: usize,
    to: usize,
    /// What stands beside a model's thoughts is its answer; what stands beside an object only leads to it.
    is_thought: bool,
}

/// Whether there is any. A text without a bracket costs one look at each of its bytes.
pub fn has_any(text: &str) -> bool {
    !found(text).is_empty()
}

/// The text without it, trimmed; `None` when what is left says nothing. A text without any comes back as it is.
pub fn take_out(text: String) -> Option<String> {
    let spans = found(&text);
    if spans.is_empty() {
        return Some(text);
    }
    let is_answer = spans.iter().all(|span| span.is_thought);
    let kept = without(&text, spans);
    let says = kept.chars().filter(|glyph| glyph.is_alphanumeric());
    let letters: usize = says.map(|glyph| if glyph < WIDE_FROM { 1 } else { WIDE }).sum();
    (letters >= if is_answer { 1 } else { SENSIBLE }).then_some(kept)
}

fn found(text: &str) -> Vec<Span> {
    if !text.contains(['{', '<', '(']) {
        return Vec::new();
    }
    let mut spans = elements(text);
    spans.extend(objects(text));
    spans.sort_by_key(|span| span.from);
    let mut merged: Vec<Span> = Vec::new();
    for span in spans {
        match merged.last_mut().filter(|last| joins(text, last.to, span.from)) {
            Some(last) => {
                // What is inside a thought was thought; two beside each other are one object with its thoughts.
                last.is_thought &= span.is_thought || span.to <= last.to;
                last.to = last.to.max(span.to);
            }
            None => merged.push(span),
        }
    }
    merged
}

/// Nothing but what separates the items of a list stands between the two.
fn joins(text: &str, end: usize, start: usize) -> bool {
    let separates = |glyph: char| glyph.is_whitespace() || ",;".contains(glyph);
    start <= end || text.get(end..start).is_some_and(|between| between.chars().all(separates))
}

fn without(text: &str, spans: Vec<Span>) -> String {
    let mut kept = String::new();
    let mut from = 0;
    for span in spans {
        let before = text.get(from..span.from).unwrap_or_default();
        let (before, wrapped) = opened(before, span.is_thought);
        let behind = text.get(span.to..).unwrap_or_default();
        let rest = if span.is_thought { behind } else { closed(behind, wrapped) };
        let before = if span.is_thought { before } else { without_lead(before) };
        join(&mut kept, before);
        from = text.len() - rest.len();
    }
    join(&mut kept, text.get(from..).unwrap_or_default());
    kept
}

/// The piece on a line of its own if it was on one.
fn join(kept: &mut String, piece: &str) {
    let (bare, breaks) = (piece.trim(), piece.trim_start_matches([' ', '\t']).starts_with(['\n', '\r']));
    if !kept.is_empty() && !bare.is_empty() {
        kept.push(if breaks { '\n' } else { ' ' });
    }
    kept.push_str(bare);
}

/// What opens an object: brackets of a list or a call with its name, the opening of a code block. Says which.
fn opened(before: &str, is_thought: bool) -> (&str, Vec<char>) {
    let mut wrapped = Vec::new();
    if is_thought {
        return (before, wrapped);
    }
    let is_name = |glyph: char| glyph.is_ascii_alphanumeric() || "_.".contains(glyph);
    let mut rest = before;
    loop {
        let bare = rest.trim_end();
        if let Some(inner) = bare.strip_suffix('[') {
            wrapped.push(']');
            rest = inner;
        } else if let Some(inner) = bare.strip_suffix('(') {
            wrapped.push(')');
            rest = inner.trim_end_matches(is_name);
        } else if let Some(inner) = bare.trim_end_matches(is_name).strip_suffix("```") {
            wrapped.push('`');
            rest = inner;
        } else if let Some(inner) = bare.strip_suffix('`') {
            wrapped.push('`');
            rest = inner;
        } else {
            return (rest, wrapped);
        }
    }
}

/// The rest of the text behind what closes the object again.
fn closed(behind: &str, wrapped: Vec<char>) -> &str {
    wrapped.into_iter().fold(behind, |rest, closing| {
        let bare = rest.trim_start();
        let inner = bare.trim_start_matches(|glyph: char| glyph == closing && closing == '`');
        match inner.strip_prefix(closing) {
            Some(inner) => inner,
            None if inner.len() < bare.len() => inner,
            None => rest,
        }
    })
}

/// A last line that ends in a colon announces what is gone.
fn without_lead(before: &str) -> &str {
    let bare = before.trim_end_matches(|glyph: char| glyph.is_whitespace() || "*_".contains(glyph));
    if !bare.ends_with([':', '：']) {
        return before;
    }
    bare.rfind('\n').and_then(|at| bare.get(..at)).unwrap_or_default()
}

#[cfg(test)]
mod tests;
