//! What holds when the database's clock is set back or forward, or another one takes its place (a failover): the tests move
//! the stored times, which is the same.

use super::owed;
use super::settle::Settled;
use super::settle::tests::{Fixture, claimed};
use crate::domain::ProcessId;

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
    assert_eq!(fixture.client.query_one(due, &[]).await.unwrap().get::<_, i64>(0), 0, "nor does it wait an hour");
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
    let found = [claimed(&fixture).await, claimed(&fixture).await].concat();
    assert_eq!(found.len(), 2, "both are delivered: {found:?}");
}
