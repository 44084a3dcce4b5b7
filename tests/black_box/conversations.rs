//! What is kept of a contact from one message to the next (02 sections 3, 4 and 7 to 10).

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;

use crate::app::{CONTACT, LOST, SECRET, Setup, TestApp, time_in_this_hour};
use crate::stub_model::StubModel;
use crate::stub_providers::{KEY, StubProviders};

/// The service with this model behind OpenAI's wire.
fn with(model: &StubModel) -> Setup {
    Setup::default()
        .env("AGENT_MODEL", "openai:stub")
        .env("OPENAI_API_KEY", "any-key")
        .env("OPENAI_BASE_URL", model.base_url.clone())
}

/// IN-2: of the contact the model is shown the words, and neither name nor locale, in this turn and the next.
#[tokio::test]
async fn the_model_is_shown_no_name_and_no_locale() {
    let providers = StubProviders::start();
    let setup = Setup::default().env("AGENT_MODEL", "openai:stub").env("OPENAI_API_KEY", KEY);
    let app = setup.env("OPENAI_BASE_URL", format!("{}/openai/v1", providers.address)).start().await;
    for text in ["zqfirst", "zqsecond"] {
        let body = json!({
            "subscriber_id": CONTACT, "text": text, "first_name": "Zebulon", "last_name": "Quartz",
            "locale": "qx_QX", "ai_token": "token-of-zebulon",
        });
        assert_eq!(app.post(&body.to_string(), Some(SECRET)).await.texts().len(), 1);
    }
    let [_, last] = &providers.asked()[..] else { panic!("two calls") };
    let asked = last.to_string();
    assert!(asked.contains("zqfirst") && asked.contains("zqsecond"), "{asked}");
    for hidden in ["Zebulon", "Quartz", "qx_QX", "token-of-zebulon", CONTACT] {
        assert!(!asked.contains(hidden), "{hidden}");
    }
}

/// 02/CAP-1, 02/CAP-3: a denied message counts as one that was written, so that only a real gap ends the cap.
#[tokio::test]
async fn a_denied_message_keeps_the_contact_capped() {
    let app = Setup::default().rules(|rules| rules["maxTurnsPerConversation"] = json!(1)).start().await;
    assert_ne!(app.send("how much is it?").await.texts(), [app.copy("escalation")]);
    app.run("update conversations set last_message_at = now() - interval '23 hours'").await;
    assert_eq!(app.send("is there a certificate?").await.texts(), [app.copy("escalation")]);
    let moved =
        "select last_message_at > now() - interval '5 minutes' as moved, turn_count from conversations";
    assert_eq!(app.rows(moved).await, [json!({"moved": true, "turn_count": 2})]);
    app.run("update conversations set last_message_at = last_message_at - interval '2 hours'").await;
    assert_eq!(app.send("is there a certificate?").await.texts(), [app.copy("escalation")]);
}

/// 02/RATE-1, 02/RATE-2, 02/AC-9, W-8, W-9: of six messages at once a limit of three lets three reach the model; all are
/// counted.
#[tokio::test]
async fn of_six_messages_at_once_three_reach_the_model() {
    let setup = Setup::default().rules(|rules| {
        rules["rateLimit"] = json!({"turnsPerSubscriberPerHour": 3});
        rules["burst"] = json!({"answerTogether": false});
    });
    let app = setup.start().await;
    time_in_this_hour().await;
    let sent: Vec<_> = (0..6).map(|number| app.send_later(CONTACT, &format!("{number}. price?"))).collect();
    for request in sent {
        assert_eq!(request.await.unwrap().texts().len(), 1);
    }
    let outcomes = "select outcome, count(*) as turns from turns where role = 'agent' group by 1 order by 1";
    let [answered, denied] = &app.rows(outcomes).await[..] else { panic!("two outcomes") };
    assert_eq!(*answered, json!({"outcome": "answered_inline", "turns": 3}));
    assert_eq!(*denied, json!({"outcome": "escalated_precheck", "turns": 3}));
    assert_eq!(app.rows("select sum(count) as all from rate_counters").await, [json!({"all": 6})]);
}

/// BUD-7, W-14: the day's spend is the tenant's; whoever passes a cap is still answered, and the next contact is not.
#[tokio::test]
async fn a_daily_cap_is_shared_by_all_contacts() {
    let caps = |rules: &mut serde_json::Value| {
        rules["budget"] = json!({"dailyTokenCap": 1000, "dailyCostCapUsd": 5});
    };
    let app = Setup::default().rules(caps).start().await;
    time_in_this_hour().await;
    assert!(app.send_as("70010001", "how much is it?").await.texts()[0].contains("$450.00"));
    app.await_rows("select 1 from budget_counters where tokens = 1260").await;
    assert_eq!(app.send_as("70010002", "how much is it?").await.texts(), [app.copy("escalation")]);
    let detail = app.log_line("turn escalated before model").await["detail"].to_string();
    assert!(detail.contains("daily token cap"), "{detail}");
}

/// CONV-2, CONV-3, W-1, W-2: the same subscriber of another tenant is another contact.
#[tokio::test]
async fn tenants_share_no_contact() {
    let app = TestApp::start().await;
    app.run(
        "insert into conversations (tenant_id, subscriber_id, channel, turn_count)
           values ('other', '70010001', 'whatsapp', 24)",
    )
    .await;
    app.send("hello").await;
    let counts = app.rows("select tenant_id, turn_count from conversations order by tenant_id").await;
    assert_eq!(
        counts,
        [json!({"tenant_id": "other", "turn_count": 24}), json!({"tenant_id": "test", "turn_count": 1})]
    );
}

