//! From a reply with staged actions to their end on the record.

use serde_json::json;

use super::super::outbox::{self, Claimant};
use super::super::owed;
use super::super::settle::tests::Fixture;
use super::super::settle::{AgentRow, SettleRequest, Settled, settle};
use super::*;
use crate::domain::{Outcome, TurnId};
use crate::store::processes;

/// Two tags and a note behind a reply.
fn staged() -> Value {
    json!([
        { "tool": "add_tag", "id": "a", "tag": "tag-a" },
        { "tool": "set_field", "id": "b", "field": "field-b", "value": "x" },
    ])
}

fn record() -> Value {
    json!([
        { "tool": "send_flow", "id": "f", "status": "performed" },
        { "tool": "add_tag", "id": "a", "status": "staged" },
        { "tool": "add_tag", "id": "d", "status": "dropped_over_cap" },
        { "tool": "set_field", "id": "b", "value": "x", "status": "staged" },
    ])
}

/// A settled turn with these actions; its agent row.
async fn settled(fixture: &Fixture, deferred: bool, rest: Option<&str>) -> (TurnId, AgentRowId) {
    let (turn, opened) = fixture.opened().await;
    let row = AgentRowId::fresh();
    let payload = |text: &str| json!({ "messages": [text], "actions": staged(), "turnId": row.to_string() });
    let request = SettleRequest {
        conversation: opened.conversation,
        turn,
        fence: opened.fence,
        process: fixture.process,
        deferred,
        payload: payload("reply"),
        rest: rest.map(payload),
        agent: AgentRow {
            id: row,
            text: "reply".to_owned(),
            outcome: Outcome::AnsweredInline,
            bound: true,
            actions: Some(record()),
            usage: None,
            at: jiff::Timestamp::now(),
        },
        escalation: None,
        checks: None,
        not_before: None,
        summary: None,
    };
    let expected = if deferred { Settled::Queued } else { Settled::Inline };
    assert_eq!(settle(&fixture.database, &request).await.unwrap().settled, expected);
    (turn, row)
}

async fn claimant(fixture: &Fixture) -> Claimant {
    let tenant = TenantId::new("test").unwrap();
    processes::enter(&fixture.client, fixture.process, &tenant, 20.0).await.unwrap();
    let second = std::time::Duration::from_secs(1);
    Claimant { tenant, process: fixture.process, lease: second * 60, dead: second * 20, gap: second }
}

async fn on_record(fixture: &Fixture, row: AgentRowId) -> Value {
    fixture
        .client
        .query_one("select actions from turns where id = $1", &[row.as_uuid()])
        .await
        .unwrap()
        .get(0)
}

async fn open_rows(fixture: &Fixture) -> i64 {
    fixture.client.query_one("select count(*) from rs_actions", &[]).await.unwrap().get(0)
}

/// AFTER-2, PERF-4, LIM-1, ARC-46: actions are open when the reply was handed over, not before, and once.
#[tokio::test(flavor = "multi_thread")]
async fn actions_are_open_when_their_reply_is_out() {
    let fixture = Fixture::new().await;
    let (turn, row) = settled(&fixture, false, None).await;
    assert_eq!(open_rows(&fixture).await, 0, "the reply may not be out yet");
    let opened = fixture.confirmed(turn).await.opened;
    assert_eq!((opened.len(), opened[0].row, opened[0].actions.expose()), (1, row, &staged()));
    assert!(fixture.confirmed(turn).await.opened.is_empty());
    assert_eq!(open_rows(&fixture).await, 1);
}

/// AFTER-9, PERF-5, GAP-CH-7: a reply that was not handed over takes its actions along into the outbox; they are open when it
/// was delivered, and only then.
#[tokio::test(flavor = "multi_thread")]
async fn a_queued_reply_takes_its_actions_along() {
    let fixture = Fixture::new().await;
    let (turn, row) = settled(&fixture, false, None).await;
    owed::queue(&fixture.database, turn).await.unwrap();
    assert!(fixture.confirmed(turn).await.opened.is_empty());
    let claimant = claimant(&fixture).await;
    let claim = outbox::claim(&fixture.database, || Some(claimant.clone()), 1, 1, jiff::Timestamp::now())
        .await
        .unwrap()
        .replies
        .remove(0);
    assert_eq!(open_rows(&fixture).await, 0);
    let opened = outbox::delivered(&fixture.database, &claimant, &claim).await.unwrap().unwrap();
    assert_eq!((opened.len(), opened[0].row, opened[0].actions.expose()), (1, row, &staged()));
    assert_eq!(open_rows(&fixture).await, 1);
}

