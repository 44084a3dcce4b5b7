//! The environment, read once at boot (05 section 2).

use std::num::NonZeroU32;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use super::TrustedProxies;
use crate::domain::{ChannelName, Provider, Redacted, TenantId};

/// Every variable, validated. Secrets are wrapped so that they cannot be printed (ENV-26).
#[derive(Clone, Debug)]
pub struct Settings {
    /// `NODE_ENV` or `AGENT_ENV`.
    pub node_env: NodeEnv,
    /// `PORT`, 1 to 65535.
    pub port: u16,
    /// `LOG_LEVEL`.
    pub log_level: LogLevel,
    /// `TENANT_ID`.
    pub tenant: TenantId,
    /// `DATABASE_URL`.
    pub database: DatabaseUrl,
    /// `TRUST_PROXY`: entries as written, each valid.
    pub trust_proxy: Vec<String>,
    /// `CONFIG_DIR`.
    pub config_dir: PathBuf,
    /// Model variables.
    pub model: ModelSettings,
    /// ManyChat variables.
    pub manychat: ManyChatSettings,
    /// `CHANNEL`.
    pub channel: ChannelName,
    /// `PUBLIC_BASE_URL` without trailing slashes.
    pub public_base_url: String,
    /// `MANYCHAT_SHARED_SECRET`.
    pub shared_secrets: SharedSecrets,
    /// `CONTACT_TOKENS_ENFORCED`.
    pub tokens_enforced: bool,
    /// `RACE_DEADLINE_MS`.
    pub race_deadline: Duration,
    /// `MODEL_ABORT_MS`, longer than the race deadline.
    pub model_abort: Duration,
    /// `RATE_LIMIT_PER_MINUTE`, at least 1.
    pub rate_limit_per_minute: u32,
    /// `OUTBOX_RETRY_MINUTES`, 1 to 1440.
    pub outbox_retry: Duration,
    /// `ADMIN_TOKEN`, at least 16 characters when set.
    pub admin_token: Option<Redacted<String>>,
    /// `METRICS_PUBLIC`.
    pub metrics_public: bool,
    /// `PLAYGROUND`, never in production.
    pub playground: bool,
    /// `WORKER_HEALTH_PORT`.
    pub worker_health_port: Option<u16>,
    /// `PROCESS_BEAT_MS`.
    pub process_beat: Duration,
    /// `PROCESS_DEAD_MS`.
    pub process_dead: Duration,
    /// `MANYCHAT_MEDIA_BASE_URL`, never in production.
    pub media_base_url: Option<String>,
}

/// `NODE_ENV` (DEC-1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeEnv {
    /// The default.
    Development,
    /// A test run.
    Test,
    /// A deployment.
    Production,
}

impl NodeEnv {
    /// The word as written in the variable.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Development => "development",
            Self::Test => "test",
            Self::Production => "production",
        }
    }
}

/// `LOG_LEVEL` with the numeric levels of LOG-1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    /// 10
    Trace = 10,
    /// 20
    Debug = 20,
    /// 30
    Info = 30,
    /// 40
    Warn = 40,
    /// 50
    Error = 50,
    /// 60
    Fatal = 60,
}

impl LogLevel {
    /// The word as written in the variable.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Trace => "trace",
            Self::Debug => "debug",
            Self::Info => "info",
            Self::Warn => "warn",
            Self::Error => "error",
            Self::Fatal => "fatal",
        }
    }
}

/// Where the data lives (DEC-2, ENV-25).
#[derive(Clone, Debug)]
pub enum DatabaseUrl {
    /// `embedded` or `pglite`: a private server whose data is gone when the process ends (EMB-1).
    EmbeddedTemporary,
    /// `embedded:<dir>` or `pglite:<dir>`: a private server that keeps its data in the directory.
    Embedded(PathBuf),
    /// A connection string; it can hold a password.
    Postgres(Redacted<String>),
}

/// A model name, `provider:model`, with a known provider (PROV-1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelName {
    /// Who runs it.
    pub provider: Provider,
    /// What stands behind the first colon.
    pub model: String,
}

impl ModelName {
    /// The whole string, as recorded on every settled turn (PROV-9).
    #[must_use]
    pub fn as_string(&self) -> String {
        format!("{}:{}", self.provider, self.model)
    }
}

/// Why a text is no model name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ModelNameError {
    /// It does not have the form of ENV-6 and DEC-12: write provider, colon, model. The text is not repeated.
    #[error("must be provider:model, for example anthropic:claude-haiku-4-5")]
    Malformed,
    /// The provider is none we know (PROV-3): correct it. Whoever read the text says where it stands.
    #[error(
        "`{text}` names an unknown provider; accepted are {accepted}; check it and the variables of its provider \
         (ANTHROPIC_API_KEY, OPENAI_API_KEY, GOOGLE_GENERATIVE_AI_API_KEY, OLLAMA_BASE_URL)"
    )]
    UnknownProvider {
        /// The whole string.
        text: String,
        /// The known providers, separated by commas.
        accepted: String,
    },
}

