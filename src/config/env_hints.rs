//! Warnings about an environment that boots: what is missing or odd and shows only later.

use std::time::Duration;

use super::environment::SECRET_CHARACTERS;
use super::reasoning::{base_name, openai_reasons};
use super::variables::Variables;
use super::{DatabaseUrl, ModelName, NodeEnv, ReasoningEffort, Settings};
use crate::domain::Provider;

/// The secret as `.env.example` has it.
const EXAMPLE_SECRET: &str = "change-me-to-a-long-random-string";
/// The host of `PUBLIC_BASE_URL` as `.env.example` has it.
const EXAMPLE_HOST: &str = "agent.example.com";
/// What is appended to `PUBLIC_BASE_URL` (ENV-15); the route itself is a room above.
const MESSAGE_PATH: &str = "/v1/channels/manychat/message";
/// Longest deadline that leaves the answer time to arrive before ManyChat hangs up after 10 seconds (DEC-21: tests allow
/// half a second).
const LONGEST_DEADLINE: Duration = Duration::from_millis(9500);
/// Fewest output tokens with which a model that thinks has room for thoughts and a reply.
const ROOM_TO_THINK: u32 = 2000;

/// All warnings, in the order of the variables.
pub(super) fn hints(vars: &mut Variables<'_>, settings: &Settings) {
    vars.warn_if_empty_is_zero("AGENT_TEMPERATURE", "0.3");
    vars.warn_if_empty_is_zero("MANYCHAT_REPLY_GAP_MS", "2000");
    missing_keys(vars, settings);
    fallback(vars, settings);
    thinking(vars, settings);
    secrets(vars, settings);
    deadline(vars, settings);
    public_address(vars, settings);
    delivery(vars, settings);
    development_in_use(vars, settings);
    production(vars, settings);
}

/// ENV-11: one warning for each key that a configured model needs.
fn missing_keys(vars: &mut Variables<'_>, settings: &Settings) {
    let model = &settings.model;
    let configured: [(&str, Option<&ModelName>); 4] = [
        ("AGENT_MODEL", Some(&model.agent)),
        ("AGENT_FALLBACK_MODEL", model.fallback.as_ref()),
        ("TRANSCRIPTION_MODEL", model.transcription.as_ref()),
        ("INSIGHT_MODEL", model.insight.as_ref()),
    ];
    let keys = [
        (Provider::Anthropic, "ANTHROPIC_API_KEY", &model.anthropic_key),
        (Provider::OpenAi, "OPENAI_API_KEY", &model.openai_key),
        (Provider::Google, "GOOGLE_GENERATIVE_AI_API_KEY", &model.google_key),
    ];
    for (provider, name, key) in keys {
        let of_provider = |model: &&ModelName| model.provider == provider;
        let needing = configured.iter().filter(|(_, model)| model.as_ref().is_some_and(of_provider));
        let needing: Vec<_> = needing.map(|(variable, _)| *variable).collect();
        if key.is_none() && !needing.is_empty() {
            vars.warn(name, format!("is not set, so every call of {} fails", needing.join(", ")));
        }
    }
}

fn fallback(vars: &mut Variables<'_>, settings: &Settings) {
    if settings.model.fallback.as_ref() == Some(&settings.model.agent) {
        vars.warn("AGENT_FALLBACK_MODEL", "is the same as AGENT_MODEL, so it cannot help when that fails");
    }
}

