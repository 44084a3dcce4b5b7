//! A model of one of the four providers, behind the port.

use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use genai::resolver::{AuthData, Endpoint};
use genai::{Client, ModelIden, webc};

use super::answer;
use super::capability::Capabilities;
use super::failure::{Failure, Refused};
use super::overheard::Overheard;
use super::request::{self, Form, Target};
use super::retry::Backoff;
use super::wire::Wire;
use crate::model::port::{ModelAnswer, ModelError, ModelOutput, ModelProvider, ModelRequest, Usage};

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
    target: Target,
    name: ModelIden,
    backoff: Backoff,
    refused: Refusals,
    overheard: Option<Overheard>,
}

/// What this process has seen the model refuse.
#[derive(Default)]
struct Refusals {
    /// The form in which the reply was asked for while no tool was offered.
    schema: AtomicBool,
    /// The same while tools were offered.
    schema_with_tools: AtomicBool,
    temperature: AtomicBool,
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
            target: Target { wire, model: model.to_owned(), capabilities: Capabilities::of(wire, model) },
            name: ModelIden::new(wire.adapter(), wire.uncut(model)),
            backoff: Backoff::default(),
            refused: Refusals::default(),
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

    /// A call with its retries (RUN-16).
    async fn call(&self, request: &ModelRequest) -> Result<ModelAnswer, ModelError> {
        self.backoff.run(request.retry_within, || self.attempt(request)).await
    }

    /// One attempt, in the form the model is known to take. What it refuses now is asked for in the other form at once
    /// and from now on, so that the refusal costs one request in the life of the process.
    async fn attempt(&self, request: &ModelRequest) -> Result<ModelAnswer, Failure> {
        loop {
            let form = self.form(request);
            match self.send(request, form).await {
                Err(Failure { refused: Some(refused), .. }) if self.gives_way(refused, request, form) => {}
                outcome => return outcome,
            }
        }
    }

    async fn send(&self, request: &ModelRequest, form: Form) -> Result<ModelAnswer, Failure> {
        let (chat, options) = request::chat(&self.target, request, form);
        let outcome = self.client.exec_chat(self.name.clone(), chat, Some(&options)).await;
        if let Some(overheard) = &self.overheard {
            overheard.listen(&outcome);
        }
        let read = match outcome {
            Ok(response) => answer::read(self.target.wire, request, response),
            Err(genai::Error::ChatResponseGeneration { response_body, .. }) => {
                answer::read_unusable(self.target.wire, request, &response_body)
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
        serde_json::from_str(body)
            .map_or_else(|_| Usage::default(), |body| answer::usage(self.target.wire, &body))
    }

    fn form(&self, request: &ModelRequest) -> Form {
        let refused = self.refusal_of_schema(request).load(Ordering::Relaxed);
        Form {
            native_schema: self.begins_native(request) != refused,
            temperature: !self.refused.temperature.load(Ordering::Relaxed),
            // A model that refused a schema may have meant one of these.
            strict_tools: self.target.capabilities.strict_tools && !refused,
        }
    }

    /// The form that is tried first.
    fn begins_native(&self, request: &ModelRequest) -> bool {
        request.tools.is_empty() || self.target.capabilities.schema_with_tools
    }

    fn refusal_of_schema(&self, request: &ModelRequest) -> &AtomicBool {
        if request.tools.is_empty() { &self.refused.schema } else { &self.refused.schema_with_tools }
    }

    /// Remembers the refusal; true when there is another form that the model has not refused yet.
    fn gives_way(&self, refused: Refused, request: &ModelRequest, form: Form) -> bool {
        let (flag, is_news, what) = match refused {
            Refused::Schema => {
                let is_first_form = form.native_schema == self.begins_native(request);
                (self.refusal_of_schema(request), is_first_form, "form of the reply")
            }
            Refused::Temperature => (&self.refused.temperature, form.temperature, "temperature"),
        };
        if is_news && !flag.swap(true, Ordering::Relaxed) {
            let model = format!("{}:{}", self.target.wire.provider(), self.target.model);
            tracing::warn!(model, refused = what, "model refused a parameter");
        }
        is_news
    }

    /// A model that does not obey the demand to call a tool chats instead of replying. Without tools it can be held to
    /// the schema, so it is asked once more, without them (PROV-10: the schema itself is never loosened).
    async fn without_chatter(&self, request: ModelRequest, said: ModelAnswer) -> ModelAnswer {
        let plain = ModelRequest { tools: [].into(), ..request };
        match self.call(&plain).await {
            Ok(mut answer) => {
                answer.usage += said.usage;
                answer
            }
            // The tokens of the first call are not forgotten (DEC-19).
            Err(_) => said,
        }
    }
}

impl ModelProvider for HostedModel {
    fn step(&self, request: ModelRequest) -> BoxFuture<'_, Result<ModelAnswer, ModelError>> {
        async move {
            let answer = self.call(&request).await?;
            let may_chat = !request.tools.is_empty() && !self.target.capabilities.tool_choice;
            match &answer.output {
                ModelOutput::Text(text) if may_chat && !answer::may_be_reply(text) => {
                    Ok(self.without_chatter(request, answer).await)
                }
                _ => Ok(answer),
            }
        }
        .boxed()
    }
}
