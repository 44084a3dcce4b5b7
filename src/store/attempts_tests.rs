//! What may be attempted, and what is known of it afterwards.

use serde_json::json;

use super::super::owed;
use super::super::settle::tests::Fixture;
use super::*;
use crate::domain::TurnId;

fn attempt(fixture: &Fixture, turn: TurnId, conversation: ConversationId, action: i32) -> Attempt {
    Attempt {
        under: Under::Turn(turn),
        action,
        conversation,
        process: fixture.process,
        entry: json!({ "tool": "send_flow", "id": "f" }),
        claims_opening: false,
        again: false,
        values_above: None,
        once: false,
    }
}

/// The write of `offered` behind the reply of this agent's row.
fn offered(fixture: &Fixture, row: AgentRowId, conversation: ConversationId) -> Attempt {
    Attempt {
        under: Under::Actions(row),
        action: 0,
        conversation,
        process: fixture.process,
        entry: json!({ "tool": "set_field", "id": "stage", "value": "offered" }),
        claims_opening: false,
        again: false,
        values_above: Some(vec!["prepared", "link_sent"]),
        once: false,
    }
}

/// An agent's row with open actions of this process, and with these entries on record.
async fn acting(fixture: &Fixture, conversation: ConversationId, actions: Value) -> AgentRowId {
    let sql = "with agent as (
                 insert into turns (conversation_id, role, text, outcome, bound, actions)
                 values ($1, 'agent', 'reply', 'answered_inline', true, $3) returning id)
               insert into rs_actions (turn_id, conversation_id, tenant_id, process_id, actions)
               select id, $1, 'test', $2, '[]' from agent returning turn_id";
    let values: &[&(dyn ToSql + Sync)] = &[conversation.as_uuid(), fixture.process.as_uuid(), &actions];
    AgentRowId::from(fixture.client.query_one(sql, values).await.unwrap().get::<_, Uuid>(0))
}

async fn done(fixture: &Fixture, row: AgentRowId) {
    fixture.client.execute("delete from rs_actions where turn_id = $1", &[row.as_uuid()]).await.unwrap();
}

fn stage_entry(value: &str, status: &str) -> Value {
    json!([{ "tool": "set_field", "id": "stage", "value": value, "status": status }])
}

/// STAGE-6, FLD-4: the actions of one contact's turns are begun in the order of the turns, whoever performs them; nobody
/// waits for what has not moved for ten minutes.
#[tokio::test(flavor = "multi_thread")]
async fn actions_wait_for_those_of_earlier_turns() {
    let fixture = Fixture::new().await;
    let (_, opened) = fixture.opened().await;
    let first = acting(&fixture, opened.conversation, json!([])).await;
    let second = acting(&fixture, opened.conversation, json!([])).await;
    let tag = |row| Attempt { values_above: None, ..offered(&fixture, row, opened.conversation) };
    assert_eq!(begin(&fixture.database, &tag(second)).await.unwrap(), Begun::Behind);
    let looked = async |row| kept_back(&fixture.database, &tag(row)).await.unwrap();
    assert_eq!((looked(first).await, looked(second).await), (None, Some(Begun::Behind)));
    assert_eq!(begin(&fixture.database, &tag(first)).await.unwrap(), Begun::Yes);
    fixture
        .client
        .execute("update rs_actions set created_at = now() - interval '11 minutes'", &[])
        .await
        .unwrap();
    assert_eq!(looked(second).await, None);
    fixture.client.execute("update rs_actions set created_at = now()", &[]).await.unwrap();
    done(&fixture, first).await;
    assert_eq!(begin(&fixture.database, &tag(second)).await.unwrap(), Begun::Yes);
}

/// FN-STAGE-5, FLOW-3: a staged stage never lands behind a later one of a later turn, settled or still running.
#[tokio::test(flavor = "multi_thread")]
async fn a_stage_is_not_written_when_a_later_turn_went_further() {
    for (entries, expected) in [
        (stage_entry("link_sent", "performed"), Begun::Outrun),
        (stage_entry("link_sent", "failed"), Begun::Yes),
        (stage_entry("offered", "performed"), Begun::Yes),
        (stage_entry("nurturing", "performed"), Begun::Yes),
    ] {
        let fixture = Fixture::new().await;
        let (_, opened) = fixture.opened().await;
        let first = acting(&fixture, opened.conversation, json!([])).await;
        let second = acting(&fixture, opened.conversation, entries.clone()).await;
        done(&fixture, second).await;
        let one = offered(&fixture, first, opened.conversation);
        assert_eq!(begin(&fixture.database, &one).await.unwrap(), expected, "{entries}");
    }
}

