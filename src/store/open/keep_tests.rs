//! What may happen between Open and the flight behind it that writes what has to wait (ARC-45a).

use super::*;
use crate::store::inbox;
use crate::store::settle::settle;
use crate::store::settle::tests::Fixture;

/// A message of another process that finds the contact's lane held by a turn of the fixture's.
struct Contended {
    fixture: Fixture,
    ahead: (TurnId, OpenTurn),
    request: OpenRequest,
}

impl Contended {
    async fn new() -> Self {
        let fixture = Fixture::new().await;
        for process in [fixture.process, ProcessId::fresh()] {
            let sql = "insert into rs_processes (id, tenant_id) values ($1, 'test')";
            fixture.client.execute(sql, &[process.as_uuid()]).await.unwrap();
        }
        let sql = "select id from rs_processes where id <> $1";
        let there =
            fixture.client.query_one(sql, &[fixture.process.as_uuid()]).await.unwrap().get::<_, Uuid>(0);
        let ahead = fixture.opened().await;
        let request = OpenRequest { process: ProcessId::from(there), ..fixture.request(TurnId::fresh()) };
        Self { fixture, ahead, request }
    }

    /// Opens the message, lets this happen when the first flight is over, and flies the second.
    async fn waits(&self, meanwhile: impl Future<Output = ()>) -> Waits {
        let lease = self.fixture.database.lease().await.unwrap();
        let values = Values::of(&self.request);
        let (opened, _) = fly(&lease, &values).await.unwrap();
        let opened = opened.unwrap();
        assert!(!opened.get::<_, bool>("started"), "the lane is held");
        meanwhile.await;
        let waits = wait(&lease, &values, &opened).await.unwrap();
        lease.give_back();
        waits
    }

    async fn settle_ahead(&self) {
        let (turn, opened) = &self.ahead;
        let request = self.fixture.reply(*turn, opened, false, &["Hello."], &[]);
        assert!(!settle(&self.fixture.database, &request).await.unwrap().others_wait);
    }

    /// The message as its process asks for it again.
    fn again(&self) -> OpenRequest {
        let mut request = self.request.clone();
        request.messages.iter_mut().for_each(|message| message.stored = true);
        request
    }

    async fn count(&self, sql: &str) -> i64 {
        self.fixture.client.query_one(sql, &[]).await.unwrap().get(0)
    }

    async fn waiting(&self) -> i64 {
        self.count("select count(*) from rs_inbox").await
    }
}

/// ARC-45a, ARC-42: where the turn ahead ends in between, nobody is told that the message waits; it stands in the inbox, and
/// the next time it is asked for it runs.
#[tokio::test]
async fn a_message_whose_lane_becomes_free_meanwhile_runs_when_asked_for_again() {
    let contended = Contended::new().await;
    let waits = contended.waits(contended.settle_ahead()).await;
    let (id, conversation) = (contended.request.messages[0].id, contended.ahead.1.conversation);
    assert_eq!(waits, Waits { conversation: Some(conversation), kept: vec![id], owed_first: None });
    let opened = contended.fixture.open(&contended.again()).await;
    assert_eq!((opened.taken, opened.history.len(), contended.waiting().await), (1, 2, 0));
}

/// ARC-45, ARC-45a, PROC-4: a message that another process has opened in between is ahead, and both are answered.
#[tokio::test]
async fn a_message_that_is_passed_meanwhile_waits_behind() {
    let contended = Contended::new().await;
    let third = contended.fixture.request(TurnId::fresh());
    let third = OpenRequest { process: ProcessId::fresh(), ..third };
    let sql = "insert into rs_processes (id, tenant_id) values ($1, 'test')";
    contended.fixture.client.execute(sql, &[third.process.as_uuid()]).await.unwrap();
    let waits = contended
        .waits(async {
            contended.settle_ahead().await;
            contended.fixture.open(&third).await;
        })
        .await;
    assert_eq!(waits.kept, [contended.request.messages[0].id]);
    let again = open(&contended.fixture.database, &contended.again()).await.unwrap();
    assert!(matches!(again, Opened::Waiting(waits) if waits.kept.len() == 1), "the lane is the other's");
    contended.fixture.client.batch_execute("update rs_lanes set turn_id = null").await.unwrap();
    assert_eq!(contended.fixture.open(&contended.again()).await.taken, 1);
}

/// ARC-40, ARC-31: a flight that comes through after its turn was given up, and has ended with a person, writes nothing.
#[tokio::test]
async fn a_message_that_was_given_up_meanwhile_is_not_written() {
    for ended in [
        "insert into rs_handoffs (id, conversation_id, turn_id, reason)
           select $1::uuid, id, $1, 'low_confidence' from conversations",
        "insert into outbox (id, tenant_id, subscriber_id, conversation_id, kind, payload)
           select $1::uuid, tenant_id, subscriber_id, id, 'reply', '{}' from conversations",
    ] {
        let contended = Contended::new().await;
        let turn = *contended.request.turn.as_uuid();
        let end = async { assert_eq!(contended.fixture.client.execute(ended, &[&turn]).await.unwrap(), 1) };
        let waits = contended.waits(end).await;
        assert_eq!((waits.kept.len(), contended.waiting().await), (0, 0));
    }
}

/// DEC-13: nothing is left of a message whose contact is erased in between.
#[tokio::test]
async fn a_message_whose_contact_is_erased_meanwhile_is_gone() {
    let contended = Contended::new().await;
    let waits = contended
        .waits(async { contended.fixture.client.batch_execute("delete from conversations").await.unwrap() })
        .await;
    assert_eq!((waits.kept.len(), contended.waiting().await), (0, 0));
    assert_eq!(contended.count("select count(*) from conversations").await, 0);
}

/// ARC-45a: a message that stands in the inbox already is not written again, and one of them that was taken over meanwhile is
/// known to be gone.
#[tokio::test]
async fn what_was_taken_over_meanwhile_is_known_to_be_gone() {
    let mut contended = Contended::new().await;
    let kept = contended.waits(async {}).await.kept;
    contended.request = contended.again();
    assert_eq!(contended.waits(async {}).await.kept, kept);
    assert_eq!(contended.waiting().await, 1);
    let taken = async { inbox::withdraw(&contended.fixture.database, &kept).await.unwrap() };
    assert_eq!(contended.waits(taken).await.kept, [] as [MessageId; 0]);
}
