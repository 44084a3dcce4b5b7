//! Where configuration comes from, what a reload reaches, and what is refused before anything starts (05).

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::app::{NOWHERE, SECRET, Setup, TestApp, command, tenant_folder, write_tools};
use crate::quoting_server::QuotingServer;
use crate::stub_manychat::{GET_FIELDS, GET_FLOWS, GET_TAGS, StubManyChat};

/// The lines of a `.env` with these variables.
fn write_dot_env(folder: &Path, variables: &BTreeMap<String, String>) {
    let lines: String = variables.iter().map(|(name, value)| format!("{name}='{value}'\n")).collect();
    fs::write(folder.join(".env"), format!("# a comment\n\n{lines}SOMEBODY_ELSES=x\n")).unwrap();
}

/// CFG-1, CFG-2, CLI-4: `config` of the working directory, or what CONFIG_DIR names, for every command.
#[test]
fn every_command_reads_the_same_directory() {
    let (folder, mut env) = tenant_folder(NOWHERE, None);
    env.remove("CONFIG_DIR");
    let checked = command(&folder.path, &env, &["config", "check"]);
    assert_eq!((checked.code, checked.stdout.as_str()), (Some(0), "config check passed (config)\n"));
    env.insert("CONFIG_DIR".to_owned(), "elsewhere".to_owned());
    for words in [
        vec!["serve"],
        vec!["worker"],
        vec!["config", "check"],
        vec!["simulate", "hello"],
        vec!["tokens", "backfill", "--check"],
    ] {
        let ended = command(&folder.path, &env, &words);
        assert_eq!(ended.code, Some(1), "{words:?}");
        assert!(ended.stderr.starts_with("invalid config (elsewhere): "), "{words:?}: {}", ended.stderr);
    }
}

/// CFG-3, CFG-4, CFG-5, CLI-1: `.env` of the working directory is read first, and the environment wins over it.
#[test]
fn the_environment_wins_over_the_file() {
    let (folder, mut variables) = tenant_folder(NOWHERE, None);
    variables.remove("CONFIG_DIR");
    write_dot_env(&folder.path, &variables);
    let check = |env: &[(&str, &str)]| {
        let env = env.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        command(&folder.path, &env, &["config", "check"])
    };
    assert_eq!(check(&[]).code, Some(0), "{}", check(&[]).stderr);
    let wrong = check(&[("AGENT_MODEL", "nope")]);
    assert!(wrong.code == Some(1) && wrong.stderr.contains("AGENT_MODEL"), "{}", wrong.stderr);
    variables.insert("AGENT_MODEL".to_owned(), "nope".to_owned());
    write_dot_env(&folder.path, &variables);
    assert_eq!(check(&[]).code, Some(1));
    assert_eq!(check(&[("AGENT_MODEL", "mock:demo")]).code, Some(0));
}

/// CFG-5, DEC-1, ENV-26: what another service keeps in the same `.env` stops nothing; the check names the line.
#[test]
fn lines_of_somebody_else_are_skipped() {
    let (folder, variables) = tenant_folder(NOWHERE, None);
    write_dot_env(&folder.path, &variables);
    let path = folder.path.join(".env");
    let lines = fs::read_to_string(&path).unwrap();
    fs::write(&path, format!("MY-VAR=planted\nplanted\n{lines}")).unwrap();
    let checked = command(&folder.path, &BTreeMap::new(), &["config", "check"]);
    assert_eq!(checked.code, Some(0), "{}", checked.stderr);
    for line in ["warning: .env: line 1 is skipped: ", "warning: .env: line 2 is skipped: "] {
        assert!(checked.stderr.contains(line), "{}", checked.stderr);
    }
    assert!(!checked.stderr.contains("planted"), "{}", checked.stderr);
    assert_eq!(command(&folder.path, &BTreeMap::new(), &["config", "check", "--strict"]).code, Some(1));
}

