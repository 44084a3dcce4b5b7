//! Every environment variable, checked together (05 section 2 and the table of 00).

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use super::env_hints::hints;
use super::variables::{Variables, comma_list};
use super::{
    AddressCheck, DatabaseUrl, Environment, LogLevel, ManyChatSettings, ModelSettings, NodeEnv,
    ReasoningEffort, Settings, SettingsError, SharedSecrets, TrustedProxies, Warning,
};
use crate::domain::{ChannelName, Redacted, TenantId};

/// Every variable the service knows; all others are ignored (CFG-5).
pub(super) const VARIABLES: &[&str] = &[
    "NODE_ENV",
    "AGENT_ENV",
    "PORT",
    "LOG_LEVEL",
    "TENANT_ID",
    "DATABASE_URL",
    "TRUST_PROXY",
    "CONFIG_DIR",
    "AGENT_MODEL",
    "AGENT_FALLBACK_MODEL",
    "AGENT_MAX_OUTPUT_TOKENS",
    "AGENT_TEMPERATURE",
    "AGENT_REASONING_EFFORT",
    "TRANSCRIPTION_MODEL",
    "INSIGHT_MODEL",
    "ANTHROPIC_API_KEY",
    "OPENAI_API_KEY",
    "GOOGLE_GENERATIVE_AI_API_KEY",
    "ANTHROPIC_BASE_URL",
    "OPENAI_BASE_URL",
    "GOOGLE_BASE_URL",
    "OLLAMA_BASE_URL",
    "PRICING_OVERRIDES",
    "MODEL_MAX_CONCURRENT",
    "RACE_DEADLINE_MS",
    "MODEL_ABORT_MS",
    "CHANNEL",
    "PUBLIC_BASE_URL",
    "MANYCHAT_SHARED_SECRET",
    "MANYCHAT_API_TOKEN",
    "MANYCHAT_API_BASE",
    "MANYCHAT_REPLY_FIELD",
    "MANYCHAT_REPLY_FLOW_NS",
    "MANYCHAT_REPLY_GAP_MS",
    "MANYCHAT_CALLS_PER_SECOND",
    "MANYCHAT_TOKEN_FIELD",
    "MANYCHAT_MEDIA_BASE_URL",
    "CONTACT_TOKENS_ENFORCED",
    "RATE_LIMIT_PER_MINUTE",
    "OUTBOX_RETRY_MINUTES",
    "ADMIN_TOKEN",
    "METRICS_PUBLIC",
    "PLAYGROUND",
    "WORKER_HEALTH_PORT",
    "PROCESS_BEAT_MS",
    "PROCESS_DEAD_MS",
    "EVAL_DIR",
    "EVAL_MAX_LATENCY_MS",
    "EVAL_MAX_P95_MS",
    "EVAL_JUDGE_MODEL",
    "PLAYBOOK_VERSION",
];

/// The largest count or number of milliseconds any variable may hold, 2^31 − 1: about 24 days as milliseconds, so
/// that sums of times stay far from every overflow.
pub(super) const MOST: u32 = i32::MAX as u32;

/// Where data is kept when `DATABASE_URL` is absent (DEC-2).
const DEFAULT_DATABASE_DIR: &str = ".data/postgres";
/// Fewest characters of `MANYCHAT_SHARED_SECRET` as a whole and of `ADMIN_TOKEN`.
pub(super) const SECRET_CHARACTERS: usize = 16;

impl Settings {
    /// Checks all variables together. Pure: reads nothing but `vars`. Warnings are for the log at boot and for
    /// `config check`.
    ///
    /// # Errors
    /// Every faulty variable with its reason, in one error (ENV-1).
    pub fn from_vars(vars: &BTreeMap<String, String>) -> Result<(Self, Vec<Warning>), SettingsError> {
        Self::read(Variables::new(vars))
    }

    /// As [`Self::from_vars`], with what the file and the process brought along, and with `check_address` asked about
    /// a `DATABASE_URL` of Postgres: only the database's own reader knows its options.
    ///
    /// # Errors
    /// Every faulty variable with its reason, in one error (ENV-1).
    pub fn from_environment(
        environment: &Environment,
        check_address: AddressCheck,
    ) -> Result<(Self, Vec<Warning>), SettingsError> {
        let mut reader = Variables::new(&environment.variables);
        reader.check_address = Some(check_address);
        let read = Self::read(reader);
        if environment.faults.is_empty() {
            return read.map(|(settings, more)| (settings, [environment.warnings.clone(), more].concat()));
        }
        let unreadable = |name: &str| environment.faults.iter().any(|fault| fault.name == name);
        let mut faults = environment.faults.clone();
        // One that cannot be read is not missing as well.
        faults.extend(
            read.err().into_iter().flat_map(|error| error.faults).filter(|one| !unreadable(one.name)),
        );
        Err(SettingsError::new(faults))
    }

