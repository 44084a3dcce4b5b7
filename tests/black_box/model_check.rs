//! `agent model check`, against all four providers.

use std::collections::BTreeMap;

use crate::app::{Ended, Folder, NOWHERE, command, tenant_folder};
use crate::stub_providers::{KEY, REFUSAL, StubProviders};

const MODELS: [&str; 4] =
    ["anthropic:claude-haiku-4-5", "openai:gpt-4o-mini", "google:gemini-3-flash", "ollama:llama3.1:8b"];

fn prepared(stub: &StubProviders, key: &str, models: &[(&str, &str)]) -> (Folder, BTreeMap<String, String>) {
    let (folder, mut env) = tenant_folder(NOWHERE, None);
    env.extend(stub.variables(key));
    env.extend(models.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
    (folder, env)
}

/// Commands block their thread; the stub needs it.
async fn check(folder: Folder, env: BTreeMap<String, String>, more: &'static [&'static str]) -> Ended {
    let words: Vec<&str> = ["model", "check"].iter().chain(more).copied().collect();
    tokio::task::spawn_blocking(move || command(&folder.path, &env, &words)).await.unwrap()
}

/// The lines below a model's own.
fn lines_of<'a>(stdout: &'a str, model: &str) -> Vec<&'a str> {
    let mut lines = stdout.lines().skip_while(|line| !line.starts_with(model));
    assert!(lines.next().is_some(), "{model} in {stdout}");
    lines.take_while(|line| line.starts_with(' ')).collect()
}

/// PROV-2, DEC-10, CLI-6: every provider replies, calls a tool and replies to its result, those with eyes look at a
/// picture; each line tells tokens, cost and time. Neither database nor ManyChat nor the tenant's files are needed, and
/// what is wrong with their variables is no matter.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_check_passes_at_every_provider() {
    let stub = StubProviders::start();
    let named = [("AGENT_MODEL", MODELS[0]), ("AGENT_FALLBACK_MODEL", MODELS[1])];
    let (folder, mut env) = prepared(&stub, KEY, &named);
    std::fs::remove_dir_all(folder.path.join("config")).unwrap();
    for name in ["PUBLIC_BASE_URL", "MANYCHAT_SHARED_SECRET"] {
        assert!(env.remove(name).is_some(), "{name}");
    }
    env.insert("DATABASE_URL".to_owned(), "nonsense".to_owned());
    let more = &["--model", MODELS[2], "--model", MODELS[3], "--model", MODELS[0]];
    let ended = check(folder, env, more).await;
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""), "{}", ended.stdout);
    for model in MODELS {
        let lines = lines_of(&ended.stdout, model);
        assert_eq!(lines.len(), 4, "{model}: {lines:?}");
        assert!(lines[0].contains("reply    pass     tokens 20 in (0 cached), 10 out; $"), "{lines:?}");
        assert!(lines[1].contains("tool     pass") && lines[1].ends_with(" ms"), "{lines:?}");
        let eyes = if model.starts_with("ollama") { "picture  skipped" } else { "picture  pass" };
        assert!(lines[2].contains("result   pass     tokens 20 in"), "{lines:?}");
        assert!(lines[3].contains(eyes), "{lines:?}");
    }
    assert_eq!(ended.stdout.matches(MODELS[0]).count(), 1, "a model is checked once: {}", ended.stdout);
    assert_eq!(stub.asked().len(), 15);
    assert!(ended.stdout.ends_with("model check passed\n"));
}

/// ENV-26, CLI-6, CLI-9: a refusal is told in the provider's own words, without the key; exit 1.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wrong_key_is_told_in_the_providers_words() {
    let stub = StubProviders::start();
    for model in &MODELS[..3] {
        let (folder, env) = prepared(&stub, "wrong-key-9876543210", &[("AGENT_MODEL", model)]);
        let ended = check(folder, env, &[]).await;
        assert_eq!(ended.code, Some(1), "{}", ended.stdout);
        assert!(ended.stdout.contains("reply    FAIL     provider_status_401: "), "{}", ended.stdout);
        assert!(ended.stdout.contains(&format!("the provider says: {REFUSAL}: [key]")), "{}", ended.stdout);
        assert!(ended.stderr.contains("model check failed: 3"), "{}", ended.stderr);
        let printed = format!("{}{}", ended.stdout, ended.stderr);
        assert!(!printed.contains("wrong-key") && !printed.contains("9876543210"), "{printed}");
    }
}

/// FAIL-2, PROV-3, CLI-6: a provider that is not there; a name that is none is wrong use, and is told where it stands.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_there_and_no_name_are_told() {
    let stub = StubProviders::start();
    let (folder, mut env) = prepared(&stub, KEY, &[("AGENT_MODEL", "openai:gpt-4o-mini")]);
    env.insert("OPENAI_BASE_URL".to_owned(), "http://127.0.0.1:1/v1".to_owned());
    let ended = check(folder, env, &[]).await;
    assert_eq!(ended.code, Some(1));
    assert!(ended.stdout.contains("FAIL     provider_unreachable: "), "{}", ended.stdout);
    assert!(ended.stdout.contains("the connection failed: Connection refused"), "{}", ended.stdout);
    let wrong: [&'static [&'static str]; 2] = [&["--model", "nobody"], &["--model", "nope:x"]];
    for more in wrong {
        let (folder, env) = prepared(&stub, KEY, &[]);
        let ended = check(folder, env, more).await;
        assert_eq!(ended.code, Some(2), "{}", ended.stderr);
        assert!(
            ended.stderr.contains("--model") && !ended.stderr.contains("AGENT_MODEL"),
            "{}",
            ended.stderr
        );
    }
    let (folder, env) = prepared(&stub, KEY, &[("AGENT_FALLBACK_MODEL", "nope:x")]);
    let ended = check(folder, env, &[]).await;
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    assert!(ended.stderr.contains("AGENT_FALLBACK_MODEL: `nope:x`"), "PROV-3: {}", ended.stderr);
    assert!(!ended.stderr.contains("AGENT_MODEL"), "{}", ended.stderr);
    let (folder, env) = prepared(&stub, KEY, &[]);
    let ended = check(folder, env, &[]).await;
    assert_eq!(ended.code, Some(0), "the mock needs nobody: {}", ended.stdout);
}
