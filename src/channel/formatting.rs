//! Markdown of the model to the marks of a channel (DEC-4, DEC-35).
//!
//! A real parser says what is markup; the text is then *edited*, not rebuilt: every byte that no edit names is
//! copied from the source. So what is not markup cannot be lost: `2 * 3 * 4`, `snake_case_name`, `~80 %`,
//! entities, line breaks, indentation.

mod edits;
mod flanking;
mod marks;
mod tables;

use std::ops::Range;
use std::sync::LazyLock;

use pulldown_cmark::{CodeBlockKind, Event, LinkType, Options, Parser, Tag};
use regex::Regex;

use edits::Edits;
use flanking::disguised;
use marks::Style;
use tables::{Row, Table};

/// How a channel shows emphasis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MarkStyle {
    /// `*bold*`, `_italic_`, `~strike~`, code between backticks.
    Whatsapp,
    /// No marks at all: Instagram, Messenger and Telegram get plain text.
    Plain,
}

/// Names behind a fence that only tell the language of the code.
const LANGUAGES: [&str; 24] = [
    "bash",
    "c",
    "cpp",
    "css",
    "csv",
    "diff",
    "go",
    "html",
    "java",
    "javascript",
    "js",
    "json",
    "markdown",
    "md",
    "php",
    "plaintext",
    "python",
    "rust",
    "sh",
    "sql",
    "text",
    "txt",
    "xml",
    "yaml",
];

/// Converts one reply text. Text that is not markup comes out byte for byte; a convention that reads well as
/// plain text (`-`, `+`, `1.`, `>`, `---`) stays on every channel.
#[must_use]
pub fn convert(text: &str, marks: MarkStyle) -> String {
    if holds_no_markup(text) { text.to_owned() } else { convert_markup(text, marks) }
}

/// True for a text that cannot hold markup, as most replies: no character that means anything to the parser wherever it
/// stands, and no line that begins with anything but a letter, so no list, heading, quotation, rule or indented code. It may
/// be false for others that hold none.
fn holds_no_markup(text: &str) -> bool {
    let is_mark = |byte: u8| {
        matches!(
            byte,
            b'*' | b'_' | b'`' | b'~' | b'\\' | b'[' | b']' | b'<' | b'&' | b'|' | b'\t' | b'\r' | 0
        )
    };
    !text.bytes().any(is_mark)
        && text.split('\n').all(|line| line.chars().next().is_none_or(char::is_alphabetic))
}

fn convert_markup(text: &str, marks: MarkStyle) -> String {
    let mut walker = Walker::new(text, marks);
    let seen = disguised(text, &walker.bare_urls);
    let events =
        Parser::new_ext(&seen, Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH).into_offset_iter();
    let definitions: Vec<(String, Range<usize>)> = events
        .reference_definitions()
        .iter()
        .map(|(label, definition)| (label.to_lowercase(), definition.span.clone()))
        .collect();
    for (event, range) in events {
        walker.take(event, range);
    }
    for (label, span) in definitions {
        walker.drop_used_definition(&label, span);
    }
    marks::write(&walker.edits.into_runs(text), marks)
}

/// An element that is open, with what its end needs to know.
struct Frame {
    kind: Kind,
    range: Range<usize>,
    /// Style of the text directly inside.
    style: Style,
    /// From the first child's start to the last child's end.
    content: Option<Range<usize>>,
}

enum Kind {
    Heading,
    Link { url: String },
    Fence { info: String },
    List,
    Table(Table),
    Row(Row),
    Other,
}

struct Walker<'text> {
    source: &'text str,
    marks: MarkStyle,
    /// Links that stand bare in the text; nothing inside them is markup.
    bare_urls: Vec<Range<usize>>,
    edits: Edits,
    frames: Vec<Frame>,
    used_labels: Vec<String>,
    /// End of the last piece of text or code.
    covered: usize,
}