/// FN-STAGE-5, FN-INT-1: nor behind what an earlier turn has written that settled while this one ran, nor `not_prospect` behind
/// `prospect`. What counts is what ManyChat took last: a record of before, which another service let walk back, keeps nobody.
#[tokio::test(flavor = "multi_thread")]
async fn a_stage_is_not_written_behind_what_an_earlier_turn_wrote() {
    let fixture = Fixture::new().await;
    let (_, opened) = fixture.opened().await;
    let first = acting(&fixture, opened.conversation, stage_entry("link_sent", "performed")).await;
    let second = acting(&fixture, opened.conversation, json!([])).await;
    let write = |row, action, id: &str, value: &str, above: &[&'static str]| Attempt {
        action,
        entry: json!({ "tool": "set_field", "id": id, "value": value }),
        values_above: Some(above.to_vec()),
        ..offered(&fixture, row, opened.conversation)
    };
    let begun = async |one: &Attempt| begin(&fixture.database, one).await.unwrap();
    let done_by_first = async |one: &Attempt, error| {
        assert_eq!(begun(one).await, Begun::Yes);
        finish(&fixture.database, one, &Finish { error, ..Finish::default() }).await.unwrap();
    };
    done_by_first(&write(first, 0, "stage", "link_sent", &[]), Some("refused")).await;
    done_by_first(&write(first, 8, "intent", "prospect", &[]), None).await;
    let below = offered(&fixture, second, opened.conversation);
    done(&fixture, first).await;
    assert_eq!(kept_back(&fixture.database, &below).await.unwrap(), None, "the record alone, or a refusal");
    let fresh = acting(&fixture, opened.conversation, json!([])).await;
    fixture
        .client
        .execute("update rs_actions set created_at = now() - interval '1 hour'", &[])
        .await
        .unwrap();
    done_by_first(&write(fresh, 0, "stage", "prepared", &["link_sent"]), None).await;
    done(&fixture, fresh).await;
    // The one that wrote it stands before now.
    fixture.client.execute("update turns set seq = -seq where id = $1", &[fresh.as_uuid()]).await.unwrap();
    assert_eq!(begun(&below).await, Begun::Outrun);
    let equal = write(second, 8, "stage", "prepared", &["link_sent"]);
    assert_eq!(begun(&equal).await, Begun::Yes);
    assert_eq!(begun(&write(second, 16, "intent", "not_prospect", &["prospect"])).await, Begun::Outrun);
    assert_eq!(begun(&write(second, 24, "intent", "prospect", &[])).await, Begun::Yes);
}

/// FN-EVT-4, FN-EVT-8: an event is tried by one turn, whatever became of it; one that was given up untried is the next turn's.
#[tokio::test(flavor = "multi_thread")]
async fn an_event_is_fired_by_one_turn() {
    let cases = [
        (None, Begun::Fired),
        (Some("refused"), Begun::Fired),
        (Some("process ended first"), Begun::Yes),
        (Some("not attempted: the database did not answer"), Begun::Yes),
    ];
    for (error, expected) in cases {
        let fixture = Fixture::new().await;
        let (turn, opened) = fixture.opened().await;
        let row = acting(&fixture, opened.conversation, json!([])).await;
        let entry = json!({ "tool": "send_event", "id": "f" });
        let event = |one| Attempt { entry: entry.clone(), once: true, ..one };
        let behind = event(Attempt { values_above: None, ..offered(&fixture, row, opened.conversation) });
        let beside = event(attempt(&fixture, turn, opened.conversation, 1));
        assert_eq!(begin(&fixture.database, &behind).await.unwrap(), Begun::Yes);
        assert_eq!(begin(&fixture.database, &beside).await.unwrap(), Begun::Fired, "under way");
        finish(&fixture.database, &behind, &Finish { error, ..Finish::default() }).await.unwrap();
        let looked = kept_back(&fixture.database, &beside).await.unwrap().unwrap_or(Begun::Yes);
        assert_eq!(
            (looked, begin(&fixture.database, &beside).await.unwrap()),
            (expected, expected),
            "{error:?}"
        );
        let flow = Attempt { once: true, ..attempt(&fixture, turn, opened.conversation, 9) };
        assert_eq!(
            begin(&fixture.database, &flow).await.unwrap(),
            Begun::Yes,
            "a flow of that id is another thing"
        );
    }
    let fixture = Fixture::new().await;
    let (turn, opened) = fixture.opened().await;
    acting(
        &fixture,
        opened.conversation,
        json!([{ "tool": "send_event", "id": "f", "status": "performed" }]),
    )
    .await;
    let entry = json!({ "tool": "send_event", "id": "f" });
    let event = Attempt { entry, once: true, ..attempt(&fixture, turn, opened.conversation, 1) };
    assert_eq!(begin(&fixture.database, &event).await.unwrap(), Begun::Fired, "it stands on a record");
}

