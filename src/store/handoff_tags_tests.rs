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
        self.additions_of(self.process).await
    }

    async fn additions_of(&self, process: ProcessId) -> Vec<Attempt> {
        claim_additions(&self.database, &claimer(process), "needs-person", 20).await.unwrap()
    }

    async fn begin(&self, attempt: &Attempt) -> bool {
        begin(&self.database, self.process, attempt.handoff).await.unwrap()
    }

    async fn record(&self, attempt: &Attempt, outcome: Attempted) {
        record(&self.database, self.process, attempt, &outcome, None).await.unwrap();
    }

    /// Every open handoff gets its tag.
    async fn add_all(&self) {
        for attempt in self.additions().await {
            assert!(self.begin(&attempt).await);
            self.record(&attempt, Attempted::Done).await;
        }
    }

    async fn close_oldest(&self) {
        self.run(
            "update rs_handoffs set closed_at = now() where id =
               (select id from rs_handoffs where closed_at is null order by opened_at, id limit 1)",
        )
        .await;
    }

    async fn removals(&self) -> Vec<Attempt> {
        claim_removals(&self.database, &claimer(self.process), 20).await.unwrap()
    }

    async fn states(&self) -> Vec<(Option<String>, Option<String>)> {
        let sql = "select tag_state, untag_state from rs_handoffs order by opened_at, id";
        self.client.query(sql, &[]).await.unwrap().iter().map(|row| (row.get(0), row.get(1))).collect()
    }
}

fn tenant() -> TenantId {
    TenantId::new("t").unwrap()
}

fn claimer(process: ProcessId) -> Claimer {
    Claimer { tenant: tenant(), process, dead_secs: 20.0 }
}

fn word(text: &str) -> Option<String> {
    Some(text.to_owned())
}

/// DEC-25: a rule that is turned on finds a day of open handoffs; who has just asked for a person comes before them.
#[tokio::test]
async fn new_handoffs_are_called_before_the_old_ones() {
    let bench = Bench::new().await;
    bench
        .run(
            "delete from rs_handoffs;
             insert into rs_handoffs (conversation_id, reason, opened_at)
             select c.id, 'complaint', now() - make_interval(mins => m)
             from conversations c, unnest(array[700, 3, 30, 8, 11]) m",
        )
        .await;
    let mut ages = Vec::new();
    for _ in 0..5 {
        let claimed =
            claim_additions(&bench.database, &claimer(bench.process), "needs-person", 1).await.unwrap();
        assert!(bench.begin(&claimed[0]).await);
        bench.record(&claimed[0], Attempted::Done).await;
        let sql =
            "select round(extract(epoch from now() - opened_at) / 60)::int from rs_handoffs where id = $1";
        ages.push(bench.client.query_one(sql, &[&claimed[0].handoff]).await.unwrap().get::<_, i32>(0));
    }
    assert_eq!(ages, [8, 3, 700, 30, 11]);
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
    let other = ProcessId::fresh();
    bench.register(other).await;
    let (mine, others) = tokio::join!(bench.additions(), bench.additions_of(other));
    assert_eq!(mine.len() + others.len(), 1, "{mine:?} {others:?}");
    bench.run("update rs_handoffs set tag_process_id = null").await;
    let claimed = bench.additions().await;
    assert_eq!((claimed[0].subscriber.expose(), claimed[0].tag.as_str()), ("7", "needs-person"));
    assert!(bench.begin(&claimed[0]).await);
    assert!(!bench.begin(&claimed[0]).await, "it has begun");
    bench.record(&claimed[0], Attempted::Failed("api_error 400".to_owned())).await;
    assert!(bench.additions().await.is_empty(), "one attempt");
    assert_eq!(bench.states().await, [(word("failed"), None)]);
}

/// ARC-41: what a dead process had begun stays unknown; what it had only claimed is called by another.
#[tokio::test]
async fn a_dead_process_leaves_what_it_began_unknown_and_the_rest_to_others() {
    let bench = Bench::new().await;
    bench.hand_off().await;
    let dead = ProcessId::fresh();
    bench.register(dead).await;
    let theirs = bench.additions_of(dead).await;
    assert_eq!(theirs.len(), 2);
    assert!(begin(&bench.database, dead, theirs[0].handoff).await.unwrap());
    assert!(bench.additions().await.is_empty(), "a living process's claims are its own");
    bench.run("update rs_handoffs set opened_at = opened_at - interval '25 hours'").await;
    tidy(&bench.database, &tenant(), 20.0, true).await.unwrap();
    assert_eq!(bench.states().await, [(word("attempting"), None), (None, None)], "nor does its claim expire");
    bench.run("update rs_handoffs set opened_at = opened_at + interval '25 hours'").await;
    bench.client.execute("delete from rs_processes where id = $1", &[dead.as_uuid()]).await.unwrap();
    assert_eq!(tidy(&bench.database, &tenant(), 20.0, true).await.unwrap(), 1);
    assert_eq!(bench.states().await, [(word("unknown"), None), (None, None)]);
    let claimed = bench.additions().await;
    assert_eq!(claimed.iter().map(|one| one.handoff).collect::<Vec<_>>(), [theirs[1].handoff]);
    assert!(!begin(&bench.database, dead, theirs[1].handoff).await.unwrap(), "it is another's now");
    assert!(bench.begin(&claimed[0]).await);
    assert_eq!(tidy(&bench.database, &tenant(), 20.0, true).await.unwrap(), 0, "this process lives");
    bench.record(&claimed[0], Attempted::NotStarted).await;
    assert_eq!(bench.additions().await.len(), 1, "a call that was never started may be made");
}

