//! The leak check (GUARD-4, GUARD-5, 01 section 17): whether a reply gives the system part away, word for word, in
//! another spelling, in an encoding, or cut into pieces.
//!
//! What is secret follows from how the system part is built and from no list of phrases: the persona and our own
//! sections are instructions to the model; the catalog is there to be quoted, so is the tenant's own copy and whatever the
//! persona puts between quotation marks. A run of words that both hold may be quoted.

mod decode;
mod runs;
mod views;

use std::collections::BTreeSet;

use self::runs::{Part, Runs};
use super::prompt::LEAK_MARKERS;
use super::{fence, fold};

/// Letters of our own sections that a reply may repeat in one run: about nine words.
const OWN_RUN: usize = 48;
/// Letters of the persona that it may repeat: more, because an agent may say who it is in the persona's words.
const PERSONA_RUN: usize = 64;
/// A run from here on counts towards [`ALL_RUNS`].
const SHORT_RUN: usize = 28;
/// Letters of all such runs together: pieces with other words between them.
const ALL_RUNS: usize = 120;

/// What a reply must not give away, of one loaded configuration. Built once with the system part; looking a reply through
/// costs microseconds (docs/performance.md). The default knows the fixed markers only. `Debug` shows none of it.
#[derive(Default)]
pub struct LeakCheck {
    runs: Runs,
    /// Our own snake_case words, in lower case: names of fields, reasons, labels.
    identifiers: BTreeSet<String>,
    /// Fence markers and headings without spaces and marks, as they stand.
    markers: Vec<String>,
    /// Lines that only give the system part its order: headings, and the line that begins an entry of the catalog.
    structure: BTreeSet<String>,
}

impl LeakCheck {
    /// `persona` and `sections` (each begins with its heading) are secret; `quotable` is not: the catalog block first,
    /// then the tenant's copy.
    #[must_use]
    pub fn new(persona: &str, sections: &[String], quotable: &[&str]) -> Self {
        let mut runs = Runs::default();
        runs.add(&views::of_secret(persona), Part::Persona);
        // As they stand one after the other: a passage may reach from one into the next.
        runs.add(&views::of_secret(&format!("{persona}\n\n{}", sections.join("\n\n"))), Part::Own);
        for text in quotable.iter().copied().chain(quoted(persona)) {
            runs.remove(&views::of_secret(text));
        }
        let open: BTreeSet<String> = quotable.iter().flat_map(|text| fold::identifiers(text)).collect();
        let own = sections.iter().flat_map(|section| fold::identifiers(section));
        let catalog = quotable.first().copied().unwrap_or_default();
        let lines = sections.iter().map(|section| first_line(section)).chain(catalog.lines().filter(orders));
        let marked =
            LEAK_MARKERS.iter().copied().filter(|marker| !marker.ends_with('(')).chain([first_line(catalog)]);
        Self {
            runs,
            identifiers: own.filter(|word| !open.contains(word)).collect(),
            markers: marked.map(fold::tight).filter(|marker| !marker.is_empty()).collect(),
            structure: lines.map(bare).filter(|line| !line.is_empty()).map(str::to_owned).collect(),
        }
    }

    /// Whether these texts, which one reply sends one after the other, give anything away.
    #[must_use]
    pub fn finds<'text>(&self, texts: impl IntoIterator<Item = &'text str>) -> bool {
        let texts: Vec<&str> = texts.into_iter().collect();
        if texts.iter().any(|text| leaks(text)) {
            return true;
        }
        let whole = texts.join("\n");
        if self.holds_hidden_marker(&whole) || self.names_identifiers(&whole) || self.has_structure(&whole) {
            return true;
        }
        decode::all(&whole).iter().any(|text| self.quotes(text))
    }

    /// Markers in another spelling: spaced out, with invisible characters inside, in look-alikes of the letters.
    fn holds_hidden_marker(&self, text: &str) -> bool {
        let shown = fold::tight(text);
        let lower = shown.to_lowercase();
        let fence = [fence::OPEN, fence::CLOSE].map(|marker| fold::tight(marker).to_lowercase());
        self.markers.iter().any(|marker| shown.contains(marker.as_str()))
            || fence.iter().any(|marker| lower.contains(marker.as_str()))
    }

    /// Two of our own snake_case words: no contact knows them, and a translated prompt still has them.
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

/// Whether a text holds a fence marker or a heading of the prompt as it stands there (GUARD-4).
#[must_use]
pub fn leaks(text: &str) -> bool {
    LEAK_MARKERS.iter().any(|marker| text.contains(marker))
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}

/// A line of the catalog block that heads others: not indented, or the first of an entry.
fn orders(line: &&str) -> bool {
    !line.is_empty() && (line.starts_with("- id:") || !line.starts_with(['-', ' ']))
}

/// A line without the marks around it.
fn bare(line: &str) -> &str {
    line.trim_matches(|glyph: char| !glyph.is_alphanumeric())
}

/// What a persona puts between quotation marks is there to be said.
fn quoted(persona: &str) -> impl Iterator<Item = &str> {
    const PAIRS: [(char, char); 4] = [('"', '"'), ('“', '”'), ('«', '»'), ('„', '“')];
    persona.lines().flat_map(|line| {
        PAIRS.iter().flat_map(move |(open, close)| {
            let mut rest = line;
            std::iter::from_fn(move || {
                let (_, after) = rest.split_once(*open)?;
                let (inside, behind) = after.split_once(*close)?;
                rest = behind;
                Some(inside)
            })
        })
    })
}

#[cfg(test)]
mod tests;
