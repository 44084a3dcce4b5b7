//! One cell of the crash matrix: a blow at a certain moment, how the reply was leaving then, and who makes it good.

use std::time::Duration;

use super::checker::{Kind, Report};
use super::fleet::{Fleet, Times};
use super::journal::{Marker, What};
use super::outside::{Act, Outside, Script};

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

pub const SHAPES: [Shape; 3] = [Shape::Inline, Shape::Deferred, Shape::Burst];

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

/// What the verdict must show besides; `None`: anything.
#[derive(Clone, Copy, Debug, Default)]
struct Wanted {
    /// Fewest and most messages that end with a person.
    handed_off: Option<(usize, usize)>,
    /// Actions that ManyChat was asked for.
    acts: Option<usize>,
    /// What the checker must see, because a safeguard is taken out.
    fault: Option<Kind>,
}

impl Wanted {
    /// What the report lacks.
    fn lacks(&self, report: &Report) -> Option<String> {
        let handed_off =
            self.handed_off.filter(|(least, most)| !(*least..=*most).contains(&report.handed_off));
        let acts = self.acts.filter(|acts| *acts != report.acts);
        let fault = self.fault.filter(|kind| !report.has(kind));
        handed_off
            .map(|(least, most)| format!("{least} to {most} messages should have been handed off"))
            .or_else(|| acts.map(|acts| format!("{acts} actions should have been asked for")))
            .or_else(|| fault.map(|kind| format!("the checker should have reported {kind:?}")))
    }
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
    wanted: Wanted,
}

/// What a scenario is about did not happen in time. With times as short as ours a machine that stands still for two seconds
/// brings that about (a process whose beats are late starts no call, and a deadline that has passed ends with a person), so
/// it proves nothing either way, and the scenario is run again.
pub struct Missed(String);

impl Missed {
    pub fn new(why: impl Into<String>) -> Self {
        Self(why.into())
    }
}

/// Runs a scenario until what it is about happens, three times at most.
pub async fn until_it_happens<T>(scenario: &str, run: impl AsyncFn() -> Result<T, Missed>) -> T {
    for _ in 1..3 {
        match run().await {
            Ok(result) => return result,
            Err(Missed(why)) => println!("{why}\n{scenario}: once more"),
        }
    }
    match run().await {
        Ok(result) => result,
        Err(Missed(why)) => panic!("{why}\n{scenario}"),
    }
}

const FIRST: Marker = Marker { contact: 1, number: 1 };
const SECOND: Marker = Marker { contact: 1, number: 2 };
const THIRD: Marker = Marker { contact: 1, number: 3 };
const PROBE: Marker = Marker { contact: 1, number: 4 };
/// With short times the machine's own pace counts more than theirs.
const MOST: Duration = Duration::from_secs(30);

impl Cell {
    pub const fn new(blow: Blow, shape: Shape, standby: bool) -> Self {
        let wanted = Wanted { handed_off: None, acts: None, fault: None };
        Self { blow, shape, standby, sabotage: None, acts: false, wanted }
    }

    pub const fn acting(self) -> Self {
        Self { acts: true, ..self }
    }

    /// With a safeguard taken out; the checker must see this.
    pub const fn without(self, sabotage: &'static str, fault: Kind) -> Self {
        let wanted = Wanted { fault: Some(fault), ..self.wanted };
        Self { sabotage: Some(sabotage), wanted, ..self }
    }

    /// At least and at most so many messages end with a person.
    pub const fn handing_off(self, least: usize, most: usize) -> Self {
        Self { wanted: Wanted { handed_off: Some((least, most)), ..self.wanted }, ..self }
    }

