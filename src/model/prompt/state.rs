//! What the server knows about the contact of a turn, one line each, outside the fence (01 section 7). The labels, the
//! stage, the id of the offering and `(not_prospect)` are fixed: the mock model reads them (STATE-1, STATE-3).

use crate::config::Tools;
use crate::domain::{Intent, Stage};
use crate::tools::Known;

const OTHER_REASON: &str =
    "came for another reason (not_prospect). Should they now mean to buy, record prospect.";
const CHANGED: &str = "since the last turn. Confirm before you go on.";

/// What the lines say besides labels, stages and ids: no reply says it (GUARD-4, 01 section 17).
pub const SENTENCES: [&str; 2] = [OTHER_REASON, CHANGED];

/// The offering of a turn as it starts, and the one before it (STATE-4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offering<'a> {
    /// Id of the turn's offering.
    pub now: Option<&'a str>,
    /// What was stored when the contact was last seen.
    pub before: Option<&'a str>,
}

/// The lines of a turn, in the order of STATE-1; none for a tenant without the three fields (FN-LINE-2). They come from
/// the records alone (STATE-6, FN-LINE-1).
#[must_use]
pub fn state_lines(tools: Option<&Tools>, known: &Known, offering: Offering<'_>) -> Vec<String> {
    let Some(tools) = tools else { return Vec::new() };
    let intent = tools.intent_field().map(|_| intent(known.intent));
    let funnel = tools.funnel_field().map(|_| format!("FUNNEL: {}", known.stage.unwrap_or(Stage::New)));
    let offering = tools.offering_field().map(|_| offering_line(offering));
    intent.into_iter().chain(funnel).chain(offering).collect()
}

/// STATE-4, FN-PR-42
fn offering_line(offering: Offering<'_>) -> String {
    match (offering.before, offering.now) {
        (_, None) => "OFFERING: none recorded yet".to_owned(),
        (Some(before), Some(now)) if before != now => {
            format!("OFFERING: changed from {before} to {now} {CHANGED}")
        }
        (_, Some(now)) => format!("OFFERING: {now}"),
    }
}

/// STATE-3
fn intent(known: Option<Intent>) -> String {
    match known {
        Some(Intent::Prospect) => "INTENT: prospect".to_owned(),
        Some(Intent::NotProspect) => format!("INTENT: {OTHER_REASON}"),
        None => "INTENT: nothing recorded yet.".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::demo;

    fn lines(known: &Known, offering: Offering<'_>) -> Vec<String> {
        let tenant = demo::tenant().unwrap();
        state_lines(tenant.tools.as_ref(), known, offering)
    }

    /// STATE-1 to STATE-4, 10 section 11.2
    #[test]
    fn the_lines_name_what_is_recorded() {
        let nothing = ["INTENT: nothing recorded yet.", "FUNNEL: new", "OFFERING: none recorded yet"];
        assert_eq!(lines(&Known::default(), Offering::default()), nothing);
        let known = Known { stage: Some(Stage::Offered), intent: Some(Intent::Prospect), ..Known::default() };
        let advanced = Offering { now: Some("advanced"), before: Some("advanced") };
        let recorded = ["INTENT: prospect", "FUNNEL: offered", "OFFERING: advanced"];
        assert_eq!(lines(&known, advanced), recorded);
        assert_eq!(lines(&known, Offering { before: None, ..advanced }), recorded);
        let changed = lines(&known, Offering { before: Some("foundation"), ..advanced });
        assert!(changed[2].starts_with("OFFERING: changed from foundation to advanced "), "{}", changed[2]);
        let other = lines(&Known { intent: Some(Intent::NotProspect), ..known }, advanced);
        assert!(other[0].contains("(not_prospect)") && other[0].contains("record prospect"), "{}", other[0]);
    }

    /// FN-LINE-2, PROMPT-12
    #[test]
    fn a_tenant_without_the_fields_gets_no_line() {
        assert!(state_lines(None, &Known::default(), Offering::default()).is_empty());
        let tools = Tools { fields: Vec::new(), ..demo::tenant().unwrap().tools.unwrap() };
        assert!(state_lines(Some(&tools), &Known::default(), Offering::default()).is_empty());
    }
}
