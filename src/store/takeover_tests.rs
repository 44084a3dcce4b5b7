use uuid::Uuid;

use super::*;
use crate::store::PoolLimits;
use crate::store::embedded::testing::TestServer;

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
        hush(&database, conversation, turn, Some(Fence::new(fence)), process).await.unwrap()
    };
    assert_eq!(end(4, process).await, Hushed::Superseded);
    assert_eq!(state().await, (1, 1, 9));
    assert_eq!(end(5, ProcessId::fresh()).await, Hushed::Superseded, "another process's turn");
    assert_eq!(state().await, (1, 1, 9));
    assert_eq!(end(5, process).await, Hushed::Ended { others_wait: false });
    assert_eq!(state().await, (0, 0, 7), "its two messages are not counted");
    assert_eq!(end(5, process).await, Hushed::Superseded, "it is over");
    assert_eq!(state().await, (0, 0, 7));
}
