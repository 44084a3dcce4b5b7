//! What the page shows: contacts with their chats, in memory, numbered so that a page can ask for what is new.

use std::sync::{Mutex, PoisonError};

use serde::Serialize;
use tokio::sync::watch;

use crate::domain::{ChannelName, SubscriberId};
use crate::manychat::Trouble;
use crate::model::MockMood;
use crate::store::playground::{ContactRecord, TurnActions};

/// Most contacts on the board; the oldest goes.
const MOST_CONTACTS: usize = 30;
/// Most entries of one chat; the oldest go.
const MOST_ENTRIES: usize = 200;

/// The board; every change wakes all pages.
pub(super) struct Board {
    about: About,
    state: Mutex<State>,
    revision: watch::Sender<u64>,
}

/// What does not change while the service runs.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct About {
    pub(super) tenant: String,
    pub(super) model: String,
    pub(super) channels: &'static [ChannelName],
    pub(super) channel: Option<ChannelName>,
    pub(super) deadline_ms: u64,
}

#[derive(Default)]
struct State {
    revision: u64,
    next_number: u64,
    next_entry: u64,
    contacts: Vec<Contact>,
    switches: Switches,
    trouble: Option<&'static str>,
    tools: bool,
    closed: bool,
}

struct Contact {
    subscriber: SubscriberId,
    number: u64,
    channel: ChannelName,
    known_before: bool,
    revision: u64,
    profile: Profile,
    record: Option<Record>,
    entries: Vec<Entry>,
}

/// What can be switched, as it stands; `None` where the service has nothing to switch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Switches {
    pub(super) model: Option<MockMood>,
    pub(super) manychat: Option<Trouble>,
}

/// Tags and fields as the account holds them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Profile {
    pub(super) tags: Vec<String>,
    pub(super) fields: Vec<Field>,
}

/// One field; without a value when nobody may see it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Field {
    /// ManyChat's name.
    pub(super) name: String,
    /// The tenant's; `id` is that of the line.
    pub(super) called: Option<String>,
    pub(super) value: Option<String>,
    /// Whether it is a note, which only colleagues read.
    pub(super) note: bool,
}

/// A flow that `tools.json` names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct KnownFlow {
    pub(super) id: String,
    pub(super) kind: &'static str,
    pub(super) description: String,
    /// How long it plays, in seconds.
    pub(super) plays_s: u8,
}

/// [`ContactRecord`] for the page.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Record {
    turns: i64,
    running: bool,
    outcome: Option<String>,
    model: Option<String>,
    latency_ms: Option<i32>,
    input_tokens: Option<i32>,
    output_tokens: Option<i32>,
    cost_usd: Option<f64>,
    handoff: Option<String>,
    /// Whether a handoff notifies anybody: `rules.handoff` is set (DEC-25).
    calls: bool,
    waiting: i64,
    attempts: i32,
    due_ms: Option<f64>,
    last_error: Option<String>,
    given_up: i64,
    given_up_error: Option<String>,
    /// What the latest turns with actions did, newest first.
    actions: Vec<TurnActions>,
    /// Whether the last turn was offered tools.
    tools_offered: bool,
}

/// One line of a chat.
#[derive(Clone, Serialize)]
struct Entry {
    id: u64,
    at_ms: i64,
    #[serde(skip)]
    revision: u64,
    #[serde(flatten)]
    what: What,
}

/// What a line of a chat is.
#[derive(Clone, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(super) enum What {
    /// The contact wrote.
    Said { text: String, state: Progress },
    /// The service answered in the response. `role` says which of the tenant's fixed texts it is, if any.
    Reply { texts: Vec<String>, took_ms: u64, role: Option<&'static str> },
    /// A text came through the account's reply flow.
    Delivered { text: String },
    /// Another flow was played.
    Flow { name: String, known: Option<KnownFlow> },
    /// A tag was added or removed.
    Tag { name: String, called: Option<String>, added: bool },
    /// A field or a note was written.
    Field(Field),
    /// A call to ManyChat failed.
    CallFailed { text: String },
    /// The message route did not answer with a block.
    Problem { text: String },
}

/// How far a message of the contact is.
#[derive(Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Progress {
    Sending,
    Answered,
    Failed,
}

