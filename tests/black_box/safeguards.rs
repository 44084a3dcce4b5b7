//! ARC-60: the checker sees what each safeguard is for. With one of them taken out (`SABOTAGE`) it reports the loss, the
//! duplicate, the wrong order or the repeated action; with all of them in place the same scenario keeps the promises.
//! With short times only: with the service's own, the limit of a call prevents a duplicate too, and the lease of a claim
//! brings a reply after all.

use std::time::Duration;

use crate::app::PATIENCE;
use crate::crash_matrix::{Blow, Cell, Shape, run};
use crate::evidence::checker::{Kind, Report};
use crate::evidence::fleet::{Fleet, Times};
use crate::evidence::journal::{Marker, What};
use crate::evidence::outside::{Act, Outside, Script};

const FIRST: Marker = Marker { contact: 1, number: 1 };
const SECOND: Marker = Marker { contact: 1, number: 2 };
const TIMES: Times = Times::SHORT;
/// What is wrong is there by then.
const WRONG: Duration = Duration::from_secs(8);

/// ARC-40, ARC-41, ARC-43
#[tokio::test]
async fn the_checker_sees_what_is_missing() {
    let inline = |point| Cell::new(Blow::At(point, 1), Shape::Inline, false);
    let deferred = |point| Cell::new(Blow::At(point, 1), Shape::Deferred, false);
    let cells = [
        inline("after_open").with("recovery"),
        deferred("claim_taken").with("recovery"),
        inline("settle_committed").with("owed"),
        Cell::new(Blow::Pause, Shape::Deferred, true).with("fencing"),
        deferred("flow_accepted").acting().with("attempts"),
        Cell::new(Blow::Outage, Shape::Inline, false).with("resolver"),
    ];
    let expected = [Kind::Lost, Kind::Lost, Kind::Lost, Kind::Doubled, Kind::Repeated, Kind::Corrected];
    for ((cell, report, story), kind) in run(&cells, TIMES).await.iter().zip(expected) {
        assert!(report.has(&kind), "{cell:?} reports no {kind:?}: {report}\n{story}");
    }
}

/// ARC-43, ARC-45: two processes never answer one contact at the same time; without the lane and its fence they do.
#[tokio::test]
async fn the_lane_keeps_the_order_of_two_processes() {
    let (kept, broken) = tokio::join!(in_two_processes(None), in_two_processes(Some("lane")));
    println!("order across processes: {}\nwithout the lane: {}", kept.0, broken.0);
    assert!(kept.0.is_sound(), "{}\n{}", kept.0, kept.1);
    assert!(broken.0.has(&Kind::Disorder), "{}\n{}", broken.0, broken.1);
}

/// ARC-43, LANE-6: a reply goes behind the one that waits in the outbox; without Settle's look at it, it overtakes.
#[tokio::test]
async fn settle_keeps_the_order_behind_the_outbox() {
    let (kept, broken) = tokio::join!(behind_a_queued_reply(None), behind_a_queued_reply(Some("order")));
    println!("order behind the outbox: {}\nwithout the look: {}", kept.0, broken.0);
    assert!(kept.0.is_sound(), "{}\n{}", kept.0, kept.1);
    assert!(broken.0.has(&Kind::Disorder), "{}\n{}", broken.0, broken.1);
}

/// The second message goes to the other process while the first is thought about.
async fn in_two_processes(sabotage: Option<&str>) -> (Report, String) {
    let slow = Box::new(|names: &str, _| if names == "q1x1" { Act::after_ms(1500) } else { Act::AT_ONCE });
    let fleet = launched(slow, Box::new(|_, _| Act::AT_ONCE), sabotage).await;
    let requests = [fleet.ask(0, FIRST), {
        fleet.sees("the model is asked", |what| matches!(what, What::Thought { .. })).await;
        fleet.ask(1, SECOND)
    }];
    for request in requests {
        let _ = request.await;
    }
    judged(&fleet, sabotage).await
}

/// The second message comes while ManyChat keeps its answer to the first one's late reply back.
async fn behind_a_queued_reply(sabotage: Option<&str>) -> (Report, String) {
    let late = TIMES.deadline_ms + 500;
    let slow =
        Box::new(move |names: &str, _| if names == "q1x1" { Act::after_ms(late) } else { Act::AT_ONCE });
    let holds =
        |what: &str, before| if what.starts_with("field") && before == 0 { Act::Hold } else { Act::AT_ONCE };
    let fleet = launched(slow, Box::new(holds), sabotage).await;
    let _ = fleet.ask(0, FIRST).await;
    fleet.sees("the field is written", |what| matches!(what, What::Written { .. })).await;
    let _ = fleet.ask(0, SECOND).await;
    fleet.outside.gate.send_replace(true);
    judged(&fleet, sabotage).await
}

async fn launched(model: Script, manychat: Script, sabotage: Option<&str>) -> Fleet {
    let mut fleet = Fleet::new(Outside::start(model, manychat), TIMES, &['a', 'b'], false).await;
    for member in &mut fleet.members {
        if let Some(name) = sabotage {
            member.set("SABOTAGE", name);
        }
        member.launch().await;
    }
    fleet
}

async fn judged(fleet: &Fleet, sabotage: Option<&str>) -> (Report, String) {
    let limit = if sabotage.is_some() { WRONG } else { PATIENCE };
    (fleet.verdict(limit, Duration::ZERO).await, fleet.story())
}
