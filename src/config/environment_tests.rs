use std::collections::BTreeMap;
use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::config::demo;
use crate::config::test_vars::{assert_refused, boot, names, refusal, refusal_of, settings, vars, warnings};
use crate::domain::Provider;

/// ACC-ENV-1, ENV-1: both variables in one message, one line each, with the pointer at the end.
#[test]
fn all_faults_are_reported_together() {
    let message = refusal(&[
        ("AGENT_MODEL", "nope"),
        ("PUBLIC_BASE_URL", "not-a-url"),
        ("PORT", "x"),
        ("AGENT_TEMPERATURE", "3"),
        ("MANYCHAT_REPLY_FIELD", ""),
        ("PROCESS_BEAT_MS", "0"),
    ]);
    let faulty = [
        "AGENT_MODEL",
        "PUBLIC_BASE_URL",
        "PORT",
        "AGENT_TEMPERATURE",
        "MANYCHAT_REPLY_FIELD",
        "PROCESS_BEAT_MS",
    ];
    for name in faulty {
        assert!(names(&message, name), "{name} in {message}");
    }
    assert_eq!(message.lines().count(), faulty.len() + 2, "{message}");
}

/// ENV-1, PROV-8: what has no default is required, the model among it.
#[test]
fn required_variables_are_named_when_missing() {
    let message = refusal_of(&BTreeMap::new());
    for name in ["AGENT_MODEL", "PUBLIC_BASE_URL", "MANYCHAT_SHARED_SECRET"] {
        assert!(names(&message, name), "{message}");
    }
}

/// ENV-2.2: defaults of every variable.
#[test]
fn a_variable_that_is_unset_has_its_documented_default() {
    let (settings, warnings) = boot(&[]);
    assert!(warnings.is_empty(), "{warnings:?}");
    assert_eq!(settings.node_env, NodeEnv::Development);
    assert_eq!((settings.port, settings.log_level), (3000, LogLevel::Info));
    assert_eq!((settings.tenant.as_str(), settings.config_dir.to_str()), ("demo", Some("config")));
    assert!(settings.trust_proxy.is_empty());
    let model = &settings.model;
    assert_eq!((model.max_output_tokens, model.temperature, model.max_concurrent), (400, 0.3, 64));
    assert!(model.fallback.is_none() && model.transcription.is_none() && model.insight.is_none());
    assert!(model.reasoning_effort.is_none() && model.pricing_overrides.is_none());
    assert_eq!(model.anthropic_base_url, "https://api.anthropic.com/v1");
    assert_eq!(model.openai_base_url, "https://api.openai.com/v1");
    assert_eq!(model.google_base_url, "https://generativelanguage.googleapis.com/v1beta");
    assert_eq!(model.ollama_base_url, "http://localhost:11434/v1");
    let manychat = &settings.manychat;
    assert_eq!(manychat.api_base, "https://api.manychat.com");
    assert_eq!((manychat.reply_field.as_str(), manychat.token_field.as_str()), ("ai_message", "ai_token"));
    assert!(manychat.api_token.is_none() && manychat.reply_flow_ns.is_none());
    assert_eq!(manychat.reply_gap, Duration::from_millis(2000));
    assert_eq!(settings.channel, ChannelName::Whatsapp);
    assert!(settings.tokens_enforced && !settings.metrics_public && !settings.playground);
    assert_eq!(settings.race_deadline, Duration::from_secs(8));
    assert_eq!(settings.model_abort, Duration::from_secs(30));
    assert_eq!(settings.rate_limit_per_minute, 300);
    assert_eq!(settings.outbox_retry, Duration::from_secs(30 * 60));
    assert!(settings.admin_token.is_none() && settings.worker_health_port.is_none());
    assert!(settings.media_base_url.is_none());
    assert_eq!(settings.process_beat, Duration::from_secs(5));
    assert_eq!(settings.process_dead, Duration::from_secs(20));
}

