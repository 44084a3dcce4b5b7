//! Writes runs of styled text with the marks of a channel around them.

use super::MarkStyle;

/// Any combination of bold, italic and strike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Style(u8);

impl Style {
    pub(super) const NONE: Self = Self(0);
    pub(super) const BOLD: Self = Self(1);
    pub(super) const ITALIC: Self = Self(2);
    pub(super) const STRIKE: Self = Self(4);
    /// In the order marks are opened when they last equally long: `*_x_*`.
    const EACH: [(Self, char); 3] = [(Self::BOLD, '*'), (Self::ITALIC, '_'), (Self::STRIKE, '~')];

    pub(super) const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    const fn common(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

/// A piece of text in one style.
pub(super) struct Run {
    pub(super) text: String,
    pub(super) style: Style,
}

/// The runs as one text.
pub(super) fn write(runs: &[Run], marks: MarkStyle) -> String {
    let mut writer = Writer::default();
    for (index, run) in runs.iter().enumerate() {
        let unmarked = marks == MarkStyle::Plain || (run.style == Style::NONE && writer.open.is_empty());
        if unmarked {
            writer.out.push_str(&run.text);
        } else {
            writer.run(run, runs.get(index..).unwrap_or_default());
        }
    }
    writer.change_to(Style::NONE, &[]);
    writer.out
}

/// Keeps marks next to words: a mark beside a space, or around a line break, would be shown as a character.
#[derive(Default)]
struct Writer {
    out: String,
    /// Marks that are open, outermost first.
    open: Vec<(Style, char)>,
    /// White space that waits until it is known whether marks close before it.
    space: String,
    /// Style that all of the waiting white space has.
    space_style: Option<Style>,
}

impl Writer {
    fn run(&mut self, run: &Run, rest: &[Run]) {
        for chunk in run.text.split_inclusive(char::is_whitespace) {
            let word = chunk.trim_end_matches(char::is_whitespace);
            if !word.is_empty() {
                // A mark at the end of a link would become part of it.
                let style = if word.contains("://") { Style::NONE } else { run.style };
                self.change_to(style, rest);
                self.out.push_str(word);
            }
            let space = chunk.get(word.len()..).unwrap_or_default();
            if !space.is_empty() {
                self.space.push_str(space);
                let known = self.space_style.unwrap_or(run.style);
                self.space_style = Some(known.common(run.style));
            }
        }
    }

    /// Closes what the next word does not have, writes the waiting space, opens what the word has besides.
    fn change_to(&mut self, style: Style, rest: &[Run]) {
        let mut kept = self.space_style.take().map_or(style, |space| space.common(style));
        if self.space.contains('\n') {
            kept = Style::NONE;
        }
        let outer = self.open.iter().take_while(|(mark, _)| kept.has(*mark)).count();
        while self.open.len() > outer {
            if let Some((_, sign)) = self.open.pop() {
                self.out.push(sign);
            }
        }
        self.out.push_str(&self.space);
        self.space.clear();
        for (mark, sign) in lasting_first(rest) {
            let is_open = self.open.iter().any(|(open, _)| *open == mark);
            if style.has(mark) && !is_open {
                self.out.push(sign);
                self.open.push((mark, sign));
            }
        }
    }
}

/// The marks, those that go on for more of the coming runs first.
fn lasting_first(rest: &[Run]) -> [(Style, char); 3] {
    let lasts = |mark: Style| rest.iter().take_while(|run| run.style.has(mark)).count();
    let mut each = Style::EACH;
    each.sort_by_key(|(mark, _)| std::cmp::Reverse(lasts(*mark)));
    each
}