/// What a page is told: everything that changed since a revision.
#[derive(Serialize)]
pub(super) struct Update {
    /// The page must forget what it knew.
    whole: bool,
    about: Option<About>,
    pub(super) revision: u64,
    switches: Switches,
    /// A general problem, in words.
    trouble: Option<&'static str>,
    /// Whether the tenant has tools.
    tools: bool,
    contacts: Vec<ContactUpdate>,
    /// Ids of all contacts, so that the page drops those that are gone.
    order: Vec<String>,
}

#[derive(Serialize)]
struct ContactUpdate {
    id: String,
    number: u64,
    channel: ChannelName,
    known_before: bool,
    profile: Profile,
    record: Option<Record>,
    entries: Vec<Entry>,
}

impl Board {
    pub(super) fn new(about: About, switches: Switches) -> Self {
        let state = State { switches, ..State::default() };
        Self { about, state: Mutex::new(state), revision: watch::Sender::new(0) }
    }

    /// Wakes whoever waits for something new.
    pub(super) fn changes(&self) -> watch::Receiver<u64> {
        self.revision.subscribe()
    }

    /// Pages that are open now.
    pub(super) fn is_watched(&self) -> bool {
        self.revision.receiver_count() > 0
    }

    pub(super) fn close(&self) {
        self.change(|state, _| state.closed = true);
    }

    pub(super) fn is_closed(&self) -> bool {
        self.look(|state| state.closed)
    }

    /// Adds a contact.
    pub(super) fn add(&self, subscriber: SubscriberId, channel: ChannelName) {
        self.change(|state, revision| {
            state.contact(&subscriber, channel, false, revision);
        });
    }

    pub(super) fn channel_of(&self, subscriber: &str) -> Option<(SubscriberId, ChannelName)> {
        self.look(|state| {
            let contact = state.contacts.iter().find(|contact| contact.subscriber.expose() == subscriber)?;
            Some((contact.subscriber.clone(), contact.channel))
        })
    }

    pub(super) fn subscribers(&self) -> Vec<String> {
        self.look(|state| {
            state.contacts.iter().map(|contact| contact.subscriber.expose().to_owned()).collect()
        })
    }

    /// Writes a line and returns its id. A contact of whom the board knows nothing comes from an earlier run or
    /// another caller.
    pub(super) fn write(&self, subscriber: &SubscriberId, channel: ChannelName, what: What) -> u64 {
        self.change(|state, revision| {
            state.next_entry += 1;
            let id = state.next_entry;
            let entry = Entry { id, at_ms: jiff::Timestamp::now().as_millisecond(), revision, what };
            let contact = state.contact(subscriber, channel, true, revision);
            contact.entries.push(entry);
            let excess = contact.entries.len().saturating_sub(MOST_ENTRIES);
            contact.entries.drain(..excess);
            id
        })
    }

    /// Marks a message of the contact.
    pub(super) fn mark(&self, subscriber: &SubscriberId, id: u64, progress: Progress) {
        self.change(|state, revision| {
            let Some(contact) = state.find(subscriber.expose()) else { return };
            contact.revision = revision;
            if let Some(entry) = contact.entries.iter_mut().find(|entry| entry.id == id) {
                entry.revision = revision;
                if let What::Said { state, .. } = &mut entry.what {
                    *state = progress;
                }
            }
        });
    }

    pub(super) fn set_profile(&self, subscriber: &SubscriberId, profile: Profile) {
        self.change(|state, revision| {
            if let Some(contact) = state.find(subscriber.expose()) {
                contact.profile = profile;
                contact.revision = revision;
            }
        });
    }

    /// Wakes nobody when nothing has changed. `calls`: whether a handoff notifies anybody.
    pub(super) fn set_records(&self, records: Vec<ContactRecord>, calls: bool) {
        for record in records {
            let subscriber = record.subscriber.clone();
            let record = Some(Record::of(record, calls));
            let same = self.look(|state| {
                let known = state.contacts.iter().find(|contact| contact.subscriber.expose() == subscriber);
                known.is_none_or(|contact| contact.record == record)
            });
            if same {
                continue;
            }
            self.change(|state, revision| {
                if let Some(contact) = state.find(&subscriber) {
                    contact.record = record;
                    contact.revision = revision;
                }
            });
        }
    }

