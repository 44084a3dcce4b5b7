//! Planted phones, addresses, tokens, keys and texts on every path: nothing that is printed holds any of them.

use std::collections::BTreeMap;
use std::fs;

use futures_util::future::join_all;
use manychat_agent::http::MESSAGE_PATH;
use manychat_agent::store::embedded::testing::TestServer;
use reqwest::Method;
use serde_json::json;

use crate::app::{ABORTED, ADMIN, Ended, LOST, SECRET, Setup, TestApp, command};
use crate::quoting_server::QuotingServer;

const NAME: (&str, &str) = ("Perpetua", "Quincewood");
const CONTACT: &str = "887766554433";
const PHONES: [&str; 3] = ["+54 9 11 5555 0101", "(555) 010-7788", "0049 30 90182"];
const EMAIL: &str = "perpetua.q@mail.example";
const WORDS: &str = "zanzibar marmalade";
/// Of the form of a contact token: 43 characters of base64.
const TOKEN: &str = "dG9rZW4tb2YtcGVycGV0dWEtMDEyMzQ1Njc4OUFCQ0R";
const WRONG_SECRET: &str = "wrong-secret-Zq81xKw0";
const KEYS: [(&str, &str); 5] = [
    ("ANTHROPIC_API_KEY", "planted-key-anthropic-77"),
    ("OPENAI_API_KEY", "planted-key-openai-77"),
    ("GOOGLE_GENERATIVE_AI_API_KEY", "planted-key-google-77"),
    ("MANYCHAT_API_TOKEN", "4242:planted-manychat-token"),
    ("ADMIN_TOKEN", ADMIN),
];
const PASSWORD: &str = "planted-database-password";
const LINK: &str =
    "https://manybot-files.s3.eu-central-1.amazonaws.com/887766/wa/2026/03/02/original_0a1b2c3d.ogg";
const ODD_LINK: &str = "https://manybot-files.s3.eu-central-1.amazonaws.com/887766/private/letter_ab12.pdf";

/// Everything that must not be printed.
fn planted() -> Vec<&'static str> {
    let mut parts = vec![NAME.0, NAME.1, "perpetua", CONTACT, EMAIL, WORDS, "zanzibar", "marmalade"];
    parts.extend([TOKEN, WRONG_SECRET, SECRET, PASSWORD]);
    parts.extend(PHONES);
    parts.extend(["5555 0101", "010-7788", "30 90182", "manybot-files"]);
    parts.extend(KEYS.map(|(_, key)| key));
    parts
}

#[track_caller]
fn assert_clean(what: &str, printed: &str) {
    for part in planted() {
        assert!(!printed.contains(part), "{what}: {part} in {printed}");
    }
}

fn text(tail: &str) -> String {
    format!("I am {} {EMAIL} {} {} {} {WORDS} {tail}", NAME.0, PHONES[0], PHONES[1], PHONES[2])
}

/// A message with everything in it.
fn body(tail: &str) -> String {
    json!({
        "subscriber_id": CONTACT, "text": text(tail), "first_name": NAME.0, "last_name": NAME.1, "locale": "en_GB",
        "ai_token": TOKEN,
    })
    .to_string()
}

fn with_keys(mut setup: Setup) -> Setup {
    for (name, key) in KEYS {
        setup = setup.env(name, key);
    }
    setup.env("LOG_LEVEL", "trace").env("TRUST_PROXY", "loopback").env("RATE_LIMIT_PER_MINUTE", "40")
}

/// Bodies and requests that are answered well.
async fn good_paths(app: &TestApp) {
    for tail in ["how much is it?", "hello", "this is a scam, refund!"] {
        assert_eq!(app.post(&body(tail), Some(SECRET)).await.status, 200);
    }
    for message in [LINK, ODD_LINK, "begin larkspur chat"] {
        assert_eq!(app.send_as(CONTACT, message).await.status, 200);
    }
}

