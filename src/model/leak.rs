//! The leak check (GUARD-4, GUARD-5, 01 section 17): whether a reply gives the system part away, word for word, in
//! another spelling, in an encoding, or cut into pieces.
//!
//! What is secret follows from how the system part is built and from no list of phrases. Our own sections are instructions
//! to the model, and no sentence of them belongs into a reply. A persona holds facts and phrases that are there to be said
//! (an address, hours, a greeting) beside instructions, and nothing tells the two apart in every language: of it only a
//! large share is secret, and nothing between quotation marks. The catalog and the tenant's own copy may be quoted, and
//! so may a run of words that both hold.

mod decode;
mod published;
mod quoted;
mod runs;
mod views;

use std::collections::BTreeSet;

use self::published::Published;
use self::runs::{Part, Runs};
use super::prompt::{CATALOG, LEAK_MARKERS};
use super::reply::FIELDS;
use super::{fence, fold};

/// Letters of our own sections that a reply may repeat in one run: about nine words.
const OWN_RUN: usize = 48;
/// A run from here on counts towards [`ALL_RUNS`].
const SHORT_RUN: usize = 28;
/// Letters of all such runs together: pieces with other words between them.
const ALL_RUNS: usize = 120;

/// Letters of the persona that are too much, when it has so many that may not be quoted: half of them and at least 400, or
/// nearly all of a short one. A persona of a few words is no secret, and of a very long one no reply holds half.
fn too_much_persona(all: usize) -> usize {
    (all / 2).min(2_000).max((all * 9 / 10).min(400)).max(48)
}

/// What a reply must not give away, of one loaded configuration. Built once with the system part; looking a reply through
/// costs microseconds (docs/performance.md). The default knows the fixed markers only. `Debug` shows none of it.
#[derive(Default)]
pub struct LeakCheck {
    runs: Runs,
    /// Our own snake_case and camelCase words, in lower case: names of fields, reasons, labels, tools.
    identifiers: BTreeSet<String>,
    /// Headings without spaces and marks, as they stand.
    markers: Vec<String>,
    /// Headings that the tenant's own texts hold as well.
    published: Published,
    /// Names of the reply's fields as the catalog writes them, with a capital: `Confidence`.
    named: BTreeSet<String>,
    /// Lines that only give the system part its order: headings, and the line that begins an entry of the catalog.
    structure: BTreeSet<String>,
}

impl LeakCheck {
    /// `sections` (each begins with its heading) and the `notes` (sentences and names that stand between the messages and in
    /// the definitions of tools) are secret, and of the
    /// `persona` a large share; `quotable` is not: the catalog block first, then the tenant's copy.
    #[must_use]
    pub fn new(persona: &str, sections: &[String], notes: &[&str], quotable: &[&str]) -> Self {
        let runs = runs(persona, sections, notes, quotable);
        let open: BTreeSet<String> = quotable.iter().flat_map(|text| fold::identifiers(text)).collect();
        let own =
            sections.iter().map(String::as_str).chain(notes.iter().copied()).flat_map(fold::identifiers);
        let catalog = quotable.first().copied().unwrap_or_default();
        let lines = sections.iter().map(|section| first_line(section)).chain(catalog.lines().filter(orders));
        let published = Published::of(quotable, &quoted::all(persona));
        let marked =
            LEAK_MARKERS.iter().copied().filter(|marker| !marker.ends_with('(') && !published.holds(marker));
        let marked = marked.chain([first_line(catalog)]);
        Self {
            runs,
            identifiers: own.filter(|word| !open.contains(word)).collect(),
            markers: marked.map(fold::tight).filter(|marker| !marker.is_empty()).collect(),
            published,
            named: capital_words(catalog).filter(|word| is_field(word)).map(str::to_owned).collect(),
            structure: lines.map(bare).filter(|line| !line.is_empty()).map(str::to_owned).collect(),
        }
    }

