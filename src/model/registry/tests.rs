use std::path::Path;

use serde_json::json;

use super::test_support::{Act, FakeProvider, answer, calling, install_tls_provider, replied, reply_object};
use super::*;
use crate::config::Tenant;
use crate::domain::{ContactText, Provider};
use crate::model::prompt::SystemPrompt;
use crate::model::runner::{TurnInput, TurnResult};
use crate::model::spent::Spent;
use crate::model::test_support::{settings, shop, tenant, tools_of};
use crate::tools::FlowMode;

const PROVIDERS: [Provider; 4] = [Provider::Anthropic, Provider::OpenAi, Provider::Google, Provider::Ollama];

/// PROV-2: a mock model of any name is resolved, without a TLS provider.
#[test]
fn the_mock_model_is_resolved() {
    for name in ["demo", "slow", "any-thing.1"] {
        assert!(resolve(&settings(Provider::Mock, name)).is_ok(), "{name}");
    }
}

/// PROV-2, PROV-4, ENV-11: a model without a key does not stop the boot, neither as the fallback (DEC-10).
#[test]
fn every_provider_is_resolved_without_a_key() {
    install_tls_provider();
    for provider in PROVIDERS {
        assert!(resolve(&settings(provider, "some-model")).is_ok(), "{provider}");
        let mut both = settings(Provider::Mock, "demo");
        both.fallback = Some(ModelName { provider, model: "some-model".to_owned() });
        assert!(resolve(&both).is_ok(), "{provider}");
    }
}

/// MEDIA-504: the mock looks at pictures too.
#[test]
fn the_mock_takes_pictures() {
    for (provider, expected) in
        [(Provider::Mock, true), (Provider::Anthropic, true), (Provider::Ollama, false)]
    {
        assert_eq!(takes_images(&ModelName { provider, model: "any".to_owned() }), expected, "{provider}");
    }
}

/// ENV-11: a key that no header can carry would fail on every call for a reason that nobody finds.
#[test]
fn a_key_that_cannot_be_sent_is_named() {
    install_tls_provider();
    let mut broken = settings(Provider::Google, "some-model");
    broken.google_key = Some(Redacted::new("key\nsecond line".to_owned()));
    let refusal = resolve(&broken).unwrap_err().to_string();
    assert!(refusal.starts_with("GOOGLE_GENERATIVE_AI_API_KEY "), "{refusal}");
    assert!(!refusal.contains("second line"), "{refusal}");
}

/// Settings whose providers are all played by `fake`.
fn settings_at(fake: &FakeProvider, provider: Provider, model: &str) -> ModelSettings {
    let key = |name: &str| Some(Redacted::new(name.to_owned()));
    ModelSettings {
        anthropic_key: key("key-of-anthropic"),
        openai_key: key("key-of-openai"),
        google_key: key("key-of-google"),
        anthropic_base_url: fake.url("/anthropic/v1"),
        openai_base_url: fake.url("/openai/v1"),
        google_base_url: fake.url("/google/v1beta"),
        ollama_base_url: fake.url("/ollama/v1"),
        ..settings(provider, model)
    }
}

fn input_of(tenant: Arc<Tenant>) -> TurnInput {
    TurnInput {
        system: SystemPrompt::build(&tenant),
        tenant,
        state_lines: Vec::new(),
        texts: vec![ContactText::new("and which days?")],
        history: Vec::new(),
        tools: None,
        spent: Spent::default(),
    }
}

async fn run(settings: &ModelSettings) -> TurnResult {
    resolve(settings).unwrap().run(input_of(Arc::new(tenant()))).await
}

/// PROV-3, PROV-5, PROV-6, PROV-9: each provider at its own address with its own key, up to the checked reply.
#[tokio::test]
async fn a_turn_runs_on_every_provider() {
    let cases = [
        (Provider::Anthropic, Wire::Anthropic, "/anthropic/v1/messages", "x-api-key", "key-of-anthropic"),
        (
            Provider::OpenAi,
            Wire::OpenAi,
            "/openai/v1/chat/completions",
            "authorization",
            "Bearer key-of-openai",
        ),
        (
            Provider::Google,
            Wire::Google,
            "/google/v1beta/models/some-model:generateContent",
            "x-goog-api-key",
            "key-of-google",
        ),
        (Provider::Ollama, Wire::Ollama, "/ollama/v1/chat/completions", "authorization", "Bearer ollama"),
    ];
    for (provider, wire, path, header, key) in cases {
        let fake = FakeProvider::start(vec![answer(200, &replied(wire, &reply_object().to_string()))]).await;
        let result = run(&settings_at(&fake, provider, "some-model")).await;
        assert_eq!((result.reply.text().as_str(), result.error), ("On Mondays.", None), "{provider}");
        assert_eq!(result.model, format!("{provider}:some-model"));
        let asked = fake.asked();
        assert_eq!((asked.len(), asked[0].path.as_str()), (1, path));
        assert_eq!(asked[0].headers[header], key);
    }
}