/// Requests that are refused, each for another reason, with planted values wherever a caller can put some.
async fn refused_paths(app: &TestApp) {
    let long = format!("{}{}", text(""), "x".repeat(5000));
    let bodies = [
        format!("{{\"subscriber_id\": \"{CONTACT}\", \"text\": \"{}\"", text("")),
        format!("{{\"subscriber_id\": \"{CONTACT}\", \"text\": \"a\", \"{WORDS}\": \"{EMAIL}\"}}"),
        format!("{{\"subscriber_id\": \"{CONTACT}\", \"text\": [\"{}\"]}}", text("")),
        json!({ "subscriber_id": CONTACT, "text": long }).to_string(),
        json!({ "subscriber_id": CONTACT, "text": "a", "ai_token": TOKEN.repeat(9) }).to_string(),
        json!({ "subscriber_id": { "phone": PHONES[0] }, "text": WORDS }).to_string(),
        text("not JSON at all"),
        format!("{}{}", text(""), "x".repeat(70_000)),
    ];
    for body in &bodies {
        let refused = app.post(body, Some(SECRET)).await;
        assert!((400..500).contains(&refused.status), "{}", refused.status);
        assert_clean("the answer", &refused.body);
    }
    assert_eq!(app.post(&body("hi"), Some(WRONG_SECRET)).await.status, 401);
    let path = format!("/contact/{CONTACT}/{EMAIL}?ai_token={TOKEN}&phone=%2B5491155550101");
    let missing = app
        .ask(Method::PUT, &path, |request| {
            let request = request.header("X-Forwarded-For", "198.51.100.7").header("x-request-id", CONTACT);
            request.header("User-Agent", EMAIL).header("Cookie", TOKEN).header("X-Api-Key", WRONG_SECRET)
        })
        .await;
    assert_eq!(missing.status, 404);
    assert_clean("the answer", &missing.body);
    let typed = app
        .ask(Method::POST, MESSAGE_PATH, |request| {
            request.header("Content-Type", format!("text/{}", NAME.0)).bearer_auth(SECRET).body(body("hi"))
        })
        .await;
    assert_eq!(typed.status, 415);
    assert_clean("the answer", &typed.body);
}

/// A database that refuses, quoting the row, then one whose tables are gone, then one that ends every connection.
async fn broken_database(app: &TestApp) {
    let settled = "alter table turns add constraint no_agent check (role <> 'agent') not valid";
    let recorded = "alter table turns drop constraint no_agent;
                    alter table turns add constraint no_user check (role <> 'user') not valid";
    let gone = "alter table turns drop constraint no_user; alter table turns rename to turns_away";
    for breaking in [settled, recorded, gone] {
        app.run(breaking).await;
        let answer = app.post(&body("how much is it?"), Some(SECRET)).await;
        assert_eq!((answer.status, answer.texts()), (200, vec![app.copy("escalation")]), "{breaking}");
    }
    app.run("alter table turns_away rename to turns").await;
    app.run(
        "select pg_terminate_backend(pid) from pg_stat_activity
         where datname = current_database() and pid <> pg_backend_pid()",
    )
    .await;
    app.post(&body("how much is it?"), Some(SECRET)).await;
}

/// PII-9, PII-1 to PII-4, LOG-2, LOG-9, ENV-26, DB-5, HTTP-31, ARC-62: a service at `trace`, on every path.
#[tokio::test]
async fn nothing_planted_is_printed_by_the_service() {
    let database = TestServer::database().unwrap();
    // The server trusts everybody on its socket, so any password is right.
    let url = database.url().replacen("app@", &format!("app:{PASSWORD}@"), 1);
    let setup = Setup { database: Some(database), database_url: Some(url), ..Setup::default() };
    let mut app = with_keys(setup).start().await;
    good_paths(&app).await;
    refused_paths(&app).await;
    broken_database(&app).await;
    // The minute of the limit may end meanwhile.
    for number in 0.. {
        app.post(&body("once more"), Some(SECRET)).await;
        if !app.logs("load shed").is_empty() {
            break;
        }
        assert!(number < 400, "the limit is never reached");
    }
    let rules = app.folder.path.join("config/rules.json");
    let sound = fs::read_to_string(&rules).unwrap();
    for broken in [
        format!("{{\"messages\": \"{}\", \"budget\": {{", text("")),
        sound.replace("\"historyDays\": 30", &format!("\"historyDays\": \"{} {EMAIL}\"", PHONES[0])),
        sound.replace("\"historyDays\": 30", &format!("\"historyDays\": 0, \"{} {}\": 1", PHONES[1], EMAIL)),
    ] {
        let failed = "config reload failed; keeping previous config";
        let before = app.logs(failed).len();
        fs::write(&rules, broken).unwrap();
        app.signal(libc::SIGHUP);
        app.log_lines(failed, before + 1).await;
    }
    fs::write(&rules, sound).unwrap();
    assert_eq!(app.stop(libc::SIGTERM).await.code(), Some(0));
    let printed = app.output();
    for event in
        ["turn complete", "media_url_unmatched", "unhandled error", "turn not settled", "shutting down"]
    {
        assert!(printed.contains(event), "the path to {event:?} was not taken");
    }
    assert_clean("the log", &printed);
    assert!(printed.lines().count() > 30);
}

fn printed(ended: &Ended) -> String {
    format!("{}{}", ended.stdout, ended.stderr)
}

