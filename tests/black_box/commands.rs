//! The commands, as a person types them.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use manychat_agent::store::embedded::testing::TestServer;
use serde_json::json;

use crate::app::{
    Folder, NOWHERE, Port, Setup, TestApp, binary, command, environment, free_port, tenant_folder,
};

/// CLI-2, CLI-3, CLI-6, CLI-8, CLI-101, ACC-CLI-1
#[test]
fn wrong_use_prints_the_usage_and_exits_with_2() {
    let folder = Folder::new();
    let env = BTreeMap::new();
    let nothing = command(&folder.path, &env, &[]);
    assert_eq!(nothing.code, Some(2));
    let unknown = command(&folder.path, &env, &["frobnicate", "now"]);
    assert_eq!(unknown.code, Some(2));
    assert!(unknown.stderr.starts_with("Unknown command: frobnicate\n"), "{}", unknown.stderr);
    let plugin = command(&folder.path, &env, &["plugin", "new", "crm", "--read"]);
    assert!(plugin.stderr.starts_with("Unknown command: plugin\n"), "{}", plugin.stderr);
    assert_eq!(plugin.code, Some(2));
    for usage in [&nothing.stderr, &unknown.stderr] {
        for name in [
            "serve",
            "worker",
            "dev",
            "bootstrap",
            "simulate",
            "health",
            "config check",
            "eval",
            "eval compare",
            "model check",
            "tokens backfill",
            "handoffs list",
            "handoffs close",
            "outbox list",
            "outbox show",
            "outbox retry",
            "outbox discard",
            "contact export",
            "contact erase",
            "retention run",
            "completions",
        ] {
            assert!(usage.lines().any(|line| line.trim_start().starts_with(name)), "{name} in {usage}");
        }
    }
    assert_eq!(command(&folder.path, &env, &["serve", "--frob"]).code, Some(2));
    for words in [vec!["config"], vec!["config", "frob"], vec!["tokens"], vec!["completions", "frob"]] {
        assert_eq!(command(&folder.path, &env, &words).code, Some(2), "{words:?}");
    }
    let serve = command(&folder.path, &env, &["serve", "--help"]);
    assert!(serve.code == Some(0) && serve.stdout.contains("--no-workers"), "{}", serve.stdout);
    let help = command(&folder.path, &env, &["--help"]);
    assert_eq!(help.stdout, nothing.stderr, "the same usage");
    assert_eq!((help.code, help.stderr.as_str()), (Some(0), ""));
    let version = command(&folder.path, &env, &["--version"]);
    assert_eq!(version.stdout.trim(), format!("agent {}", env!("CARGO_PKG_VERSION")));
}

/// CLI-4, CLI-25, ACC-CLI-2, ACC-CLI-3: the environment first, then the files; one message, exit 1.
#[test]
fn a_faulty_configuration_stops_every_command() {
    let (folder, mut env) = tenant_folder(NOWHERE, Some(|rules| rules["historyDays"] = 0.into()));
    for words in [
        vec!["serve"],
        vec!["worker"],
        vec!["config", "check"],
        vec!["simulate", "hello"],
        vec!["eval"],
        vec!["tokens", "backfill"],
        vec!["handoffs", "list"],
        vec!["outbox", "list"],
        vec!["contact", "export", "1"],
        vec!["contact", "erase", "1", "--yes"],
        vec!["retention", "run"],
    ] {
        let ended = command(&folder.path, &env, &words);
        assert_eq!(ended.code, Some(1), "{words:?}");
        assert!(ended.stderr.starts_with("invalid config ("), "{}", ended.stderr);
        assert!(
            ended.stderr.contains("rules.json") && ended.stderr.contains("historyDays"),
            "{}",
            ended.stderr
        );
    }
    env.insert("AGENT_MODEL".to_owned(), "nope".to_owned());
    let ended = command(&folder.path, &env, &["serve"]);
    assert!(ended.stderr.starts_with("invalid environment:"), "{}", ended.stderr);
    assert!(!ended.stderr.contains("historyDays"), "{}", ended.stderr);
}

