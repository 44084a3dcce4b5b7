use std::time::Duration;

use crate::config::test_vars::{boot, names, refusal, settings, vars, warnings};
use crate::config::{EvalSettings, Settings};

/// An environment that answers real contacts.
const LIVE: &[(&str, &str)] = &[
    ("MANYCHAT_API_TOKEN", "x"),
    ("MANYCHAT_REPLY_FLOW_NS", "f"),
    ("NODE_ENV", "production"),
    ("AGENT_MODEL", "ollama:x"),
    ("PUBLIC_BASE_URL", "https://my-agent.example.com.test/base"),
];

/// ENV-16, DEC-34: a short entry warns by its position and does not refuse.
#[test]
fn a_short_secret_in_a_list_warns_by_position() {
    let found = warnings(&[("MANYCHAT_SHARED_SECRET", "long-enough-secret-1,tiny-one")]);
    assert_eq!(found, ["MANYCHAT_SHARED_SECRET: entry 2 has fewer than 16 characters"]);
    let found = warnings(&[("MANYCHAT_SHARED_SECRET", "aaaaaaaaaaaaaaaa,,b")]);
    assert_eq!(found, ["MANYCHAT_SHARED_SECRET: entry 3 has fewer than 16 characters"]);
    let example = warnings(&[("MANYCHAT_SHARED_SECRET", "change-me-to-a-long-random-string")]);
    assert!(example[0].contains(".env.example"), "{example:?}");
}

/// ENV-11, PROV-4: one warning for each key that a configured model needs.
#[test]
fn a_missing_key_of_a_configured_provider_warns() {
    let changes =
        [("AGENT_MODEL", "openai:a"), ("INSIGHT_MODEL", "openai:b"), ("AGENT_FALLBACK_MODEL", "google:c")];
    let found = warnings(&[LIVE, &changes[..]].concat());
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found[0].starts_with("OPENAI_API_KEY: ") && found[0].contains("AGENT_MODEL, INSIGHT_MODEL"));
    assert!(found[1].starts_with("GOOGLE_GENERATIVE_AI_API_KEY: "));
    assert!(warnings(LIVE).is_empty());
}

/// 01/RUN-11: a Gemini model that cannot be told not to think wants more room than the default.
#[test]
fn a_model_that_thinks_inside_a_low_limit_warns() {
    let found = |model: &str, limit: &str| {
        let changes = [
            ("AGENT_FALLBACK_MODEL", model),
            ("GOOGLE_GENERATIVE_AI_API_KEY", "x"),
            ("AGENT_MAX_OUTPUT_TOKENS", limit),
        ];
        warnings(&[LIVE, &changes[..]].concat())
    };
    for model in ["google:gemini-2.5-pro", "google:gemini-3-flash", "google:models/gemini-flash-latest"] {
        let warned = found(model, "1999");
        assert_eq!(warned.len(), 1, "{model}");
        assert!(warned[0].starts_with("AGENT_MAX_OUTPUT_TOKENS: is 1999: ") && warned[0].contains(model));
        assert!(found(model, "2000").is_empty(), "{model}");
    }
    for model in ["google:gemini-2.5-flash", "google:gemini-2.0-flash", "google:gemma-3", "ollama:gemini-3"] {
        assert!(found(model, "400").is_empty(), "{model}");
    }
}

/// 01/RUN-11, ENV-12: a model of OpenAI that reasons wants more room than the default, or to be told to think little;
/// as the fallback too, where it shows only in an outage.
#[test]
fn a_model_that_reasons_without_being_told_to_think_little_warns() {
    let found = |variable: &str, model: &str, effort: &str, limit: &str| {
        let changes = [
            (variable, model),
            ("OPENAI_API_KEY", "x"),
            ("AGENT_REASONING_EFFORT", effort),
            ("AGENT_MAX_OUTPUT_TOKENS", limit),
        ];
        warnings(&[LIVE, &changes[..]].concat())
    };
    for variable in ["AGENT_MODEL", "AGENT_FALLBACK_MODEL"] {
        for model in
            ["openai:gpt-5-mini", "openai:o4-mini", "openai:openai/gpt-5", "openai:ft:o4-mini:org::id"]
        {
            for effort in [" ", "medium", "high"] {
                let warned = found(variable, model, effort, "1999");
                assert_eq!(warned.len(), 1, "{variable}={model}, {effort}");
                assert!(warned[0].starts_with("AGENT_MAX_OUTPUT_TOKENS: is 1999: "), "{warned:?}");
                assert!(
                    warned[0].contains(model) && warned[0].contains("AGENT_REASONING_EFFORT"),
                    "{warned:?}"
                );
            }
            assert!(found(variable, model, "minimal", "400").is_empty(), "{model}");
            assert!(found(variable, model, "low", "400").is_empty(), "{model}");
            assert!(found(variable, model, " ", "2000").is_empty(), "{model}");
        }
        assert!(found(variable, "openai:gpt-4.1-mini", " ", "400").is_empty());
    }
    let google = found("AGENT_MODEL", "google:gemini-2.5-pro", " ", "400");
    assert!(google.iter().all(|line| !line.contains("AGENT_REASONING_EFFORT")), "{google:?}");
}

