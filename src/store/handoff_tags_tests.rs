use tokio_postgres::Client;

use super::*;
use crate::store::PoolLimits;
use crate::store::embedded::testing::{TestDatabase, TestServer};

struct Bench {
    database: Database,
    client: Client,
    process: ProcessId,
    _owner: TestDatabase,
}

impl Bench {
    /// One contact with one open handoff.
    async fn new() -> Self {
        let owner = TestServer::database().unwrap();
        let io = tokio::runtime::Handle::current();
        let database = Database::new(owner.config().clone().into(), io, PoolLimits::default()).unwrap();
        let client = owner.connect().await.unwrap();
        let bench = Self { database, client, process: ProcessId::fresh(), _owner: owner };
        bench.register(bench.process).await;
        bench
            .run(
                "insert into conversations (tenant_id, subscriber_id, channel) values ('t', '7', 'whatsapp')",
            )
            .await;
        bench.hand_off().await;
        bench
    }

    async fn run(&self, sql: &str) {
        self.client.batch_execute(sql).await.unwrap();
    }

    async fn register(&self, process: ProcessId) {
        let sql = "insert into rs_processes (id, tenant_id) values ($1, 't')";
        self.client.execute(sql, &[process.as_uuid()]).await.unwrap();
    }

    async fn hand_off(&self) {
        self.run(
            "insert into rs_handoffs (conversation_id, reason) select id, 'complaint' from conversations",
        )
        .await;
    }

    async fn additions(&self) -> Vec<Attempt> {
        claim_additions(&self.database, &tenant(), self.process, "needs-person", 20).await.unwrap()
    }

    async fn removals(&self) -> Vec<Attempt> {
        claim_removals(&self.database, &tenant(), self.process, 20).await.unwrap()
    }

    async fn states(&self) -> Vec<(Option<String>, Option<String>)> {
        let sql = "select tag_state, untag_state from rs_handoffs order by opened_at, id";
        self.client.query(sql, &[]).await.unwrap().iter().map(|row| (row.get(0), row.get(1))).collect()
    }
}

fn tenant() -> TenantId {
    TenantId::new("t").unwrap()
}

fn word(text: &str) -> Option<String> {
    Some(text.to_owned())
}

/// DEC-25: the text first, whichever way it goes; then one claim, whoever asks.
#[tokio::test]
async fn a_person_is_called_after_the_text_and_once() {
    let bench = Bench::new().await;
    bench.run("update rs_handoffs set turn_id = gen_random_uuid();
        insert into rs_owed (turn_id, conversation_id, tenant_id, process_id, status, binding, user_turn_ids, received_at)
        select h.turn_id, h.conversation_id, 't', gen_random_uuid(), 'said', 'first', '{}', now() from rs_handoffs h").await;
    assert!(bench.additions().await.is_empty(), "the reply is still owed");
    bench.run("delete from rs_owed; insert into outbox (tenant_id, subscriber_id, payload) values ('t', '7', '{}')").await;
    assert!(bench.additions().await.is_empty(), "the reply is queued");
    bench.run("update outbox set status = 'failed'").await;
    let (one, two) = tokio::join!(bench.additions(), bench.additions());
    let claimed: Vec<Attempt> = one.into_iter().chain(two).collect();
    assert_eq!(claimed.len(), 1, "{claimed:?}");
    assert_eq!((claimed[0].subscriber.expose(), claimed[0].tag.as_str()), ("7", "needs-person"));
    record(&bench.database, bench.process, &claimed[0], &Attempted::Failed("api_error 400".to_owned()))
        .await
        .unwrap();
    assert!(bench.additions().await.is_empty(), "one attempt");
    assert_eq!(bench.states().await, [(word("failed"), None)]);
}

/// ARC-41: what a dead process had claimed stays unknown; what it had not is claimed by another.
#[tokio::test]
async fn a_dead_process_leaves_its_attempt_unknown_and_the_rest_to_others() {
    let bench = Bench::new().await;
    let dead = ProcessId::fresh();
    assert_eq!(claim_additions(&bench.database, &tenant(), dead, "needs-person", 20).await.unwrap().len(), 1);
    bench.hand_off().await;
    assert_eq!(tidy(&bench.database, &tenant(), 20.0, true).await.unwrap(), 1);
    assert_eq!(bench.states().await, [(word("unknown"), None), (None, None)]);
    let claimed = bench.additions().await;
    assert_eq!(claimed.len(), 1);
    assert_eq!(tidy(&bench.database, &tenant(), 20.0, true).await.unwrap(), 0, "this process lives");
    record(&bench.database, bench.process, &claimed[0], &Attempted::NotStarted).await.unwrap();
    assert_eq!(bench.additions().await.len(), 1, "a call that was never started may be made");
}

/// DEC-25: closing takes the tag off, once for all handoffs of the contact, and only when none is open.
#[tokio::test]
async fn the_tag_goes_with_the_last_open_handoff() {
    let bench = Bench::new().await;
    bench.hand_off().await;
    for attempt in bench.additions().await {
        record(&bench.database, bench.process, &attempt, &Attempted::Done).await.unwrap();
    }
    assert!(bench.removals().await.is_empty());
    let close_oldest = "update rs_handoffs set closed_at = now() where id =
        (select id from rs_handoffs where closed_at is null order by opened_at, id limit 1)";
    bench.run(close_oldest).await;
    assert!(bench.removals().await.is_empty(), "the other one still needs a person");
    bench.run(close_oldest).await;
    let removals = bench.removals().await;
    assert_eq!(removals.len(), 1);
    assert_eq!((removals[0].change, removals[0].tag.as_str()), (Change::Remove, "needs-person"));
    record(&bench.database, bench.process, &removals[0], &Attempted::Done).await.unwrap();
    assert!(bench.removals().await.is_empty());
    assert_eq!(bench.states().await, [(word("added"), None), (word("added"), word("removed"))]);
}

/// A call that is a day old helps nobody, and another tenant's handoffs are not ours (PROC-7).
#[tokio::test]
async fn old_and_foreign_handoffs_are_left_alone() {
    let bench = Bench::new().await;
    bench.run("update rs_handoffs set opened_at = now() - interval '25 hours'").await;
    assert!(bench.additions().await.is_empty());
    tidy(&bench.database, &tenant(), 20.0, false).await.unwrap();
    assert_eq!(bench.states().await, [(None, None)], "without a rule nothing expires");
    tidy(&bench.database, &tenant(), 20.0, true).await.unwrap();
    assert_eq!(bench.states().await, [(word("expired"), None)]);
    bench.run("update conversations set tenant_id = 'other'; update rs_handoffs set tag_state = null, opened_at = now()").await;
    assert!(bench.additions().await.is_empty());
}
