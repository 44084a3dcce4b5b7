//! Which call to ManyChat starts when: a pure state machine of the fair token bucket (ARC-19, ARC-48, GAP-DL-7).
//!
//! An order first waits for its turn in its contact's lane, then for a token. Calls inside a request take the next
//! token, then second calls of texts, then everything else, each in the order in which they became ready. A token is
//! one of our own bucket and, while the database answers, a place in the rate that all processes share; places are
//! taken one at a time and used by whoever is first when the place is due.
//!
//! Some callers wait for a limited time only. When it is known that no call at all can start before that time is over,
//! because ManyChat has asked for a pause or the place is due later, such an order ends at once instead of in vain.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::time::{Duration, Instant};

use super::bucket::{Bucket, Rate};
use super::lanes::{Lane, Lanes};
use crate::domain::SubscriberId;
use crate::manychat::{OrderId, Priority};

/// While calls inside a request keep coming, one token in this many goes to what waits in the background: first is
/// not alone.
const BACKGROUND_SHARE: u32 = 10;
/// How long a place in the shared rate is waited for before the database counts as silent.
const ASK_LIMIT: Duration = Duration::from_secs(1);
/// How long the own share is used before the database is asked again.
const LOCAL_TIME: Duration = Duration::from_secs(2);

/// What the machine is told.
#[derive(Debug)]
pub(super) enum Event {
    /// An order has come in.
    Placed(OrderId, Facts),
    /// Its caller is gone.
    Withdrawn(OrderId),
    /// The call that was started has ended.
    Ended(OrderId, Ending),
    /// A start could not be carried out and nothing was sent: its token is free again.
    Refused(OrderId),
    /// A place in the shared rate: due after `wait`, one of `alive` processes.
    Reserved { wait: Duration, alive: u32 },
    /// The database did not give one.
    NotReserved,
    /// Time has passed.
    Woken,
}

/// What matters of an order.
#[derive(Clone, Debug)]
pub(super) struct Facts {
    /// Whom it is for.
    pub(super) contact: SubscriberId,
    /// The lane it has to keep to.
    pub(super) lane: Option<Lane>,
    /// Who waits for it.
    pub(super) priority: Priority,
    /// Calls it takes.
    pub(super) steps: u8,
    /// Earliest moment, beside the pacing.
    pub(super) not_before: Option<Instant>,
    /// When its caller stops waiting (API-3, READ-6); `None` in the background, where waiting costs nothing (GAP-DL-7).
    pub(super) until: Option<Instant>,
}

/// How a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// ManyChat accepted it.
    Accepted,
    /// It failed.
    Failed,
    /// ManyChat says that it is too much and asks for this pause (GAP-DL-8).
    TooMany(Duration),
}

/// What is to be done.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Effect {
    /// Make this call of this order.
    Start { order: OrderId, step: u8 },
    /// This order cannot start while its caller waits. [`Effect::Close`] follows.
    GiveUp(OrderId),
    /// The order is over: answer it if its caller is still there.
    Close(OrderId),
    /// Take a place in the shared rate.
    Reserve,
    /// Tell all processes to pause.
    Push(Duration),
}

/// The machine.
#[derive(Debug)]
pub(super) struct Machine {
    orders: HashMap<OrderId, Waiting>,
    lanes: Lanes,
    ready: Ready,
    /// Orders that have not begun and whose callers wait for a limited time, the shortest first.
    limits: BTreeSet<(Instant, OrderId)>,
    bucket: Bucket,
    rate: Rate,
    source: Source,
    /// A place that is due and whose call was refused: the next call uses it.
    spare: bool,
    alive: u32,
    in_flight: usize,
}

#[derive(Debug)]
struct Waiting {
    facts: Facts,
    step: u8,
    in_flight: bool,
    withdrawn: bool,
}

/// Where the right to call comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    /// The database gives places; none is asked for.
    Shared,
    /// One is asked for since then.
    Asked(Instant),
    /// One is there, due then.
    Place(Instant),
    /// The database is silent: our own share until then.
    Local(Instant),
}

/// Orders that only need a token.
#[derive(Debug, Default)]
struct Ready {
    in_request: VecDeque<OrderId>,
    begun: VecDeque<OrderId>,
    background: VecDeque<OrderId>,
    /// Tokens in a row that went to calls inside a request while others waited.
    in_a_row: u32,
}

impl Machine {
    /// Starts with this bucket; `gap`: `MANYCHAT_REPLY_GAP_MS`.
    pub(super) fn new(rate: Rate, bucket: Bucket, gap: Duration) -> Self {
        Self {
            orders: HashMap::new(),
            lanes: Lanes::new(gap),
            ready: Ready::default(),
            limits: BTreeSet::new(),
            bucket,
            rate,
            source: Source::Shared,
            spare: false,
            alive: 1,
            in_flight: 0,
        }
    }

