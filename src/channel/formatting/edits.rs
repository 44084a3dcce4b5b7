//! Edits of a source text, applied in one pass that copies everything no edit names.

use std::ops::Range;

use super::marks::{Run, Style};

/// What happens to a range of the source.
enum Change {
    Styled(Style),
    Replaced(String),
}

/// Edits in any order. Of two that overlap, the one that begins first (or is longer) wins.
#[derive(Default)]
pub(super) struct Edits(Vec<(Range<usize>, Change)>);

impl Edits {
    /// Keeps the range and shows it in this style.
    pub(super) fn style(&mut self, range: Range<usize>, style: Style) {
        if style != Style::NONE {
            self.0.push((range, Change::Styled(style)));
        }
    }

    /// Puts a text without style in the place of the range.
    pub(super) fn replace(&mut self, range: Range<usize>, text: String) {
        self.0.push((range, Change::Replaced(text)));
    }

    /// Takes the range out.
    pub(super) fn remove(&mut self, range: Range<usize>) {
        if range.start < range.end {
            self.replace(range, String::new());
        }
    }

    /// The edited text as runs of one style each, none of them empty.
    pub(super) fn into_runs(mut self, source: &str) -> Vec<Run> {
        self.0.sort_by_key(|(range, _)| (range.start, std::cmp::Reverse(range.end)));
        let mut runs = Vec::new();
        let mut done = 0;
        for (range, change) in self.0 {
            if range.start < done {
                continue;
            }
            push(&mut runs, source.get(done..range.start).unwrap_or_default(), Style::NONE);
            match change {
                Change::Styled(style) => {
                    push(&mut runs, source.get(range.clone()).unwrap_or_default(), style)
                }
                Change::Replaced(text) => push(&mut runs, &text, Style::NONE),
            }
            done = range.end;
        }
        push(&mut runs, source.get(done..).unwrap_or_default(), Style::NONE);
        runs
    }
}

fn push(runs: &mut Vec<Run>, text: &str, style: Style) {
    match runs.last_mut() {
        _ if text.is_empty() => {}
        Some(run) if run.style == style => run.text.push_str(text),
        _ => runs.push(Run { text: text.to_owned(), style }),
    }
}
