use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;

use super::*;
use crate::config::Warning;
use crate::config::test_dir::TestDir;
use crate::config::{DatabaseUrl, Settings};

fn outcomes(reports: &[FileReport]) -> Vec<(&str, FileOutcome)> {
    reports.iter().map(|report| (report.path.to_str().unwrap(), report.outcome)).collect()
}

fn env_of(dir: &TestDir) -> BTreeMap<String, String> {
    crate::config::env_file::merged(&dir.path().join(".env"), Vec::new()).unwrap().variables
}

/// CLI-96, DEMO-2: a fresh directory gets three tenant files and a `.env`, and no tools.
#[test]
fn a_fresh_directory_gets_the_demo_tenant() {
    let dir = TestDir::new();
    let reports = write_missing(dir.path(), Path::new("config")).unwrap();
    let created: Vec<_> = ["config/prompt.md", "config/catalog.json", "config/rules.json", ".env"]
        .map(|path| (path, FileOutcome::Created))
        .to_vec();
    assert_eq!(outcomes(&reports), created);
    assert_eq!(reports[3].to_string(), "created  .env");
    assert_eq!(dir.read("config/catalog.json"), CATALOG);
    assert!(!dir.path().join("config/tools.json").exists());
    let (tenant, warnings) = Tenant::load(&dir.path().join("config"), &ReservedNames::default()).unwrap();
    assert_eq!((tenant.tools, warnings), (None, Vec::new()), "PRM-3");
}

/// Whether it only says that a later version carries the entry out.
fn waits(warning: &Warning) -> bool {
    warning.text.contains(" yet: ")
}

/// DEMO-2, DEMO-4: tools are written when they are asked for; the demo tenant has them without a fault, and no warning but that some of
/// them wait for a later version.
#[test]
fn tools_come_when_they_are_asked_for() {
    let dir = TestDir::new();
    write_missing(dir.path(), Path::new("config")).unwrap();
    assert_eq!(
        write_missing_tools(dir.path(), Path::new("config")).unwrap().to_string(),
        "created  config/tools.json"
    );
    let (tenant, warnings) = Tenant::load(&dir.path().join("config"), &ReservedNames::default()).unwrap();
    assert!(tenant.tools.is_some_and(|tools| tools.offers_any()));
    assert!(warnings.iter().all(waits), "{warnings:?}");
    dir.write("config/tools.json", "{}");
    assert_eq!(write_missing_tools(dir.path(), Path::new("config")).unwrap().outcome, FileOutcome::Kept);
    assert_eq!(dir.read("config/tools.json"), "{}");
}

/// CLI-96: what exists is kept, byte for byte.
#[test]
fn nothing_is_overwritten() {
    let dir = TestDir::new();
    dir.write(".env", "PORT=1\n");
    std::fs::create_dir(dir.path().join("config")).unwrap();
    dir.write("config/rules.json", "mine");
    let reports = write_missing(dir.path(), Path::new("config")).unwrap();
    let kept: Vec<_> = reports.iter().filter(|report| report.outcome == FileOutcome::Kept).collect();
    assert_eq!(kept.len(), 2, "{reports:?}");
    assert_eq!((dir.read(".env").as_str(), dir.read("config/rules.json").as_str()), ("PORT=1\n", "mine"));
    assert_eq!(kept[1].to_string(), "kept     .env");
}

/// ENV-32, DEC-34: the offline `.env` boots without a key, a warning or a database elsewhere.
#[test]
fn the_offline_env_boots_without_a_warning() {
    let dir = TestDir::new();
    write_missing(dir.path(), Path::new("config")).unwrap();
    let (settings, warnings) = Settings::from_vars(&env_of(&dir)).unwrap();
    assert!(warnings.is_empty(), "{warnings:?}");
    assert_eq!(settings.model.agent.as_string(), "mock:demo");
    assert!(!settings.tokens_enforced);
    assert!(matches!(settings.database, DatabaseUrl::Embedded(path) if path == Path::new(".data/postgres")));
    let secret = settings.shared_secrets.iter().next().unwrap().to_owned();
    assert!(secret.len() == 64 && secret.bytes().all(|byte| byte.is_ascii_hexdigit()));
    let second = TestDir::new();
    write_missing(second.path(), Path::new("config")).unwrap();
    let (other, _) = Settings::from_vars(&env_of(&second)).unwrap();
    assert_ne!(other.shared_secrets.iter().next(), Some(secret.as_str()), "the secret is fresh each time");
}

