//! What holds when the database's clock is set back or forward, or another one takes its place (a failover): the tests move
//! the stored times, which is the same.

use std::time::Duration;

use jiff::Timestamp;

use super::open::{OpenRequest, Opened, open};
use super::orphans::{self, Left, Search};
use super::outbox::{self, Claimant};
use super::second_run::{self, Taker};
use super::settle::Settled;
use super::settle::tests::{Fixture, claimed};
use super::{actions, inbox, owed, processes};
use crate::domain::{AgentRowId, ProcessId, TenantId, TurnId};

const NOTHING: [Vec<String>; 0] = [];

/// The clock falls back by an hour after what is stored was written.
async fn set_back(fixture: &Fixture) {
    let sql = "update outbox set created_at = created_at + interval '1 hour';
               update rs_owed set created_at = created_at + interval '1 hour', said_at = said_at + interval '1 hour',
                                  not_before = not_before + interval '1 hour'";
    fixture.client.batch_execute(sql).await.unwrap();
}

/// ARC-43, GAP-DL-5: a reply that is said after the clock fell back stays behind the one that was queued before.
#[tokio::test(flavor = "multi_thread")]
async fn a_clock_that_falls_back_turns_no_replies_round() {
    let fixture = Fixture::new().await;
    fixture.settled(true, &["first"], &[]).await;
    set_back(&fixture).await;
    let (_, settled) = fixture.settled(false, &["second"], &[]).await;
    assert_eq!(settled, Settled::Queued);
    assert_eq!(claimed(&fixture).await, [["first"]]);
    assert_eq!(claimed(&fixture).await, [["second"]]);
}

/// ARC-43, LANE-6: a reply that was said before the clock fell back and is queued later keeps its place before one that
/// another process said since, and nothing passes it meanwhile.
#[tokio::test(flavor = "multi_thread")]
async fn a_reply_in_hand_keeps_its_place_when_the_clock_falls_back() {
    let mut fixture = Fixture::new().await;
    let (first, _) = fixture.settled(false, &["first"], &[]).await;
    fixture.process = ProcessId::fresh();
    set_back(&fixture).await;
    let (_, settled) = fixture.settled(false, &["second"], &[]).await;
    assert_eq!(settled, Settled::Queued);
    assert_eq!(claimed(&fixture).await, NOTHING, "the first is in hand");
    owed::queue(&fixture.database, first).await.unwrap();
    let due = "select count(*) from outbox where next_attempt_at > clock_timestamp() + interval '1 minute'";
    assert_eq!(
        fixture.client.query_one(due, &[]).await.unwrap().get::<_, i64>(0),
        0,
        "nor does it wait an hour"
    );
    assert_eq!(claimed(&fixture).await, [["first"]]);
    assert_eq!(claimed(&fixture).await, [["second"]]);
}

/// ARC-43, GAP-CH-11: what follows a long reply's beginning inherits its place.
#[tokio::test(flavor = "multi_thread")]
async fn the_rest_of_a_reply_keeps_its_place_when_the_clock_falls_back() {
    let fixture = Fixture::new().await;
    let (first, _) = fixture.settled(false, &["beginning", "rest"], &["rest"]).await;
    set_back(&fixture).await;
    fixture.settled(false, &["second"], &[]).await;
    fixture.confirmed(first).await;
    fixture.client.batch_execute("update outbox set next_attempt_at = now()").await.unwrap();
    assert_eq!(claimed(&fixture).await, [["rest"]]);
    assert_eq!(claimed(&fixture).await, [["second"]]);
}

/// GAP-DL-5, COMP-4, COMP-6: a row of the reference from before there were numbers comes first, whatever its date; one that it
/// writes beside us comes in the order of writing; and a reply that an older version has said, without a place, is judged by
/// its date.
#[tokio::test(flavor = "multi_thread")]
async fn rows_of_the_reference_come_in_their_place() {
    let mut fixture = Fixture::new().await;
    fixture.settled(true, &["ours"], &[]).await;
    let row = "insert into outbox (tenant_id, subscriber_id, conversation_id, payload, created_at)
               select tenant_id, subscriber_id, id, jsonb_build_object('messages', jsonb_build_array($1::text)),
                      now() + make_interval(secs => $2) from conversations";
    for (text, created) in [("old", 3600.0), ("older", 1800.0)] {
        fixture.client.execute(row, &[&text, &created]).await.unwrap();
    }
    fixture.client.execute("update outbox set rs_seq = null where created_at > now()", &[]).await.unwrap();
    fixture.client.execute(row, &[&"beside us", &-3600.0]).await.unwrap();
    for text in ["older", "old", "ours", "beside us"] {
        assert_eq!(claimed(&fixture).await, [[text]]);
    }
    let (first, _) = fixture.settled(false, &["without a place"], &[]).await;
    fixture.client.execute("update rs_owed set place = null", &[]).await.unwrap();
    fixture.process = ProcessId::fresh();
    fixture.settled(false, &["behind it"], &[]).await;
    assert_eq!(claimed(&fixture).await, NOTHING);
    owed::queue(&fixture.database, first).await.unwrap();
    assert_eq!(claimed(&fixture).await, [["without a place"]]);
    assert_eq!(claimed(&fixture).await, [["behind it"]]);
}