/// OPS-6, CLI-5: a database that cannot be reached is one clear line, without a secret.
#[test]
fn an_unreachable_database_is_one_line() {
    let (folder, env) = tenant_folder("postgres://app:hidden-password@127.0.0.1:1/none", None);
    let ended = command(&folder.path, &env, &["serve"]);
    assert_eq!((ended.code, ended.stderr.lines().count()), (Some(1), 1), "{}", ended.stderr);
    assert!(ended.stderr.contains("DATABASE_URL"), "{}", ended.stderr);
    assert!(!ended.stderr.contains("hidden-password") && !ended.stdout.contains("hidden-password"));
}

/// HTTP-7, CLI-25: a port in use is named.
#[tokio::test]
async fn a_port_in_use_is_named() {
    let app = TestApp::start().await;
    let ended = command(&app.folder.path, &app.env, &["serve"]);
    assert_eq!(ended.code, Some(1));
    assert!(ended.stderr.contains(&format!("port {}", app.port)), "{}", ended.stderr);
}

/// CLI-50 to CLI-55, SIM-1, SIM-2, ACC-CLI-5
#[tokio::test]
async fn simulate_talks_to_a_running_server() {
    let app = TestApp::start().await;
    let ended = command(&app.folder.path, &app.env, &["simulate", "how", "much", "is", "it?"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(ended.stdout.contains("how much is it?") && ended.stdout.contains("$450.00"), "{}", ended.stdout);
    assert!(ended.stdout.contains("callback registered, quick replies omitted"), "{}", ended.stdout);
    let other = command(&app.folder.path, &app.env, &["simulate", "-s", "42", "--json", "hello"]);
    assert!(serde_json::from_str::<serde_json::Value>(&other.stdout).is_ok(), "{}", other.stdout);
    let contacts = app.rows("select subscriber_id from conversations order by 1").await;
    assert_eq!(contacts[0]["subscriber_id"], "42");
    assert_eq!(contacts[1]["subscriber_id"], "sim-001");
    assert_eq!(command(&app.folder.path, &app.env, &["simulate"]).code, Some(2));
}

/// CLI-54: without a server the message says what to do.
#[tokio::test]
async fn simulate_and_health_without_a_server_fail_clearly() {
    let app = Setup::default().prepare().await;
    let ended = command(&app.folder.path, &app.env, &["simulate", "hello"]);
    assert_eq!(ended.code, Some(1));
    assert!(ended.stderr.contains("start the server first"), "{}", ended.stderr);
    assert_eq!(command(&app.folder.path, &app.env, &["health"]).code, Some(1));
}

/// IMG-6
#[tokio::test]
async fn health_asks_the_running_server() {
    let mut app = TestApp::start().await;
    assert_eq!(command(&app.folder.path, &app.env, &["health"]).code, Some(0));
    let port = app.env.insert("PORT".to_owned(), "1".to_owned()).unwrap();
    assert_eq!(command(&app.folder.path, &app.env, &["health"]).code, Some(1));
    assert_eq!(command(&app.folder.path, &app.env, &["health", "--port", &port]).code, Some(0));
}

/// CLI-30 to CLI-32, GAP-CLI-1, MIG-1, OPS-5, WRK-12: a worker migrates, beats, reloads and ends like a server, and answers health checks
/// alone.
#[tokio::test]
async fn a_worker_runs_without_the_message_route() {
    let database = TestServer::empty_database().unwrap();
    let setup = Setup { database: Some(database), ..Setup::default() }.command(&["worker"]);
    let mut app = setup.prepare().await;
    app.env.insert("WORKER_HEALTH_PORT".to_owned(), app.port.to_string());
    let unused = app.keep_port();
    app.env.insert("PORT".to_owned(), unused.to_string());
    app.launch().await;
    assert_eq!(app.log_line("migrations applied").await["level"], 30);
    assert_eq!(app.log_line("worker running").await["level"], 30);
    assert_eq!(app.rows("select 1 from rs_processes").await.len(), 1);
    assert_eq!(app.get("/health").await.unwrap().json(), json!({"status": "ok"}));
    assert_eq!(app.send("hello").await.status, 404);
    assert_eq!(app.get("/openapi.json").await.unwrap().status, 404);
    app.signal(libc::SIGHUP);
    app.log_line("config reloaded").await;
    assert_eq!(app.stop(libc::SIGTERM).await.code(), Some(0));
    assert_eq!(app.log_line("shutting down").await["signal"], "SIGTERM");
    assert_eq!(app.rows("select 1 from rs_processes").await.len(), 0);
}

/// CLI-32: without its variable a worker opens no port.
#[tokio::test]
async fn a_worker_opens_no_port_unasked() {
    let mut app = Setup::default().command(&["worker"]).prepare().await;
    app.spawn();
    app.log_line("worker running").await;
    assert!(app.get("/health").await.is_none());
    assert_eq!(app.stop(libc::SIGINT).await.code(), Some(0));
    assert!(!app.output().contains("Server listening"));
}

/// CLI-21, GAP-CLI-1, DEC-35: a server without workers says what it does not do.
#[tokio::test]
async fn serve_without_workers_warns() {
    let app = Setup::default().command(&["serve", "--no-workers"]).start().await;
    let warned =
        app.output().lines().any(|line| line.contains("--no-workers") && line.contains("\"level\":40"));
    assert!(warned, "{}", app.output());
    assert!(app.send("how much is it?").await.texts()[0].contains("$450.00"));
    assert!(!TestApp::start().await.output().contains("--no-workers"));
}

/// CLI-84, CLI-85, ACC-CLI-8, MIG-8, BF-7: how many recent contacts lack a token.
#[tokio::test]
async fn the_backfill_check_counts_recent_contacts_without_a_token() {
    let app = TestApp::start().await;
    for contact in ["recent", "with-token", "old"] {
        app.send_as(contact, "hello").await;
    }
    app.run(
        "update conversations set token_hash = null where subscriber_id <> 'with-token';
         update turns set created_at = now() - interval '31 days'
         where conversation_id = (select id from conversations where subscriber_id = 'old')",
    )
    .await;
    let check = || command(&app.folder.path, &app.env, &["tokens", "backfill", "--check"]);
    let (found, printed) = (check().code, check().stdout);
    assert_eq!(found, Some(1));
    assert!(printed.contains("30 days") && printed.trim_end().ends_with(": 1"), "{printed}");
    app.run("update conversations set token_hash = 'x'").await;
    assert_eq!(check().code, Some(0));
    let without_key = command(&app.folder.path, &app.env, &["tokens", "backfill"]);
    assert_eq!(without_key.code, Some(1));
    assert!(without_key.stderr.contains("MANYCHAT_API_TOKEN"), "{}", without_key.stderr);

    let database = TestServer::empty_database().unwrap();
    let env = environment(free_port(), database.url(), &app.folder.path);
    let unmigrated = command(&app.folder.path, &env, &["tokens", "backfill", "--check"]);
    assert_eq!((unmigrated.code, unmigrated.stderr.lines().count()), (Some(1), 1), "{}", unmigrated.stderr);
    assert!(unmigrated.stderr.contains("no tables yet"), "{}", unmigrated.stderr);
    let mut env = env;
    env.insert("MANYCHAT_API_TOKEN".to_owned(), "token-of-the-account".to_owned());
    let unmigrated = command(&app.folder.path, &env, &["tokens", "backfill"]);
    assert_eq!((unmigrated.code, unmigrated.stdout.as_str()), (Some(1), ""), "{}", unmigrated.stderr);
    assert!(unmigrated.stderr.contains("no tables yet"), "{}", unmigrated.stderr);
}

/// A script for each shell, which knows the commands.
#[test]
fn completions_know_the_commands() {
    let folder = Folder::new();
    for shell in ["bash", "zsh", "fish"] {
        let script = command(&folder.path, &BTreeMap::new(), &["completions", shell]);
        assert_eq!((script.code, script.stderr.as_str()), (Some(0), ""), "{shell}");
        assert!(script.stdout.contains("worker") && script.stdout.contains("no-workers"), "{shell}");
    }
}

/// DB-1, CLI-60: an option that no connection can use is found without one.
#[test]
fn config_check_reads_the_database_address() {
    let (folder, env) = tenant_folder("postgres://app:hidden@127.0.0.1/none?sslmode=sometimes", None);
    let checked = command(&folder.path, &env, &["config", "check"]);
    assert_eq!(checked.code, Some(1));
    assert!(checked.stderr.contains("sslmode must be one of"), "{}", checked.stderr);
    assert!(!checked.stderr.contains("hidden"), "{}", checked.stderr);
}

/// CLI-60 to CLI-62, DEC-6
#[test]
fn config_check_passes_with_warnings_and_fails_strictly() {
    let (folder, env) = tenant_folder(NOWHERE, Some(|rules| rules["historyDay"] = 5.into()));
    let checked = command(&folder.path, &env, &["config", "check"]);
    assert_eq!(checked.code, Some(0), "{}", checked.stderr);
    assert!(checked.stdout.starts_with("config check passed ("), "{}", checked.stdout);
    assert!(
        checked.stderr.contains("historyDay") && checked.stderr.contains("historyDays"),
        "{}",
        checked.stderr
    );
    let strict = command(&folder.path, &env, &["config", "check", "--strict"]);
    assert_eq!((strict.code, strict.stdout.as_str()), (Some(1), ""), "nothing says passed");
    let last = strict.stderr.lines().last().unwrap();
    let count = strict.stderr.lines().filter(|line| line.starts_with("warning: ")).count();
    let noun = if count == 1 { "1 warning".to_owned() } else { format!("{count} warnings") };
    let first = strict.stderr.lines().next().unwrap();
    let why = format!("): {noun}, which --strict refuses");
    assert!(first.starts_with("config check failed (") && first.ends_with(&why), "{first}");
    assert!(last.starts_with("warning: "), "{last}");
}

/// CLI-6, CLI-8: a wrong use says what is wanted, and a command can be asked for its usage in two ways.
#[test]
fn a_wrong_use_says_what_is_wanted() {
    let (folder, env) = tenant_folder(NOWHERE, None);
    let wrong = |words: &[&str], said: &str| {
        let ended = command(&folder.path, &env, words);
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(2), ""), "{words:?}: {}", ended.stderr);
        assert!(ended.stderr.contains(said), "{words:?}: {}", ended.stderr);
    };
    wrong(&["contact", "find", "x"], "a UUID such as");
    wrong(&["outbox", "show", "x"], "a UUID such as");
    wrong(&["handoffs", "close", "--subscriber", "1", "2"], "a UUID such as");
    for address in ["foo", "ftp://agent.example", "http://"] {
        wrong(&["simulate", "--url", address, "hello"], "--url");
    }
    wrong(&["help", "frobnicate"], "Unknown command: frobnicate");
    for (asked, usual) in [(&["help"][..], &["--help"][..]), (&["help", "serve"], &["serve", "--help"])] {
        let (asked, usual) = (command(&folder.path, &env, asked), command(&folder.path, &env, usual));
        assert_eq!((asked.code, &asked.stdout), (Some(0), &usual.stdout));
        assert!(asked.stdout.contains("Usage: agent"), "{}", asked.stdout);
    }
    let eval = command(&folder.path, &env, &["help", "eval"]).stdout;
    for name in ["EVAL_DIR", "CONFIG_DIR", "AGENT_MODEL", "EVAL_MAX_LATENCY_MS", "EVAL_JUDGE_MODEL"] {
        assert!(eval.contains(&format!("\n  {name}")), "{name} in {eval}");
    }
}