/// ACC-ENV-2, ENV-2, PROV-7: blank placeholders count as unset.
#[test]
fn blank_placeholders_count_as_unset() {
    let names = [
        "TRANSCRIPTION_MODEL",
        "INSIGHT_MODEL",
        "MANYCHAT_API_TOKEN",
        "MANYCHAT_REPLY_FLOW_NS",
        "ANTHROPIC_API_KEY",
        "OPENAI_API_KEY",
        "GOOGLE_GENERATIVE_AI_API_KEY",
        "AGENT_FALLBACK_MODEL",
        "PRICING_OVERRIDES",
        "ADMIN_TOKEN",
        "WORKER_HEALTH_PORT",
        "MANYCHAT_MEDIA_BASE_URL",
        "EVAL_DIR",
    ];
    for blank in ["", "  ", "\t"] {
        let changes: Vec<_> = names.iter().map(|name| (*name, blank)).collect();
        let settings = settings(&changes);
        assert!(settings.manychat.api_token.is_none() && settings.manychat.reply_flow_ns.is_none());
        assert!(settings.model.openai_key.is_none() && settings.model.transcription.is_none());
        assert!(settings.admin_token.is_none() && settings.worker_health_port.is_none());
    }
}

/// ENV-3: for every other variable an empty value is a value.
#[test]
fn other_empty_values_are_refused() {
    let refused = [
        "PORT",
        "AGENT_MAX_OUTPUT_TOKENS",
        "RACE_DEADLINE_MS",
        "MODEL_ABORT_MS",
        "NODE_ENV",
        "LOG_LEVEL",
        "AGENT_REASONING_EFFORT",
        "CONTACT_TOKENS_ENFORCED",
        "CHANNEL",
        "PUBLIC_BASE_URL",
        "MANYCHAT_SHARED_SECRET",
        "DATABASE_URL",
        "TENANT_ID",
        "MANYCHAT_REPLY_FIELD",
        "MANYCHAT_TOKEN_FIELD",
        "AGENT_MODEL",
        "MANYCHAT_API_BASE",
        "CONFIG_DIR",
        "RATE_LIMIT_PER_MINUTE",
        "MODEL_MAX_CONCURRENT",
    ];
    for name in refused {
        assert_refused(name, &[""]);
    }
    assert!(settings(&[("TRUST_PROXY", "")]).trust_proxy.is_empty());
}

/// ENV-3, DEC-35: a blank address of a provider counts as unset.
#[test]
fn a_blank_provider_address_counts_as_unset() {
    let settings = settings(&[("OLLAMA_BASE_URL", ""), ("OPENAI_BASE_URL", " ")]);
    assert_eq!(settings.model.ollama_base_url, "http://localhost:11434/v1");
    assert_eq!(settings.model.openai_base_url, "https://api.openai.com/v1");
}

/// ACC-ENV-3, ENV-16, ENV-26, GAP-CFG-3, GAP-CH-9
#[test]
fn the_shared_secret_needs_16_characters_in_all_and_one_entry() {
    let message = refusal(&[("MANYCHAT_SHARED_SECRET", "short-planted")]);
    assert!(names(&message, "MANYCHAT_SHARED_SECRET"));
    assert_refused("MANYCHAT_SHARED_SECRET", &[",,,,,,,,,,,,,,,,,,", "fifteen-letters"]);
    let two = settings(&[("MANYCHAT_SHARED_SECRET", " first-long-secret-x , second-long-secret,,")]);
    assert_eq!(two.shared_secrets.iter().collect::<Vec<_>>(), ["first-long-secret-x", "second-long-secret"]);
}

/// ACC-ENV-4, ENV-15
#[test]
fn the_public_address_is_https_and_loses_its_slashes() {
    assert_refused(
        "PUBLIC_BASE_URL",
        &["http://agent.example", "HTTPS://agent.example", "https://", "agent.example"],
    );
    let settings = settings(&[("PUBLIC_BASE_URL", "https://agent.example/base//")]);
    assert_eq!(settings.public_base_url, "https://agent.example/base");
}

