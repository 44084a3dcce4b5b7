//! The machine in a world where time is a number.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

const GAP: Duration = Duration::from_secs(2);
const MS: Duration = Duration::from_millis(1);

/// Everything around the machine: the shared rate, ManyChat, and the clock.
struct World {
    machine: Machine,
    start: Instant,
    now: Instant,
    /// When the shared rate's next place would be without a burst.
    shared: Instant,
    database: bool,
    latency: Duration,
    endings: BTreeMap<OrderId, Ending>,
    /// What happens when; the number keeps equal moments apart.
    coming: BTreeMap<(Instant, usize), Event>,
    scheduled: usize,
    starts: Vec<Start>,
    closed: Vec<(OrderId, Instant)>,
    pushed: Vec<Duration>,
    /// Places taken in the shared rate.
    reserved: usize,
    /// Ended because they could not start in time: when, and how many calls had been started before.
    given_up: Vec<(OrderId, Instant, usize)>,
    /// One that was left waiting though a pause outlasts its caller's time.
    vain: Option<OrderId>,
    /// Not begun, with callers that wait until then.
    limited: BTreeMap<OrderId, Instant>,
    /// The end of the longest pause that ManyChat has asked for.
    paused_until: Instant,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Start {
    order: OrderId,
    step: u8,
    at: Instant,
}

fn id(number: u64) -> OrderId {
    OrderId::numbered(number)
}

fn facts(contact: &str, lane: Option<Lane>, priority: Priority) -> Facts {
    let steps = if lane == Some(Lane::Texts) { 2 } else { 1 };
    Facts {
        contact: SubscriberId::new(contact).unwrap(),
        lane,
        priority,
        steps,
        not_before: None,
        until: None,
    }
}

impl World {
    fn new() -> Self {
        let start = Instant::now();
        Self {
            machine: Machine::new(Rate::MANYCHAT, Bucket::full(Rate::MANYCHAT, start), GAP),
            start,
            now: start,
            shared: start,
            database: true,
            latency: Duration::ZERO,
            endings: BTreeMap::new(),
            coming: BTreeMap::new(),
            scheduled: 0,
            starts: Vec::new(),
            closed: Vec::new(),
            pushed: Vec::new(),
            reserved: 0,
            given_up: Vec::new(),
            vain: None,
            limited: BTreeMap::new(),
            paused_until: start,
        }
    }

    fn later(&mut self, after: Duration, event: Event) {
        self.scheduled += 1;
        self.coming.insert((self.now + after, self.scheduled), event);
    }

    fn feed(&mut self, event: Event) {
        if let Event::Ended(_, Ending::TooMany(pause)) = event {
            self.paused_until = self.paused_until.max(self.now + pause);
        }
        for effect in self.machine.on(event, self.now) {
            self.reserved += usize::from(effect == Effect::Reserve);
            match effect {
                Effect::Start { order, step } => {
                    self.limited.remove(&order);
                    self.starts.push(Start { order, step, at: self.now });
                    let ending = self.endings.get(&order).copied().unwrap_or(Ending::Accepted);
                    self.later(self.latency, Event::Ended(order, ending));
                }
                Effect::GiveUp(order) => self.given_up.push((order, self.now, self.starts.len())),
                Effect::Close(order) => {
                    self.limited.remove(&order);
                    self.closed.push((order, self.now));
                }
                Effect::Reserve if self.database => {
                    self.shared = self.shared.max(self.now) + 100 * MS;
                    let wait = self.shared.saturating_duration_since(self.now + 500 * MS);
                    self.later(Duration::ZERO, Event::Reserved { wait, alive: 2 });
                }
                Effect::Reserve => self.later(500 * MS, Event::NotReserved),
                Effect::Push(pause) => self.pushed.push(pause),
            }
        }
        let in_vain = |until: Instant| self.now < until && until < self.paused_until;
        self.vain =
            self.limited.iter().find(|(_, until)| in_vain(**until)).map(|(order, _)| *order).or(self.vain);
    }