/// ENV-11: without a key the call is made, and it is the provider who refuses it.
#[tokio::test]
async fn a_call_without_a_key_fails_like_any_other() {
    let fake = FakeProvider::start(vec![answer(401, &json!({}))]).await;
    let mut settings = settings_at(&fake, Provider::OpenAi, "some-model");
    settings.openai_key = None;
    let result = run(&settings).await;
    assert_eq!(result.error.as_deref(), Some("provider_status_401"));
    assert_eq!(fake.asked()[0].headers["authorization"].trim(), "Bearer");
}

/// DEC-10, PROV-9, 01/RUN-16: the second model answers and is recorded, with its own prices.
#[tokio::test]
async fn the_fallback_answers_when_the_first_model_is_down() {
    let quota = Act::Answer { status: 429, headers: "x-should-retry: false\r\n", body: "{}".to_owned() };
    let good = answer(200, &replied(Wire::Anthropic, &reply_object().to_string()));
    let fake = FakeProvider::start(vec![quota, good]).await;
    let mut settings = settings_at(&fake, Provider::OpenAi, "gpt-5-mini");
    settings.fallback =
        Some(ModelName { provider: Provider::Anthropic, model: "claude-haiku-4-5".to_owned() });
    let result = run(&settings).await;
    assert_eq!((result.model.as_str(), result.error), ("anthropic:claude-haiku-4-5", None));
    assert_eq!(
        result.cost.get().normalize().to_string(),
        "0.000892",
        "USE-2, with 50 tokens written to the cache"
    );
    let asked = fake.asked();
    let temperatures: Vec<bool> = asked.iter().map(|asked| asked.body.get("temperature").is_some()).collect();
    assert_eq!(temperatures, [false, true], "RUN-10 holds for each model by itself");
}

/// 01/RUN-4, 01/RUN-13, LOOP-4: a turn acts on every provider, and aborting it in its second step closes the connection.
#[tokio::test]
async fn a_turn_that_acts_can_be_aborted_on_every_provider() {
    let cases = [
        (Provider::Anthropic, Wire::Anthropic),
        (Provider::OpenAi, Wire::OpenAi),
        (Provider::Google, Wire::Google),
        (Provider::Ollama, Wire::Ollama),
    ];
    for (provider, wire) in cases {
        let called = calling(wire, &[("add_tag", json!({ "tag": "likes_glaze" }))]);
        let fake = FakeProvider::start(vec![answer(200, &called), Act::Hang]).await;
        let tenant = Arc::new(shop());
        let tools = tools_of(&tenant, FlowMode::Staged);
        let input = TurnInput { tools: Some(Arc::clone(&tools)), ..input_of(tenant) };
        let spent = input.spent.clone();
        let runner = resolve(&settings_at(&fake, provider, "some-model")).unwrap();
        let turn = runner.run(input);
        let second_step = async {
            while fake.asked().len() < 2 {
                tokio::task::yield_now().await;
            }
        };
        tokio::select! {
            _ = turn => panic!("the provider hangs"),
            () = second_step => {}
        }
        fake.caller_left().await;
        assert_eq!(tools.summary().staged, ["add_tag likes_glaze"], "{provider}");
        assert_eq!(spent.bill().usage.input, Some(2000), "{provider}");
        assert!(fake.asked()[1].body.to_string().contains("staged"), "{provider}");
    }
}

/// PRIN-C2: nothing but the registry imports genai.
#[test]
fn only_the_registry_knows_genai() {
    let mut files = Vec::new();
    collect(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut files);
    assert!(files.len() > 50, "the sources were found");
    for file in files {
        let name = file.to_string_lossy();
        let text = std::fs::read_to_string(&file).unwrap();
        if !name.contains("/model/registry") {
            assert!(!text.contains("genai::"), "{name} imports genai");
        }
    }
}

fn collect(folder: &Path, files: &mut Vec<std::path::PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
}
