//! How a turn that failed ends with a person.

use serde_json::json;

use super::*;
use crate::store::open::{Opened, open};
use crate::store::settle::tests::Fixture;

const COPY: &str = "A person will answer.";

/// The SHA-256 of the contact's token.
const RIGHT: &str = "right-digest";

struct Ending {
    fixture: Fixture,
    tenant: TenantId,
    subscriber: SubscriberId,
    turn: TurnId,
}

impl Ending {
    /// A contact with a token, whose message is not recorded.
    async fn new() -> Self {
        let fixture = Fixture::new().await;
        let sql =
            "insert into conversations (tenant_id, subscriber_id, channel, token_hash, token_generation,
                                              token_issued_at)
                   values ('test', '70010001', 'whatsapp', 'right-digest', 2, now() - interval '1 day')";
        fixture.client.batch_execute(sql).await.unwrap();
        let (tenant, subscriber) = (TenantId::new("test").unwrap(), SubscriberId::new("70010001").unwrap());
        Self { fixture, tenant, subscriber, turn: TurnId::fresh() }
    }

    fn handoff(&self, token: Option<&str>, told: bool) -> Handoff<'_> {
        Handoff {
            failed: Failed {
                turn: self.turn,
                process: self.fixture.process,
                held: true,
                text: COPY,
                told,
                tokens_enforced: true,
                messages: vec![MessageId::from(*self.turn.as_uuid())],
                now: Timestamp::now(),
            },
            tenant: &self.tenant,
            subscriber: &self.subscriber,
            channel: "whatsapp",
            stored: false,
            token_digest: token.map(str::to_owned),
            arrived: Timestamp::now(),
        }
    }

    async fn hand_off(&self, token: Option<&str>, told: bool) {
        hand_off_without_turn(&self.fixture.database, &self.handoff(token, told)).await.unwrap();
    }

    async fn keep_in_inbox(&self) {
        let sql = "insert into rs_inbox (conversation_id, process_id, message_id, text, binding, received_at)
                   select id, $1, $2, 'hello', 'bound', now() from conversations";
        let values: &[&(dyn ToSql + Sync)] = &[self.fixture.process.as_uuid(), self.turn.as_uuid()];
        self.fixture.client.execute(sql, values).await.unwrap();
    }

    /// Marked, handoffs, queued replies, messages in the inbox.
    async fn state(&self) -> (bool, i64, i64, i64) {
        let sql = "select (select bool_or(escalated_at is not null) from conversations),
                          (select count(*) from rs_handoffs), (select count(*) from outbox where kind = 'reply'),
                          (select count(*) from rs_inbox)";
        let row = self.fixture.client.query_one(sql, &[]).await.unwrap();
        (row.get(0), row.get(1), row.get(2), row.get(3))
    }
}

/// LANE-9, ARC-43: a message that never became a turn ends with a person; repeating it adds nothing.
#[tokio::test(flavor = "multi_thread")]
async fn a_lost_message_ends_with_a_person_once() {
    let ending = Ending::new().await;
    ending.keep_in_inbox().await;
    ending.hand_off(Some(RIGHT), false).await;
    assert_eq!(ending.state().await, (true, 1, 1, 0));
    ending.hand_off(Some(RIGHT), false).await;
    assert_eq!(ending.state().await, (true, 1, 1, 0), "again");
}

/// ESCS-2, TURN-12, TOK-12, TOK-13, DEC-25: a forged message calls nobody and silences nobody.
#[tokio::test(flavor = "multi_thread")]
async fn a_forged_message_calls_nobody() {
    let ending = Ending::new().await;
    ending.hand_off(Some("wrong-digest"), true).await;
    ending.hand_off(None, true).await;
    assert_eq!(ending.state().await, (false, 0, 0, 0));
    ending.hand_off(Some(RIGHT), true).await;
    assert_eq!(ending.state().await, (true, 1, 0, 0));
}

