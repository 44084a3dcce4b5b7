//! A model of one of the four providers, behind the port.

use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use genai::resolver::{AuthData, Endpoint};
use genai::{Client, ModelIden, webc};

use super::answer;
use super::failure::{Failure, Refused};
use super::overheard::Overheard;
use super::request::{self, Form};
use super::retry::Backoff;
use super::wire::Wire;
use crate::model::port::{ModelAnswer, ModelError, ModelProvider, ModelRequest, Usage};

/// Where a provider is and what opens it.
#[derive(Clone, Copy)]
pub(super) struct Access<'a> {
    /// With the version path, with or without a slash at the end (DEC-22).
    pub(super) base_url: &'a str,
    /// Empty when there is none: the call is made, and it is the provider who refuses it (ENV-11).
    pub(super) key: &'a str,
}

/// One model at one provider, over one HTTP client.
pub(super) struct HostedModel {
    client: Client,
    wire: Wire,
    target: ModelIden,
    model: String,
    backoff: Backoff,
    refused_schema: AtomicBool,
    refused_temperature: AtomicBool,
    overheard: Option<Overheard>,
}

impl HostedModel {
    /// `model` behind `access`.
    ///
    /// # Errors
    /// genai's, which cannot occur as long as it is given the HTTP client.
    pub(super) fn new(
        wire: Wire,
        model: &str,
        access: Access<'_>,
        http: reqwest::Client,
    ) -> Result<Self, genai::Error> {
        // Without the slash genai would replace the version path instead of going on from it.
        let endpoint = Endpoint::from_owned(format!("{}/", access.base_url.trim_end_matches('/')));
        let client = Client::builder()
            .with_adapter_kind(wire.adapter())
            .append_provider_config(wire.adapter(), (endpoint, AuthData::from_single(access.key)))
            .with_reqwest(http)
            .build()?;
        Ok(Self {
            client,
            wire,
            target: ModelIden::new(wire.adapter(), wire.uncut(model)),
            model: model.to_owned(),
            backoff: Backoff::default(),
            refused_schema: AtomicBool::new(false),
            refused_temperature: AtomicBool::new(false),
            overheard: None,
        })
    }

    /// The same with other waits between retries.
    #[cfg(test)]
    pub(super) fn with_backoff(self, backoff: Backoff) -> Self {
        Self { backoff, ..self }
    }

    /// The same, keeping the provider's own words about a failure, for the operator who checks a model. `key` is taken
    /// out of them.
    pub(super) fn overheard(self, key: &str) -> Self {
        Self { overheard: Some(Overheard::new(key)), ..self }
    }

    /// What the provider said last about a failure, when that is kept.
    pub(super) fn last_words(&self) -> Option<String> {
        self.overheard.as_ref()?.take()
    }

    /// One attempt, without what the model is known to refuse. What it refuses now is left out at once and from now
    /// on, so that the refusal costs one request in the life of the process.
    async fn attempt(&self, request: &ModelRequest) -> Result<ModelAnswer, Failure> {
        loop {
            let form = self.form();
            match self.send(request, form).await {
                Err(Failure { refused: Some(refused), .. }) if form.holds(refused) => self.give_up(refused),
                outcome => return outcome,
            }
        }
    }

    async fn send(&self, request: &ModelRequest, form: Form) -> Result<ModelAnswer, Failure> {
        let (chat, options) = request::chat(self.wire, &self.model, request, form);
        let outcome = self.client.exec_chat(self.target.clone(), chat, Some(&options)).await;
        if let Some(overheard) = &self.overheard {
            overheard.listen(&outcome);
        }
        let read = match outcome {
            Ok(response) => answer::read(self.wire, &response),
            Err(genai::Error::ChatResponseGeneration { response_body, .. }) => {
                answer::read_unusable(self.wire, &response_body)
            }
            Err(error) => Err(Failure::of(&error).with_usage(self.reported(&error))),
        };
        if let Err(failure) = &read {
            request.meter.add(&failure.usage);
        }
        read
    }

    /// Tokens that an error body tells of: gateways charge for calls that their upstream has ended (DEC-19).
    fn reported(&self, error: &genai::Error) -> Usage {
        let genai::Error::WebModelCall { webc_error: webc::Error::ResponseFailedStatus { body, .. }, .. } =
            error
        else {
            return Usage::default();
        };
        serde_json::from_str(body).map_or_else(|_| Usage::default(), |body| answer::usage(self.wire, &body))
    }

    fn form(&self) -> Form {
        Form {
            native_schema: !self.refused_schema.load(Ordering::Relaxed),
            temperature: !self.refused_temperature.load(Ordering::Relaxed),
        }
    }

    fn give_up(&self, refused: Refused) {
        let (flag, what) = match refused {
            Refused::Schema => (&self.refused_schema, "structured output"),
            Refused::Temperature => (&self.refused_temperature, "temperature"),
        };
        if !flag.swap(true, Ordering::Relaxed) {
            let model = format!("{}:{}", self.wire.provider(), self.model);
            tracing::warn!(model, refused = what, "model refused a parameter");
        }
    }
}

impl ModelProvider for HostedModel {
    fn step(&self, request: ModelRequest) -> BoxFuture<'_, Result<ModelAnswer, ModelError>> {
        async move { self.backoff.run(request.retry_within, || self.attempt(&request)).await }.boxed()
    }
}