    fn read(mut reader: Variables<'_>) -> Result<(Self, Vec<Warning>), SettingsError> {
        let settings = read(&mut reader);
        match settings {
            Some(settings) if reader.faults.is_empty() => {
                hints(&mut reader, &settings);
                Ok((settings, reader.warnings))
            }
            _ => Err(SettingsError::new(reader.faults)),
        }
    }
}

impl ModelSettings {
    /// The variables of the models alone, with `MODEL_ABORT_MS`: for a command that needs nothing else. A fault of any
    /// other variable is none here.
    ///
    /// # Errors
    /// Every faulty variable of these with its reason, in one error (ENV-1).
    pub fn from_environment(environment: &Environment) -> Result<(Self, Duration), SettingsError> {
        let mut reader = Variables::new(&environment.variables);
        let (model, (_, abort)) = (model_settings(&mut reader), race_times(&mut reader));
        match (model, abort) {
            (Some(model), Some(abort)) if reader.faults.is_empty() => Ok((model, abort)),
            _ => Err(SettingsError::new(reader.faults)),
        }
    }
}

/// The variables of the process and of its doors.
struct Process {
    node_env: NodeEnv,
    port: u16,
    log_level: LogLevel,
    tenant: TenantId,
    database: DatabaseUrl,
    trust_proxy: Vec<String>,
    config_dir: PathBuf,
}

fn read(vars: &mut Variables<'_>) -> Option<Settings> {
    let node_env = node_env(vars);
    let process = process(vars, node_env);
    let model = model_settings(vars);
    let (race_deadline, model_abort) = race_times(vars);
    let channel = channel(vars);
    let public_base_url = public_base_url(vars);
    let shared_secrets = shared_secrets(vars);
    let manychat = manychat_settings(vars, node_env);
    let tokens_enforced = vars.flag("CONTACT_TOKENS_ENFORCED", true);
    let media_base_url = development_url(vars, "MANYCHAT_MEDIA_BASE_URL", node_env);
    let rate_limit_per_minute = vars.whole("RATE_LIMIT_PER_MINUTE", 1..=MOST, 300);
    let outbox_retry_minutes = vars.whole("OUTBOX_RETRY_MINUTES", 1..=1440_u32, 30);
    let admin_token = admin_token(vars);
    let metrics_public = vars.flag("METRICS_PUBLIC", false);
    let playground = playground(vars, node_env);
    let worker_health_port = vars.whole_if_filled("WORKER_HEALTH_PORT", 1..=u16::MAX);
    let beats = process_times(vars);
    super::eval_settings::hint_at_latency(vars);
    let process = process?;
    let (process_beat, process_dead) = beats?;
    Some(Settings {
        node_env: process.node_env,
        port: process.port,
        log_level: process.log_level,
        tenant: process.tenant,
        database: process.database,
        trust_proxy: process.trust_proxy,
        config_dir: process.config_dir,
        model: model?,
        manychat: manychat?,
        channel: channel?,
        public_base_url: public_base_url?,
        shared_secrets: shared_secrets?,
        tokens_enforced: tokens_enforced?,
        race_deadline: race_deadline?,
        model_abort: model_abort?,
        rate_limit_per_minute: rate_limit_per_minute?,
        outbox_retry: Duration::from_secs(u64::from(outbox_retry_minutes?) * 60),
        admin_token: admin_token?,
        metrics_public: metrics_public?,
        playground: playground?,
        worker_health_port: worker_health_port?,
        process_beat,
        process_dead,
        media_base_url: media_base_url?,
    })
}

/// DEC-1: both spellings, which must agree.
fn node_env(vars: &mut Variables<'_>) -> Option<NodeEnv> {
    let words = [NodeEnv::Development, NodeEnv::Test, NodeEnv::Production].map(|env| (env.as_str(), env));
    let node = vars.choice("NODE_ENV", &words);
    let agent = vars.choice("AGENT_ENV", &words);
    match (node?, agent?) {
        (Some(node), Some(agent)) if node != agent => {
            let reason =
                format!("is {} while NODE_ENV is {}; set one of them", agent.as_str(), node.as_str());
            vars.refuse("AGENT_ENV", reason)
        }
        (node, agent) => Some(node.or(agent).unwrap_or(NodeEnv::Development)),
    }
}

