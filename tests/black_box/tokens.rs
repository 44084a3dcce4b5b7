//! Contact tokens from outside: the tables of binding, the first burst, failed writes, the roll-out.

use std::process::Stdio;

use serde_json::{Value, json};

use crate::app::{Answer, SECRET, Setup, TestApp, binary, command};
use crate::stub_manychat::{Call, SET_FIELD, StubManyChat};
use crate::stub_model::{StubModel, code_words};

/// A service that has ManyChat and a model, with enforcement.
pub struct Stage {
    pub app: TestApp,
    pub manychat: StubManyChat,
}

impl Stage {
    pub async fn start(enforced: bool) -> Self {
        Self::with(enforced, Setup::default()).await
    }

    pub async fn with(enforced: bool, setup: Setup) -> Self {
        let (manychat, model) = (StubManyChat::start().await, StubModel::start());
        let app = setup
            .env("CONTACT_TOKENS_ENFORCED", enforced.to_string())
            .env("MANYCHAT_API_BASE", manychat.url.clone())
            .env("MANYCHAT_API_TOKEN", "token-of-the-account")
            .env("MANYCHAT_REPLY_FLOW_NS", "content20300101000000_000001")
            .env("AGENT_MODEL", "openai:stub")
            .env("OPENAI_API_KEY", "key-of-the-model")
            .env("OPENAI_BASE_URL", model.base_url.clone())
            .start()
            .await;
        Self { app, manychat }
    }

    /// A message with whatever the contact's token field holds: `Value::Null`, a text, or absent.
    pub async fn say(&self, contact: &str, text: &str, token: Option<Value>) -> Answer {
        self.app.post(&message(contact, text, token), Some(SECRET)).await
    }

    /// The writes of this contact's token so far.
    pub fn writes(&self, contact: &str) -> Vec<String> {
        token_writes(&self.manychat)
            .into_iter()
            .filter(|call| call.body["subscriber_id"] == contact)
            .filter_map(|call| call.body["field_value"].as_str().map(str::to_owned))
            .collect()
    }

    /// Waits until the contact's latest token row is settled and returns what its field holds.
    pub async fn token(&self, contact: &str) -> String {
        let open = format!(
            "select 1 from outbox where kind = 'contact_token' and status in ('pending', 'delivering') and subscriber_id = '{contact}'"
        );
        let issued = format!(
            "select 1 from conversations where token_hash is not null and subscriber_id = '{contact}'"
        );
        self.app.await_rows(&issued).await;
        self.app.await_that(&open, <[_]>::is_empty).await;
        self.writes(contact).pop().unwrap()
    }

    /// One value of the contact's conversation.
    pub async fn of(&self, contact: &str, expression: &str) -> Value {
        let query =
            format!("select ({expression})::text as it from conversations where subscriber_id = '{contact}'");
        self.app.rows(&query).await[0]["it"].clone()
    }

    /// What `turn complete` says of the contact's first turns, waited for until there are so many (TOK-15).
    async fn bindings(&self, contact: &str, count: usize) -> Vec<Value> {
        let conversation = self.of(contact, "id").await;
        for all in 1.. {
            let lines = self.app.log_lines("turn complete", all).await;
            let own = lines.into_iter().filter(|line| line["conversation"] == conversation);
            let bindings: Vec<Value> = own.map(|line| line["binding"].clone()).collect();
            if bindings.len() >= count {
                return bindings;
            }
        }
        unreachable!("log_lines gives up first")
    }
}

pub fn message(contact: &str, text: &str, token: Option<Value>) -> String {
    let mut body = json!({ "subscriber_id": contact, "text": text });
    if let Some(token) = token {
        body["ai_token"] = token;
    }
    body.to_string()
}

/// Writes of the token field.
pub fn token_writes(manychat: &StubManyChat) -> Vec<Call> {
    manychat.calls_to(SET_FIELD).into_iter().filter(|call| call.body["field_name"] == "ai_token").collect()
}

/// The code words that the reply repeats from what the model was shown.
pub fn recalled(answer: &Answer) -> Vec<String> {
    assert_eq!(answer.status, 200, "{}", answer.body);
    code_words(&answer.texts().join(" "))
}