    /// Whether these texts, which one reply sends one after the other, give anything away.
    #[must_use]
    pub fn finds<'text>(&self, texts: impl IntoIterator<Item = &'text str>) -> bool {
        let texts: Vec<&str> = texts.into_iter().collect();
        if texts.iter().any(|text| self.holds_marker(text)) {
            return true;
        }
        let whole = texts.join("\n");
        if self.holds_hidden_marker(&whole) || self.names_identifiers(&whole) || self.has_structure(&whole) {
            return true;
        }
        decode::all(&whole).iter().any(|text| self.quotes(text))
    }

    /// Whether the catalog writes this name of one of the reply's fields, with a capital as it stands: such a line of a reply
    /// may be about the tenant's own things (GUARD-2).
    #[must_use]
    pub fn names_field(&self, name: &str) -> bool {
        self.named.contains(name)
    }

    /// A fence marker or a heading of the prompt as it stands there (GUARD-4). A heading that the tenant's own texts hold
    /// says nothing of the prompt, except on a line of its own.
    fn holds_marker(&self, text: &str) -> bool {
        LEAK_MARKERS.iter().any(|marker| text.contains(marker) && !self.published.holds(marker))
            || self.published.stands_alone(text)
    }

    /// Markers in another spelling: spaced out, with invisible characters inside, in look-alikes of the letters.
    fn holds_hidden_marker(&self, text: &str) -> bool {
        let shown = fold::tight(text);
        let lower = shown.to_lowercase();
        let fence = [fence::OPEN, fence::CLOSE].map(|marker| fold::tight(marker).to_lowercase());
        self.markers.iter().any(|marker| shown.contains(marker.as_str()))
            || fence.iter().any(|marker| lower.contains(marker.as_str()))
    }

    /// Two of our own snake_case or camelCase words: no contact knows them, and a translated prompt still has them.
    fn names_identifiers(&self, text: &str) -> bool {
        let named = fold::identifiers(text).into_iter().filter(|word| self.identifiers.contains(word));
        named.collect::<BTreeSet<_>>().len() > 1
    }

    /// Two of the lines that give the system part its order.
    fn has_structure(&self, text: &str) -> bool {
        let shown = fold::readable(text);
        let lines = shown.lines().map(bare).filter(|line| self.structure.contains(*line));
        lines.collect::<BTreeSet<_>>().len() > 1
    }

    fn quotes(&self, text: &str) -> bool {
        views::of_reply(text).iter().any(|view| self.runs.give_away(view))
    }
}

impl std::fmt::Debug for LeakCheck {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("LeakCheck").field("windows", &self.runs.len()).finish_non_exhaustive()
    }
}

fn runs(persona: &str, sections: &[String], notes: &[&str], quotable: &[&str]) -> Runs {
    let mut runs = Runs::default();
    let views = views::of_secret(persona);
    runs.add(&views, Part::Persona);
    // As they stand one after the other: a passage may reach from one into the next.
    runs.add(&views::of_secret(&format!("{persona}\n\n{}", sections.join("\n\n"))), Part::Own);
    for note in notes {
        runs.add(&views::of_secret(note), Part::Own);
    }
    for text in quotable.iter().copied().chain(quoted::all(persona)) {
        runs.remove(&views::of_secret(text));
    }
    runs.measure(views.first().map(Vec::as_slice).unwrap_or_default(), too_much_persona);
    runs
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}

/// A line of the catalog block that gives it its order: the heading, or the first of an entry. The headings of questions
/// and payment options are words a contact may read.
fn orders(line: &&str) -> bool {
    line.starts_with("- id:") || line.starts_with(CATALOG)
}

fn capital_words(text: &str) -> impl Iterator<Item = &str> {
    let words = text.split(|glyph: char| !(glyph.is_alphanumeric() || glyph == '_'));
    words.filter(|word| word.starts_with(char::is_uppercase))
}

fn is_field(word: &str) -> bool {
    FIELDS.iter().any(|field| field.eq_ignore_ascii_case(word))
}

/// A line without the marks around it.
fn bare(line: &str) -> &str {
    line.trim_matches(|glyph: char| !glyph.is_alphanumeric())
}

#[cfg(test)]
mod persona_tests;
#[cfg(test)]
mod tests;