/// RUN-11: models that cannot be told not to think do so inside the output limit, the fallback as well as the first one.
fn thinking(vars: &mut Variables<'_>, settings: &Settings) {
    let model = &settings.model;
    if model.max_output_tokens >= ROOM_TO_THINK {
        return;
    }
    let configured = || std::iter::once(&model.agent).chain(&model.fallback);
    let thinks_little =
        matches!(model.reasoning_effort, Some(ReasoningEffort::Minimal | ReasoningEffort::Low));
    let by_effort = |name: &&ModelName| name.provider == Provider::OpenAi && openai_reasons(&name.model);
    let has_effort = configured().any(|name| by_effort(&name));
    let thinking = configured().filter(|name| always_thinks(name) || by_effort(name) && !thinks_little);
    let names: Vec<String> = thinking.map(ModelName::as_string).collect();
    if names.is_empty() {
        return;
    }
    let mut text = format!(
        "is {}: {} thinks inside it and may have nothing left for the reply; at least {ROOM_TO_THINK} is safer",
        model.max_output_tokens,
        names.join(" and ")
    );
    if has_effort && !thinks_little {
        text.push_str(", or AGENT_REASONING_EFFORT=minimal or low for the models of openai");
    }
    vars.warn("AGENT_MAX_OUTPUT_TOKENS", text);
}

fn always_thinks(model: &ModelName) -> bool {
    let name = base_name(&model.model);
    let others = ["gemini-1", "gemini-2.0", "gemini-2.5-flash"];
    model.provider == Provider::Google
        && name.starts_with("gemini-")
        && !others.iter().any(|begin| name.starts_with(begin))
}

/// ENV-16 and DEC-34; positions, never values.
fn secrets(vars: &mut Variables<'_>, settings: &Settings) {
    const NAME: &str = "MANYCHAT_SHARED_SECRET";
    // Counted as they stand in the variable: an empty entry has a place too.
    let value = vars.raw(NAME).unwrap_or_default();
    let written = value.split(',').enumerate().filter(|(_, entry)| !entry.trim().is_empty());
    for ((place, _), secret) in written.zip(settings.shared_secrets.iter()) {
        let position = place + 1;
        if secret.encode_utf16().count() < SECRET_CHARACTERS {
            vars.warn(NAME, format!("entry {position} has fewer than {SECRET_CHARACTERS} characters"));
        }
        if secret == EXAMPLE_SECRET {
            vars.warn(NAME, format!("entry {position} is the text of .env.example, which anybody can read"));
        }
    }
    let admin = settings.admin_token.as_ref().map(|token| token.expose().as_str());
    if settings.shared_secrets.iter().any(|secret| Some(secret) == admin) {
        let text = "is also in MANYCHAT_SHARED_SECRET: whoever may edit ManyChat's flow could open /admin; take another";
        vars.warn("ADMIN_TOKEN", text);
    }
}

/// ManyChat ends its call after 10 seconds, whatever the answer.
fn deadline(vars: &mut Variables<'_>, settings: &Settings) {
    if settings.race_deadline > LONGEST_DEADLINE {
        let text = format!(
            "is {}: ManyChat ends its call after 10000 ms and the contact gets nothing; at most {} leaves time to answer",
            settings.race_deadline.as_millis(),
            LONGEST_DEADLINE.as_millis()
        );
        vars.warn("RACE_DEADLINE_MS", text);
    }
}

/// ENV-15: the path is appended to whatever stands there, and the whole goes into responses. Never repeats the value, which
/// may hold a password.
fn public_address(vars: &mut Variables<'_>, settings: &Settings) {
    const NAME: &str = "PUBLIC_BASE_URL";
    let Ok(url) = url::Url::parse(&settings.public_base_url) else { return };
    if url.path().contains(MESSAGE_PATH) {
        let text = format!(
            "holds {MESSAGE_PATH}, which is appended to it: every callback would be a 404; leave it out"
        );
        vars.warn(NAME, text);
    }
    if url.query().is_some() || url.fragment().is_some() {
        vars.warn(NAME, "holds `?` or `#`: the path appended behind it would be no path; leave them out");
    }
    if !url.username().is_empty() || url.password().is_some() {
        vars.warn(
            NAME,
            "holds a user or a password: it stands in responses, so anybody may read it; leave it out",
        );
    }
}