    /// Takes one event and says what to do.
    pub(super) fn on(&mut self, event: Event, now: Instant) -> Vec<Effect> {
        let mut effects = Vec::new();
        self.drop_unused_place(now);
        match event {
            Event::Placed(order, facts) => self.place(order, facts, now),
            Event::Withdrawn(order) => self.withdraw(order, now, &mut effects),
            Event::Ended(order, ending) => self.end(order, ending, now, &mut effects),
            Event::Refused(order) => self.refuse(order, now, &mut effects),
            Event::Reserved { wait, alive } => self.reserved(wait, alive, now),
            Event::NotReserved => self.go_local(now),
            Event::Woken => {}
        }
        self.advance(now, &mut effects);
        effects
    }

    /// When to wake the machine even if nothing happens.
    pub(super) fn next_wake(&self, now: Instant) -> Option<Instant> {
        let token = (!self.ready.is_empty()).then(|| {
            let token = now + self.bucket.wait(now);
            match self.source {
                Source::Shared => token,
                Source::Asked(since) => since + ASK_LIMIT,
                Source::Place(at) => at.max(token),
                Source::Local(until) => token.min(until),
            }
        });
        [token, self.lanes.next_due()].into_iter().flatten().min()
    }

    fn place(&mut self, order: OrderId, facts: Facts, now: Instant) {
        let Facts { contact, lane, priority, not_before, until, .. } = facts.clone();
        self.limits.extend(until.map(|until| (until, order)));
        self.orders.insert(order, Waiting { facts, step: 0, in_flight: false, withdrawn: false });
        let Some(lane) = lane else { return self.ready.push(order, priority, 0) };
        if priority == Priority::InRequest {
            // What stands before an urgent order of the same contact is as urgent: the order is kept.
            for earlier in self.lanes.ahead(&contact, lane) {
                self.hurry(earlier);
            }
        }
        let turn = self.lanes.join(&contact, lane, order, not_before, now);
        self.make_ready(turn);
    }

    fn hurry(&mut self, order: OrderId) {
        let Some(waiting) = self.orders.get_mut(&order) else { return };
        if waiting.facts.priority == Priority::Background {
            waiting.facts.priority = Priority::InRequest;
            if self.ready.take_out(order) {
                self.ready.push(order, Priority::InRequest, 0);
            }
        }
    }

    fn make_ready(&mut self, order: Option<OrderId>) {
        let Some(order) = order else { return };
        if let Some(waiting) = self.orders.get(&order) {
            self.ready.push(order, waiting.facts.priority, waiting.step);
        }
    }

    /// A call that is under way goes on, and its lane stays taken until it has ended.
    fn withdraw(&mut self, order: OrderId, now: Instant, effects: &mut Vec<Effect>) {
        let Some(waiting) = self.orders.get_mut(&order) else { return };
        waiting.withdrawn = true;
        if !waiting.in_flight {
            self.ready.take_out(order);
            self.close(order, now, effects);
        }
    }

    fn end(&mut self, order: OrderId, ending: Ending, now: Instant, effects: &mut Vec<Effect>) {
        if let Ending::TooMany(pause) = ending {
            self.pause(now + pause);
            effects.push(Effect::Push(pause));
        }
        let Some(waiting) = self.orders.get_mut(&order) else { return };
        if std::mem::take(&mut waiting.in_flight) {
            self.in_flight = self.in_flight.saturating_sub(1);
        }
        waiting.step += 1;
        let goes_on = waiting.step < waiting.facts.steps && !waiting.withdrawn;
        if ending == Ending::Accepted && goes_on {
            self.make_ready(Some(order));
        } else {
            self.close(order, now, effects);
        }
    }

    fn refuse(&mut self, order: OrderId, now: Instant, effects: &mut Vec<Effect>) {
        self.bucket.put_back();
        self.spare = true;
        if let Some(waiting) = self.orders.get_mut(&order)
            && std::mem::take(&mut waiting.in_flight)
        {
            self.in_flight = self.in_flight.saturating_sub(1);
        }
        self.close(order, now, effects);
    }

    fn close(&mut self, order: OrderId, now: Instant, effects: &mut Vec<Effect>) {
        let Some(waiting) = self.orders.remove(&order) else { return };
        self.forget_limit(order, waiting.facts.until);
        effects.push(Effect::Close(order));
        if let Some(lane) = waiting.facts.lane {
            let next = self.lanes.leave(&waiting.facts.contact, lane, order, waiting.step > 0, now);
            self.make_ready(next);
        }
    }

    fn reserved(&mut self, wait: Duration, alive: u32, now: Instant) {
        self.alive = alive.max(1);
        if matches!(self.source, Source::Asked(_)) {
            self.source = Source::Place(now + wait);
        }
    }

    fn go_local(&mut self, now: Instant) {
        if matches!(self.source, Source::Asked(_)) {
            self.source = Source::Local(now + LOCAL_TIME);
            self.bucket.set_rate(self.rate.share(self.alive));
        }
    }

    fn pause(&mut self, until: Instant) {
        self.bucket.pause(until);
        if let Source::Place(at) = &mut self.source {
            *at = until.max(*at);
        }
    }