/// A contact with history and the third token, issued two hours ago. `hash`: false leaves the token out.
async fn seed(stage: &Stage, contact: &str, hash: bool) {
    let hashed = |token: &str| match hash {
        true => format!("encode(sha256('{token}'), 'hex')"),
        false => "null::text".to_owned(),
    };
    let (current, previous) = (hashed("current"), hashed("previous"));
    let sql = format!(
        "with made as (
           insert into conversations (tenant_id, subscriber_id, channel, turn_count, last_message_at, token_hash,
                                      previous_token_hash, token_issued_at, token_generation)
           values ('test', '{contact}', 'whatsapp', 5, now() - interval '1 hour', {current}, {previous},
                   case when {current} is not null then now() - interval '2 hours' end, 3)
           returning id)
         insert into turns (conversation_id, role, text, created_at)
         select id, 'user', 'keep zqhistory in mind', now() - interval '1 hour' from made"
    );
    stage.app.run(&sql).await;
}

/// One row of the tables: what is known of the contact, what it presents, and the binding that must come of it.
struct Case {
    name: &'static str,
    known: bool,
    hash: bool,
    token: Option<Value>,
    binding: &'static str,
}

fn cases() -> Vec<Case> {
    let case = |name, known, hash, token, binding| Case { name, known, hash, token, binding };
    vec![
        case("unknown contact", false, false, None, "first"),
        case("unknown contact with a token", false, false, Some(json!("current")), "first"),
        case("no token issued", true, false, None, "first"),
        case("no token issued, one presented", true, false, Some(json!("current")), "first"),
        case("no token presented", true, true, None, "unbound"),
        case("null", true, true, Some(Value::Null), "unbound"),
        case("empty", true, true, Some(json!("")), "unbound"),
        case("current", true, true, Some(json!("current")), "bound"),
        case("previous", true, true, Some(json!("previous")), "bound"),
        case("wrong", true, true, Some(json!("currenu")), "unbound"),
        case("longer", true, true, Some(json!("current ")), "unbound"),
        case("placeholder", true, true, Some(json!("{{ai_token}}")), "unbound"),
    ]
}

/// TOK-1 to TOK-4, ENV-19, TOK-10, TOK-12, TOK-13, TOK-14, TOK-15, TURN-3, TURN-7, TURN-8, CONV-5, CAP-4, INB-3, AC-DL-20,
/// AC-DL-25, AC-DL-26: every row of both tables.
#[tokio::test]
async fn the_binding_decides_what_a_message_may_do() {
    for enforced in [true, false] {
        let stage = Stage::start(enforced).await;
        for (number, case) in cases().into_iter().enumerate() {
            check(&stage, enforced, &format!("8100{number:04}"), case).await;
        }
    }
}

async fn check(stage: &Stage, enforced: bool, contact: &str, case: Case) {
    if case.known {
        seed(stage, contact, case.hash).await;
    }
    let what = format!("{} with enforcement {enforced}", case.name);
    let own = case.binding != "unbound" || !enforced;
    let reads = case.known && (case.binding == "bound" || !enforced);
    let issues = case.binding != "bound";

    let answer = stage.say(contact, "what have I told you?", case.token.clone()).await;
    assert_eq!(recalled(&answer) == ["zqhistory"], reads, "reads history: {what}");
    assert_eq!(stage.bindings(contact, 1).await, [case.binding], "{what}");
    let turns = format!(
        "select t.bound from turns t join conversations c on c.id = t.conversation_id
         where c.subscriber_id = '{contact}' and t.text not like '%in mind%'"
    );
    assert!(
        stage.app.rows(&turns).await.iter().all(|turn| turn["bound"] == own),
        "recorded as bound: {what}"
    );
    let expected = i32::from(own) + if case.known { 5 } else { 0 };
    assert_eq!(
        stage.of(contact, "turn_count").await,
        json!(expected.to_string()),
        "counts toward the cap: {what}"
    );
    let moved = stage.of(contact, "last_message_at > now() - interval '1 minute'").await;
    assert_eq!(moved == "true", own, "moves the idle gap: {what}");
    let generation = stage.of(contact, "token_generation").await;
    let expected = i32::from(issues) + if case.known { 3 } else { 0 };
    assert_eq!(generation, json!(expected.to_string()), "a token is issued if due: {what}");
    if issues {
        let token = stage.token(contact).await;
        let stored = format!("token_hash = encode(sha256('{token}'), 'hex')");
        assert_eq!(stage.of(contact, &stored).await, "true", "TOK-2: {what}");
        assert!(!answer.body.contains(&token) && !stage.app.output().contains(&token), "TOK-3: {what}");
    } else {
        assert_eq!(stage.writes(contact).len(), 0, "{what}");
    }
    judge_second(stage, enforced, contact, case, &what).await;
}

