//! The position of a sale as pure rules: stage, intent and offering, and what follows from them.
//! Owns: what may be sent or written at a stage, which event and which flow a stage brings with it.
//! Never: sends, writes or reads anything, remembers what a turn did, hears what a contact or a model says.

use crate::config::{Event, FlowRole, FlowTool, Tools};
use crate::domain::{Intent, Stage};

/// Where a contact stands as a turn starts. `None` ranks below every value (08, terms).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// The stage last recorded as performed (FN-STAGE-2).
    pub stage: Option<Stage>,
    /// The recorded intent, or what the stage says of it (FN-INT-2, FN-INT-3).
    pub intent: Option<Intent>,
    /// What the contact is buying, when that is still for sale (FN-OFF-4, FN-OFF-5).
    pub offering: Option<String>,
}

impl Standing {
    /// Applies the rollout rule to the recorded intent, and forgets an offering that is no value of the offering field.
    #[must_use]
    pub fn at_start(
        tools: &Tools,
        stage: Option<Stage>,
        intent: Option<Intent>,
        offering: Option<&str>,
    ) -> Self {
        let grown = stage > Some(Stage::New);
        let rolled_out = (tools.intent_field().is_some() && grown).then_some(Intent::Prospect);
        let known = |offering: &&str| {
            tools.offering_field().is_some_and(|field| field.values.iter().any(|value| value == *offering))
        };
        Self { stage, intent: intent.or(rolled_out), offering: offering.filter(known).map(str::to_owned) }
    }
}

/// False while an intent field exists and the contact is not known to mean to buy (TGATE-1, FN-INT-5).
#[must_use]
pub fn gate_is_open(tools: &Tools, intent: Option<Intent>) -> bool {
    tools.intent_field().is_none() || intent == Some(Intent::Prospect)
}

/// Whether this flow ends the sale: the payment link of a tenant with a funnel. Without a funnel field it is a flow like
/// any other (SEND-4, FN-CHK-30).
#[must_use]
pub fn ends_the_sale(tools: &Tools, flow: &FlowTool) -> bool {
    flow.role == Some(FlowRole::PaymentLink) && tools.funnel_field().is_some()
}

/// Whether the payment link may go out without being asked for (FN-READY-1).
#[must_use]
pub fn is_prepared(floor: Option<Stage>) -> bool {
    floor >= Some(Stage::Prepared)
}

/// Whether the offering can no longer be changed (FN-OFF-12).
#[must_use]
pub fn offering_is_locked(floor: Option<Stage>) -> bool {
    floor >= Some(Stage::Offered)
}

/// Whether a flow belongs to what the contact is buying, or to everything (FN-OFF-11).
#[must_use]
pub fn fits(flow: &FlowTool, offering: Option<&str>) -> bool {
    flow.offering.as_deref().is_none_or(|own| Some(own) == offering)
}

/// The event of a move to `stage`, unless that stage was recorded before the turn (FLD-1, FN-EVT-2).
#[must_use]
pub fn event_of(tools: &Tools, stage: Stage, recorded: Option<Stage>) -> Option<&Event> {
    tools.events.iter().find(|event| event.stage == stage && Some(stage) > recorded)
}

/// The flow that a move to exactly this stage brings with it (FN-TIED-1, FN-TIED-2).
#[must_use]
pub fn tied_to(tools: &Tools, stage: Stage) -> Option<&FlowTool> {
    tools.flows.iter().find(|flow| flow.on_stage == Some(stage))
}

#[cfg(test)]
mod tests;