fn process(vars: &mut Variables<'_>, node_env: Option<NodeEnv>) -> Option<Process> {
    use LogLevel::{Debug, Error, Fatal, Info, Trace, Warn};
    let levels = [Fatal, Error, Warn, Info, Debug, Trace].map(|level| (level.as_str(), level));
    let port = vars.whole("PORT", 1..=u16::MAX, 3000);
    let log_level = vars.choice("LOG_LEVEL", &levels);
    let tenant = tenant(vars);
    let database = database(vars, node_env);
    let trust_proxy = trust_proxy(vars);
    let config_dir = vars.text("CONFIG_DIR", "config");
    Some(Process {
        node_env: node_env?,
        port: port?,
        log_level: log_level?.unwrap_or(Info),
        tenant: tenant?,
        database: database?,
        trust_proxy: trust_proxy?,
        config_dir: PathBuf::from(config_dir?),
    })
}

/// It stands in every table and is printed by commands: a line end or an escape in it is a mistake.
fn tenant(vars: &mut Variables<'_>) -> Option<TenantId> {
    const NAME: &str = "TENANT_ID";
    let value = vars.text(NAME, "demo")?;
    if value.chars().any(char::is_control) {
        return vars.refuse(NAME, "contains a control character");
    }
    TenantId::new(value)
}

/// DEC-2 and ENV-25. The value can hold a password, so it is never repeated.
fn database(vars: &mut Variables<'_>, node_env: Option<NodeEnv>) -> Option<DatabaseUrl> {
    const NAME: &str = "DATABASE_URL";
    let Some(value) = vars.raw(NAME) else {
        return match node_env? {
            NodeEnv::Production => vars.refuse(NAME, "is missing; it is required in production"),
            _ => Some(DatabaseUrl::Embedded(PathBuf::from(DEFAULT_DATABASE_DIR))),
        };
    };
    if matches!(value, "embedded" | "pglite") {
        return Some(DatabaseUrl::EmbeddedTemporary);
    }
    if let Some(dir) = value.strip_prefix("embedded:").or_else(|| value.strip_prefix("pglite:")) {
        return if dir.trim().is_empty() {
            vars.refuse(NAME, "names no directory behind the colon")
        } else {
            Some(DatabaseUrl::Embedded(PathBuf::from(dir)))
        };
    }
    if value.starts_with("postgres://") || value.starts_with("postgresql://") {
        return match vars.check_address.map_or(Ok(()), |check| check(value)) {
            Ok(()) => Some(DatabaseUrl::Postgres(Redacted::new(value.to_owned()))),
            Err(reason) => vars.refuse(NAME, reason),
        };
    }
    vars.refuse(NAME, "must start with postgres:// or postgresql://, or be embedded or embedded:<directory>")
}

/// ENV-20.
fn trust_proxy(vars: &mut Variables<'_>) -> Option<Vec<String>> {
    let entries: Vec<_> =
        comma_list(vars.raw("TRUST_PROXY").unwrap_or_default()).map(str::to_owned).collect();
    match TrustedProxies::parse(entries.iter().map(String::as_str)) {
        Ok(_) => Some(entries),
        Err(position) => {
            let entry = entries.get(position).map(String::as_str).unwrap_or_default();
            let reason = format!(
                "entry {} (`{entry}`) is neither loopback, linklocal or uniquelocal nor an address or network",
                position + 1
            );
            vars.refuse("TRUST_PROXY", reason)
        }
    }
}

