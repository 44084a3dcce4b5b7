//! The registry: which provider stands behind a model name. This file and its folder are the only ones that know
//! concrete providers, and genai (PRIN-C2).

mod answer;
mod broken;
#[cfg(test)]
mod cache_tests;
mod capability;
mod failure;
#[cfg(test)]
mod failure_tests;
mod hosted;
mod overheard;
#[cfg(test)]
mod parameter_tests;
#[cfg(test)]
mod refusal_tests;
mod refusals;
mod request;
mod retry;
mod schema;
#[cfg(test)]
mod test_support;
#[cfg(test)]
mod tool_tests;
mod transcript;
mod wire;

use std::sync::Arc;
use std::time::Duration;

use reqwest::header::HeaderValue;
use reqwest::redirect;

use self::capability::Capabilities;
use self::hosted::{Access, HostedModel};
use self::wire::Wire;
use super::mock::{MockJudge, MockModel, MockSwitch};
use super::port::ModelProvider;
use super::runner::Runner;
use crate::config::{ModelName, ModelSettings};
use crate::domain::{Provider, Redacted};

/// Longest wait for a connection to a provider. The call itself has no limit but the caller's abort (RUN-13).
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// What Ollama is sent as its key (PROV-3).
const OLLAMA_KEY: &str = "ollama";

/// A model that cannot be run.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum RegistryError {
    /// The key cannot be sent in a header.
    #[error("{variable} holds a character that no HTTP header can carry: copy the key again")]
    UnusableKey {
        /// The variable to change.
        variable: &'static str,
    },
    /// The HTTP client for providers could not be built.
    #[error(
        "the HTTP client for model providers could not be built, check the machine's TLS set-up: {reason}"
    )]
    Client {
        /// What the client reports; it knows no key and no request yet.
        reason: String,
    },
}

/// Resolves `AGENT_MODEL` and `AGENT_FALLBACK_MODEL` once, at boot (PROV-3, DEC-10). Nothing is called, and a missing
/// key is no error here: the calls fail (ENV-11). When one of the models is not the mock, the process must have
/// installed a TLS provider.
///
/// # Errors
/// [`RegistryError`]: a key that cannot be sent, or no HTTP client.
pub fn resolve(settings: &ModelSettings) -> Result<Runner, RegistryError> {
    resolve_with(settings, None)
}

/// The same, with a switch that mocks among the models obey (DEC-16).
///
/// # Errors
/// As [`resolve`].
pub fn resolve_with(settings: &ModelSettings, switch: Option<MockSwitch>) -> Result<Runner, RegistryError> {
    let mut providers = Providers { settings, switch, http: None };
    let runner = Runner::new(providers.provider(&settings.agent)?, &settings.agent, settings);
    match &settings.fallback {
        Some(fallback) => Ok(runner.with_fallback(providers.provider(fallback)?, fallback, settings)),
        None => Ok(runner),
    }
}

/// The model that judges replies (JUDGE-1). `mock:judge` approves everything (JUDGE-34).
///
/// # Errors
/// As [`resolve`].
pub fn judge(settings: &ModelSettings, name: &ModelName) -> Result<Arc<dyn ModelProvider>, RegistryError> {
    if name.provider == Provider::Mock && name.model == "judge" {
        return Ok(Arc::new(MockJudge));
    }
    Providers { settings, switch: None, http: None }.provider(name)
}

/// One model by itself, for the operator who checks it: without fallback, breaker and prompt (PROV-3).
pub(super) struct LoneModel {
    provider: Arc<dyn ModelProvider>,
    hosted: Option<Arc<HostedModel>>,
}

impl LoneModel {
    /// The model behind the port, as turns call it.
    pub(super) fn provider(&self) -> &dyn ModelProvider {
        self.provider.as_ref()
    }

    /// The provider's own words about the last failure, without the key. For the operator's terminal only.
    pub(super) fn last_words(&self) -> Option<String> {
        self.hosted.as_ref()?.last_words()
    }
}

/// The model of that name with the keys and addresses of `settings`.
///
/// # Errors
/// As [`resolve`].
pub(super) fn alone(settings: &ModelSettings, name: &ModelName) -> Result<LoneModel, RegistryError> {
    let mut providers = Providers { settings, switch: None, http: None };
    let Some(wire) = Wire::of(name.provider) else {
        return Ok(LoneModel { provider: providers.provider(name)?, hosted: None });
    };
    let access = access(wire, settings)?;
    let hosted = Arc::new(providers.hosted(wire, &name.model)?.overheard(secret_of(wire, access.key)));
    Ok(LoneModel { provider: Arc::<HostedModel>::clone(&hosted), hosted: Some(hosted) })
}

/// What of a key must never be shown: Ollama's is a constant word.
const fn secret_of(wire: Wire, key: &str) -> &str {
    match wire {
        Wire::Ollama => "",
        Wire::Anthropic | Wire::OpenAi | Wire::Google => key,
    }
}

/// Whether `model` looks at pictures (MEDIA-504).
#[must_use]
pub fn takes_images(model: &ModelName) -> bool {
    Wire::of(model.provider).is_none_or(|wire| Capabilities::of(wire, &model.model).images)
}

/// Builds providers over one HTTP client, which is built for the first that needs it.
struct Providers<'a> {
    settings: &'a ModelSettings,
    switch: Option<MockSwitch>,
    http: Option<reqwest::Client>,
}

impl Providers<'_> {
    fn provider(&mut self, name: &ModelName) -> Result<Arc<dyn ModelProvider>, RegistryError> {
        match Wire::of(name.provider) {
            None => Ok(Arc::new(MockModel::new(&name.model).with_switch(self.switch.clone()))),
            Some(wire) => Ok(Arc::new(self.hosted(wire, &name.model)?)),
        }
    }

    fn hosted(&mut self, wire: Wire, model: &str) -> Result<HostedModel, RegistryError> {
        let http = self.http()?;
        let hosted = HostedModel::new(wire, model, access(wire, self.settings)?, http);
        hosted.map_err(|error| RegistryError::Client { reason: error.to_string() })
    }

    fn http(&mut self) -> Result<reqwest::Client, RegistryError> {
        if let Some(built) = &self.http {
            return Ok(built.clone());
        }
        let built = http_client()?;
        Ok(self.http.insert(built).clone())
    }
}

/// No redirects: a key must not follow one to another host.
fn http_client() -> Result<reqwest::Client, RegistryError> {
    reqwest::Client::builder()
        .connect_timeout(CONNECT_TIMEOUT)
        .redirect(redirect::Policy::none())
        .build()
        .map_err(|error| RegistryError::Client { reason: error.to_string() })
}

fn access(wire: Wire, settings: &ModelSettings) -> Result<Access<'_>, RegistryError> {
    let (base_url, variable, key) = match wire {
        Wire::Anthropic => (&settings.anthropic_base_url, "ANTHROPIC_API_KEY", &settings.anthropic_key),
        Wire::OpenAi => (&settings.openai_base_url, "OPENAI_API_KEY", &settings.openai_key),
        Wire::Google => (&settings.google_base_url, "GOOGLE_GENERATIVE_AI_API_KEY", &settings.google_key),
        Wire::Ollama => return Ok(Access { base_url: &settings.ollama_base_url, key: OLLAMA_KEY }),
    };
    let key = key.as_ref().map_or("", |key: &Redacted<String>| key.expose());
    if HeaderValue::from_str(key).is_err() {
        return Err(RegistryError::UnusableKey { variable });
    }
    Ok(Access { base_url, key })
}

#[cfg(test)]
mod tests;
