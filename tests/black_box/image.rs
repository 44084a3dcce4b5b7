//! The files an operator deploys with: what the Dockerfile and the Compose file must say (06 section 8).

use std::fs;
use std::path::Path;

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
            "RUN scripts/build-dist",
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