/// The clock is set forward by 25 s: every beat looks as old, also that of a process that lives, until its next one.
async fn set_forward(fixture: &Fixture, process: ProcessId) {
    let sql =
        "insert into rs_processes (id, tenant_id, beat_at) values ($1, 'test', now() - interval '25 seconds')
               on conflict (id) do update set beat_at = excluded.beat_at";
    fixture.client.execute(sql, &[process.as_uuid()]).await.unwrap();
}

/// The process, another one that has not beaten since the step either, and one that has.
async fn own_and_others(fixture: &Fixture) -> [ProcessId; 3] {
    let [old, young] = [ProcessId::fresh(), ProcessId::fresh()];
    for process in [fixture.process, old] {
        set_forward(fixture, process).await;
    }
    processes::enter(&fixture.client, young, &tenant(), DEAD).await.unwrap();
    [fixture.process, old, young]
}

fn tenant() -> TenantId {
    TenantId::new("test").unwrap()
}

const DEAD: f64 = 20.0;

/// ARC-43, ARC-44: a living process does not take its own claims over when the clock is set forward, nor does one whose own
/// beat looks as old; who has beaten since takes them from the dead.
#[tokio::test(flavor = "multi_thread")]
async fn a_step_forward_frees_no_claim_of_ones_own() {
    let fixture = Fixture::new().await;
    fixture.settled(true, &["reply"], &[]).await;
    let claimant = |process| Claimant {
        tenant: tenant(),
        process,
        lease: Duration::from_secs(60),
        dead: Duration::from_secs_f64(DEAD),
        gap: Duration::from_secs(2),
    };
    let claims = async |process| {
        let now = Timestamp::now();
        outbox::claim(&fixture.database, || Some(claimant(process)), 10, 10, now).await.unwrap().replies.len()
    };
    assert_eq!(claims(fixture.process).await, 1);
    let [own, old, young] = own_and_others(&fixture).await;
    assert_eq!((claims(own).await, claims(old).await), (0, 0));
    assert_eq!(claims(young).await, 1);
}

/// ARC-43, ARC-44, ARC-46: the same for turns that run and replies that were said, and for the contact's lane.
#[tokio::test(flavor = "multi_thread")]
async fn a_step_forward_frees_no_turn_of_ones_own() {
    let fixture = Fixture::new().await;
    let (turn, _) = fixture.opened().await;
    let [own, old, young] = own_and_others(&fixture).await;
    let found = async |left, process| {
        let search = Search { left, tenant: &tenant(), process, dead_secs: DEAD, known: &[], most: 10 };
        orphans::find(&fixture.database, &search).await.unwrap().len()
    };
    let counts = [found(Left::Running, own).await, found(Left::Running, old).await];
    assert_eq!((counts, found(Left::Running, young).await), ([0, 0], 1));
    let request = OpenRequest { dead_secs: DEAD, takeover_secs: DEAD, ..fixture.request(TurnId::fresh()) };
    match open(&fixture.database, &request).await.unwrap() {
        Opened::Waiting(waits) => assert_eq!((waits.owed_first, waits.kept.len()), (None, 1)),
        Opened::Started(_) => panic!("it took its own lane"),
    }
    let taken = async |process| {
        let taker = Taker {
            tenant: tenant(),
            process,
            lane_secs: 60.0,
            dead_secs: DEAD,
            tokens_enforced: false,
            now: Timestamp::now(),
            history_days: 30,
            acted_by: None,
        };
        second_run::take_over(&fixture.database, turn, &taker).await.unwrap().is_some()
    };
    assert!(!taken(own).await && !taken(old).await);
    assert!(taken(young).await);
    let said = "update rs_owed set status = 'said', said_at = now(), process_id = $1";
    fixture.client.execute(said, &[own.as_uuid()]).await.unwrap();
    let counts = [found(Left::Said, own).await, found(Left::Said, old).await];
    assert_eq!((counts, found(Left::Said, young).await), ([0, 0], 1));
}

/// ARC-41, ARC-44, ARC-45a: the same for open actions and for messages that wait.
#[tokio::test(flavor = "multi_thread")]
async fn a_step_forward_frees_neither_actions_nor_messages_of_ones_own() {
    let fixture = Fixture::new().await;
    let (turn, _) = fixture.settled(false, &["reply"], &[]).await;
    fixture.confirmed(turn).await;
    let row = AgentRowId::fresh();
    let sql = format!(
        "insert into rs_actions (turn_id, conversation_id, tenant_id, process_id, actions)
           select '{row}', id, 'test', '{own}', '[]' from conversations;
         insert into rs_inbox (conversation_id, process_id, message_id, text, binding, received_at)
           select id, '{own}', gen_random_uuid(), 'hello', 'bound', now() from conversations",
        own = fixture.process.as_uuid()
    );
    fixture.client.batch_execute(&sql).await.unwrap();
    let [own, old, young] = own_and_others(&fixture).await;
    let found = async |process| {
        let database = &fixture.database;
        let actions = actions::orphaned(database, &tenant(), process, DEAD).await.unwrap().len();
        (actions, inbox::orphaned(database, &tenant(), process, DEAD, &[], 10).await.unwrap().len())
    };
    assert_eq!((found(own).await, found(old).await, found(young).await), ((0, 0), (0, 0), (1, 1)));
    let taken = async |process| {
        let taken = actions::take_over(&fixture.database, row, &tenant(), process, DEAD).await;
        taken.unwrap().is_some()
    };
    assert!(!taken(own).await && !taken(old).await);
    assert!(taken(young).await);
}
