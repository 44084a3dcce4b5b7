//! One turn at a time per contact, and replies in their order (03 section 8).

use serde_json::json;

use crate::answers::{free_lane, hold_lane};
use crate::app::{ABORTED, CONTACT, LOST, SECRET, Setup, TestApp, post};
use crate::handoffs::with;
use crate::long_replies::long_opening;
use crate::stub_manychat::{SEND_FLOW, StubManyChat};
use crate::tokens::{Stage, message};

const REPLIES: &str = "select payload, next_attempt_at from outbox where kind = 'reply' order by created_at";

const REPLIES_IN_TURN: usize = 9;

/// A reply to the contact that is queued and due in an hour.
async fn queue_a_reply(app: &TestApp) {
    app.run(
        "insert into outbox (tenant_id, subscriber_id, conversation_id, payload, next_attempt_at)
         select tenant_id, subscriber_id, id, '{\"messages\": [\"earlier\"]}', now() + interval '1 hour'
         from conversations",
    )
    .await;
}

async fn due_in_order(app: &TestApp) -> bool {
    let sql = "select bool_and(next_attempt_at > now() + interval '50 minutes') as late from outbox
               where kind = 'reply'";
    app.rows(sql).await == [json!({"late": true})]
}

/// TURN-2, TURN-3, ARC-45a: what a message proved when it had to wait is asked again when its turn comes: meanwhile its token
/// has been replaced twice, and it is no proof any longer.
#[tokio::test]
async fn a_waiting_message_is_judged_again() {
    let stage = Stage::start(true).await;
    stage.say(CONTACT, "hello", None).await;
    let token = json!(stage.token(CONTACT).await);
    hold_lane(&stage.app).await;
    let body = message(CONTACT, "what have I told you?", Some(token));
    let waits = tokio::spawn(post(stage.app.port, body, Some(SECRET)));
    let kept = stage.app.await_rows("select binding from rs_inbox").await;
    assert_eq!(kept, [json!({ "binding": "bound" })]);
    stage
        .app
        .run(
            "update conversations set token_hash = 'newest', previous_token_hash = 'newer', token_generation = 3,
                    rs_unwritten_token = null, token_issued_at = now() - interval '1 minute'",
        )
        .await;
    free_lane(&stage.app).await;
    assert_eq!(waits.await.unwrap().status, 200);
    let turns = stage.app.await_rows("select bound from turns where text = 'what have I told you?'").await;
    assert_eq!(turns, [json!({ "bound": false })]);
    assert!(stage.app.rows("select 1 from rs_inbox").await.is_empty());
}

/// LANE-6, LANE-7, ORD-4, AC-CH-20, BOX-3: behind a queued reply there is neither an inline reply nor a holding line.
#[tokio::test]
async fn behind_a_queued_reply_nothing_goes_inline() {
    let setup = Setup::default().env("AGENT_MODEL", "mock:slow").env("RACE_DEADLINE_MS", LOST);
    let app = setup.env("MODEL_ABORT_MS", ABORTED).start().await;
    app.send("this is a scam").await;
    queue_a_reply(&app).await;
    assert_eq!(app.send("this is a scam").await.texts(), [] as [String; 0], "LANE-6");
    assert_eq!(app.log_line("reply queued behind the previous one").await["path"], "outbox");
    assert_eq!(app.send("how much is it?").await.texts(), [] as [String; 0], "LANE-7: no holding line");
    app.await_that(REPLIES, |rows| rows.len() == 3).await;
    assert!(due_in_order(&app).await);
}

/// LANE-8 and WRITE-8 as DEC-20 decides them, WRITE-7, GAP-CH-3: a reply that cannot be queued is not recorded either; the contact reads the
/// escalation copy, and a person is called.
#[tokio::test]
async fn a_reply_that_cannot_be_queued_is_not_recorded() {
    let app = TestApp::start().await;
    app.send("hello").await;
    queue_a_reply(&app).await;
    app.run("alter table outbox add constraint no_reply check (kind <> 'reply') not valid").await;
    assert_eq!(app.send("how much is it?").await.texts(), [app.copy("escalation")]);
    app.log_line("turn not settled").await;
    app.await_that("select 1 from rs_owed", <[_]>::is_empty).await;
    let last = app.turns().await.pop().unwrap();
    assert_eq!((&last["outcome"], &last["text"]), (&json!("error"), &json!(app.copy("escalation"))));
    assert_eq!(app.rows(REPLIES).await.len(), 1, "the contact has read it");
    assert_eq!(app.rows("select 1 from rs_handoffs").await.len(), 1);
    let line = app.log_line("failed turn resolved").await;
    assert!(line["conversation"].is_string() && line["err"].is_string(), "LOG-2: {line}");
    assert_eq!(line["found"], "abandoned");
}

