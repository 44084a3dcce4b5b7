//! Headings of the prompt that a tenant's own texts hold as well: a course called `SECURITY+`, a `CATALOG (PDF)`. There they
//! are words that a contact may read (01 section 17), so the words alone give nothing away.

use crate::model::fold;
use crate::model::prompt::{CATALOG, LEAK_MARKERS};

/// The headings, and those of them that still count on a line of their own.
#[derive(Default)]
pub struct Published {
    headings: Vec<&'static str>,
    /// Without spaces and marks.
    alone: Vec<String>,
}

impl Published {
    /// What of [`LEAK_MARKERS`] stands in a line of these texts; the catalog block comes first, and its heading is ours but
    /// for the business name. Never a fence marker.
    pub fn of(quotable: &[&str], quotations: &[&str]) -> Self {
        let all = || quotable.iter().chain(quotations).flat_map(|text| text.lines());
        let lines = || all().take(1).map(business_name).chain(all().skip(1));
        let shown: Vec<String> = lines().map(fold::tight).collect();
        let values: Vec<String> = lines().map(|line| fold::tight(value(line))).collect();
        let mut published = Self::default();
        for heading in LEAK_MARKERS.into_iter().filter(|marker| !marker.starts_with('<')) {
            let tight = fold::tight(heading);
            if shown.iter().any(|line| line.contains(&tight)) {
                published.headings.push(heading);
                published.alone.extend((!values.contains(&tight)).then_some(tight));
            }
        }
        published
    }

    pub fn holds(&self, heading: &str) -> bool {
        self.headings.contains(&heading)
    }

    /// Whether a line of the text is nothing but such a heading, which is how it stands in the prompt and in no text of the
    /// tenant.
    pub fn stands_alone(&self, text: &str) -> bool {
        !self.alone.is_empty() && text.lines().any(|line| self.alone.contains(&fold::tight(line)))
    }
}

/// The heading of the catalog without what is ours of it.
fn business_name(line: &str) -> &str {
    line.strip_prefix(CATALOG).and_then(|rest| rest.strip_suffix(')')).unwrap_or(line)
}

/// What stands behind a label.
fn value(line: &str) -> &str {
    line.split_once(": ").map_or(line, |(_, value)| value)
}
