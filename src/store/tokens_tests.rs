//! Issue, rotation, first burst and the worker's retry, against a real server.

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use tokio::runtime::Handle;
use tokio_postgres::Client;

use super::*;
use crate::domain::{Binding, ContactText, MessageId, ProcessId, SubscriberId, TenantId, TurnId};
use crate::store::embedded::testing::{TestDatabase, TestServer};
use crate::store::open::{NewMessage, OpenRequest, OpenTurn, Opened, open};
use crate::store::{PoolLimits, outbox};

struct Fixture {
    database: Database,
    client: Client,
    start: Timestamp,
    _server: TestDatabase,
}

/// One message: what it presents, the token that is issued if one is due, and when it came and is opened.
struct Message<'text> {
    presents: Option<&'text str>,
    fresh: Option<&'text str>,
    arrived: Timestamp,
    opened: Timestamp,
}

impl Fixture {
    async fn new() -> Self {
        let server = TestServer::database().unwrap();
        let client = server.connect().await.unwrap();
        let address = server.config().clone().into();
        let database = Database::new(address, Handle::current(), PoolLimits::default()).unwrap();
        let start = "2026-03-20T12:00:00Z".parse().unwrap();
        Self { database, client, start, _server: server }
    }

    fn at(&self, seconds: i64) -> Timestamp {
        self.start + SignedDuration::from_secs(seconds)
    }

    fn request(&self, text: &str, message: &Message<'_>) -> OpenRequest {
        let turn = TurnId::fresh();
        OpenRequest {
            tenant: TenantId::new("t").unwrap(),
            subscriber: SubscriberId::new("1").unwrap(),
            channel: "whatsapp".to_owned(),
            token_digest: message.presents.map(str::to_owned),
            fresh_digest: message.fresh.map(str::to_owned),
            tokens_enforced: true,
            messages: vec![NewMessage {
                id: MessageId::from(*turn.as_uuid()),
                text: ContactText::new(text),
                media: None,
                offering: None,
                received_at: message.arrived,
                stored: false,
            }],
            guarded: true,
            now: message.opened,
            received_at: message.arrived,
            last_received_at: message.arrived,
            idle_reset_hours: 24,
            offering: None,
            acted_by: None,
            pausable: true,
            history_days: 30,
            process: ProcessId::fresh(),
            turn,
            lane_secs: 60.0,
            dead_secs: 60.0,
            takeover_secs: 60.0,
        }
    }

    async fn send(&self, text: &str, message: Message<'_>) -> OpenTurn {
        let opened = open(&self.database, &self.request(text, &message)).await.unwrap();
        self.client.batch_execute("update rs_lanes set turn_id = null; delete from rs_owed").await.unwrap();
        match opened {
            Opened::Started(turn) => *turn,
            Opened::Waiting(waits) => panic!("the lane is held: {waits:?}"),
        }
    }

    /// A message that is opened as it arrives, so many seconds after the start.
    async fn say(&self, seconds: i64, presents: Option<&str>, fresh: &str) -> OpenTurn {
        let at = self.at(seconds);
        let text = format!("said at {seconds}");
        self.send(&text, Message { presents, fresh: Some(fresh), arrived: at, opened: at }).await
    }

    /// Current hash, previous hash, generation, seconds from the start to the issue.
    async fn stored(&self) -> (Option<String>, Option<String>, i32, Option<i64>) {
        let sql =
            "select token_hash, previous_token_hash, token_generation, token_issued_at from conversations";
        let row = self.client.query_one(sql, &[]).await.unwrap();
        let issued: Option<Timestamp> = row.get(3);
        let seconds = issued.map(|at| at.duration_since(self.start).as_secs());
        (row.get(0), row.get(1), row.get(2), seconds)
    }

    /// Kind, payload, status and whether it is due between 50 and 60 seconds from now, of all rows in order.
    async fn rows(&self) -> Vec<(Value, String, bool)> {
        let sql = "select payload, status, next_attempt_at between now() + interval '50 s' and now() + interval '60 s'
                   from outbox where kind = 'contact_token' order by created_at";
        let rows = self.client.query(sql, &[]).await.unwrap();
        rows.iter().map(|row| (row.get(0), row.get(1), row.get(2))).collect()
    }

