//! A person is called, takes over, and is done (DEC-25, DEC-9).

use std::time::Duration;

use serde_json::{Value, json};

use crate::app::{
    ABORTED, BEAT, CONTACT, DEAD, Ended, LOST, SECRET, Setup, TestApp, command, environment, eventually,
    free_port, write_tenant,
};
use crate::stub_manychat::{ADD_TAG, GET_INFO, GET_TAGS, REMOVE_TAG, SEND_FLOW, StubManyChat};

const HANDOFF: &str = "this is a scam, refund!";
const TAG: &str = "needs-person";

fn call_a_person(rules: &mut Value) {
    rules["handoff"] = json!({ "tag": TAG });
}

fn pause(rules: &mut Value) {
    rules["takeover"] = json!({ "pauseMinutes": 30 });
}

fn pause_by_tag(rules: &mut Value) {
    rules["takeover"] = json!({ "tag": TAG });
}

fn call_and_pause_by_the_same_tag(rules: &mut Value) {
    call_a_person(rules);
    pause_by_tag(rules);
}

pub fn with(stub: &StubManyChat) -> Setup {
    Setup::default()
        .env("MANYCHAT_API_TOKEN", "1234:a-key-of-the-stub")
        .env("MANYCHAT_API_BASE", &stub.url)
        .env("MANYCHAT_REPLY_FLOW_NS", "content_reply")
        .env("MANYCHAT_REPLY_GAP_MS", "0")
}

fn run(app: &TestApp, words: &[&str]) -> Ended {
    command(&app.folder.path, &app.env, words)
}

async fn tag_state(app: &TestApp, state: &str) {
    let sql = "select tag_state from rs_handoffs";
    app.await_that(sql, |rows| rows.first().is_some_and(|row| row["tag_state"] == state)).await;
}

/// DEC-25: after an inline handoff the tag is added once, for this contact; closing takes it off.
#[tokio::test(flavor = "multi_thread")]
async fn a_handoff_calls_a_person_and_closing_it_ends_the_call() {
    let stub = StubManyChat::start().await;
    let app = with(&stub).rules(call_a_person).start().await;
    assert_eq!(app.send(HANDOFF).await.texts(), [app.copy("escalation")]);
    let call = stub.await_call(ADD_TAG).await;
    assert_eq!(call.body, json!({ "subscriber_id": CONTACT, "tag_name": TAG }));
    tag_state(&app, "added").await;
    assert!(app.log_line("person called").await["conversation"].is_string());

    let listed = run(&app, &["handoffs", "list"]);
    assert_eq!(listed.code, Some(0), "{}", listed.stderr);
    let id = app.rows("select conversation_id, id from rs_handoffs").await[0].clone();
    assert!(listed.stdout.contains(id["id"].as_str().unwrap()), "{}", listed.stdout);
    assert!(!listed.stdout.contains(CONTACT) && !listed.stdout.contains("scam"), "{}", listed.stdout);
    let json: Value = serde_json::from_str(&run(&app, &["handoffs", "list", "--json"]).stdout).unwrap();
    assert_eq!((&json[0]["conversation"], &json[0]["tag_state"]), (&id["conversation_id"], &json!("added")));
    assert_eq!(json[0]["closed_at"], Value::Null);

    let escalated = app.rows("select escalated_at from conversations").await;
    let closed = run(&app, &["handoffs", "close", id["id"].as_str().unwrap()]);
    assert_eq!(closed.code, Some(0), "{}", closed.stderr);
    assert!(closed.stdout.contains(TAG), "{}", closed.stdout);
    let call = stub.await_call(REMOVE_TAG).await;
    assert_eq!(call.body, json!({ "subscriber_id": CONTACT, "tag_name": TAG }));
    app.await_that("select untag_state from rs_handoffs", |rows| rows[0]["untag_state"] == "removed").await;
    assert_eq!(app.rows("select escalated_at from conversations").await, escalated, "ESCS-3");
    assert_eq!((stub.calls_to(ADD_TAG).len(), stub.calls_to(REMOVE_TAG).len()), (1, 1));
    assert_eq!(run(&app, &["handoffs", "list"]).stdout, "no open handoffs\n");
    assert!(run(&app, &["handoffs", "list", "--all"]).stdout.contains("operator"));
    app.send(HANDOFF).await;
    app.await_that("select 1 from rs_handoffs where tag_state = 'added'", |rows| rows.len() == 2).await;
    assert_eq!(stub.calls_to(ADD_TAG).len(), 2, "the next handoff calls anew");
    let erased = run(&app, &["contact", "erase", CONTACT, "--yes"]);
    assert!(
        erased.code == Some(0) && erased.stderr.contains(TAG),
        "what is left there is named: {}",
        erased.stderr
    );
    for (name, text) in [("the contact", CONTACT), ("the words", "this is a")] {
        assert!(!app.output().contains(text), "{name} in the log");
    }
}

