//! A model the runner may call: the first one or the fallback, each with its own prices, parameters and breaker.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::breaker::{Breaker, Verdict};
use super::port::{ModelAnswer, ModelError, ModelProvider, ModelRequest, Usage};
use super::pricing::Prices;
use crate::config::{ModelName, ModelSettings};
use crate::domain::Usd;

/// A call that was dropped after at least this long counts as a failure of the provider: it hangs, and only the abort
/// ended it. A call dropped sooner says nothing about anybody.
const HANGS_AFTER: Duration = Duration::from_secs(5);

/// One model, ready to be called.
pub(super) struct Candidate {
    provider: Arc<dyn ModelProvider>,
    name: String,
    prices: Prices,
    temperature: Option<f64>,
    breaker: Mutex<Breaker>,
}

impl Candidate {
    /// `name`, which `provider` runs, with the prices and the temperature that go with it (USE-6, RUN-10).
    pub(super) fn new(provider: Arc<dyn ModelProvider>, name: &ModelName, settings: &ModelSettings) -> Self {
        let name = name.as_string();
        Self {
            provider,
            prices: Prices::of(&name, settings.pricing_overrides.as_ref()),
            temperature: takes_temperature(&name).then_some(settings.temperature),
            breaker: Mutex::default(),
            name,
        }
    }

    /// The model string (PROV-9).
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn cost(&self, usage: &Usage) -> Usd {
        self.prices.cost(usage)
    }

    /// One call with this model's own parameters, unless its breaker is open (DEC-27).
    ///
    /// # Errors
    /// The provider's; while the breaker is open, the one that opened it.
    pub(super) async fn step(&self, request: ModelRequest) -> Result<ModelAnswer, ModelError> {
        self.breaker(|breaker| breaker.admit(Instant::now()))?;
        let watch = Watch { candidate: self, begun: Instant::now(), ended: false };
        let result = self.provider.step(ModelRequest { temperature: self.temperature, ..request }).await;
        watch.end(match &result {
            Err(error) if error.is_providers_fault() => Verdict::Failed(error.clone()),
            _ => Verdict::Works,
        });
        result
    }

    fn record(&self, verdict: Verdict) {
        if self.breaker(|breaker| breaker.record(verdict, Instant::now())) {
            tracing::warn!(model = self.name.as_str(), "model breaker opened");
        }
    }

    fn breaker<T>(&self, use_it: impl FnOnce(&mut Breaker) -> T) -> T {
        use_it(&mut self.breaker.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Sees to it that the breaker also hears of a call that never ends by itself (RUN-13).
struct Watch<'a> {
    candidate: &'a Candidate,
    begun: Instant,
    ended: bool,
}

impl Watch<'_> {
    fn end(mut self, verdict: Verdict) {
        self.ended = true;
        self.candidate.record(verdict);
    }
}

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        if !self.ended && self.begun.elapsed() >= HANGS_AFTER {
            self.candidate.record(Verdict::Failed(ModelError::Unreachable));
        }
    }
}

/// RUN-10: OpenAI's reasoning models refuse a temperature.
fn takes_temperature(model: &str) -> bool {
    let numbered_o = model
        .strip_prefix("openai:o")
        .is_some_and(|rest| rest.starts_with(|next: char| next.is_ascii_digit()));
    !numbered_o && !model.starts_with("openai:gpt-5")
}