/// ENV-17, GAP-DL-12, DEC-16
#[test]
fn missing_parts_of_the_delivery_warn() {
    let place = |changes: &[(&str, &str)]| {
        boot(changes).1.into_iter().map(|warning| warning.place).collect::<Vec<_>>()
    };
    assert_eq!(place(&[("AGENT_MODEL", "ollama:x")]), ["MANYCHAT_API_TOKEN"]);
    assert!(place(&[("AGENT_MODEL", "ollama:x"), ("PLAYGROUND", "true")]).is_empty());
    assert_eq!(place(&[LIVE, &[("MANYCHAT_REPLY_FLOW_NS", "")]].concat()), ["MANYCHAT_REPLY_FLOW_NS"]);
    assert_eq!(place(&[("MANYCHAT_TOKEN_FIELD", "ai_message")]), ["MANYCHAT_TOKEN_FIELD"]);
    assert_eq!(place(&[("AGENT_FALLBACK_MODEL", "mock:demo")]), ["AGENT_FALLBACK_MODEL"]);
    assert_eq!(
        place(&[("CONTACT_TOKENS_ENFORCED", "false"), ("NODE_ENV", "production")]),
        ["CONTACT_TOKENS_ENFORCED", "AGENT_MODEL"]
    );
}

/// ENV-32, DEC-6: what the offline set-up leaves behind is told as soon as real contacts are answered, and not before.
#[test]
fn what_is_left_of_the_offline_set_up_warns_once_there_is_a_key() {
    let offline =
        [("CONTACT_TOKENS_ENFORCED", "false"), ("PUBLIC_BASE_URL", "https://Agent.Example.com:443/base")];
    assert!(warnings(&offline).is_empty());
    let key = [("MANYCHAT_API_TOKEN", "planted"), ("MANYCHAT_REPLY_FLOW_NS", "f")];
    let found = warnings(&[&offline[..], &key].concat());
    let places: Vec<_> = found.iter().filter_map(|line| line.split(':').next()).collect();
    assert_eq!(places, ["NODE_ENV", "PUBLIC_BASE_URL", "CONTACT_TOKENS_ENFORCED"], "{found:?}");
    assert!(warnings(LIVE).is_empty(), "an address that only resembles the example is the tenant's own");
}

/// CLI-62, DEC-2: an embedded server that was asked for boots in production, and is most likely left over.
#[test]
fn an_embedded_database_warns_in_production_only() {
    for address in ["embedded", "embedded:.data/postgres", "pglite:data"] {
        let database = [("DATABASE_URL", address)];
        let found = warnings(&[LIVE, &database[..]].concat());
        assert!(
            found.len() == 1 && found[0].starts_with("DATABASE_URL: is the embedded"),
            "{address}: {found:?}"
        );
        assert!(warnings(&database).is_empty(), "{address}");
    }
}

/// ENV-15, ENV-26: what is more than a base warns, for it boots (05 section 2.2), and is not repeated.
#[test]
fn a_public_address_that_is_more_than_a_base_warns() {
    for (address, word) in [
        ("https://a.test/v1/channels/manychat/message", "appended to it"),
        ("https://a.test/base/v1/channels/manychat/message/", "appended to it"),
        ("https://a.test/?planted=1", "no path"),
        ("https://a.test/#planted", "no path"),
        ("https://planted:planted@a.test", "a password"),
        ("https://planted@a.test/base", "a password"),
    ] {
        let found = warnings(&[("PUBLIC_BASE_URL", address)]);
        assert_eq!(found.len(), 1, "{address}: {found:?}");
        assert!(found[0].starts_with("PUBLIC_BASE_URL: ") && found[0].contains(word), "{address}: {found:?}");
        assert!(!found[0].contains("planted"), "{address}: {found:?}");
    }
    assert!(warnings(&[("PUBLIC_BASE_URL", "https://a.test:8443/v1/channels/")]).is_empty());
}

/// DEC-21: a deadline that ManyChat does not wait for warns.
#[test]
fn a_deadline_beyond_manychats_warns() {
    let found = |value: &str| warnings(&[("RACE_DEADLINE_MS", value)]);
    assert!(found("9500").is_empty());
    for value in ["9501", "10000", "20000"] {
        let found = found(value);
        assert!(
            found.len() == 1 && found[0].starts_with(&format!("RACE_DEADLINE_MS: is {value}: ")),
            "{found:?}"
        );
    }
}

/// DEC-14: two doors, two keys. The value is not repeated.
#[test]
fn an_admin_token_that_is_a_shared_secret_warns() {
    let found = |token: &str| {
        warnings(&[
            ("MANYCHAT_SHARED_SECRET", "planted-secret-one,planted-secret-two"),
            ("ADMIN_TOKEN", token),
        ])
    };
    let same = found("planted-secret-two");
    assert!(
        same.len() == 1 && same[0].starts_with("ADMIN_TOKEN: is also in MANYCHAT_SHARED_SECRET"),
        "{same:?}"
    );
    assert!(!same[0].contains("planted"), "{same:?}");
    assert!(found("planted-secret-three").is_empty());
}