/// DEC-25: a late handoff's text is delivered first; a person is called for a dead letter too.
#[tokio::test(flavor = "multi_thread")]
async fn a_late_handoff_calls_after_its_text() {
    let stub = StubManyChat::start().await;
    stub.answer(SEND_FLOW, 503);
    let app = with(&stub)
        .rules(call_a_person)
        .env("AGENT_MODEL", "mock:slow")
        .env("RACE_DEADLINE_MS", LOST)
        .env("MODEL_ABORT_MS", ABORTED)
        .start()
        .await;
    app.send("how much is it?").await;
    stub.await_call(SEND_FLOW).await;
    app.await_rows("select 1 from rs_handoffs").await;
    tokio::time::sleep(Duration::from_millis(1500)).await;
    assert_eq!(stub.calls_to(ADD_TAG).len(), 0, "the text is not out yet");
    stub.answer(SEND_FLOW, 200);
    stub.await_call(ADD_TAG).await;
    let paths: Vec<String> = stub.calls().into_iter().map(|call| call.path).collect();
    let last_flow = paths.iter().rposition(|path| path == SEND_FLOW).unwrap();
    assert!(last_flow < paths.iter().position(|path| path == ADD_TAG).unwrap(), "{paths:?}");
}

/// DEC-25, DEC-31: when even the text cannot be delivered, a person is called all the same.
#[tokio::test(flavor = "multi_thread")]
async fn a_dead_letter_calls_a_person() {
    let stub = StubManyChat::start().await;
    stub.answer(SEND_FLOW, 400);
    let app = with(&stub).rules(call_a_person).start().await;
    app.run("insert into conversations (tenant_id, subscriber_id, channel) values ('test', '70010001', 'whatsapp');
        insert into outbox (tenant_id, subscriber_id, conversation_id, payload)
        select 'test', subscriber_id, id, '{\"messages\": [\"Hello.\"]}' from conversations").await;
    stub.await_call(ADD_TAG).await;
    assert_eq!(app.rows("select status from outbox").await, [json!({ "status": "failed" })]);
}

/// DEC-25, ARC-41: a refusal is recorded by its kind, shown to the operator, and not repeated.
#[tokio::test(flavor = "multi_thread")]
async fn a_refused_tag_is_recorded_and_not_tried_again() {
    let stub = StubManyChat::start().await;
    stub.answer(ADD_TAG, 400);
    let app = with(&stub).rules(call_a_person).start().await;
    app.send(HANDOFF).await;
    tag_state(&app, "failed").await;
    let line = app.log_line("person not called: the tag was not added").await;
    assert_eq!(line["level"], 50);
    tokio::time::sleep(Duration::from_millis(1500)).await;
    assert_eq!(stub.calls_to(ADD_TAG).len(), 1);
    let listed = run(&app, &["handoffs", "list"]).stdout;
    assert!(listed.contains("no, failed (api_error 400)"), "{listed}");
}

/// ARC-41: what a process that died had not attempted is done by the next, once; what it may have done is not repeated.
#[tokio::test(flavor = "multi_thread")]
async fn a_call_survives_the_death_of_its_process() {
    let stub = StubManyChat::start().await;
    let quick = |setup: Setup| setup.env("PROCESS_BEAT_MS", BEAT).env("PROCESS_DEAD_MS", DEAD);
    let mut app = quick(with(&stub)).rules(call_a_person).start().await;
    stub.fall_silent(ADD_TAG);
    app.send(HANDOFF).await;
    stub.await_call(ADD_TAG).await;
    app.stop(libc::SIGKILL).await;
    app.run("insert into rs_handoffs (conversation_id, reason) select id, 'complaint' from conversations")
        .await;
    app.launch().await;
    let sql = "select tag_state from rs_handoffs order by opened_at";
    // The second call is not answered either: how it stands depends on when the death of the first process is noticed.
    app.await_that(sql, |rows| {
        rows[0]["tag_state"] == "unknown"
            && [json!("attempting"), json!("unknown")].contains(&rows[1]["tag_state"])
    })
    .await;
    // The claim stands in the table before the call is made.
    eventually("a second call", || stub.calls_to(ADD_TAG).len() >= 2).await;
    assert_eq!(stub.calls_to(ADD_TAG).len(), 2, "one for each handoff");
}

/// ARC-41, DEC-25: of many calls that waited for ManyChat's rate when their process died, only one that had begun may stay
/// unknown; every other contact gets their call from the next process, and nobody gets two.
#[tokio::test(flavor = "multi_thread")]
async fn calls_that_waited_for_the_rate_survive_the_death_of_their_process() {
    const CONTACTS: usize = 20;
    let stub = StubManyChat::start().await;
    let mut app = with(&stub)
        .rules(call_a_person)
        .env("PROCESS_BEAT_MS", BEAT)
        .env("PROCESS_DEAD_MS", DEAD)
        .env("MANYCHAT_CALLS_PER_SECOND", "1")
        .start()
        .await;
    app.run(&format!(
        "with made as (insert into conversations (tenant_id, subscriber_id, channel)
                       select 'test', (70020000 + n)::text, 'whatsapp' from generate_series(1, {CONTACTS}) n returning id)
         insert into rs_handoffs (conversation_id, reason) select id, 'complaint' from made"
    ))
    .await;
    // Behind the burst one call begins a second, so that one at most is under way.
    app.await_that("select 1 from rs_handoffs where tag_state = 'added'", |rows| rows.len() >= 6).await;
    app.stop(libc::SIGKILL).await;
    app.env.insert("MANYCHAT_CALLS_PER_SECOND".to_owned(), "50".to_owned());
    app.run("delete from rs_rate").await;
    app.launch().await;
    let sql = "select tag_state from rs_handoffs where tag_state in ('added', 'unknown')";
    app.await_that(sql, |rows| rows.len() == CONTACTS).await;
    let unknown = app.rows("select 1 from rs_handoffs where tag_state = 'unknown'").await.len();
    assert!(unknown <= 1, "{unknown} were given up");
    let mut called: Vec<String> =
        stub.calls_to(ADD_TAG).iter().map(|call| call.body["subscriber_id"].to_string()).collect();
    called.sort_unstable();
    let calls = called.len();
    called.dedup();
    assert_eq!(called.len(), calls, "somebody was called twice");
    assert!(called.len() + unknown >= CONTACTS);
}