/// CLI-9, ENV-26: commands, good and refused, print no secret and nothing of a contact.
#[tokio::test]
async fn nothing_planted_is_printed_by_the_commands() {
    let app = with_keys(Setup::default()).start().await;
    app.post(&body("how much is it?"), Some(SECRET)).await;
    let run = |env: &BTreeMap<String, String>, words: &str| {
        command(&app.folder.path, env, &words.split(' ').collect::<Vec<_>>())
    };
    for words in [
        "config check",
        "config check --strict",
        "health",
        "tokens backfill --check",
        "tokens backfill",
        "completions bash",
        "bootstrap",
        "serve",
        "worker --frob",
        "--help",
    ] {
        assert_clean(words, &printed(&run(&app.env, words)));
    }
    let simulated =
        command(&app.folder.path, &app.env, &["simulate", "-s", CONTACT, "--token", TOKEN, "hello"]);
    assert_eq!(simulated.code, Some(0), "{}", simulated.stderr);
    assert_clean("simulate", &printed(&simulated));

    let broken = [
        ("DATABASE_URL", format!("postgres://app:{PASSWORD}@127.0.0.1:1/none")),
        ("DATABASE_URL", format!("postgres://app:{PASSWORD}@[broken/none")),
        ("DATABASE_URL", format!("postgres://app:{PASSWORD}@127.0.0.1/none?sslmode={PASSWORD}")),
        ("MANYCHAT_SHARED_SECRET", "planted-key".to_owned()),
        ("ADMIN_TOKEN", "planted-key".to_owned()),
        ("PRICING_OVERRIDES", format!("{{\"{EMAIL}\": \"{}\"", PHONES[0])),
        ("PUBLIC_BASE_URL", format!("http://{EMAIL}/")),
        ("PORT", PHONES[0].to_owned()),
    ];
    for (name, value) in broken {
        let mut env = app.env.clone();
        env.insert(name.to_owned(), value);
        for words in ["serve", "worker", "config check", "tokens backfill --check", "simulate hello"] {
            let shown = printed(&run(&env, words));
            assert_clean(&format!("{words} with {name}"), &shown);
            assert!(!shown.contains("planted-key"), "{words} with {name}: {shown}");
        }
    }
}

/// PII-8, PII-9, LOG-8, LOG-9, ENV-26: a provider that quotes the prompt and the key in what it refuses with, and in what
/// it calls a success.
#[tokio::test]
async fn nothing_a_provider_quotes_is_printed() {
    let provider = QuotingServer::start(&[400, 401, 404, 429, 500, 200], TOKEN);
    let base = format!("{}/v1", provider.url());
    let models = [
        ("openai:gpt-5-mini", "OPENAI_BASE_URL"),
        ("anthropic:claude-haiku-4-5", "ANTHROPIC_BASE_URL"),
        ("google:gemini-3-flash", "GOOGLE_BASE_URL"),
        ("ollama:llama3.1:8b", "OLLAMA_BASE_URL"),
    ];
    // Beside each other, because each mostly waits between its attempts.
    join_all(models.map(|(model, variable)| quoted_by(model, variable, &base))).await;
}

async fn quoted_by(model: &'static str, variable: &'static str, base: &str) {
    let setup = with_keys(Setup::default()).env("AGENT_MODEL", model).env(variable, base);
    let mut app = setup.start().await;
    for _ in 0..3 {
        let answer = app.post(&body("how much is it?"), Some(SECRET)).await;
        assert_eq!((answer.status, answer.texts()), (200, vec![app.copy("escalation")]), "{model}");
    }
    app.log_line("model call failed").await;
    assert_eq!(app.stop(libc::SIGTERM).await.code(), Some(0));
    assert_clean(model, &app.output());
}

/// PII-8, PII-9, LOG-8, DEC-35, ENV-26: ManyChat quotes the contact, the reply and the key in what it refuses with.
#[tokio::test]
async fn nothing_manychat_quotes_is_printed() {
    let manychat = QuotingServer::start(&[400, 403, 404, 500, 200], EMAIL);
    let setup = with_keys(Setup::default()).env("AGENT_MODEL", "mock:slow").env("RACE_DEADLINE_MS", LOST);
    let setup = setup.env("MODEL_ABORT_MS", ABORTED).env("MANYCHAT_REPLY_FLOW_NS", "content1_1");
    let mut app = setup.env("MANYCHAT_API_BASE", manychat.url()).start().await;
    app.post(&body("how much is the foundation course?"), Some(SECRET)).await;
    app.await_rows("select 1 from outbox where attempts > 0 or status = 'failed'").await;
    let reply = app.rows("select text from turns where role = 'agent'").await[0]["text"].clone();
    assert_eq!(app.stop(libc::SIGTERM).await.code(), Some(0));
    let printed = app.output();
    assert!(printed.contains("outbox delivery") || printed.contains("outbox dead-lettered"), "{printed}");
    assert_clean("ManyChat's words", &printed);
    let reply = reply.as_str().unwrap();
    assert!(reply.len() > 10 && !printed.contains(&reply[..10]), "{reply} in {printed}");
}