impl FromStr for ModelName {
    type Err = ModelNameError;

    /// `provider:model` as ENV-6 says, with `/` allowed in the model (DEC-12). The first colon separates.
    fn from_str(text: &str) -> Result<Self, ModelNameError> {
        let (provider, model) = text.split_once(':').ok_or(ModelNameError::Malformed)?;
        let of_provider =
            |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || "_-".contains(letter);
        let of_model = |letter: char| letter.is_ascii_alphanumeric() || "._:/-".contains(letter);
        let well_formed = !provider.is_empty() && provider.chars().all(of_provider);
        if !well_formed || model.is_empty() || !model.chars().all(of_model) {
            return Err(ModelNameError::Malformed);
        }
        match provider.parse() {
            Ok(provider) => Ok(Self { provider, model: model.to_owned() }),
            Err(_) => Err(ModelNameError::UnknownProvider { text: text.to_owned(), accepted: providers() }),
        }
    }
}

fn providers() -> String {
    Provider::ALL.iter().map(|provider| provider.as_str()).collect::<Vec<_>>().join(", ")
}

/// Everything a model call needs to know.
#[derive(Clone, Debug)]
pub struct ModelSettings {
    /// `AGENT_MODEL`.
    pub agent: ModelName,
    /// `AGENT_FALLBACK_MODEL` (DEC-10).
    pub fallback: Option<ModelName>,
    /// `AGENT_MAX_OUTPUT_TOKENS`, at least 1.
    pub max_output_tokens: u32,
    /// `AGENT_TEMPERATURE`, 0 to 2.
    pub temperature: f64,
    /// `AGENT_REASONING_EFFORT`.
    pub reasoning_effort: Option<ReasoningEffort>,
    /// `TRANSCRIPTION_MODEL`.
    pub transcription: Option<ModelName>,
    /// `INSIGHT_MODEL`.
    pub insight: Option<ModelName>,
    /// `ANTHROPIC_API_KEY`.
    pub anthropic_key: Option<Redacted<String>>,
    /// `OPENAI_API_KEY`.
    pub openai_key: Option<Redacted<String>>,
    /// `GOOGLE_GENERATIVE_AI_API_KEY`.
    pub google_key: Option<Redacted<String>>,
    /// `ANTHROPIC_BASE_URL` without a trailing slash.
    pub anthropic_base_url: String,
    /// `OPENAI_BASE_URL` without a trailing slash.
    pub openai_base_url: String,
    /// `GOOGLE_BASE_URL` without a trailing slash.
    pub google_base_url: String,
    /// `OLLAMA_BASE_URL` without a trailing slash.
    pub ollama_base_url: String,
    /// `PRICING_OVERRIDES`: the checked JSON object.
    pub pricing_overrides: Option<serde_json::Value>,
    /// `MODEL_MAX_CONCURRENT`, at least 1.
    pub max_concurrent: usize,
}

/// `AGENT_REASONING_EFFORT`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReasoningEffort {
    /// `minimal`
    Minimal,
    /// `low`
    Low,
    /// `medium`
    Medium,
    /// `high`
    High,
}

impl ReasoningEffort {
    /// The word as written in the variable and sent to the provider.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Minimal => "minimal",
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
        }
    }
}

/// Delivery through ManyChat.
#[derive(Clone, Debug)]
pub struct ManyChatSettings {
    /// `MANYCHAT_API_TOKEN`; without it every API call fails (API-10).
    pub api_token: Option<Redacted<String>>,
    /// `MANYCHAT_API_BASE` without a trailing slash.
    pub api_base: String,
    /// `MANYCHAT_REPLY_FIELD`.
    pub reply_field: String,
    /// `MANYCHAT_REPLY_FLOW_NS`.
    pub reply_flow_ns: Option<String>,
    /// `MANYCHAT_REPLY_GAP_MS`, 0 to 10000.
    pub reply_gap: Duration,
    /// `MANYCHAT_TOKEN_FIELD`.
    pub token_field: String,
    /// `MANYCHAT_CALLS_PER_SECOND`, 10 but when measuring.
    pub calls_per_second: NonZeroU32,
}

/// The bearer secrets of `MANYCHAT_SHARED_SECRET`, at least one (ENV-16).
#[derive(Clone, Debug)]
pub struct SharedSecrets(pub(crate) Vec<Redacted<String>>);

impl Settings {
    /// The proxies of `TRUST_PROXY`.
    #[must_use]
    pub fn trusted_proxies(&self) -> TrustedProxies {
        // The entries were checked when the settings were made; none of them trusts more than it says.
        TrustedProxies::parse(self.trust_proxy.iter().map(String::as_str)).unwrap_or_default()
    }
}

impl SharedSecrets {
    /// All of them, the simulator's first.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|secret| secret.expose().as_str())
    }
}