/// ENV-1, CLI-4, ENV-26: an address of the database that cannot be used is one fault among the others, for every command.
#[test]
fn a_bad_database_address_is_told_with_the_other_faults() {
    let (folder, mut env) = tenant_folder("postgres://app:planted@db.example:port/agent", None);
    env.insert("PORT".to_owned(), "0".to_owned());
    for (url, reason) in [
        ("postgres://app:planted@db.example:port/agent", "is not a Postgres connection string"),
        ("postgres://app:planted@db.example/agent?sslmode=planted", "sslmode must be one of"),
        ("postgres://app:planted@db.example/agent?planted=1", "is not a Postgres connection string"),
    ] {
        env.insert("DATABASE_URL".to_owned(), url.to_owned());
        for words in [["serve"].as_slice(), &["worker"], &["config", "check"], &["outbox", "list"]] {
            let ended = command(&folder.path, &env, words);
            assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""), "{words:?}");
            let told = &ended.stderr;
            assert!(told.starts_with("invalid environment: 2 faults\n"), "{words:?}: {told}");
            assert!(
                told.contains("  PORT: ") && told.contains(&format!("  DATABASE_URL: {reason}")),
                "{told}"
            );
            assert!(told.contains(".env.example") && !told.contains("planted"), "{told}");
        }
    }
}

/// CFG-6, PRIN-C1, IMG-1: real tenant files and secrets are kept out of the repository and of the image.
#[test]
fn tenant_files_are_ignored() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let ignored = fs::read_to_string(root.join(".gitignore")).unwrap();
    for line in [".env", "/config/*", "!/config/*.example", "!/config/README.md"] {
        assert!(ignored.lines().any(|found| found == line), "{line}");
    }
    let unsent = fs::read_to_string(root.join(".dockerignore")).unwrap();
    for line in [".env", "config/*", "!config/*.example", "tests", ".git"] {
        assert!(unsent.lines().any(|found| found == line), "{line}");
    }
}

/// ENV-10, ENV-13, ENV-14, CLI-62, GAP-CFG-5, GAP-CLI-5: a wrong provider of any model stops the deploy, and the check finds it.
#[test]
fn every_model_is_resolved_before_the_start() {
    let (folder, sound) = tenant_folder(NOWHERE, None);
    for name in ["AGENT_MODEL", "AGENT_FALLBACK_MODEL", "TRANSCRIPTION_MODEL", "INSIGHT_MODEL"] {
        let mut env = sound.clone();
        env.insert(name.to_owned(), "nobody:model-1".to_owned());
        for words in [["config", "check"].as_slice(), &["serve"]] {
            let ended = command(&folder.path, &env, words);
            assert_eq!(ended.code, Some(1), "{name}");
            assert!(ended.stderr.contains(name) && ended.stderr.contains("nobody"), "{}", ended.stderr);
        }
    }
}

/// ENV-24, 05/CAP-3, AC-CH-6, OUT-5, ACC-ENV-4, ACC-ENV-9: an unknown channel, with those that are known, and an address
/// that is not https.
#[test]
fn a_channel_and_an_address_are_checked() {
    let (folder, sound) = tenant_folder(NOWHERE, None);
    for (name, value, words) in [
        ("CHANNEL", "signal", ["whatsapp", "instagram", "messenger", "telegram"].as_slice()),
        ("PUBLIC_BASE_URL", "http://agent.example", &["https://"]),
    ] {
        let mut env = sound.clone();
        env.insert(name.to_owned(), value.to_owned());
        let ended = command(&folder.path, &env, &["serve"]);
        assert_eq!(ended.code, Some(1));
        assert!(words.iter().chain([&name]).all(|word| ended.stderr.contains(word)), "{}", ended.stderr);
    }
}

/// CLI-7: the result on standard output, what is wrong or odd on standard error.
#[test]
fn results_and_problems_are_told_apart() {
    let (folder, env) =
        tenant_folder(NOWHERE, Some(|rules| rules["escalationKeywords"] = json!(["", "refund"])));
    let checked = command(&folder.path, &env, &["config", "check"]);
    assert_eq!((checked.code, checked.stdout.lines().count()), (Some(0), 1), "{}", checked.stdout);
    let warned = checked
        .stderr
        .lines()
        .any(|line| line.starts_with("warning: ") && line.contains("escalationKeywords"));
    assert!(warned, "RUL-6, GAP-CFG-11: {}", checked.stderr);
}

