//! Which takeovers are under way and which come next, without a clock and without input or output (ARC-46).

use std::collections::{HashMap, HashSet, VecDeque};
use std::time::{Duration, Instant};

use uuid::Uuid;

use crate::domain::TurnId;

/// How long the confirmer keeps a reply that the database refuses before it lets go of it. Until then nobody hands it on anew:
/// each handing on would be one more try beside the one that goes on.
pub(super) const HANDED_ON: Duration = Duration::from_secs(600);

/// The places of a recoverer. In a round, which a timer begins, each turn and contact is tried once: what is held by
/// others must not be asked for all the time. Within a round the places fill again as soon as they are free.
#[derive(Debug)]
pub(super) struct Places {
    most: usize,
    at_work: HashSet<Uuid>,
    tried: HashSet<Uuid>,
    /// What needs no place, and since when somebody else is at work on it.
    handed_on: HashMap<Uuid, Instant>,
    urgent: VecDeque<TurnId>,
    /// Something found no place.
    crowded: bool,
    looking: bool,
    /// There is more to look for than the look under way may have seen.
    again: bool,
    stopped: bool,
}

impl Places {
    /// `most`: takeovers at the same time, at least 1.
    pub(super) fn new(most: usize) -> Self {
        Self {
            most: most.max(1),
            at_work: HashSet::new(),
            tried: HashSet::new(),
            handed_on: HashMap::new(),
            urgent: VecDeque::new(),
            crowded: false,
            looking: false,
            again: false,
            stopped: false,
        }
    }

    /// Nothing begins from now on.
    pub(super) fn stop(&mut self) {
        self.stopped = true;
    }

    /// True when nothing is being taken over.
    pub(super) fn is_quiet(&self) -> bool {
        self.at_work.is_empty()
    }

    /// Whether a look may begin now; one that may not follows the one under way. `round`: everything may be tried anew.
    pub(super) fn begin_look(&mut self, round: bool, now: Instant) -> bool {
        if self.stopped {
            return false;
        }
        if round {
            self.tried.clone_from(&self.at_work);
            self.handed_on.retain(|_, since| now.duration_since(*since) <= HANDED_ON);
        }
        if self.looking {
            self.again = true;
            return false;
        }
        self.looking = true;
        self.crowded = false;
        true
    }

    /// The look is over; true when another one has to follow.
    pub(super) fn end_look(&mut self) -> bool {
        self.looking = false;
        std::mem::take(&mut self.again) && !self.stopped
    }

    /// Takes a place, if there is one and this was not tried in the round.
    pub(super) fn begin(&mut self, id: Uuid) -> bool {
        if self.stopped || self.tried.contains(&id) {
            return false;
        }
        if self.free() == 0 {
            self.crowded = true;
            return false;
        }
        self.tried.insert(id);
        self.at_work.insert(id)
    }

    /// Gives a place back; true when somebody waits for it.
    pub(super) fn end(&mut self, id: Uuid) -> bool {
        self.at_work.remove(&id);
        self.crowded || !self.urgent.is_empty()
    }

    /// Notes what needs no place; false while whoever it was handed on to may still be at work on it.
    pub(super) fn hand_on(&mut self, id: Uuid, now: Instant) -> bool {
        if self.stopped || self.handed_on.contains_key(&id) {
            return false;
        }
        self.handed_on.insert(id, now);
        true
    }

    /// A contact waits for this turn: it comes before all others. False when it is under way or noted already.
    pub(super) fn put_first(&mut self, turn: TurnId) -> bool {
        let id = turn.as_uuid();
        if self.stopped || self.at_work.contains(id) || self.urgent.contains(&turn) {
            return false;
        }
        self.tried.remove(id);
        self.urgent.push_back(turn);
        true
    }

    /// The next of the turns that contacts wait for, as long as there is a place for it.
    pub(super) fn next_urgent(&mut self) -> Option<TurnId> {
        if self.free() == 0 { None } else { self.urgent.pop_front() }
    }

    /// Places nobody has.
    pub(super) fn free(&self) -> usize {
        self.most.saturating_sub(self.at_work.len())
    }

    /// More may be waiting than was asked for.
    pub(super) fn expect_more(&mut self) {
        self.crowded = true;
    }

