//! What of a suite cannot hold, or asserts less than it seems to: said before a run, and refused for by nobody.

use super::case::{Case, Contact};
use crate::config::{Catalog, Tenant, Tools};
use crate::domain::EscalationReason;

/// How an action is written, for the hint at one that is not (07/RUN-10).
const ACTIONS: &str = "`send_flow`, `add_tag`, `remove_tag` or `write_note` and an id, `set_field` and `<id>=<value>`, \
                       `schedule_nudge` and the id of a delay";

/// One line for each doubt about these cases under this configuration.
#[must_use]
pub fn doubts(cases: &[Case], tenant: &Tenant) -> Vec<String> {
    let with_actions = cases.iter().filter(|case| case.expect.actions.is_some()).count();
    let mut found = Vec::new();
    if tenant.tools.is_none() && with_actions > 0 {
        found.push(format!(
            "{with_actions} of {} cases assert actions and CONFIG_DIR has no tools.json, so they fail; \
             `agent bootstrap --tools` writes the demo tenant's",
            cases.len()
        ));
    }
    for case in cases {
        let said = not_built(case).into_iter().chain(unknown(case, tenant));
        found.extend(said.map(|said| format!("case `{}`: {said}", case.id)));
    }
    found
}

/// Conditions that the service cannot bring about yet: the case runs without them.
fn not_built(case: &Case) -> Vec<String> {
    let contact = case.contact.as_ref();
    let conditions = [
        (contact.is_some_and(|contact| contact.opening_due), "contact.opening_due, the opening flow"),
        (
            contact.is_some_and(|contact| contact.advert_offering.is_some()),
            "contact.advert_offering, the advert",
        ),
        (case.nudge, "nudge, the prompt's part on follow-ups"),
    ];
    let given = conditions.into_iter().filter(|(given, _)| *given);
    given.map(|(_, name)| format!("not built yet: {name}; it runs without")).collect()
}

/// Names that nothing has: an assertion on them always fails, or holds for the wrong reason.
fn unknown(case: &Case, tenant: &Tenant) -> Vec<String> {
    let mut found = Vec::new();
    let known = |wanted: &str| EscalationReason::ALL.iter().any(|reason| reason.as_str() == wanted);
    let reason = case.expect.reason.as_deref().filter(|wanted| !wanted.is_empty() && !known(wanted));
    found.extend(reason.map(|wanted| format!("there is no reason `{wanted}`")));
    if let Some(contact) = &case.contact {
        found.extend(unknown_offerings(contact, &tenant.catalog));
    }
    if let Some(tools) = &tenant.tools {
        let sent = case.contact.iter().flat_map(|contact| &contact.sent_flows);
        let missing = sent.filter(|id| !tools.flows.iter().any(|flow| flow.id == **id));
        found.extend(missing.map(|id| format!("sent_flows: tools.json has no flow `{id}`")));
        found.extend(case.expect.actions.iter().flatten().filter_map(|action| unknown_action(action, tools)));
    }
    found
}

fn unknown_offerings(contact: &Contact, catalog: &Catalog) -> Vec<String> {
    let named = [&contact.offering, &contact.advert_offering].into_iter().flatten();
    let missing = named.filter(|id| !catalog.offerings.iter().any(|offering| offering.id == **id));
    missing.map(|id| format!("catalog.json has no offering `{id}`")).collect()
}

fn unknown_action(action: &str, tools: &Tools) -> Option<String> {
    let (tool, id) = action.split_once(' ').unwrap_or((action, ""));
    let has = match tool {
        "send_flow" => tools.flows.iter().any(|flow| flow.id == id),
        "add_tag" | "remove_tag" => tools.tags.iter().any(|tag| tag.id == id),
        "write_note" => tools.notes.iter().any(|note| note.id == id),
        "schedule_nudge" => tools.nudge.iter().flat_map(|nudge| &nudge.delays).any(|delay| delay.id == id),
        "set_field" => id.split_once('=').is_some_and(|(field, value)| takes(tools, field, value)),
        _ => return Some(format!("`{action}` is no action: {ACTIONS}")),
    };
    (!has).then(|| format!("tools.json has nothing for `{action}`"))
}

/// A field without values takes any.
fn takes(tools: &Tools, field: &str, value: &str) -> bool {
    let takes = |values: &[String]| values.is_empty() || values.iter().any(|known| known == value);
    tools.fields.iter().any(|known| known.id == field && takes(&known.values))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evals::test_support::{answer, case, tenant};

    /// EVAL-7: the one line that explains fourteen failures.
    #[test]
    fn missing_tools_are_named_once() {
        let cases = [case(r#"{"escalate": false, "actions": []}"#, ""), answer("")];
        let found = doubts(&cases, &Tenant { tools: None, ..tenant() });
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(
            found[0].starts_with("1 of 2 cases") && found[0].contains("agent bootstrap --tools"),
            "{found:?}"
        );
        assert_eq!(doubts(&cases, &tenant()), Vec::<String>::new());
    }

    /// A condition that is lost is said: the case would pass or fail for another reason than its author's.
    #[test]
    fn conditions_that_are_not_built_are_named() {
        let rest = r#", "nudge": true, "contact": {"opening_due": true, "advert_offering": "foundation"}"#;
        let found = doubts(&[answer(rest)], &tenant());
        assert_eq!(found.len(), 3, "{found:?}");
        assert!(found.iter().all(|said| said.starts_with("case `case`: not built yet: ")), "{found:?}");
        assert!(doubts(&[answer(r#", "contact": {"opening_due": false}"#)], &tenant()).is_empty());
    }

    /// 07/RUN-10, A-2: what cannot hold because of a name.
    #[test]
    fn names_that_nothing_has_are_named() {
        let found = |expect: &str, rest: &str| doubts(&[case(expect, rest)], &tenant());
        for action in [
            "send_flow x",
            "add_tag x",
            "remove_tag x",
            "write_note x",
            "schedule_nudge x",
            "set_field x=1",
            "set_field intent=yes",
            "set_field intent",
            "send_flow",
            "wave hello",
        ] {
            let said = found(&format!(r#"{{"escalate": false, "actions": ["{action}"]}}"#), "");
            assert!(said.len() == 1 && said[0].contains(action), "{said:?}");
        }
        let good = r#"{"escalate": true, "reason": "complaint", "actions": ["send_flow enrolment_link", "add_tag
            likes_foundation", "set_field intent=prospect", "write_note aim", "schedule_nudge next_day"]}"#;
        let known = r#", "contact": {"offering": "advanced", "sent_flows": ["hello_clip"]}"#;
        assert_eq!(found(&good.replace("\n            ", " "), known), Vec::<String>::new());
        let odd = found(
            r#"{"escalate": true, "reason": "angry"}"#,
            r#", "contact": {"offering": "x", "sent_flows": ["y"]}"#,
        );
        assert!(
            odd.len() == 3 && odd[0].contains("`angry`") && odd[1].contains("`x`") && odd[2].contains("`y`"),
            "{odd:?}"
        );
    }
}