/// ARC-40, ARC-45a: a message found in the inbox was never a turn: it ends at once, and without one nothing happens yet.
#[tokio::test(flavor = "multi_thread")]
async fn a_message_found_in_the_inbox_ends_at_once() {
    let ending = Ending::new().await;
    let resolved = || async { resolve(&ending.fixture.database, &ending.handoff(Some(RIGHT), false)).await };
    assert_eq!(resolved().await.unwrap().found, Resolved::NothingThere);
    assert_eq!(ending.state().await, (false, 0, 0, 0), "an Open may still be on its way");
    ending.keep_in_inbox().await;
    let resolution = resolved().await.unwrap();
    assert_eq!(resolution.found, Resolved::HandedOff);
    assert!(resolution.conversation.is_some(), "LOG-2");
    assert_eq!(ending.state().await, (true, 1, 1, 0));
}

/// ARC-40: a message that became a turn after all is somebody's: it is not handed off a second time.
#[tokio::test(flavor = "multi_thread")]
async fn a_recorded_message_is_left_alone() {
    let mut ending = Ending::new().await;
    (ending.turn, _) = ending.fixture.settled(false, &["the reply"], &[]).await;
    ending.fixture.handed_over(ending.turn).await;
    ending.hand_off(Some(RIGHT), false).await;
    assert_eq!(ending.state().await, (false, 0, 0, 0));
}

/// BOX-3: an escalation copy is never due before a reply that is queued already.
#[tokio::test(flavor = "multi_thread")]
async fn the_copy_is_due_behind_what_is_queued() {
    let mut ending = Ending::new().await;
    let queued = "insert into outbox (tenant_id, subscriber_id, conversation_id, payload, next_attempt_at)
                  select tenant_id, subscriber_id, id, '{\"messages\": [\"earlier\"]}', now() + interval '1 hour'
                  from conversations";
    ending.fixture.client.batch_execute(queued).await.unwrap();
    ending.hand_off(Some(RIGHT), false).await;
    (ending.turn, _) = ending.fixture.opened().await;
    let resolution = resolve(&ending.fixture.database, &ending.handoff(Some(RIGHT), false)).await.unwrap();
    assert_eq!(resolution.found, Resolved::Abandoned);
    let sql = "select count(*) from outbox
               where payload = $1 and next_attempt_at >= now() + interval '59 minutes'";
    let copies = ending.fixture.client.query_one(sql, &[&json!({ "messages": [COPY] })]).await.unwrap();
    assert_eq!(copies.get::<_, i64>(0), 2);
}

/// LANE-9, DEC-25, ARC-40: of a contact who was never heard before a person is called too, and once; a turn that the contact
/// begins later finds the conversation that holds the call.
#[tokio::test(flavor = "multi_thread")]
async fn a_lost_first_message_ends_with_a_person_once() {
    for told in [true, false] {
        let ending = Ending::new().await;
        ending.fixture.client.batch_execute("delete from conversations").await.unwrap();
        let unsure = resolve(&ending.fixture.database, &ending.handoff(None, told)).await.unwrap();
        assert_eq!(
            unsure,
            Resolution { found: Resolved::NothingThere, conversation: None },
            "it may still come"
        );
        for _ in 0..2 {
            let handoff = ending.handoff(None, told);
            let conversation = hand_off_without_turn(&ending.fixture.database, &handoff).await.unwrap();
            assert!(conversation.is_some());
            assert_eq!(ending.state().await, (true, 1, i64::from(!told), 0), "{told}");
        }
        let orphans = "select count(*) from outbox where conversation_id is null";
        assert_eq!(ending.fixture.client.query_one(orphans, &[]).await.unwrap().get::<_, i64>(0), 0);
        ending.fixture.open(&ending.fixture.request(TurnId::fresh())).await;
    }
}

/// DEC-13, DEC-30, ARC-40: a message that stood in the inbox and is not found there has been erased or has joined
/// another: nobody is told of it and nobody is called.
#[tokio::test]
async fn a_stored_message_that_is_gone_calls_nobody() {
    let stage = Ending::new().await;
    let handoff = Handoff { stored: true, ..stage.handoff(Some("right-digest"), false) };
    hand_off_without_turn(&stage.fixture.database, &handoff).await.unwrap();
    stage.fixture.client.batch_execute("delete from conversations").await.unwrap();
    assert_eq!(hand_off_without_turn(&stage.fixture.database, &handoff).await.unwrap(), None);
    let sql =
        "select (select count(*) from rs_handoffs) + (select count(*) from outbox where kind = 'reply')";
    assert_eq!(stage.fixture.client.query_one(sql, &[]).await.unwrap().get::<_, i64>(0), 0);
}

