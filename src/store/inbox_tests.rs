//! The inbox between its writing and Open.

use tokio::runtime::Handle;
use tokio_postgres::Client;

use super::*;
use crate::domain::TurnId;
use crate::store::embedded::testing::{TestDatabase, TestServer};
use crate::store::open::{OpenRequest, OpenTurn, Opened, Waits, open};
use crate::store::{PoolLimits, processes};

struct Bench {
    database: Database,
    client: Client,
    conversation: ConversationId,
    /// Two living processes.
    here: ProcessId,
    there: ProcessId,
    _server: TestDatabase,
}

fn tenant() -> TenantId {
    TenantId::new("t").unwrap()
}

fn message(text: &str) -> NewMessage {
    NewMessage {
        id: MessageId::fresh(),
        text: ContactText::new(text),
        media: None,
        offering: None,
        received_at: Timestamp::now(),
        stored: true,
    }
}

impl Bench {
    /// A contact with the token digest `right`.
    async fn new() -> Self {
        let server = TestServer::database().unwrap();
        let client = server.connect().await.unwrap();
        let address = server.config().clone().into();
        let database = Database::new(address, Handle::current(), PoolLimits::default()).unwrap();
        let sql = "insert into conversations (tenant_id, subscriber_id, channel, turn_count, last_message_at, token_hash)
                   values ('t', '1', 'whatsapp', 0, now(), 'right') returning id";
        let id: Uuid = client.query_one(sql, &[]).await.unwrap().get(0);
        let (here, there) = (ProcessId::fresh(), ProcessId::fresh());
        for process in [here, there] {
            processes::enter(&client, process, &tenant(), 20.0).await.unwrap();
        }
        Self { database, client, conversation: id.into(), here, there, _server: server }
    }

    async fn keep(&self, process: ProcessId, digest: &str, message: &NewMessage) -> Kept {
        let waiter = Waiter {
            tenant: tenant(),
            subscriber: SubscriberId::stored("1"),
            token_digest: Some(digest.to_owned()),
            tokens_enforced: true,
            process,
            message: message.clone(),
            now: Timestamp::now(),
        };
        keep(&self.database, &waiter).await.unwrap()
    }

    /// Opens a turn of these messages and, when it runs, forgets it again.
    async fn open(&self, process: ProcessId, messages: &[NewMessage]) -> Opened {
        let request = OpenRequest {
            tenant: tenant(),
            subscriber: SubscriberId::stored("1"),
            channel: "whatsapp".to_owned(),
            token_digest: Some("right".to_owned()),
            tokens_enforced: true,
            messages: messages.to_vec(),
            guarded: true,
            now: Timestamp::now(),
            received_at: Timestamp::now(),
            last_received_at: Timestamp::now(),
            fresh_digest: None,
            idle_reset_hours: 24,
            offering: None,
            acted_by: None,
            pausable: true,
            history_days: 30,
            process,
            turn: TurnId::from(messages[0].id),
            lane_secs: 60.0,
            dead_secs: 60.0,
            takeover_secs: 60.0,
        };
        let opened = open(&self.database, &request).await.unwrap();
        self.client.batch_execute("update rs_lanes set turn_id = null; delete from rs_owed").await.unwrap();
        opened
    }

    async fn started(&self, process: ProcessId, messages: &[NewMessage]) -> OpenTurn {
        match self.open(process, messages).await {
            Opened::Started(turn) => *turn,
            Opened::Waiting(waits) => panic!("it waits: {waits:?}"),
        }
    }

    async fn waits(&self, process: ProcessId, messages: &[NewMessage]) -> Waits {
        match self.open(process, messages).await {
            Opened::Waiting(waits) => waits,
            Opened::Started(turn) => panic!("it runs: {turn:?}"),
        }
    }

    async fn texts(&self) -> Vec<String> {
        let found = waiting(&self.database, self.conversation).await.unwrap();
        found.iter().map(|one| one.text.expose().to_owned()).collect()
    }
}

