//! The registry: which provider stands behind a model name. The only file that knows concrete providers (PRIN-C2).

use std::sync::Arc;

use super::mock::MockModel;
use super::port::ModelProvider;
use super::runner::Runner;
use crate::config::{ModelName, ModelSettings};
use crate::domain::Provider;

/// A model that cannot be run.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum RegistryError {
    /// The provider is known, but this version cannot talk to it.
    #[error(
        "{variable} is {model}, but this version does not support the provider {provider} yet: set it to a mock \
         model, for example mock:demo"
    )]
    NotSupported {
        /// The variable to change.
        variable: &'static str,
        /// What it is set to.
        model: String,
        /// The provider it names.
        provider: Provider,
    },
}

/// Resolves `AGENT_MODEL` once, at boot (PROV-3). A fallback model that could not run is refused as well (DEC-10).
///
/// # Errors
/// [`RegistryError::NotSupported`] for every provider but the mock model.
pub fn resolve(settings: &ModelSettings) -> Result<Runner, RegistryError> {
    if let Some(fallback) = &settings.fallback {
        provider("AGENT_FALLBACK_MODEL", fallback)?;
    }
    let agent = provider("AGENT_MODEL", &settings.agent)?;
    Ok(Runner::new(agent, &settings.agent, settings))
}

fn provider(variable: &'static str, name: &ModelName) -> Result<Arc<dyn ModelProvider>, RegistryError> {
    match name.provider {
        Provider::Mock => Ok(Arc::new(MockModel::new(&name.model))),
        Provider::Anthropic | Provider::OpenAi | Provider::Google | Provider::Ollama => {
            Err(RegistryError::NotSupported { variable, model: name.as_string(), provider: name.provider })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::test_support::settings;

    /// PROV-2: a mock model of any name is resolved.
    #[test]
    fn the_mock_model_is_resolved() {
        for name in ["demo", "slow", "any-thing.1"] {
            assert!(resolve(&settings(Provider::Mock, name)).is_ok(), "{name}");
        }
    }

    /// PROV-3: the message names the variable, the string and the provider.
    #[test]
    fn another_provider_is_refused_and_named() {
        for provider in Provider::ALL.iter().copied().filter(|provider| *provider != Provider::Mock) {
            let refusal = resolve(&settings(provider, "some-model")).unwrap_err().to_string();
            assert!(refusal.starts_with(&format!("AGENT_MODEL is {provider}:some-model, ")), "{refusal}");
        }
    }

    /// DEC-10
    #[test]
    fn an_unsupported_fallback_is_refused_too() {
        let mut both = settings(Provider::Mock, "demo");
        both.fallback = Some(ModelName { provider: Provider::OpenAi, model: "gpt-5-mini".to_owned() });
        let refusal = resolve(&both).unwrap_err().to_string();
        assert!(refusal.starts_with("AGENT_FALLBACK_MODEL is openai:gpt-5-mini, "), "{refusal}");
    }
}
