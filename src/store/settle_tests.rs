//! A reply that is longer than its response, from Settle to the outbox.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::runtime::Handle;
use tokio_postgres::Client;

use super::*;
use crate::domain::{ContactText, MessageId, SubscriberId, TenantId};
use crate::store::embedded::testing::{TestDatabase, TestServer};
use crate::store::open::{NewMessage, OpenRequest, OpenTurn, Opened, open};
use crate::store::outbox::{self, Claimant};
use crate::store::{PoolLimits, owed};

pub(in crate::store) struct Fixture {
    pub(in crate::store) database: Database,
    pub(in crate::store) client: Client,
    pub(in crate::store) process: ProcessId,
    server: TestDatabase,
}

impl Fixture {
    pub(in crate::store) async fn new() -> Self {
        let server = TestServer::database().unwrap();
        let client = server.connect().await.unwrap();
        let address = server.config().clone().into();
        let database = Database::new(address, Handle::current(), PoolLimits::default()).unwrap();
        Self { database, client, process: ProcessId::fresh(), server }
    }

    /// Another pool over the same database, with so many connections.
    pub(in crate::store) fn database_of(&self, max_size: usize) -> Database {
        let limits = PoolLimits { max_size, ..PoolLimits::default() };
        Database::new(self.server.config().clone().into(), Handle::current(), limits).unwrap()
    }

    /// What a turn of the one contact asks of Open.
    pub(in crate::store) fn request(&self, turn: TurnId) -> OpenRequest {
        let message = NewMessage {
            id: MessageId::from(*turn.as_uuid()),
            text: ContactText::new("hello".to_owned()),
            media: None,
            offering: None,
            received_at: Timestamp::now(),
            stored: false,
        };
        OpenRequest {
            tenant: TenantId::new("test").unwrap(),
            subscriber: SubscriberId::new("70010001").unwrap(),
            channel: "whatsapp".to_owned(),
            token_digest: None,
            fresh_digest: None,
            tokens_enforced: false,
            messages: vec![message],
            guarded: false,
            received_at: Timestamp::now(),
            last_received_at: Timestamp::now(),
            now: Timestamp::now(),
            idle_reset_hours: 24,
            offering: None,
            acted_by: None,
            pausable: true,
            history_days: 30,
            process: self.process,
            turn,
            lane_secs: 60.0,
            dead_secs: 60.0,
            takeover_secs: 60.0,
        }
    }

    /// A turn whose lane is taken and whose reply is owed.
    pub(in crate::store) async fn opened(&self) -> (TurnId, OpenTurn) {
        let turn = TurnId::fresh();
        (turn, self.open(&self.request(turn)).await)
    }

    pub(in crate::store) async fn open(&self, request: &OpenRequest) -> OpenTurn {
        match open(&self.database, request).await.unwrap() {
            Opened::Started(opened) => *opened,
            Opened::Waiting(_) => panic!("the lane is held"),
        }
    }

    /// Settles a turn whose whole reply is `all` and whose response leaves `rest` out.
    pub(in crate::store) async fn settled(
        &self,
        deferred: bool,
        all: &[&str],
        rest: &[&str],
    ) -> (TurnId, Settled) {
        let (turn, opened) = self.opened().await;
        let request = self.reply(turn, &opened, deferred, all, rest);
        (turn, settle(&self.database, &request).await.unwrap().settled)
    }

    /// What an opened turn asks of Settle.
    pub(in crate::store) fn reply(
        &self,
        turn: TurnId,
        opened: &OpenTurn,
        deferred: bool,
        all: &[&str],
        rest: &[&str],
    ) -> SettleRequest {
        let payload = |texts: &[&str]| json!({ "messages": texts });
        SettleRequest {
            conversation: opened.conversation,
            turn,
            fence: opened.fence,
            process: self.process,
            deferred,
            payload: payload(all),
            rest: (!rest.is_empty()).then(|| payload(rest)),
            agent: AgentRow {
                id: AgentRowId::fresh(),
                text: all.join("\n"),
                outcome: Outcome::AnsweredInline,
                bound: true,
                actions: None,
                usage: None,
                at: Timestamp::now(),
            },
            escalation: None,
            checks: None,
            not_before: None,
            summary: None,
        }
    }

    /// A connection of somebody else.
    pub(in crate::store) async fn connect(&self) -> Client {
        self.server.connect().await.unwrap()
    }

