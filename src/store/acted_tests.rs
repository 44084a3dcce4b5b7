//! The summary of a conversation, from Settle to the next Open, and the offering that a request names.

use serde_json::{Value, json};

use super::*;
use crate::domain::{AgentRowId, Outcome, TurnId};
use crate::store::open::OpenTurn;
use crate::store::settle::tests::Fixture;
use crate::store::settle::{AgentRow, SettleRequest, Summary, settle};

/// A turn under this configuration, with what it found.
async fn opened(fixture: &Fixture, config: Option<&str>) -> (TurnId, OpenTurn) {
    let turn = TurnId::fresh();
    let request = fixture.request(turn);
    let request = crate::store::open::OpenRequest { acted_by: config.map(str::to_owned), ..request };
    (turn, fixture.open(&request).await)
}

/// A whole turn that records these actions and stores this summary; what it found.
async fn acted(fixture: &Fixture, actions: Option<Value>, summary: Option<Summary>) -> Acted {
    let (turn, opened) = opened(fixture, Some("marks")).await;
    let request = SettleRequest {
        conversation: opened.conversation,
        turn,
        fence: opened.fence,
        process: fixture.process,
        deferred: true,
        payload: json!({ "messages": ["reply"] }),
        rest: None,
        agent: AgentRow {
            id: AgentRowId::fresh(),
            text: "reply".to_owned(),
            outcome: Outcome::Deferred,
            bound: false,
            actions,
            usage: None,
            at: Timestamp::now(),
        },
        escalation: None,
        checks: None,
        not_before: None,
        summary,
    };
    settle(&fixture.database, &request).await.unwrap();
    opened.acted.unwrap()
}

fn flow(id: &str) -> Option<Value> {
    Some(json!([{ "tool": "send_flow", "id": id, "status": "performed" }]))
}

fn ids(acted: &Acted) -> Vec<&str> {
    acted.turns.iter().map(|turn| turn.actions[0]["id"].as_str().unwrap()).collect()
}

/// TSET-8, LIM-5, ARC-34: every agent turn that has acted counts, bound or not, in order; behind a stored summary only the later
/// ones; one made by another configuration is void.
#[tokio::test(flavor = "multi_thread")]
async fn a_summary_stands_for_the_turns_up_to_it() {
    let fixture = Fixture::new().await;
    assert_eq!(ids(&acted(&fixture, flow("a"), None).await), Vec::<&str>::new());
    assert_eq!(ids(&acted(&fixture, None, None).await), ["a"]);
    let found = acted(&fixture, flow("b"), None).await;
    assert_eq!((ids(&found), found.upto, &found.known), (vec!["a"], 0, &None));
    let summary = |upto_seq, note: &str| Summary {
        upto_seq,
        config: "marks".to_owned(),
        known: json!({ "note": note }),
    };
    let upto = found.turns[0].seq;
    acted(&fixture, None, Some(summary(upto, "first"))).await;
    // An older one, of a turn that ran beside, does not move it back.
    let found = acted(&fixture, Some(json!([])), Some(summary(upto - 1, "older"))).await;
    assert_eq!((ids(&found), found.upto), (vec!["b"], upto));
    assert_eq!(found.known, Some(json!({ "note": "first" })));
    let (_, other) = opened(&fixture, Some("other marks")).await;
    let other = other.acted.unwrap();
    assert_eq!((ids(&other), other.known.is_none()), (vec!["a", "b"], true));
}

/// ARC-34: where a summary cannot be read, every turn counts again from the first on, and the next summary replaces it, though
/// it reaches no further.
#[tokio::test(flavor = "multi_thread")]
async fn an_unreadable_summary_is_made_anew() {
    let fixture = Fixture::new().await;
    acted(&fixture, flow("a"), None).await;
    let upto = acted(&fixture, None, None).await.turns[0].seq;
    let summary = |known| Summary { upto_seq: upto, config: "marks".to_owned(), known };
    acted(&fixture, None, Some(summary(json!("garbled")))).await;
    let (_, found) = opened(&fixture, Some("marks")).await;
    let unreadable = found.acted.unwrap();
    assert_eq!(
        (ids(&unreadable).len(), unreadable.upto, unreadable.known),
        (0, upto, Some(json!("garbled")))
    );

    let made = anew(&fixture.database, found.conversation, upto).await.unwrap();
    assert_eq!((ids(&made), made.upto, &made.known), (vec!["a"], 0, &None));
    fixture.client.execute("delete from rs_owed", &[]).await.unwrap();
    fixture.client.execute("delete from rs_lanes", &[]).await.unwrap();
    acted(&fixture, None, Some(summary(json!({ "note": "good" })))).await;
    let (_, found) = opened(&fixture, Some("marks")).await;
    let found = found.acted.unwrap();
    assert_eq!((found.upto, found.known), (upto, Some(json!({ "note": "good" }))));
}

