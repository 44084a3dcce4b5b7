//! Export, erasure and retention over the real schema (DEC-13).

use std::fs::File;
use std::io::Write;
use std::os::fd::FromRawFd;
use std::process::Command;

use serde_json::{Value, json};

use crate::app::{CONTACT, Ended, LOST, Setup, TestApp, binary, command, environment, free_port};

const OTHER: &str = "70010002";

fn keep_thirty_days(rules: &mut Value) {
    rules["retentionDays"] = json!(30);
}

fn run(app: &TestApp, words: &[&str]) -> Ended {
    command(&app.folder.path, &app.env, words)
}

/// A row of this contact in every table that can hold one.
async fn fill(app: &TestApp) {
    app.send("this is a scam, refund!").await;
    app.send_as(OTHER, "hello").await;
    app.await_that("select 1 from rs_owed", <[_]>::is_empty).await;
    app.run(&format!(
        "insert into outbox (tenant_id, subscriber_id, payload, status)
           values ('test', '{CONTACT}', '{{\"messages\": [\"An old reply.\"]}}', 'failed');
         insert into nudges (conversation_id, due_at, status)
           select id, now() + interval '1 day', 'pending' from conversations where subscriber_id = '{CONTACT}';
         insert into rs_inbox (conversation_id, process_id, text, binding, received_at, token_digest)
           select id, gen_random_uuid(), 'hi', 'first', now(), 'digest-of-a-token' from conversations
           where subscriber_id = '{CONTACT}';
         insert into rs_attempts (turn_id, action, conversation_id, process_id)
           select gen_random_uuid(), 0, id, gen_random_uuid() from conversations where subscriber_id = '{CONTACT}';
         insert into rs_actions (turn_id, conversation_id, tenant_id, process_id, actions)
           select gen_random_uuid(), conversations.id, 'test', p.id, '[]'
           from conversations, rs_processes p where subscriber_id = '{CONTACT}' limit 1;
         insert into rs_summaries (conversation_id, upto_seq, config, known)
           select id, 0, '', '{{}}' from conversations where subscriber_id = '{CONTACT}';
         insert into rs_owed (turn_id, conversation_id, tenant_id, process_id, status, binding, user_turn_ids,
                              received_at, queued)
           select gen_random_uuid(), conversations.id, 'test', p.id, 'said', 'first', '{{}}', now(), true
           from conversations, rs_processes p where subscriber_id = '{CONTACT}' limit 1;
         update conversations set token_hash = 'digest-of-a-token',
           previous_token_hash = 'digest-of-a-token', rs_unwritten_token = '1:digest-of-a-token' where subscriber_id = '{CONTACT}'"
    ))
    .await;
}

/// DEC-13, DEC-35: every table with this contact's rows and nobody else's; no digest of a token.
#[tokio::test(flavor = "multi_thread")]
async fn an_export_holds_every_table_and_one_contact() {
    let app = TestApp::start().await;
    fill(&app).await;
    let exported = run(&app, &["contact", "export", CONTACT]);
    assert_eq!(exported.code, Some(0), "{}", exported.stderr);
    let whole: Value = serde_json::from_str(&exported.stdout).unwrap();
    assert_eq!(whole["tenant"], "test");
    let tables = whole["tables"].as_object().unwrap();
    for (name, rows) in tables {
        assert!(!rows.as_array().unwrap().is_empty(), "the test fills every table: {name}");
    }
    assert_eq!(tables["turns"][0]["text"], "this is a scam, refund!");
    assert_eq!(tables["turns"].as_array().unwrap().len(), 2);
    let payloads = tables["outbox"].as_array().unwrap().iter().map(|row| &row["payload"]);
    assert!(payloads.map(|payload| &payload["messages"][0]).any(|text| text == "An old reply."));
    assert!(!exported.stdout.contains(OTHER) && !exported.stdout.contains("digest-of-a-token"));
    let unknown = run(&app, &["contact", "export", "5"]);
    assert_eq!((unknown.code, unknown.stdout.as_str()), (Some(1), ""));
    assert_eq!(unknown.stderr.lines().count(), 1, "{}", unknown.stderr);
    assert_eq!(run(&app, &["contact", "export"]).code, Some(2));
}

