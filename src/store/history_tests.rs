//! What Open counts and what the model may read of a contact's past (02 sections 3, 4 and 7).

use jiff::{SignedDuration, Timestamp};
use tokio::runtime::Handle;
use tokio_postgres::Client;

use super::*;
use crate::store::PoolLimits;
use crate::store::embedded::testing::{TestDatabase, TestServer};

struct Past {
    database: Database,
    client: Client,
    now: Timestamp,
    _server: TestDatabase,
}

impl Past {
    async fn new() -> Self {
        let server = TestServer::database().unwrap();
        let client = server.connect().await.unwrap();
        let database =
            Database::new(server.config().clone().into(), Handle::current(), PoolLimits::default()).unwrap();
        let now: Timestamp = "2026-03-20T12:00:00Z".parse().unwrap();
        client
            .batch_execute(
                "insert into conversations (tenant_id, subscriber_id, channel) values ('t', '1', 'whatsapp')",
            )
            .await
            .unwrap();
        Self { database, client, now, _server: server }
    }

    async fn turn(&self, role: &str, text: &str, days_ago: i64, bound: bool, outcome: Option<&str>) {
        let at = self.now.checked_sub(SignedDuration::from_hours(days_ago * 24)).unwrap();
        let sql = "insert into turns (conversation_id, role, text, bound, outcome, created_at)
                   select id, $1, $2, $3, $4, $5 from conversations";
        self.client.execute(sql, &[&role, &text, &bound, &outcome, &at]).await.unwrap();
    }

    async fn open(&self, texts: &[&str], enforced: bool, token: Option<&str>, now: Timestamp) -> OpenTurn {
        let message = |text: &&str| NewMessage {
            id: MessageId::fresh(),
            text: ContactText::new(*text),
            media: None,
            offering: None,
            received_at: now,
            stored: false,
        };
        let request = OpenRequest {
            tenant: TenantId::new("t").unwrap(),
            subscriber: SubscriberId::new("1").unwrap(),
            channel: "whatsapp".to_owned(),
            token_digest: token.map(str::to_owned),
            fresh_digest: None,
            tokens_enforced: enforced,
            messages: texts.iter().map(message).collect(),
            guarded: true,
            now,
            received_at: now,
            last_received_at: now,
            idle_reset_hours: 24,
            offering: None,
            acted_by: None,
            pausable: true,
            history_days: 30,
            process: ProcessId::fresh(),
            turn: TurnId::fresh(),
            lane_secs: 60.0,
            dead_secs: 60.0,
            takeover_secs: 60.0,
        };
        let opened = open(&self.database, &request).await.unwrap();
        self.client.batch_execute("update rs_lanes set turn_id = null; delete from rs_owed").await.unwrap();
        match opened {
            Opened::Started(turn) => *turn,
            Opened::Waiting(_) => panic!("the lane is held"),
        }
    }
}

fn texts(turn: &OpenTurn) -> Vec<&str> {
    turn.history.iter().map(|row| row.text.expose()).collect()
}

/// TURN-13, HISTW-1, HISTW-2, HISTW-5, CONV-8, 02/AC-7: the last nine before the message, oldest first though all are of
/// one moment, the message itself left out.
#[tokio::test]
async fn the_last_nine_turns_are_read_oldest_first() {
    let past = Past::new().await;
    for number in 0..15 {
        past.turn("user", &format!("old {number}"), 1, true, None).await;
    }
    let turn = past.open(&["now"], false, None, past.now).await;
    assert_eq!(texts(&turn), (6..15).map(|number| format!("old {number}")).collect::<Vec<_>>());
    let burst = past.open(&["a", "b", "c"], false, None, past.now).await;
    assert_eq!(burst.history.len(), 7, "DEC-33: the burst's own rows count among the ten");
    assert_eq!(texts(&burst).last(), Some(&"now"));
}

/// HISTW-1, HISTW-3, HISTW-4, 08/HIST-5, 02/AC-6: outside the window, unbound and skipped turns are left out; escalations are not.
#[tokio::test]
async fn only_bound_turns_inside_the_window_are_read() {
    let past = Past::new().await;
    past.turn("user", "too old", 31, true, None).await;
    past.turn("user", "in time", 29, true, None).await;
    past.turn("agent", "handed off", 29, true, Some("escalated_precheck")).await;
    past.turn("user", "forged", 2, false, None).await;
    past.turn("agent", "skipped", 2, true, Some("nudge_skipped")).await;
    let turn = past.open(&["now"], false, None, past.now).await;
    assert_eq!(texts(&turn), ["in time", "handed off"]);
    assert_eq!(turn.history[1].role, Role::Agent);
}