impl<'text> Walker<'text> {
    fn new(source: &'text str, marks: MarkStyle) -> Self {
        Self {
            source,
            marks,
            bare_urls: bare_urls(source),
            edits: Edits::default(),
            frames: Vec::new(),
            used_labels: Vec::new(),
            covered: 0,
        }
    }

    fn take(&mut self, event: Event<'_>, range: Range<usize>) {
        match event {
            Event::Start(tag) => self.start(tag, range),
            Event::End(_) => self.end(),
            Event::Text(_) => {
                self.drop_escape(range.start);
                self.leaf(range);
            }
            Event::Code(_) => self.code(range),
            Event::SoftBreak | Event::HardBreak => self.line_break(range),
            Event::Rule => self.rule(range),
            _ => self.leaf(range),
        }
    }

    fn start(&mut self, tag: Tag<'_>, range: Range<usize>) {
        self.note_child(&range);
        let style = self.style();
        let (kind, style) = match tag {
            Tag::Strong => (Kind::Other, self.mark(&range, 2, Style::BOLD)),
            Tag::Emphasis => (Kind::Other, self.mark(&range, 1, Style::ITALIC)),
            Tag::Strikethrough => (Kind::Other, self.mark(&range, 2, Style::STRIKE)),
            Tag::Heading { .. } => (Kind::Heading, style.with(Style::BOLD)),
            Tag::Link { link_type: LinkType::Autolink | LinkType::Email, .. } => {
                self.edits.remove(range.start..range.start + 1);
                self.edits.remove(range.end - 1..range.end);
                (Kind::Other, Style::NONE)
            }
            Tag::Link { dest_url, id, .. } | Tag::Image { dest_url, id, .. } => {
                self.used_labels.push(id.to_lowercase());
                (Kind::Link { url: dest_url.into_string() }, style)
            }
            Tag::List(_) => (Kind::List, style),
            Tag::Item => {
                self.item(&range);
                (Kind::Other, style)
            }
            Tag::CodeBlock(CodeBlockKind::Fenced(info)) => (Kind::Fence { info: info.into_string() }, style),
            Tag::Table(_) => (Kind::Table(Table::default()), style),
            Tag::TableHead | Tag::TableRow => (Kind::Row(Row::default()), style),
            _ => (Kind::Other, style),
        };
        self.frames.push(Frame { kind, range, style, content: None });
    }

    fn end(&mut self) {
        let Some(frame) = self.frames.pop() else { return };
        let Frame { kind, range, content, .. } = frame;
        match kind {
            Kind::Heading => self.heading(range, content),
            Kind::Link { url } => self.link(range, content, &url),
            Kind::Fence { info } => self.fence(range, content, &info),
            Kind::Row(row) => {
                row.edit(self.source, range.clone(), &mut self.edits);
                if let Some(Frame { kind: Kind::Table(table), .. }) = self.frames.last_mut() {
                    table.take_row(self.source, range, &mut self.edits);
                }
            }
            Kind::Table(table) => table.finish(self.source, range, &mut self.edits),
            Kind::List => {}
            Kind::Other => {
                if let Some(Frame { kind: Kind::Row(row), .. }) = self.frames.last_mut() {
                    row.cells.push(range);
                }
            }
        }
    }

    fn style(&self) -> Style {
        self.frames.last().map_or(Style::NONE, |frame| frame.style)
    }