/// ARC-45a, LANE-3: what proves nothing is judged and not written; the rest is written once.
#[tokio::test]
async fn only_what_proves_its_contact_waits_in_the_inbox() {
    let bench = Bench::new().await;
    let one = message("one");
    assert_eq!(bench.keep(bench.here, "wrong", &message("forged")).await, Kept::Beside);
    assert_eq!(bench.keep(bench.here, "right", &one).await, Kept::Yes);
    assert_eq!(bench.keep(bench.here, "right", &one).await, Kept::Yes);
    assert_eq!(bench.texts().await, ["one"]);
    withdraw(&bench.database, &[one.id]).await.unwrap();
    assert_eq!(bench.texts().await, [] as [String; 0]);
    bench.client.batch_execute("delete from conversations").await.unwrap();
    assert_eq!(bench.keep(bench.here, "right", &one).await, Kept::NoConversation);
}

/// DEC-13: messages whose contact was erased while they waited leave nothing behind, and one that came afterwards goes on.
#[tokio::test]
async fn erased_messages_make_no_conversation() {
    let bench = Bench::new().await;
    let [erased, later] = ["erased", "later"].map(message);
    bench.keep(bench.here, "right", &erased).await;
    bench.client.batch_execute("delete from conversations").await.unwrap();
    let waits = bench.waits(bench.here, std::slice::from_ref(&erased)).await;
    assert_eq!(waits, Waits { conversation: None, kept: vec![], owed_first: None });
    let conversations = bench.client.query("select 1 from conversations", &[]).await.unwrap();
    assert!(conversations.is_empty());
    let unwritten = NewMessage { stored: false, ..later.clone() };
    assert_eq!(bench.waits(bench.here, &[erased, unwritten]).await.kept, [later.id]);
    assert_eq!(bench.started(bench.here, &[later]).await.taken, 1);
}

/// ARC-45a, PROC-4: a process runs its messages up to the first one of another process, which is next.
#[tokio::test]
async fn a_turn_ends_before_another_processs_message() {
    let bench = Bench::new().await;
    let [one, two, other, three] = ["one", "two", "other", "three"].map(message);
    for (process, kept) in
        [(bench.here, &one), (bench.here, &two), (bench.there, &other), (bench.here, &three)]
    {
        bench.keep(process, "right", kept).await;
    }
    let waits = bench.waits(bench.there, std::slice::from_ref(&other)).await;
    assert_eq!(
        waits,
        Waits { conversation: Some(bench.conversation), kept: vec![other.id], owed_first: None }
    );
    assert_eq!(bench.started(bench.here, &[one, two, three.clone()]).await.taken, 2);
    assert_eq!(bench.texts().await, ["other", "three"], "rows become turns in Open");
    assert_eq!(bench.waits(bench.here, std::slice::from_ref(&three)).await.kept, [three.id]);
    assert_eq!(bench.started(bench.there, &[other]).await.taken, 1);
    assert_eq!(bench.started(bench.here, &[three]).await.taken, 1);
    let said: Vec<String> = bench
        .client
        .query("select text from turns order by seq", &[])
        .await
        .unwrap()
        .iter()
        .map(|row| row.get(0))
        .collect();
    assert_eq!(said, ["one", "two", "other", "three"]);
}

/// ARC-45a: a message that finds somebody ahead is written by the same flight, and one that another process has taken
/// over is known to be gone.
#[tokio::test]
async fn a_contended_message_is_kept_by_its_own_open() {
    let bench = Bench::new().await;
    let [first, mut fresh] = ["first", "fresh"].map(message);
    fresh.stored = false;
    bench.keep(bench.there, "right", &first).await;
    assert_eq!(bench.waits(bench.here, std::slice::from_ref(&fresh)).await.kept, [fresh.id]);
    assert_eq!(bench.texts().await, ["first", "fresh"]);
    fresh.stored = true;
    bench.started(bench.there, &[first]).await;
    // Another process takes it for the message of a dead one.
    bench.started(bench.there, &[fresh.clone()]).await;
    assert_eq!(bench.waits(bench.here, &[fresh]).await.kept, [] as [MessageId; 0]);
    let lane: Option<Uuid> =
        bench.client.query_one("select turn_id from rs_lanes", &[]).await.unwrap().get(0);
    assert_eq!(lane, None, "a lane that was taken in vain is given back");
}