    /// Returns when a statement in this database waits for a lock.
    pub(in crate::store) async fn until_somebody_waits(&self) {
        let sql = "select count(*) from pg_stat_activity
                   where datname = current_database() and wait_event_type = 'Lock'";
        let until = std::time::Instant::now() + std::time::Duration::from_secs(120);
        while self.client.query_one(sql, &[]).await.unwrap().get::<_, i64>(0) == 0 {
            assert!(std::time::Instant::now() < until, "nobody waits for a lock");
            tokio::task::yield_now().await;
        }
    }

    /// Confirms the reply; true when something follows it.
    pub(in crate::store) async fn handed_over(&self, turn: TurnId) -> bool {
        self.confirmed(turn).await.queued
    }

    /// Confirms the reply, and tells all that follows it.
    pub(in crate::store) async fn confirmed(&self, turn: TurnId) -> owed::Confirmed {
        owed::confirm(&self.database, &[turn], self.process, Timestamp::now()).await.unwrap()
    }

    /// Texts of the queued replies in the order in which they are to be delivered.
    async fn outbox(&self) -> Vec<Value> {
        let sql =
            "select payload from outbox where kind = 'reply' and status = 'pending' order by created_at";
        let rows = self.client.query(sql, &[]).await.unwrap();
        rows.iter().map(|row| row.get::<_, Value>(0)["messages"].clone()).collect()
    }

    async fn owed_rows(&self) -> i64 {
        self.client.query_one("select count(*) from rs_owed", &[]).await.unwrap().get(0)
    }
}

/// GAP-CH-11, ARC-46: the remainder is nowhere to be delivered until the beginning is out, and then it is there in
/// the same statement that ends the debt.
#[tokio::test(flavor = "multi_thread")]
async fn the_rest_follows_when_the_beginning_was_handed_over() {
    let fixture = Fixture::new().await;
    let (turn, settled) = fixture.settled(false, &["one", "two"], &["two"]).await;
    assert_eq!(settled, Settled::Inline);
    assert!(fixture.outbox().await.is_empty(), "the beginning may not be out yet");
    assert!(fixture.handed_over(turn).await, "the worker is woken");
    assert_eq!(fixture.outbox().await, [json!(["two"])]);
    assert_eq!(fixture.owed_rows().await, 0);
    assert!(!fixture.handed_over(turn).await);
    assert_eq!(fixture.outbox().await.len(), 1, "confirming again changes nothing");
}

/// GAP-CH-11, GAP-CH-7: a beginning that never went out is delivered with all that follows it, once.
#[tokio::test(flavor = "multi_thread")]
async fn a_beginning_that_was_not_handed_over_is_queued_whole() {
    let fixture = Fixture::new().await;
    let (turn, _) = fixture.settled(false, &["one", "two"], &["two"]).await;
    owed::queue(&fixture.database, turn).await.unwrap();
    owed::queue(&fixture.database, turn).await.unwrap();
    fixture.handed_over(turn).await;
    assert_eq!(fixture.outbox().await, [json!(["one", "two"])]);
    assert_eq!(fixture.owed_rows().await, 0);
}

/// GAP-CH-11, CHC-4: a reply without a response goes whole and once.
#[tokio::test(flavor = "multi_thread")]
async fn a_deferred_long_reply_goes_through_the_outbox_whole() {
    let fixture = Fixture::new().await;
    let (turn, settled) = fixture.settled(true, &["one", "two"], &["two"]).await;
    assert_eq!(settled, Settled::Queued);
    fixture.handed_over(turn).await;
    assert_eq!(fixture.outbox().await, [json!(["one", "two"])]);
}

/// ARC-43, LANE-6: a reply that is settled while the remainder is still to come goes behind it, and is due later.
#[tokio::test(flavor = "multi_thread")]
async fn a_following_reply_stays_behind_the_rest() {
    let fixture = Fixture::new().await;
    let (first, _) = fixture.settled(false, &["one", "two"], &["two"]).await;
    let (second, settled) = fixture.settled(false, &["three"], &[]).await;
    assert_eq!(settled, Settled::Queued, "it must not overtake the remainder through the response");
    let row =
        fixture.client.query_one("select next_attempt_at - created_at > '500 ms' from outbox", &[]).await;
    assert!(row.unwrap().get::<_, bool>(0), "it is not due before the remainder is there");
    fixture.handed_over(first).await;
    fixture.handed_over(second).await;
    assert_eq!(fixture.outbox().await, [json!(["two"]), json!(["three"])]);
    let due = "select payload->'messages'->>0 from outbox order by next_attempt_at limit 1";
    assert_eq!(fixture.client.query_one(due, &[]).await.unwrap().get::<_, String>(0), "two");
}