fn model_settings(vars: &mut Variables<'_>) -> Option<ModelSettings> {
    let agent = vars.required("AGENT_MODEL");
    let agent = agent.and_then(|value| vars.model("AGENT_MODEL", value));
    let fallback = vars.optional_model("AGENT_FALLBACK_MODEL");
    let max_output_tokens = vars.whole("AGENT_MAX_OUTPUT_TOKENS", 1..=MOST, 400);
    let temperature = vars.number("AGENT_TEMPERATURE", 0.0..=2.0, 0.3);
    let reasoning_effort = reasoning_effort(vars);
    let transcription = vars.optional_model("TRANSCRIPTION_MODEL");
    let insight = vars.optional_model("INSIGHT_MODEL");
    let anthropic = vars.base_url_or("ANTHROPIC_BASE_URL", "https://api.anthropic.com/v1");
    let openai = vars.base_url_or("OPENAI_BASE_URL", "https://api.openai.com/v1");
    let google = vars.base_url_or("GOOGLE_BASE_URL", "https://generativelanguage.googleapis.com/v1beta");
    let ollama = vars.base_url_or("OLLAMA_BASE_URL", "http://localhost:11434/v1");
    let pricing_overrides = super::pricing::overrides(vars);
    let max_concurrent = vars.whole("MODEL_MAX_CONCURRENT", 1..=MOST, 64);
    Some(ModelSettings {
        agent: agent?,
        fallback: fallback?,
        max_output_tokens: max_output_tokens?,
        temperature: temperature?,
        reasoning_effort: reasoning_effort?,
        transcription: transcription?,
        insight: insight?,
        anthropic_key: vars.secret("ANTHROPIC_API_KEY"),
        openai_key: vars.secret("OPENAI_API_KEY"),
        google_key: vars.secret("GOOGLE_GENERATIVE_AI_API_KEY"),
        anthropic_base_url: anthropic?,
        openai_base_url: openai?,
        google_base_url: google?,
        ollama_base_url: ollama?,
        pricing_overrides: pricing_overrides?,
        max_concurrent: usize::try_from(max_concurrent?).ok()?,
    })
}

/// ACC-ENV-10 refuses the empty value; one of white space only is blank and counts as unset (DEC-35).
fn reasoning_effort(vars: &mut Variables<'_>) -> Option<Option<ReasoningEffort>> {
    use ReasoningEffort::{High, Low, Medium, Minimal};
    const NAME: &str = "AGENT_REASONING_EFFORT";
    let words = [Minimal, Low, Medium, High].map(|effort| (effort.as_str(), effort));
    let blank = vars.raw(NAME).is_some_and(|value| !value.is_empty() && value.trim().is_empty());
    if blank { Some(None) } else { vars.choice(NAME, &words) }
}

/// `RACE_DEADLINE_MS` and `MODEL_ABORT_MS`: a lost race must not end the model call (ENV-22).
fn race_times(vars: &mut Variables<'_>) -> (Option<Duration>, Option<Duration>) {
    let race = vars.whole("RACE_DEADLINE_MS", 1..=MOST, 8000);
    let abort = vars.whole("MODEL_ABORT_MS", 1..=MOST, 30_000);
    if let (Some(race), Some(abort)) = (race, abort)
        && abort <= race
    {
        let reason = format!(
            "is {abort}; it ends the model call and must be greater than RACE_DEADLINE_MS, which is {race} and only \
             ends the wait of the request"
        );
        vars.refuse::<()>("MODEL_ABORT_MS", reason);
    }
    let milliseconds = |value: Option<u32>| value.map(|value| Duration::from_millis(u64::from(value)));
    (milliseconds(race), milliseconds(abort))
}

/// ENV-24.
fn channel(vars: &mut Variables<'_>) -> Option<ChannelName> {
    let name = vars.raw("CHANNEL").unwrap_or("whatsapp");
    match name.parse() {
        Ok(channel) => Some(channel),
        Err(error) => vars.refuse("CHANNEL", format!("`{name}`: {error}")),
    }
}

/// ENV-15. The scheme is compared with case; trailing slashes go, because a path is appended.
fn public_base_url(vars: &mut Variables<'_>) -> Option<String> {
    const NAME: &str = "PUBLIC_BASE_URL";
    let value = vars.required(NAME)?;
    if value.starts_with("https://") && url::Url::parse(value).is_ok() {
        Some(value.trim_end_matches('/').to_owned())
    } else {
        vars.refuse(NAME, "must be an absolute URL that starts with https://")
    }
}

/// ENV-16: the length is that of the whole value.
fn shared_secrets(vars: &mut Variables<'_>) -> Option<SharedSecrets> {
    const NAME: &str = "MANYCHAT_SHARED_SECRET";
    let value = vars.required(NAME)?;
    if value.encode_utf16().count() < SECRET_CHARACTERS {
        return vars.refuse(NAME, format!("must have at least {SECRET_CHARACTERS} characters"));
    }
    let secrets: Vec<_> = comma_list(value).map(|secret| Redacted::new(secret.to_owned())).collect();
    if secrets.is_empty() {
        return vars.refuse(NAME, "holds only commas and white space, so there is no secret in it");
    }
    Some(SharedSecrets(secrets))
}