/// ACC-ENV-5, ENV-22, RACE-1, 01/AC-13: the message names both roles.
#[test]
fn the_abort_is_later_than_the_deadline() {
    let message = refusal(&[("RACE_DEADLINE_MS", "9000"), ("MODEL_ABORT_MS", "9000")]);
    assert!(names(&message, "MODEL_ABORT_MS") && message.contains("RACE_DEADLINE_MS"), "{message}");
    refusal(&[("RACE_DEADLINE_MS", "30000")]);
    let settings = settings(&[("RACE_DEADLINE_MS", "9e3"), ("MODEL_ABORT_MS", "9001.0")]);
    assert_eq!(settings.model_abort, Duration::from_millis(9001));
}

/// ACC-ENV-6, ENV-3, GAP-CFG-4, PACE-1, AC-DL-10
#[test]
fn an_empty_number_with_minimum_0_is_0_and_warns() {
    let (settings, warnings) = boot(&[("AGENT_TEMPERATURE", ""), ("MANYCHAT_REPLY_GAP_MS", " ")]);
    assert_eq!((settings.model.temperature, settings.manychat.reply_gap), (0.0, Duration::ZERO));
    let places: Vec<_> = warnings.iter().map(|warning| warning.place.as_str()).collect();
    assert_eq!(places, ["AGENT_TEMPERATURE", "MANYCHAT_REPLY_GAP_MS"]);
    assert_refused("AGENT_TEMPERATURE", &["2.1", "-0.1", "warm", "inf", "NaN"]);
    assert_refused("MANYCHAT_REPLY_GAP_MS", &["10001", "-1", "0.5"]);
}

/// ENV-4, BUCKET-7 and the bounds of the tables.
#[test]
fn whole_numbers_are_checked_by_value_and_bounds() {
    assert_eq!(settings(&[("PORT", " 8e3 ")]).port, 8000);
    assert_refused("PORT", &["0", "65536", "80.5", "-1", "http"]);
    assert_refused("AGENT_MAX_OUTPUT_TOKENS", &["1.5", "0", "2147483648", "1e300"]);
    assert_refused("OUTBOX_RETRY_MINUTES", &["0", "1441"]);
    assert_refused("WORKER_HEALTH_PORT", &["0", "65536"]);
    assert_refused("RATE_LIMIT_PER_MINUTE", &["0"]);
    assert_refused("MANYCHAT_CALLS_PER_SECOND", &["0", "-1", "1.5", "inf"]);
    assert_refused("MODEL_MAX_CONCURRENT", &["0"]);
    assert_eq!(settings(&[("WORKER_HEALTH_PORT", "3001")]).worker_health_port, Some(3001));
}

/// ACC-ENV-7, ENV-20
#[test]
fn trust_proxy_is_a_list_of_presets_addresses_and_networks() {
    let settings = settings(&[("TRUST_PROXY", "10.0.0.0/8, loopback")]);
    assert_eq!(settings.trust_proxy, ["10.0.0.0/8", "loopback"]);
    assert!(settings.trusted_proxies().trusts("127.0.0.1".parse().unwrap()));
    assert!(!settings.trusted_proxies().trusts("11.0.0.1".parse().unwrap()));
    assert_refused("TRUST_PROXY", &["10.0.0.0/33", "proxy.internal", "loopback,::1/129"]);
}

/// ACC-ENV-8, ENV-5: enumerations are compared with case.
#[test]
fn enumerations_are_case_sensitive() {
    assert_refused("CONTACT_TOKENS_ENFORCED", &["TRUE", "1", "yes", " true"]);
    assert_refused("NODE_ENV", &["staging", "Production"]);
    assert_refused("LOG_LEVEL", &["verbose", "INFO"]);
    assert_refused("METRICS_PUBLIC", &["True"]);
    assert!(!settings(&[("CONTACT_TOKENS_ENFORCED", "false")]).tokens_enforced);
    assert_eq!(settings(&[("LOG_LEVEL", "fatal")]).log_level, LogLevel::Fatal);
}