/// DEC-25, BOX-13: a removal that ManyChat refuses for now is made again, and the next handoff's call comes after it.
#[tokio::test(flavor = "multi_thread")]
async fn a_removal_is_tried_again_before_the_next_call() {
    let stub = StubManyChat::start().await;
    let app = with(&stub).rules(call_a_person).start().await;
    app.send(HANDOFF).await;
    tag_state(&app, "added").await;
    stub.answer(REMOVE_TAG, 429);
    assert_eq!(run(&app, &["handoffs", "close", "--subscriber", CONTACT]).code, Some(0));
    assert_eq!(app.log_line("handoff tag not removed yet").await["level"], 40);
    app.send(HANDOFF).await;
    app.await_rows("select 1 from rs_handoffs where closed_at is null").await;
    stub.answer(REMOVE_TAG, 200);
    app.await_that("select 1 from rs_handoffs where tag_state = 'added'", |rows| rows.len() == 2).await;
    let paths: Vec<String> = stub.calls().into_iter().map(|call| call.path).collect();
    let tags: Vec<&str> =
        paths.iter().map(String::as_str).filter(|path| [ADD_TAG, REMOVE_TAG].contains(path)).collect();
    assert_eq!(tags.first(), Some(&ADD_TAG));
    assert_eq!(tags[tags.len() - 2..], [REMOVE_TAG, ADD_TAG], "{tags:?}");
    assert_eq!(tags.iter().filter(|path| **path == ADD_TAG).count(), 2);
}

