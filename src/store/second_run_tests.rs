//! Taking over a turn of a dead process.

use tokio::runtime::Handle;
use tokio_postgres::Client;

use super::*;
use crate::domain::Binding;
use crate::store::embedded::testing::{TestDatabase, TestServer};
use crate::store::{PoolLimits, processes};

struct Bench {
    database: Database,
    client: Client,
    turn: TurnId,
    _server: TestDatabase,
}

impl Bench {
    /// A dead process has opened a turn behind two earlier ones, with the lane.
    async fn new() -> Self {
        let server = TestServer::database().unwrap();
        let client = server.connect().await.unwrap();
        let address = server.config().clone().into();
        let database = Database::new(address, Handle::current(), PoolLimits::default()).unwrap();
        let turn = TurnId::fresh();
        let sql = format!(
            "insert into conversations (id, tenant_id, subscriber_id, channel, turn_count, last_message_at)
               values ('{turn}', 't', '1', 'whatsapp', 3, now());
             insert into turns (conversation_id, role, text, bound) values
               ('{turn}', 'user', 'before', true), ('{turn}', 'agent', 'reply', true);
             insert into turns (id, conversation_id, role, text, bound) values ('{turn}', '{turn}', 'user', 'own', true);
             insert into turns (conversation_id, role, text, bound) values ('{turn}', 'user', 'later', true);
             insert into rs_lanes (conversation_id, process_id, turn_id, fence, expires_at)
               values ('{turn}', gen_random_uuid(), '{turn}', 4, now() + interval '1 minute');
             insert into rs_owed (turn_id, conversation_id, tenant_id, process_id, fence, status, binding,
                                  user_turn_ids, received_at)
               select '{turn}', '{turn}', 't', process_id, 4, 'running', 'bound', '{{{turn}}}', now() from rs_lanes"
        );
        client.batch_execute(&sql).await.unwrap();
        Self { database, client, turn, _server: server }
    }

    async fn taker(&self) -> Taker {
        let tenant = TenantId::new("t").unwrap();
        let process = ProcessId::fresh();
        processes::enter(&self.client, process, &tenant, 20.0).await.unwrap();
        Taker {
            tenant,
            process,
            lane_secs: 60.0,
            dead_secs: 60.0,
            tokens_enforced: true,
            now: Timestamp::now(),
            history_days: 30,
            acted_by: None,
        }
    }
}

/// ARC-46: the second run has the turn's own messages, the history before them, and the lane with a new fence.
#[tokio::test]
async fn a_turn_is_taken_over_with_its_messages_and_what_was_before_them() {
    let bench = Bench::new().await;
    let run = take_over(&bench.database, bench.turn, &bench.taker().await).await.unwrap().unwrap();
    assert_eq!(
        (run.opened.fence, run.opened.binding, run.again),
        (Some(Fence::new(5)), Binding::Bound, false)
    );
    let history: Vec<&str> = run.opened.history.iter().map(|row| row.text.expose()).collect();
    assert_eq!(history, ["before", "reply"]);
    let own: Vec<&str> = run.messages.iter().map(|one| one.text.expose()).collect();
    assert_eq!(own, ["own"]);
    let sql = "select l.fence, o.fence, o.second_run, l.process_id = o.process_id from rs_lanes l, rs_owed o";
    let row = bench.client.query_one(sql, &[]).await.unwrap();
    assert_eq!((row.get(0), row.get(1), row.get(2), row.get(3)), (5i64, 5i64, true, true));
}

/// ARC-46, ARC-43: of many who try, one takes the turn over; a living process's turn nobody does.
#[tokio::test]
async fn one_process_takes_a_turn_over() {
    let bench = Bench::new().await;
    let takers = [bench.taker().await, bench.taker().await, bench.taker().await];
    let tries = takers.iter().map(|taker| take_over(&bench.database, bench.turn, taker));
    let taken = futures_util::future::join_all(tries).await;
    assert_eq!(taken.into_iter().filter(|run| run.as_ref().unwrap().is_some()).count(), 1);
}