    async fn claimant(&self) -> Claimant {
        let process = ProcessId::fresh();
        let sql = "insert into rs_processes (id, tenant_id) values ($1, 't')";
        self.client.execute(sql, &[process.as_uuid()]).await.unwrap();
        let second = std::time::Duration::from_secs(1);
        let tenant = TenantId::new("t").unwrap();
        Claimant { tenant, process, lease: second * 60, dead: second * 20, gap: second }
    }

    /// Makes every token row due and claims it.
    async fn claim(&self, claimant: &Claimant) -> Vec<TokenClaim> {
        self.client.batch_execute("update outbox set next_attempt_at = now()").await.unwrap();
        outbox::claim(&self.database, || Some(claimant.clone()), 10, 10, jiff::Timestamp::now())
            .await
            .unwrap()
            .tokens
    }

    async fn replace(&self, claim: &TokenClaim, digest: &str) -> Replaced {
        replace(&self.database, claim, digest).await.unwrap()
    }

    async fn binding_of(&self, presents: &str) -> Binding {
        self.say(600, Some(presents), "never").await.binding
    }
}

fn texts(turn: &OpenTurn) -> Vec<&str> {
    turn.history.iter().map(|row| row.text.expose()).collect()
}

/// TOK-20, TOK-21, TOK-22, TOK-25, CRASH-7, BOX-2, W-6: the first message issues generation 1 with its row due in 60 s; a bound
/// one issues nothing.
#[tokio::test(flavor = "multi_thread")]
async fn the_first_message_issues_and_a_bound_one_does_not() {
    let fixture = Fixture::new().await;
    let first = fixture.say(0, None, "one").await;
    assert_eq!((first.binding, first.history.len()), (Binding::First, 0));
    assert!(first.token_row.is_some());
    assert_eq!(fixture.stored().await, (Some("one".to_owned()), None, 1, Some(0)));
    assert_eq!(fixture.rows().await, [(json!({"generation": 1}), "pending".to_owned(), true)]);
    let bound = fixture.say(9000, Some("one"), "two").await;
    assert_eq!((bound.binding, bound.token_row), (Binding::Bound, None));
    assert_eq!(texts(&bound), ["said at 0"]);
    assert_eq!(fixture.stored().await.2, 1);
}

/// TOK-20, TOK-21, TOK-26, TOK-27, AC-DL-22: an unbound message repairs once an hour, to the second; the previous token binds,
/// the one before it does not; nothing of the contact's own state moves (TURN-3).
#[tokio::test(flavor = "multi_thread")]
async fn an_unbound_message_rotates_once_an_hour() {
    let fixture = Fixture::new().await;
    fixture.say(0, None, "one").await;
    let early = fixture.say(3599, Some("lost"), "two").await;
    assert_eq!((early.binding, early.token_row), (Binding::Unbound, None));
    let repaired = fixture.say(3600, None, "two").await;
    assert_eq!((repaired.binding, repaired.turn_count), (Binding::Unbound, None));
    assert!(repaired.token_row.is_some());
    assert_eq!(fixture.stored().await, (Some("two".to_owned()), Some("one".to_owned()), 2, Some(3600)));
    let sql = "select turn_count, last_message_at from conversations";
    let row = fixture.client.query_one(sql, &[]).await.unwrap();
    assert_eq!((row.get::<_, i32>(0), row.get::<_, Timestamp>(1)), (1, fixture.at(0)), "CONV-5");
    assert!(fixture.say(7200, None, "three").await.token_row.is_some());
    for (presents, binding) in [("three", Binding::Bound), ("two", Binding::Bound), ("one", Binding::Unbound)]
    {
        assert_eq!(fixture.say(7201, Some(presents), "never").await.binding, binding, "{presents}");
    }
    assert_eq!(fixture.rows().await.len(), 3, "one row an issue");
}