/// FN-STAGE-5: a write of a running turn counts from its end; while it is under way the other one waits, on both sides.
#[tokio::test(flavor = "multi_thread")]
async fn writes_of_one_field_are_not_under_way_together() {
    let fixture = Fixture::new().await;
    let (turn, opened) = fixture.opened().await;
    let row = acting(&fixture, opened.conversation, json!([])).await;
    let entry = json!({ "tool": "set_field", "id": "stage", "value": "link_sent" });
    let link =
        Attempt { entry, values_above: Some(Vec::new()), ..attempt(&fixture, turn, opened.conversation, 1) };
    let behind = offered(&fixture, row, opened.conversation);
    assert_eq!(begin(&fixture.database, &behind).await.unwrap(), Begun::Yes);
    assert_eq!(begin(&fixture.database, &link).await.unwrap(), Begun::Busy);
    finish(&fixture.database, &behind, &Finish::default()).await.unwrap();
    assert_eq!(begin(&fixture.database, &link).await.unwrap(), Begun::Yes);
    let again = Attempt { action: 8, ..behind };
    let looked = async || kept_back(&fixture.database, &again).await.unwrap();
    assert_eq!(looked().await, Some(Begun::Busy));
    assert_eq!(begin(&fixture.database, &again).await.unwrap(), Begun::Busy);
    finish(&fixture.database, &link, &Finish::default()).await.unwrap();
    assert_eq!(looked().await, Some(Begun::Outrun));
    assert_eq!(begin(&fixture.database, &again).await.unwrap(), Begun::Outrun);
}

/// LIM-7, FN-ONCE-1: of two turns of a contact, one sends a flow that goes out once; one that was refused is free again.
#[tokio::test(flavor = "multi_thread")]
async fn a_flow_is_sent_by_one_turn_at_a_time() {
    let fixture = Fixture::new().await;
    let (turn, opened) = fixture.opened().await;
    let beside = TurnId::fresh();
    let sql = "insert into rs_owed (turn_id, conversation_id, tenant_id, process_id, status, binding, user_turn_ids,
                                    received_at)
               values ($1, $2, 'test', $3, 'running', 'unbound', '{}', now())";
    let values: &[&(dyn ToSql + Sync)] =
        &[beside.as_uuid(), opened.conversation.as_uuid(), fixture.process.as_uuid()];
    fixture.client.execute(sql, values).await.unwrap();
    let once = |turn, action| Attempt { once: true, ..attempt(&fixture, turn, opened.conversation, action) };
    let (one, two) = (once(turn, 0), once(beside, 0));
    let (first, second) = tokio::join!(begin(&fixture.database, &one), begin(&fixture.database, &two));
    let (first, second) = (first.unwrap(), second.unwrap());
    assert!(
        matches!((first, second), (Begun::Yes, Begun::Taken) | (Begun::Taken, Begun::Yes)),
        "{first:?} {second:?}"
    );
    let (winner, loser) = if first == Begun::Yes { (one, beside) } else { (two, turn) };
    finish(&fixture.database, &winner, &Finish { error: Some("refused"), ..Finish::default() })
        .await
        .unwrap();
    assert_eq!(begin(&fixture.database, &once(loser, 8)).await.unwrap(), Begun::Yes);
}

/// ARC-41, ARC-46a: an attempt is written once, whoever asks.
#[tokio::test(flavor = "multi_thread")]
async fn an_action_is_attempted_once() {
    let fixture = Fixture::new().await;
    let (turn, opened) = fixture.opened().await;
    let one = attempt(&fixture, turn, opened.conversation, 0);
    assert_eq!(begin(&fixture.database, &one).await.unwrap(), Begun::Yes);
    assert_eq!(begin(&fixture.database, &one).await.unwrap(), Begun::Before);
    let next = Attempt { action: 8, ..one };
    assert_eq!(begin(&fixture.database, &next).await.unwrap(), Begun::Yes);
}