/// ACC-ENV-9, ENV-24, 05/CAP-3
#[test]
fn an_unknown_channel_lists_the_known_ones() {
    let message = refusal(&[("CHANNEL", "signal")]);
    for word in ["signal", "whatsapp", "instagram", "messenger", "telegram"] {
        assert!(message.contains(word), "{message}");
    }
    assert_eq!(settings(&[("CHANNEL", "telegram")]).channel, ChannelName::Telegram);
}

/// ACC-ENV-10, DEC-35, ENV-12: empty is refused, white space only is blank and counts as unset.
#[test]
fn an_empty_reasoning_effort_is_refused_and_a_blank_one_unset() {
    assert_refused("AGENT_REASONING_EFFORT", &["", "highest", "LOW"]);
    assert_eq!(settings(&[("AGENT_REASONING_EFFORT", "  ")]).model.reasoning_effort, None);
    let low = settings(&[("AGENT_REASONING_EFFORT", "low")]).model.reasoning_effort;
    assert_eq!(low, Some(ReasoningEffort::Low));
}

/// ENV-6, ENV-10, DEC-12, PROV-1, PROV-7: the first colon separates, a slash may follow it.
#[test]
fn model_names_are_provider_and_model() {
    for (text, provider, model) in [
        ("ollama:llama3.1:8b", Provider::Ollama, "llama3.1:8b"),
        ("openai:org/open-model_1.5", Provider::OpenAi, "org/open-model_1.5"),
        ("mock:demo", Provider::Mock, "demo"),
    ] {
        let name = settings(&[("AGENT_MODEL", text)]).model.agent;
        assert_eq!((name.provider, name.model.as_str()), (provider, model));
        assert_eq!(name.as_string(), text);
    }
    assert_refused(
        "AGENT_MODEL",
        &["openai", "openai:", ":x", "OpenAI:x", "openai/x:y", "openai:a b", "openai:ä"],
    );
    assert_refused("TRANSCRIPTION_MODEL", &["whisper"]);
    assert_refused("INSIGHT_MODEL", &["x"]);
}

/// 01/AC-12, PROV-3, DEC-10, DEC-35: the string, the providers and the variables to check.
#[test]
fn an_unknown_provider_names_the_accepted_ones() {
    for name in ["AGENT_MODEL", "AGENT_FALLBACK_MODEL", "TRANSCRIPTION_MODEL", "INSIGHT_MODEL"] {
        let message = refusal(&[(name, "notreal:x")]);
        assert!(names(&message, name), "{message}");
        for word in ["notreal:x", "anthropic", "openai", "google", "ollama", "mock", "OPENAI_API_KEY"] {
            assert!(message.contains(word), "{message}");
        }
    }
    assert_refused("AGENT_FALLBACK_MODEL", &["nope"]);
    let message = refusal(&[("AGENT_FALLBACK_MODEL", "notreal:x")]);
    assert!(!message.contains("AGENT_MODEL"), "the one at fault is named and no other: {message}");
}

/// PROV-3, ENV-1: a command that asks models needs their variables and no others, and all their faults are told.
#[test]
fn the_variables_of_the_models_can_be_read_alone() {
    let read = |pairs: &[(&str, &str)]| {
        let pair = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        let environment =
            Environment { variables: pairs.iter().map(pair).collect(), ..Environment::default() };
        ModelSettings::from_environment(&environment)
    };
    let others = [("AGENT_MODEL", "mock:demo"), ("PUBLIC_BASE_URL", "nonsense"), ("MODEL_ABORT_MS", "9000")];
    let (model, abort) = read(&others).unwrap();
    assert_eq!((model.agent.as_string().as_str(), abort), ("mock:demo", Duration::from_secs(9)));
    let faults = [("AGENT_FALLBACK_MODEL", "nope:x"), ("OPENAI_BASE_URL", "x"), ("MODEL_ABORT_MS", "0")];
    let found: Vec<&str> = read(&faults).unwrap_err().faults.iter().map(|fault| fault.name).collect();
    assert_eq!(found, ["AGENT_MODEL", "AGENT_FALLBACK_MODEL", "OPENAI_BASE_URL", "MODEL_ABORT_MS"]);
}

