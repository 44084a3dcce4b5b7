//! What may be attempted, and what is known of it afterwards.

use serde_json::json;

use super::super::owed;
use super::super::settle::tests::Fixture;
use super::*;
use crate::domain::{SubscriberId, TenantId, TurnId};

fn attempt(fixture: &Fixture, turn: TurnId, conversation: ConversationId, action: i32) -> Attempt {
    Attempt {
        turn: *turn.as_uuid(),
        action,
        conversation,
        process: fixture.process,
        entry: json!({ "tool": "send_flow", "id": "f" }),
        claims_opening: false,
    }
}

/// ARC-41, ARC-46a: an attempt is written once, whoever asks.
#[tokio::test(flavor = "multi_thread")]
async fn an_action_is_attempted_once() {
    let fixture = Fixture::new().await;
    let (turn, opened) = fixture.opened().await;
    let one = attempt(&fixture, turn, opened.conversation, 0);
    assert_eq!(begin(&fixture.database, &one, Under::Turn).await.unwrap(), Begun::Yes);
    assert_eq!(begin(&fixture.database, &one, Under::Turn).await.unwrap(), Begun::Before);
    let next = Attempt { action: 8, ..one };
    assert_eq!(begin(&fixture.database, &next, Under::Turn).await.unwrap(), Begun::Yes);
}

/// ARC-45, ARC-46a: whoever has lost the lane, or the turn, attempts nothing more.
#[tokio::test(flavor = "multi_thread")]
async fn a_superseded_turn_attempts_nothing() {
    let fixture = Fixture::new().await;
    let (turn, opened) = fixture.opened().await;
    let one = attempt(&fixture, turn, opened.conversation, 0);
    let foreign = Attempt { process: ProcessId::fresh(), ..one.clone() };
    assert_eq!(begin(&fixture.database, &foreign, Under::Turn).await.unwrap(), Begun::Superseded);
    assert_eq!(begin(&fixture.database, &one, Under::Actions).await.unwrap(), Begun::Superseded);
    fixture.client.execute("update rs_lanes set fence = fence + 1", &[]).await.unwrap();
    assert_eq!(begin(&fixture.database, &one, Under::Turn).await.unwrap(), Begun::Superseded);
    let rows: i64 = fixture.client.query_one("select count(*) from rs_attempts", &[]).await.unwrap().get(0);
    assert_eq!(rows, 0);
}

/// FN-OPEN-9: the opening is claimed with its attempt, by one turn.
#[tokio::test(flavor = "multi_thread")]
async fn the_opening_is_claimed_once() {
    let fixture = Fixture::new().await;
    let (turn, opened) = fixture.opened().await;
    let claims =
        |action| Attempt { claims_opening: true, ..attempt(&fixture, turn, opened.conversation, action) };
    assert_eq!(begin(&fixture.database, &claims(0), Under::Turn).await.unwrap(), Begun::Yes);
    assert_eq!(begin(&fixture.database, &claims(8), Under::Turn).await.unwrap(), Begun::OpeningTaken);
}

/// PERF-7, PERF-8, FN-OFF-8: what ManyChat accepted changes the contact's own row and ends the follow-up; what it
/// refused changes nothing.
#[tokio::test(flavor = "multi_thread")]
async fn an_accepted_write_is_the_contacts_own() {
    let fixture = Fixture::new().await;
    let (turn, opened) = fixture.opened().await;
    let one = attempt(&fixture, turn, opened.conversation, 0);
    begin(&fixture.database, &one, Under::Turn).await.unwrap();
    schedule_nudge(&fixture.database, opened.conversation, 60).await.unwrap();
    schedule_nudge(&fixture.database, opened.conversation, 90).await.unwrap();
    let state = async || {
        let sql = "select c.offering, n.status, n.cancel_reason, n.due_at > now() + interval '80 minutes'
                   from conversations c join nudges n on n.conversation_id = c.id";
        let row = fixture.client.query_one(sql, &[]).await.unwrap();
        assert!(row.get::<_, bool>(3), "NTAB-3: the later plan moves the pending one");
        (row.get::<_, Option<String>>(0), row.get::<_, String>(1), row.get::<_, Option<String>>(2))
    };
    let refused = Finish { error: Some("no"), link_sent: true, offering: Some("wheel") };
    finish(&fixture.database, &one, &refused).await.unwrap();
    assert_eq!(state().await, (None, "pending".to_owned(), None));
    finish(&fixture.database, &one, &Finish { error: None, ..refused }).await.unwrap();
    assert_eq!(
        state().await,
        (Some("wheel".to_owned()), "cancelled".to_owned(), Some("link_sent".to_owned()))
    );
}

