//! What others do to a conversation while a flight waits for its lock.

use jiff::Timestamp;
use tokio_postgres::Client;

use super::tests::Fixture;
use super::*;
use crate::domain::MessageId;
use crate::store::open::{OpenRequest, Opened, open};
use crate::store::owed;
use crate::store::takeover::{self, Hushed};

/// Somebody who holds the one conversation.
async fn holder(fixture: &Fixture) -> Client {
    let holder = fixture.connect().await;
    holder.batch_execute("begin; select 1 from conversations for no key update").await.unwrap();
    holder
}

/// Queues a reply and a message of another process, and lets go.
const QUEUE_AND_COMMIT: &str = "
    insert into outbox (tenant_id, subscriber_id, conversation_id, kind, payload)
    select tenant_id, subscriber_id, id, 'reply', '{\"messages\": [\"copy\"]}' from conversations;
    insert into rs_inbox (conversation_id, process_id, message_id, text, binding, received_at)
    select id, gen_random_uuid(), gen_random_uuid(), 'hello', 'bound', now() from conversations;
    commit";

/// ARC-43, ARC-47, ARC-47a: a reply that is queued while Settle waits for the conversation is not overtaken by the
/// response, and keeps its place before what Settle queues; a message that came meanwhile is told that the lane is free.
#[tokio::test(flavor = "multi_thread")]
async fn settle_sees_what_was_queued_while_it_waited() {
    let fixture = Fixture::new().await;
    let (turn, opened) = fixture.opened().await;
    let request = fixture.reply(turn, &opened, false, &["reply"], &[]);
    let holder = holder(&fixture).await;
    let (settled, ()) = tokio::join!(settle(&fixture.database, &request), async {
        fixture.until_somebody_waits().await;
        holder.batch_execute(QUEUE_AND_COMMIT).await.unwrap();
    });
    let expected = Settlement { settled: Settled::Queued, others_wait: true };
    assert_eq!(settled.unwrap(), expected);
    let sql = "select payload -> 'messages' ->> 0 from outbox order by created_at, rs_seq";
    let rows = fixture.client.query(sql, &[]).await.unwrap();
    assert_eq!(rows.iter().map(|row| row.get(0)).collect::<Vec<String>>(), ["copy", "reply"]);
}

/// ARC-31, ARC-43: a Settle that comes through while its turn is being ended as failed is found at once: what it said is
/// queued.
#[tokio::test(flavor = "multi_thread")]
async fn a_reply_that_settles_while_it_is_asked_for_is_queued() {
    let fixture = Fixture::new().await;
    let (turn, opened) = fixture.opened().await;
    let holder = holder(&fixture).await;
    let failed = owed::Failed {
        turn,
        process: fixture.process,
        held: true,
        text: "copy",
        told: false,
        tokens_enforced: false,
        messages: vec![MessageId::from(*turn.as_uuid())],
        now: Timestamp::now(),
    };
    let (resolution, ()) = tokio::join!(owed::end_opened(&fixture.database, &failed), async {
        fixture.until_somebody_waits().await;
        let settled = "update rs_owed set status = 'said', said_at = clock_timestamp(),
                                          payload = '{\"messages\": [\"reply\"]}'; commit";
        holder.batch_execute(settled).await.unwrap();
    });
    let expected =
        owed::Resolution { found: owed::Resolved::Queued, conversation: Some(opened.conversation) };
    assert_eq!(resolution.unwrap(), expected);
}

/// ARC-47a: the same holds for a turn that ends without a word.
#[tokio::test(flavor = "multi_thread")]
async fn a_silent_end_sees_who_came_while_it_waited() {
    let fixture = Fixture::new().await;
    let (turn, opened) = fixture.opened().await;
    let holder = holder(&fixture).await;
    let hushing = takeover::hush(
        &fixture.database,
        opened.conversation,
        turn,
        opened.fence,
        fixture.process,
        Timestamp::now(),
    );
    let (hushed, ()) = tokio::join!(hushing, async {
        fixture.until_somebody_waits().await;
        holder.batch_execute(QUEUE_AND_COMMIT).await.unwrap();
    });
    assert_eq!(hushed.unwrap(), Hushed::Ended { others_wait: true });
}

/// ARC-44, ARC-45: a process that has beaten while another one waited for the conversation is alive, and keeps its lane.
#[tokio::test(flavor = "multi_thread")]
async fn a_beat_during_the_wait_counts() {
    let fixture = Fixture::new().await;
    fixture.opened().await;
    let sql = "insert into rs_processes (id, tenant_id) values ($1, 'test')";
    fixture.client.execute(sql, &[fixture.process.as_uuid()]).await.unwrap();
    let dead_secs = 3.0;
    let other = OpenRequest {
        process: ProcessId::fresh(),
        dead_secs,
        takeover_secs: dead_secs,
        ..fixture.request(TurnId::fresh())
    };
    let holder = holder(&fixture).await;
    let beat = "update rs_processes set beat_at = clock_timestamp()";
    fixture.client.execute(beat, &[]).await.unwrap();
    let (opened, ()) = tokio::join!(open(&fixture.database, &other), async {
        fixture.until_somebody_waits().await;
        // The database's own clock is what the rule is about.
        fixture.client.execute("select pg_sleep($1)", &[&(dead_secs + 0.1)]).await.unwrap();
        fixture.client.execute(beat, &[]).await.unwrap();
        holder.batch_execute("commit").await.unwrap();
    });
    assert!(matches!(opened.unwrap(), Opened::Waiting(_)), "its lane was taken");
}
