//! The order of what is done for one contact (PACE-2 to PACE-5). Texts go one after the other with a gap; actions go
//! one after the other; neither waits for the other kind, and no contact waits for another.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::{Duration, Instant};

use crate::domain::SubscriberId;
use crate::manychat::OrderId;

/// Which queue of its contact an order stands in. Token writes and reads stand in none: they touch nothing that a
/// text or an action touches, and a hanging one must not hold those up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lane {
    /// Reply texts.
    Texts,
    /// Flows, fields and tags.
    Actions,
}

/// All contacts with something under way or a gap to keep.
#[derive(Debug)]
pub(super) struct Lanes {
    contacts: HashMap<SubscriberId, Contact>,
    /// When to look at a contact again; the number keeps equal moments apart.
    due: BTreeMap<(Instant, u64), SubscriberId>,
    next_due: u64,
    gap: Duration,
}

#[derive(Debug, Default)]
struct Contact {
    texts: Row,
    actions: Row,
    /// The earliest moment of the next text.
    next_text_at: Option<Instant>,
    /// The earliest entry of `due` for this contact.
    looked_at: Option<Instant>,
}

#[derive(Debug, Default)]
struct Row {
    /// The order whose turn it is; it leaves when it has ended.
    active: Option<OrderId>,
    waiting: VecDeque<(OrderId, Option<Instant>)>,
}

impl Contact {
    fn row(&mut self, lane: Lane) -> &mut Row {
        match lane {
            Lane::Texts => &mut self.texts,
            Lane::Actions => &mut self.actions,
        }
    }
}

impl Row {
    fn is_empty(&self) -> bool {
        self.active.is_none() && self.waiting.is_empty()
    }
}

impl Lanes {
    /// No contact yet. `gap`: `MANYCHAT_REPLY_GAP_MS`.
    pub(super) fn new(gap: Duration) -> Self {
        Self { contacts: HashMap::new(), due: BTreeMap::new(), next_due: 0, gap }
    }

    /// An order joins its lane. Returns it when it is its turn at once.
    pub(super) fn join(
        &mut self,
        contact: &SubscriberId,
        lane: Lane,
        order: OrderId,
        not_before: Option<Instant>,
        now: Instant,
    ) -> Option<OrderId> {
        let entry = self.contacts.entry(contact.clone()).or_default();
        entry.row(lane).waiting.push_back((order, not_before));
        self.advance(contact, lane, now)
    }

    /// An order that was active or waiting is over. Returns the next whose turn it is now. `spoke`: a text was tried,
    /// so the contact's next one keeps the gap, however this one ended (PACE-3).
    pub(super) fn leave(
        &mut self,
        contact: &SubscriberId,
        lane: Lane,
        order: OrderId,
        spoke: bool,
        now: Instant,
    ) -> Option<OrderId> {
        let entry = self.contacts.get_mut(contact)?;
        let row = entry.row(lane);
        row.waiting.retain(|(waiting, _)| *waiting != order);
        if row.active == Some(order) {
            row.active = None;
        }
        if lane == Lane::Texts && spoke {
            entry.next_text_at = Some(now + self.gap);
        }
        let next = self.advance(contact, lane, now);
        self.forget_if_done(contact, now);
        next
    }

    /// Orders of this lane that come before anything that joins now.
    pub(super) fn ahead(&self, contact: &SubscriberId, lane: Lane) -> Vec<OrderId> {
        let Some(entry) = self.contacts.get(contact) else { return Vec::new() };
        let row = match lane {
            Lane::Texts => &entry.texts,
            Lane::Actions => &entry.actions,
        };
        row.active.into_iter().chain(row.waiting.iter().map(|(order, _)| *order)).collect()
    }

    /// Texts whose time has come.
    pub(super) fn due(&mut self, now: Instant) -> Vec<OrderId> {
        let mut found = Vec::new();
        while let Some(entry) = self.due.first_entry().filter(|entry| entry.key().0 <= now) {
            let ((at, _), contact) = entry.remove_entry();
            if let Some(known) = self.contacts.get_mut(&contact)
                && known.looked_at == Some(at)
            {
                known.looked_at = None;
            }
            found.extend(self.advance(&contact, Lane::Texts, now));
            self.forget_if_done(&contact, now);
        }
        found
    }

    /// When [`Self::due`] has something to say next.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.due.first_key_value().map(|((at, _), _)| *at)
    }

    /// Contacts in memory.
    pub(super) fn len(&self) -> usize {
        self.contacts.len()
    }

    /// Makes the first waiting order active when nothing is and its time has come.
    fn advance(&mut self, contact: &SubscriberId, lane: Lane, now: Instant) -> Option<OrderId> {
        let entry = self.contacts.get_mut(contact)?;
        let paced = entry.next_text_at.filter(|_| lane == Lane::Texts);
        let row = entry.row(lane);
        if row.active.is_some() {
            return None;
        }
        let (order, not_before) = *row.waiting.front()?;
        let at = paced.max(not_before).filter(|at| *at > now);
        if let Some(at) = at {
            self.look_again(contact, at);
            return None;
        }
        row.waiting.pop_front();
        row.active = Some(order);
        Some(order)
    }

    fn look_again(&mut self, contact: &SubscriberId, at: Instant) {
        let Some(entry) = self.contacts.get_mut(contact) else { return };
        if entry.looked_at.is_none_or(|known| known > at) {
            entry.looked_at = Some(at);
            self.next_due += 1;
            self.due.insert((at, self.next_due), contact.clone());
        }
    }

    fn forget_if_done(&mut self, contact: &SubscriberId, now: Instant) {
        let Some(entry) = self.contacts.get(contact) else { return };
        if !entry.texts.is_empty() || !entry.actions.is_empty() {
            return;
        }
        match entry.next_text_at.filter(|at| *at > now) {
            Some(at) => self.look_again(contact, at),
            None => {
                self.contacts.remove(contact);
            }
        }
    }
}