/// USE-6
#[test]
fn pricing_overrides_are_rows_of_prices() {
    let row = r#"{"openai:gpt-5-mini": {"input": 0.25, "output": 2, "cacheRead": 0}}"#;
    assert!(settings(&[("PRICING_OVERRIDES", row)]).model.pricing_overrides.is_some());
    let row = r#"{"openai:gpt-5-mini": {"input": 0.25, "output": 2, "cacheRead": 0, "cacheWrite": 0.3}}"#;
    assert!(settings(&[("PRICING_OVERRIDES", row)]).model.pricing_overrides.is_some());
    for (value, word) in [
        ("{", "not valid JSON"),
        ("[]", "must be an object"),
        (r#"{"openai:x": {"input": 1, "output": 2}}"#, "openai:x.cacheRead"),
        (r#"{"openai:x": {"input": -1, "output": 2, "cacheRead": 0}}"#, "openai:x.input"),
        (r#"{"openai:x": {"input": "1", "output": 2, "cacheRead": 0}}"#, "openai:x.input"),
        (r#"{"openai:x": {"input": 1, "output": 2, "cacheRead": 0, "cache": 0}}"#, "openai:x.cache"),
        (
            r#"{"openai:x": {"input": 1, "output": 2, "cacheRead": 0, "cacheWrite": -1}}"#,
            "openai:x.cacheWrite",
        ),
        (r#"{"gpt": {"input": 1, "output": 2, "cacheRead": 0}}"#, "provider:model"),
        (r#"{"openai:x": 5}"#, "openai:x"),
    ] {
        let message = refusal(&[("PRICING_OVERRIDES", value)]);
        assert!(names(&message, "PRICING_OVERRIDES") && message.contains(word), "{message}");
        assert_eq!(message.lines().count(), 3, "one line for each variable: {message}");
    }
}

/// 05 section 2.2, ASSERT-9: evaluation variables stop the evaluation and not the boot.
#[test]
fn evaluation_variables_are_strict_only_for_the_evaluation() {
    for value in ["", "0", "soon", "1.5"] {
        let vars = vars(&[("EVAL_MAX_LATENCY_MS", Some(value))]);
        let (settings, warnings) = Settings::from_vars(&vars).unwrap();
        let is_told = warnings.iter().any(|warning| warning.to_string().contains("EVAL_MAX_LATENCY_MS"));
        assert_eq!(is_told, !value.is_empty(), "{value}: {warnings:?}");
        let message = EvalSettings::from_vars(&vars, &settings).unwrap_err().to_string();
        assert!(names(&message, "EVAL_MAX_LATENCY_MS"), "{message}");
    }
    let vars = vars(&[("EVAL_MAX_LATENCY_MS", Some("20000")), ("EVAL_JUDGE_MODEL", Some("mock:judge"))]);
    let (settings, warnings) = Settings::from_vars(&vars).unwrap();
    assert!(warnings.is_empty());
    let evaluation = EvalSettings::from_vars(&vars, &settings).unwrap();
    assert_eq!(evaluation.max_latency, Duration::from_secs(20));
    assert_eq!(evaluation.judge.unwrap().as_string(), "mock:judge");
    assert_eq!(evaluation.max_p95, None);
}

/// DEC-6: what is left over from development warns in production, and only there.
#[test]
fn leftovers_of_development_warn_in_production() {
    for (name, value) in [
        ("AGENT_MODEL", "mock:demo"),
        ("MANYCHAT_API_BASE", "http://manychat.example:8080"),
        ("TRUST_PROXY", "loopback, 0.0.0.0/0"),
        ("TRUST_PROXY", "::/0"),
        ("TRUST_PROXY", "0.0.0.0/1,128.0.0.0/1"),
    ] {
        let places = |env: &str| {
            let all = [LIVE, &[(name, value), ("NODE_ENV", env)]].concat();
            boot(&all).1.into_iter().map(|warning| warning.place).collect::<Vec<_>>()
        };
        assert_eq!(places("production"), [name], "{value}");
        assert_eq!(places("development"), ["NODE_ENV"], "{value}: only that a key is set in development");
    }
    for near in ["http://127.0.0.1:9", "http://localhost:9", "http://[::1]:9", "https://manychat.example"] {
        let all = [LIVE, &[("MANYCHAT_API_BASE", near)]].concat();
        assert!(warnings(&all).is_empty(), "{near}");
    }
}

/// CLI-7: a tenant's name has no line end and no escape.
#[test]
fn a_tenant_with_control_characters_is_refused() {
    for value in ["a\nb", "\u{1b}[31mred", "\u{85}"] {
        assert!(names(&refusal(&[("TENANT_ID", value)]), "TENANT_ID"), "{value:?}");
    }
}
