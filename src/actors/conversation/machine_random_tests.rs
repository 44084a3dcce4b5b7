//! The machine under random outcomes and deadlines.

use std::collections::{HashMap, HashSet};

use proptest::prelude::*;

use super::*;

/// Plays random outcomes and deadlines against the machine and checks what must hold whatever happens.
struct Play {
    machine: Machine,
    told: HashMap<Ticket, Vec<Telling>>,
    /// Messages in the order in which turns of the lane have taken them.
    opened: Vec<Ticket>,
    /// Messages that ended without a turn of the lane: beside it, in another process, or with a person.
    elsewhere: Vec<Ticket>,
    /// Messages that prove nothing.
    unbound: HashSet<Ticket>,
    /// What the shell owes the machine, by turn.
    pending: Vec<Effect>,
    /// Messages of turns that were opened, by turn.
    turns: HashMap<Ticket, Vec<Ticket>>,
    lane: Option<Ticket>,
    stores: u32,
}

impl Play {
    fn new() -> Self {
        Self {
            machine: Machine::default(),
            told: HashMap::new(),
            opened: Vec::new(),
            elsewhere: Vec::new(),
            unbound: HashSet::new(),
            pending: Vec::new(),
            turns: HashMap::new(),
            lane: None,
            stores: 0,
        }
    }

    fn feed(&mut self, event: Event) {
        for effect in self.machine.on(event) {
            match effect {
                Effect::Tell(ticket, telling) => self.told.entry(ticket).or_default().push(telling),
                Effect::Forget(ticket) => self.elsewhere.push(ticket),
                Effect::WaitForQuiet(first) => {
                    self.pending.retain(|other| !matches!(other, Effect::WaitForQuiet(_)));
                    self.pending.push(Effect::WaitForQuiet(first));
                }
                Effect::WaitForLane => {
                    assert!(self.lane.is_none(), "nothing of the lane runs while it is waited for");
                    self.pending.retain(|other| !matches!(other, Effect::WaitForLane));
                    self.pending.push(Effect::WaitForLane);
                }
                Effect::Store(ticket) => {
                    self.stores += 1;
                    assert_eq!(self.stores, 1, "two messages are written at once");
                    self.pending.push(Effect::Store(ticket));
                }
                Effect::Open(tickets) => self.open(tickets),
                Effect::QueueReply(_) | Effect::ConfirmQueued(_) => {}
                Effect::Resolve { turn, .. } => {
                    if !self.opened.contains(&turn) && !self.elsewhere.contains(&turn) {
                        self.elsewhere.push(turn);
                    }
                }
                step => self.pending.push(step),
            }
        }
    }

    fn open(&mut self, tickets: Vec<Ticket>) {
        let first = tickets[0];
        if !self.unbound.contains(&first) {
            assert!(self.lane.is_none(), "two turns of the lane at once");
            self.lane = Some(first);
        }
        self.turns.insert(first, tickets.clone());
        self.pending.push(Effect::Open(tickets));
    }

    fn ended(&mut self, turn: Ticket) {
        if self.lane == Some(turn) {
            self.lane = None;
        }
    }

    fn answer_pending(&mut self, choice: u8) {
        if self.pending.is_empty() {
            return;
        }
        let place = usize::from(choice / 16) % self.pending.len();
        let event = match self.pending.swap_remove(place) {
            Effect::Store(ticket) => self.stored(ticket, choice),
            Effect::Open(tickets) => self.answer_open(&tickets, choice),
            Effect::WaitForLane => Event::LaneTimerFired,
            Effect::WaitForQuiet(_) => Event::QuietOver,
            Effect::Decide(turn) if choice.is_multiple_of(9) => {
                self.ended(turn);
                Event::Panicked(turn)
            }
            Effect::Decide(turn) => Event::Decided(turn, playing_at_random(choice)),
            Effect::Settle(turn, race) => {
                self.ended(turn);
                let settled = settled_at_random(turn, choice);
                // What waits for a flow behind the deadline is queued, or nothing.
                match settled {
                    Event::Settled(_, SettleResult::Inline) if race == Race::WonBehindFlow => {
                        Event::Settled(turn, SettleResult::Queued)
                    }
                    settled => settled,
                }
            }
            Effect::Hold(turn) => Event::FlowOver(turn),
            other => panic!("{other:?} needs no answer"),
        };
        self.feed(event);
    }