/// ARC-46: without a remainder nothing is queued, and the next reply goes inline.
#[tokio::test(flavor = "multi_thread")]
async fn a_short_reply_leaves_the_outbox_alone() {
    let fixture = Fixture::new().await;
    let (first, _) = fixture.settled(false, &["one"], &[]).await;
    let (second, settled) = fixture.settled(false, &["two"], &[]).await;
    assert_eq!(settled, Settled::Inline);
    assert!(!fixture.handed_over(first).await && !fixture.handed_over(second).await);
    assert!(fixture.outbox().await.is_empty());
}

/// What a worker with this many seconds until death would claim now.
pub(in crate::store) async fn claimed(fixture: &Fixture) -> Vec<Vec<String>> {
    let claimant = Claimant {
        tenant: TenantId::new("test").unwrap(),
        process: ProcessId::fresh(),
        lease: Duration::from_secs(60),
        dead: Duration::from_secs(20),
        gap: Duration::from_secs(2),
    };
    let sql = "insert into rs_processes (id, tenant_id) values ($1, 'test')";
    fixture.client.execute(sql, &[claimant.process.as_uuid()]).await.unwrap();
    let claims = outbox::claim(&fixture.database, || Some(claimant.clone()), 10, 10, Timestamp::now())
        .await
        .unwrap()
        .replies;
    let mut texts = Vec::new();
    for claim in claims {
        texts.push(claim.texts.expose().clone());
        outbox::delivered(&fixture.database, &claimant, &claim).await.unwrap();
    }
    texts
}

/// LANE-6, GAP-DL-4, ARC-43, ARC-47: a reply that another process settled behind ours is not delivered before ours is out
/// or queued, and ours keeps its place when it is queued later.
#[tokio::test(flavor = "multi_thread")]
async fn a_reply_behind_another_processs_waits_for_it() {
    let mut fixture = Fixture::new().await;
    let (first, settled) = fixture.settled(false, &["first"], &[]).await;
    assert_eq!(settled, Settled::Inline);
    fixture.process = ProcessId::fresh();
    let (_, settled) = fixture.settled(false, &["second"], &[]).await;
    assert_eq!(settled, Settled::Queued, "the first may still be on its way");
    assert_eq!(claimed(&fixture).await, [] as [Vec<String>; 0], "nothing overtakes the first");
    let tenant = TenantId::new("test").unwrap();
    assert_eq!(outbox::next_due(&fixture.database, &tenant, true).await.unwrap(), None, "no worker spins");
    owed::queue(&fixture.database, first).await.unwrap();
    assert_eq!(claimed(&fixture).await, [["first"]], "the earlier one first");
    assert_eq!(claimed(&fixture).await, [["second"]]);
}

/// ARC-47a: confirming the first says that something waits behind it, so that the worker looks.
#[tokio::test(flavor = "multi_thread")]
async fn a_confirmed_reply_frees_the_one_behind_it() {
    let mut fixture = Fixture::new().await;
    let (first, _) = fixture.settled(false, &["first"], &[]).await;
    fixture.process = ProcessId::fresh();
    fixture.settled(false, &["second"], &[]).await;
    assert!(fixture.handed_over(first).await, "the worker is woken");
    assert_eq!(claimed(&fixture).await, [["second"]]);
}

/// DEC-19: a call that was given up names its model and the time; what was not reported stays null.
#[tokio::test(flavor = "multi_thread")]
async fn an_aborted_call_is_recorded_with_its_model_and_time() {
    let fixture = Fixture::new().await;
    let (turn, opened) = fixture.opened().await;
    let request = SettleRequest {
        conversation: opened.conversation,
        turn,
        fence: opened.fence,
        process: fixture.process,
        deferred: true,
        payload: json!({ "messages": ["sorry"] }),
        rest: None,
        agent: AgentRow {
            id: AgentRowId::fresh(),
            text: "sorry".to_owned(),
            outcome: Outcome::Error,
            bound: true,
            actions: None,
            usage: Some(UsageRow {
                model: "mock:slow".to_owned(),
                input: None,
                output: None,
                cache_read: None,
                cost: None,
                latency: Duration::from_millis(1234),
            }),
            at: Timestamp::now(),
        },
        escalation: None,
        checks: None,
        not_before: None,
        summary: None,
    };
    settle(&fixture.database, &request).await.unwrap();
    let sql = "select model, latency_ms, input_tokens, cost_usd from turns where role = 'agent'";
    let row = fixture.client.query_one(sql, &[]).await.unwrap();
    assert_eq!((row.get::<_, String>(0), row.get::<_, i32>(1)), ("mock:slow".to_owned(), 1234));
    assert_eq!(row.get::<_, Option<i32>>(2), None);
    assert_eq!(row.get::<_, Option<Decimal>>(3), None);
}

