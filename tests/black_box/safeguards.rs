//! ARC-60: the checker sees what each safeguard is for. With one of them taken out (`SABOTAGE`) it reports the loss, the
//! duplicate, the wrong order or the repeated action; with all of them in place the same scenario keeps the promises.
//! With short times only: with the service's own, the limit of a call prevents a duplicate too, and the lease of a claim
//! brings a reply after all.

use std::time::Duration;

use crate::app::PATIENCE;
use crate::evidence::cell::{Blow, Cell, Missed, Shape, happens, is_thought, run, until_it_happens};
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
        inline("after_open").without("recovery", Kind::Lost),
        deferred("claim_taken").without("recovery", Kind::Lost),
        inline("settle_committed").without("owed", Kind::Lost),
        Cell::new(Blow::Pause, Shape::Deferred, true).without("fencing", Kind::Doubled),
        deferred("flow_accepted").acting().without("attempts", Kind::Repeated),
        Cell::new(Blow::Outage, Shape::Inline, false).without("resolver", Kind::Corrected),
    ];
    // Panics when a cell does not show what it must.
    run(&cells, TIMES).await;
}

/// ARC-43, ARC-45: two processes never answer one contact at the same time; without the lane and its fence they do.
#[tokio::test]
async fn the_lane_keeps_the_order_of_two_processes() {
    keeps_the_order("across processes", in_two_processes, "lane").await;
}

/// ARC-43, LANE-6: a reply goes behind the one that waits in the outbox; without Settle's look at it, it overtakes.
#[tokio::test]
async fn settle_keeps_the_order_behind_the_outbox() {
    keeps_the_order("behind the outbox", behind_a_queued_reply, "order").await;
}

/// The scenario keeps the order, and does not without the safeguard.
async fn keeps_the_order(
    name: &str,
    scenario: impl AsyncFn(Option<&str>) -> Result<(Report, String), Missed>,
    sabotage: &str,
) {
    let kept = until_it_happens(name, async || scenario(None).await);
    let broken = until_it_happens(name, async || {
        let (report, story) = scenario(Some(sabotage)).await?;
        let seen = report.has(&Kind::Disorder);
        seen.then_some(report.clone()).ok_or_else(|| Missed::new(format!("{story}\nin order: {report}")))
    });
    let ((kept, story), broken) = tokio::join!(kept, broken);
    println!("order {name}: {kept}\nwithout {sabotage}: {broken}");
    assert!(kept.is_sound(), "{story}\n{kept}");
}

/// The second message goes to the other process while the first is thought about.
async fn in_two_processes(sabotage: Option<&str>) -> Result<(Report, String), Missed> {
    let slow = Box::new(|names: &str, _| if names == "q1x1" { Act::after_ms(1500) } else { Act::AT_ONCE });
    let fleet = launched(slow, Box::new(|_, _| Act::AT_ONCE), sabotage).await;
    let first = fleet.ask(0, FIRST);
    happens(&fleet, "the model is asked", is_thought).await?;
    for request in [first, fleet.ask(1, SECOND)] {
        let _ = request.await;
    }
    Ok(judged(&fleet, sabotage).await)
}

/// The second message comes while ManyChat keeps its answer to the first one's late reply back.
async fn behind_a_queued_reply(sabotage: Option<&str>) -> Result<(Report, String), Missed> {
    let late = TIMES.deadline_ms + 500;
    let slow =
        Box::new(move |names: &str, _| if names == "q1x1" { Act::after_ms(late) } else { Act::AT_ONCE });
    let holds =
        |what: &str, before| if what.starts_with("field") && before == 0 { Act::Hold } else { Act::AT_ONCE };
    let fleet = launched(slow, Box::new(holds), sabotage).await;
    let _ = fleet.ask(0, FIRST).await;
    happens(&fleet, "the field is written", |what| matches!(what, What::Written { .. })).await?;
    let _ = fleet.ask(0, SECOND).await;
    fleet.outside.gate.send_replace(true);
    Ok(judged(&fleet, sabotage).await)
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
