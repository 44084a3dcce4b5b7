//! ARC-60a: two processes on one Postgres, messages of many contacts through both, kills and restarts, a model and a
//! ManyChat that misbehave; all of it at random, from one seed. Afterwards ARC-40 to ARC-43 must have held.
//!
//! ```sh
//! cargo test chaos -- --nocapture                                   # 300 messages of 40 contacts
//! CHAOS_SEED=7 CHAOS_MESSAGES=10000 cargo test chaos_through -- --nocapture
//! ```
//!
//! The seed decides what the stand-ins do with which call and what is sent and killed when; what meets what is left to
//! the machine, so a run is not repeated exactly.

use std::cell::{Cell, RefCell};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use tokio::time::sleep;

use crate::evidence::fleet::{Fleet, Member, Times};
use crate::evidence::journal::{Life, Marker, What};
use crate::evidence::outside::{Act, Outside, Script};

/// A process that was killed may have done this long ago what it did not record.
const WINDOW: Duration = Duration::from_secs(3);

/// By then every reply has had its next attempt: six refusals in a row do not happen here.
const LONGEST_RETRY: Duration = Duration::from_secs(200);

/// Size and seed of a run.
#[derive(Clone, Copy)]
struct Plan {
    seed: u64,
    messages: u32,
    contacts: u32,
}

impl Plan {
    fn of_environment() -> Self {
        let number = |name: &str, default: u64| {
            std::env::var(name).ok().map_or(default, |text| text.parse().expect("a number"))
        };
        let messages = u32::try_from(number("CHAOS_MESSAGES", 300)).unwrap();
        let contacts = u32::try_from(number("CHAOS_CONTACTS", 40)).unwrap();
        Self { seed: number("CHAOS_SEED", 1), messages, contacts }
    }
}

/// Random numbers of a seed and what they are for.
struct Dice(u64);

impl Dice {
    fn new(seed: u64, what: impl Hash) -> Self {
        let mut hasher = DefaultHasher::new();
        (seed, what).hash(&mut hasher);
        Self(hasher.finish())
    }

    /// Below `bound`; splitmix64.
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }

    fn time(&mut self, least: u64, most: u64) -> Duration {
        Duration::from_millis(least + self.below(most - least))
    }
}

/// A provider that is mostly well, sometimes slow, and sometimes not there.
fn model(seed: u64, times: Times, calm: &Arc<AtomicBool>) -> Script {
    let calm = Arc::clone(calm);
    Box::new(move |names, before| {
        let mut dice = Dice::new(seed, ("model", names, before));
        if calm.load(Ordering::Relaxed) {
            return Act::AT_ONCE;
        }
        match dice.below(100) {
            0..3 => Act::Refuse(429),
            3..6 => Act::Refuse(500),
            6..8 => Act::Close,
            8 => Act::Hang,
            9..21 => Act::Answer(dice.time(times.deadline_ms, times.deadline_ms + 900)),
            _ => Act::Answer(dice.time(0, 300)),
        }
    })
}

fn manychat(seed: u64, calm: &Arc<AtomicBool>) -> Script {
    let calm = Arc::clone(calm);
    Box::new(move |what, before| {
        let mut dice = Dice::new(seed, ("ManyChat", what, before));
        if calm.load(Ordering::Relaxed) {
            return Act::AT_ONCE;
        }
        // Few 429: each stops all calls of all processes for a second.
        match dice.below(400) {
            0..2 => Act::Refuse(429),
            2..16 => Act::Refuse(500),
            16..28 => Act::Close,
            28..44 => Act::Lose,
            44 => Act::Hang,
            _ => Act::Answer(dice.time(0, 60)),
        }
    })
}

/// Which processes can be spoken to.
struct Doors(RefCell<Vec<Option<(Life, u16)>>>);

impl Doors {
    fn of(members: &[Member]) -> Self {
        Self(RefCell::new(members.iter().map(|member| Some((member.life(), member.port()))).collect()))
    }

    fn set(&self, place: usize, door: Option<(Life, u16)>) {
        self.0.borrow_mut()[place] = door;
    }

    /// The wanted one, or the other while that is down.
    async fn find(&self, wanted: usize) -> (Life, u16) {
        loop {
            let doors = self.0.borrow().clone();
            let mut open = doors.iter().cycle().skip(wanted % doors.len()).take(doors.len()).flatten();
            if let Some(door) = open.next() {
                return door.clone();
            }
            sleep(Duration::from_millis(20)).await;
        }
    }
}

/// One contact: its messages go to both processes by turns, most after an answer, some on the heels of another.
async fn write(plan: Plan, outside: &Outside, doors: &Doors, contact: u32) {
    let mut dice = Dice::new(plan.seed, ("contact", contact));
    let share = plan.messages / plan.contacts + u32::from(contact <= plan.messages % plan.contacts);
    let mut last = None;
    for number in 1..=share {
        let (life, port) = doors.find((contact + number) as usize).await;
        let request = outside.ask(&life, port, Marker { contact, number });
        if dice.below(10) < 7 {
            let _ = request.await;
            sleep(dice.time(0, 3000)).await;
        } else {
            last = Some(request);
            sleep(dice.time(0, 300)).await;
        }
    }
    if let Some(request) = last {
        let _ = request.await;
    }
}