/// DEC-13, PROC-7: every table, after a confirmation, of one tenant; a dry run counts.
#[tokio::test(flavor = "multi_thread")]
async fn an_erasure_leaves_nothing_of_the_contact() {
    let app = TestApp::start().await;
    fill(&app).await;
    let unasked = run(&app, &["contact", "erase", CONTACT]);
    assert_eq!(unasked.code, Some(2), "no terminal and no --yes");
    assert!(unasked.stderr.contains("--yes"), "{}", unasked.stderr);
    let mut foreign = app.env.clone();
    foreign.insert("TENANT_ID".to_owned(), "other".to_owned());
    let nothing = command(&app.folder.path, &foreign, &["contact", "erase", CONTACT, "--yes"]);
    assert_nothing_stored(&nothing);
    for flag in ["--yes", "--dry-run"] {
        assert_nothing_stored(&run(&app, &["contact", "erase", "7001000", flag]));
    }
    let dry = run(&app, &["contact", "erase", CONTACT, "--dry-run"]);
    assert!(dry.code == Some(0) && dry.stdout.contains("turns: 2\n"), "{}{}", dry.stdout, dry.stderr);
    assert!(dry.stdout.contains("would be erased: "), "{}", dry.stdout);
    let erased = run(&app, &["contact", "erase", CONTACT, "--yes"]);
    assert_eq!(erased.code, Some(0), "{}", erased.stderr);
    assert_eq!(erased.stdout, dry.stdout.replace("would be erased", "erased"));
    assert!(!erased.stdout.contains(CONTACT) && !erased.stderr.contains(CONTACT));
    for left in ["ai_message", "ai_token", "delete the contact in ManyChat"] {
        assert!(erased.stderr.contains(left), "what stays there is named: {}", erased.stderr);
    }
    assert!(!dry.stderr.contains("not erased"), "{}", dry.stderr);
    assert_nothing_stored(&run(&app, &["contact", "export", CONTACT]));
    assert_eq!(run(&app, &["contact", "export", OTHER]).code, Some(0), "the other contact stays");
    assert_eq!(app.send("how much is it?").await.texts().len(), 1, "and may come back");
}

/// A mistyped id must not look like a success.
#[track_caller]
fn assert_nothing_stored(ended: &Ended) {
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""));
    assert_eq!(ended.stderr, "nothing is stored about this contact\n");
}

/// DEC-13: a conversation's contact is told to an operator who asks for it, of this tenant only (PROC-7).
#[tokio::test(flavor = "multi_thread")]
async fn a_conversations_contact_is_found_on_request() {
    let app = TestApp::start().await;
    app.send("hello").await;
    app.send_as(OTHER, "hello").await;
    let sql = format!("select id from conversations where subscriber_id = '{OTHER}'");
    let id = app.rows(&sql).await[0]["id"].as_str().unwrap().to_owned();
    let found = run(&app, &["contact", "find", &id]);
    assert_eq!((found.code, found.stdout.as_str()), (Some(0), "70010002\n"), "{}", found.stderr);
    let mut foreign = app.env.clone();
    foreign.insert("TENANT_ID".to_owned(), "other".to_owned());
    let foreign = command(&app.folder.path, &foreign, &["contact", "find", &id]);
    assert_eq!((foreign.code, foreign.stdout.as_str()), (Some(1), ""));
    assert!(foreign.stderr.contains("no such conversation"), "{}", foreign.stderr);
    assert_eq!(
        run(&app, &["contact", "find", OTHER]).code,
        Some(2),
        "a contact's id is none of a conversation"
    );
}

/// DEC-13: on a terminal the command asks, and only the whole word goes on.
#[tokio::test(flavor = "multi_thread")]
async fn an_erasure_asks_on_a_terminal() {
    let app = TestApp::start().await;
    app.send("hello").await;
    let declined = on_a_terminal(&app, "y\n");
    assert!(declined.0 == Some(1) && declined.1.contains("nothing was erased"), "{declined:?}");
    assert!(declined.1.contains("rows of this contact will be erased"), "{declined:?}");
    assert_eq!(app.rows("select 1 from conversations").await.len(), 1);
    assert_eq!(on_a_terminal(&app, "erase\n").0, Some(0));
    assert_eq!(app.rows("select 1 from conversations").await.len(), 0);
}

