//! What of the configuration no case of a suite mentions (TEN-5). It asserts nothing.

use std::collections::BTreeSet;

use serde::Serialize;

use super::case::Case;
use crate::config::{Tenant, Tools};
use crate::domain::{EscalationReason, visible_lines};

/// Names that occur in no case.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Coverage {
    /// Values of the funnel field.
    pub stages: Vec<String>,
    /// Flows, by id.
    pub flows: Vec<String>,
    /// Fields, by id, and of those that are mentioned the values that are not.
    pub fields: Vec<String>,
    /// Escalation reasons.
    pub reasons: Vec<String>,
}

impl Coverage {
    /// What these cases leave out. A case mentions what it expects, and what it says of the contact.
    #[must_use]
    pub fn of(cases: &[Case], tenant: &Tenant) -> Self {
        let named = Named::in_cases(cases);
        let none = Tools::default();
        let tools = tenant.tools.as_ref().unwrap_or(&none);
        let stages = tools.funnel_field().map(|field| field.values.clone()).unwrap_or_default();
        let flows = tools.flows.iter().map(|flow| flow.id.clone());
        let reasons = EscalationReason::ALL.iter().map(|reason| reason.as_str().to_owned());
        Self {
            stages: without(stages.into_iter(), &named.stages(tools)),
            flows: without(flows, &named.flows),
            fields: fields(tools, &named),
            reasons: without(reasons, &named.reasons),
        }
    }

    /// As a person reads it: one line a kind.
    #[must_use]
    pub fn text(&self) -> String {
        let kinds = [
            ("stages", &self.stages),
            ("flows", &self.flows),
            ("fields", &self.fields),
            ("reasons", &self.reasons),
        ];
        let line = |(kind, names): (&str, &Vec<String>)| {
            let names = if names.is_empty() { "every one is mentioned".to_owned() } else { names.join(", ") };
            format!("  {kind:<8} {names}\n")
        };
        let lines: String = kinds.into_iter().map(line).collect();
        visible_lines(&format!("no case mentions\n{lines}")).into_owned()
    }
}

/// What the cases mention.
#[derive(Default)]
struct Named {
    stages: BTreeSet<String>,
    flows: BTreeSet<String>,
    /// Field and value.
    values: BTreeSet<(String, String)>,
    reasons: BTreeSet<String>,
}

impl Named {
    fn in_cases(cases: &[Case]) -> Self {
        let mut named = Self::default();
        for case in cases {
            named.reasons.extend(case.expect.reason.clone());
            if let Some(contact) = &case.contact {
                named.stages.extend(contact.funnel_stage.map(|stage| stage.as_str().to_owned()));
                named.flows.extend(contact.sent_flows.iter().cloned());
            }
            case.expect.actions.iter().flatten().for_each(|action| named.add_action(action));
        }
        named
    }

    fn add_action(&mut self, action: &str) {
        match action.split_once(' ') {
            Some(("send_flow", id)) => {
                self.flows.insert(id.to_owned());
            }
            Some(("set_field", write)) => {
                let (field, value) = write.split_once('=').unwrap_or((write, ""));
                self.values.insert((field.to_owned(), value.to_owned()));
            }
            _ => {}
        }
    }

    /// A write of the funnel field names a stage too.
    fn stages(&self, tools: &Tools) -> BTreeSet<String> {
        let funnel = tools.funnel_field().map(|field| field.id.as_str());
        let written = self.values.iter().filter(|(field, _)| Some(field.as_str()) == funnel);
        self.stages.iter().cloned().chain(written.map(|(_, value)| value.clone())).collect()
    }
}

/// The funnel's values are its stages, which have a line of their own.
fn fields(tools: &Tools, named: &Named) -> Vec<String> {
    let mut missing = Vec::new();
    for field in &tools.fields {
        let written = |value: &String| named.values.contains(&(field.id.clone(), value.clone()));
        if !named.values.iter().any(|(id, _)| *id == field.id) {
            missing.push(field.id.clone());
        } else if !field.funnel {
            let values = field.values.iter().filter(|value| !written(value));
            missing.extend(values.map(|value| format!("{}={value}", field.id)));
        }
    }
    missing
}

fn without(names: impl Iterator<Item = String>, named: &BTreeSet<String>) -> Vec<String> {
    names.filter(|name| !named.contains(name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evals::test_support::{case, tenant};

    /// TEN-5: what is expected or known of the contact is mentioned; the rest is listed.
    #[test]
    fn what_no_case_mentions_is_listed() {
        let cases = [
            case(
                r#"{"escalate": false, "actions": ["send_flow enrolment_link", "set_field intent=prospect",
                    "set_field funnel_stage=qualifying"]}"#,
                r#", "contact": {"funnel_stage": "offered", "sent_flows": ["student_results"]}"#,
            ),
            case(r#"{"escalate": true, "reason": "complaint"}"#, ""),
        ];
        let missing = Coverage::of(&cases, &tenant());
        assert_eq!(missing.stages, ["new", "nurturing", "prepared", "link_sent"]);
        assert!(missing.flows.contains(&"foundation_brochure".to_owned()));
        assert!(!missing.flows.iter().any(|id| id == "enrolment_link" || id == "student_results"));
        assert!(missing.fields.contains(&"course".to_owned()));
        assert!(missing.fields.contains(&"intent=not_prospect".to_owned()), "{:?}", missing.fields);
        assert!(!missing.fields.iter().any(|name| name.starts_with("funnel_stage")));
        assert!(!missing.reasons.contains(&"complaint".to_owned()) && missing.reasons.len() == 5);
        assert!(
            missing.text().starts_with("no case mentions\n  stages   new, nurturing"),
            "{}",
            missing.text()
        );
    }

    /// Without tools there is nothing but reasons to mention.
    #[test]
    fn a_tenant_without_tools_has_only_reasons() {
        let bare = Tenant { tools: None, ..tenant() };
        let missing = Coverage::of(&[], &bare);
        assert_eq!((missing.stages.len(), missing.flows.len(), missing.fields.len()), (0, 0, 0));
        assert!(missing.text().contains("every one is mentioned"), "{}", missing.text());
    }
}
