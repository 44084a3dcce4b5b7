//! ARC-60: a process ends at each named point, is paused, or loses its database, while a reply goes inline, comes too
//! late for its request, or answers several messages; then another process must make good what ARC-40 to ARC-43
//! promise. How to read it and what it found: docs/reliability.md.
//!
//! `PROOF_TIMES=real` runs the same cells with the service's own times (20 s, 30 s, 40 s), `PROOF_STORY=1` tells what was
//! seen in each.

use std::time::Duration;

use crate::app::PATIENCE;
use crate::evidence::checker::Report;
use crate::evidence::fleet::{Fleet, Times};
use crate::evidence::journal::{Marker, What};
use crate::evidence::outside::{Act, Outside, Script};

/// How the reply leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// In the response; where the outbox is the subject, because its caller hung up.
    Inline,
    /// The race is lost.
    Deferred,
    /// Two messages wait behind a running turn and are answered together.
    Burst,
}

const SHAPES: [Shape; 3] = [Shape::Inline, Shape::Deferred, Shape::Burst];

/// What is done to process `a`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blow {
    /// It aborts at the n-th passage of this point.
    At(&'static str, u32),
    /// It is paused for longer than `PROCESS_DEAD_MS`, while it waits for an answer.
    Pause,
    /// It is paused so long at the n-th passage of this point.
    PauseAt(&'static str, u32),
    /// It is asked to end in good order while its actions are open.
    Drain,
    /// Its database is away for longer than `PROCESS_DEAD_MS`.
    Outage,
}

#[derive(Clone, Copy, Debug)]
pub struct Cell {
    blow: Blow,
    shape: Shape,
    /// The other process is there already; otherwise the dead one is started again.
    standby: bool,
    sabotage: Option<&'static str>,
    /// The model sends a flow and stages a tag.
    acts: bool,
}

const FIRST: Marker = Marker { contact: 1, number: 1 };
const SECOND: Marker = Marker { contact: 1, number: 2 };
const THIRD: Marker = Marker { contact: 1, number: 3 };
/// With short times the machine's own pace counts more than theirs.
const MOST: Duration = Duration::from_secs(30);
const PROBE: Marker = Marker { contact: 1, number: 4 };

impl Cell {
    pub const fn new(blow: Blow, shape: Shape, standby: bool) -> Self {
        Self { blow, shape, standby, sabotage: None, acts: false }
    }

    pub const fn acting(self) -> Self {
        Self { acts: true, ..self }
    }

    pub const fn with(self, sabotage: &'static str) -> Self {
        Self { sabotage: Some(sabotage), ..self }
    }

    /// Whether the outbox is the subject, so that the reply has to go through it.
    const fn needs_outbox(&self) -> bool {
        match self.blow {
            Blow::At(point, _) => {
                matches!(point.as_bytes(), b"claim_taken" | b"field_written" | b"flow_played")
            }
            Blow::Pause | Blow::PauseAt(..) | Blow::Drain | Blow::Outage => false,
        }
    }

    /// Whether the blow falls while a stand-in keeps its answer back.
    const fn is_held(&self) -> bool {
        matches!(self.blow, Blow::Pause | Blow::Outage)
    }

    /// The model is slow where the race is to be lost, and held where the blow must fall while it thinks.
    fn model(&self, times: Times) -> Script {
        let held = self.is_held() && self.shape != Shape::Deferred;
        let late = self.shape == Shape::Deferred || self.needs_outbox() && self.shape == Shape::Burst;
        let slow = times.deadline_ms + 500;
        let inline = if self.needs_outbox() { 1000 } else { 0 };
        let burst = self.shape == Shape::Burst;
        Box::new(move |names, before| match (names.starts_with("q1x1"), before) {
            (true, 0) if held => Act::Hold,
            (true, 0) if late => Act::after_ms(slow),
            (true, 0) if burst => Act::after_ms(1000),
            (true, 0) => Act::after_ms(inline),
            _ => Act::AT_ONCE,
        })
    }

    /// ManyChat keeps its answer to the first field write back, where the blow must fall between field and flow.
    fn manychat(&self) -> Script {
        let held = self.is_held() && self.shape == Shape::Deferred;
        let drained = self.blow == Blow::Drain;
        Box::new(move |what, before| match before {
            0 if held && what.starts_with("field") => Act::Hold,
            // The tag; the flow went before.
            1 if drained && what.starts_with("act") => Act::after_ms(1500),
            _ => Act::AT_ONCE,
        })
    }

    async fn run(self, times: Times) -> (Report, String) {
        let outside = Outside::start(self.model(times), self.manychat());
        let mut fleet = Fleet::new(outside, times, &['a', 'b'], self.blow == Blow::Outage).await;
        if self.acts {
            fleet.with_tools();
        }
        // What is told of an outage's first moments is counted (see `without_its_database`).
        if self.sabotage.is_none() && self.blow != Blow::Outage {
            fleet.slow = Some(times.slow());
        }
        if let Some(sabotage) = self.sabotage {
            fleet.members.iter_mut().for_each(|member| member.set("SABOTAGE", sabotage));
        }
        match self.blow {
            Blow::At(point, nth) => fleet.members[0].set("CRASH_AT", &format!("{point}:{nth}")),
            Blow::PauseAt(point, nth) => fleet.members[0].set("PAUSE_AT", &format!("{point}:{nth}")),
            Blow::Pause | Blow::Drain | Blow::Outage => {}
        }
        fleet.members[0].launch().await;
        if self.standby {
            fleet.members[1].launch().await;
        }
        self.speak(&fleet).await;
        let listening = self.strike(&mut fleet).await;
        fleet.probe(listening, PROBE);
        let limit = match (self.sabotage, self.blow) {
            // Longer than recovery takes, shorter than the lease of a claim.
            (Some(_), _) => times.dead() * 2 + Duration::from_secs(6),
            (None, _) => times.ended(),
        };
        let report = fleet.verdict(limit, times.dead() * 2 + Duration::from_secs(4)).await;
        self.judge_recovery(&fleet);
        (report, fleet.story())
    }

    /// ARC-44, ARC-46: what a dead process has left is taken up by one that is there within 25 s, with the service's own
    /// times.
    fn judge_recovery(&self, fleet: &Fleet) {
        let Some(after) = resumed(fleet).filter(|_| matches!(self.blow, Blow::At(..))) else { return };
        println!("{self:?}: taken up after {:.1} s", after.as_secs_f64());
        let most = fleet.times.dead() * 5 / 4;
        assert!(
            !self.standby || after <= most.max(MOST),
            "{self:?}: only after {after:?}\n{}",
            fleet.story()
        );
    }

    /// The contact writes.
    async fn speak(&self, fleet: &Fleet) {
        let hangs_up = self.needs_outbox() && self.shape == Shape::Inline;
        let asking = fleet.ask(0, FIRST);
        if hangs_up {
            fleet.sees("the model is asked", is_thought).await;
            asking.abort();
        }
        if self.shape == Shape::Burst {
            fleet.sees("the model is asked", is_thought).await;
            for marker in [SECOND, THIRD] {
                fleet.ask(0, marker);
                // Each is on its way before the next is sent.
                tokio::time::sleep(Duration::from_millis(120)).await;
            }
        }
    }

    /// The blow falls; which process listens afterwards.
    async fn strike(&self, fleet: &mut Fleet) -> usize {
        match self.blow {
            Blow::At(..) => self.crash(fleet).await,
            Blow::Pause => {
                self.held(fleet).await;
                self.pause(fleet).await
            }
            Blow::PauseAt(..) => {
                fleet.members[0].stopped().await;
                self.pause(fleet).await
            }
            Blow::Drain => drain(fleet).await,
            Blow::Outage => self.outage(fleet).await,
        }
    }

    async fn crash(&self, fleet: &mut Fleet) -> usize {
        let ended = fleet.members[0].ended(PATIENCE).await;
        assert!(ended, "{self:?}: the point was not passed\n{}", fleet.story());
        fleet.strike(0);
        if !self.standby {
            fleet.members[0].unset("CRASH_AT");
            fleet.members[0].launch().await;
            return 0;
        }
        1
    }

    /// The moment is the one when the stand-in holds its answer back.
    async fn held(&self, fleet: &Fleet) {
        match self.shape {
            Shape::Deferred => fleet.sees("the field is written", is_written).await,
            Shape::Inline | Shape::Burst => fleet.sees("the model is asked", is_thought).await,
        }
    }

    async fn pause(&self, fleet: &mut Fleet) -> usize {
        fleet.strike(0);
        fleet.members[0].signal(libc::SIGSTOP);
        tokio::time::sleep(Duration::from_millis(50)).await;
        // The answers wait in the sockets of the paused process.
        fleet.outside.gate.send_replace(true);
        tokio::time::sleep(fleet.times.dead() * 3 / 2 + Duration::from_secs(1)).await;
        fleet.members[0].signal(libc::SIGCONT);
        // At first it sees that it lags, and sheds (SHED-1).
        tokio::time::sleep(Duration::from_secs(3)).await;
        0
    }

    async fn outage(&self, fleet: &mut Fleet) -> usize {
        self.held(fleet).await;
        let mut server = fleet.server.take().unwrap();
        server.stop().await;
        fleet.outside.gate.send_replace(true);
        tokio::time::sleep(fleet.times.dead() * 2).await;
        // What it did until now it could not record.
        fleet.strike(0);
        server.start_again().await;
        fleet.server = Some(server);
        tokio::time::sleep(Duration::from_millis(500)).await;
        0
    }
}

/// SIGTERM while an action is under way: it is finished, or left to others, and the process ends in order (ARC-49).
async fn drain(fleet: &mut Fleet) -> usize {
    let is_out = |what: &What| match what {
        What::Answered { texts, .. } => !texts.is_empty(),
        What::Played { .. } => true,
        _ => false,
    };
    fleet.sees("the reply is out", is_out).await;
    let ended = fleet.members[0].stop(libc::SIGTERM).await;
    assert!(ended.success(), "{ended}\n{}", fleet.story());
    1
}

/// How long after the blow anybody worked on what it fell upon.
fn resumed(fleet: &Fleet) -> Option<Duration> {
    let entries = fleet.outside.journal.read();
    let mut after = entries.iter().skip_while(|entry| !matches!(entry.what, What::Struck { .. }));
    let struck = after.next()?.at;
    let is_work = |what: &What| match what {
        What::Thought { markers } => markers.iter().any(|marker| *marker != PROBE),
        What::Written { .. } | What::Played { .. } => true,
        What::Acted { name, .. } => !name.ends_with(&PROBE.number.to_string()),
        _ => false,
    };
    after.find(|entry| is_work(&entry.what)).map(|entry| entry.at - struck)
}

const fn is_thought(what: &What) -> bool {
    matches!(what, What::Thought { .. })
}

const fn is_written(what: &What) -> bool {
    matches!(what, What::Written { .. })
}

/// Runs cells at the same time and prints the line of each.
pub async fn run(cells: &[Cell], times: Times) -> Vec<(Cell, Report, String)> {
    let runs = cells.iter().map(|cell| async move {
        let (report, story) = cell.run(times).await;
        println!("{cell:?}: {report}");
        if std::env::var_os("PROOF_STORY").is_some() {
            println!("{story}");
        }
        (*cell, report, story)
    });
    futures_util::future::join_all(runs).await
}

/// Every cell keeps the promises.
async fn must_hold(cells: &[Cell]) -> Vec<(Cell, Report, String)> {
    let results = run(cells, Times::chosen()).await;
    let broken: Vec<String> = results
        .iter()
        .filter(|(_, report, _)| !report.is_sound())
        .map(|(cell, report, story)| format!("{cell:?}: {report}\n{story}"))
        .collect();
    assert!(broken.is_empty(), "{}", broken.join("\n\n"));
    results
}

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
    let results = must_hold(&SHAPES.map(|shape| Cell::new(Blow::Outage, shape, true))).await;
    for (cell, report, story) in results {
        let handed_off = match cell.shape {
            Shape::Inline => 1..=1,
            Shape::Deferred => 0..=0,
            // The two that wait stand in the inbox: they are answered when the outage is short enough for their Open.
            Shape::Burst => 1..=3,
        };
        assert!(handed_off.contains(&report.handed_off), "{cell:?}: {report}\n{story}");
    }
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
    let cells = [Shape::Inline, Shape::Deferred].map(|shape| Cell::new(Blow::Outage, shape, true).acting());
    for (cell, report, story) in must_hold(&cells).await {
        assert_eq!(
            report.handed_off,
            usize::from(cell.shape == Shape::Inline),
            "{cell:?}: {report}\n{story}"
        );
    }
}