/// ARC-42, ARC-43: a reply of a living process that is never confirmed holds the contact's next one up for a few minutes,
/// not for good; one of a dead process, until it is recovered, however long nobody was there to do it.
#[tokio::test(flavor = "multi_thread")]
async fn a_reply_that_is_never_confirmed_silences_nobody() {
    let mut fixture = Fixture::new().await;
    fixture.settled(false, &["first"], &[]).await;
    fixture.process = ProcessId::fresh();
    fixture.settled(false, &["second"], &[]).await;
    assert_eq!(claimed(&fixture).await, [] as [Vec<String>; 0]);
    let sql = "update rs_owed set said_at = said_at - interval '6 minutes'";
    fixture.client.batch_execute(sql).await.unwrap();
    assert_eq!(claimed(&fixture).await, [] as [Vec<String>; 0], "its process is dead: it goes first");
    let sql =
        "insert into rs_processes (id, tenant_id) select process_id, 'test' from rs_owed where not queued";
    fixture.client.batch_execute(sql).await.unwrap();
    assert_eq!(claimed(&fixture).await, [["second"]]);
}

/// 01 section 17, ARC-30, DEC-13: why a turn came to what it came to stands beside its agent row, written by the same
/// statement, and goes with it.
#[tokio::test(flavor = "multi_thread")]
async fn what_the_checks_found_is_kept_with_the_turn() {
    let fixture = Fixture::new().await;
    let (turn, opened) = fixture.opened().await;
    let mut request = SettleRequest {
        conversation: opened.conversation,
        turn,
        fence: opened.fence,
        process: fixture.process,
        deferred: true,
        payload: json!({ "messages": ["sorry"] }),
        rest: None,
        agent: AgentRow {
            id: AgentRowId::fresh(),
            text: "sorry".to_owned(),
            outcome: Outcome::EscalatedModel,
            bound: true,
            actions: None,
            usage: None,
            at: Timestamp::now(),
        },
        escalation: Some(EscalationReason::LowConfidence),
        not_before: None,
        summary: None,
        checks: Some(CheckRow {
            cause: Some("confidence"),
            interventions: vec!["field_echo_stripped".to_owned(), "confidence_below_threshold".to_owned()],
            confidence: Some(0.25),
            ungrounded: 2,
        }),
    };
    settle(&fixture.database, &request).await.unwrap();
    request.agent.id = AgentRowId::fresh();
    settle(&fixture.database, &request).await.unwrap();
    let sql = "select x.cause, x.interventions, x.confidence, x.ungrounded, x.escalation_reason
               from rs_turn_checks x join turns t on t.id = x.turn_id and t.role = 'agent'
               where x.conversation_id = t.conversation_id";
    let rows = fixture.client.query(sql, &[]).await.unwrap();
    assert_eq!(rows.len(), 1, "a superseded turn keeps nothing");
    assert_eq!(rows[0].get::<_, String>(0), "confidence");
    assert_eq!(rows[0].get::<_, Vec<String>>(1), ["field_echo_stripped", "confidence_below_threshold"]);
    assert_eq!((rows[0].get::<_, f32>(2), rows[0].get::<_, i32>(3)), (0.25, 2));
    assert_eq!(rows[0].get::<_, String>(4), "low_confidence");
    fixture.client.execute("delete from turns", &[]).await.unwrap();
    assert!(fixture.client.query("select 1 from rs_turn_checks", &[]).await.unwrap().is_empty());
}

/// ARC-60: the sabotage that the order of replies is tried with still finds its place in each of the statements.
#[test]
fn the_sabotaged_statements_differ_in_one_place() {
    for sql in VARIANTS {
        assert_eq!(blind(sql).len(), sql.len() + "false and ".len());
    }
}
