//! A process that dies over many turns at once.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::app::{BEAT, DEAD, LOST, Setup, TestApp};

/// The contact with this number.
fn contact(number: u32) -> String {
    format!("{}", 80_000_000 + number)
}

/// Turns of this many contacts that a dead process has left running, the first contact's the oldest.
async fn left_running(app: &TestApp, turns: u32) {
    app.run(&format!(
        "insert into conversations (tenant_id, subscriber_id, channel, turn_count, last_message_at)
           select 'test', (80000000 + n)::text, 'whatsapp', 1, now() from generate_series(1, {turns}) n;
         insert into turns (id, conversation_id, role, text, bound)
           select id, id, 'user', 'how much is it?', true from conversations;
         insert into rs_lanes (conversation_id, process_id, turn_id, fence, expires_at)
           select id, '00000000-0000-4000-8000-00000000dead', id, 1, now() + interval '1 minute' from conversations;
         insert into rs_owed (turn_id, conversation_id, tenant_id, process_id, fence, status, binding, user_turn_ids,
                              received_at, created_at)
           select id, id, 'test', '00000000-0000-4000-8000-00000000dead', 1, 'running', 'first', array[id], now(),
                  now() + make_interval(secs => subscriber_id::int - 80001000)
           from conversations"
    ))
    .await;
}

/// ARC-42, ARC-46: however many turns a process dies over, all are taken on well within the time of a lane, and never more
/// at once than half of what the model may be asked at once.
#[tokio::test]
async fn every_turn_of_a_mass_death_is_taken_on_in_time() {
    const TURNS: u32 = 400;
    let setup = Setup::default().env("PROCESS_BEAT_MS", "1000").env("PROCESS_DEAD_MS", "6000");
    let mut app = setup.env("MODEL_MAX_CONCURRENT", "16").prepare().await;
    left_running(&app, TURNS).await;
    app.launch().await;
    app.log_line("reply of a dead process taken over").await;
    let (started, mut most) = (Instant::now(), 0);
    let under_way = "select count(*) filter (where second_run) as now, count(*) as all from rs_owed where status = 'running'";
    loop {
        let rows = app.rows(under_way).await;
        most = rows[0]["now"].as_u64().unwrap().max(most);
        if rows[0]["all"] == 0 {
            break;
        }
        // RACE_DEADLINE_MS, MODEL_ABORT_MS and 15 s are 65 s.
        assert!(started.elapsed() < Duration::from_secs(50), "{rows:?}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!((1..=8).contains(&most), "{most} at once");
    let told = "select 1 from outbox where kind = 'reply' and payload::text like '%$450.00%'";
    app.await_that(told, |rows| rows.len() == TURNS as usize).await;
}

/// DEC-35, ARC-43: a contact who writes again while a mass death is being worked off does not wait for all the others.
#[tokio::test]
async fn a_contact_who_writes_again_is_served_first() {
    const TURNS: u32 = 60;
    let mut app = Setup::default()
        .env("AGENT_MODEL", "mock:slow")
        .env("RACE_DEADLINE_MS", LOST)
        .env("MODEL_ABORT_MS", "3000")
        .env("MODEL_MAX_CONCURRENT", "4")
        .env("PROCESS_BEAT_MS", BEAT)
        .env("PROCESS_DEAD_MS", DEAD)
        .prepare()
        .await;
    left_running(&app, TURNS).await;
    app.launch().await;
    app.log_line("reply of a dead process taken over").await;
    let answer = app.send_as(&contact(TURNS), "are you there?").await;
    assert_eq!(answer.texts(), [] as [String; 0], "it waits behind what it is owed");
    let before = format!(
        "select (select count(*) from turns o where o.role = 'agent' and o.seq < min(t.seq)) as before
         from turns t join conversations c on c.id = t.conversation_id
         where t.role = 'agent' and c.subscriber_id = '{}' having count(*) > 0",
        contact(TURNS)
    );
    let rank = app.await_rows(&before).await[0]["before"].as_u64().unwrap();
    assert!(rank < u64::from(TURNS) / 3, "{rank} others came first");
    let words = format!(
        "select t.text from turns t join conversations c on c.id = t.conversation_id
         where t.role = 'user' and c.subscriber_id = '{}' order by t.seq",
        contact(TURNS)
    );
    let said: Vec<Value> = app.await_that(&words, |rows| rows.len() == 2).await;
    assert_eq!(said[1], json!({ "text": "are you there?" }));
}
