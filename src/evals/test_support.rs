//! Cases, observations and models for the tests of this room.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde_json::{Value, json};

use super::bench::{Bench, Limits, Observed};
use super::case::Case;
use crate::config::{ModelName, ModelSettings, Settings, Tenant, demo};
use crate::domain::{ChannelName, Usd};
use crate::model::{
    ModelAnswer, ModelError, ModelOutput, ModelProvider, ModelRequest, Runner, ToolCall, ToolCalls, Usage,
};

/// A case with this expectation; `rest` goes on after it, beginning with a comma.
pub fn case(expect: &str, rest: &str) -> Case {
    let line = format!(r#"{{"id": "case", "text": "how much?", "expect": {expect}{rest}}}"#);
    Case::parse(&line).unwrap_or_else(|fault| panic!("{fault}: {line}"))
}

/// A case that expects an answer.
pub fn answer(rest: &str) -> Case {
    case(r#"{"escalate": false}"#, rest)
}

/// A reply with these messages, and nothing else that could fail.
pub fn seen(messages: &[&str]) -> Observed {
    Observed {
        messages: messages.iter().map(|text| (*text).to_owned()).collect(),
        escalate: false,
        reason: None,
        actions: Vec::new(),
        tools_offered: false,
        interventions: Vec::new(),
        latency: Duration::ZERO,
        cost: Usd::ZERO,
    }
}

/// A reply object of a model.
pub fn reply(messages: &[&str]) -> Value {
    json!({
        "messages": messages, "escalate": false, "escalation_reason": null, "confidence": 0.9,
        "closing_question": null,
    })
}

/// A call instead of a reply.
pub fn call(tool: &str, arguments: Value) -> ModelOutput {
    let call = ToolCall { id: "one".to_owned(), name: tool.to_owned(), arguments: Some(arguments) };
    ModelOutput::Calls(ToolCalls { calls: vec![call], opaque: None })
}

/// What a scripted model answers to a request.
type Script = dyn Fn(&ModelRequest) -> Result<ModelOutput, ModelError> + Send + Sync;

/// A model that answers as a closure says, and counts its calls.
pub struct Scripted {
    script: Box<Script>,
    calls: AtomicUsize,
}

impl Scripted {
    pub fn new(
        script: impl Fn(&ModelRequest) -> Result<Value, ModelError> + Send + Sync + 'static,
    ) -> Arc<Self> {
        Self::answering(move |request| script(request).map(ModelOutput::Json))
    }

    /// The same with calls.
    pub fn answering(
        script: impl Fn(&ModelRequest) -> Result<ModelOutput, ModelError> + Send + Sync + 'static,
    ) -> Arc<Self> {
        Arc::new(Self { script: Box::new(script), calls: AtomicUsize::new(0) })
    }

    pub fn calls(&self) -> usize {
        self.calls.load(Ordering::Relaxed)
    }
}

impl ModelProvider for Scripted {
    fn step(&self, request: ModelRequest) -> BoxFuture<'_, Result<ModelAnswer, ModelError>> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        let answer = (self.script)(&request);
        async move {
            let usage =
                Usage { input: Some(1000), output: Some(100), cache_read: Some(0), ..Usage::default() };
            answer.map(|output| ModelAnswer { output, usage })
        }
        .boxed()
    }
}

/// The demo tenant with all four files.
pub fn tenant() -> Tenant {
    demo::tenant().unwrap()
}

/// Settings of a model named `test`.
pub fn model_settings() -> ModelSettings {
    let vars = [
        ("AGENT_MODEL", "mock:test"),
        ("PUBLIC_BASE_URL", "https://agent.test.example"),
        ("MANYCHAT_SHARED_SECRET", "a-secret-of-some-length"),
    ];
    let mut environment = crate::config::Environment::default();
    environment.variables.extend(vars.map(|(name, value)| (name.to_owned(), value.to_owned())));
    Settings::from_environment(&environment, |_| Ok(())).unwrap().0.model
}

/// The name of the model behind a bench: one that costs something.
const PRICED: &str = "anthropic:claude-opus-5";

/// A bench over this model.
pub fn bench_of(provider: Arc<dyn ModelProvider>, tenant: Tenant) -> Bench {
    let name: ModelName = PRICED.parse().unwrap();
    let runner = Runner::new(provider, &name, &model_settings());
    let limits = Limits { max_latency: Duration::from_secs(8), abort: Duration::from_secs(30) };
    Bench::new(runner, Arc::new(tenant), ChannelName::Whatsapp, limits)
}