/// CFG-1, CFG-2, CLI-96, DEC-15: the demo tenant is written where every command looks for it.
#[test]
fn bootstrap_writes_into_config_dir() {
    let folder = Folder::new();
    let env = BTreeMap::from([("CONFIG_DIR".to_owned(), "shop".to_owned())]);
    let missing = command(&folder.path, &env, &["config", "check"]);
    assert_eq!(missing.code, Some(1));
    let written = command(&folder.path, &env, &["bootstrap", "--tools"]);
    assert_eq!(written.stdout.matches("created  shop/").count(), 4, "{}{}", written.stdout, written.stderr);
    assert!(!folder.path.join("config").exists());
    let checked = command(&folder.path, &env, &["config", "check"]);
    assert_eq!((checked.code, checked.stdout.as_str()), (Some(0), "config check passed (shop)\n"));
    // Named by `.env` too; a file that is there stays.
    let other = Folder::new();
    fs::write(other.path.join(".env"), "CONFIG_DIR=a/b\n").unwrap();
    let written = command(&other.path, &BTreeMap::new(), &["bootstrap"]);
    assert!(written.stdout.contains("created  a/b/rules.json\n"), "{}{}", written.stdout, written.stderr);
    assert!(written.stdout.contains("kept     .env\n"), "{}", written.stdout);
    // One that cannot be read may name another folder.
    let unread = Folder::new();
    fs::create_dir(unread.path.join(".env")).unwrap();
    let refused = command(&unread.path, &BTreeMap::new(), &["bootstrap"]);
    assert!(refused.code == Some(1) && refused.stderr.contains(".env: cannot be read"), "{}", refused.stderr);
    assert!(!unread.path.join("config").exists());
}

