//! A model the runner may call: the first one or the fallback, each with its own prices, parameters and breaker.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::breaker::{Admission, Breaker, Change, Verdict};
use super::port::{ModelAnswer, ModelError, ModelProvider, ModelRequest, Usage};
use super::pricing::{Prices, Tariff};
use super::report::ModelReport;
use crate::config::{ModelName, ModelSettings, openai_refuses_temperature};
use crate::domain::{Clock, Provider, SystemClock, Usd};

/// A call that was dropped after at least this long counts as a failure of the provider: it hangs, and only the abort
/// ended it. A call dropped sooner says nothing about anybody.
const HANGS_AFTER: Duration = Duration::from_secs(5);

/// How long retries may go on while another model stands by.
const PATIENCE: Duration = Duration::from_secs(5);

/// One model, ready to be called.
pub(super) struct Candidate {
    provider: Arc<dyn ModelProvider>,
    name: String,
    tariff: Tariff,
    clock: Arc<dyn Clock>,
    temperature: Option<f64>,
    abort: Option<Duration>,
    stands_by: bool,
    is_tried_once: bool,
    breaker: Mutex<Breaker>,
}

impl Candidate {
    /// `name`, which `provider` runs, with the prices and the temperature that go with it (USE-6, RUN-10).
    pub(super) fn new(provider: Arc<dyn ModelProvider>, name: &ModelName, settings: &ModelSettings) -> Self {
        let temperature = takes_temperature(name).then_some(settings.temperature);
        let name = name.as_string();
        Self {
            provider,
            tariff: Tariff::of(&name, settings.pricing_overrides.as_ref()),
            clock: Arc::new(SystemClock),
            temperature,
            abort: None,
            stands_by: false,
            is_tried_once: false,
            breaker: Mutex::default(),
            name,
        }
    }

    /// The same without retries: DEC-10 has the second model tried once.
    pub(super) fn tried_once(self) -> Self {
        Self { is_tried_once: true, ..self }
    }

    /// The model string (PROV-9).
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// For turns that are aborted after `abort`. While another model stands by, a call that has not answered after half
    /// of what the turn has left has timed out (DEC-10), and retries are not waited for long: the other one answers
    /// sooner. Otherwise only the abort ends a call, and a wait the provider asks for may last that long (RUN-16).
    pub(super) fn within(&mut self, abort: Duration, stands_by: bool) {
        (self.abort, self.stands_by) = (Some(abort), stands_by);
    }

    /// How long a call may take, and how long it may be tried again, in a turn that has run for `elapsed`.
    fn limits(&self, elapsed: Duration) -> (Option<Duration>, Option<Duration>) {
        let left = self.abort.map(|abort| abort.saturating_sub(elapsed));
        match left {
            _ if self.is_tried_once => (None, Some(Duration::ZERO)),
            Some(left) if self.stands_by => (Some(left / 2), Some(PATIENCE.min(left / 2))),
            left => (None, left),
        }
    }

    /// For turns whose business time is that clock's.
    pub(super) fn by(&mut self, clock: Arc<dyn Clock>) {
        self.clock = clock;
    }

    /// What can be seen from outside (ARC-24).
    pub(super) fn report(&self) -> ModelReport {
        let (breaker, failures) = self.breaker(|breaker| breaker.look(Instant::now()));
        ModelReport { model: self.name.clone(), breaker, failures }
    }

    /// Its prices today.
    pub(super) fn prices(&self) -> Prices {
        self.tariff.prices(&self.name, &self.clock)
    }

    /// What the tokens of an answer cost.
    pub(super) fn cost(&self, usage: &Usage) -> Usd {
        self.prices().cost(usage)
    }

    /// One call with this model's own parameters, in a turn that has run for `elapsed`, unless the breaker is open
    /// (DEC-27). The tokens of failed attempts go
    /// into the request's meter at this model's prices; those of the answer are the caller's to add.
    ///
    /// # Errors
    /// The provider's; while the breaker is open, the one that opened it.
    pub(super) async fn step(
        &self,
        request: ModelRequest,
        elapsed: Duration,
    ) -> Result<ModelAnswer, ModelError> {
        let admission = self.breaker(|breaker| breaker.admit(Instant::now()))?;
        let watch = Watch { candidate: self, admission, begun: Instant::now(), ended: false };
        let (limit, retry_within) = self.limits(elapsed);
        let request = ModelRequest {
            temperature: self.temperature,
            retry_within,
            meter: request.meter.at(self.prices()),
            ..request
        };
        let result = within_limit(limit, self.provider.step(request)).await;
        watch.end(match &result {
            Err(error) if error.is_providers_fault() => Verdict::Failed(error.clone()),
            _ => Verdict::Works,
        });
        result
    }

    fn record(&self, admission: Admission, verdict: Verdict) {
        let model = self.name.as_str();
        match self.breaker(|breaker| breaker.record(admission, verdict, Instant::now())) {
            Change::Opened => tracing::warn!(model, "model breaker opened"),
            Change::Closed => tracing::info!(model, "model breaker closed"),
            Change::None => {}
        }
    }

    fn breaker<T>(&self, use_it: impl FnOnce(&mut Breaker) -> T) -> T {
        use_it(&mut self.breaker.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

async fn within_limit(
    limit: Option<Duration>,
    call: impl Future<Output = Result<ModelAnswer, ModelError>>,
) -> Result<ModelAnswer, ModelError> {
    match limit {
        Some(limit) => tokio::time::timeout(limit, call).await.unwrap_or(Err(ModelError::Unreachable)),
        None => call.await,
    }
}

/// Sees to it that the breaker also hears of a call that never ends by itself (RUN-13).
struct Watch<'a> {
    candidate: &'a Candidate,
    admission: Admission,
    begun: Instant,
    ended: bool,
}

impl Watch<'_> {
    fn end(mut self, verdict: Verdict) {
        self.ended = true;
        self.candidate.record(self.admission, verdict);
    }
}

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        if self.ended {
            return;
        }
        if self.begun.elapsed() >= HANGS_AFTER {
            self.candidate.record(self.admission, Verdict::Failed(ModelError::Unreachable));
        } else {
            self.candidate.breaker(|breaker| breaker.give_back(self.admission, Instant::now()));
        }
    }
}

/// RUN-10: OpenAI's reasoning models refuse a temperature.
pub(super) fn takes_temperature(model: &ModelName) -> bool {
    model.provider != Provider::OpenAi || !openai_refuses_temperature(&model.model)
}