/// A second message of the same kind: the hourly limit counts it, and a keyword may mark the contact escalated.
async fn judge_second(stage: &Stage, enforced: bool, contact: &str, case: Case, what: &str) {
    if case.binding == "first" {
        return;
    }
    let own = case.binding != "unbound" || !enforced;
    stage.say(contact, "refund", case.token).await;
    let marked = stage.of(contact, "escalated_at is not null").await;
    assert_eq!(marked == "true", own, "may mark escalated: {what}");
    let hourly =
        format!("select sum(count)::integer as count from rate_counters where subscriber_id = '{contact}'");
    assert_eq!(stage.app.rows(&hourly).await[0]["count"], 2, "the hourly limit applies to all: {what}");
}

/// DEC-24, DEC-35, GAP-CH-15, TOK-23: a contact who sends two messages before the first token has arrived is not cut
/// in two, and the request does not wait for the write.
#[tokio::test]
async fn a_first_burst_is_one_conversation() {
    let stage = Stage::start(true).await;
    stage.manychat.fall_silent(SET_FIELD);
    let first = stage.say("8200001", "my word is zqapple", None).await;
    assert!(first.elapsed.as_secs() < 9, "it does not wait for the write: {:?}", first.elapsed);
    let second = stage.say("8200001", "which word?", None).await;
    assert_eq!(recalled(&second), ["zqapple"]);
    assert_eq!(stage.bindings("8200001", 2).await, ["first", "first"]);
    let aged = "update conversations set token_issued_at = token_issued_at - interval '16 seconds'";
    stage.app.run(aged).await;
    assert!(recalled(&stage.say("8200001", "which word?", None).await).is_empty(), "15 s and no more");
    assert_eq!(stage.writes("8200001").len(), 1, "one token in all");
}

/// WRK-9, BOX-15, BOX-16, TOK-24, TOK-32, GAP-DL-16, DEC-31, DEC-35, LOG-8: a field that ManyChat refuses is given up at once
/// by the worker, without a word of ManyChat's, without mark or handoff, and the next message tries again.
#[tokio::test]
async fn a_refused_write_is_given_up_and_issued_again() {
    let stage = Stage::start(true).await;
    stage.manychat.answer(SET_FIELD, 400);
    stage.say("8300001", "hello", None).await;
    let line = stage.app.log_line("contact token write failed").await;
    assert_eq!(
        (&line["level"], &line["err"], &line["status"]),
        (&json!(50), &json!("api_error"), &json!(400))
    );
    assert!(line["conversation"].is_string() && line["endpoint"] == SET_FIELD);
    stage.app.run("update outbox set next_attempt_at = now()").await;
    let failed =
        stage.app.await_rows("select last_error, attempts from outbox where status = 'failed'").await;
    assert_eq!(failed, [json!({"last_error": "contact token write failed: 400", "attempts": 1})]);
    discarding_ends_the_checks_line(&stage).await;
    let dead = stage.app.log_line("outbox dead-lettered").await;
    assert_eq!(
        (&dead["level"], &dead["kind"], &dead["attempts"]),
        (&json!(50), &json!("contact_token"), &json!(1))
    );
    assert_eq!(stage.of("8300001", "escalated_at is null and token_issued_at is null").await, "true");
    assert!(stage.app.rows("select 1 from rs_handoffs").await.is_empty());
    stage.manychat.answer(SET_FIELD, 200);
    stage.say("8300001", "hello again", None).await;
    let token = stage.token("8300001").await;
    stage.say("8300001", "and again", Some(json!(token))).await;
    assert_eq!(stage.bindings("8300001", 3).await[2], "bound");
    assert!(!stage.app.output().contains("as the test wishes"), "ManyChat's words could quote the token");
}