/// Kills one process and starts it again, for ever. One time in four it is asked to end in good order, which excuses
/// nothing (ARC-49).
async fn kill(seed: u64, outside: &Outside, place: usize, member: &mut Member, doors: &Doors, kills: &Kills) {
    let mut dice = Dice::new(seed, ("kills", place));
    loop {
        sleep(dice.time(1000, 4000)).await;
        doors.set(place, None);
        if dice.below(4) == 0 {
            member.stop(libc::SIGTERM).await;
            kills.orderly.set(kills.orderly.get() + 1);
        } else {
            member.stop(libc::SIGKILL).await;
            outside.journal.write(What::Struck { life: member.life() });
            kills.hard.set(kills.hard.get() + 1);
        }
        sleep(dice.time(100, 1500)).await;
        member.launch().await;
        doors.set(place, Some((member.life(), member.port())));
    }
}

/// How often a process was ended, and how.
#[derive(Default)]
struct Kills {
    hard: Cell<u32>,
    orderly: Cell<u32>,
}

async fn launched(outside: Outside, own_server: bool) -> Fleet {
    let mut fleet = Fleet::new(outside, Times::SHORT, &['a', 'b'], own_server).await;
    // Every turn sends a flow and stages a tag.
    fleet.with_tools();
    for member in &mut fleet.members {
        member.launch().await;
    }
    fleet
}

/// Every contact asks once more, whether it is still heard; a few at a time, which a busy machine opens in time.
async fn probe(fleet: &mut Fleet, plan: Plan) {
    let number = plan.messages + 1;
    let contacts: Vec<u32> = (1..=plan.contacts).collect();
    for group in contacts.chunks(8) {
        let requests: Vec<_> = group
            .iter()
            .map(|contact| fleet.probe(*contact as usize % 2, Marker { contact: *contact, number }))
            .collect();
        for request in requests {
            let _ = request.await;
        }
    }
}

/// ARC-60a, ARC-40 to ARC-43, ARC-49, DEC-8
#[tokio::test]
async fn chaos_through_two_processes() {
    let plan = Plan::of_environment();
    let calm = Arc::new(AtomicBool::new(false));
    let outside = Outside::start(model(plan.seed, Times::SHORT, &calm), manychat(plan.seed, &calm));
    let mut fleet = launched(outside, false).await;
    fleet.slow = Some(Times::SHORT.slow());
    let kills = Kills::default();
    {
        let Fleet { outside, members, .. } = &mut fleet;
        let outside = &*outside;
        let doors = Doors::of(members);
        let writing = join_all((1..=plan.contacts).map(|contact| write(plan, outside, &doors, contact)));
        let members = members.iter_mut().enumerate();
        let killing = members.map(|(place, member)| kill(plan.seed, outside, place, member, &doors, &kills));
        tokio::select! {
            _ = writing => {}
            _ = join_all(killing) => {}
        }
    }
    // One may be on its way up or down.
    for place in 0..fleet.members.len() {
        if !fleet.members[place].is_up {
            fleet.strike(place);
            fleet.members[place].launch_again().await;
        }
    }
    calm.store(true, Ordering::Relaxed);
    // A reply that ManyChat has refused several times waits for its next attempt, and the contact's next behind it
    // (BOX-13, BOX-14): that is no silence of ours. A row that nobody takes over stays beyond it and is seen.
    fleet.rest(LONGEST_RETRY + Duration::from_secs(u64::from(plan.messages) / 20)).await;
    probe(&mut fleet, plan).await;
    let report = fleet.verdict(Times::SHORT.ended(), WINDOW).await;
    let (hard, orderly) = (kills.hard.get(), kills.orderly.get());
    println!("chaos: seed {}, {hard} killed, {orderly} ended in order: {report}", plan.seed);
    assert!(report.is_sound(), "{}\nseed {}: {report}", fleet.story(), plan.seed);
    assert!(report.accepted > fleet_size(plan) / 2, "most messages were accepted: {report}");
}

fn fleet_size(plan: Plan) -> usize {
    plan.messages as usize
}

/// ARC-40 to ARC-43, ARC-44: Postgres restarts under load; nobody dies of it, and everybody is answered or handed off.
#[tokio::test]
async fn the_database_restarts_under_load() {
    let plan = Plan { seed: 3, messages: 240, contacts: 24 };
    let well: fn() -> Script = || Box::new(|_, _| Act::after_ms(150));
    let mut fleet = launched(Outside::start(well(), well()), true).await;
    fleet.outage = true;
    let mut server = fleet.server.take().unwrap();
    let doors = Doors::of(&fleet.members);
    let writing = join_all((1..=plan.contacts).map(|contact| write(plan, &fleet.outside, &doors, contact)));
    let restarting = async {
        for away in [300, 2000] {
            sleep(Duration::from_secs(3)).await;
            server.stop().await;
            sleep(Duration::from_millis(away)).await;
            (0..fleet.members.len()).for_each(|member| fleet.strike(member));
            server.start_again().await;
        }
    };
    tokio::join!(writing, restarting);
    probe(&mut fleet, plan).await;
    let report = fleet.verdict(Times::SHORT.ended(), WINDOW).await;
    println!("failover: {report}");
    assert!(report.is_sound(), "{}\n{report}", fleet.story());
    assert!(report.answered > fleet_size(plan) / 2, "most messages were answered: {report}");
}