/// DEC-25: a handoff that is closed while its call waits for the rate calls nobody.
#[tokio::test]
async fn a_handoff_closed_meanwhile_calls_nobody() {
    let bench = Bench::new().await;
    let claimed = bench.additions().await;
    bench.close_oldest().await;
    assert!(!bench.begin(&claimed[0]).await);
    bench.record(&claimed[0], Attempted::NotStarted).await;
    assert!(bench.additions().await.is_empty() && bench.removals().await.is_empty());
}

/// DEC-25: closing takes the tag off, once for all handoffs of the contact, and only when none is open.
#[tokio::test]
async fn the_tag_goes_with_the_last_open_handoff() {
    let bench = Bench::new().await;
    bench.hand_off().await;
    bench.add_all().await;
    assert!(bench.removals().await.is_empty());
    bench.close_oldest().await;
    assert!(bench.removals().await.is_empty(), "the other one still needs a person");
    bench.close_oldest().await;
    let removals = bench.removals().await;
    assert_eq!(removals.len(), 1);
    assert_eq!((removals[0].change, removals[0].tag.as_str()), (Change::Remove, "needs-person"));
    bench.record(&removals[0], Attempted::Done).await;
    assert!(bench.removals().await.is_empty());
    assert_eq!(bench.states().await, [(word("added"), None), (word("added"), word("removed"))]);
}

/// DEC-25, BOX-13: taking off is tried again when it is due, for a day; what a dead process had begun at once.
#[tokio::test]
async fn a_removal_is_tried_again_for_a_day() {
    let bench = Bench::new().await;
    bench.add_all().await;
    bench.close_oldest().await;
    let soon = Duration::from_secs(60);
    for (number, outcome) in [
        (1, Attempted::Failed("api_error 429".to_owned())),
        (2, Attempted::Unknown("connection_error timeout".to_owned())),
    ] {
        let removals = bench.removals().await;
        assert_eq!(removals[0].number, number);
        record(&bench.database, bench.process, &removals[0], &outcome, Some(soon)).await.unwrap();
        assert!(bench.removals().await.is_empty(), "not due yet");
        bench.run("update rs_handoffs set untag_due_at = now()").await;
    }
    let dead = ProcessId::fresh();
    bench.register(dead).await;
    assert_eq!(claim_removals(&bench.database, &claimer(dead), 20).await.unwrap().len(), 1);
    assert!(bench.removals().await.is_empty(), "a living process has it");
    bench.client.execute("delete from rs_processes where id = $1", &[dead.as_uuid()]).await.unwrap();
    let removals = bench.removals().await;
    assert_eq!(removals[0].number, 4);
    bench.run("update rs_handoffs set closed_at = now() - interval '24 hours'").await;
    let outcome = Attempted::Failed("api_error 429".to_owned());
    record(&bench.database, bench.process, &removals[0], &outcome, Some(soon)).await.unwrap();
    bench.run("update rs_handoffs set untag_due_at = now() where untag_due_at is not null").await;
    assert!(bench.removals().await.is_empty(), "a day after closing it is given up");
    assert_eq!(bench.states().await, [(word("added"), word("failed"))]);
}

/// DEC-25: the next handoff's tag waits for a removal under way or to come, or ManyChat would start no automation.
#[tokio::test]
async fn an_addition_waits_for_the_removal() {
    let bench = Bench::new().await;
    bench.add_all().await;
    bench.hand_off().await;
    let early = bench.additions().await;
    assert_eq!(early.len(), 1, "the first handoff is still open: its tag stays");
    bench.close_oldest().await;
    assert!(!bench.begin(&early[0]).await, "now a removal comes first");
    bench.record(&early[0], Attempted::NotStarted).await;
    assert!(bench.additions().await.is_empty());
    let removals = bench.removals().await;
    assert_eq!(removals.len(), 1, "an open handoff that has called nobody yet keeps no tag");
    assert!(bench.additions().await.is_empty(), "under way");
    let outcome = Attempted::Failed("api_error 429".to_owned());
    record(&bench.database, bench.process, &removals[0], &outcome, Some(Duration::from_secs(60)))
        .await
        .unwrap();
    assert!(bench.additions().await.is_empty(), "to be tried again");
    bench.run("update rs_handoffs set untag_due_at = now() where untag_due_at is not null").await;
    bench.record(&bench.removals().await[0], Attempted::Done).await;
    bench.add_all().await;
    assert_eq!(bench.states().await, [(word("added"), word("removed")), (word("added"), None)]);
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
