//! The wire formats of the providers, and the few things in which they differ.

use genai::adapter::AdapterKind;

use crate::domain::Provider;

/// How a provider is talked to. Always chosen by the provider's own name, never guessed from the model's (PROV-1).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Wire {
    /// Anthropic's Messages API.
    Anthropic,
    /// OpenAI's chat completions.
    OpenAi,
    /// Google's generateContent.
    Google,
    /// OpenAI's chat completions, spoken by Ollama (PROV-6). Its own interface would lose the schema.
    Ollama,
}

impl Wire {
    /// The wire of a provider; `None` for the one inside this process.
    pub(super) const fn of(provider: Provider) -> Option<Self> {
        match provider {
            Provider::Anthropic => Some(Self::Anthropic),
            Provider::OpenAi => Some(Self::OpenAi),
            Provider::Google => Some(Self::Google),
            Provider::Ollama => Some(Self::Ollama),
            Provider::Mock => None,
        }
    }

    pub(super) const fn provider(self) -> Provider {
        match self {
            Self::Anthropic => Provider::Anthropic,
            Self::OpenAi => Provider::OpenAi,
            Self::Google => Provider::Google,
            Self::Ollama => Provider::Ollama,
        }
    }

    pub(super) const fn adapter(self) -> AdapterKind {
        match self {
            Self::Anthropic => AdapterKind::Anthropic,
            Self::OpenAi | Self::Ollama => AdapterKind::OpenAI,
            Self::Google => AdapterKind::Gemini,
        }
    }

    /// The name to give to genai so that exactly `model` is sent: genai takes what stands before a `::` for a
    /// namespace and cuts it off, for Google twice. Whatever is cut here is ours.
    pub(super) fn uncut(self, model: &str) -> String {
        match self {
            _ if !model.contains("::") => model.to_owned(),
            Self::Google => format!("-::-::{model}"),
            Self::Anthropic | Self::OpenAi | Self::Ollama => format!("-::{model}"),
        }
    }
}
