//! What the server knows about the contact of a turn, one line each, outside the fence (01 section 7). The labels, the
//! stage, the id of the offering and `(not_prospect)` are fixed: the mock model reads them (STATE-1, STATE-3).

use crate::config::Tools;
use crate::domain::{Intent, Stage};
use crate::funnel::Standing;

const OTHER_REASON: &str =
    "came for another reason (not_prospect). Should they now mean to buy, record prospect.";
const CHANGED: &str = "since the last turn. Confirm before you go on.";

/// What the lines say besides labels, stages and ids: no reply says it (GUARD-4, 01 section 17).
pub const SENTENCES: [&str; 2] = [OTHER_REASON, CHANGED];

/// The lines of a turn, in the order of STATE-1; none for a tenant without the three fields (FN-LINE-2). They come from
/// the records alone (STATE-6, FN-LINE-1), and say what the tools of the turn go by: the gate is open where the line says
/// prospect (FN-INT-3), the flows that fit are those of the offering it names (FN-OFF-5). `before`: id of the offering that
/// was stored when the contact was last seen, where it is still one (FN-OFF-7).
#[must_use]
pub fn state_lines(tools: Option<&Tools>, standing: &Standing, before: Option<&str>) -> Vec<String> {
    let Some(tools) = tools else { return Vec::new() };
    let intent = tools.intent_field().map(|_| intent(standing.intent));
    let funnel = tools.funnel_field().map(|_| format!("FUNNEL: {}", standing.stage.unwrap_or(Stage::New)));
    let offering = tools.offering_field().map(|_| offering_line(standing.offering.as_deref(), before));
    intent.into_iter().chain(funnel).chain(offering).collect()
}

/// STATE-4, FN-PR-42
fn offering_line(now: Option<&str>, before: Option<&str>) -> String {
    match (before, now) {
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

    fn lines(
        stage: Option<Stage>,
        intent: Option<Intent>,
        now: Option<&str>,
        before: Option<&str>,
    ) -> Vec<String> {
        let tools = demo::tenant().unwrap().tools.unwrap();
        state_lines(Some(&tools), &Standing::at_start(&tools, stage, intent, now), before)
    }

    /// STATE-1 to STATE-4, 10 section 11.2
    #[test]
    fn the_lines_name_what_is_recorded() {
        let nothing = ["INTENT: nothing recorded yet.", "FUNNEL: new", "OFFERING: none recorded yet"];
        assert_eq!(lines(None, None, None, None), nothing);
        let (offered, prospect, advanced) = (Some(Stage::Offered), Some(Intent::Prospect), Some("advanced"));
        let recorded = ["INTENT: prospect", "FUNNEL: offered", "OFFERING: advanced"];
        assert_eq!(lines(offered, prospect, advanced, advanced), recorded);
        assert_eq!(lines(offered, prospect, advanced, None), recorded);
        let changed = lines(offered, prospect, advanced, Some("foundation"));
        assert!(changed[2].starts_with("OFFERING: changed from foundation to advanced "), "{}", changed[2]);
        let other = lines(offered, Some(Intent::NotProspect), advanced, None);
        assert!(other[0].contains("(not_prospect)") && other[0].contains("record prospect"), "{}", other[0]);
    }

    /// FN-INT-3, STATE-3, 10 section 11.2: who was in the funnel before there was an intent field is a prospect, for the model
    /// as for the gate.
    #[test]
    fn the_intent_line_knows_the_rollout_rule() {
        assert_eq!(lines(Some(Stage::Nurturing), None, None, None)[0], "INTENT: prospect");
        assert_eq!(lines(Some(Stage::New), None, None, None)[0], "INTENT: nothing recorded yet.");
    }

    /// FN-LINE-2, PROMPT-12
    #[test]
    fn a_tenant_without_the_fields_gets_no_line() {
        assert!(state_lines(None, &Standing::default(), None).is_empty());
        let tools = Tools { fields: Vec::new(), ..demo::tenant().unwrap().tools.unwrap() };
        assert!(state_lines(Some(&tools), &Standing::default(), None).is_empty());
    }
}