    /// Starts whatever may start now.
    fn advance(&mut self, now: Instant, effects: &mut Vec<Effect>) {
        for order in self.lanes.due(now) {
            self.make_ready(Some(order));
        }
        match self.source {
            Source::Asked(since) if now >= since + ASK_LIMIT => self.go_local(now),
            Source::Local(until) if now >= until => {
                self.source = Source::Shared;
                self.bucket.set_rate(self.rate);
            }
            _ => {}
        }
        self.give_up_in_time(now, effects);
        if self.ready.is_empty() {
            self.spare = false;
        }
        while !self.ready.is_empty() && self.may_call(now, effects) {
            let Some(order) = self.ready.pop() else { return };
            self.start(order, effects);
        }
    }

    /// A place that came due while nobody needed it is not kept: it would add to a later burst. One that is still to come
    /// is: what is placed until then cannot get an earlier one, and asking again would push all processes back (ARC-48).
    fn drop_unused_place(&mut self, now: Instant) {
        if self.ready.is_empty() && matches!(self.source, Source::Place(at) if at <= now) {
            self.source = Source::Shared;
        }
    }

    /// Ends what cannot start while its caller waits. Once its time is over the caller withdraws it by itself.
    fn give_up_in_time(&mut self, now: Instant, effects: &mut Vec<Effect>) {
        let earliest = self.earliest(now);
        let open = self.orders.len();
        while let Some((until, order)) = self.limits.first().copied()
            && until < earliest
        {
            self.limits.pop_first();
            if until > now {
                effects.push(Effect::GiveUp(order));
                self.close(order, now, effects);
            }
        }
        if self.orders.len() < open {
            self.ready.keep(|order| self.orders.contains_key(order));
        }
    }

    /// The moment before which certainly no call starts, whoever is first.
    fn earliest(&self, now: Instant) -> Instant {
        let token = now + self.bucket.wait(now);
        match self.source {
            Source::Place(at) if !self.spare => at.max(token),
            // Back in the shared rate a token may come sooner, but no pause ends sooner.
            Source::Local(until) => token.min(until).max(self.bucket.paused_until()),
            _ => token,
        }
    }

    fn forget_limit(&mut self, order: OrderId, until: Option<Instant>) {
        if let Some(until) = until {
            self.limits.remove(&(until, order));
        }
    }

    /// True when a token was taken.
    fn may_call(&mut self, now: Instant, effects: &mut Vec<Effect>) -> bool {
        if self.spare && self.bucket.take(now) {
            self.spare = false;
            return true;
        }
        match self.source {
            Source::Shared => {
                effects.push(Effect::Reserve);
                self.source = Source::Asked(now);
                false
            }
            Source::Asked(_) => false,
            Source::Place(at) => {
                let taken = at <= now && self.bucket.take(now);
                if taken {
                    self.source = Source::Shared;
                }
                taken
            }
            Source::Local(_) => self.bucket.take(now),
        }
    }

    fn start(&mut self, order: OrderId, effects: &mut Vec<Effect>) {
        if let Some(waiting) = self.orders.get_mut(&order) {
            waiting.in_flight = true;
            self.in_flight += 1;
            effects.push(Effect::Start { order, step: waiting.step });
            let until = waiting.facts.until;
            self.forget_limit(order, until);
        }
    }
}

/// For observation.
impl Machine {
    /// Tokens in our own bucket.
    pub(super) fn level(&self, now: Instant) -> f64 {
        self.bucket.level(now)
    }

    /// False while the database is silent.
    pub(super) const fn is_shared(&self) -> bool {
        !matches!(self.source, Source::Local(_))
    }

    /// Orders that have not ended, those under way included.
    pub(super) fn open(&self) -> usize {
        self.orders.len()
    }

    /// Orders that only wait for a token.
    pub(super) fn ready(&self) -> usize {
        self.ready.len()
    }

    /// Calls under way.
    pub(super) const fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// Contacts with something open or a gap to keep.
    pub(super) fn contacts(&self) -> usize {
        self.lanes.len()
    }
}

impl Ready {
    fn push(&mut self, order: OrderId, priority: Priority, step: u8) {
        match priority {
            Priority::InRequest => self.in_request.push_back(order),
            Priority::Background if step > 0 => self.begun.push_back(order),
            Priority::Background => self.background.push_back(order),
        }
    }

    fn pop(&mut self) -> Option<OrderId> {
        let others = !self.begun.is_empty() || !self.background.is_empty();
        let turn_of_others = others && self.in_a_row + 1 >= BACKGROUND_SHARE;
        if !self.in_request.is_empty() && !turn_of_others {
            self.in_a_row = if others { self.in_a_row + 1 } else { 0 };
            return self.in_request.pop_front();
        }
        self.in_a_row = 0;
        self.begun.pop_front().or_else(|| self.background.pop_front())
    }

    fn take_out(&mut self, order: OrderId) -> bool {
        let before = self.len();
        self.keep(|ready| *ready != order);
        self.len() < before
    }

    fn keep(&mut self, wanted: impl Fn(&OrderId) -> bool) {
        for queue in [&mut self.in_request, &mut self.begun, &mut self.background] {
            queue.retain(&wanted);
        }
    }

    fn len(&self) -> usize {
        self.in_request.len() + self.begun.len() + self.background.len()
    }

    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
#[path = "rate_tests.rs"]
mod tests;