/// ARC-45, ARC-46a: whoever has lost the lane, or the turn, attempts nothing more.
#[tokio::test(flavor = "multi_thread")]
async fn a_superseded_turn_attempts_nothing() {
    let fixture = Fixture::new().await;
    let (turn, opened) = fixture.opened().await;
    let one = attempt(&fixture, turn, opened.conversation, 0);
    let foreign = Attempt { process: ProcessId::fresh(), ..one.clone() };
    assert_eq!(begin(&fixture.database, &foreign).await.unwrap(), Begun::Superseded);
    let behind = Attempt { under: Under::Actions(AgentRowId::from(*turn.as_uuid())), ..one.clone() };
    assert_eq!(begin(&fixture.database, &behind).await.unwrap(), Begun::Superseded);
    assert_eq!(kept_back(&fixture.database, &behind).await.unwrap(), Some(Begun::Superseded));
    fixture.client.execute("update rs_lanes set fence = fence + 1", &[]).await.unwrap();
    assert_eq!(begin(&fixture.database, &one).await.unwrap(), Begun::Superseded);
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
    assert_eq!(begin(&fixture.database, &claims(0)).await.unwrap(), Begun::Yes);
    assert_eq!(begin(&fixture.database, &claims(8)).await.unwrap(), Begun::OpeningTaken);
}

/// ARC-6: what a running turn says about its actions was prepared as the connection opened: its caller waits for none of it.
#[tokio::test(flavor = "multi_thread")]
async fn a_running_turn_prepares_nothing_for_its_actions() {
    let fixture = Fixture::new().await;
    let (turn, opened) = fixture.opened().await;
    let database = fixture.database_of(1);
    let prepared = async || {
        let lease = database.lease().await.unwrap();
        // It counts itself, each time.
        let statement = lease.prepared("select count(*) from pg_prepared_statements").await.unwrap();
        let row = lease.client().unwrap().query_one(&statement, &[]).await.unwrap();
        lease.give_back();
        row.get::<_, i64>(0)
    };
    let before = prepared().await;
    let values_above = Some(Vec::new());
    for one in [
        attempt(&fixture, turn, opened.conversation, 0),
        Attempt { values_above, ..attempt(&fixture, turn, opened.conversation, 8) },
    ] {
        assert_eq!(kept_back(&database, &one).await.unwrap(), None);
        assert_eq!(begin(&database, &one).await.unwrap(), Begun::Yes);
        finish(&database, &one, &Finish::default()).await.unwrap();
    }
    assert_eq!(prepared().await, before);
}

/// PERF-7, PERF-8, AFTER-7, FLOW-8, FN-OFF-8: what ManyChat accepted changes the contact's own row and ends the follow-up; what it
/// refused changes nothing.
#[tokio::test(flavor = "multi_thread")]
async fn an_accepted_write_is_the_contacts_own() {
    let fixture = Fixture::new().await;
    let (turn, opened) = fixture.opened().await;
    let one = attempt(&fixture, turn, opened.conversation, 0);
    begin(&fixture.database, &one).await.unwrap();
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
        begin(&fixture.database, &one).await.unwrap();
        let end = Finish { error: (action == 8).then_some("refused"), ..Finish::default() };
        if action < 16 {
            finish(&fixture.database, &one, &end).await.unwrap();
        }
    }
    let now = jiff::Timestamp::now();
    let failed = owed::Failed {
        turn,
        process: fixture.process,
        held: true,
        text: "A person will answer.",
        told: false,
        tokens_enforced: false,
        messages: Vec::new(),
        now,
    };
    owed::end_opened(&fixture.database, &failed).await.unwrap();
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
    let row = AgentRowId::from(row.get::<_, Uuid>(0));
    let of =
        |under, action| Attempt { under, ..attempt(&fixture, TurnId::fresh(), opened.conversation, action) };
    let (recovered, own) = (Under::Recovered(row), Under::Actions(row));
    let begun = async |action, under| begin(&fixture.database, &of(under, action)).await.unwrap();
    assert_eq!(begun(0, recovered).await, Begun::Yes);
    assert_eq!(begun(0, recovered).await, Begun::Before);
    let later =
        "insert into turns (conversation_id, role, text) select id, 'agent', 'later' from conversations";
    fixture.client.execute(later, &[]).await.unwrap();
    assert_eq!(begun(8, recovered).await, Begun::EndedFirst);
    let looked = kept_back(&fixture.database, &of(recovered, 8)).await.unwrap();
    assert_eq!(looked, Some(Begun::EndedFirst));
    assert_eq!(begun(8, own).await, Begun::Yes);
    let foreign = Attempt { process: ProcessId::fresh(), ..of(recovered, 16) };
    assert_eq!(begin(&fixture.database, &foreign).await.unwrap(), Begun::Superseded);
}

/// ARC-46a: a word that nobody knows is an error, and no other turn's flow.
#[test]
fn an_unknown_word_is_no_answer() {
    assert_eq!(Begun::of("taken").unwrap(), Begun::Taken);
    for word in ["", "Taken", "held"] {
        assert!(matches!(Begun::of(word), Err(StoreError::Unexpected { .. })), "{word}");
    }
}
