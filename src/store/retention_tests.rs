use super::*;
use crate::store::embedded::testing::{TestDatabase, TestServer};

struct Bench {
    client: Client,
    keeper: Client,
    _owner: TestDatabase,
}

impl Bench {
    async fn new() -> Self {
        let owner = TestServer::database().unwrap();
        let client = owner.connect().await.unwrap();
        let keeper = owner.connect().await.unwrap();
        Self { client, keeper, _owner: owner }
    }

    /// A contact with one turn, this many days ago.
    async fn contact(&self, tenant: &str, name: &str, days: i32) {
        let sql = "with c as (
             insert into conversations (tenant_id, subscriber_id, channel, last_message_at, updated_at)
             values ($1, $2, 'whatsapp', now() - make_interval(days => $3), now() - make_interval(days => $3))
             returning id)
           insert into turns (conversation_id, role, text, created_at)
           select id, 'user', 'hello', now() - make_interval(days => $3) from c";
        self.client.execute(sql, &[&tenant, &name, &days]).await.unwrap();
    }

    async fn run(&mut self, dry_run: bool) -> Vec<(&'static str, u64)> {
        self.run_with(30, dry_run).await
    }

    async fn run_with(&mut self, days: u32, dry_run: bool) -> Vec<(&'static str, u64)> {
        let tenant = TenantId::new("t").unwrap();
        let now = Timestamp::now();
        let deleted = run(&mut self.client, &mut self.keeper, &tenant, days, now, dry_run).await.unwrap();
        deleted.into_iter().filter(|part| part.rows > 0).map(|part| (part.table, part.rows)).collect()
    }

    async fn left(&self) -> Vec<String> {
        let rows =
            self.client.query("select subscriber_id from conversations order by 1", &[]).await.unwrap();
        rows.iter().map(|row| row.get(0)).collect()
    }
}

/// DEC-13, PROC-7: what is old goes, the rest and another tenant's data stay; a dry run changes nothing.
#[tokio::test]
async fn only_what_is_old_is_deleted() {
    let mut bench = Bench::new().await;
    bench.contact("t", "old", 31).await;
    bench.contact("t", "young", 29).await;
    bench.contact("other", "foreign", 99).await;
    assert_eq!(bench.run(true).await, [("turns", 1)]);
    assert_eq!(bench.left().await.len(), 3);
    assert_eq!(bench.run(false).await, [("turns", 1), ("conversations", 1)]);
    assert_eq!(bench.left().await, ["foreign", "young"]);
    assert_eq!(bench.run(false).await, []);
}

