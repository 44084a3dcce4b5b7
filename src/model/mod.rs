//! The model behind its port: what it is told, how it is called, and what is accepted of its answer.
//! Owns: prompt, fence, reply schema, guardrails, prices, the mock model, and the one list of providers.
//! Never: talks to a contact, to ManyChat or to the database; names a provider outside `registry`.

mod amounts;
mod blank;
mod breaker;
mod candidate;
mod fence;
mod fold;
mod grounding;
mod guardrails;
mod intervention;
mod leak;
mod meter;
mod mock;
mod port;
mod pricing;
mod prompt;
mod registry;
mod reply;
mod report;
mod runner;
mod slots;
mod spent;
#[cfg(test)]
mod test_support;
mod trial;
mod typical;

pub use amounts::ungrounded_amounts;
pub use fence::FencedText;
pub use grounding::Figures;
pub use guardrails::{Cause, Checked, check, echoes, ends_with_question, without_echoes};
pub use intervention::Intervention;
pub use leak::LeakCheck;
pub use meter::Meter;
pub use mock::{MockJudge, MockModel, MockMood, MockSwitch};
pub use port::{
    Image, MessageRole, ModelAnswer, ModelError, ModelMessage, ModelOutput, ModelProvider, ModelRequest,
    Opaque, Part, ToolCall, ToolCalls, ToolResult, Usage,
};
pub use pricing::Prices;
pub use prompt::{HistoryTurn, SystemPrompt, catalog_block, state_lines};
pub use registry::{RegistryError, judge, resolve, resolve_with, takes_images};
pub use reply::{Bounds, Faults, MAX_MESSAGE_UNITS, MAX_MESSAGES, MAX_MODEL_MESSAGES, Reply};
pub use report::{ModelReport, ModelsReport};
pub use runner::{Runner, TurnInput, TurnResult};
pub use slots::Place;
pub use spent::{Bill, Spent};
pub use trial::{Finding, Trial, TrialModel, Verdict};
pub use typical::TypicalTurn;