/// CLI-7, DEC-6: keys of a file and words of the command line are printed without their control characters.
#[test]
fn nothing_from_outside_drives_the_terminal() {
    let (folder, env) = tenant_folder(NOWHERE, Some(|rules| rules["\u{1b}[2Jx\nwarning: fine"] = 5.into()));
    let checked = command(&folder.path, &env, &["config", "check"]);
    assert!(checked.stderr.contains(r"\u001b[2Jx\u000awarning: fine"), "{}", checked.stderr);
    for words in [vec!["config", "check"], vec!["no\u{1b}[31m"], vec!["outbox", "show", "\u{1b}[31m"]] {
        let ended = command(&folder.path, &env, &words);
        assert!(!ended.stderr.contains('\u{1b}') && !ended.stdout.contains('\u{1b}'), "{}", ended.stderr);
    }
}

/// CLI-20, DEC-15: a port that is in use is the only thing a start says, and nothing is started for it.
#[test]
fn a_taken_port_is_told_before_anything_starts() {
    let (folder, mut env) = tenant_folder(NOWHERE, None);
    let taken = std::net::TcpListener::bind(("0.0.0.0", 0)).unwrap();
    env.insert("PORT".to_owned(), taken.local_addr().unwrap().port().to_string());
    for words in [["serve"], ["dev"]] {
        let ended = command(&folder.path, &env, &words);
        assert_eq!(ended.code, Some(1));
        assert!(ended.stderr.starts_with("cannot listen on port "), "{}", ended.stderr);
        assert!(!ended.stdout.contains(r#""level":50"#), "{}", ended.stdout);
    }
}

/// CLI-96, ENV-32, DEMO-2: written once, kept afterwards.
#[test]
fn bootstrap_writes_what_is_missing_and_keeps_the_rest() {
    let folder = Folder::new();
    let env = BTreeMap::new();
    let first = command(&folder.path, &env, &["bootstrap"]);
    assert_eq!(first.code, Some(0), "{}", first.stderr);
    let dot_env = fs::read_to_string(folder.path.join(".env")).unwrap();
    assert!(
        dot_env.contains("AGENT_MODEL=mock:demo\n")
            && dot_env.contains("DATABASE_URL=embedded:.data/postgres\n")
    );
    assert!(
        folder.path.join("config/rules.json").exists() && !folder.path.join("config/tools.json").exists()
    );
    let checked = command(&folder.path, &env, &["config", "check", "--strict"]);
    assert_eq!(checked.code, Some(0), "PRM-3: the demo tenant has no warning: {}", checked.stderr);
    fs::write(folder.path.join("config/prompt.md"), "mine").unwrap();
    let second = command(&folder.path, &env, &["bootstrap"]);
    assert!(second.stdout.lines().all(|line| line.starts_with("kept")), "{}", second.stdout);
    assert_eq!(fs::read_to_string(folder.path.join("config/prompt.md")).unwrap(), "mine");
    assert_eq!(fs::read_to_string(folder.path.join(".env")).unwrap(), dot_env);
    let third = command(&folder.path, &env, &["bootstrap", "--tools"]);
    assert!(third.stdout.contains("created  config/tools.json"), "{}", third.stdout);
    let checked = command(&folder.path, &env, &["config", "check"]);
    assert_eq!(checked.code, Some(0), "DEMO-4: {}", checked.stderr);
    let mut warned = checked.stderr.lines().filter(|line| line.starts_with("warning: "));
    assert!(warned.all(|line| line.contains(" yet: ")), "only what a later version does: {}", checked.stderr);
}

/// Whether a browser that opens this address gets the playground and not its closed door.
fn is_playground(address: &str) -> bool {
    let look = async {
        let client = reqwest::Client::builder().tls_certs_only([]).no_proxy();
        let client = client.redirect(reqwest::redirect::Policy::none()).build().unwrap();
        let opened = client.get(address).send().await.unwrap();
        let cookie = opened.headers()["set-cookie"].to_str().unwrap().split(';').next().unwrap().to_owned();
        let page = address.split('?').next().unwrap();
        let page = client.get(page).header("Cookie", cookie).send().await.unwrap();
        page.text().await.unwrap().contains("id=\"chat\"")
    };
    tokio::runtime::Runtime::new().unwrap().block_on(look)
}

/// DEC-15, DEC-2, EMB-6, ACC-EMB-1: in an empty folder one command does everything, keeps its data, and leaves no
/// server behind; other commands use the server beside it.
#[test]
fn dev_does_everything_in_an_empty_folder() {
    let folder = Folder::new();
    let kept = Port::keep();
    let port = kept.number;
    let env: BTreeMap<String, String> =
        [("PATH".to_owned(), std::env::var("PATH").unwrap()), ("PORT".to_owned(), port.to_string())].into();
    for (round, signal) in [(1, libc::SIGINT), (2, libc::SIGTERM)] {
        let mut dev = Command::new(binary())
            .arg("dev")
            .env_clear()
            .envs(&env)
            .current_dir(&folder.path)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(dev.stdout.take().unwrap()).lines().map(Result::unwrap);
        let shown: Vec<String> = lines.by_ref().take_while(|line| !line.contains("Ctrl-C")).collect();
        let shown = shown.join("\n");
        assert!(shown.contains(&format!("http://127.0.0.1:{port}/v1/channels/manychat/message")), "{shown}");
        let playground = format!("http://127.0.0.1:{port}/playground?key=");
        let playground = shown.lines().find(|line| line.trim().starts_with(&playground));
        assert!(is_playground(playground.unwrap_or(&shown).trim()), "{shown}");
        assert!(shown.contains(&format!("agent simulate --url http://127.0.0.1:{port} ")), "{shown}");
        assert!(shown.contains("curl ") && shown.contains("AGENT_MODEL"), "{shown}");
        let answered = command(&folder.path, &env, &["simulate", "how much is the foundation course?"]);
        assert!(answered.stdout.contains("$450.00"), "{}{}", answered.stdout, answered.stderr);
        let listed = command(&folder.path, &env, &["handoffs", "list"]);
        assert_eq!(
            (listed.code, listed.stdout.as_str()),
            (Some(0), "no open handoffs\n"),
            "{}",
            listed.stderr
        );
        let old = command(&folder.path, &env, &["retention", "run", "--dry-run"]);
        assert!(old.stderr.starts_with("retention is off"), "{}", old.stderr);
        let checked = command(&folder.path, &env, &["tokens", "backfill", "--check"]);
        assert!(checked.stdout.contains("contacts without a token"), "{}", checked.stderr);
        // The second start finds the first one's conversation: a repetition gets the tenant's closer.
        let repeated = answered.stdout.contains("Happy to help. Write any time.");
        assert!(!repeated, "tokens are not enforced and the answer is new");
        // SAFETY: a signal to our own child, which has not been waited for.
        assert_eq!(unsafe { libc::kill(i32::try_from(dev.id()).unwrap(), signal) }, 0);
        let rest: Vec<String> = lines.collect();
        assert_eq!(dev.wait().unwrap().code(), Some(0), "round {round}: {rest:?}");
        let left = fs::read_dir(folder.path.join(".data/postgres")).unwrap().count();
        assert!(left >= 1, "the data stays");
        assert!(!postmaster_alive(&folder.path), "no server stays behind");
        fs::remove_dir_all(folder.path.join(".data/none")).ok();
        if round == 1 {
            forget_answers(&folder, &env);
        }
    }
}

/// The demo tenant replaces a verbatim repetition; a fresh text keeps the second round simple.
fn forget_answers(folder: &Folder, _: &BTreeMap<String, String>) {
    let rules = folder.path.join("config/rules.json");
    let text = fs::read_to_string(&rules).unwrap().replace("\"closer\"", "\"closerOff\"");
    fs::write(rules, text).unwrap();
}

fn postmaster_alive(folder: &std::path::Path) -> bool {
    let majors = fs::read_dir(folder.join(".data/postgres")).unwrap();
    majors.flatten().any(|major| major.path().join("postmaster.pid").exists())
}