/// BF-6, GAP-DL-10: the check names what was given up until an operator has decided that it stays so.
async fn discarding_ends_the_checks_line(stage: &Stage) {
    let run = |arguments: &'static [&'static str]| {
        let (path, env) = (stage.app.folder.path.clone(), stage.app.env.clone());
        tokio::task::spawn_blocking(move || command(&path, &env, arguments))
    };
    let check = run(&["tokens", "backfill", "--check"]).await.unwrap();
    assert!(check.code == Some(0) && check.stderr.contains("given up"), "{}", check.stderr);
    assert_eq!(run(&["outbox", "discard", "--all-dead"]).await.unwrap().code, Some(0));
    let check = run(&["tokens", "backfill", "--check"]).await.unwrap();
    assert_eq!((check.code, check.stderr.as_str()), (Some(0), ""));
}

/// API-10, BOX-15, AC-DL-23: without a key nothing can be written; the row stays queued, says so without a secret, and the
/// contact is answered.
#[tokio::test]
async fn without_a_key_tokens_stay_queued() {
    let app = Setup::default().env("CONTACT_TOKENS_ENFORCED", "true").start().await;
    assert_eq!(app.send("hello").await.status, 200);
    assert_eq!(app.log_line("contact token write failed").await["err"], "no_token");
    app.run("update outbox set next_attempt_at = now()").await;
    let rows = app
        .await_rows("select status, last_error from outbox where attempts = 1 and status = 'pending'")
        .await;
    assert_eq!(rows, [json!({"status": "pending", "last_error": "contact token write failed"})]);
    app.log_line("outbox delivery retrying").await;
}

/// AC-DL-27, ACC-CLI-9, BF-2 to BF-6, CLI-80 to CLI-85, CLI-87: who is in scope, what is printed, and that a second run does nothing.
#[tokio::test]
async fn a_backfill_writes_queues_and_repeats_safely() {
    let stage = Stage::start(false).await;
    for (contact, hash) in [("1", false), ("2", false), ("3", true), ("4", false), ("5", false)] {
        seed(&stage, contact, hash).await;
    }
    let outside = "update turns set created_at = now() - interval '31 days' from conversations c
                   where c.id = conversation_id and c.subscriber_id = '4';
                   update turns set bound = false from conversations c
                   where c.id = conversation_id and c.subscriber_id = '5';
                   update conversations set tenant_id = 'other' where subscriber_id = '2'";
    stage.app.run(outside).await;
    let run = |arguments: &'static [&'static str]| {
        let (path, env) = (stage.app.folder.path.clone(), stage.app.env.clone());
        tokio::task::spawn_blocking(move || command(&path, &env, arguments))
    };
    let check = run(&["tokens", "backfill", "--check"]).await.unwrap();
    assert_eq!(
        (check.code, check.stdout.trim_end().rsplit(' ').next()),
        (Some(1), Some("2")),
        "{}",
        check.stdout
    );

    stage.manychat.answer(SET_FIELD, 503);
    let failing = run(&["tokens", "backfill"]).await.unwrap();
    assert_eq!(
        failing.stdout, "tokens written: 0\ntokens queued for the outbox worker to retry: 2\n",
        "{}",
        failing.stderr
    );
    assert_eq!(failing.code, Some(0));
    assert!(failing.stderr.contains("api_error 503: 2"), "{}", failing.stderr);
    let check = run(&["tokens", "backfill", "--check"]).await.unwrap();
    assert_eq!(check.code, Some(0));
    assert!(check.stderr.contains("still has to write: 2"), "{}", check.stderr);
    let again = run(&["tokens", "backfill"]).await.unwrap();
    assert_eq!(again.stdout, "tokens written: 0\ntokens queued for the outbox worker to retry: 0\n");

    stage.manychat.answer(SET_FIELD, 200);
    stage.app.run("update outbox set next_attempt_at = now()").await;
    for contact in ["1", "5"] {
        let token = stage.token(contact).await;
        for output in [&failing.stdout, &failing.stderr, &stage.app.output()] {
            assert!(!output.contains(&token), "BF-4");
        }
    }
    assert_eq!((stage.writes("3").len(), stage.writes("4").len()), (0, 0));
    assert_eq!(stage.of("4", "token_hash is null and token_generation = 3").await, "true");
}