/// GAP-CH-11, AFTER-2: what follows a reply follows its last text.
#[tokio::test(flavor = "multi_thread")]
async fn actions_of_a_long_reply_travel_with_its_rest() {
    let fixture = Fixture::new().await;
    let (turn, _) = settled(&fixture, false, Some("rest")).await;
    assert!(fixture.confirmed(turn).await.opened.is_empty());
    let claimant = claimant(&fixture).await;
    let claim = outbox::claim(&fixture.database, || Some(claimant.clone()), 1, 1, jiff::Timestamp::now())
        .await
        .unwrap()
        .replies
        .remove(0);
    assert_eq!(outbox::delivered(&fixture.database, &claimant, &claim).await.unwrap().unwrap().len(), 1);
}

/// PERF-6, BOX-17, AFTER-4: a dead letter drops its actions, on the record too.
#[tokio::test(flavor = "multi_thread")]
async fn a_dead_letter_drops_its_actions() {
    let fixture = Fixture::new().await;
    let (_, row) = settled(&fixture, true, None).await;
    let claimant = claimant(&fixture).await;
    let claim = outbox::claim(&fixture.database, || Some(claimant.clone()), 1, 1, jiff::Timestamp::now())
        .await
        .unwrap()
        .replies
        .remove(0);
    outbox::dead_letter(&fixture.database, &claimant, &claim, "refused").await.unwrap();
    let statuses: Vec<Value> =
        on_record(&fixture, row).await.as_array().unwrap().iter().map(|one| one["status"].clone()).collect();
    assert_eq!(statuses, ["performed", "dead_lettered", "dropped_over_cap", "dead_lettered"]);
    assert_eq!(open_rows(&fixture).await, 0);
}

/// REC-6: the n-th staged entry gives way to the n-th group, with what hung on it; everything else stays as it is.
#[tokio::test(flavor = "multi_thread")]
async fn outcomes_take_the_place_of_staged_entries() {
    let fixture = Fixture::new().await;
    let (turn, row) = settled(&fixture, false, None).await;
    fixture.confirmed(turn).await;
    let groups = json!([
        [{ "tool": "add_tag", "id": "a", "status": "failed", "error": "no" }],
        [{ "tool": "set_field", "id": "b", "value": "x", "status": "performed" },
         { "tool": "send_event", "id": "e", "status": "performed" }],
    ]);
    assert!(resolve(&fixture.database, row, fixture.process, &groups).await.unwrap());
    assert_eq!(
        on_record(&fixture, row).await,
        json!([record()[0], groups[0][0], record()[2], groups[1][0], groups[1][1]])
    );
    assert_eq!(open_rows(&fixture).await, 0);
    assert!(!resolve(&fixture.database, row, fixture.process, &json!([])).await.unwrap(), "once");
}

/// REC-6: an entry without an outcome stays staged.
#[tokio::test(flavor = "multi_thread")]
async fn an_entry_without_an_outcome_stays_staged() {
    let fixture = Fixture::new().await;
    let (turn, row) = settled(&fixture, false, None).await;
    fixture.confirmed(turn).await;
    let groups = json!([[{ "tool": "add_tag", "id": "a", "status": "performed" }]]);
    assert!(resolve(&fixture.database, row, fixture.process, &groups).await.unwrap());
    assert_eq!(on_record(&fixture, row).await[3]["status"], "staged");
}

/// LIM-4: of two who end the same actions at once, one does it, and somebody else never does.
#[tokio::test(flavor = "multi_thread")]
async fn concurrent_ends_write_once() {
    let fixture = Fixture::new().await;
    let (turn, row) = settled(&fixture, false, None).await;
    fixture.confirmed(turn).await;
    assert!(!resolve(&fixture.database, row, ProcessId::fresh(), &json!([])).await.unwrap());
    let group = |id: &str| {
        let one = json!({ "tool": "add_tag", "id": id, "status": "performed" });
        json!([[one.clone()], [one]])
    };
    let (one, other) = (group("one"), group("other"));
    let (first, second) = tokio::join!(
        resolve(&fixture.database, row, fixture.process, &one),
        resolve(&fixture.database, row, fixture.process, &other),
    );
    assert_ne!(first.unwrap(), second.unwrap());
    let record = on_record(&fixture, row).await;
    assert_eq!(record[1]["id"], record[3]["id"], "the outcomes of one of them: {record}");
}