/// The `.env` holds a secret, so only its owner may read it.
#[test]
fn the_env_is_readable_by_its_owner_only() {
    let dir = TestDir::new();
    write_missing(dir.path(), Path::new("config")).unwrap();
    let mode = std::fs::metadata(dir.path().join(".env")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

/// ENV-32: a source line that is gone is named; never a `.env` that needs a key by accident.
#[test]
fn a_line_that_is_gone_is_named() {
    for (line, _) in replacements("x") {
        let message = offline_env(&ENV_EXAMPLE.replace(line, "# gone"), "x").unwrap_err().to_string();
        assert!(message.contains(line), "{message}");
    }
    let similar = ENV_EXAMPLE.replace("\nAGENT_MODEL=anthropic", "\n#AGENT_MODEL=anthropic");
    assert!(matches!(offline_env(&similar, "x"), Err(DemoError::LineGone { .. })));
}

/// A path that cannot be written is named.
#[test]
fn a_path_that_cannot_be_written_is_named() {
    let dir = TestDir::new();
    dir.write("config", "a file, no directory");
    let message = write_missing(dir.path(), Path::new("config")).unwrap_err().to_string();
    assert!(message.contains("config cannot be written"), "{message}");
    assert!(!dir.path().join(".env").exists());
}

/// ENV-30, ENV-31: the lines of the example as the documents fix them.
#[test]
fn the_example_has_the_lines_of_the_documents() {
    for line in [
        "AGENT_MODEL=anthropic:claude-haiku-4-5",
        "MANYCHAT_SHARED_SECRET=change-me-to-a-long-random-string",
        "DATABASE_URL=postgres://agent:agent@localhost:5432/agent",
        "CONTACT_TOKENS_ENFORCED=true",
        "AGENT_MAX_OUTPUT_TOKENS=400",
        "AGENT_TEMPERATURE=0.3",
        "ANTHROPIC_API_KEY=",
        "CHANNEL=whatsapp",
        "PUBLIC_BASE_URL=https://agent.example.com",
        "MANYCHAT_API_TOKEN=",
        "MANYCHAT_API_BASE=https://api.manychat.com",
        "MANYCHAT_REPLY_FIELD=ai_message",
        "MANYCHAT_REPLY_FLOW_NS=",
        "MANYCHAT_TOKEN_FIELD=ai_token",
        "TENANT_ID=demo",
        "RACE_DEADLINE_MS=8000",
        "MODEL_ABORT_MS=30000",
        "NODE_ENV=development",
        "PORT=3000",
        "LOG_LEVEL=info",
    ] {
        assert_eq!(ENV_EXAMPLE.lines().filter(|candidate| *candidate == line).count(), 1, "{line}");
    }
    for line in ["# OPENAI_API_KEY=", "# GOOGLE_GENERATIVE_AI_API_KEY=", "# OLLAMA_BASE_URL="] {
        assert!(ENV_EXAMPLE.lines().any(|candidate| candidate.starts_with(line)), "{line}");
    }
}

/// DEMO-4: the four examples load with default reserved names; the only warning is PRM-3's about the hint (PRM-2), and the
/// demo tenant, where the hint is filled in, has none.
#[test]
fn the_demo_tenant_loads_without_a_warning() {
    let files = TenantFiles::given(PROMPT, CATALOG, RULES, Some(TOOLS));
    let (_, warnings) = files.check(&ReservedNames::default()).unwrap();
    let warnings: Vec<_> = warnings.iter().filter(|warning| !waits(warning)).collect();
    let places: Vec<_> = warnings.iter().map(|warning| warning.place.as_str()).collect();
    assert_eq!(places, ["prompt.md"], "{warnings:?}");
    assert!(warnings[0].text.contains("{{"));
    let files = TenantFiles::given(&prompt(), CATALOG, RULES, Some(TOOLS));
    let (tenant, warnings) = files.check(&ReservedNames::default()).unwrap();
    assert!(warnings.iter().all(waits), "{warnings:?}");
    assert!(tenant.prompt.contains(&tenant.catalog.business_name));
    assert_eq!(self::tenant().unwrap(), tenant);
}

/// DEMO-1: every address of the demo tenant is on a domain that belongs to nobody.
#[test]
fn the_demo_tenant_names_example_domains_only() {
    let addresses: Vec<&str> =
        [PROMPT, CATALOG, RULES, TOOLS].iter().flat_map(|text| text.split("://").skip(1)).collect();
    assert!(!addresses.is_empty());
    for address in addresses {
        let host = address.split(['/', '"', ' ', '\n']).next().unwrap();
        assert!(host.ends_with(".example") || host.ends_with("example.com"), "{host}");
    }
}

/// DEMO-3: the ids and facts that the mock model and the golden suite name.
#[test]
fn the_demo_tenant_has_the_ids_and_facts_others_rely_on() {
    let tenant = tenant().unwrap();
    let tools = tenant.tools.unwrap();
    let offerings: Vec<_> = tenant.catalog.offerings.iter().map(|offering| offering.id.as_str()).collect();
    assert_eq!(offerings, ["foundation", "advanced", "weekend-intensive"]);
    for id in [
        "foundation_brochure",
        "advanced_brochure",
        "intensive_brochure",
        "student_results",
        "fitting_it_in",
        "enrolment_link",
    ] {
        assert!(tools.flows.iter().any(|flow| flow.id == id), "{id}");
    }
    for id in ["intent", "funnel_stage", "course"] {
        assert!(tools.fields.iter().any(|field| field.id == id), "{id}");
    }
    let foundation = &tenant.catalog.offerings[0];
    assert_eq!((foundation.price.amount.get(), foundation.duration_hours), (45_000, Some(24.0)));
    assert_eq!(foundation.schedule.as_deref(), Some("Tuesdays and Thursdays, 6-9pm, for 4 weeks"));
    assert_eq!(tenant.catalog.business_name, "Larkspur Woodshop");
}