/// BF-4, CLI-83: contacts that ManyChat does not know any more, however many in a row, end nothing.
#[tokio::test]
async fn a_backfill_goes_on_past_deleted_contacts() {
    let stage = Stage::start(false).await;
    seed_many(&stage, 30).await;
    stage.manychat.answer(SET_FIELD, 400);
    let (path, env) = (stage.app.folder.path.clone(), stage.app.env.clone());
    let ended =
        tokio::task::spawn_blocking(move || command(&path, &env, &["tokens", "backfill"])).await.unwrap();
    assert_eq!(
        (ended.code, ended.stdout.as_str()),
        (Some(0), "tokens written: 0\ntokens queued for the outbox worker to retry: 30\n"),
        "{}",
        ended.stderr
    );
}

/// GAP-DL-17: when the key is refused, the command stops instead of spoiling every contact's token.
#[tokio::test]
async fn a_backfill_stops_when_every_write_fails() {
    let stage = Stage::start(false).await;
    seed_many(&stage, 60).await;
    stage.manychat.answer(SET_FIELD, 401);
    let (path, env) = (stage.app.folder.path.clone(), stage.app.env.clone());
    let ended =
        tokio::task::spawn_blocking(move || command(&path, &env, &["tokens", "backfill"])).await.unwrap();
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    assert!(ended.stderr.contains("MANYCHAT_API_TOKEN"), "{}", ended.stderr);
    let left = stage.app.rows("select 1 from conversations where token_hash is null").await.len();
    assert!(left >= 60 - 24, "{left}");
}

/// BF-4, CLI-82, GAP-DL-17: an interrupted run tells what it did; two runs at once, beside each other, finish the rest,
/// and no contact gets two tokens. An id that no request could carry any more is no stumbling block.
#[tokio::test]
async fn a_backfill_can_be_interrupted_repeated_and_run_twice() {
    let stage = Stage::with(false, Setup::default().env("MANYCHAT_CALLS_PER_SECOND", "8")).await;
    seed_many(&stage, 60).await;
    stage.app.run("update conversations set subscriber_id = '' where subscriber_id = '9000001'").await;
    let interrupted = std::process::Command::new(binary())
        .args(["tokens", "backfill"])
        .env_clear()
        .envs(&stage.app.env)
        .current_dir(&stage.app.folder.path)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    stage
        .app
        .await_that("select 1 from conversations where token_hash is not null", |rows| rows.len() > 8)
        .await;
    let id = i32::try_from(interrupted.id()).unwrap();
    // SAFETY: a signal to our own child, which has not been waited for.
    assert_eq!(unsafe { libc::kill(id, libc::SIGINT) }, 0);
    let ended = tokio::task::spawn_blocking(|| interrupted.wait_with_output()).await.unwrap().unwrap();
    let stdout = String::from_utf8(ended.stdout).unwrap();
    let done = stage.app.rows("select 1 from conversations where token_hash is not null").await.len();
    assert!(done < 60, "it stopped");
    assert_eq!(
        (ended.status.code(), stdout),
        (Some(1), format!("tokens written: {done}\ntokens queued for the outbox worker to retry: 0\n"))
    );
    assert!(String::from_utf8(ended.stderr).unwrap().contains("run the command again"));

    let run = || {
        let (path, env) = (stage.app.folder.path.clone(), stage.app.env.clone());
        tokio::task::spawn_blocking(move || command(&path, &env, &["tokens", "backfill"]))
    };
    let (one, two) = tokio::join!(run(), run());
    let (one, two) = (one.unwrap(), two.unwrap());
    assert_eq!((one.code, two.code), (Some(0), Some(0)), "{} {}", one.stderr, two.stderr);
    assert_eq!(token_writes(&stage.manychat).len(), 60, "{} {}", one.stdout, two.stdout);
    assert!(stage.app.rows("select 1 from conversations where token_generation <> 1").await.is_empty());
}

/// Contacts 9000001 and up, each with a code word of its own that it told yesterday.
async fn seed_many(stage: &Stage, count: u32) {
    let sql = format!(
        "with made as (
           insert into conversations (tenant_id, subscriber_id, channel, last_message_at)
           select 'test', (9000000 + number)::text, 'whatsapp', now() - interval '1 day'
           from generate_series(1, {count}) number
           returning id, subscriber_id)
         insert into turns (conversation_id, role, text, created_at)
         select id, said.role, said.text || ' zq' || translate(right(subscriber_id, 6), '0123456789', 'abcdefghij'),
                now() - interval '1 day'
         from made, (values ('user', 'my word is'), ('agent', 'I will remember')) said(role, text)"
    );
    stage.app.run(&sql).await;
}