/// ARC-45a, ARC-42: the messages of a dead process are found, those of a living one are not, unless nobody can have
/// them in hand any more.
#[tokio::test]
async fn messages_of_a_dead_process_are_found() {
    let bench = Bench::new().await;
    let found =
        async || orphaned(&bench.database, &tenant(), bench.there, 60.0, &[], 10).await.unwrap().len();
    bench.keep(bench.here, "right", &message("one")).await;
    bench.keep(ProcessId::fresh(), "right", &message("two")).await;
    assert_eq!(found().await, 0, "the first one is in living hands");
    bench.client.execute("delete from rs_processes where id = $1", &[bench.here.as_uuid()]).await.unwrap();
    assert_eq!(found().await, 1);
    processes::enter(&bench.client, bench.here, &tenant(), 20.0).await.unwrap();
    assert_eq!(found().await, 0);
    let age = "update rs_inbox set created_at = now() - interval '31 minutes'";
    bench.client.batch_execute(age).await.unwrap();
    assert_eq!(found().await, 1);
    let known = [*bench.conversation.as_uuid()];
    let others = orphaned(&bench.database, &tenant(), bench.there, 60.0, &known, 10).await.unwrap();
    assert_eq!(others.len(), 0, "what was tried is not found again");
}

/// DEC-35, ARC-43: messages that wait because a dead process owes the contact a turn say which one, so that it can be
/// run next; a living one's turn is its own business.
#[tokio::test]
async fn who_waits_for_an_owed_turn_knows_which() {
    let bench = Bench::new().await;
    let turn = TurnId::fresh();
    let sql = "insert into rs_owed (turn_id, conversation_id, tenant_id, process_id, fence, status, binding,
                                    user_turn_ids, received_at)
               select $1, id, 't', $2, 1, 'running', 'bound', '{}', now() from conversations";
    bench.client.execute(sql, &[turn.as_uuid(), ProcessId::fresh().as_uuid()]).await.unwrap();
    let fresh = NewMessage { stored: false, ..message("one") };
    let waits = bench.waits(bench.here, std::slice::from_ref(&fresh)).await;
    assert_eq!((waits.kept, waits.owed_first), (vec![fresh.id], Some(turn)));
    bench.client.execute(sql, &[turn.as_uuid(), bench.there.as_uuid()]).await.unwrap();
    bench.started(bench.here, &[NewMessage { stored: true, ..fresh }]).await;
}

/// DEC-30: equal words with an equal proof within 30 s join, nothing else.
#[tokio::test]
async fn only_a_repetition_joins() {
    let bench = Bench::new().await;
    let dead = ProcessId::fresh();
    let at = Timestamp::now();
    let later = |secs: i64| at.checked_add(jiff::SignedDuration::from_secs(secs)).unwrap();
    let cases =
        [("hello", 5, bench.here), ("other", 5, bench.here), ("hello", 31, bench.here), ("hello", 5, dead)];
    for (text, secs, process) in cases {
        let repeated = NewMessage { received_at: later(secs), ..message(text) };
        bench.keep(process, "right", &repeated).await;
    }
    let text = ContactText::new("hello");
    let first = Repeated {
        conversation: bench.conversation,
        process: dead,
        text: &text,
        binding: Binding::Bound,
        received_at: at,
    };
    assert_eq!(join_repeats(&bench.database, &first).await.unwrap(), 1);
    assert_eq!(bench.texts().await, ["other", "hello", "hello"]);
}