/// TOK-20, TOK-27: of many unbound messages at once exactly one issues; a flood without the token makes no flood of
/// tokens.
#[tokio::test(flavor = "multi_thread")]
async fn of_messages_at_once_only_one_issues() {
    let fixture = Fixture::new().await;
    fixture.say(0, None, "one").await;
    let at = fixture.at(4000);
    let digests: Vec<String> = (0..8).map(|number| format!("fresh {number}")).collect();
    let requests: Vec<OpenRequest> = digests
        .iter()
        .map(|fresh| {
            fixture.request("x", &Message { presents: None, fresh: Some(fresh), arrived: at, opened: at })
        })
        .collect();
    let opened =
        futures_util::future::join_all(requests.iter().map(|one| open(&fixture.database, one))).await;
    let issued = opened
        .into_iter()
        .filter(|result| matches!(result, Ok(Opened::Started(turn)) if turn.token_row.is_some()));
    assert_eq!(issued.count(), 1);
    let (current, previous, generation, _) = fixture.stored().await;
    assert!(digests.contains(&current.unwrap()));
    assert_eq!((previous.as_deref(), generation), (Some("one"), 2));
}

/// TOK-20: a turn that does not get its lane issues nothing.
#[tokio::test(flavor = "multi_thread")]
async fn a_turn_without_its_lane_issues_nothing() {
    let fixture = Fixture::new().await;
    fixture.say(0, None, "one").await;
    let sql = "update conversations set token_hash = null, token_generation = 0;
               update rs_lanes set turn_id = gen_random_uuid(), expires_at = now() + interval '1 minute';
               insert into rs_processes (id, tenant_id) select process_id, 't' from rs_lanes";
    fixture.client.batch_execute(sql).await.unwrap();
    let at = fixture.at(5);
    let request =
        fixture.request("x", &Message { presents: None, fresh: Some("two"), arrived: at, opened: at });
    assert!(matches!(open(&fixture.database, &request).await.unwrap(), Opened::Waiting(_)));
    assert_eq!((fixture.stored().await.0, fixture.rows().await.len()), (None, 1));
}

/// DEC-24, DEC-35, GAP-CH-15: until the first token has reached ManyChat, at most 15 s, a message counts as `first`,
/// and reads what was said since the issue and nothing from before it (TOK-14).
#[tokio::test(flavor = "multi_thread")]
async fn a_first_burst_reads_what_was_said_since_the_issue() {
    let fixture = Fixture::new().await;
    let old = "insert into conversations (tenant_id, subscriber_id, channel) values ('t', '1', 'whatsapp');
               insert into turns (conversation_id, role, text, created_at)
               select id, 'user', 'long ago', '2026-03-19T12:00:00Z' from conversations";
    fixture.client.batch_execute(old).await.unwrap();
    let first = fixture.say(0, None, "one").await;
    assert_eq!((first.binding, first.history.len()), (Binding::First, 0));
    for presents in [None, Some("{{ai_token}}")] {
        let next = fixture.say(15, presents, "two").await;
        assert_eq!((next.binding, next.token_row), (Binding::First, None), "{presents:?}");
        assert_eq!(texts(&next)[0], "said at 0", "{presents:?}");
        assert!(!texts(&next).contains(&"long ago"));
        assert!(next.turn_count.is_some() && next.fence.is_some(), "it joins the lane and the count");
    }
    let right = fixture.say(15, Some("one"), "two").await;
    assert_eq!(right.binding, Binding::Bound, "DEC-35: the right token is always bound");
    assert_eq!(texts(&right)[0], "long ago");
    assert_eq!(fixture.say(16, None, "two").await.binding, Binding::Unbound);
}

/// DEC-24, LANE-12: once the token has reached ManyChat, only what came before counts as `first`, however long it
/// waited for its lane.
#[tokio::test(flavor = "multi_thread")]
async fn a_burst_is_judged_as_of_its_arrival() {
    let fixture = Fixture::new().await;
    let row = fixture.say(0, None, "one").await.token_row.unwrap();
    written(&fixture.database, row).await.unwrap();
    assert_eq!(fixture.rows().await[0].1, "delivered");
    let (arrived, opened) = (fixture.at(1), fixture.at(30));
    let waited = fixture.send("x", Message { presents: None, fresh: Some("two"), arrived, opened }).await;
    assert_eq!(waited.binding, Binding::First, "it came before the write and waited 29 s");
    assert_eq!(fixture.say(2, None, "two").await.binding, Binding::Unbound, "it came after the write");
    let late = Message { presents: None, fresh: None, arrived: fixture.at(16), opened: fixture.at(60) };
    assert_eq!(fixture.send("x", late).await.binding, Binding::Unbound, "it came too late");
}