/// DEC-1: both names of the environment, which must agree.
#[test]
fn both_names_of_the_environment_agree() {
    assert_eq!(settings(&[("AGENT_ENV", "test")]).node_env, NodeEnv::Test);
    let both = [("AGENT_ENV", "production"), ("NODE_ENV", "production")];
    assert_eq!(settings(&both).node_env, NodeEnv::Production);
    let message = refusal(&[("AGENT_ENV", "production"), ("NODE_ENV", "test")]);
    assert!(names(&message, "AGENT_ENV") && message.contains("NODE_ENV"), "{message}");
    assert_refused("AGENT_ENV", &["", "prod"]);
}

/// DEC-2, ENV-25, 06 DB-1
#[test]
fn the_database_is_postgres_or_embedded() {
    let database = |value: Option<&str>| {
        Settings::from_vars(&vars(&[("DATABASE_URL", value)])).map(|(settings, _)| settings.database)
    };
    for value in ["embedded", "pglite"] {
        assert!(matches!(database(Some(value)), Ok(DatabaseUrl::EmbeddedTemporary)), "{value}");
    }
    for (value, dir) in [("embedded:.data/pg", ".data/pg"), ("pglite:/var/pg", "/var/pg")] {
        let found = database(Some(value));
        assert!(matches!(&found, Ok(DatabaseUrl::Embedded(path)) if path.to_str() == Some(dir)), "{found:?}");
    }
    let absent = database(None);
    assert!(matches!(&absent, Ok(DatabaseUrl::Embedded(path)) if path.to_str() == Some(".data/postgres")));
    for value in ["postgres://a:b@c/d", "postgresql://a@c"] {
        assert!(matches!(database(Some(value)), Ok(DatabaseUrl::Postgres(url)) if url.expose() == value));
    }
    assert_refused(
        "DATABASE_URL",
        &["mysql://planted@x", "embedded:", "pglite: ", "Embedded", "planted-password"],
    );
}

/// DEC-2: required in production.
#[test]
fn production_needs_a_database_url() {
    let message = refusal_of(&vars(&[("DATABASE_URL", None), ("NODE_ENV", Some("production"))]));
    assert!(names(&message, "DATABASE_URL"), "{message}");
}

/// DEC-16, MEDIA-312: refused in production; the media hook warns elsewhere.
#[test]
fn development_switches_are_refused_in_production() {
    let switches = [
        ("PLAYGROUND", "true"),
        ("MANYCHAT_MEDIA_BASE_URL", "http://127.0.0.1:9"),
        ("MANYCHAT_CALLS_PER_SECOND", "1000"),
    ];
    for (name, value) in switches {
        assert!(names(&refusal(&[(name, value), ("NODE_ENV", "production")]), name));
        boot(&[(name, value)]);
    }
    assert!(warnings(&[("MANYCHAT_MEDIA_BASE_URL", "http://x")])[0].starts_with("MANYCHAT_MEDIA_BASE_URL: "));
}

/// DEC-14
#[test]
fn a_short_admin_token_is_refused() {
    assert_refused("ADMIN_TOKEN", &["planted-token"]);
    assert!(settings(&[("ADMIN_TOKEN", "planted-admin-token")]).admin_token.is_some());
}