    pub(super) fn set_switches(&self, switches: Switches) {
        self.change(|state, _| state.switches = switches);
    }

    /// A problem that concerns everything; wakes nobody when it is known.
    pub(super) fn set_trouble(&self, trouble: Option<&'static str>) {
        if self.look(|state| state.trouble != trouble) {
            self.change(|state, _| state.trouble = trouble);
        }
    }

    /// Whether the tenant has tools; wakes nobody when it is known.
    pub(super) fn set_tools(&self, tools: bool) {
        if self.look(|state| state.tools != tools) {
            self.change(|state, _| state.tools = tools);
        }
    }

    /// What changed after `seen`; `None` when nothing did. From 0 it is everything.
    pub(super) fn since(&self, seen: Option<u64>) -> Option<Update> {
        self.look(|state| {
            let after = seen.unwrap_or(0);
            if seen == Some(state.revision) {
                return None;
            }
            let changed = state.contacts.iter().filter(|contact| seen.is_none() || contact.revision > after);
            Some(Update {
                whole: seen.is_none(),
                about: seen.is_none().then(|| self.about.clone()),
                revision: state.revision,
                switches: state.switches,
                trouble: state.trouble,
                tools: state.tools,
                contacts: changed.map(|contact| contact.update(after)).collect(),
                order: state.contacts.iter().map(|contact| contact.subscriber.expose().to_owned()).collect(),
            })
        })
    }

    fn look<T>(&self, work: impl FnOnce(&State) -> T) -> T {
        work(&self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn change<T>(&self, work: impl FnOnce(&mut State, u64) -> T) -> T {
        let (revision, result) = {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            state.revision += 1;
            let revision = state.revision;
            (revision, work(&mut state, revision))
        };
        self.revision.send_modify(|newest| *newest = revision.max(*newest));
        result
    }
}

impl State {
    fn find(&mut self, subscriber: &str) -> Option<&mut Contact> {
        self.contacts.iter_mut().find(|contact| contact.subscriber.expose() == subscriber)
    }

    /// The contact, made where it is missing.
    fn contact(
        &mut self,
        subscriber: &SubscriberId,
        channel: ChannelName,
        known_before: bool,
        revision: u64,
    ) -> &mut Contact {
        let place = self.contacts.iter().position(|contact| contact.subscriber == *subscriber);
        let place = place.unwrap_or_else(|| {
            if self.contacts.len() >= MOST_CONTACTS {
                self.contacts.remove(0);
            }
            self.next_number += 1;
            self.contacts.push(Contact {
                subscriber: subscriber.clone(),
                number: self.next_number,
                channel,
                known_before,
                revision,
                profile: Profile::default(),
                record: None,
                entries: Vec::new(),
            });
            self.contacts.len() - 1
        });
        #[expect(clippy::indexing_slicing, reason = "the place was found or made just before")]
        let contact = &mut self.contacts[place];
        contact.revision = revision;
        contact
    }
}

impl Contact {
    fn update(&self, after: u64) -> ContactUpdate {
        ContactUpdate {
            id: self.subscriber.expose().to_owned(),
            number: self.number,
            channel: self.channel,
            known_before: self.known_before,
            profile: self.profile.clone(),
            record: self.record.clone(),
            entries: self.entries.iter().filter(|entry| entry.revision > after).cloned().collect(),
        }
    }
}

impl Record {
    fn of(record: ContactRecord, calls: bool) -> Self {
        let last = record.last;
        let last = last.as_ref();
        Self {
            turns: record.turns,
            running: record.running,
            outcome: last.and_then(|turn| turn.outcome.clone()),
            model: last.and_then(|turn| turn.model.clone()),
            latency_ms: last.and_then(|turn| turn.latency_ms),
            input_tokens: last.and_then(|turn| turn.input_tokens),
            output_tokens: last.and_then(|turn| turn.output_tokens),
            cost_usd: last.and_then(|turn| turn.cost_usd),
            handoff: record.handoff,
            calls,
            waiting: record.waiting,
            attempts: record.attempts,
            due_ms: record.due_ms,
            last_error: record.last_error,
            given_up: record.given_up,
            given_up_error: record.given_up_error,
            actions: record.actions,
            tools_offered: record.tools_offered,
        }
    }
}

#[cfg(test)]
#[path = "board_tests.rs"]
mod tests;
