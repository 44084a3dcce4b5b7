//! What a turn took on, in the order of the calls, and what became of it (08 section 4).

use std::time::{Duration, Instant};

use super::action::Action;
use super::counters::COUNTERS;
use super::limits::{MOST_ACTIONS, MOST_DROPPED};
use super::reach::ActionNumber;
use super::record::{Entry, Status};
use super::sending::{Sending, Sent};
use super::view::ContactView;
use crate::domain::Stage;

/// One action that took a slot.
pub(super) struct Item {
    pub(super) number: ActionNumber,
    pub(super) action: Action,
    pub(super) state: State,
    /// How long a flow plays once it is accepted.
    plays: Duration,
}

/// Where an item is.
pub(super) enum State {
    /// Waits for the end of the turn.
    Staged,
    /// Its request is under way, or waits behind another.
    Sending,
    /// Tried: its own entry first, then its follow-ons'.
    Done(Vec<Entry>),
    /// Was to be sent and had not begun when the turn ended.
    Cancelled,
}

/// The answer to a new action (STAGE-2, STAGE-4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Taken {
    /// It has its slot.
    New,
    /// It is there already.
    Repeat,
    /// One too many; remembered as dropped.
    Full,
}

/// A send, and the item it carries.
struct Dispatch {
    number: ActionNumber,
    sending: Sending,
}

/// Everything one turn did. It never forgets, so no slot is ever free again (STAGE-3).
#[derive(Default)]
pub(super) struct Ledger {
    items: Vec<Item>,
    dropped: Vec<Action>,
    sends: Vec<Dispatch>,
    next: u8,
    /// Reads begun (READ-7).
    pub(super) reads: u8,
    /// The last successful read (READ-9).
    pub(super) contact: Option<ContactView>,
    /// The end of the longest flow that was accepted (WAIT-1).
    pub(super) plays_until: Option<Instant>,
}

impl Ledger {
    /// A ledger that begins with what another run of the turn did (ARC-46): it keeps its slots and its outcomes.
    pub(super) fn after(earlier: Vec<Entry>) -> Self {
        let mut ledger = Self::default();
        for entry in earlier {
            match ledger.items.last_mut() {
                Some(Item { state: State::Done(entries), .. }) if is_follow_on(&entry) => entries.push(entry),
                _ => {
                    ledger.push(recalled(&entry), State::Done(vec![entry]), Duration::ZERO);
                }
            }
        }
        ledger
    }

    pub(super) fn items(&self) -> &[Item] {
        &self.items
    }

    pub(super) fn dropped(&self) -> &[Action] {
        &self.dropped
    }

    pub(super) fn is_full(&self) -> bool {
        self.items.len() >= MOST_ACTIONS
    }

    /// Takes on an action for after the reply.
    pub(super) fn stage(&mut self, action: Action) -> Taken {
        if self.last_standing(&action).is_some_and(|known| known.repeats(&action)) {
            return Taken::Repeat;
        }
        if self.is_full() {
            // One that stands already, though not as the last word, is refused and not recorded once more (STAGE-4).
            if !self.items.iter().any(|item| item.stands() && item.action.repeats(&action)) {
                self.drop_one(action);
            }
            return Taken::Full;
        }
        self.push(action, State::Staged, Duration::ZERO);
        Taken::New
    }

    /// The last action on the same thing that waits, is under way or was accepted: what stands there when all of them are
    /// done (FLD-4).
    fn last_standing(&self, action: &Action) -> Option<&Action> {
        let standing = self.items.iter().rev().filter(|item| item.stands());
        standing.map(|item| &item.action).find(|known| known.target() == action.target())
    }

    /// Gives a flow its slot before its request begins (STAGE-5). The caller has seen that there is one.
    pub(super) fn reserve(&mut self, action: Action, plays: Duration) -> ActionNumber {
        self.push(action, State::Sending, plays)
    }

    fn push(&mut self, action: Action, state: State, plays: Duration) -> ActionNumber {
        let number = ActionNumber(self.next);
        self.next = self.next.saturating_add(1);
        self.items.push(Item { number, action, state, plays });
        number
    }

    /// Remembers, once, what found no slot (STAGE-4), and no more than a record can bear: a model in a loop can ask for
    /// ever new notes.
    pub(super) fn drop_one(&mut self, action: Action) {
        if self.dropped.len() < MOST_DROPPED && !self.dropped.iter().any(|known| known.repeats(&action)) {
            self.dropped.push(action);
        }
    }

    /// The number of a flow that this turn took on, whatever became of it.
    pub(super) fn flow(&self, flow: &str) -> Option<ActionNumber> {
        let is_it = |item: &&Item| matches!(&item.action, Action::SendFlow { id, .. } if id == flow);
        self.items.iter().find(is_it).map(|item| item.number)
    }