/// CONV-10: with a conversation go its turns and what was to be delivered.
#[tokio::test]
async fn a_deleted_conversation_leaves_nothing() {
    let app = Setup::default().command(&["serve", "--no-workers"]).start().await;
    app.send("hello").await;
    app.await_idle().await;
    app.run(
        "insert into outbox (tenant_id, subscriber_id, conversation_id, kind, payload)
           select tenant_id, subscriber_id, id, 'reply', '{\"messages\": [\"x\"]}' from conversations;
         delete from conversations",
    )
    .await;
    let left = "select (select count(*) from turns) as turns, (select count(*) from outbox) as outbox";
    assert_eq!(app.rows(left).await, [json!({"turns": 0, "outbox": 0})]);
}

/// 02/AC-8, 02/AC-14, QUIET-1, QUIET-2, HISTW-6, HISTW-7, ESCS-3: two weeks later, and after a restart, a contact who was
/// handed over has a fresh cap and the old context; after the window the context is gone, but nothing is deleted.
#[tokio::test]
async fn a_contact_who_comes_back_has_context_and_a_fresh_cap() {
    let model = StubModel::start();
    let mut app = with(&model).rules(|rules| rules["maxTurnsPerConversation"] = json!(2)).start().await;
    app.send("remember zqalder").await;
    app.send("remember zqbirch").await;
    assert_eq!(app.send("and now?").await.texts(), [app.copy("escalation")]);
    let marked = app.rows("select id, escalated_at from conversations").await;

    app.stop(15).await;
    let pass = "update turns set created_at = created_at - interval '14 days';
                update conversations set last_message_at = last_message_at - interval '14 days'";
    app.run(pass).await;
    app.launch().await;
    let said = app.send("what have I told you?").await.texts().concat();
    assert!(said.contains("zqalder") && said.contains("zqbirch"), "{said}");
    assert_eq!(app.rows("select turn_count from conversations").await, [json!({"turn_count": 1})]);
    assert_eq!(
        app.rows("select id, escalated_at from conversations").await,
        marked,
        "the same, still marked"
    );

    app.await_idle().await;
    app.run(&pass.replace("14", "31")).await;
    let said = app.send("what have I told you?").await.texts().concat();
    assert!(said.contains("nothing at all"), "{said}");
    assert_eq!(app.turns().await.len(), 10);
}

/// WRITE-2, WRITE-6, W-5, W-13, W-16, QUIET-4: while the model runs the question is recorded and no answer; the holding
/// line never is; the reply is recorded as `deferred` when it is known.
#[tokio::test]
async fn a_lost_race_records_the_reply_and_not_the_holding_line() {
    let stub = StubProviders::start();
    stub.pause(Duration::from_secs(7));
    let mut setup = Setup::default().command(&["serve", "--no-workers"]).env("AGENT_MODEL", "openai:stub");
    setup.env.extend([("OPENAI_API_KEY", KEY.to_owned()), ("RACE_DEADLINE_MS", LOST.to_owned())]);
    let app = setup.env("OPENAI_BASE_URL", format!("{}/openai/v1", stub.address)).start().await;
    let answer = app.send("how much is it?").await;
    assert_eq!(answer.texts(), [app.copy("acknowledgement")]);
    assert_eq!(answer.json()["content"]["external_message_callback"]["timeout"], 86400);
    let recorded = "select role, text, outcome from turns order by seq";
    let question = json!({"role": "user", "text": "how much is it?", "outcome": null});
    assert_eq!(app.rows(recorded).await, std::slice::from_ref(&question));
    let rows = app.await_that(recorded, |rows| rows.len() > 1).await;
    assert_eq!(rows, [question, json!({"role": "agent", "text": "Hello.", "outcome": "deferred"})]);
    app.await_rows("select 1 from outbox where kind = 'reply' and payload->'messages'->>0 = 'Hello.'").await;
}

/// 02/AC-15, ESCS-1, W-15: a model that escalates after a lost race: `deferred`, the handoff queued, the contact marked.
#[tokio::test]
async fn an_escalation_after_a_lost_race_is_deferred() {
    let model = StubModel::answering(Arc::new(|_| {
        std::thread::sleep(Duration::from_secs(5));
        json!({ "messages": ["I will ask somebody."], "escalate": true, "escalation_reason": "complaint",
            "confidence": 0.9, "closing_question": null })
    }));
    let setup = with(&model).command(&["serve", "--no-workers"]).env("RACE_DEADLINE_MS", LOST);
    let app = setup.start().await;
    assert_eq!(app.send("this is bad").await.texts(), [app.copy("acknowledgement")]);
    let said = app.await_rows("select outcome, text from turns where role = 'agent'").await;
    assert_eq!(said[0]["outcome"], "deferred");
    let queued =
        app.await_rows("select payload->'messages'->>0 as text from outbox where kind = 'reply'").await;
    assert_eq!(queued, [json!({"text": said[0]["text"]})]);
    app.await_rows("select 1 from conversations where escalated_at is not null").await;
}

/// WRITE-5, W-10, DB-11: with tools on offer and none chosen, the turn says so.
#[tokio::test]
async fn a_turn_that_chose_no_tool_says_so() {
    let model = StubModel::start();
    let app = with(&model).tools(|_| {}).start().await;
    assert_eq!(app.send("how much is it?").await.texts().len(), 1);
    assert_eq!(app.turns().await[1]["actions"], json!([]));
}
