//! ARC-60: a process ends at each named point, is paused, or loses its database, while a reply goes inline, comes too
//! late for its request, or answers several messages; then another process must make good what ARC-40 to ARC-43
//! promise. How to read it and what it found: docs/reliability.md.
//!
//! `PROOF_TIMES=real` runs the same cells with the service's own times (20 s, 30 s, 40 s), `PROOF_STORY=1` tells what was
//! seen in each.

use std::time::Duration;

use crate::evidence::cell::{Blow, Cell, Missed, SHAPES, Shape, is_thought, must_hold, until_it_happens};
use crate::evidence::checker::Report;
use crate::evidence::fleet::{Fleet, Times};
use crate::evidence::journal::Marker;
use crate::evidence::outside::{Act, Outside};

const FIRST: Marker = Marker { contact: 1, number: 1 };
const PROBE: Marker = Marker { contact: 1, number: 4 };

/// A point in the three shapes; `nth` by shape, because a burst passes it twice.
async fn point(name: &'static str, nth: [u32; 3], standby: bool) {
    let cells: Vec<Cell> = SHAPES
        .into_iter()
        .zip(nth)
        .map(|(shape, nth)| Cell::new(Blow::At(name, nth), shape, standby))
        .collect();
    must_hold(&cells).await;
}

/// ARC-60, ARC-40 to ARC-43
#[tokio::test]
async fn killed_after_open() {
    point("after_open", [1, 1, 2], true).await;
}

/// ARC-60, ARC-40 to ARC-43
#[tokio::test]
async fn killed_after_settle() {
    point("settle_committed", [1, 1, 2], false).await;
}

/// ARC-60, ARC-40, ARC-45a: two messages wait while the turn before them ends with its process.
#[tokio::test]
async fn killed_while_messages_wait() {
    let waiting = |point, standby| Cell::new(Blow::At(point, 1), Shape::Burst, standby);
    must_hold(&[waiting("settle_committed", true), waiting("bytes_out", false)]).await;
}

/// ARC-60, ARC-40 to ARC-43
#[tokio::test]
async fn killed_before_confirmation() {
    point("bytes_out", [1, 1, 2], true).await;
}

/// ARC-60, ARC-40 to ARC-43
#[tokio::test]
async fn killed_with_a_claim() {
    point("claim_taken", [1, 1, 2], false).await;
}

/// ARC-60, ARC-40 to ARC-43
#[tokio::test]
async fn killed_between_field_and_flow() {
    point("field_written", [1, 1, 2], false).await;
}

/// ARC-60, ARC-40 to ARC-43
#[tokio::test]
async fn killed_before_the_row_is_marked() {
    point("flow_played", [1, 1, 2], false).await;
}

/// ARC-60, ARC-44: paused for longer than its others wait, it finds its work done and repeats none of it.
#[tokio::test]
async fn paused_and_continued() {
    must_hold(&SHAPES.map(|shape| Cell::new(Blow::Pause, shape, true))).await;
}

/// ARC-60, ARC-40, ARC-44: an outage of the database makes nobody dead and loses nothing, and whoever was told of a person
/// during it is not answered by the model afterwards.
#[tokio::test]
async fn without_its_database() {
    let outage = |shape| Cell::new(Blow::Outage, shape, true);
    must_hold(&[
        outage(Shape::Inline).handing_off(1, 1),
        outage(Shape::Deferred).handing_off(0, 0),
        // The two that wait stand in the inbox: they are answered when the outage is short enough for their Open.
        outage(Shape::Burst).handing_off(1, 3),
    ])
    .await;
}