/// DEC-24: only the contact's first issue opens a burst; a repair does not.
#[tokio::test(flavor = "multi_thread")]
async fn a_repair_opens_no_burst() {
    let fixture = Fixture::new().await;
    fixture.say(0, None, "one").await;
    assert!(fixture.say(4000, None, "two").await.token_row.is_some());
    let next = fixture.say(4001, None, "three").await;
    assert_eq!((next.binding, next.history.len()), (Binding::Unbound, 0));
}

/// TOK-14, TOK-12: without randomness nothing is issued, and a contact without a token still reads nothing.
#[tokio::test(flavor = "multi_thread")]
async fn without_a_fresh_token_nothing_is_read() {
    let fixture = Fixture::new().await;
    for seconds in [0, 1] {
        let at = fixture.at(seconds);
        let turn = fixture.send("x", Message { presents: None, fresh: None, arrived: at, opened: at }).await;
        assert_eq!((turn.binding, turn.token_row, turn.history.len()), (Binding::First, None, 0));
    }
}

/// TOK-30, TOK-31, TOK-32, CRASH-7, GAP-DL-15: a retry stores a digest of the same generation; the one it replaces stays valid,
/// for its write may have landed.
#[tokio::test(flavor = "multi_thread")]
async fn a_retry_replaces_the_digest_and_keeps_the_one_before() {
    let fixture = Fixture::new().await;
    fixture.say(0, None, "one").await;
    fixture.say(4000, None, "two").await;
    fixture.client.batch_execute("delete from outbox where payload->>'generation' = '1'").await.unwrap();
    let me = fixture.claimant().await;
    for digest in ["two a", "two b"] {
        let claims = fixture.claim(&me).await;
        assert_eq!((claims.len(), claims[0].generation), (1, Some(2)));
        assert_eq!(fixture.replace(&claims[0], digest).await, Replaced::Yes);
        let text = "contact token write failed: 503";
        let kept = retry(&fixture.database, &claims[0], text, std::time::Duration::ZERO).await;
        assert_eq!(kept.unwrap(), Held::Yes);
    }
    assert_eq!(
        fixture.stored().await,
        (Some("two b".to_owned()), Some("one".to_owned()), 2, Some(4000)),
        "TOK-30: previous digest, generation and time stay"
    );
    for (presents, binding) in [
        ("two b", Binding::Bound),
        ("two a", Binding::Bound),
        ("one", Binding::Bound),
        ("two", Binding::Unbound),
    ] {
        assert_eq!(fixture.binding_of(presents).await, binding, "{presents}");
    }
    fixture.say(9000, None, "three").await;
    assert_eq!(fixture.binding_of("two a").await, Binding::Unbound, "void with the next issue");
}

/// AC-DL-24, TOK-31: a row of an older issue, without a conversation or without a generation writes nothing.
#[tokio::test(flavor = "multi_thread")]
async fn an_outdated_row_changes_nothing() {
    let fixture = Fixture::new().await;
    fixture.say(0, None, "one").await;
    let more = "update outbox set payload = '{\"generation\": 0}';
                insert into outbox (tenant_id, subscriber_id, kind, payload)
                values ('t', '1', 'contact_token', '{\"generation\": 1}');
                insert into outbox (tenant_id, subscriber_id, conversation_id, kind, payload)
                select 't', '1', id, 'contact_token', payload from conversations,
                  (values ('{}'::jsonb), ('{\"generation\": \"x\"}'), ('{\"generation\": 9999999999}')) as v(payload)";
    fixture.client.batch_execute(more).await.unwrap();
    let me = fixture.claimant().await;
    let claims = fixture.claim(&me).await;
    assert_eq!(claims.len(), 5);
    for claim in &claims {
        assert_eq!(fixture.replace(claim, "new").await, Replaced::Outdated, "{:?}", claim.generation);
        assert_eq!(delivered(&fixture.database, claim).await.unwrap(), Held::Yes);
    }
    assert_eq!(fixture.stored().await.0.as_deref(), Some("one"));
    assert!(fixture.rows().await.iter().all(|row| row.1 == "delivered"));
}