/// Exit code and stderr of an erasure whose standard input is a terminal on which this is typed.
fn on_a_terminal(app: &TestApp, typed: &str) -> (Option<i32>, String) {
    let (mut keyboard, mut terminal) = (0, 0);
    let (name, attributes, size) = (std::ptr::null_mut(), std::ptr::null_mut(), std::ptr::null_mut());
    // SAFETY: both places are ours, and null leaves the rest to the system.
    let opened = unsafe { libc::openpty(&raw mut keyboard, &raw mut terminal, name, attributes, size) };
    assert_eq!(opened, 0);
    // SAFETY: two fresh descriptors that nobody else owns.
    let (mut keyboard, terminal) = unsafe { (File::from_raw_fd(keyboard), File::from_raw_fd(terminal)) };
    keyboard.write_all(typed.as_bytes()).unwrap();
    let output = Command::new(binary())
        .args(["contact", "erase", CONTACT])
        .env_clear()
        .envs(&app.env)
        .current_dir(&app.folder.path)
        .stdin(terminal)
        .output()
        .unwrap();
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

/// DEC-13: an erasure while a turn runs ends the turn without a word and without a trace.
#[tokio::test(flavor = "multi_thread")]
async fn an_erasure_ends_a_running_turn() {
    let app = Setup::default()
        .env("AGENT_MODEL", "mock:slow")
        .env("RACE_DEADLINE_MS", LOST)
        .env("MODEL_ABORT_MS", "9000")
        .start()
        .await;
    app.send("how much is it?").await;
    app.await_rows("select 1 from rs_owed where status = 'running'").await;
    assert_eq!(run(&app, &["contact", "erase", CONTACT, "--yes"]).code, Some(0));
    app.log_line("turn superseded").await;
    for table in ["turns", "outbox", "conversations"] {
        assert_eq!(app.rows(&format!("select 1 from {table}")).await.len(), 0, "{table}");
    }
}

/// DEC-13, ARC-45a: a message that waits behind a running turn when its contact is erased is not recorded afterwards,
/// and not even an empty conversation is; the next message begins anew.
#[tokio::test(flavor = "multi_thread")]
async fn an_erasure_takes_the_waiting_messages_along() {
    let app = Setup::default()
        .env("AGENT_MODEL", "mock:slow")
        .env("RACE_DEADLINE_MS", LOST)
        .env("MODEL_ABORT_MS", "9000")
        .start()
        .await;
    app.send("how much is it?").await;
    app.await_rows("select 1 from rs_owed where status = 'running'").await;
    let waiting = app.send_later(CONTACT, "my name is on the parcel");
    app.await_rows("select 1 from rs_inbox").await;
    assert_eq!(run(&app, &["contact", "erase", CONTACT, "--yes"]).code, Some(0));
    assert_eq!(waiting.await.unwrap().texts(), [] as [String; 0], "answered silently");
    app.log_line("turn superseded").await;
    app.await_idle().await;
    for table in ["turns", "rs_inbox", "rs_owed", "outbox", "conversations"] {
        assert_eq!(app.rows(&format!("select 1 from {table}")).await.len(), 0, "{table}");
    }
    app.send("hello again").await;
    let turns = app.await_rows("select text from turns where role = 'user'").await;
    assert_eq!(turns, [json!({ "text": "hello again" })]);
}

/// DEC-13, DEC-35: off by default, refused below historyDays, counts, and only what is old.
#[tokio::test(flavor = "multi_thread")]
async fn retention_deletes_what_is_old() {
    let off = TestApp::start().await;
    let refused = run(&off, &["retention", "run"]);
    assert!(refused.code == Some(1) && refused.stderr.contains("retentionDays"), "{}", refused.stderr);
    let app = Setup::default().rules(keep_thirty_days).start().await;
    app.send("hello").await;
    app.send_as(OTHER, "hello").await;
    app.await_that("select 1 from rs_owed", <[_]>::is_empty).await;
    app.run(&format!(
        "update turns set created_at = now() - interval '31 days'
           where conversation_id = (select id from conversations where subscriber_id = '{CONTACT}');
         delete from outbox where kind = 'contact_token';
         update conversations set last_message_at = now() - interval '31 days', updated_at = now() - interval '31 days'
           where subscriber_id = '{CONTACT}'"
    ))
    .await;
    let dry = run(&app, &["retention", "run", "--dry-run"]);
    assert!(dry.code == Some(0) && dry.stdout.contains("turns: 2\n"), "{}{}", dry.stdout, dry.stderr);
    assert_eq!(app.turns().await.len(), 4);
    let done = run(&app, &["retention", "run"]);
    assert!(
        done.stdout.contains("turns: 2\n") && done.stdout.contains("conversations: 1\n"),
        "{}",
        done.stdout
    );
    assert_eq!(
        app.rows("select subscriber_id from conversations").await,
        [json!({ "subscriber_id": OTHER })]
    );
}

/// MIG-8: on a database that nobody has migrated a command says so in one line.
#[tokio::test(flavor = "multi_thread")]
async fn the_commands_migrate_nothing() {
    let app = Setup::default().rules(keep_thirty_days).prepare().await;
    let empty = manychat_agent::store::embedded::testing::TestServer::empty_database().unwrap();
    let env = environment(free_port(), empty.url(), &app.folder.path);
    for words in [
        vec!["contact", "export", "1"],
        vec!["contact", "erase", "1", "--yes"],
        vec!["contact", "find", "00000000-0000-4000-8000-000000000000"],
        vec!["retention", "run"],
        vec!["outbox", "list"],
        vec!["handoffs", "list"],
    ] {
        let ended = command(&app.folder.path, &env, &words);
        assert_eq!((ended.code, ended.stderr.lines().count()), (Some(1), 1), "{words:?}: {}", ended.stderr);
        assert!(ended.stderr.contains("no tables yet"), "{}", ended.stderr);
    }
}
