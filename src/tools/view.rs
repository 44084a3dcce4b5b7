//! A contact as the model may see it: configured ids and values, and the notes (READ-1 to READ-5).

use super::note;
use crate::config::Tools;
use crate::domain::ContactText;
use crate::manychat::ContactInfo;

/// Stands for a value that no list names (READ-2).
const OTHER: &str = "other";

/// A contact as the model may see it (READ-1 to READ-5). `Debug` shows sizes.
#[derive(Clone, PartialEq)]
pub struct ContactView {
    /// Configured ids of the tags it has, in config order.
    pub tags: Vec<String>,
    /// Configured field id and its value, one of the configured ones, `other`, or none.
    pub fields: Vec<(String, Option<String>)>,
    /// Configured note id and its text, cut to its limit; free text, to be fenced. Empty when no note is configured.
    pub notes: Vec<(String, Option<ContactText>)>,
}

impl std::fmt::Debug for ContactView {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (tags, fields, notes) = (self.tags.len(), self.fields.len(), self.notes.len());
        write!(out, "ContactView({tags} tags, {fields} fields, {notes} notes)")
    }
}

impl ContactView {
    /// What the configuration names, and nothing else (READ-5). The notes' words still have to be fenced (READ-4).
    #[must_use]
    pub fn of(tools: &Tools, contact: &ContactInfo) -> Self {
        let tags = tools.tags.iter().chain(&tools.readable.tags);
        let written = tools.fields.iter().map(|field| (&field.id, &field.field, &field.values));
        let only_read = tools.readable.fields.iter().map(|field| (&field.id, &field.field, &field.values));
        Self {
            tags: tags.filter(|tag| contact.tags.contains(&tag.tag)).map(|tag| tag.id.clone()).collect(),
            fields: written
                .chain(only_read)
                .map(|(id, name, values)| (id.clone(), value(contact, name, values)))
                .collect(),
            notes: tools
                .notes
                .iter()
                .map(|note| (note.id.clone(), text(contact, &note.field, usize::from(note.max_length))))
                .collect(),
        }
    }
}

/// READ-2
fn value(contact: &ContactInfo, name: &str, values: &[String]) -> Option<String> {
    let found = contact.field(name).filter(|found| !found.is_empty())?;
    let listed = values.iter().find(|value| value.as_str() == found.expose());
    Some(listed.map_or(OTHER, String::as_str).to_owned())
}

/// READ-3
fn text(contact: &ContactInfo, name: &str, most: usize) -> Option<ContactText> {
    let found = contact.field(name).filter(|found| !found.is_empty())?;
    Some(ContactText::new(note::prefix(found.expose(), most)))
}

#[cfg(test)]
mod tests {
    use super::super::test_support::shop;
    use super::*;

    fn contact() -> ContactInfo {
        let field = |name: &str, value: Option<&str>| (name.to_owned(), value.map(ContactText::new));
        ContactInfo {
            tags: ["src-door", "vip", "likes-glazing"].map(str::to_owned).to_vec(),
            fields: vec![
                field("pottery_day", Some("sunday")),
                field("pottery_class", Some("wheel")),
                field("newsletter_on", Some("")),
                field("secret", Some("hidden")),
                field("agent_goal", Some("😀".repeat(30).as_str())),
            ],
        }
    }

    /// READ-1, READ-2, READ-3, READ-5: ids in config order, other, null, a cut note, nothing that is not configured.
    #[test]
    fn a_view_holds_configured_ids_and_values_only() {
        let view = ContactView::of(&shop(), &contact());
        assert_eq!(view.tags, ["likes_glaze", "walked_in"]);
        let field = |id: &str| view.fields.iter().find(|(known, _)| known == id).unwrap().1.as_deref();
        assert_eq!(field("day_choice"), Some("other"));
        assert_eq!(field("what_class"), Some("wheel"));
        assert_eq!((field("newsletter"), field("sale_stage")), (None, None));
        assert_eq!(view.fields.last().unwrap().0, "newsletter", "readable fields come last");
        let notes: Vec<_> = view
            .notes
            .iter()
            .map(|(id, text)| (id.as_str(), text.as_ref().map(ContactText::expose)))
            .collect();
        assert_eq!(notes, [("goal", Some("😀".repeat(20).as_str())), ("handover", None)]);
        assert_eq!(format!("{view:?}"), "ContactView(2 tags, 5 fields, 2 notes)");
    }
}
