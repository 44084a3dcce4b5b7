//! The scripted opening (02 section 6).

use crate::config::OpeningTrigger;

/// True when the whole text, trimmed and lower-cased, equals one of the keywords (OPEN-1, OPEN-3). The caller
/// keeps media messages away (OPEN-4).
#[must_use]
pub fn is_opening(trigger: Option<&OpeningTrigger>, text: &str) -> bool {
    let Some(trigger) = trigger else { return false };
    let said = text.trim().to_lowercase();
    !said.is_empty() && trigger.keywords.iter().any(|keyword| keyword.trim().to_lowercase() == said)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trigger() -> OpeningTrigger {
        OpeningTrigger { keywords: vec![" Begin Session".to_owned()], message: "Welcome.".to_owned() }
    }

    /// OPEN-1, 02/AC-12
    #[test]
    fn the_whole_text_must_equal_a_keyword() {
        assert!(is_opening(Some(&trigger()), "  BEGIN session \n"));
        assert!(!is_opening(Some(&trigger()), "can we begin session two"), "OPEN-3");
        assert!(!is_opening(Some(&trigger()), ""));
        assert!(!is_opening(None, "begin session"));
        let blank = OpeningTrigger { keywords: vec!["  ".to_owned()], message: "Welcome.".to_owned() };
        assert!(!is_opening(Some(&blank), ""), "a blank keyword matches nothing");
    }
}
