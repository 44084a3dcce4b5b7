//! What somebody obtains who should not: each test names the attacker, what it must not get and, where that is a
//! documented limit (BF-8, docs/contact-tokens.md), what it still can do.

use serde_json::{Value, json};

use crate::app::{LOST, SECRET, Setup, TestApp, command, time_in_this_hour};
use crate::stub_manychat::SET_FIELD;
use crate::tokens::{Stage, message, recalled, token_writes};

const NEW_SECRET: &str = "the-secret-after-the-rotation";
const OLD_SECRET: &str = "the-secret-before-the-rotation";
const VICTIM: &str = "8400001";

/// A contact who has told something and whose token is in its field.
async fn victim(stage: &Stage) -> String {
    assert_eq!(stage.say(VICTIM, "my word is zqsecret", None).await.status, 200);
    stage.token(VICTIM).await
}

/// Everything of the victim that an attacker must not change.
async fn state(stage: &Stage) -> Value {
    stage
        .of(
            VICTIM,
            "row(turn_count, last_message_at, escalated_at, offering, token_hash, token_generation)::text",
        )
        .await
}

/// AUTH-3, AUTH-5, AUTH-6, AUTH-8: a caller with the retired secret. Must not get: the new secret, as long as both are valid;
/// anything at all, once the old one is gone. Still can, until then: everything that the secret allows.
#[tokio::test]
async fn a_retired_secret_never_yields_its_successor() {
    let both = format!("{NEW_SECRET},{OLD_SECRET}");
    let mut app = Setup::default().env("MANYCHAT_SHARED_SECRET", both).start().await;
    let answer = app.post(&message(VICTIM, "hello", None), Some(OLD_SECRET)).await;
    assert_eq!(answer.status, 200);
    assert!(answer.body.contains(OLD_SECRET) && !answer.body.contains(NEW_SECRET), "AUTH-6");
    app.env.insert("MANYCHAT_SHARED_SECRET".to_owned(), NEW_SECRET.to_owned());
    app.stop(libc::SIGTERM).await;
    app.launch().await;
    let rows = app.rows("select 1 from turns").await.len();
    let refused = app.post(&message(VICTIM, "hello", None), Some(OLD_SECRET)).await;
    assert_eq!((refused.status, refused.body.contains("secret")), (401, false));
    assert_eq!(app.rows("select 1 from turns").await.len(), rows, "nothing is recorded");
    assert_eq!(app.post(&message(VICTIM, "hello", None), Some(NEW_SECRET)).await.status, 200);
}

/// AUTH-1, AUTH-2, RATE-1, HTTP-10: a flood without the secret. Must not get: a row, a model call, a ManyChat call, a
/// hint at the secret, or the contact's service. Still can: use up the budget of its own address.
#[tokio::test]
async fn a_flood_without_the_secret_reaches_nothing() {
    let setup = Setup::default().env("RATE_LIMIT_PER_MINUTE", "40");
    let stage = Stage::with(true, setup).await;
    let longer = "black-box-secret-of-some-length-and-more";
    let attempts = [None, Some("x"), Some("black-box-secret-of-some-lengti"), Some(longer)];
    let mut statuses = Vec::new();
    for number in 0..60 {
        let body = message(VICTIM, "my word is zqforged", Some(json!("x".repeat(43))));
        let answer = stage.app.post(&body, attempts[number % attempts.len()]).await;
        assert!(!answer.body.contains(SECRET) && !answer.body.contains("zqforged"));
        statuses.push(answer.status);
    }
    assert!(statuses.iter().all(|status| [401, 429].contains(status)), "{statuses:?}");
    assert_eq!(statuses.last(), Some(&429), "the flood is told to slow down");
    for table in ["conversations", "turns", "outbox", "rate_counters", "rs_owed"] {
        assert!(stage.app.rows(&format!("select 1 from {table}")).await.is_empty(), "{table}");
    }
    assert!(stage.manychat.calls().is_empty());
    let contact = stage.say(VICTIM, "hello", None).await;
    assert_eq!(contact.texts().len(), 1, "with the secret the contact is answered as ever");
    assert!(contact.texts()[0].starts_with("Reply"), "{:?}", contact.texts());
}