/// DEC-13, DEC-25: a delivery that is still to be made, an owed reply, a waiting message or follow-up, an open handoff, and
/// a tag in ManyChat that is still to be taken off keep their contact.
#[tokio::test]
async fn open_work_is_never_touched() {
    let mut bench = Bench::new().await;
    for (name, work) in [
        ("delivery", "insert into outbox (tenant_id, subscriber_id, payload, created_at)
                      select 't', 'delivery', '{}', now() - interval '40 days'"),
        ("owed", "insert into rs_owed (turn_id, conversation_id, tenant_id, process_id, status, binding,
                                       user_turn_ids, received_at)
                  select gen_random_uuid(), id, 't', gen_random_uuid(), 'said', 'first', '{}', now()
                  from conversations where subscriber_id = 'owed'"),
        ("inbox", "insert into rs_inbox (conversation_id, process_id, text, binding, received_at)
                   select id, gen_random_uuid(), 'hi', 'first', now() from conversations where subscriber_id = 'inbox'"),
        ("nudge", "insert into nudges (conversation_id, due_at, updated_at)
                   select id, now(), now() - interval '40 days' from conversations where subscriber_id = 'nudge'"),
        ("lane", "insert into rs_lanes (conversation_id, turn_id, expires_at)
                  select id, gen_random_uuid(), now() + interval '1 minute' from conversations
                  where subscriber_id = 'lane'"),
        ("handoff", "insert into rs_handoffs (conversation_id, reason, opened_at)
                     select id, 'complaint', now() - interval '40 days' from conversations
                     where subscriber_id = 'handoff'"),
        ("tag", "insert into rs_handoffs (conversation_id, reason, opened_at, closed_at, tag, tag_state, untag_state,
                                          untag_due_at)
                 select id, 'complaint', now() - interval '40 days', now() - interval '39 days', 'needs-person', state,
                        case state when 'unknown' then 'failed' end, case state when 'unknown' then now() end
                 from conversations, unnest(array['added', 'unknown']) as state where subscriber_id = 'tag'"),
    ] {
        bench.contact("t", name, 40).await;
        bench.client.batch_execute(work).await.unwrap();
    }
    assert_eq!(bench.run(false).await, [("rs_handoffs", 1)], "the newer of two with one tag stands for both");
    assert_eq!(bench.left().await.len(), 7);
    assert_eq!(bench.run(false).await, []);
    let over = "delete from rs_owed; update outbox set status = 'delivered';
        update rs_handoffs set closed_at = now() - interval '31 days' where closed_at is null;
        update rs_handoffs set untag_state = 'failed', untag_due_at = null where tag is not null";
    bench.client.batch_execute(over).await.unwrap();
    assert_eq!(
        bench.run(false).await,
        [("outbox", 1), ("rs_handoffs", 2), ("turns", 4), ("conversations", 4)]
    );
}

/// RET-1, GAP-DL-14, GAP-DB-3: rate windows after two days; finished rows of the outbox, a discarded dead letter among them.
#[tokio::test]
async fn finished_rows_go_by_their_own_age() {
    let mut bench = Bench::new().await;
    bench.contact("t", "young", 1).await;
    bench
        .client
        .batch_execute(
            "insert into rate_counters (tenant_id, subscriber_id, window_start)
               select 't', 'young', now() - make_interval(hours => age) from unnest(array[47, 49]) as age;
             insert into outbox (tenant_id, subscriber_id, payload, status, created_at, rs_discarded_at)
               select 't', 'young', '{}', 'failed', now() - make_interval(days => age), now()
               from unnest(array[29, 31]) as age",
        )
        .await
        .unwrap();
    assert_eq!(bench.run(false).await, [("outbox", 1), ("rate_counters", 1)]);
    assert_eq!(bench.left().await, ["young"]);
}

/// RET-1, DEC-13: finished deliveries and follow-ups go after 30 days however long the rest is kept, and before that with
/// the rest.
#[tokio::test]
async fn finished_work_goes_after_thirty_days_at_most() {
    let mut bench = Bench::new().await;
    bench.contact("t", "kept", 40).await;
    let rows = "insert into outbox (tenant_id, subscriber_id, payload, status, created_at)
           select 't', 'kept', '{}', 'delivered', now() - make_interval(days => age) from unnest(array[9, 29, 31]) as age;
         insert into nudges (conversation_id, due_at, status, updated_at)
           select id, now(), 'sent', now() - make_interval(days => age) from conversations, unnest(array[9, 29, 31]) as age";
    bench.client.batch_execute(rows).await.unwrap();
    assert_eq!(bench.run_with(400, false).await, [("outbox", 1), ("nudges", 1)]);
    assert_eq!(bench.run_with(20, true).await, [("outbox", 1), ("nudges", 1), ("turns", 1)]);
}

/// RET-1, ARC-42: where deleting is slow, a batch gets smaller until nobody waits long behind it.
#[tokio::test]
async fn a_slow_batch_is_made_smaller() {
    let mut bench = Bench::new().await;
    let slow = "insert into rate_counters (tenant_id, subscriber_id, window_start)
          select 't', n::text, now() - interval '9 days' from generate_series(1, 120) as n;
        create table took (time interval);
        create function be_slow() returns trigger language plpgsql as $$ begin
          perform pg_sleep(0.025);
          insert into took values (clock_timestamp() - now());
          return old;
        end $$;
        create trigger slow before delete on rate_counters for each row execute function be_slow()";
    bench.client.batch_execute(slow).await.unwrap();
    assert_eq!(bench.run(false).await, [("rate_counters", 120)]);
    let sql = "select max(time) < interval '1 second' from took";
    assert!(bench.client.query_one(sql, &[]).await.unwrap().get::<_, bool>(0));
}

/// RET-1: a batch that was given up or slow is followed by a smaller one, a quick one by a larger one, within bounds.
#[test]
fn batches_follow_the_time_they_take() {
    let ms = Duration::from_millis;
    assert_eq!(next_size(100, false, ms(900)), 25);
    assert_eq!(next_size(100, true, ms(500)), 50);
    assert_eq!(next_size(100, true, ms(200)), 100);
    assert_eq!(next_size(100, true, ms(10)), 200);
    assert_eq!((next_size(500, true, ms(10)), next_size(1, false, ms(900))), (500, 1));
}

/// RET-1: more rows than one batch holds, and one run at a time, for this tenant alone; the lock is held to the end.
#[tokio::test]
async fn a_run_goes_on_batch_by_batch_and_alone() {
    let mut bench = Bench::new().await;
    let many = "insert into rate_counters (tenant_id, subscriber_id, window_start)
        select 't', n::text, now() - interval '9 days' from generate_series(1, 1200) as n";
    bench.client.batch_execute(many).await.unwrap();
    let other = bench._owner.connect().await.unwrap();
    let tenant = TenantId::new("t").unwrap();
    for (locked, busy) in [("t", true), ("other", false)] {
        other.batch_execute("begin").await.unwrap();
        other.query_one(LOCK, &[&locked]).await.unwrap();
        let ended = run(&mut bench.client, &mut bench.keeper, &tenant, 30, Timestamp::now(), false).await;
        assert_eq!(matches!(ended, Err(StoreError::Busy)), busy, "{ended:?}");
        other.batch_execute("rollback").await.unwrap();
        if !busy {
            let rows = ended.unwrap().last().map(|part| (part.table, part.rows));
            assert_eq!(rows, Some(("rate_counters", 1200)));
        }
    }
    let freed = other.query_one(LOCK, &[&"t"]).await.unwrap();
    assert!(freed.get::<_, bool>("free"), "a run that is over leaves no lock");
}

/// RET-1: a second run is kept out between the batches too, and a lost lock ends the run.
#[tokio::test]
async fn a_run_ends_with_its_lock() {
    let mut bench = Bench::new().await;
    let many = "insert into rate_counters (tenant_id, subscriber_id, window_start)
        select 't', n::text, now() - interval '9 days' from generate_series(1, 9) as n";
    bench.client.batch_execute(many).await.unwrap();
    let other = bench._owner.connect().await.unwrap();
    other.batch_execute("begin; lock table rate_counters").await.unwrap();
    let pid: i32 = bench.keeper.query_one("select pg_backend_pid()", &[]).await.unwrap().get(0);
    let (tenant, now) = (TenantId::new("t").unwrap(), Timestamp::now());
    let second = bench._owner.connect().await.unwrap();
    let watching = async {
        // The run waits for the table in the middle of its batches.
        let waiting = "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'";
        while second.query_one(waiting, &[]).await.unwrap().get::<_, i64>(0) == 0 {
            tokio::task::yield_now().await;
        }
        let free: bool = second.query_one(LOCK, &[&"t"]).await.unwrap().get("free");
        second.execute("select pg_terminate_backend($1)", &[&pid]).await.unwrap();
        other.batch_execute("rollback").await.unwrap();
        free
    };
    let (ended, free) =
        tokio::join!(run(&mut bench.client, &mut bench.keeper, &tenant, 30, now, false), watching);
    assert!(!free, "nobody else may begin");
    assert!(ended.is_err(), "{ended:?}");
}
