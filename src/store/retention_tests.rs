use super::*;
use crate::store::embedded::testing::{TestDatabase, TestServer};

struct Bench {
    client: Client,
    _owner: TestDatabase,
}

impl Bench {
    async fn new() -> Self {
        let owner = TestServer::database().unwrap();
        let client = owner.connect().await.unwrap();
        Self { client, _owner: owner }
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
        let tenant = TenantId::new("t").unwrap();
        let deleted = run(&mut self.client, &tenant, 30, Timestamp::now(), dry_run).await.unwrap();
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

/// DEC-13: a delivery that is still to be made, an owed reply, a waiting message or follow-up keeps its contact.
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
    ] {
        bench.contact("t", name, 40).await;
        bench.client.batch_execute(work).await.unwrap();
    }
    assert_eq!(bench.run(false).await, []);
    assert_eq!(bench.left().await.len(), 5);
    bench.client.batch_execute("delete from rs_owed; update outbox set status = 'delivered'").await.unwrap();
    assert_eq!(bench.run(false).await, [("outbox", 1), ("turns", 2), ("conversations", 2)]);
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

/// RET-1: more rows than one batch holds, and one run at a time.
#[tokio::test]
async fn a_run_goes_on_batch_by_batch_and_alone() {
    let mut bench = Bench::new().await;
    let many = "insert into rate_counters (tenant_id, subscriber_id, window_start)
        select 't', n::text, now() - interval '9 days' from generate_series(1, 1200) as n";
    bench.client.batch_execute(many).await.unwrap();
    let other = bench._owner.connect().await.unwrap();
    other.batch_execute(&format!("begin; {LOCK}")).await.unwrap();
    let tenant = TenantId::new("t").unwrap();
    let busy = run(&mut bench.client, &tenant, 30, Timestamp::now(), false).await;
    assert!(matches!(busy, Err(StoreError::Busy)), "{busy:?}");
    other.batch_execute("rollback").await.unwrap();
    assert_eq!(bench.run(false).await, [("rate_counters", 1200)]);
}