/// DEC-35: while another turn holds the lane, the turn waits and leaves everything as it is.
#[tokio::test]
async fn a_held_lane_is_not_taken() {
    let bench = Bench::new().await;
    let holder = bench.taker().await.process;
    let sql = "update rs_lanes set turn_id = gen_random_uuid(), process_id = $1";
    bench.client.execute(sql, &[holder.as_uuid()]).await.unwrap();
    assert!(take_over(&bench.database, bench.turn, &bench.taker().await).await.unwrap().is_none());
    let row = bench.client.query_one("select second_run, fence from rs_owed", &[]).await.unwrap();
    assert_eq!((row.get(0), row.get(1)), (false, 4i64));
}

/// ARC-46: a second death is seen as one, and the end without a message leaves a person to be called.
#[tokio::test]
async fn a_second_death_is_known_and_a_silent_end_calls_a_person() {
    let bench = Bench::new().await;
    let first = bench.taker().await;
    take_over(&bench.database, bench.turn, &first).await.unwrap().unwrap();
    bench.client.execute("delete from rs_processes where id = $1", &[first.process.as_uuid()]).await.unwrap();
    let second = bench.taker().await;
    let run = take_over(&bench.database, bench.turn, &second).await.unwrap().unwrap();
    assert!(run.again);
    assert_eq!(run.dead, first.process);
    end_silently(&bench.database, bench.turn, first.process, true).await.unwrap();
    assert_eq!(
        bench.client.query("select 1 from rs_owed", &[]).await.unwrap().len(),
        1,
        "not its own any more"
    );
    end_silently(&bench.database, bench.turn, second.process, true).await.unwrap();
    let sql = "select (select count(*) from rs_owed), (select count(*) from rs_handoffs), (select count(*) from outbox),
                      (select turn_id is null from rs_lanes), (select escalated_at is not null from conversations)";
    let row = bench.client.query_one(sql, &[]).await.unwrap();
    assert_eq!((row.get(0), row.get(1), row.get(2), row.get(3), row.get(4)), (0i64, 1i64, 0i64, true, true));
}

/// DEC-9, TOK-13: a second run knows the pause as the first did; an unbound turn does not end it.
#[tokio::test]
async fn a_second_run_finds_the_pause() {
    let bench = Bench::new().await;
    let sql = format!(
        "insert into rs_handoffs (conversation_id, reason, opened_at, opened_seq)
           select '{0}', 'complaint', now() - interval '5 minutes', max(seq) from turns where role = 'agent';
         insert into turns (conversation_id, role, text, bound, outcome, created_at)
           values ('{0}', 'agent', 'to a forged one', false, 'answered_inline', now() + interval '1 day')",
        bench.turn
    );
    bench.client.batch_execute(&sql).await.unwrap();
    let run = take_over(&bench.database, bench.turn, &bench.taker().await).await.unwrap().unwrap();
    let quiet = run.opened.handoff.unwrap().quiet.as_secs();
    assert!((300..360).contains(&quiet), "{quiet}");
}

/// ARC-42, ARC-45: a lane that was taken without its turn, because another process took the turn and ended it while this one
/// waited for the contact's row, is free again.
#[tokio::test]
async fn a_lane_without_its_turn_is_given_back() {
    let bench = Bench::new().await;
    let (taker, other) = (bench.taker().await, bench.taker().await);
    bench.client.batch_execute("begin; select from conversations for update").await.unwrap();
    let overtake = async {
        let waits = "select exists (select from pg_locks l where not l.granted
                                    and pg_backend_pid() = any (pg_blocking_pids(l.pid)))";
        while !bench.client.query_one(waits, &[]).await.unwrap().get::<_, bool>(0) {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
        let sql = format!(
            "update rs_owed set process_id = '{}'; update rs_lanes set turn_id = null, process_id = null, expires_at = null;
             commit",
            other.process
        );
        bench.client.batch_execute(&sql).await.unwrap();
    };
    let (taken, ()) = tokio::join!(take_over(&bench.database, bench.turn, &taker), overtake);
    assert!(taken.unwrap().is_none());
    let row = bench.client.query_one("select turn_id is null, fence from rs_lanes", &[]).await.unwrap();
    assert_eq!((row.get(0), row.get(1)), (true, 5i64), "it was taken meanwhile");
}
