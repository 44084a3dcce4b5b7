//! `mock:judge`: a judge that approves everything, which no calibration set may let pass (JUDGE-34).

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde_json::json;

use crate::model::port::{ModelAnswer, ModelError, ModelOutput, ModelProvider, ModelRequest, Usage};

/// See the module.
#[derive(Clone, Copy, Debug, Default)]
pub struct MockJudge;

impl ModelProvider for MockJudge {
    fn step(&self, _request: ModelRequest) -> BoxFuture<'_, Result<ModelAnswer, ModelError>> {
        async {
            let verdict = json!({ "verdict": "pass", "evidence": "", "reason": "It is fine." });
            Ok(ModelAnswer { output: ModelOutput::Json(verdict), usage: Usage::default() })
        }
        .boxed()
    }
}