/// GAP-DB-5: history is read in the order of an index.
#[tokio::test]
async fn history_has_an_index_in_its_order() {
    let past = Past::new().await;
    let sql = "select indexdef from pg_indexes where tablename = 'turns'";
    let indexes = past.client.query(sql, &[]).await.unwrap();
    let indexes: Vec<String> = indexes.iter().map(|row| row.get(0)).collect();
    assert!(indexes.iter().any(|index| index.ends_with("(conversation_id, seq)")), "{indexes:?}");
}

/// TOK-10, TOK-12, TOK-14, HISTW-4: under enforcement only the contact's token reads; the current and the previous one do.
#[tokio::test]
async fn under_enforcement_only_the_token_reads() {
    let past = Past::new().await;
    past.turn("user", "secret", 1, true, None).await;
    let first = past.open(&["now"], true, Some("any"), past.now).await;
    assert_eq!((first.binding, first.history.len()), (Binding::First, 0));
    past.client
        .batch_execute("update conversations set token_hash = 'new', previous_token_hash = 'old'")
        .await
        .unwrap();
    for (token, binding, reads) in [
        (Some("new"), Binding::Bound, true),
        (Some("old"), Binding::Bound, true),
        (Some("older"), Binding::Unbound, false),
        (Some(""), Binding::Unbound, false),
        (None, Binding::Unbound, false),
    ] {
        let turn = past.open(&["now"], true, token, past.now).await;
        assert_eq!((turn.binding, !turn.history.is_empty()), (binding, reads), "{token:?}");
        assert_eq!(turn.turn_count.is_some(), binding == Binding::Bound, "CAP-4 {token:?}");
        assert!(turn.hourly_count.is_some(), "02/RATE-3 {token:?}");
    }
}

/// CONV-4, CONV-6, 02/CAP-2, 02/AC-3, 02/AC-4: the count restarts after a gap of exactly the idle time, and the last
/// message's time never moves back.
#[tokio::test]
async fn the_count_restarts_after_a_gap_and_time_never_moves_back() {
    let past = Past::new().await;
    past.client.batch_execute("delete from conversations").await.unwrap();
    let start = past.now;
    let after = |hours: i64, minutes: i64| start + SignedDuration::from_mins(hours * 60 + minutes);
    let mut counts = Vec::new();
    for at in [start, after(23, 59), after(47, 59), after(47, 0)] {
        counts.push(past.open(&["now"], false, None, at).await.turn_count);
    }
    assert_eq!(counts, [Some(1), Some(2), Some(1), Some(2)]);
    let last = past.client.query_one("select last_message_at from conversations", &[]).await.unwrap();
    assert_eq!(last.get::<_, Timestamp>(0), after(47, 59));
}

/// DEC-9, ARC-50, TOK-13: an open handoff pauses, by the database's clock, whatever the business clock says; an unbound
/// turn neither prolongs nor ends it.
#[tokio::test]
async fn a_handoff_pauses_by_one_clock_and_unbound_turns_do_not_count() {
    let past = Past::new().await;
    let open = async || past.open(&["now"], false, None, past.now).await.handoff;
    assert_eq!(open().await, None);
    past.turn("user", "help", -400, true, None).await;
    past.turn("agent", "a person comes", -400, true, Some("escalated_model")).await;
    let sql = "insert into rs_handoffs (conversation_id, reason, opened_at)
               select id, 'complaint', now() - interval '10 minutes' from conversations";
    past.client.batch_execute(sql).await.unwrap();
    past.turn("user", "forged", -400, false, None).await;
    past.turn("agent", "to a forged one", -400, false, Some("answered_inline")).await;
    past.turn("agent", "skipped", -400, true, Some("nudge_skipped")).await;
    let handoff = open().await.unwrap();
    assert!((600..660).contains(&handoff.quiet.as_secs()) && handoff.tag_pending, "{handoff:?}");
}

/// DEC-9: a handoff after which the agent has gone on pauses nothing; the next handoff does, and so does one whose own
/// words stand behind it in the order of turns.
#[tokio::test]
async fn a_handoff_from_before_the_rule_pauses_nothing() {
    let past = Past::new().await;
    let hand_off =
        "insert into rs_handoffs (conversation_id, reason) select id, 'complaint' from conversations";
    let paused = async || past.open(&["now"], false, None, past.now).await.handoff.is_some();
    past.client.batch_execute(hand_off).await.unwrap();
    past.turn("agent", "a person comes, later", 0, true, Some("deferred")).await;
    assert!(paused().await, "the handoff's own words");
    past.turn("agent", "still a person", 0, true, Some("escalated_precheck")).await;
    assert!(paused().await, "another handoff is no going on");
    past.turn("agent", "we open at nine", 0, true, Some("answered_inline")).await;
    assert!(!paused().await, "the agent has answered since");
    past.client.batch_execute(hand_off).await.unwrap();
    assert!(paused().await);
    past.client.batch_execute("update rs_handoffs set opened_seq = null").await.unwrap();
    assert!(!paused().await, "handoffs from before the column");
}
