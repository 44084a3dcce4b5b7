//! Elements that hold a model's thoughts or its calls: `<think>…</think>`, `<tool_call>…</tool_call>`.

use super::Span;

const THOUGHTS: [&str; 7] =
    ["think", "thinking", "thought", "thoughts", "reasoning", "reflection", "scratchpad"];
const CALLS: [&str; 11] = [
    "tool_call",
    "tool_calls",
    "toolcall",
    "function_call",
    "function_calls",
    "invoke",
    "tool_use",
    "tool_code",
    "tool_response",
    "tool_result",
    "tool_results",
];
/// A call only with a name behind it: `<function=send_flow>`; otherwise a word that people write.
const FUNCTION: &str = "function";

struct Tag<'text> {
    name: &'text str,
    from: usize,
    to: usize,
    closes: bool,
    is_thought: bool,
}

/// From the outermost tag to the one that closes it, to the end of the text when none does. Thoughts that were never opened
/// began with the text or behind the element before: some models write only the closing tag.
pub fn elements(text: &str) -> Vec<Span> {
    let mut spans: Vec<Span> = Vec::new();
    let mut open: Option<(Tag<'_>, usize)> = None;
    for tag in tags(text) {
        match open.take() {
            None if tag.closes => {
                let done = spans.last().map_or(0, |span| span.to);
                let from = if tag.is_thought { done } else { tag.from };
                spans.push(Span { from, to: tag.to, is_thought: tag.is_thought });
            }
            None => open = Some((tag, 1)),
            Some((outer, depth)) if !outer.name.eq_ignore_ascii_case(tag.name) => {
                open = Some((outer, depth));
            }
            Some((outer, 1)) if tag.closes => {
                spans.push(Span { from: outer.from, to: tag.to, is_thought: outer.is_thought });
            }
            Some((outer, depth)) => {
                open = Some((outer, if tag.closes { depth - 1 } else { depth + 1 }));
            }
        }
    }
    let unclosed = open.map(|(tag, _)| Span { from: tag.from, to: text.len(), is_thought: tag.is_thought });
    spans.extend(unclosed);
    spans
}

fn tags(text: &str) -> impl Iterator<Item = Tag<'_>> {
    text.match_indices('<').filter_map(|(from, _)| {
        let inside = text.get(from + 1..)?;
        let end =
            inside.find(['<', '>']).filter(|end| inside.get(*end..).is_some_and(|at| at.starts_with('>')))?;
        tag(inside.get(..end)?, from, from + end + 2)
    })
}

fn tag(inside: &str, from: usize, to: usize) -> Option<Tag<'_>> {
    let bare = inside.trim();
    let (closes, bare) = bare.strip_prefix('/').map_or((false, bare), |rest| (true, rest.trim_start()));
    let end = bare.find(|glyph: char| !(glyph.is_ascii_alphanumeric() || "_-:".contains(glyph)));
    let (name, rest) = bare.split_at_checked(end.unwrap_or(bare.len()))?;
    let name = name.rsplit(':').next().unwrap_or(name);
    let is_one_of = |names: &[&str]| names.iter().any(|known| known.eq_ignore_ascii_case(name));
    let is_thought = is_one_of(&THOUGHTS);
    let is_call = is_one_of(&CALLS) || is_one_of(&[FUNCTION]) && (closes || rest.starts_with('='));
    let is_whole =
        rest.is_empty() || rest.starts_with(|glyph: char| glyph.is_whitespace() || "=/".contains(glyph));
    ((is_thought || is_call) && is_whole).then_some(Tag { name, from, to, closes, is_thought })
}