/// ARC-44: with fewer beats a process would always count as nearly dead.
#[test]
fn a_process_beats_three_times_before_it_counts_as_dead() {
    assert_refused("PROCESS_DEAD_MS", &["14999"]);
    let settings = settings(&[("PROCESS_BEAT_MS", "500"), ("PROCESS_DEAD_MS", "1500")]);
    assert_eq!(settings.process_dead, Duration::from_millis(1500));
}

/// PROV-5, DEC-22: absolute http addresses; a trailing slash is optional.
#[test]
fn provider_addresses_are_absolute_and_lose_their_slash() {
    let found =
        settings(&[("OPENAI_BASE_URL", "http://localhost:1/v1/"), ("MANYCHAT_API_BASE", "http://x/")]);
    assert_eq!(
        (found.model.openai_base_url.as_str(), found.manychat.api_base.as_str()),
        ("http://localhost:1/v1", "http://x")
    );
    for name in
        ["OPENAI_BASE_URL", "ANTHROPIC_BASE_URL", "GOOGLE_BASE_URL", "OLLAMA_BASE_URL", "MANYCHAT_API_BASE"]
    {
        assert_refused(name, &["localhost", "/v1", "ftp://x/v1", "http://"]);
    }
}

/// CFG-5
#[test]
fn unknown_variables_are_ignored() {
    assert!(warnings(&[("SOMETHING_UNKNOWN", "x"), ("AGENT_MODLE", "y")]).is_empty());
}

/// ENV-26: neither the settings nor the warnings can print a secret.
#[test]
fn settings_print_no_secret() {
    let changes = [
        ("MANYCHAT_API_TOKEN", "planted-a"),
        ("ANTHROPIC_API_KEY", "planted-b"),
        ("OPENAI_API_KEY", "planted-c"),
        ("GOOGLE_GENERATIVE_AI_API_KEY", "planted-d"),
        ("ADMIN_TOKEN", "planted-admin-token-x"),
    ];
    let (settings, warnings) = boot(&changes);
    assert!(!format!("{settings:?}{warnings:?}").contains("planted"));
}

/// ENV-30, CFG-5: the example names every variable and no other, and as it stands it boots.
#[test]
fn the_example_names_every_variable() {
    let named = |name: &str| {
        let line = |line: &str| line.strip_prefix("# ").unwrap_or(line).starts_with(&format!("{name}="));
        demo::ENV_EXAMPLE.lines().any(line)
    };
    for name in VARIABLES {
        assert!(named(name), "{name} is missing in .env.example");
    }
    let is_name =
        |word: &&str| word.bytes().all(|byte| byte.is_ascii_uppercase() || b"_0123456789".contains(&byte));
    let set =
        |line: &'static str| line.strip_prefix("# ").unwrap_or(line).split_once('=').map(|(name, _)| name);
    for name in demo::ENV_EXAMPLE.lines().filter_map(set).filter(is_name) {
        assert!(VARIABLES.contains(&name), "{name} of .env.example is no variable");
    }
    let lines = demo::ENV_EXAMPLE.lines().filter(|line| !line.starts_with('#'));
    let vars = lines
        .filter_map(|line| line.split_once('='))
        .map(|(name, value)| (name.to_owned(), value.to_owned()));
    Settings::from_vars(&vars.collect()).unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// ENV-1, ENV-26: whatever stands in the variables, nothing panics, the message has its form, and a value is
    /// repeated only where a clause wants it.
    #[test]
    fn any_values_are_accepted_or_refused_by_name(
        changes in proptest::collection::vec((0..VARIABLES.len(), "[ -~äß]{0,24}"), 1..6)
    ) {
        let mut vars = vars(&[]);
        for (index, value) in &changes {
            vars.insert(VARIABLES[*index].to_owned(), value.clone());
        }
        if let Err(error) = Settings::from_vars(&vars) {
            let message = error.to_string();
            prop_assert!(message.starts_with("invalid environment: "));
            prop_assert!(message.ends_with(".env.example."));
            prop_assert!(!message.contains("planted"));
            prop_assert!(!error.faults.is_empty());
        }
    }
}