    fn stored(&mut self, ticket: Ticket, choice: u8) -> Event {
        self.stores -= 1;
        let result = match choice % 8 {
            _ if self.unbound.contains(&ticket) => StoreResult::Beside,
            0 => StoreResult::Failed,
            1 => StoreResult::NoConversation,
            _ => StoreResult::Kept,
        };
        Event::Stored(ticket, result)
    }

    fn answer_open(&mut self, tickets: &[Ticket], choice: u8) -> Event {
        let turn = tickets[0];
        let beside = self.unbound.contains(&turn);
        let taken = if choice.is_multiple_of(5) { tickets.len().div_ceil(2) } else { tickets.len() };
        let result = match choice % 6 {
            0 => OpenResult::Failed,
            1 if !beside => OpenResult::Waits { gone: Vec::new() },
            2 if !beside => OpenResult::Waits { gone: vec![turn] },
            _ => OpenResult::Started { taken, beside },
        };
        match &result {
            OpenResult::Waits { .. } => self.ended(turn),
            OpenResult::Failed => {
                self.ended(turn);
                self.elsewhere.extend(tickets);
            }
            OpenResult::Started { beside: true, .. } => self.elsewhere.push(turn),
            OpenResult::Started { taken, .. } => self.opened.extend(tickets.iter().take(*taken)),
        }
        Event::Opened(turn, result)
    }
}

const fn playing_at_random(choice: u8) -> Playing {
    match choice % 5 {
        0 | 1 => Playing::UntilDeadline,
        2 => Playing::Longer,
        _ => Playing::No,
    }
}

fn settled_at_random(turn: Ticket, choice: u8) -> Event {
    let result = match choice % 8 {
        0 => SettleResult::Failed,
        1 => SettleResult::Superseded,
        2 => SettleResult::Dropped,
        3 => SettleResult::Queued,
        _ => SettleResult::Inline,
    };
    Event::Settled(turn, result)
}

proptest! {
    /// ARC-19, ARC-40, ARC-45a, LANE-3: every request is told exactly one thing, every message ends in exactly one way,
    /// the lane's messages run in order of arrival and one turn at a time, and the machine comes to rest.
    #[test]
    fn every_request_is_answered_once_and_in_order(steps in prop::collection::vec((0u8..4, any::<u8>()), 1..160)) {
        let mut play = Play::new();
        let mut arrivals = 0u64;
        for (kind, choice) in steps {
            match kind {
                0 => {
                    let ticket = Ticket::new(arrivals);
                    let unbound = choice.is_multiple_of(7);
                    let burst = (!unbound && choice % 3 > 0).then(|| BurstKey::new(u64::from(choice % 2)));
                    if unbound {
                        play.unbound.insert(ticket);
                    }
                    let quiet = choice.is_multiple_of(2);
                    play.feed(Event::Arrived { ticket, burst, answered: false, quiet, stored: false });
                    arrivals += 1;
                }
                1 if arrivals > 0 => play.feed(Event::DeadlinePassed(Ticket::new(u64::from(choice) % arrivals))),
                _ => play.answer_pending(choice),
            }
        }
        for _ in 0..=(arrivals * 8) {
            play.answer_pending(221);
        }
        prop_assert!(play.machine.is_idle(), "{:?}", play.machine);
        prop_assert!(play.pending.iter().all(|left| matches!(left, Effect::WaitForLane | Effect::WaitForQuiet(_))));
        prop_assert!(play.opened.is_sorted(), "messages must run in order of arrival: {:?}", play.opened);
        let mut ended: Vec<Ticket> = play.opened.iter().chain(&play.elsewhere).copied().collect();
        ended.sort_unstable();
        prop_assert_eq!(ended, (0..arrivals).map(Ticket::new).collect::<Vec<_>>());
        for number in 0..arrivals {
            prop_assert_eq!(play.told.get(&Ticket::new(number)).map(Vec::len), Some(1), "ticket {}", number);
        }
    }
}