/// ARC-34, ARC-30: a tenant without flows and fields reads nothing of it.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_read_for_a_tenant_without_tools() {
    let fixture = Fixture::new().await;
    acted(&fixture, flow("a"), None).await;
    assert!(opened(&fixture, None).await.1.acted.is_none());
}

/// TURN-4, FN-OFF-6, FN-OFF-7: a bound request stores its offering, one that names none leaves it, an unbound one stores
/// nothing; what was stored before is still known.
#[tokio::test(flavor = "multi_thread")]
async fn a_bound_request_stores_its_offering() {
    let fixture = Fixture::new().await;
    let named = async |offering: Option<&str>, enforced: bool| {
        let mut request = fixture.request(TurnId::fresh());
        request.offering = offering.map(str::to_owned);
        request.tokens_enforced = enforced;
        let opened = fixture.open(&request).await;
        let free = "update rs_lanes set turn_id = null; delete from rs_owed";
        fixture.client.batch_execute(free).await.unwrap();
        (opened.offering_before, opened.offering)
    };
    let pair = |before: Option<&str>, now: &str| (before.map(str::to_owned), Some(now.to_owned()));
    // Read after it was written, in the same flight; before it, in the statement that writes it (FN-OFF-7).
    assert_eq!(named(Some("wheel"), false).await, pair(None, "wheel"));
    assert_eq!(named(None, false).await, pair(Some("wheel"), "wheel"));
    assert_eq!(named(Some("glaze"), false).await, pair(Some("wheel"), "glaze"));
    fixture.client.execute("update conversations set token_hash = 'known'", &[]).await.unwrap();
    assert_eq!(named(Some("wheel"), true).await, pair(Some("glaze"), "glaze"));
}

/// ARC-34: staged actions say whether anything still holds them.
#[tokio::test(flavor = "multi_thread")]
async fn staged_actions_are_open_while_something_holds_them() {
    let fixture = Fixture::new().await;
    let staged = json!([{ "tool": "add_tag", "id": "a", "status": "staged" }]);
    acted(&fixture, Some(staged), None).await;
    let open = async || {
        let found = acted(&fixture, None, None).await;
        found.turns[0].open
    };
    assert!(!open().await, "its reply holds no actions");
    let sql = "insert into rs_actions (turn_id, conversation_id, tenant_id, process_id, actions)
               select id, conversation_id, 'test', gen_random_uuid(), '[]' from turns where actions <> '[]'";
    fixture.client.execute(sql, &[]).await.unwrap();
    assert!(open().await);
    fixture.client.execute("delete from rs_actions", &[]).await.unwrap();
    assert!(!open().await);
    let sql = "update outbox set payload = payload || jsonb_build_object('turnId', t.id)
               from turns t where t.actions <> '[]'";
    fixture.client.execute(sql, &[]).await.unwrap();
    assert!(open().await, "it waits in the outbox");
}

/// 10 section 16.1, ARC-46a: of a turn with staged actions, what was tried of them and has ended comes with it, in order.
#[tokio::test(flavor = "multi_thread")]
async fn what_was_tried_of_staged_actions_comes_with_them() {
    let fixture = Fixture::new().await;
    acted(&fixture, Some(json!([{ "tool": "add_tag", "id": "a", "status": "staged" }])), None).await;
    let sql = "insert into rs_attempts (turn_id, action, conversation_id, process_id, entry, finished_at, outcome, error)
               select id, number, conversation_id, gen_random_uuid(), jsonb_build_object('id', number), tried.ended,
                      tried.outcome, tried.error
               from turns, (values (9, now(), 'failed', 'no'), (0, now(), 'performed', null), (8, null, null, null))
                 as tried(number, ended, outcome, error)
               where actions <> '[]'";
    fixture.client.execute(sql, &[]).await.unwrap();
    let tried = async || acted(&fixture, None, None).await.turns[0].tried.clone();
    let ended: Vec<_> = tried().await.unwrap().into_iter().map(|one| (one.action, one.entry)).collect();
    let performed = (0, json!({ "id": 0, "status": "performed" }));
    assert_eq!(ended, [performed, (9, json!({ "id": 9, "status": "failed", "error": "no" }))]);
    fixture
        .client
        .execute("update turns set actions = '[{\"tool\": \"x\"}]' where actions <> '[]'", &[])
        .await
        .unwrap();
    assert!(tried().await.is_none(), "nothing is left to come");
}