    fn slice(&self, range: Range<usize>) -> &'text str {
        self.source.get(range).unwrap_or_default()
    }

    fn note_child(&mut self, range: &Range<usize>) {
        if let Some(parent) = self.frames.last_mut() {
            let content = parent.content.get_or_insert_with(|| range.clone());
            content.end = content.end.max(range.end);
        }
    }

    fn leaf(&mut self, range: Range<usize>) {
        self.note_child(&range);
        self.covered = range.end;
        self.edits.style(range, self.style());
    }

    /// The backslash of an escape lies in the gap before the text that begins with the escaped character.
    fn drop_escape(&mut self, start: usize) {
        let Some(before) = start.checked_sub(1) else { return };
        let escapes = self.slice(start..self.source.len()).starts_with(|ch: char| ch.is_ascii_punctuation());
        if escapes && before >= self.covered && self.slice(before..start) == "\\" {
            self.edits.remove(before..start);
        }
    }

    /// A backslash before the break is a mark. The next line of a nested item moves with its item.
    fn line_break(&mut self, range: Range<usize>) {
        self.note_child(&range);
        self.covered = range.end;
        if self.slice(range.clone()).starts_with('\\') {
            self.edits.remove(range.start..range.start + 1);
        }
        let lists = self.lists();
        let next = self.slice(range.end..self.source.len());
        let indent = next.len() - next.trim_start_matches([' ', '\t']).len();
        if lists >= 2 && indent > 2 * lists {
            self.edits.replace(range.end..range.end + indent, "  ".repeat(lists));
        }
    }

    /// How many lists are open.
    fn lists(&self) -> usize {
        self.frames.iter().filter(|frame| matches!(frame.kind, Kind::List)).count()
    }

    /// Removes a pair of marks and returns the style between them, unless a person would not call it markup.
    fn mark(&mut self, range: &Range<usize>, width: usize, style: Style) -> Style {
        let open = range.start..range.start + width;
        let close = range.end.saturating_sub(width)..range.end;
        if self.is_plain_text(&open, &close) {
            return self.style();
        }
        self.edits.remove(open);
        self.edits.remove(close);
        self.style().with(style)
    }

    /// `2*3*4`, `2**3**4`, one tilde, and stars and underscores inside a link are not markup to a reader.
    fn is_plain_text(&self, open: &Range<usize>, close: &Range<usize>) -> bool {
        let in_url = |at: usize| self.bare_urls.iter().any(|url| url.contains(&at));
        if in_url(open.start) || in_url(close.start) {
            return true;
        }
        let before = self.slice(0..open.start).chars().next_back().is_some_and(char::is_alphanumeric);
        let after =
            self.slice(close.end..self.source.len()).chars().next().is_some_and(char::is_alphanumeric);
        match self.slice(open.clone()) {
            "*" => before || after,
            "**" => {
                let ascii = |ch: Option<char>| ch.is_some_and(|ch| ch.is_ascii_alphanumeric());
                ascii(self.slice(0..open.start).chars().next_back())
                    && ascii(self.slice(close.end..self.source.len()).chars().next())
            }
            "_" | "__" | "~~" => false,
            _ => true,
        }
    }

    /// The line without its `#` or underline; its text is bold. A lone `#` is text.
    fn heading(&mut self, range: Range<usize>, content: Option<Range<usize>>) {
        let Some(content) = content else { return };
        let tail = self.slice(content.end..range.end);
        let line_end = if tail.ends_with("\r\n") { 2 } else { usize::from(tail.ends_with('\n')) };
        self.edits.remove(range.start..content.start);
        self.edits.remove(content.end..range.end - line_end);
    }

    /// `text: url`, or just the url when there is no other text. No mark touches the url: it would become part
    /// of the link.
    fn link(&mut self, range: Range<usize>, content: Option<Range<usize>>, url: &str) {
        let address = url.strip_prefix("mailto:").or_else(|| url.strip_prefix("tel:")).unwrap_or(url);
        let Some(content) = content else {
            self.edits.replace(range, address.to_owned());
            return;
        };
        let text = self.slice(content.clone());
        if text == url || text == address {
            self.edits.replace(range, address.to_owned());
            return;
        }
        self.edits.remove(range.start..content.start);
        let tail = if url.is_empty() { String::new() } else { format!(": {address}") };
        self.edits.replace(content.end..range.end, tail);
    }

    /// Code in a line: kept with its backticks, or without them on a plain channel.
    fn code(&mut self, range: Range<usize>) {
        if self.marks == MarkStyle::Whatsapp {
            return self.leaf(range);
        }
        self.note_child(&range);
        self.covered = range.end;
        let text = self.slice(range.clone());
        let ticks = text.len() - text.trim_start_matches('`').len();
        self.edits.remove(range.start..range.start + ticks);
        self.edits.remove(range.end - ticks..range.end);
    }

    /// A block of code: kept with its fences, without the name of its language. A plain channel gets the lines
    /// between the fences. Words behind a fence that are no language are somebody's text and stay.
    fn fence(&mut self, range: Range<usize>, content: Option<Range<usize>>, info: &str) {
        let Some(content) = content else { return };
        let first_line = self.slice(range.clone()).lines().next().unwrap_or_default();
        let opening = range.start..range.start + first_line.len();
        let ticks =
            opening.start..opening.start + first_line.len() - first_line.trim_start_matches(['`', '~']).len();
        let tail = self.slice(content.end..range.end);
        let closed = !tail.trim().is_empty() && self.slice(content.clone()).ends_with('\n');
        let nameless = info.is_empty() || LANGUAGES.contains(&info.to_ascii_lowercase().as_str());
        if self.marks == MarkStyle::Plain {
            self.edits.remove(opening.start..if nameless { content.start } else { ticks.end });
            if closed {
                self.edits.remove(content.end - 1..range.end);
            }
            return;
        }
        if first_line.starts_with('~') {
            self.edits.replace(ticks.clone(), "```".to_owned());
            if closed {
                let mark = content.end + tail.find('~').unwrap_or_default();
                self.edits.replace(mark..range.end, "```".to_owned());
            }
        }
        if nameless {
            self.edits.remove(ticks.end..opening.end);
        }
    }

    /// `*` becomes `-`; the marker is indented by two spaces for each list around its own. An empty item is a
    /// lone character and stays.
    fn item(&mut self, range: &Range<usize>) {
        let text = self.slice(range.clone());
        if text.trim().len() <= 1 {
            return;
        }
        let marker = range.end - text.trim_start().len();
        let line_start = self.slice(0..marker).rfind('\n').map_or(0, |at| at + 1);
        if self.slice(line_start..marker).chars().all(|ch| matches!(ch, ' ' | '\t')) {
            self.edits.replace(line_start..marker, "  ".repeat(self.lists().saturating_sub(1)));
        }
        if self.slice(marker..range.end).starts_with('*') {
            self.edits.replace(marker..marker + 1, "-".to_owned());
        }
    }

    /// A line of stars or underscores becomes `---`. Longer rows of stars may be a rating and stay.
    fn rule(&mut self, range: Range<usize>) {
        self.note_child(&range);
        let line = self.slice(range.clone()).trim_end();
        if matches!(line, "***" | "* * *" | "___" | "_ _ _") {
            self.edits.replace(range.start..range.start + line.len(), "---".to_owned());
        }
    }

    /// The parser hides reference definitions. One that a link used has done its work; any other stays text.
    fn drop_used_definition(&mut self, label: &str, span: Range<usize>) {
        if self.used_labels.iter().any(|used| used == label) {
            let rest = self.slice(span.end..self.source.len());
            let line_end = rest.len() - rest.trim_start_matches(['\r', '\n']).len();
            self.edits.remove(span.start..span.end + line_end.min(1));
        }
    }
}

/// Links that stand in the text without brackets. Marks at their end belong to the text around them.
fn bare_urls(text: &str) -> Vec<Range<usize>> {
    static URL: LazyLock<Option<Regex>> =
        LazyLock::new(|| Regex::new(r"(?i-u:https?://|\bwww\.)[^\s<>]+").ok());
    if !(text.contains("://") || text.contains("www.")) {
        return Vec::new();
    }
    let Some(url) = URL.as_ref() else { return Vec::new() };
    url.find_iter(text)
        .map(|found| found.start()..found.start() + found.as_str().trim_end_matches(['*', '_', '~']).len())
        .collect()
}

#[cfg(test)]
#[path = "formatting_tests.rs"]
mod tests;