/// PLG-2, PLG-3, CLI-61: a plugin stops the boot and fails the check; a reload does not look at the file.
#[tokio::test]
async fn a_plugin_that_cannot_be_loaded_stops_the_boot() {
    let app = TestApp::start().await;
    fs::write(app.folder.path.join("config/plugins.json"), r#"{"plugins": ["agent-plugin-harbor-crm"]}"#)
        .unwrap();
    for words in [["config", "check"].as_slice(), &["serve"], &["worker"]] {
        let ended = command(&app.folder.path, &app.env, words);
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""), "{words:?}");
        assert!(
            ended.stderr.starts_with("invalid plugins (") && ended.stderr.contains("harbor-crm"),
            "{}",
            ended.stderr
        );
    }
    app.signal(libc::SIGHUP);
    app.log_line("config reloaded").await;
}

/// RLD-3, LOAD-1: a file that would block or never end is a failed reload, and the next signal is heard.
#[tokio::test]
async fn a_file_that_is_no_file_holds_no_reload_up() {
    let app = TestApp::start().await;
    let rules = app.folder.path.join("config/rules.json");
    let sound = fs::read(&rules).unwrap();
    fs::remove_file(&rules).unwrap();
    assert!(std::process::Command::new("mkfifo").arg(&rules).status().unwrap().success());
    app.signal(libc::SIGHUP);
    let line = app.log_line("config reload failed; keeping previous config").await;
    assert!(line["error"].as_str().unwrap().ends_with("it is not a regular file"), "{line}");
    let checked = command(&app.folder.path, &app.env, &["config", "check"]);
    assert!(checked.code == Some(1) && checked.stderr.contains("not a regular file"), "{}", checked.stderr);
    fs::remove_file(&rules).unwrap();
    fs::write(&rules, sound).unwrap();
    app.signal(libc::SIGHUP);
    app.log_line("config reloaded").await;
}

/// ENV-18, XCK-10, XCK-1, TCFG-2: a name that the service delivers with is refused as a tool's, at boot, in the check and by a
/// reload.
#[tokio::test]
async fn a_reserved_name_is_refused_everywhere() {
    let app = Setup::default().env("MANYCHAT_REPLY_FIELD", "sale_stage").start().await;
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("config/tools.json.example");
    fs::copy(example, app.folder.path.join("config/tools.json")).unwrap();
    for words in [["config", "check"].as_slice(), &["serve"], &["worker"]] {
        let ended = command(&app.folder.path, &app.env, words);
        assert_eq!(ended.code, Some(1), "{words:?}");
        assert!(
            ended.stderr.contains("tools.json") && ended.stderr.contains("MANYCHAT_REPLY_FIELD"),
            "{}",
            ended.stderr
        );
    }
    app.signal(libc::SIGHUP);
    let failed = app.log_line("config reload failed; keeping previous config").await;
    assert!(failed["error"].as_str().unwrap().contains("MANYCHAT_REPLY_FIELD"), "{failed}");
    let mut env = app.env.clone();
    env.remove("MANYCHAT_REPLY_FIELD");
    assert_eq!(
        command(&app.folder.path, &env, &["config", "check"]).code,
        Some(0),
        "another name of the field"
    );
}

fn edit(app: &TestApp, file: &str, change: impl FnOnce(&mut Value)) {
    let path = app.folder.path.join("config").join(file);
    let mut value: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    change(&mut value);
    fs::write(path, value.to_string()).unwrap();
}