/// GAP-DL-16, DEC-35: a token given up marks nobody and calls nobody; the next message issues again at once.
#[tokio::test(flavor = "multi_thread")]
async fn a_token_given_up_is_issued_again_by_the_next_message() {
    let fixture = Fixture::new().await;
    fixture.say(0, None, "one").await;
    let me = fixture.claimant().await;
    let claims = fixture.claim(&me).await;
    assert_eq!(fixture.replace(&claims[0], "one a").await, Replaced::Yes);
    let text = "contact token write failed: 400";
    assert_eq!(dead_letter(&fixture.database, &claims[0], text).await.unwrap(), Held::Yes);
    let sql = "select (select count(*) from rs_handoffs) + (select count(escalated_at) from conversations)";
    assert_eq!(fixture.client.query_one(sql, &[]).await.unwrap().get::<_, i64>(0), 0);
    assert_eq!(fixture.rows().await[0].1, "failed");
    let next = fixture.say(10, None, "two").await;
    assert_eq!(next.binding, Binding::Unbound, "a token given up opens no burst");
    assert!(next.token_row.is_some());
    assert_eq!(fixture.stored().await, (Some("two".to_owned()), None, 2, Some(10)));
}

/// GAP-DL-16, BF-8: the token that ManyChat holds survives a rotation that is given up and issued anew; a second such issue
/// waits for its hour.
#[tokio::test(flavor = "multi_thread")]
async fn a_rotation_given_up_keeps_the_token_that_manychat_holds() {
    let fixture = Fixture::new().await;
    let first = fixture.say(0, None, "held").await;
    written(&fixture.database, first.token_row.unwrap()).await.unwrap();
    fixture.say(3600, None, "lost").await;
    let me = fixture.claimant().await;
    let give_up = async || {
        let claims = fixture.claim(&me).await;
        dead_letter(&fixture.database, claims.last().unwrap(), "400").await.unwrap();
    };
    give_up().await;
    assert!(fixture.say(3700, None, "again").await.token_row.is_some(), "at once");
    assert_eq!(fixture.stored().await, (Some("again".to_owned()), Some("held".to_owned()), 3, Some(3700)));
    assert_eq!(fixture.say(3701, Some("held"), "never").await.binding, Binding::Bound);
    give_up().await;
    assert!(fixture.say(7299, None, "too early").await.token_row.is_none(), "one an hour");
    assert_eq!(fixture.stored().await.0.as_deref(), Some("again"));
    assert!(fixture.say(7300, None, "in time").await.token_row.is_some());
    assert_eq!(fixture.stored().await, (Some("in time".to_owned()), Some("held".to_owned()), 4, Some(7300)));
}

/// ARC-47, WRK-11: a lost claim writes nothing; a released one leaves no trace.
#[tokio::test(flavor = "multi_thread")]
async fn a_lost_token_claim_writes_nothing() {
    let fixture = Fixture::new().await;
    fixture.say(0, None, "one").await;
    let (slow, quick) = (fixture.claimant().await, fixture.claimant().await);
    let old = fixture.claim(&slow).await;
    assert!(fixture.claim(&quick).await.is_empty(), "a living claim is left alone");
    assert_eq!(release(&fixture.database, &old[0]).await.unwrap(), Held::Yes);
    let new = fixture.claim(&quick).await;
    assert_eq!((new[0].id, new[0].attempt), (old[0].id, 1));
    assert_eq!(fixture.replace(&old[0], "x").await, Replaced::Lost);
    assert_eq!(delivered(&fixture.database, &old[0]).await.unwrap(), Held::Lost);
    assert_eq!(renew(&fixture.database, &quick, &new[0]).await.unwrap(), Held::Yes);
    written(&fixture.database, new[0].id).await.unwrap();
    assert_eq!(fixture.rows().await[0].1, "delivering", "TOK-24: only a row that still waits");
    assert_eq!(fixture.stored().await.0.as_deref(), Some("one"));
}