    /// ManyChat is asked for so many actions.
    pub const fn asking_for(self, acts: usize) -> Self {
        Self { wanted: Wanted { acts: Some(acts), ..self.wanted }, ..self }
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

    /// # Errors
    /// When what the cell is about did not happen. A verdict with faults is no such case, unless they are wanted.
    async fn try_once(self, times: Times) -> Result<(Report, String), Missed> {
        let mut fleet = self.launched(times).await;
        let struck = match self.speak(&fleet).await {
            Ok(()) => self.strike(&mut fleet).await,
            Err(missed) => Err(missed),
        };
        if let Ok(listening) = struck {
            fleet.probe(listening, PROBE);
        }
        let limit = match (self.sabotage, &struck) {
            // Longer than recovery takes, shorter than the lease of a claim.
            (Some(_), _) => times.dead() * 2 + Duration::from_secs(6),
            (None, _) => times.ended(),
        };
        let report = fleet.verdict(limit, times.dead() * 2 + Duration::from_secs(4)).await;
        let story = fleet.story();
        // Nothing excuses a fault that no sabotage has brought about.
        if self.sabotage.is_none() && !report.is_sound() {
            return Ok((report, story));
        }
        struck.map_err(|Missed(why)| Missed(format!("{story}\n{why}")))?;
        self.judge_recovery(&fleet)?;
        match self.wanted.lacks(&report) {
            Some(lack) => Err(Missed(format!("{story}\n{lack}: {report}"))),
            None => Ok((report, story)),
        }
    }

    async fn launched(&self, times: Times) -> Fleet {
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
        fleet
    }

    /// ARC-44, ARC-46: what a dead process has left is taken up by one that is there within 25 s, with the service's own
    /// times. A process whose own beats are late judges nobody, so that a machine that stands still delays it.
    fn judge_recovery(&self, fleet: &Fleet) -> Result<(), Missed> {
        let Some(after) = resumed(fleet).filter(|_| matches!(self.blow, Blow::At(..))) else { return Ok(()) };
        println!("{self:?}: taken up after {:.1} s", after.as_secs_f64());
        let most = fleet.times.dead() * 5 / 4;
        if self.standby && after > most.max(MOST) {
            return Err(Missed(format!("{}\ntaken up only after {after:?}", fleet.story())));
        }
        Ok(())
    }

    /// The contact writes.
    async fn speak(&self, fleet: &Fleet) -> Result<(), Missed> {
        let hangs_up = self.needs_outbox() && self.shape == Shape::Inline;
        let asking = fleet.ask(0, FIRST);
        if hangs_up {
            happens(fleet, "the model is asked", is_thought).await?;
            asking.abort();
        }
        if self.shape == Shape::Burst {
            happens(fleet, "the model is asked", is_thought).await?;
            for marker in [SECOND, THIRD] {
                fleet.ask(0, marker);
                // Each is on its way before the next is sent.
                tokio::time::sleep(Duration::from_millis(120)).await;
            }
        }
        Ok(())
    }

    /// The blow falls; which process listens afterwards.
    async fn strike(&self, fleet: &mut Fleet) -> Result<usize, Missed> {
        match self.blow {
            Blow::At(..) => self.crash(fleet).await,
            Blow::Pause => {
                self.held(fleet).await?;
                Ok(pause(fleet).await)
            }
            Blow::PauseAt(..) => {
                let limit = moment(fleet.times);
                let stopped = fleet.members[0].stopped(limit).await;
                if stopped { Ok(pause(fleet).await) } else { Err(not_passed()) }
            }
            Blow::Drain => drain(fleet).await,
            Blow::Outage => self.outage(fleet).await,
        }
    }

    async fn crash(&self, fleet: &mut Fleet) -> Result<usize, Missed> {
        let limit = moment(fleet.times);
        if !fleet.members[0].ended(limit).await {
            return Err(not_passed());
        }
        fleet.strike(0);
        if !self.standby {
            fleet.members[0].unset("CRASH_AT");
            fleet.members[0].launch().await;
            return Ok(0);
        }
        Ok(1)
    }

    /// The moment is the one when the stand-in holds its answer back.
    async fn held(&self, fleet: &Fleet) -> Result<(), Missed> {
        match self.shape {
            Shape::Deferred => happens(fleet, "the field is written", is_written).await,
            Shape::Inline | Shape::Burst => happens(fleet, "the model is asked", is_thought).await,
        }
    }

    async fn outage(&self, fleet: &mut Fleet) -> Result<usize, Missed> {
        self.held(fleet).await?;
        let mut server = fleet.server.take().unwrap();
        server.stop().await;
        fleet.outside.gate.send_replace(true);
        tokio::time::sleep(fleet.times.dead() * 2).await;
        // What it did until now it could not record.
        fleet.strike(0);
        server.start_again().await;
        fleet.server = Some(server);
        tokio::time::sleep(Duration::from_millis(500)).await;
        Ok(0)
    }
}

/// The first process is paused for longer than the others wait for it.
async fn pause(fleet: &mut Fleet) -> usize {
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

/// SIGTERM while an action is under way: it is finished, or left to others, and the process ends in order (ARC-49).
async fn drain(fleet: &mut Fleet) -> Result<usize, Missed> {
    let is_out = |what: &What| match what {
        What::Answered { texts, .. } => !texts.is_empty(),
        What::Played { .. } => true,
        _ => false,
    };
    happens(fleet, "the reply is out", is_out).await?;
    let ended = fleet.members[0].stop(libc::SIGTERM).await;
    assert!(ended.success(), "{ended}\n{}", fleet.story());
    Ok(1)
}

/// How long the moment of the blow may be away: a turn and its delivery have ended by then.
const fn moment(times: Times) -> Duration {
    times.lease().saturating_add(Duration::from_secs(15))
}

pub async fn happens(fleet: &Fleet, what: &str, wanted: impl Fn(&What) -> bool) -> Result<(), Missed> {
    let seen = fleet.saw(moment(fleet.times), wanted).await;
    seen.then_some(()).ok_or_else(|| Missed(format!("never seen: {what}")))
}

fn not_passed() -> Missed {
    Missed::new("the point was not passed")
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

pub const fn is_thought(what: &What) -> bool {
    matches!(what, What::Thought { .. })
}

const fn is_written(what: &What) -> bool {
    matches!(what, What::Written { .. })
}

/// Runs cells at the same time and prints the line of each.
pub async fn run(cells: &[Cell], times: Times) -> Vec<(Cell, Report, String)> {
    let runs = cells.iter().map(|cell| async move {
        let (report, story) =
            until_it_happens(&format!("{cell:?}"), async || cell.try_once(times).await).await;
        println!("{cell:?}: {report}");
        if std::env::var_os("PROOF_STORY").is_some() {
            println!("{story}");
        }
        (*cell, report, story)
    });
    futures_util::future::join_all(runs).await
}

/// Every cell keeps the promises.
pub async fn must_hold(cells: &[Cell]) {
    let broken: Vec<String> = run(cells, Times::chosen())
        .await
        .iter()
        .filter(|(_, report, _)| !report.is_sound())
        .map(|(cell, report, story)| format!("{story}\n{cell:?}: {report}"))
        .collect();
    assert!(broken.is_empty(), "{}", broken.join("\n\n"));
}