/// CAT-6, RLD-1, RLD-7, RLD-10, OPS-4, CLI-23, ACC-RLD-1, PRM-2: a new price is an edit and a signal: it stands in what the
/// model reads next, in the process that got the signal.
#[tokio::test]
async fn a_new_price_needs_no_restart() {
    let models = [(); 2].map(|()| QuotingServer::start(&[400], ""));
    let with_model = |model: &QuotingServer| {
        let setup =
            Setup::default().env("AGENT_MODEL", "openai:gpt-5-mini").env("OPENAI_API_KEY", "test-key");
        setup.env("OPENAI_BASE_URL", format!("{}/v1", model.url()))
    };
    let app = with_model(&models[0]).start().await;
    let mut second = with_model(&models[1]).prepare().await;
    second.env.insert("CONFIG_DIR".to_owned(), app.folder.path.join("config").display().to_string());
    second.launch().await;
    app.send("how much is it?").await;
    edit(&app, "catalog.json", |catalog| catalog["offerings"][0]["price"]["amount"] = json!(47755));
    app.signal(libc::SIGHUP);
    app.log_line("config reloaded").await;
    app.send_as("1", "how much is it?").await;
    second.send("how much is it?").await;
    let told = models.each_ref().map(|model| {
        let prices = |prompt: &String| (prompt.contains("450.00"), prompt.contains("477.55"));
        let mut told: Vec<_> = model.requests().iter().map(prices).collect();
        // A refused call is tried once more.
        told.dedup();
        told
    });
    assert_eq!(told[0], [(true, false), (false, true)]);
    assert_eq!(told[1], [(true, false)], "each process reloads only itself");
    assert!(models[0].requests()[0].contains("{{businessName}}"), "the prompt goes as it is written");
    assert!(second.logs("config reloaded").is_empty());
}

/// ENV-8, RLD-9: the environment and `.env` are read once.
#[tokio::test]
async fn a_reload_leaves_the_environment_as_it_was() {
    let mut app = Setup::default().prepare().await;
    let base = app.env.remove("PUBLIC_BASE_URL").unwrap();
    let dot_env = app.folder.path.join(".env");
    fs::write(&dot_env, format!("PUBLIC_BASE_URL={base}\n")).unwrap();
    app.launch().await;
    fs::write(&dot_env, "PUBLIC_BASE_URL=https://other.test.example\nAGENT_MODEL=nope\n").unwrap();
    app.signal(libc::SIGHUP);
    app.log_line("config reloaded").await;
    let callback = app.send("hello").await.json()["content"]["external_message_callback"]["url"].clone();
    assert_eq!(callback, format!("{base}/v1/channels/manychat/message"));
}

/// RUL-3: a confidence below the threshold goes to a person.
#[tokio::test]
async fn the_threshold_decides_about_an_unsure_answer() {
    for (threshold, outcome) in [(0.0, "answered_inline"), (1.0, "escalated_model")] {
        let app = TestApp::start().await;
        edit(&app, "rules.json", |rules| rules["confidenceThreshold"] = json!(threshold));
        app.signal(libc::SIGHUP);
        app.log_line("config reloaded").await;
        app.send("how much is the foundation course?").await;
        let turns = app.rows("select outcome from turns where role = 'agent'").await;
        assert_eq!(turns, [json!({ "outcome": outcome })], "{threshold}");
    }
}

/// OPS-7, ENV-17: without ManyChat's key the service starts, says so, and answers inline.
#[tokio::test]
async fn a_missing_manychat_key_is_a_warning() {
    let app = Setup::default().env("AGENT_MODEL", "openai:gpt-5-mini").start().await;
    let warned = app.logs("configuration warning");
    for name in ["MANYCHAT_API_TOKEN", "OPENAI_API_KEY"] {
        let found = warned.iter().any(|line| line["warning"].as_str().unwrap().contains(name));
        assert!(found, "ENV-11: {name} in {warned:?}");
    }
    assert_eq!(
        app.post(&json!({"subscriber_id": "1", "text": "hi"}).to_string(), Some(SECRET)).await.status,
        200
    );
}