fn word_of(number: u32) -> String {
    let digits = format!("{:06}", number);
    let letters = digits.bytes().map(|digit| char::from(b'a' + digit - b'0'));
    format!("zq{}", letters.collect::<String>())
}

/// 04 section 8.4, BF-1 to BF-6, CLI-82, CLI-86, TOK-10: the five steps of the guide on 1 000 contacts beside live
/// traffic. No contact loses its history: each one's next message, with its token, still has it.
#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_contacts_are_rolled_out_without_losing_history() {
    const CONTACTS: u32 = 1000;
    let setup = Setup::default()
        .env("RATE_LIMIT_PER_MINUTE", "1000000")
        // At ManyChat's own rate the backfill takes 100 seconds.
        .env("MANYCHAT_CALLS_PER_SECOND", "100");
    let mut stage = Stage::with(false, setup).await;
    seed_many(&stage, CONTACTS).await;
    let (path, env) = (stage.app.folder.path.clone(), stage.app.env.clone());
    let check = command(&path, &env, &["tokens", "backfill", "--check"]);
    assert_eq!(
        (check.code, check.stdout.trim_end().ends_with(": 1000")),
        (Some(1), true),
        "{}",
        check.stdout
    );

    let filling = tokio::task::spawn_blocking(move || command(&path, &env, &["tokens", "backfill"]));
    // The last contact writes before the command comes to it.
    let early = stage.say(&(9_000_000 + CONTACTS).to_string(), "which word?", None).await;
    assert_eq!(recalled(&early), [word_of(CONTACTS)], "without enforcement history is read");
    let filled = filling.await.unwrap();
    assert_eq!(filled.code, Some(0), "{}", filled.stderr);
    assert_eq!(
        filled.stdout, "tokens written: 999\ntokens queued for the outbox worker to retry: 0\n",
        "CLI-82: a contact that got a token meanwhile is counted nowhere"
    );
    assert!(filled.stderr.contains("contacts done: 900 of"), "{}", filled.stderr);
    let check = command(&stage.app.folder.path, &stage.app.env, &["tokens", "backfill", "--check"]);
    assert_eq!((check.code, check.stderr.as_str()), (Some(0), ""));

    stage.app.env.insert("CONTACT_TOKENS_ENFORCED".to_owned(), "true".to_owned());
    stage.app.stop(libc::SIGTERM).await;
    stage.app.launch().await;
    let tokens: std::collections::HashMap<String, String> = token_writes(&stage.manychat)
        .into_iter()
        .map(|call| {
            let text = |name: &str| call.body[name].as_str().unwrap().to_owned();
            (text("subscriber_id"), text("field_value"))
        })
        .collect();
    assert_eq!(tokens.len(), usize::try_from(CONTACTS).unwrap());
    ask_everybody(&stage, CONTACTS, &tokens).await;
    let stranger = stage.say("9000007", "which word?", Some(json!("{{ai_token}}"))).await;
    assert!(recalled(&stranger).is_empty(), "without the token there is no history");
}

async fn ask_everybody(stage: &Stage, contacts: u32, tokens: &std::collections::HashMap<String, String>) {
    use futures_util::StreamExt;
    let asking = (1..=contacts).map(|number| async move {
        let contact = (9_000_000 + number).to_string();
        let answer = stage.say(&contact, "which word?", Some(json!(tokens[&contact]))).await;
        assert_eq!(recalled(&answer), [word_of(number)], "contact {number}");
    });
    futures_util::stream::iter(asking).buffer_unordered(16).collect::<Vec<_>>().await;
    // One wrote while the tokens were made.
    let lines = stage.app.log_lines("turn complete", usize::try_from(contacts + 1).unwrap()).await;
    let bound = lines.iter().filter(|line| line["binding"] == "bound").count();
    assert_eq!(bound, usize::try_from(contacts).unwrap(), "TOK-15: all arrive bound");
}