    /// What a look need not find again.
    pub(super) fn tried(&self) -> Vec<Uuid> {
        self.tried.iter().chain(self.handed_on.keys()).copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(count: usize) -> Vec<Uuid> {
        (0..count).map(|_| Uuid::now_v7()).collect()
    }

    /// ARC-42, ARC-46: however many turns a dead process has left, a round takes them all on, never more than there are
    /// places at once, and each once.
    #[test]
    fn a_round_takes_everything_on_as_places_become_free() {
        let (mut places, dead, now) = (Places::new(3), ids(100), Instant::now());
        assert!(places.begin_look(true, now));
        let mut done = Vec::new();
        let mut at_work: VecDeque<Uuid> = VecDeque::new();
        while done.len() < dead.len() {
            let tried = places.tried();
            for id in dead.iter().filter(|id| !tried.contains(id)) {
                if places.begin(*id) {
                    at_work.push_back(*id);
                }
            }
            assert!((1..=3).contains(&at_work.len()) && places.free() == 3 - at_work.len());
            assert!(!places.end_look());
            let first = at_work.pop_front().unwrap();
            done.push(first);
            assert_eq!(
                places.end(first),
                done.len() <= 97,
                "somebody waits until the last three are at work"
            );
            assert!(places.begin_look(false, now), "no timer is waited for");
        }
        assert_eq!(done, dead);
        assert!(!places.begin(dead[0]), "once in a round: it may be held by somebody else");
        assert!(!places.end_look());
        assert!(places.begin_look(true, now) && places.begin(dead[0]), "the next round tries it anew");
    }

    /// DEC-35, ARC-43: a turn that a contact waits for is the next to get a place, also when it was tried in vain.
    #[test]
    fn a_turn_that_a_contact_waits_for_comes_first() {
        let (mut places, others, now) = (Places::new(1), ids(2), Instant::now());
        let wanted = TurnId::fresh();
        assert!(
            places.begin_look(true, now)
                && places.begin(*wanted.as_uuid())
                && !places.end(*wanted.as_uuid())
                && places.begin(others[0])
        );
        assert!(places.put_first(wanted));
        assert!(!places.put_first(wanted), "asked for again, it keeps its place in the line");
        assert_eq!(places.next_urgent(), None, "the bound holds");
        assert!(!places.begin_look(false, now), "one look at a time");
        assert!(places.end(others[0]), "somebody waits for the place");
        assert!(places.end_look(), "and the look that could not begin follows");
        assert!(places.begin_look(false, now));
        assert_eq!(places.next_urgent(), Some(wanted));
        assert!(places.begin(*wanted.as_uuid()) && !places.put_first(wanted));
        assert!(!places.begin(others[1]));
    }

    /// ARC-43, ARC-46: what was handed on is looked for again only when nobody can be at work on it any longer, however many
    /// looks and rounds there are meanwhile.
    #[test]
    fn a_reply_is_handed_on_once_in_a_bounded_time() {
        let (mut places, ids, start) = (Places::new(1), ids(2), Instant::now());
        let mut handed_on = Vec::new();
        for seconds in (0..=1300).step_by(5) {
            let now = start + Duration::from_secs(seconds);
            assert!(places.begin_look(true, now));
            let known = places.tried();
            if !known.contains(&ids[0]) && places.hand_on(ids[0], now) {
                handed_on.push(seconds);
            }
            assert!(!places.hand_on(ids[0], now), "{seconds}");
            assert!(places.begin(ids[1]), "it takes nobody's place");
            places.end(ids[1]);
            places.end_look();
        }
        assert_eq!(handed_on, [0, 605, 1210]);
    }

    /// ARC-49: a process that stops takes nothing over any more.
    #[test]
    fn nothing_begins_after_a_stop() {
        let (mut places, ids, now) = (Places::new(2), ids(2), Instant::now());
        assert!(places.begin_look(true, now) && places.begin(ids[0]));
        places.stop();
        assert!(!places.begin(ids[1]) && !places.hand_on(ids[1], now) && !places.put_first(TurnId::fresh()));
        assert!(!places.end_look() && !places.begin_look(true, now) && !places.is_quiet());
        places.end(ids[0]);
        assert!(places.is_quiet());
    }
}