/// ARC-49, ARC-41: who ends in good order leaves no action half done.
#[tokio::test]
async fn ended_in_order_over_its_actions() {
    let cells = [Shape::Inline, Shape::Deferred].map(|shape| Cell::new(Blow::Drain, shape, true).acting());
    for (cell, report, story) in must_hold(&cells).await {
        assert_eq!(report.acts, 4, "{cell:?}: {report}\n{story}");
    }
}

/// ARC-46: a turn whose second run dies too ends with a person, and the contact is heard again.
#[tokio::test]
async fn killed_twice_ends_with_a_person() {
    let times = Times::chosen();
    let thinks_for_ever = |names: &str, _| if names.contains("q1x1") { Act::Hang } else { Act::AT_ONCE };
    let outside = Outside::start(Box::new(thinks_for_ever), Box::new(|_, _| Act::AT_ONCE));
    let mut fleet = Fleet::new(outside, times, &['a', 'b'], false).await;
    fleet.members[0].launch().await;
    fleet.members[1].launch().await;
    fleet.ask(0, FIRST);
    for (victim, thoughts) in [(0, 1), (1, 2)] {
        let thought = || fleet.outside.journal.read().iter().filter(|entry| is_thought(&entry.what)).count();
        let until = tokio::time::Instant::now() + times.lease();
        while thought() < thoughts {
            assert!(tokio::time::Instant::now() < until, "no run {thoughts}\n{}", fleet.story());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        fleet.members[victim].stop(libc::SIGKILL).await;
        fleet.strike(victim);
    }
    fleet.members[0].launch().await;
    fleet.probe(0, PROBE);
    let report = fleet.verdict(times.lease() * 2, times.dead() * 2).await;
    println!("killed twice: {report}");
    assert!(report.is_sound() && report.handed_off == 1, "{report}\n{}", fleet.story());
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
