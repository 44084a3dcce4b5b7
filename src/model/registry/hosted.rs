//! A model of one of the four providers, behind the port.

use std::sync::{Mutex, Once, PoisonError};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use genai::resolver::{AuthData, Endpoint};
use genai::{Client, ModelIden, webc};

use super::answer;
use super::capability::Capabilities;
use super::failure::{Failure, Refused};
use super::overheard::Overheard;
use super::refusals::{Course, Refusals};
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
    /// What the calls of this process have taught.
    refused: Refusals,
    /// Whether it was told that this model takes no tools.
    told: Once,
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
            target: Target { wire, model: model.to_owned(), capabilities: Capabilities::of(wire, model) },
            name: ModelIden::new(wire.adapter(), wire.uncut(model)),
            backoff: Backoff::default(),
            refused: Refusals::default(),
            told: Once::new(),
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
    async fn call(&self, request: &ModelRequest) -> Result<ModelAnswer, Failure> {
        let course = Mutex::new(self.refused.course(&self.target, request));
        self.backoff.run(request.retry_within, &request.place, || self.attempt(request, &course)).await
    }

    /// One attempt, in the form the model is known to take. What it refuses now is asked for in the other form at once,
    /// and from now on if that goes well, so that the refusal costs one request in the life of the process.
    async fn attempt(&self, request: &ModelRequest, course: &Mutex<Course>) -> Result<ModelAnswer, Failure> {
        let course = || course.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let form = course().form;
            match self.send(request, form).await {
                Ok(answer) => {
                    self.learn(request, *course());
                    return Ok(answer);
                }
                Err(failure)
                    if failure.refused.iter().flatten().any(|refused| course().give_up(*refused)) => {}
                Err(failure) => return Err(failure),
            }
        }
    }

    fn learn(&self, request: &ModelRequest, course: Course) {
        if let Some(refused) = self.refused.learn(request, course) {
            tracing::warn!(model = self.full_name(), refused = refused.what(), "model refused a parameter");
        }
    }

    fn full_name(&self) -> String {
        format!("{}:{}", self.target.wire.provider(), self.target.model)
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

    /// A model that does not obey the demand to call a tool chats instead of replying. Without tools it can be held to
    /// the schema, so it is asked once more, without them (PROV-10: the schema itself is never loosened). The tokens of the
    /// chat are charged whatever becomes of that (DEC-19).
    async fn without_chatter(
        &self,
        request: ModelRequest,
        chat: &ModelAnswer,
    ) -> Result<ModelAnswer, Failure> {
        request.meter.add(&chat.usage);
        self.call(&without_tools(request)).await
    }

    /// A model that takes no tools at all answers for this turn without them. It is asked again in the next turn: nobody
    /// would notice that a wrong word of the provider had ended all actions.
    async fn toolless(&self, request: ModelRequest) -> Result<ModelAnswer, Failure> {
        self.told.call_once(|| {
            let refused = Refused::Tools.what();
            tracing::warn!(model = self.full_name(), refused, "model refused a parameter");
        });
        request.meter.tools_refused();
        self.call(&without_tools(request)).await
    }
}

fn without_tools(request: ModelRequest) -> ModelRequest {
    ModelRequest { tools: [].into(), ..request }
}

impl ModelProvider for HostedModel {
    fn step(&self, request: ModelRequest) -> BoxFuture<'_, Result<ModelAnswer, ModelError>> {
        async move {
            let may_chat = !request.tools.is_empty() && !self.target.capabilities.tool_choice;
            let outcome = match self.call(&request).await {
                Ok(answer) if may_chat && is_chat(&answer.output) => {
                    self.without_chatter(request, &answer).await
                }
                Err(failure)
                    if !request.tools.is_empty() && failure.refused.contains(&Some(Refused::Tools)) =>
                {
                    self.toolless(request).await
                }
                outcome => outcome,
            };
            outcome.map_err(|failure| failure.error)
        }
        .boxed()
    }
}

fn is_chat(output: &ModelOutput) -> bool {
    matches!(output, ModelOutput::Text(text) if !answer::may_be_reply(text))
}