/// Turns that send a flow and stage a tag, in the response and deferred; `nth` by shape.
async fn acting(points: &[(&'static str, u32)], standby: bool) {
    let cells: Vec<Cell> = points
        .iter()
        .flat_map(|(name, nth)| {
            [Shape::Inline, Shape::Deferred]
                .map(|shape| Cell::new(Blow::At(name, *nth), shape, standby).acting())
        })
        .collect();
    must_hold(&cells).await;
}

/// ARC-60, LIM-2, and CRASH-5, CRASH-6, AFTER-6 as ARC-41 decides them: no action is attempted twice, and the record is true, when the process dies over the actions themselves:
/// over the flow's attempt and its answer, over the tag's attempt, and before the first of what follows the reply.
#[tokio::test]
async fn killed_over_its_actions() {
    acting(&[("attempt_written", 1), ("flow_accepted", 1), ("flow_recorded", 1)], true).await;
    // Alone: whoever else runs could deliver the reply, and do what follows it.
    acting(&[("attempt_written", 2), ("marked_actions_open", 1)], false).await;
}

/// ARC-60, ARC-41: the same at the points of every turn.
#[tokio::test]
async fn killed_in_a_turn_with_actions() {
    acting(&[("after_open", 1), ("settle_committed", 1), ("bytes_out", 1)], true).await;
    acting(&[("claim_taken", 1), ("field_written", 1), ("flow_played", 1)], false).await;
}

/// ARC-60, ARC-44: paused over an action, it finds it ended by others and makes none again.
#[tokio::test]
async fn paused_in_a_turn_with_actions() {
    must_hold(&[Shape::Inline, Shape::Deferred].map(|shape| Cell::new(Blow::Pause, shape, true).acting()))
        .await;
}

/// ARC-60, ARC-43, ARC-44: stopped between two steps and continued when others have taken over; it says and does nothing any
/// more that others have said and done meanwhile.
#[tokio::test]
async fn paused_between_two_steps() {
    let paused = |point, shape| Cell::new(Blow::PauseAt(point, 1), shape, true);
    must_hold(&[
        paused("settle_committed", Shape::Inline),
        paused("settle_committed", Shape::Deferred),
        paused("bytes_out", Shape::Inline),
        paused("bytes_out", Shape::Deferred),
        paused("attempt_written", Shape::Inline).acting(),
        paused("attempt_written", Shape::Deferred).acting(),
    ])
    .await;
}

/// ARC-60, ARC-41: an outage in a turn that has sent a flow and staged a tag.
#[tokio::test]
async fn without_its_database_in_a_turn_with_actions() {
    let outage = |shape| Cell::new(Blow::Outage, shape, true).acting();
    must_hold(&[outage(Shape::Inline).handing_off(1, 1), outage(Shape::Deferred).handing_off(0, 0)]).await;
}

/// ARC-49, ARC-41: who ends in good order leaves no action half done.
#[tokio::test]
async fn ended_in_order_over_its_actions() {
    let ended = |shape| Cell::new(Blow::Drain, shape, true).acting().asking_for(4);
    must_hold(&[Shape::Inline, Shape::Deferred].map(ended)).await;
}

/// ARC-46: a turn whose second run dies too ends with a person, and the contact is heard again.
#[tokio::test]
async fn killed_twice_ends_with_a_person() {
    let (report, story) = until_it_happens("killed twice", killed_twice).await;
    println!("killed twice: {report}");
    assert!(report.is_sound() && report.handed_off == 1, "{story}\n{report}");
}

async fn killed_twice() -> Result<(Report, String), Missed> {
    let times = Times::chosen();
    let thinks_for_ever = |names: &str, _| if names.contains("q1x1") { Act::Hang } else { Act::AT_ONCE };
    let outside = Outside::start(Box::new(thinks_for_ever), Box::new(|_, _| Act::AT_ONCE));
    let mut fleet = Fleet::new(outside, times, &['a', 'b'], false).await;
    fleet.members[0].launch().await;
    fleet.members[1].launch().await;
    fleet.ask(0, FIRST);
    for (victim, thoughts) in [(0, 1), (1, 2)] {
        let until = tokio::time::Instant::now() + times.lease();
        while thoughts_of(&fleet) < thoughts {
            if tokio::time::Instant::now() > until {
                return Err(Missed::new(format!("{}\nno run {thoughts}", fleet.story())));
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        fleet.members[victim].stop(libc::SIGKILL).await;
        fleet.strike(victim);
    }
    fleet.members[0].launch().await;
    fleet.probe(0, PROBE);
    let report = fleet.verdict(times.lease() * 2, times.dead() * 2).await;
    Ok((report, fleet.story()))
}

/// How often the model was asked.
fn thoughts_of(fleet: &Fleet) -> usize {
    fleet.outside.journal.read().iter().filter(|entry| is_thought(&entry.what)).count()
}

/// ARC-60: what ends a process on purpose is in test builds only.
#[test]
fn a_release_build_knows_no_crash_point() {
    let program = std::fs::read(crate::app::binary()).unwrap();
    for word in [&b"CRASH_AT"[..], b"SABOTAGE", b"LAG_ALLOWED"] {
        let is_there = program.windows(word.len()).any(|window| window == word);
        assert_eq!(is_there, cfg!(debug_assertions), "{}", String::from_utf8_lossy(word));
    }
}