    /// The last value staged for a field in this turn.
    pub(super) fn last_staged(&self, field: &str) -> Option<&str> {
        self.items.iter().rev().find_map(|item| match (&item.action, &item.state) {
            (Action::SetField { id, value, .. }, State::Staged) if id == field => Some(value.as_str()),
            _ => None,
        })
    }

    /// The highest stage that this turn has written, is writing or will write (FN-STAGE-4, FN-LINK-8, FN-LINK-11).
    pub(super) fn stage_reached(&self, funnel: &str) -> Option<Stage> {
        self.items.iter().filter_map(|item| item.stage_reached(funnel)).max()
    }

    /// Takes the staged writes of the funnel field out of the staged ones, so that they go ahead of a payment link
    /// (FLOW-3). They keep their places.
    pub(super) fn lead_with(&mut self, funnel: &str) -> Vec<(ActionNumber, Action)> {
        let mut leading = Vec::new();
        for item in &mut self.items {
            let is_write = matches!(&item.action, Action::SetField { id, .. } if id == funnel);
            if is_write && matches!(item.state, State::Staged) {
                item.state = State::Sending;
                leading.push((item.number, item.action.clone()));
            }
        }
        leading
    }

    /// The send that began last.
    pub(super) fn last_send(&self) -> Option<Sending> {
        self.sends.last().map(|send| send.sending.clone())
    }

    pub(super) fn add_send(&mut self, number: ActionNumber, sending: Sending) {
        self.sends.push(Dispatch { number, sending });
    }

    /// The send that carries an item; `None` when its outcome is known.
    pub(super) fn send_of(&self, number: ActionNumber) -> Option<Sending> {
        self.sends.iter().find(|send| send.number == number).map(|send| send.sending.clone())
    }

    /// Every send whose outcome is not known.
    pub(super) fn open_sends(&self) -> Vec<Sending> {
        self.sends.iter().map(|send| send.sending.clone()).collect()
    }

    /// Takes over the outcomes of the sends that ended.
    pub(super) fn absorb(&mut self) {
        let sends = std::mem::take(&mut self.sends);
        for send in sends {
            let Some(sent) = send.sending.peek().cloned() else {
                self.sends.push(send);
                continue;
            };
            self.conclude(send.number, &sent);
        }
    }

    fn conclude(&mut self, number: ActionNumber, sent: &Sent) {
        let Some(item) = self.items.iter_mut().find(|item| item.number == number) else { return };
        item.state = sent.entries.clone().map_or(State::Cancelled, State::Done);
        if sent.entries.is_some() {
            COUNTERS.took(item.action.tool(), sent.took);
        }
        if item.was_accepted() && !item.plays.is_zero() {
            self.plays_until = self.plays_until.max(Some(sent.returned + item.plays));
        }
    }

    /// Whether ManyChat accepted this action.
    pub(super) fn was_accepted(&self, number: ActionNumber) -> bool {
        self.items.iter().any(|item| item.number == number && item.was_accepted())
    }
}

impl Item {
    /// Whether the same action again would do nothing new: it waits, is under way or was accepted.
    fn stands(&self) -> bool {
        matches!(self.state, State::Staged | State::Sending) || self.was_accepted()
    }

    pub(super) fn was_accepted(&self) -> bool {
        match &self.state {
            State::Done(entries) => entries.first().is_some_and(|entry| entry.status == Status::Performed),
            _ => false,
        }
    }

    fn stage_reached(&self, funnel: &str) -> Option<Stage> {
        match &self.state {
            State::Staged | State::Sending => {
                let chain = std::iter::successors(Some(&self.action), |action| action.follow_on());
                chain.filter_map(|action| stage_written(action, funnel)).max()
            }
            State::Done(entries) => {
                let written = |entry: &&Entry| entry.status == Status::Performed && entry.id == funnel;
                let values = entries.iter().filter(written).filter_map(|entry| entry.value.as_deref());
                values.filter_map(|value| value.parse().ok()).max()
            }
            State::Cancelled => None,
        }
    }
}

fn stage_written(action: &Action, funnel: &str) -> Option<Stage> {
    match action {
        Action::SetField { id, value, .. } if id == funnel => value.parse().ok(),
        _ => None,
    }
}

/// Events and the write of `link_sent` are only ever made behind another action.
fn is_follow_on(entry: &Entry) -> bool {
    entry.tool == "send_event" || entry.value.as_deref() == Some(Stage::LinkSent.as_str())
}

/// Just enough of an action to know it again. It was tried and will not be tried once more, so it needs no name of
/// ManyChat.
fn recalled(entry: &Entry) -> Action {
    let id = entry.id.clone();
    match (entry.tool.as_str(), &entry.value) {
        ("send_flow", _) => Action::SendFlow {
            id,
            flow_ns: String::new(),
            follow_on: None,
            contact_asked: entry.contact_asked,
            origin: entry.origin,
        },
        (_, Some(value)) => {
            let value = value.clone();
            Action::SetField { id, field: String::new(), value, offering: false, follow_on: None }
        }
        _ => Action::SendEvent { id, flow_ns: String::new() },
    }
}