/// FLOW-10, ARC-41, DEC-19: a turn that is given up keeps on record what it has sent, and what nobody knows of.
#[tokio::test(flavor = "multi_thread")]
async fn a_turn_that_is_given_up_keeps_what_it_has_sent() {
    let fixture = Fixture::new().await;
    let (turn, opened) = fixture.opened().await;
    for action in [0, 8, 16] {
        let one = attempt(&fixture, turn, opened.conversation, action);
        begin(&fixture.database, &one, Under::Turn).await.unwrap();
        let end = Finish { error: (action == 8).then_some("refused"), ..Finish::default() };
        if action < 16 {
            finish(&fixture.database, &one, &end).await.unwrap();
        }
    }
    let now = jiff::Timestamp::now();
    let handoff = owed::Handoff {
        turn,
        process: fixture.process,
        held: true,
        tenant: &TenantId::new("test").unwrap(),
        subscriber: &SubscriberId::new("70010001").unwrap(),
        text: "A person will answer.",
        told: false,
        tokens_enforced: false,
        messages: Vec::new(),
        stored: false,
        token_digest: None,
        arrived: now,
        now,
    };
    owed::resolve(&fixture.database, &handoff).await.unwrap();
    let sql = "select actions from turns where role = 'agent'";
    let record: Value = fixture.client.query_one(sql, &[]).await.unwrap().get(0);
    let flow = |status: &str, error: Option<&str>| {
        let mut entry = json!({ "tool": "send_flow", "id": "f", "status": status });
        if let Some(error) = error {
            entry["error"] = error.into();
        }
        entry
    };
    let unknown = "outcome unknown: the process ended before ManyChat answered";
    assert_eq!(
        record,
        json!([flow("performed", None), flow("failed", Some("refused")), flow("failed", Some(unknown))])
    );
}

/// ARC-41: recovered actions can wait long for their turn at ManyChat; one before which a later turn of the contact has
/// settled is not made, and takes no number. Those of a living process go on.
#[tokio::test(flavor = "multi_thread")]
async fn a_recovered_action_is_not_made_behind_a_later_turn() {
    let fixture = Fixture::new().await;
    let (_, opened) = fixture.opened().await;
    let sql = "with t as (
                 insert into turns (conversation_id, role, text) select id, 'agent', 'reply' from conversations
                 returning id, conversation_id)
               insert into rs_actions (turn_id, conversation_id, tenant_id, process_id, actions)
               select id, conversation_id, 'test', $1, '[]' from t returning turn_id";
    let row = fixture.client.query_one(sql, &[fixture.process.as_uuid()]).await.unwrap();
    let turn = TurnId::from(row.get::<_, Uuid>(0));
    let of = |action| attempt(&fixture, turn, opened.conversation, action);
    let begun = async |action, under| begin(&fixture.database, &of(action), under).await.unwrap();
    assert_eq!(begun(0, Under::Recovered).await, Begun::Yes);
    assert_eq!(begun(0, Under::Recovered).await, Begun::Before);
    let later =
        "insert into turns (conversation_id, role, text) select id, 'agent', 'later' from conversations";
    fixture.client.execute(later, &[]).await.unwrap();
    assert_eq!(begun(8, Under::Recovered).await, Begun::Outrun);
    assert_eq!(begun(8, Under::Actions).await, Begun::Yes);
    let foreign = Attempt { process: ProcessId::fresh(), ..of(16) };
    assert_eq!(begin(&fixture.database, &foreign, Under::Recovered).await.unwrap(), Begun::Superseded);
}