fn manychat_settings(vars: &mut Variables<'_>, node_env: Option<NodeEnv>) -> Option<ManyChatSettings> {
    let api_base = vars.text("MANYCHAT_API_BASE", "https://api.manychat.com");
    let api_base = api_base.and_then(|value| vars.base_url("MANYCHAT_API_BASE", value));
    let reply_field = vars.text("MANYCHAT_REPLY_FIELD", "ai_message");
    let reply_gap = vars.whole("MANYCHAT_REPLY_GAP_MS", 0..=10_000_u32, 2000);
    let token_field = vars.text("MANYCHAT_TOKEN_FIELD", "ai_token");
    let calls_per_second = calls_per_second(vars, node_env);
    Some(ManyChatSettings {
        api_token: vars.secret("MANYCHAT_API_TOKEN"),
        api_base: api_base?,
        reply_field: reply_field?.to_owned(),
        reply_flow_ns: vars.filled("MANYCHAT_REPLY_FLOW_NS").map(str::to_owned),
        reply_gap: Duration::from_millis(u64::from(reply_gap?)),
        token_field: token_field?.to_owned(),
        calls_per_second: calls_per_second?,
    })
}

/// ManyChat's own limit (API-4, BUCKET-7). Another one is for measuring against a stand-in: a real account would
/// answer 429.
fn calls_per_second(vars: &mut Variables<'_>, node_env: Option<NodeEnv>) -> Option<NonZeroU32> {
    const NAME: &str = "MANYCHAT_CALLS_PER_SECOND";
    const MANYCHAT: NonZeroU32 = NonZeroU32::new(10).unwrap();
    if vars.filled(NAME).is_some() && node_env == Some(NodeEnv::Production) {
        return vars.refuse(NAME, "is for measuring and is refused in production");
    }
    let calls = vars.whole(NAME, 1..=1_000_000_u32, MANYCHAT.get())?;
    Some(NonZeroU32::new(calls).unwrap_or(MANYCHAT))
}

/// An address that only tests use (MEDIA-312).
fn development_url(
    vars: &mut Variables<'_>,
    name: &'static str,
    node_env: Option<NodeEnv>,
) -> Option<Option<String>> {
    let Some(value) = vars.filled(name) else { return Some(None) };
    if node_env == Some(NodeEnv::Production) {
        return vars.refuse(name, "is for tests and is refused in production");
    }
    vars.base_url(name, value).map(Some)
}

/// DEC-14.
fn admin_token(vars: &mut Variables<'_>) -> Option<Option<Redacted<String>>> {
    const NAME: &str = "ADMIN_TOKEN";
    let Some(value) = vars.filled(NAME) else { return Some(None) };
    if value.encode_utf16().count() < SECRET_CHARACTERS {
        return vars.refuse(NAME, format!("must have at least {SECRET_CHARACTERS} characters"));
    }
    Some(Some(Redacted::new(value.to_owned())))
}

/// DEC-16.
fn playground(vars: &mut Variables<'_>, node_env: Option<NodeEnv>) -> Option<bool> {
    let playground = vars.flag("PLAYGROUND", false)?;
    if playground && node_env == Some(NodeEnv::Production) {
        return vars.refuse("PLAYGROUND", "is for development and is refused in production");
    }
    Some(playground)
}

/// ARC-44 and DEC-35: a process stops starting calls when its last confirmed beat is older than 45 % of
/// `PROCESS_DEAD_MS` (or that minus 11 s), so with fewer than three beats in that time it could never send.
fn process_times(vars: &mut Variables<'_>) -> Option<(Duration, Duration)> {
    let beat = vars.whole("PROCESS_BEAT_MS", 1..=MOST, 5000);
    let dead = vars.whole("PROCESS_DEAD_MS", 1..=MOST, 20_000);
    let (beat, dead) = (u64::from(beat?), u64::from(dead?));
    if dead < beat * 3 {
        let reason = format!("is {dead}; it must be at least three times PROCESS_BEAT_MS, which is {beat}");
        return vars.refuse("PROCESS_DEAD_MS", reason);
    }
    Some((Duration::from_millis(beat), Duration::from_millis(dead)))
}

#[cfg(test)]
#[path = "environment_tests.rs"]
mod tests;
