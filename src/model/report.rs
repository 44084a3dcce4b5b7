//! What can be seen of the models from outside (ARC-24, DEC-27).

use serde::Serialize;

/// The models of this process.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct ModelsReport {
    /// Calls under way, at most `MODEL_MAX_CONCURRENT`.
    pub running: usize,
    /// Calls that wait for one of those to end.
    pub waiting: usize,
    /// The first model and, where there is one, the fallback.
    pub models: Vec<ModelReport>,
}

/// One model.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct ModelReport {
    /// `provider:model`.
    pub model: String,
    /// `closed`: calls are made. `open`: none is, for a while. `probing`: one call finds out whether the provider works
    /// again.
    pub breaker: &'static str,
    /// Failures in a row.
    pub failures: u32,
}