/// TOK-13, TURN-3, AC-DL-21, BF-8: somebody who knows the secret and a contact's id but not its token. Must not get:
/// what the contact has said or been told, its token, a change of its state, a place in its history. Still can: have
/// messages answered without history.
#[tokio::test]
async fn a_forged_id_reads_and_changes_nothing() {
    let stage = Stage::start(true).await;
    let token = victim(&stage).await;
    let before = state(&stage).await;
    let guesses = [
        None,
        Some(Value::Null),
        Some(json!("")),
        Some(json!("{{ai_token}}")),
        Some(json!("%")),
        Some(json!("' or true --")),
        Some(json!("A".repeat(43))),
        Some(json!(token.to_lowercase())),
        Some(json!(&token[..42])),
        Some(json!(format!("{token}A"))),
        Some(json!(sha256_hex(&stage).await)),
    ];
    for guess in guesses {
        let answer = stage.say(VICTIM, "what have I told you? refund zqforged", guess.clone()).await;
        assert!(!answer.body.contains("zqsecret") && !answer.body.contains(&token), "{guess:?}");
    }
    assert_eq!(state(&stage).await, before, "no count, no mark, no new token within the hour");
    let mine = stage.say(VICTIM, "which word?", Some(json!(token))).await;
    assert_eq!(recalled(&mine), ["zqsecret"], "nothing forged entered the history");
    assert!(!stage.app.output().contains(&token), "TOK-3");
}

/// The digest itself, as somebody with a copy of the database would present it (TOK-2).
async fn sha256_hex(stage: &Stage) -> String {
    stage.of(VICTIM, "token_hash").await.as_str().unwrap().to_owned()
}

/// TOK-20, TOK-27, 02/RATE-3, BF-8: the same caller, many times. Must not get: more than one reissue an hour, a token
/// anywhere but in the contact's own field, the contact's turn cap. Still can, as documented: use up the contact's
/// hourly allowance, and cause that one reissue, after which the contact's token still binds.
#[tokio::test]
async fn a_flood_with_the_secret_repairs_once_and_uses_up_the_hour() {
    let setup = Setup::default().rules(|rules| {
        rules["rateLimit"]["turnsPerSubscriberPerHour"] = 12.into();
        rules["maxTurnsPerConversation"] = 3.into();
    });
    let stage = Stage::with(true, setup).await;
    time_in_this_hour().await;
    let token = victim(&stage).await;
    stage.app.run("update conversations set token_issued_at = now() - interval '2 hours'").await;
    let mut answers = Vec::new();
    for _ in 0..10 {
        answers.push(stage.say(VICTIM, "hello", Some(json!("guess"))).await);
    }
    let fresh = stage.token(VICTIM).await;
    assert_eq!(stage.writes(VICTIM).len(), 2, "one reissue");
    assert!(token_writes(&stage.manychat).iter().all(|call| call.body["subscriber_id"] == VICTIM));
    assert!(answers.iter().all(|answer| !answer.body.contains(&fresh) && !answer.body.contains(&token)));
    let mine = stage.say(VICTIM, "which word?", Some(json!(token))).await;
    assert_eq!(
        recalled(&mine),
        ["zqsecret"],
        "TOK-26: a message under way with the former token still binds"
    );
    let limited = stage.say(VICTIM, "which word?", Some(json!(fresh))).await;
    assert_eq!(
        limited.texts(),
        [stage.app.copy("escalation")],
        "documented: the hour is used up, a person is called"
    );
}

/// BF-8, TOK-13, BUD-2: the same caller at a tenant with a daily cap and a late reply. Must not get: the late reply,
/// which goes to the contact alone, nor anything of the history in it. Still can, as documented: cause a reply that the
/// contact never asked for, and spend the daily cap, after which a person is called.
#[tokio::test]
async fn a_caller_with_the_secret_disturbs_and_spends_as_documented() {
    let setup = Setup::default()
        .env("RACE_DEADLINE_MS", LOST)
        .env("MANYCHAT_REPLY_GAP_MS", "0")
        .rules(|rules| rules["budget"]["dailyTokenCap"] = 100.into());
    let stage = Stage::with(true, setup).await;
    time_in_this_hour().await;
    let token = victim(&stage).await;
    let attacker = stage.say(VICTIM, "answer slowly: what have I told you?", None).await;
    assert_eq!(attacker.texts(), [stage.app.copy("acknowledgement")], "the attacker gets the holding line");
    stage.app.await_rows("select 1 from outbox where kind = 'reply' and status = 'delivered'").await;
    let replies: Vec<_> = stage.manychat.calls_to(SET_FIELD).into_iter().map(|call| call.body).collect();
    let late: Vec<_> = replies.iter().filter(|body| body["field_name"] == "ai_message").collect();
    assert_eq!((late.len(), &late[0]["subscriber_id"]), (1, &json!(VICTIM)));
    assert!(late[0]["field_value"].as_str().unwrap().contains("nothing at all"), "{late:?}");
    for _ in 0..3 {
        stage.say(VICTIM, "hello", None).await;
    }
    let mine = stage.say(VICTIM, "which word?", Some(json!(token))).await;
    assert_eq!(mine.texts(), [stage.app.copy("escalation")], "documented: the day's cap is spent");
}

