//! The files an operator deploys with: what the Dockerfile and the Compose file must say (06 section 8).

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::app::{Setup, TestApp, command};

fn read(name: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(name)).unwrap()
}

#[track_caller]
fn assert_holds(text: &str, lines: &[&str]) {
    for line in lines {
        assert!(text.lines().any(|found| found.trim() == *line), "{line} in {text}");
    }
}

/// IMG-1 to IMG-6: two stages, an unprivileged user, an init, the binary as its own health check.
#[test]
fn the_image_is_built_as_documented() {
    let dockerfile = read("Dockerfile");
    assert_eq!(dockerfile.lines().filter(|line| line.starts_with("FROM ")).count(), 2);
    let copied: Vec<&str> = dockerfile.lines().filter(|line| line.starts_with("COPY --from=build")).collect();
    assert_eq!(copied, ["COPY --from=build /build/target/dist/agent /usr/local/bin/agent"]);
    assert_holds(
        &dockerfile,
        &[
            "RUN scripts/build-dist && scripts/no-crash-points target/dist/agent",
            "WORKDIR /app",
            "USER 10001:10001",
            "ENV NODE_ENV=production",
            "EXPOSE 3000",
            "HEALTHCHECK --interval=30s --timeout=3s --start-period=10s --retries=3 CMD [\"agent\", \"health\"]",
            "ENTRYPOINT [\"/usr/bin/tini\", \"--\"]",
            "CMD [\"agent\", \"serve\"]",
        ],
    );
    assert!(!dockerfile.contains("latest"), "IMG-7");
}

/// IMG-20 to IMG-22, RLD-13, ARC-49: the services, and time enough for an orderly end.
#[test]
fn the_compose_file_is_as_documented() {
    let compose = read("docker-compose.yml");
    let (postgres, rest) = compose.split_once("\n  agent:\n").unwrap();
    let (agent, ollama) = rest.split_once("\n  ollama:\n").unwrap();
    let healthy = "test: [\"CMD-SHELL\", \"pg_isready -U agent\"]";
    assert_holds(
        postgres,
        &[
            "image: postgres:18-alpine",
            "- pgdata:/var/lib/postgresql",
            healthy,
            "interval: 5s",
            "timeout: 3s",
            "retries: 10",
            "- \"127.0.0.1:5432:5432\"",
        ],
    );
    assert_holds(
        agent,
        &[
            "condition: service_healthy",
            "env_file: .env",
            // Over the NODE_ENV that an offline .env holds.
            "NODE_ENV: production",
            "DATABASE_URL: postgres://agent:agent@postgres:5432/agent",
            "OLLAMA_BASE_URL: http://ollama:11434/v1",
            "PORT: \"3000\"",
            "- ./config:/app/config:ro",
            "restart: unless-stopped",
            "test: [\"CMD\", \"agent\", \"health\"]",
            "stop_grace_period: 65s",
        ],
    );
    let other = [
        "- \"127.0.0.1:11434:11434\"",
        "profiles: [\"local-model\"]",
        "image: ollama/ollama",
        "- ollama:/root/.ollama",
        "retries: 12",
    ];
    assert_holds(ollama, &other);
}

/// Variables of a `.env` file as Compose reads them.
fn variables(text: &str) -> BTreeMap<String, String> {
    let lines = text.lines().map(str::trim).filter(|line| !line.starts_with('#'));
    lines
        .filter_map(|line| line.split_once('='))
        .map(|(name, value)| (name.to_owned(), value.trim_matches('"').to_owned()))
        .collect()
}

/// What the Compose file sets for the service over its `.env`.
fn overrides() -> BTreeMap<String, String> {
    let compose = read("docker-compose.yml");
    let (_, agent) = compose.split_once("\n  agent:\n").unwrap();
    let (_, set) = agent.split_once("\n    environment:\n").unwrap();
    let lines = set.lines().take_while(|line| line.starts_with("      "));
    lines
        .map(|line| line.trim().split_once(": ").unwrap())
        .map(|(name, value)| (name.to_owned(), value.trim_matches('"').to_owned()))
        .collect()
}

/// All files below a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() { found.extend(files(&path)) } else { found.push(path) }
    }
    found.sort();
    found
}

/// A fresh clone after bootstrapping, with the environment that Compose gives the container; only the database and the
/// port are others.
async fn composed() -> TestApp {
    let mut app = Setup::default().prepare().await;
    let folder = app.folder.path.clone();
    fs::remove_dir_all(folder.join("config")).unwrap();
    let path = BTreeMap::from([("PATH".to_owned(), std::env::var("PATH").unwrap_or_default())]);
    let bootstrapped = command(&folder, &path, &["bootstrap"]);
    assert_eq!(bootstrapped.code, Some(0), "{}", bootstrapped.stderr);
    let mut env = path;
    env.extend(variables(&fs::read_to_string(folder.join(".env")).unwrap()));
    // The image has no .env: Compose hands its lines over.
    fs::remove_file(folder.join(".env")).unwrap();
    let overrides = overrides();
    assert!(["NODE_ENV", "DATABASE_URL", "PORT"].iter().all(|name| overrides.contains_key(*name)));
    env.extend(overrides);
    for name in ["DATABASE_URL", "PORT"] {
        env.insert(name.to_owned(), app.env[name].clone());
    }
    app.env = env;
    app
}

/// IMG-23: the first request is answered, with the mock model and no key. IMG-8: the service writes no file of its own, so
/// that a read-only file system does.
#[tokio::test]
async fn a_fresh_clone_answers_as_composed_and_writes_no_file() {
    let mut app = composed().await;
    let temporary = app.folder.path.join("tmp");
    fs::create_dir(&temporary).unwrap();
    app.env.insert("TMPDIR".to_owned(), temporary.display().to_string());
    let before = files(&app.folder.path);
    app.launch().await;
    let secret: &'static str = app.env["MANYCHAT_SHARED_SECRET"].clone().leak();
    let body = r#"{"subscriber_id":"70010001","text":"hello, what do you offer?"}"#;
    let answer = app.post(body, Some(secret)).await;
    assert_eq!((answer.status, answer.texts().len()), (200, 1), "{}\n{}", answer.body, app.output());
    assert_ne!(answer.texts()[0], app.copy("escalation"), "the model was not asked");
    assert!(!app.env.keys().any(|name| name.ends_with("_API_KEY") && !app.env[name].is_empty()));
    assert_eq!(app.stop(libc::SIGTERM).await.code(), Some(0));
    let logs = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        name.starts_with("stdout-") || name.starts_with("stderr-")
    };
    let written: Vec<PathBuf> =
        files(&app.folder.path).into_iter().filter(|path| !before.contains(path) && !logs(path)).collect();
    assert!(written.is_empty(), "{written:?}");
}