/// ARC-40, ARC-44: what a silent process has left belongs to those who recover it, but for a turn whose contact was told
/// of a person: it ends so, before anybody runs it once more.
#[tokio::test(flavor = "multi_thread")]
async fn a_silent_process_ends_what_it_has_promised_and_nothing_else() {
    let mut ending = Ending::new().await;
    (ending.turn, _) = ending.fixture.opened().await;
    let found = async |told| {
        let mut handoff = ending.handoff(Some(RIGHT), told);
        (handoff.failed.held, handoff.failed.tokens_enforced) = (false, false);
        resolve(&ending.fixture.database, &handoff).await.unwrap().found
    };
    assert_eq!(found(false).await, Resolved::TakenOver, "a reply may still follow");
    assert_eq!(ending.state().await, (false, 0, 0, 0));
    assert_eq!(found(true).await, Resolved::Abandoned);
    assert_eq!(ending.state().await, (true, 1, 0, 0), "a person is called, the copy is not sent again");
    assert_eq!(found(true).await, Resolved::NothingThere, "nothing is left to run again");
}

/// ARC-46: of a turn whose contact is not known, what was opened is ended with a person, and nothing else is touched.
#[tokio::test(flavor = "multi_thread")]
async fn a_turn_of_an_unknown_contact_ends_where_it_was_opened() {
    let ending = Ending::new().await;
    ending.keep_in_inbox().await;
    let found = async |ending: &Ending| {
        let failed = ending.handoff(None, false).failed;
        end_opened(&ending.fixture.database, &failed).await.unwrap().found
    };
    assert_eq!(found(&ending).await, Resolved::NothingThere);
    assert_eq!(ending.state().await, (false, 0, 0, 1), "the message waits still");
    let mut opened = Ending::new().await;
    (opened.turn, _) = opened.fixture.opened().await;
    assert_eq!(found(&opened).await, Resolved::Abandoned);
    assert_eq!(opened.state().await.2, 1, "the contact is told of a person");
}

/// ARC-40, ARC-43: a turn that another process runs again is decided there, whatever was told.
#[tokio::test(flavor = "multi_thread")]
async fn a_turn_that_was_taken_over_is_decided_elsewhere() {
    let mut ending = Ending::new().await;
    (ending.turn, _) = ending.fixture.opened().await;
    ending.fixture.client.execute("update rs_owed set process_id = gen_random_uuid()", &[]).await.unwrap();
    let mut handoff = ending.handoff(Some(RIGHT), true);
    handoff.failed.held = false;
    let resolution = resolve(&ending.fixture.database, &handoff).await.unwrap();
    assert_eq!(resolution.found, Resolved::TakenOver);
    assert_eq!(ending.state().await, (false, 0, 0, 0));
}

/// DB-17, DB-16: the day's counter stops at its end instead of failing, and the reply is confirmed all the same.
#[tokio::test(flavor = "multi_thread")]
async fn a_full_counter_breaks_no_turn() {
    let fixture = Fixture::new().await;
    for _ in 0..2 {
        let (turn, _) = fixture.settled(false, &["the reply"], &[]).await;
        let sql =
            "update rs_owed set tokens = 2147483647, cost_usd = 999999, charged = true where turn_id = $1";
        fixture.client.execute(sql, &[turn.as_uuid()]).await.unwrap();
        confirm(&fixture.database, &[turn], fixture.process, Timestamp::now()).await.unwrap();
    }
    let sql = "select tokens, cost_usd = 999999.999999, (select count(*) from rs_owed) from budget_counters";
    let row = fixture.client.query_one(sql, &[]).await.unwrap();
    assert_eq!((row.get(0), row.get(1), row.get(2)), (i32::MAX, true, 0_i64));
}