/// DEC-25 is off without a rule, and an unbound message calls nobody (ESCS-2).
#[tokio::test(flavor = "multi_thread")]
async fn nobody_is_called_without_a_rule_or_for_an_unbound_message() {
    let stub = StubManyChat::start().await;
    let app = with(&stub).start().await;
    app.send(HANDOFF).await;
    app.await_rows("select 1 from rs_handoffs").await;
    let app_enforced = with(&stub).rules(call_a_person).env("CONTACT_TOKENS_ENFORCED", "true").start().await;
    app_enforced
        .run(
            "insert into conversations (tenant_id, subscriber_id, channel, token_hash)
              values ('test', '70010001', 'whatsapp', 'somebody-elses')",
        )
        .await;
    app_enforced.send(HANDOFF).await;
    app_enforced.log_line("turn complete").await;
    tokio::time::sleep(Duration::from_millis(1500)).await;
    assert_eq!(app_enforced.rows("select 1 from rs_handoffs").await.len(), 0);
    assert_eq!(stub.calls_to(ADD_TAG).len(), 0);
}

/// DEC-9, OUT-8: silence with a callback after a handoff; messages are recorded; the pause ends by its minutes, once.
#[tokio::test(flavor = "multi_thread")]
async fn the_agent_is_silent_while_a_person_has_taken_over() {
    let app = Setup::default().rules(pause).start().await;
    assert_eq!(app.send(HANDOFF).await.texts().len(), 1);
    for text in ["hello?", "begin larkspur chat", "talk to a person"] {
        let silent = app.send(text).await;
        assert_eq!((silent.status, silent.json()["version"].as_str()), (200, Some("v2")));
        assert_eq!(silent.json()["content"]["messages"], json!([]), "{text}");
        assert!(silent.json()["content"]["external_message_callback"].is_object());
    }
    let turns = app.turns().await;
    let roles: Vec<&str> = turns.iter().map(|turn| turn["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["user", "agent", "user", "user", "user"]);
    assert_eq!(app.rows("select 1 from rs_owed").await.len(), 0, "nothing is owed");
    assert_eq!(app.rows("select 1 from rs_lanes where turn_id is not null").await.len(), 0);
    assert_eq!(app.log_lines("turn silent: a person has taken over", 3).await.len(), 3);
    app.run("update rs_handoffs set opened_at = now() - interval '31 minutes'").await;
    for text in ["how much is it?", "when does it start?"] {
        assert_eq!(app.send(text).await.texts().len(), 1, "{text}");
    }
    let handoffs = app.rows("select closed_by from rs_handoffs").await;
    assert_eq!(handoffs, [json!({ "closed_by": "pause_over" })]);
}

/// DEC-9 is off without a rule, and a new handoff of the agent starts the minutes anew.
#[tokio::test(flavor = "multi_thread")]
async fn a_new_handoff_starts_the_minutes_anew() {
    let app = TestApp::start().await;
    app.send(HANDOFF).await;
    assert_eq!(app.send("how much is it?").await.texts().len(), 1, "off by default");
    let app = Setup::default().rules(pause).start().await;
    app.send(HANDOFF).await;
    app.run(
        "insert into rs_handoffs (conversation_id, reason, opened_at)
             select id, 'complaint', now() - interval '31 minutes' from conversations",
    )
    .await;
    assert_eq!(app.send("how much is it?").await.texts().len(), 0, "one of the two is younger");
}

/// DEC-9: who turns the rule on while the agent chats with a contact, handed over long ago, silences nobody.
#[tokio::test(flavor = "multi_thread")]
async fn a_rule_that_comes_later_silences_nobody_in_the_middle_of_a_chat() {
    let mut app = TestApp::start().await;
    app.send(HANDOFF).await;
    assert_eq!(app.send("how much is it?").await.texts().len(), 1);
    app.stop(libc::SIGTERM).await;
    write_tenant(&app.folder.path.join("config"), Some(pause));
    app.launch().await;
    assert_eq!(app.send("when does it start?").await.texts().len(), 1, "the agent has gone on");
    assert_eq!(app.send(HANDOFF).await.texts().len(), 1);
    assert_eq!(app.send("hello?").await.texts().len(), 0, "the next handoff pauses");
}

/// DEC-9, CAP-4: messages in a takeover do not use up the conversation's turns, or its end would be another handoff.
#[tokio::test(flavor = "multi_thread")]
async fn a_takeover_uses_up_no_turns() {
    let app = Setup::default()
        .rules(|rules| {
            pause(rules);
            rules["maxTurnsPerConversation"] = json!(3);
        })
        .start()
        .await;
    assert_eq!(app.send(HANDOFF).await.texts().len(), 1);
    for text in ["one", "two", "three", "four"] {
        assert_eq!(app.send(text).await.texts().len(), 0, "{text}");
    }
    app.run("update rs_handoffs set opened_at = now() - interval '31 minutes'").await;
    assert_eq!(app.send("how much is it?").await.texts().len(), 1);
    assert_eq!(app.rows("select 1 from rs_handoffs").await.len(), 1, "no second handoff");
}

/// DEC-9, TOK-13, 04 section 8.1: under enforcement only the proved contact is kept silent and read.
#[tokio::test(flavor = "multi_thread")]
async fn a_takeover_is_the_contacts_own() {
    let stub = StubManyChat::start().await;
    stub.set_tags(&[TAG]);
    let app = with(&stub).rules(pause_by_tag).env("CONTACT_TOKENS_ENFORCED", "true").start().await;
    let digest = manychat_agent::turn::digest("right");
    app.run(&format!(
        "insert into conversations (tenant_id, subscriber_id, channel, token_hash, token_issued_at)
           values ('test', '{CONTACT}', 'whatsapp', '{digest}', now());
         insert into rs_handoffs (conversation_id, reason) select id, 'complaint' from conversations"
    ))
    .await;
    let bound = json!({ "subscriber_id": CONTACT, "text": "hello?", "ai_token": "right" }).to_string();
    assert_eq!(app.post(&bound, Some(SECRET)).await.texts().len(), 0);
    assert_eq!(stub.calls_to(GET_INFO).len(), 1);
    assert_eq!(app.send("how much is it?").await.texts().len(), 1, "an unbound message stands for itself");
    assert_eq!(stub.calls_to(GET_INFO).len(), 1);
}

/// DEC-9, READ-6: silence while ManyChat shows the tag, or does not answer; then the handoff is over.
#[tokio::test(flavor = "multi_thread")]
async fn the_pause_lasts_while_manychat_shows_the_tag() {
    let stub = StubManyChat::start().await;
    stub.set_tags(&["other", TAG]);
    let app = with(&stub).rules(pause_by_tag).start().await;
    app.send(HANDOFF).await;
    assert_eq!(app.send("hello?").await.texts().len(), 0);
    assert_eq!(stub.calls_to(GET_INFO).len(), 1);
    stub.answer(GET_INFO, 503);
    assert_eq!(app.send("anybody?").await.texts().len(), 0, "nobody knows");
    assert_eq!(app.log_line("contact read failed").await["level"], 40);
    stub.answer(GET_INFO, 200);
    stub.set_tags(&["other"]);
    assert_eq!(app.send("how much is it?").await.texts().len(), 1);
    let closed = app.rows("select closed_by from rs_handoffs").await;
    assert_eq!(closed, [json!({ "closed_by": "tag_gone" })]);
    let reads = stub.calls_to(GET_INFO).len();
    assert_eq!(app.send("when does it start?").await.texts().len(), 1);
    assert_eq!(stub.calls_to(GET_INFO).len(), reads, "no read without an open handoff");
}

/// READ-6: a read that hangs is given up in time.
#[tokio::test(flavor = "multi_thread")]
async fn a_read_that_hangs_costs_a_second_and_a_half() {
    let stub = StubManyChat::start().await;
    stub.fall_silent(GET_INFO);
    let app = with(&stub).rules(pause_by_tag).start().await;
    app.send(HANDOFF).await;
    let answer = app.send("hello?").await;
    assert_eq!(answer.texts().len(), 0);
    assert!(
        answer.elapsed < Duration::from_secs(9),
        "a call may take 10 s, this one not: {:?}",
        answer.elapsed
    );
}

/// DEC-9, RACE-5: while it may be silence, the deadline brings no holding line.
#[tokio::test(flavor = "multi_thread")]
async fn no_holding_line_is_sent_during_a_takeover() {
    let stub = StubManyChat::start().await;
    stub.fall_silent(GET_INFO);
    // Before the read of the tag is given up (READ-6), and as long as possible for opening the turn.
    let app = with(&stub).rules(pause_by_tag).env("RACE_DEADLINE_MS", "1400").start().await;
    app.send(HANDOFF).await;
    assert_eq!(app.send("hello?").await.texts().len(), 0);
    app.log_line("turn silent: a person has taken over").await;
    assert_eq!(app.rows("select 1 from outbox where kind = 'reply'").await.len(), 0, "nothing follows");
    assert_eq!(app.rows("select 1 from rs_owed where status = 'running'").await.len(), 0);
}

/// DEC-9, DEC-25: the tag that calls the person may be the one that is waited for; before it is there, nothing ends.
#[tokio::test(flavor = "multi_thread")]
async fn one_tag_can_call_and_keep_silent() {
    let stub = StubManyChat::start().await;
    stub.fall_silent(ADD_TAG);
    let app = with(&stub).rules(call_and_pause_by_the_same_tag).start().await;
    app.send(HANDOFF).await;
    assert_eq!(app.send("hello?").await.texts().len(), 0, "the tag is on its way");
    assert_eq!(stub.calls_to(GET_INFO).len(), 0);
}

/// CLI-6, PROC-7: what cannot be closed, and whose.
#[tokio::test(flavor = "multi_thread")]
async fn closing_names_what_it_does_and_refuses_the_rest() {
    let app = Setup::default().rules(pause).start().await;
    app.send(HANDOFF).await;
    app.await_rows("select 1 from rs_handoffs").await;
    let unknown = "00000000-0000-4000-8000-000000000000";
    for words in [vec!["handoffs", "close"], vec!["handoffs", "close", "7"], vec!["handoffs"]] {
        assert_eq!(run(&app, &words).code, Some(2), "{words:?}");
    }
    let missing = run(&app, &["handoffs", "close", unknown]);
    assert_eq!((missing.code, missing.stderr.lines().count()), (Some(1), 1), "{}", missing.stderr);
    let mut foreign = app.env.clone();
    foreign.insert("TENANT_ID".to_owned(), "other".to_owned());
    let by_contact = ["handoffs", "close", "--subscriber", CONTACT];
    assert_eq!(command(&app.folder.path, &foreign, &by_contact).code, Some(1));
    assert_eq!(command(&app.folder.path, &foreign, &["handoffs", "list"]).stdout, "no open handoffs\n");
    let closed = run(&app, &by_contact);
    assert_eq!(closed.code, Some(0), "{}", closed.stderr);
    assert!(!closed.stdout.contains(CONTACT), "{}", closed.stdout);
    let again = run(&app, &by_contact);
    assert!(again.code == Some(1) && again.stderr.contains("nothing to close"), "{}", again.stderr);
    assert_eq!(app.send("how much is it?").await.texts().len(), 1, "the agent answers again");
}

/// DEC-25, CLI-6: several at once; what cannot be closed is named and does not hold up the others.
#[tokio::test(flavor = "multi_thread")]
async fn several_handoffs_are_closed_at_once() {
    let app = TestApp::start().await;
    for contact in ["70010001", "70010002", "70010003"] {
        app.send_as(contact, HANDOFF).await;
    }
    let open = app.await_that("select id from rs_handoffs", |rows| rows.len() == 3).await;
    let ids: Vec<&str> = open.iter().map(|row| row["id"].as_str().unwrap()).collect();
    let unknown = "00000000-0000-4000-8000-000000000000";
    let closed = run(&app, &["handoffs", "close", ids[0], unknown, ids[1], ids[0]]);
    assert_eq!(closed.code, Some(1), "{}", closed.stdout);
    assert_eq!((closed.stdout.lines().count(), closed.stderr.lines().count()), (2, 1), "{}", closed.stderr);
    assert!(closed.stderr.contains(unknown), "{}", closed.stderr);
    let again = run(&app, &["handoffs", "close", ids[0], ids[2]]);
    assert!(again.code == Some(1) && again.stdout.contains(ids[2]), "{}", again.stdout);
    assert!(again.stderr.contains(&format!("{} has no open handoff", ids[0])), "{}", again.stderr);
    assert_eq!(run(&app, &["handoffs", "close", "--subscriber", CONTACT, ids[1]]).code, Some(2));
    assert_eq!(run(&app, &["handoffs", "list"]).stdout, "no open handoffs\n");
}

/// DEC-25, GAP-CFG-10: `config check --online` says plainly what is missing.
#[tokio::test(flavor = "multi_thread")]
async fn an_online_check_finds_a_tag_that_does_not_exist() {
    let stub = StubManyChat::start().await;
    let folder = crate::app::Folder::new();
    write_tenant(&folder.path.join("config"), Some(call_a_person));
    let mut env = environment(free_port(), "postgres://app@127.0.0.1:1/none", &folder.path);
    env.insert("MANYCHAT_API_BASE".to_owned(), stub.url.clone());
    let check = |env: &_| command(&folder.path, env, &["config", "check", "--online"]);
    let without = check(&env);
    assert!(without.code == Some(1) && without.stderr.contains("MANYCHAT_API_TOKEN"), "{}", without.stderr);
    env.insert("MANYCHAT_API_TOKEN".to_owned(), "1234:a-key-of-the-stub".to_owned());
    stub.set_tags(&["needs-Person", "other"]);
    let missing = check(&env);
    assert_eq!((missing.code, missing.stderr.lines().count()), (Some(1), 1), "{}", missing.stderr);
    assert!(
        missing.stderr.contains("handoff.tag") && missing.stderr.contains("create it"),
        "{}",
        missing.stderr
    );
    stub.set_tags(&["other", TAG]);
    let good = check(&env);
    assert_eq!(good.code, Some(0), "{}", good.stderr);
    assert!(good.stdout.contains("config check passed"), "{}", good.stdout);
    stub.answer(GET_TAGS, 401);
    let refused = check(&env);
    assert!(refused.code == Some(1) && refused.stderr.contains("401"), "{}", refused.stderr);
    assert!(!refused.stderr.contains("a-key-of-the-stub"));
}