    fn place(&mut self, number: u64, facts: Facts) {
        if let Some(until) = facts.until {
            // As the handle does, when its caller's time is over.
            self.later(until.saturating_duration_since(self.now), Event::Withdrawn(id(number)));
            self.limited.insert(id(number), until);
        }
        self.feed(Event::Placed(id(number), facts));
    }

    /// Lets everything happen that is due within this time.
    fn run(&mut self, time: Duration) {
        let end = self.now + time;
        loop {
            let event = self.coming.first_key_value().map(|((at, _), _)| *at);
            let wake = self.machine.next_wake(self.now);
            let Some(at) = [event, wake].into_iter().flatten().min().filter(|at| *at <= end) else { break };
            self.now = self.now.max(at);
            match self.coming.first_entry() {
                Some(first) if first.key().0 <= self.now => {
                    let event = first.remove();
                    self.feed(event);
                }
                _ => self.feed(Event::Woken),
            }
        }
        self.now = end;
    }

    /// Milliseconds from the beginning at which this call of this order started.
    fn started(&self, number: u64, step: u8) -> Option<u128> {
        let start = self.starts.iter().find(|start| start.order == id(number) && start.step == step)?;
        Some(start.at.duration_since(self.start).as_millis())
    }
}

fn text(contact: &str) -> Facts {
    facts(contact, Some(Lane::Texts), Priority::Background)
}

fn action(contact: &str, priority: Priority) -> Facts {
    facts(contact, Some(Lane::Actions), priority)
}

fn read(contact: &str) -> Facts {
    facts(contact, None, Priority::InRequest)
}

/// AC-DL-6, BUCKET-3, BUCKET-5
#[test]
fn six_calls_at_once_leave_five_at_once_and_one_later() {
    let mut world = World::new();
    for number in 0..6 {
        world.place(number, read(&number.to_string()));
    }
    world.run(Duration::from_secs(1));
    let times: Vec<_> = (0..6).filter_map(|number| world.started(number, 0)).collect();
    assert_eq!(times, [0, 0, 0, 0, 0, 100]);
}

/// AC-DL-9, ENV-23, PACE-2, PACE-4, DEL-1, DEL-3: texts of one contact at 0, 2 and 4 s, each written before it is played;
/// another contact does not wait.
#[test]
fn texts_of_a_contact_keep_the_gap_and_others_do_not_wait() {
    let mut world = World::new();
    for number in 0..3 {
        world.place(number, text("one"));
    }
    world.place(9, text("two"));
    world.run(Duration::from_secs(6));
    let written: Vec<_> = (0..3).filter_map(|number| world.started(number, 0)).collect();
    assert_eq!(written, [0, 2000, 4000]);
    let played: Vec<_> = (0..3).filter_map(|number| world.started(number, 1)).collect();
    assert_eq!(played, [0, 2000, 4000]);
    assert_eq!(world.started(9, 0), Some(0));
}

/// AC-DL-9, PACE-3, DEL-1: a failed write is not played, and the next text keeps the gap all the same.
#[test]
fn after_a_failed_text_the_next_one_keeps_the_gap() {
    let mut world = World::new();
    world.endings.insert(id(0), Ending::Failed);
    world.place(0, text("one"));
    world.place(1, text("one"));
    world.run(Duration::from_secs(3));
    assert_eq!((world.started(0, 0), world.started(0, 1)), (Some(0), None));
    assert_eq!(world.started(1, 0), Some(2000));
}

/// PACE-3: the gap counts from the end of the text before, and is kept when nothing waits at that time.
#[test]
fn the_gap_outlives_the_text_it_belongs_to() {
    let mut world = World::new();
    world.latency = 300 * MS;
    world.place(0, text("one"));
    world.run(Duration::from_secs(1));
    world.place(1, text("one"));
    world.run(Duration::from_secs(5));
    assert_eq!((world.started(0, 1), world.started(1, 0)), (Some(300), Some(2600)));
    assert_eq!(world.machine.contacts(), 0, "nothing is kept once the gap is over");
}

/// PACE-2 across processes: the database's next-send time holds too.
#[test]
fn a_text_waits_for_its_earliest_time() {
    let mut world = World::new();
    let not_before = Some(world.now + 700 * MS);
    world.place(0, Facts { not_before, ..text("one") });
    world.place(1, text("one"));
    world.run(Duration::from_secs(4));
    assert_eq!((world.started(0, 0), world.started(1, 0)), (Some(700), Some(2700)));
}

/// PACE-5: actions, reads and token writes of a contact do not wait for its texts.
#[test]
fn only_texts_are_paced() {
    let mut world = World::new();
    world.place(0, text("one"));
    world.place(1, text("one"));
    world.run(100 * MS);
    world.place(2, action("one", Priority::InRequest));
    world.place(3, read("one"));
    world.run(100 * MS);
    assert_eq!((world.started(2, 0), world.started(3, 0)), (Some(100), Some(100)));
}

/// LIM-15: all the actions behind a reply, the first of which hangs, do not delay the contact's next text.
#[test]
fn a_text_does_not_wait_for_its_contacts_actions() {
    let mut world = World::new();
    world.latency = Duration::from_secs(5);
    for number in 0..8 {
        world.place(number, action("one", Priority::Background));
    }
    world.place(8, text("one"));
    world.run(Duration::from_secs(1));
    assert_eq!((world.started(0, 0), world.started(1, 0), world.started(8, 0)), (Some(0), None, Some(0)));
}

/// GAP-DL-7, ARC-48: calls inside a request overtake what waits in the background, but do not starve it.
#[test]
fn calls_inside_a_request_go_first_but_not_alone() {
    let mut world = World::new();
    for number in 0..30 {
        world.place(number, facts(&number.to_string(), Some(Lane::Actions), Priority::Background));
    }
    for number in 100..140 {
        world.place(number, read(&number.to_string()));
    }
    world.run(Duration::from_secs(10));
    let order: Vec<bool> = world.starts.iter().map(|start| start.order >= id(100)).collect();
    let turn_of_others = |at: &usize| at % 10 == 9;
    let expected: Vec<bool> = (0..44).map(|at| !turn_of_others(&at)).collect();
    assert_eq!(order[..44], expected, "nine of ten are inside a request");
    assert_eq!(world.starts.len(), 70, "and everything has its turn");
}

/// Actions of one contact keep their order, one at a time, even when a later one is urgent and an earlier one hangs.
#[test]
fn an_urgent_action_pulls_the_earlier_ones_of_its_contact_forward() {
    let mut world = World::new();
    world.latency = 50 * MS;
    for number in 0..20 {
        world.place(number, action(&format!("other {number}"), Priority::Background));
    }
    world.run(Duration::ZERO);
    world.place(50, action("one", Priority::Background));
    world.place(51, action("one", Priority::InRequest));
    world.run(Duration::from_secs(1));
    let (first, second) = (world.started(50, 0).unwrap(), world.started(51, 0).unwrap());
    assert_eq!((first, second), (100, 200), "{:?}", world.starts);
    world.run(Duration::from_secs(3));
    assert_eq!(world.starts.len(), 22);
}

/// BUCKET-4: an order that is withdrawn while it waits is not started, and costs nobody a place.
#[test]
fn a_withdrawn_order_is_not_started() {
    let mut world = World::new();
    for number in 0..8 {
        world.place(number, read(&number.to_string()));
    }
    world.run(Duration::ZERO);
    world.feed(Event::Withdrawn(id(5)));
    world.run(Duration::from_secs(1));
    assert_eq!(world.started(5, 0), None);
    assert_eq!((world.started(6, 0), world.started(7, 0)), (Some(100), Some(200)));
    assert!(world.closed.contains(&(id(5), world.start)));
}

/// A text that is withdrawn between its two calls is not played, and keeps its lane until the write has ended.
#[test]
fn a_text_withdrawn_after_its_write_is_not_played() {
    let mut world = World::new();
    world.latency = 400 * MS;
    world.place(0, text("one"));
    world.place(1, text("one"));
    world.run(100 * MS);
    world.feed(Event::Withdrawn(id(0)));
    world.run(Duration::from_secs(4));
    assert_eq!((world.started(0, 0), world.started(0, 1)), (Some(0), None));
    assert_eq!(world.started(1, 0), Some(2400));
}

/// ARC-48: with a silent database a process keeps to its share (of two here), and goes back when it speaks again.
#[test]
fn a_silent_database_leaves_the_share_of_a_process() {
    let mut world = World::new();
    world.place(0, read("0"));
    world.run(Duration::from_secs(10));
    world.database = false;
    for number in 1..5 {
        world.place(number, read(&number.to_string()));
    }
    world.run(Duration::from_millis(1600));
    assert!(!world.machine.is_shared());
    let times: Vec<_> = (1..5).filter_map(|number| world.started(number, 0)).collect();
    assert_eq!(times, [10_500, 10_700, 10_900, 11_100]);
    world.database = true;
    world.run(Duration::from_secs(5));
    for number in 10..14 {
        world.place(number, read(&number.to_string()));
    }
    world.run(Duration::from_secs(1));
    assert!(world.machine.is_shared());
    assert_eq!(world.started(13, 0), Some(16_600), "the burst is back");
}

/// ARC-44: calls that are refused because the process may count as dead take nothing from the rate.
#[test]
fn refused_starts_cost_no_tokens() {
    let mut world = World::new();
    let mut refused = 0;
    let mut events: VecDeque<Event> =
        (0..50).map(|number| Event::Placed(id(number), read(&number.to_string()))).collect();
    while let Some(event) = events.pop_front() {
        for effect in world.machine.on(event, world.now) {
            match effect {
                Effect::Start { order, .. } => {
                    refused += 1;
                    events.push_front(Event::Refused(order));
                }
                Effect::Reserve => events.push_back(Event::Reserved { wait: Duration::ZERO, alive: 1 }),
                Effect::GiveUp(_) | Effect::Close(_) | Effect::Push(_) => {}
            }
        }
    }
    assert_eq!((refused, world.machine.open(), world.machine.in_flight()), (50, 0, 0));
    assert!((world.machine.level(world.now) - 5.0).abs() < 1e-6);
}

/// What a random script does next.
#[derive(Clone, Debug)]
enum Step {
    Place { contact: u8, kind: u8, urgent: bool, limit: Option<u16>, ending: u8 },
    Withdraw(u8),
    Database(bool),
    Wait(u16),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => (0_u8..4, 0_u8..3, any::<bool>(), proptest::option::of(0_u16..12_000), 0_u8..20)
            .prop_map(|(contact, kind, urgent, limit, ending)| Step::Place { contact, kind, urgent, limit, ending }),
        1 => any::<u8>().prop_map(Step::Withdraw),
        1 => any::<bool>().prop_map(Step::Database),
        3 => (0_u16..1500).prop_map(Step::Wait),
    ];
    proptest::collection::vec(step, 1..120)
}

