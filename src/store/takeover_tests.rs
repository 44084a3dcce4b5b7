use uuid::Uuid;

use super::*;
use crate::store::PoolLimits;
use crate::store::embedded::testing::TestServer;
use crate::store::handoffs::{PauseEnd, end_pause};
use crate::store::testing::ActingTurn;

/// DEC-9, ARC-45, CAP-4: a silent end takes its count back, frees the lane and owes nothing, under the fence; an old fence changes nothing.
#[tokio::test]
async fn a_silent_end_is_fenced() {
    let owner = TestServer::database().unwrap();
    let io = tokio::runtime::Handle::current();
    let database = Database::new(owner.config().clone().into(), io, PoolLimits::default()).unwrap();
    let client = owner.connect().await.unwrap();
    let (turn, process) = (TurnId::fresh(), ProcessId::fresh());
    let sql = "with c as (insert into conversations (tenant_id, subscriber_id, channel, turn_count)
                          values ('t', '7', 'whatsapp', 9) returning id),
         l as (insert into rs_lanes (conversation_id, turn_id, fence) select id, $1, 5 from c),
         o as (insert into rs_owed (turn_id, conversation_id, tenant_id, process_id, fence, status, binding,
                                    user_turn_ids, received_at)
               select $1, id, 't', $2, 5, 'running', 'first', array[gen_random_uuid(), gen_random_uuid()], now() from c)
         select id from c";
    let id: Uuid = client.query_one(sql, &[turn.as_uuid(), process.as_uuid()]).await.unwrap().get("id");
    let conversation = ConversationId::from(id);
    let state = || async {
        let sql = "select (select count(*) from rs_owed), (select count(*) from rs_lanes where turn_id is not null),
                          (select turn_count from conversations)";
        let row = client.query_one(sql, &[]).await.unwrap();
        (row.get::<_, i64>(0), row.get::<_, i64>(1), row.get::<_, i32>(2))
    };
    let end = async |fence, process| {
        hush(&database, conversation, turn, Some(Fence::new(fence)), process, Timestamp::now()).await.unwrap()
    };
    assert_eq!(end(4, process).await, Hushed::Superseded);
    assert_eq!(state().await, (1, 1, 9));
    assert_eq!(end(5, ProcessId::fresh()).await, Hushed::Superseded, "another process's turn");
    assert_eq!(state().await, (1, 1, 9));
    assert_eq!(end(5, process).await, Hushed::Ended { others_wait: false });
    assert_eq!(state().await, (0, 0, 7), "its two messages are not counted");
    assert_eq!(end(5, process).await, Hushed::Superseded, "it is over");
    assert_eq!(state().await, (0, 0, 7));
    let rows = client.query("select 1 from turns", &[]).await.unwrap();
    assert!(rows.is_empty(), "nothing was attempted, so nothing is recorded");
}

/// ARC-41, ARC-46, FN-ONCE-1, TSET-8: what the first run of a turn has sent, or may have, stays on record when its second ends
/// in silence; nobody reads that row as a turn of the contact.
#[tokio::test]
async fn a_silent_end_of_a_second_run_keeps_what_was_sent() {
    let bench = ActingTurn::of("7").await;
    for (number, finished) in [(0, "now(), 'performed'"), (1, "null, null")] {
        let sql = format!(
            "insert into rs_attempts (turn_id, action, conversation_id, process_id, entry, finished_at, outcome)
             values ('{0}', {number}, '{0}', '{1}', '{{\"tool\": \"send_flow\", \"id\": \"f{number}\"}}', {finished})",
            bench.turn, bench.process
        );
        bench.client.batch_execute(&sql).await.unwrap();
    }
    let conversation = ConversationId::from(*bench.turn.as_uuid());
    let ended = hush(&bench.database, conversation, bench.turn, None, bench.process, Timestamp::now()).await;
    assert_eq!(ended.unwrap(), Hushed::Ended { others_wait: false });
    let sql = "select bound, text, actions -> 0 ->> 'status', actions -> 1 ->> 'error' from turns where role = 'agent'";
    let row = bench.client.query_one(sql, &[]).await.unwrap();
    let (bound, text, first, second): (bool, String, String, String) =
        (row.get(0), row.get(1), row.get(2), row.get(3));
    assert_eq!((bound, text.as_str(), first.as_str()), (false, "", "performed"));
    assert!(second.starts_with("outcome unknown"), "{second}");
}

/// DEC-9, DEC-25: the end of a pause closes the calls that were known when it was decided, and none that came meanwhile.
#[tokio::test]
async fn a_call_that_comes_meanwhile_outlives_the_pause() {
    let bench = ActingTurn::of("7").await;
    let conversation = ConversationId::from(*bench.turn.as_uuid());
    let sql = "insert into rs_handoffs (conversation_id, reason, opened_seq) values ($1, $2, $3)";
    let calls = [("before the column", None), ("known", Some(7_i64)), ("meanwhile", Some(8))];
    for (reason, place) in calls {
        bench.client.execute(sql, &[conversation.as_uuid(), &reason, &place]).await.unwrap();
    }
    end_pause(&bench.database, conversation, PauseEnd::TagGone, 7).await.unwrap();
    let open =
        bench.client.query("select reason from rs_handoffs where closed_at is null", &[]).await.unwrap();
    assert_eq!(open.iter().map(|row| row.get(0)).collect::<Vec<String>>(), ["meanwhile"]);
}
