//! ARC-60: messages that come while the database is away, or while its commits wait; judged as the crash matrix is.

use std::time::Duration;

use crate::app::Setup;
use crate::evidence::cell::{Missed, happens, until_it_happens};
use crate::evidence::checker::Report;
use crate::evidence::fleet::{Fleet, Times};
use crate::evidence::journal::{Marker, What};
use crate::evidence::outside::{Act, Outside};

const FIRST: Marker = Marker { contact: 1, number: 1 };
const SECOND: Marker = Marker { contact: 1, number: 2 };

/// Nobody counts as silent while the database is away for seconds.
const PATIENT: Times = Times { deadline_ms: 15_000, abort_ms: 20_000, beat_ms: 500, dead_ms: 20_000 };

/// ARC-60, ARC-40, LANE-9: the first message of contacts comes while the database is away, one caller waits and one hangs
/// up: both contacts are told, a person is called for both, and both are heard afterwards.
#[tokio::test]
async fn a_first_message_during_an_outage() {
    let (report, called, story) = until_it_happens("first message", first_message).await;
    assert!(report.is_sound(), "{story}\n{report}");
    assert_eq!((report.handed_off, report.answered), (1, 2), "{story}\n{report}");
    assert_eq!(called, 2, "a person is called for both\n{story}");
}

/// The verdict, and how many calls for a person are open.
async fn first_message() -> Result<(Report, usize, String), Missed> {
    let times = Times::chosen();
    let outside = Outside::start(Box::new(|_, _| Act::AT_ONCE), Box::new(|_, _| Act::AT_ONCE));
    let mut fleet = Fleet::new(outside, times, &['a'], true).await;
    fleet.members[0].launch().await;
    let mut server = fleet.server.take().unwrap();
    server.stop().await;
    let asked = fleet.ask(0, FIRST);
    let gone = fleet.ask(0, Marker { contact: 2, number: 1 });
    // Time for the message to get there; the deadline is far away.
    tokio::time::sleep(Duration::from_millis(300)).await;
    gone.abort();
    let told = |what: &What| matches!(what, What::Answered { texts, .. } if !texts.is_empty());
    happens(&fleet, "the handoff's text", told).await?;
    server.start_again().await;
    fleet.server = Some(server);
    let _ = asked.await;
    fleet.sees("the text for who hung up", |what| matches!(what, What::Played { contact: 2, .. })).await;
    for (number, contact) in [(4, 1), (4, 2)] {
        fleet.probe(0, Marker { contact, number });
    }
    let report = fleet.verdict(times.lease() + Duration::from_secs(75), times.dead() * 2).await;
    let called = fleet.run("select 1 from rs_handoffs where closed_at is null").await;
    Ok((report, called, fleet.story()))
}

/// ARC-60, ARC-31, DEC-26: an outage that is shorter than the deadline costs nobody an answer.
#[tokio::test]
async fn an_outage_shorter_than_the_deadline() {
    let times = PATIENT;
    let outside = Outside::start(Box::new(|_, _| Act::AT_ONCE), Box::new(|_, _| Act::AT_ONCE));
    let mut fleet = Fleet::new(outside, times, &['a'], true).await;
    fleet.members[0].launch().await;
    let mut server = fleet.server.take().unwrap();
    server.stop().await;
    let asked = [1, 2, 3].map(|contact| fleet.ask(0, Marker { contact, number: 1 }));
    tokio::time::sleep(Duration::from_millis(500)).await;
    server.start_again().await;
    fleet.server = Some(server);
    for asked in asked {
        assert!(asked.await.unwrap(), "{}", fleet.story());
    }
    let report = fleet.verdict(times.lease(), times.dead()).await;
    assert!(report.is_sound() && report.answered == 3, "{}\n{report}", fleet.story());
}

/// ARC-60, ARC-43: a Settle that is given up because its commit waits, and comes through while the contact's next message is
/// answered: both replies are delivered, in order. The first follows the handoff's text (ARC-31), which is excused.
#[tokio::test]
async fn a_commit_that_waits_changes_no_order() {
    let times = Times { deadline_ms: 6000, ..PATIENT };
    let slow_first =
        |names: &str, _| if names.starts_with("q1x1") { Act::after_ms(500) } else { Act::AT_ONCE };
    let outside = Outside::start(Box::new(slow_first), Box::new(|_, _| Act::AT_ONCE));
    let mut fleet = Fleet::new(outside, times, &['a'], true).await;
    fleet.slow = Some(times.slow());
    // The server of the tests waits for no commit otherwise.
    let wait = "do $$ begin execute format('alter database %I set synchronous_commit to on', current_database()); end $$";
    fleet.run(wait).await;
    fleet.members[0].launch().await;
    let first = fleet.ask(0, FIRST);
    fleet.sees("the model is asked", |what| matches!(what, What::Thought { .. })).await;
    for sql in ["alter system set synchronous_standby_names = 'nobody'", "select pg_reload_conf()"] {
        fleet.run(sql).await;
    }
    assert!(first.await.unwrap(), "{}", fleet.story());
    let second = fleet.ask(0, SECOND);
    tokio::time::sleep(Duration::from_millis(700)).await;
    for sql in ["alter system reset synchronous_standby_names", "select pg_reload_conf()"] {
        fleet.run(sql).await;
    }
    assert!(second.await.unwrap(), "{}", fleet.story());
    let report = fleet.verdict(times.lease(), times.dead()).await;
    assert!(
        report.is_sound() && report.answered == 2 && report.corrected == 1,
        "{}\n{report}",
        fleet.story()
    );
}

/// ARC-30: a database whose default isolation is stricter than ours hands nobody to a person.
#[tokio::test]
async fn a_stricter_isolation_costs_nobody_an_answer() {
    let setup = Setup::default().env("RATE_LIMIT_PER_MINUTE", "1000000").env("RACE_DEADLINE_MS", "20000");
    let mut app = setup.prepare().await;
    let strict =
        "do $$ begin execute format('alter database %I set default_transaction_isolation to serializable',
                                             current_database()); end $$";
    app.run(strict).await;
    app.launch().await;
    let contacts: Vec<String> = (0..48).map(|number| format!("75{number:03}")).collect();
    for eight in contacts.chunks(8) {
        let asked = eight.iter().map(|contact| app.send_later(contact, "hello"));
        for answer in futures_util::future::join_all(asked).await {
            let texts = answer.unwrap().texts();
            assert!(
                !texts.is_empty() && !texts.contains(&app.copy("escalation")),
                "{texts:?}\n{}",
                app.output()
            );
        }
    }
}
