//! Which fields of a tenant only ever go forward (FN-STAGE-5, FN-STAGE-9, FN-INT-1).

use std::sync::Arc;

use super::action::Action;
use crate::config::Tenant;
use crate::domain::{Intent, Stage};

/// The marks of `tools.json` as an attempt finds them. An action does not hold them: its shape is the reference's too (08
/// section 4), and a word such as `offered` may be a value of any field.
#[derive(Clone)]
pub struct Marks(Arc<dyn Fn() -> Arc<Tenant> + Send + Sync>);

impl Marks {
    /// Those of the configuration that this names at the moment.
    #[must_use]
    pub fn asking(tenant: impl Fn() -> Arc<Tenant> + Send + Sync + 'static) -> Self {
        Self(Arc::new(tenant))
    }

    /// Those of one configuration, for a turn that keeps it to its end (TCFG-5).
    #[must_use]
    pub fn of(tenant: Arc<Tenant>) -> Self {
        Self::asking(move || Arc::clone(&tenant))
    }

    /// What a contact may not have written for this write to be made: the stages behind its stage, `prospect` for an intent
    /// that is not. `None` for every other action.
    pub(super) fn values_above(&self, action: &Action) -> Option<Vec<&'static str>> {
        let Action::SetField { id, value, .. } = action else { return None };
        let tenant = (self.0)();
        let tools = tenant.tools.as_ref()?;
        if tools.funnel_field().is_some_and(|field| field.id == *id) {
            let stage: Stage = value.parse().ok()?;
            return Some(Stage::ALL.iter().filter(|one| **one > stage).map(|one| one.as_str()).collect());
        }
        if tools.intent_field().is_some_and(|field| field.id == *id) {
            let intent: Intent = value.parse().ok()?;
            return Some(Intent::ALL.iter().filter(|one| **one > intent).map(|one| one.as_str()).collect());
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::super::test_support::{shop, tenant};
    use super::*;

    /// FN-STAGE-5, FN-STAGE-9, FN-INT-1: stage and intent have an order, the same word in another field has none.
    #[test]
    fn only_marked_fields_go_forward() {
        let marks = Marks::of(tenant(shop()));
        let above = |id: &str, value: &str| {
            let (id, field, value) = (id.to_owned(), String::new(), value.to_owned());
            marks.values_above(&Action::SetField { id, field, value, offering: false, follow_on: None })
        };
        assert_eq!(above("sale_stage", "offered"), Some(vec!["prepared", "link_sent"]));
        assert_eq!(above("sale_stage", "link_sent"), Some(Vec::new()));
        assert_eq!(above("purpose", "not_prospect"), Some(vec!["prospect"]));
        assert_eq!(above("purpose", "prospect"), Some(Vec::new()));
        assert_eq!((above("day_choice", "offered"), above("day_choice", "not_prospect")), (None, None));
        let tag = Action::AddTag { id: "sale_stage".to_owned(), tag: String::new() };
        assert_eq!(marks.values_above(&tag), None);
    }
}