/// BUD-6, BUD-3: a spend belongs to the day on which it is recorded, not to the one on which the turn began.
#[tokio::test(flavor = "multi_thread")]
async fn a_spend_belongs_to_the_day_it_is_recorded_on() {
    let fixture = Fixture::new().await;
    for (tokens, recorded) in [(1_i64, "2026-03-31T23:59:59Z"), (20, "2026-04-01T00:00:00Z")] {
        let (turn, _) = fixture.settled(false, &["the reply"], &[]).await;
        let sql = "update rs_owed set tokens = $2, cost_usd = 0, charged = true where turn_id = $1";
        fixture.client.execute(sql, &[turn.as_uuid(), &tokens]).await.unwrap();
        confirm(&fixture.database, &[turn], fixture.process, recorded.parse().unwrap()).await.unwrap();
    }
    let rows = fixture.client.query("select day::text, tokens from budget_counters order by day", &[]).await;
    let rows: Vec<(String, i32)> = rows.unwrap().iter().map(|row| (row.get(0), row.get(1))).collect();
    assert_eq!(rows, [("2026-03-31".to_owned(), 1), ("2026-04-01".to_owned(), 20)]);
}

/// AC-DL-15, BOX-3, BOX-4: a reply that is held for a minute holds the contact's next one back to the same moment; what is
/// delivered or given up, a token row and another contact's reply hold nothing.
#[tokio::test(flavor = "multi_thread")]
async fn only_a_queued_reply_of_the_contact_holds_the_next_back() {
    let fixture = Fixture::new().await;
    fixture.settled(false, &["before"], &[]).await;
    let row = async |kind: &str, status: &str, subscriber: &str| {
        let sql = "insert into outbox (tenant_id, subscriber_id, conversation_id, kind, payload, status, next_attempt_at)
                   select 'test', $3, id, $1, '{}', $2, now() + interval '1 minute' from conversations
                   returning next_attempt_at::text";
        let row = fixture.client.query_one(sql, &[&kind, &status, &subscriber]).await.unwrap();
        row.get::<_, String>(0)
    };
    let due = async |text: &str| {
        fixture.settled(true, &[text], &[]).await;
        let sql = "select next_attempt_at::text, next_attempt_at <= clock_timestamp() from outbox where payload = $1";
        let row = fixture.client.query_one(sql, &[&json!({ "messages": [text] })]).await.unwrap();
        (row.get::<_, String>(0), row.get::<_, bool>(1))
    };
    for (kind, status, subscriber) in [
        ("reply", "delivered", "70010001"),
        ("reply", "failed", "70010001"),
        ("contact_token", "pending", "70010001"),
        ("reply", "pending", "another"),
    ] {
        row(kind, status, subscriber).await;
    }
    assert!(due("first").await.1, "nothing holds it");
    fixture.client.execute("delete from outbox where payload <> '{}'", &[]).await.unwrap();
    let held = row("reply", "pending", "70010001").await;
    assert_eq!(due("second").await, (held, false));
}

/// ARC-40, ARC-43: a flight that was given up for lost, and whose message has ended with a person, comes through after all:
/// it records nothing, keeps nothing and holds nothing.
#[tokio::test(flavor = "multi_thread")]
async fn a_late_flight_makes_no_second_ending() {
    for told in [false, true] {
        let ending = Ending::new().await;
        ending.hand_off(Some(RIGHT), told).await;
        let copies = i64::from(!told);
        let mut request = ending.fixture.request(ending.turn);
        request.token_digest = Some(RIGHT.to_owned());
        let late = open(&ending.fixture.database, &request).await.unwrap();
        assert!(matches!(&late, Opened::Waiting(waits) if waits.kept.is_empty()), "{late:?}");
        assert_eq!(ending.state().await, (true, 1, copies, 0));
        let sql = "select (select count(*) from turns) + (select count(*) from rs_owed)
                        + (select count(*) from rs_lanes where turn_id is not null)";
        assert_eq!(ending.fixture.client.query_one(sql, &[]).await.unwrap().get::<_, i64>(0), 0);
        ending.fixture.open(&ending.fixture.request(TurnId::fresh())).await;
    }
}
