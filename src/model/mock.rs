//! The mock model: answers offline, at once and always alike, as a correct agent would for the demo tenant (01
//! section 15). Its texts are test equipment, the one exception from PRIN-C9.

mod judge;
mod lookup;
mod matching;
mod note;
mod replies;
mod rows;
mod scene;
mod wishes;

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

pub use self::judge::MockJudge;
use self::rows::Script;
use self::scene::Scene;
use super::port::{ModelAnswer, ModelError, ModelOutput, ModelProvider, ModelRequest, ToolCalls, Usage};

/// How long `mock:slow` thinks (MOCK-2).
const SLOW: Duration = Duration::from_millis(12_000);

/// Usage of every call (MOCK-1).
const USAGE: Usage = Usage { input: Some(1200), output: Some(60), cache_read: Some(1000), cache_write: None };

/// What the failing mock answers: the provider is unavailable.
const UNAVAILABLE: u16 = 503;

/// How a mock behaves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MockMood {
    /// As its name says.
    #[default]
    Normal,
    /// Thinks longer than the deadline.
    Slow,
    /// Every call fails as an unavailable provider does.
    Failing,
}

/// A switch for the mood of a running mock (DEC-16); clones share it.
#[derive(Clone, Debug)]
pub struct MockSwitch {
    mood: Arc<AtomicU8>,
    thinks: Duration,
}

impl MockSwitch {
    /// `thinks`: how long the mock takes while it is slow.
    #[must_use]
    pub fn new(thinks: Duration) -> Self {
        Self { mood: Arc::default(), thinks }
    }

    /// The mood of calls that start now.
    #[must_use]
    pub fn mood(&self) -> MockMood {
        match self.mood.load(Ordering::Relaxed) {
            1 => MockMood::Slow,
            2 => MockMood::Failing,
            _ => MockMood::Normal,
        }
    }

    /// Sets the mood of calls that start from now on.
    pub fn set(&self, mood: MockMood) {
        self.mood.store(mood as u8, Ordering::Relaxed);
    }
}

/// `mock:<anything>`.
#[derive(Clone, Debug)]
pub struct MockModel {
    delay: Duration,
    switch: Option<MockSwitch>,
}

impl MockModel {
    /// The mock of that name; `slow` waits before it replies, not before it calls a tool (MOCK-2).
    #[must_use]
    pub fn new(name: &str) -> Self {
        Self { delay: if name == "slow" { SLOW } else { Duration::ZERO }, switch: None }
    }

    /// The same, obeying a switch.
    #[must_use]
    pub fn with_switch(mut self, switch: Option<MockSwitch>) -> Self {
        self.switch = switch;
        self
    }

    fn mood(&self) -> (MockMood, Duration) {
        let mood = self.switch.as_ref().map_or(MockMood::Normal, MockSwitch::mood);
        match (mood, &self.switch) {
            (MockMood::Slow, Some(switch)) => (mood, switch.thinks),
            (MockMood::Failing, _) => (mood, Duration::ZERO),
            _ => (mood, self.delay),
        }
    }
}

impl ModelProvider for MockModel {
    fn step(&self, request: ModelRequest) -> BoxFuture<'_, Result<ModelAnswer, ModelError>> {
        let (mood, delay) = self.mood();
        async move {
            if mood == MockMood::Failing {
                return Err(ModelError::Status(UNAVAILABLE));
            }
            let scene = Scene::of(&request);
            if let Some(call) = wishes::next_call(&scene) {
                let calls = ToolCalls { calls: vec![call], opaque: None };
                return Ok(ModelAnswer { output: ModelOutput::Calls(calls), usage: USAGE });
            }
            if !delay.is_zero() {
                tokio::time::sleep(delay).await;
            }
            let reply = replies::reply(&scene);
            Ok(ModelAnswer { output: ModelOutput::Json(reply), usage: USAGE })
        }
        .boxed()
    }
}

fn as_json(script: &Script) -> Value {
    json!({
        "messages": script.messages,
        "escalate": script.reason.is_some(),
        "escalation_reason": script.reason,
        "confidence": script.confidence,
        "closing_question": script.question,
    })
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod tool_tests;