/// Plays a script to its end, long enough for everything to have had its turn.
fn play(script: &[Step], latency: u64) -> (World, BTreeMap<OrderId, Facts>, Vec<OrderId>) {
    let mut world = World::new();
    world.latency = Duration::from_millis(latency);
    let mut placed = BTreeMap::new();
    let mut withdrawn = Vec::new();
    for step in script {
        match step {
            Step::Place { contact, kind, urgent, limit, ending } => {
                let number = placed.len() as u64;
                let lane = [Some(Lane::Texts), Some(Lane::Actions), None][usize::from(*kind)];
                let priority = if *urgent { Priority::InRequest } else { Priority::Background };
                let limit = limit.filter(|_| *urgent && lane != Some(Lane::Texts));
                let until = limit.map(|limit| world.now + Duration::from_millis(u64::from(limit)));
                let facts = Facts { until, ..facts(&contact.to_string(), lane, priority) };
                let ending = match ending {
                    0 => Ending::TooMany(Duration::from_secs(2)),
                    1 => Ending::TooMany(Duration::from_secs(15)),
                    2..4 => Ending::Failed,
                    _ => Ending::Accepted,
                };
                world.endings.insert(id(number), ending);
                placed.insert(id(number), facts.clone());
                world.place(number, facts);
            }
            Step::Withdraw(number) if placed.contains_key(&id(u64::from(*number))) => {
                withdrawn.push(id(u64::from(*number)));
                world.feed(Event::Withdrawn(id(u64::from(*number))));
            }
            Step::Withdraw(_) => {}
            Step::Database(up) => world.database = *up,
            Step::Wait(time) => world.run(Duration::from_millis(u64::from(*time))),
        }
    }
    world.database = true;
    world.run(Duration::from_secs(1200));
    (world, placed, withdrawn)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    /// API-4, BUCKET-1, BUCKET-5: no window of time sees more calls than the rate allows, whatever happens.
    #[test]
    fn the_rate_holds_in_every_window(script in steps(), latency in 0_u64..3000) {
        let (world, _, _) = play(&script, latency);
        for (first, from) in world.starts.iter().enumerate() {
            for (last, to) in world.starts.iter().enumerate().skip(first) {
                let window = to.at.duration_since(from.at).as_secs_f64();
                let allowed = 5.0 + window * 10.0;
                prop_assert!((last - first + 1) as f64 <= allowed + 1e-6, "{} in {window} s", last - first + 1);
            }
        }
    }

    /// GAP-DL-7, PACE-4: every order has its turn, unless its caller waits for a limited time; those of one contact and lane start in the order they were placed,
    /// one at a time; every order is closed exactly once.
    #[test]
    fn every_order_has_its_turn_in_its_contacts_order(script in steps(), latency in 0_u64..3000) {
        let (world, placed, withdrawn) = play(&script, latency);
        let mut closed: Vec<OrderId> = world.closed.iter().map(|(order, _)| *order).collect();
        closed.sort_unstable();
        prop_assert_eq!(closed, placed.keys().copied().collect::<Vec<_>>());
        let kept = placed.iter().filter(|(order, facts)| facts.until.is_none() && !withdrawn.contains(order));
        for (order, _) in kept {
            prop_assert!(world.starts.iter().any(|start| start.order == *order), "{:?} never started", order);
        }
        for (order, facts) in placed.iter().filter(|(_, facts)| facts.lane.is_some()) {
            let others = placed.iter().filter(|(_, other)| other.lane == facts.lane && other.contact == facts.contact);
            for (later, _) in others.filter(|(other, _)| *other > order) {
                let ended = world.closed.iter().find(|(closed, _)| closed == order).map(|(_, at)| *at);
                let began = world.starts.iter().find(|start| start.order == *later).map(|start| start.at);
                prop_assert!(began.is_none_or(|at| ended.is_some_and(|end| end <= at)), "{:?} overtook", later);
            }
        }
        prop_assert_eq!((world.machine.open(), world.machine.in_flight(), world.machine.contacts()), (0, 0, 0));
    }

    /// PACE-2, PACE-3: between the end of a text that was tried and the next text's write lies the gap.
    #[test]
    fn texts_of_a_contact_never_come_closer_than_the_gap(script in steps(), latency in 0_u64..3000) {
        let (world, placed, _) = play(&script, latency);
        let texts = |contact: &SubscriberId| -> Vec<OrderId> {
            let of_contact = placed.iter().filter(|(_, facts)| facts.lane == Some(Lane::Texts));
            of_contact.filter(|(_, facts)| facts.contact == *contact).map(|(order, _)| *order).collect()
        };
        for facts in placed.values() {
            let tried: Vec<Start> = texts(&facts.contact)
                .into_iter()
                .filter_map(|order| world.starts.iter().find(|start| start.order == order).copied())
                .collect();
            for (before, after) in tried.iter().zip(tried.iter().skip(1)) {
                let ended = world.closed.iter().find(|(order, _)| *order == before.order).unwrap().1;
                prop_assert!(after.at.duration_since(ended) >= GAP, "{:?} then {:?}", before, after);
            }
        }
    }
}

#[path = "rate_pause_tests.rs"]
mod pause;