/// ARC-41: only a dead process's actions are taken over, by one; with them comes what it has attempted.
#[tokio::test(flavor = "multi_thread")]
async fn actions_of_the_dead_are_taken_over_once() {
    let fixture = Fixture::new().await;
    let (turn, row) = settled(&fixture, false, None).await;
    fixture.confirmed(turn).await;
    let (tenant, other) = (TenantId::new("test").unwrap(), ProcessId::fresh());
    processes::enter(&fixture.client, fixture.process, &tenant, 20.0).await.unwrap();
    let database = &fixture.database;
    assert!(take_over(database, row, &tenant, other, 60.0).await.unwrap().is_none());
    assert!(orphaned(database, &tenant, other, 60.0).await.unwrap().is_empty());
    let sql = format!(
        "update rs_processes set beat_at = now() - interval '2 minutes';
         insert into rs_attempts (turn_id, action, conversation_id, process_id, entry, finished_at, outcome, error)
         select turn_id, n, conversation_id, process_id, '{{\"tool\": \"add_tag\", \"id\": \"a\"}}',
                case when n = 0 then now() end, case when n = 0 then 'performed' end, null
         from rs_actions, unnest(array[0, 8]) n where turn_id = '{row}'"
    );
    fixture.client.batch_execute(&sql).await.unwrap();
    assert_eq!(orphaned(database, &tenant, other, 60.0).await.unwrap()[0].0, row);
    let taken = take_over(database, row, &tenant, other, 60.0).await.unwrap().unwrap();
    assert_eq!((taken.process, taken.outrun), (other, false));
    let numbers: Vec<i32> = taken.attempted.iter().map(|(number, _)| *number).collect();
    assert_eq!(numbers, [0, 8]);
    assert_eq!(taken.attempted[0].1, json!({ "tool": "add_tag", "id": "a", "status": "performed" }));
    assert_eq!(taken.attempted[1].1["status"], "failed");
    assert!(taken.attempted[1].1["error"].as_str().unwrap().starts_with("outcome unknown"));
}

/// ARC-41: a later turn of the contact has settled.
#[tokio::test(flavor = "multi_thread")]
async fn a_later_turn_outruns_the_actions_of_the_dead() {
    let fixture = Fixture::new().await;
    let (turn, row) = settled(&fixture, false, None).await;
    fixture.confirmed(turn).await;
    let later = "insert into turns (conversation_id, role, text)
                 select conversation_id, role, 'later' from rs_actions, unnest(array['user', 'agent']) role";
    fixture.client.execute(later, &[]).await.unwrap();
    let tenant = TenantId::new("test").unwrap();
    let taken = take_over(&fixture.database, row, &tenant, ProcessId::fresh(), 60.0).await.unwrap().unwrap();
    assert!(taken.outrun);
}

/// ARC-41, ARC-46: actions whose opening was carried out and never answered are found by the process that holds them: none
/// that it knows of, none whose answer may still be under way, none of another process; with what was attempted of them.
#[tokio::test(flavor = "multi_thread")]
async fn actions_nobody_heard_of_are_found() {
    let fixture = Fixture::new().await;
    let (turn, row) = settled(&fixture, false, None).await;
    drop(fixture.confirmed(turn).await);
    let found = async |process, known: &[AgentRowId]| {
        let found = forgotten(&fixture.database, process, known).await.unwrap();
        found.into_iter().map(|open| open.row).collect::<Vec<AgentRowId>>()
    };
    assert_eq!(found(fixture.process, &[]).await, [] as [AgentRowId; 0], "the answer may be under way");
    let sql = format!(
        "update rs_actions set created_at = now() - interval '16 seconds';
         insert into rs_attempts (turn_id, action, conversation_id, process_id, entry, finished_at, outcome)
         select turn_id, 0, conversation_id, process_id, '{{\"tool\": \"add_tag\", \"id\": \"a\"}}', now(), 'performed'
         from rs_actions where turn_id = '{row}'"
    );
    fixture.client.batch_execute(&sql).await.unwrap();
    let none: Vec<AgentRowId> = Vec::new();
    assert_eq!(found(fixture.process, &[row]).await, none, "it is at work on them");
    assert_eq!(found(ProcessId::fresh(), &[]).await, none);
    let open = forgotten(&fixture.database, fixture.process, &[]).await.unwrap().remove(0);
    assert_eq!((open.row, open.actions.expose(), open.outrun, open.recovered), (row, &staged(), false, true));
    assert_eq!(open.attempted[0].1["status"], "performed");
    assert!(resolve(&fixture.database, row, fixture.process, &json!([])).await.unwrap());
    assert_eq!(found(fixture.process, &[]).await, none);
}