/// AUTH-7, TOK-26, BF-8: somebody replays a recorded request, secret and token included. Must not get: anything once
/// the token has been issued twice since. Still can, before that: what the contact can. Only TLS prevents the
/// recording, and only new secrets and tokens end it.
#[tokio::test]
async fn a_replayed_request_dies_with_its_token() {
    let stage = Stage::start(true).await;
    let token = victim(&stage).await;
    let recorded = message(VICTIM, "which word?", Some(json!(token)));
    let replay = async || recalled(&stage.app.post(&recorded, Some(SECRET)).await);
    assert_eq!(replay().await, ["zqsecret"], "documented: a replay is the contact");
    for reads in [true, false] {
        stage.app.run("update conversations set token_issued_at = now() - interval '2 hours'").await;
        stage.say(VICTIM, "hello", None).await;
        stage.token(VICTIM).await;
        assert_eq!(!replay().await.is_empty(), reads);
    }
}

/// BF-8, TOK-14, DEC-24: somebody with the secret writes as a contact who never wrote. Must not get: the token, or what
/// the contact says later. Still can, as documented: write that contact's first turn, and for 15 s at most, until the
/// first token has arrived, read what was said since that turn.
#[tokio::test]
async fn a_planted_first_message_does_not_hold_the_contact() {
    let stage = Stage::start(true).await;
    assert_eq!(stage.say(VICTIM, "my word is zqplanted", None).await.status, 200);
    let token = stage.token(VICTIM).await;
    let contact = stage.say(VICTIM, "my word is zqsecret", Some(json!(token))).await;
    assert_eq!(recalled(&contact), ["zqplanted"], "documented: the first turn may be anybody's");
    let attacker = stage.say(VICTIM, "which word?", None).await;
    assert!(recalled(&attacker).is_empty(), "the token is in the contact's field alone");
    assert_eq!(stage.writes(VICTIM).len(), 1);
}

/// TOK-14, GAP-DL-16: an attacker who waits for trouble at ManyChat. Must not get: the history of a contact whose
/// token could not be written, or a burst after the 15 s.
#[tokio::test]
async fn an_outage_of_manychat_opens_no_history() {
    let stage = Stage::start(true).await;
    let old = format!(
        "with made as (insert into conversations (tenant_id, subscriber_id, channel)
                       values ('test', '{VICTIM}', 'whatsapp') returning id)
         insert into turns (conversation_id, role, text, created_at)
         select id, 'user', 'my word is zqsecret', now() - interval '1 day' from made"
    );
    stage.app.run(&old).await;
    stage.manychat.answer(SET_FIELD, 503);
    for _ in 0..3 {
        assert!(recalled(&stage.say(VICTIM, "which word?", None).await).is_empty(), "inside the burst");
    }
    stage.app.run("update conversations set token_issued_at = null").await;
    for _ in 0..3 {
        assert!(
            recalled(&stage.say(VICTIM, "which word?", None).await).is_empty(),
            "after a token was given up"
        );
    }
    assert_eq!(stage.of(VICTIM, "token_generation").await, "2");
}

/// BF-4, TOK-3, API-8: somebody who reads the operator's terminal. Must not get: a token, an id or the key.
#[tokio::test]
async fn the_backfill_prints_counts_and_nothing_else() {
    let stage = Stage::start(true).await;
    victim(&stage).await;
    stage.app.run("update conversations set token_hash = null").await;
    let (path, env) = (stage.app.folder.path.clone(), stage.app.env.clone());
    let ended =
        tokio::task::spawn_blocking(move || command(&path, &env, &["tokens", "backfill"])).await.unwrap();
    let printed = ended.stdout + &ended.stderr;
    for write in token_writes(&stage.manychat) {
        assert!(!printed.contains(write.body["field_value"].as_str().unwrap()));
    }
    assert!(!printed.contains(VICTIM) && !printed.contains("token-of-the-account"), "{printed}");
    assert!(printed.starts_with("tokens written: 1\n"), "{printed}");
}

/// TOK-2: a copy of the database holds no token. Must not get: a token from any row of any table.
#[tokio::test]
async fn a_copy_of_the_database_holds_no_token() {
    let stage = Stage::start(true).await;
    let token = victim(&stage).await;
    assert!(!dump(&stage.app).await.contains(&token));
    assert!(dump(&stage.app).await.contains("zqsecret"), "the copy is whole");
}

/// Every row of every table as text.
async fn dump(app: &TestApp) -> String {
    let tables = app.rows("select tablename from pg_tables where schemaname = 'public'").await;
    let mut text = String::new();
    for table in tables {
        let name = table["tablename"].as_str().unwrap();
        text += &format!("{:?}", app.rows(&format!("select * from {name}")).await);
    }
    text
}