/// LANE-1, LANE-10, LANE-11, AC-CH-18, AC-CH-19: the lane is held while a lost race still works, the next turn reads its
/// reply, and when both have ended nothing of them is held.
#[tokio::test]
async fn the_lane_is_left_when_the_late_work_has_ended() {
    let setup = Setup::default().env("AGENT_MODEL", "mock:slow").env("RACE_DEADLINE_MS", LOST);
    let app = setup.env("MODEL_ABORT_MS", "9000").start().await;
    assert_eq!(app.send("how much is it?").await.texts(), [app.copy("acknowledgement")]);
    let held = "select 1 from rs_lanes where turn_id is not null";
    assert_eq!(app.rows(held).await.len(), 1, "LANE-10: the model is still at work");
    assert_eq!(app.send("this is a scam").await.texts(), [] as [String; 0]);
    assert_eq!(app.turns().await.len(), 1, "LANE-2: it is not recorded while it waits");
    app.await_that(REPLIES, |rows| rows.len() == 2).await;
    let roles: Vec<_> = app.turns().await.iter().map(|turn| turn["role"].clone()).collect();
    assert_eq!(roles, ["user", "agent", "user", "agent"]);
    app.await_that("select 1 from rs_owed union all select 1 from rs_inbox", <[_]>::is_empty).await;
    assert_eq!(app.rows(held).await.len(), 0, "LANE-11");
}

/// ARC-47a, GAP-DL-6: a worker in another process hears of a queued reply and tries it at once, not at its next look.
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_of_another_process_is_woken() {
    let stub = StubManyChat::start().await;
    let setup = with(&stub).rules(long_opening).env("MANYCHAT_CALLS_PER_SECOND", "500");
    let app = setup.command(&["serve", "--no-workers"]).start().await;
    let worker = app.worker().await;
    for number in 0..REPLIES_IN_TURN {
        // The rest of the reply is queued with its response: right behind the worker's look at the one before, so that its
        // next look of its own is a second away.
        assert_eq!(app.send_as(&format!("7001{number:04}"), "tell me all").await.texts().len(), 1);
        let delivered = "select 1 from outbox where kind = 'reply' and status = 'delivered'";
        app.await_that(delivered, |rows| rows.len() > number).await;
    }
    assert_eq!(stub.calls_to(SEND_FLOW).len(), 2 * REPLIES_IN_TURN);
    // Most of them: a busy machine may hold any single one up.
    let usual = "select percentile_disc(0.5) within group (order by delivered_at - created_at)
                   < interval '600 milliseconds' as soon from outbox where kind = 'reply'";
    assert_eq!(app.rows(usual).await, [json!({ "soon": true })], "{}", worker.output());
}

/// LANE-6, ARC-43: a reply that takes long to leave our hands is not overtaken by the next one: that goes behind it.
#[tokio::test]
async fn a_reply_behind_one_in_our_hands_does_not_go_inline() {
    let app = TestApp::start().await;
    app.send("hello").await;
    app.await_that("select 1 from rs_owed", <[_]>::is_empty).await;
    // Putting the first reply into the outbox takes 3 s.
    app.run(
        "create function slow() returns trigger language plpgsql as $$
           begin perform pg_sleep(3); return new; end $$;
         create trigger slow before insert on outbox for each row
           when (new.payload::text like '%$450%') execute function slow()",
    )
    .await;
    hold_lane(&app).await;
    let gone = app.raw_request("how much is it?");
    app.await_rows("select 1 from rs_inbox").await;
    drop(gone);
    free_lane(&app).await;
    app.await_rows("select 1 from rs_owed where status = 'said'").await;
    assert_eq!(app.send("this is a scam").await.texts(), [] as [String; 0], "it goes behind");
    let queued = app.await_that(REPLIES, |rows| rows.len() == 2).await;
    assert!(queued[0].to_string().contains("$450"), "{queued:?}");
}