/// GAP-CFG-10, 08 LIM-12: the operator's check looks every name of the files up in ManyChat; what is missing there warns at
/// its place, `--strict` refuses it, and nothing is written.
#[tokio::test(flavor = "multi_thread")]
async fn an_online_check_warns_of_names_that_manychat_lacks() {
    let stub = StubManyChat::start().await;
    let (folder, mut env) = tenant_folder(NOWHERE, None);
    write_tools(&folder.path.join("config"), |tools| {
        *tools = json!({
            "flows": [{ "id": "leaflet", "flowNs": "content_1", "description": "d" }],
            "tags": [{ "id": "likes", "tag": "likes-wood", "description": "d" }],
            "notes": [{ "id": "aim", "field": "note_aim", "maxLength": 9, "neverRendered": true, "description": "d" }],
        });
    });
    env.insert("MANYCHAT_API_BASE".to_owned(), stub.url.clone());
    env.insert("MANYCHAT_API_TOKEN".to_owned(), "1234:a-key-of-the-stub".to_owned());
    env.insert("MANYCHAT_REPLY_FLOW_NS".to_owned(), "content_reply".to_owned());
    let check = |words: &[&str]| command(&folder.path, &env, &[&["config", "check"], words].concat());
    let looked_up = |stderr: &str| stderr.lines().filter(|line| line.contains("ManyChat has no")).count();
    assert_eq!(looked_up(&check(&[]).stderr), 0);
    assert!(stub.calls().is_empty(), "API-28: only --online asks");
    let found = check(&["--online"]);
    assert_eq!((found.code, looked_up(&found.stderr)), (Some(0), 6), "{}", found.stderr);
    for line in [
        "warning: MANYCHAT_REPLY_FLOW_NS: ManyChat has no flow `content_reply`",
        "warning: MANYCHAT_TOKEN_FIELD: ManyChat has no field `ai_token`",
        "warning: tools.json: flows.0.flowNs: ManyChat has no flow `content_1`",
        "warning: tools.json: tags.0.tag: ManyChat has no tag `likes-wood`",
        "warning: tools.json: notes.0.field: ManyChat has no field `note_aim`",
    ] {
        assert!(found.stderr.contains(line), "{line}: {}", found.stderr);
    }
    stub.set_tags(&["likes-wood"]);
    stub.set_account(&["ai_message", "ai_token", "note_aim"], &["content_1", "content_reply"]);
    let good = check(&["--online"]);
    assert_eq!((good.code, looked_up(&good.stderr)), (Some(0), 0), "{}", good.stderr);
    stub.answer(GET_FLOWS, 404);
    stub.answer(GET_FIELDS, 500);
    let unsure = check(&["--online"]);
    assert!(
        unsure.code == Some(0) && unsure.stderr.contains("its flows were not checked"),
        "{}",
        unsure.stderr
    );
    assert!(unsure.stderr.contains("its fields were not checked"), "{}", unsure.stderr);
    assert_eq!(check(&["--online", "--strict"]).code, Some(1));
    assert!(stub.calls().iter().all(|call| call.path.starts_with("/fb/page/get")), "it reads only");
}

/// CLI-60, ENV-26: a key that no header can carry is refused by the check, and by a start before the database is looked at.
#[test]
fn a_key_that_cannot_be_sent_is_refused_first() {
    let (folder, mut env) = tenant_folder(NOWHERE, None);
    env.insert("MANYCHAT_API_TOKEN".to_owned(), "123:planted\u{1}key".to_owned());
    for words in [vec!["config", "check"], vec!["serve"], vec!["worker"]] {
        let ended = command(&folder.path, &env, &words);
        assert_eq!(ended.code, Some(1), "{words:?}: {}", ended.stderr);
        for told in ["MANYCHAT_API_TOKEN", "copy the key again"] {
            assert!(ended.stderr.contains(told), "{words:?}: {}", ended.stderr);
        }
        let all = format!("{}{}", ended.stdout, ended.stderr);
        assert!(!all.contains("planted") && !all.contains("DATABASE_URL"), "{words:?}: {all}");
    }
}

/// GAP-CFG-10: what redirects is no ManyChat, so the check names the address and not the key.
#[tokio::test(flavor = "multi_thread")]
async fn an_online_check_against_a_redirect_names_the_address() {
    let stub = StubManyChat::start().await;
    let (folder, mut env) = tenant_folder(NOWHERE, None);
    env.insert("MANYCHAT_API_BASE".to_owned(), stub.url.clone());
    env.insert("MANYCHAT_API_TOKEN".to_owned(), "1234:a-key-of-the-stub".to_owned());
    for (status, named, other) in
        [(301, "MANYCHAT_API_BASE", "MANYCHAT_API_TOKEN"), (401, "MANYCHAT_API_TOKEN", "MANYCHAT_API_BASE")]
    {
        stub.answer(GET_TAGS, status);
        let ended = command(&folder.path, &env, &["config", "check", "--online"]);
        let line = ended.stderr.lines().find(|line| line.contains(&status.to_string())).unwrap_or_default();
        assert!(ended.code == Some(1) && line.contains(named), "{}", ended.stderr);
        assert!(!line.contains(other), "{line}");
    }
}