/// ENV-17 and GAP-DL-12. The playground brings an account of its own when there is no token (DEC-16).
fn delivery(vars: &mut Variables<'_>, settings: &Settings) {
    let manychat = &settings.manychat;
    let offline = settings.model.agent.provider == Provider::Mock || settings.playground;
    if manychat.api_token.is_none() && !offline {
        let text = "is not set: deferred replies, contact tokens and every action will fail";
        vars.warn("MANYCHAT_API_TOKEN", text);
    }
    if manychat.api_token.is_some() && manychat.reply_flow_ns.is_none() {
        vars.warn("MANYCHAT_REPLY_FLOW_NS", "is not set: ManyChat will refuse every deferred reply");
    }
    if manychat.reply_field == manychat.token_field {
        let text =
            "is the same field as MANYCHAT_REPLY_FIELD: each reply would overwrite the contact's token";
        vars.warn("MANYCHAT_TOKEN_FIELD", text);
    }
}

/// ENV-19, MEDIA-312, and what is left of the offline set-up (ENV-32). A key of ManyChat means real contacts, whatever
/// `NODE_ENV` says.
fn development_in_use(vars: &mut Variables<'_>, settings: &Settings) {
    let (production, live) =
        (settings.node_env == NodeEnv::Production, settings.manychat.api_token.is_some());
    if live && !production {
        let text = format!(
            "is {} while MANYCHAT_API_TOKEN is set: set it to production where real contacts are answered",
            settings.node_env.as_str()
        );
        vars.warn("NODE_ENV", text);
    }
    if live && is_example(&settings.public_base_url) {
        let text = "is the address of .env.example: answers to the agent's messages would go there and not come back";
        vars.warn("PUBLIC_BASE_URL", text);
    }
    if (production || live) && !settings.tokens_enforced {
        let text = "is false: a request without its contact's token reads that contact's history; for a roll-out only";
        vars.warn("CONTACT_TOKENS_ENFORCED", text);
    }
    if settings.media_base_url.is_some() {
        vars.warn("MANYCHAT_MEDIA_BASE_URL", "is set: media is fetched from there, for tests only");
    }
}

/// Whether an address is the example's, whatever its path and port.
fn is_example(base_url: &str) -> bool {
    let host = base_url.split_once("://").map_or(base_url, |(_, rest)| rest);
    host.split(['/', ':', '?', '#']).next().is_some_and(|host| host.eq_ignore_ascii_case(EXAMPLE_HOST))
}

/// What boots in production and is most likely left over from development.
fn production(vars: &mut Variables<'_>, settings: &Settings) {
    if settings.node_env != NodeEnv::Production {
        return;
    }
    let model = &settings.model;
    let mock = |model: &ModelName| model.provider == Provider::Mock;
    if mock(&model.agent) {
        vars.warn("AGENT_MODEL", "is the mock model: it answers for the demo tenant and for nobody else");
    }
    if model.fallback.as_ref().is_some_and(mock) {
        vars.warn(
            "AGENT_FALLBACK_MODEL",
            "is the mock model: it answers for the demo tenant and for nobody else",
        );
    }
    if !matches!(settings.database, DatabaseUrl::Postgres(_)) {
        let text = "is the embedded server, made for development: one process, and nobody else backs it up; name a Postgres";
        vars.warn("DATABASE_URL", text);
    }
    if is_plain_and_far(&settings.manychat.api_base) {
        let text = "begins with http:// and names another machine: key and texts go there unencrypted";
        vars.warn("MANYCHAT_API_BASE", text);
    }
    if settings.trusted_proxies().trusts_everybody() {
        let text = "trusts every address: anybody can choose the address that the rate limit counts; list your proxies";
        vars.warn("TRUST_PROXY", text);
    }
}

fn is_plain_and_far(address: &str) -> bool {
    let Ok(url) = url::Url::parse(address) else { return false };
    let near = match url.host() {
        Some(url::Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
        Some(url::Host::Ipv4(address)) => address.is_loopback(),
        Some(url::Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    };
    url.scheme() == "http" && !near
}

#[cfg(test)]
#[path = "env_hints_tests.rs"]
mod tests;
