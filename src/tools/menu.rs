//! What one turn may name: fixed when the turn begins, for all its steps (TSET-1).

use std::sync::{Arc, LazyLock};

use super::turn_tools::{FlowMode, Offer};
use crate::config::{FieldTool, FlowRole, FlowTool, Tenant, Tools};
use crate::domain::Stage;
use crate::funnel::{self, Standing};

static NO_TOOLS: LazyLock<Tools> = LazyLock::new(Tools::default);

/// The choices of a turn. A flow that the turn itself sends stays in them: naming it again answers what became of it
/// (FN-LINK-9), and the definitions keep their bytes from step to step.
pub(super) struct Menu {
    tenant: Arc<Tenant>,
    /// Where the contact stood as the turn began.
    pub(super) start: Standing,
    /// The stage below which nothing was to be staged even then: what earlier turns have staged counts (10 section 16.1).
    pub(super) floor: Option<Stage>,
    /// Ids of the flows the contact has not had (TSET-3).
    unsent: Vec<String>,
    /// TSET-2
    pub(super) reads: bool,
    /// TSET-6
    pub(super) nudges: bool,
    /// FLOW-1
    pub(super) sends_at_call: bool,
}

impl Menu {
    pub(super) fn of(offer: &Offer) -> Self {
        let tenant = Arc::clone(&offer.tenant);
        let tools = tenant.tools.as_ref().unwrap_or(&NO_TOOLS);
        let known = &offer.known;
        let sent = |flow: &FlowTool| known.has_sent(&flow.id, offer.window_from);
        let unsent =
            |flow: &&FlowTool| flow.role != Some(FlowRole::Opening) && (flow.repeatable || !sent(flow));
        let sends_at_call = matches!(offer.flows, FlowMode::AtCall(_));
        Self {
            start: Standing::at_start(tools, known.stage, known.intent_to_come(), offer.offering.as_deref()),
            floor: known.floor(),
            unsent: tools.flows.iter().filter(unsent).map(|flow| flow.id.clone()).collect(),
            reads: offer.may_read && sends_at_call && !offer.nudge && is_worth_reading(tools),
            nudges: offer.follow_ups && !offer.nudge && tools.nudge.is_some(),
            sends_at_call,
            tenant,
        }
    }

    pub(super) fn tools(&self) -> &Tools {
        self.tenant.tools.as_ref().unwrap_or(&NO_TOOLS)
    }

    /// Whether the model, or a stage, may have this flow sent.
    pub(super) fn is_unsent(&self, flow: &FlowTool) -> bool {
        self.unsent.contains(&flow.id)
    }

    /// In config order.
    pub(super) fn unsent_flows(&self) -> impl Iterator<Item = &FlowTool> {
        self.tools().flows.iter().filter(|flow| self.is_unsent(flow))
    }

    /// The payment link, when the model may name it and a funnel guards it (FN-READY-3).
    pub(super) fn guarded_link(&self) -> Option<&FlowTool> {
        self.unsent_flows().find(|flow| funnel::ends_the_sale(self.tools(), flow))
    }
}

/// TSET-2: flows and follow-ups alone leave nothing to read.
fn is_worth_reading(tools: &Tools) -> bool {
    !(tools.tags.is_empty()
        && tools.fields.is_empty()
        && tools.notes.is_empty()
        && tools.readable.tags.is_empty()
        && tools.readable.fields.is_empty())
}

/// What the model may write into a field: `link_sent` is the service's own word (FN-STAGE-8).
pub(super) fn writable(field: &FieldTool) -> impl Iterator<Item = &String> {
    field.values.iter().filter(|value| !(field.funnel && *value == Stage::LinkSent.as_str()))
}
