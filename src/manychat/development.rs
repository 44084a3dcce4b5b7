//! The development account (DEC-16): stands in for ManyChat while there is no key, so that deferred replies, flows,
//! tags and fields can be seen offline. It lives in memory, can be told to fail, and tells what happened to a watcher.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;

use super::client::CALL_LIMIT;
use super::error::{LostBy, ManyChatError};
use super::port::DeliveryClient;
use super::request::{Answer, Call, Command, ContactInfo, Names};
use super::said::Said;
use crate::domain::{ContactText, Redacted, SubscriberId};

/// Namespace of the account's own reply flow, used where `MANYCHAT_REPLY_FLOW_NS` is not set.
pub const DEVELOPMENT_REPLY_FLOW: &str = "content_playground_reply";
/// How the ids of the playground's own contacts begin.
pub const DEVELOPMENT_CONTACT: &str = "playground-";
/// How long a call takes while the account is slow.
const SLOW: Duration = Duration::from_secs(3);
/// Most contacts that are remembered; the account is for one person at one screen.
const MOST_CONTACTS: usize = 1_000;

/// What the account does with calls, so that every class of failure can be watched (API-42 to API-47).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Trouble {
    /// Accepts every call at once.
    #[default]
    None,
    /// Accepts every call after three seconds.
    Slow,
    /// Answers 429: retried later.
    TooManyRequests,
    /// Answers 500: retried later, and nobody knows whether it was done.
    ServerError,
    /// Answers nothing within the limit of a call.
    Timeout,
    /// Takes no connection.
    Unreachable,
    /// Answers 400: final, the reply is given up and a person called.
    Refused,
}

/// Whose calls the account accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Residents {
    /// Everybody's: the database is private to this process.
    Everybody,
    /// Those of the playground's own contacts. In a database that others use too, replies to real contacts may wait,
    /// and must not be swallowed here: they fail as without an account (API-10).
    OwnContacts,
}

/// Something that happened to a contact in the account.
#[derive(Clone, Debug)]
pub struct Happening {
    /// Whose it is.
    pub contact: SubscriberId,
    /// What it is.
    pub what: Happened,
}

/// What can happen.
#[derive(Clone, Debug)]
pub enum Happened {
    /// The reply flow was played and showed this text: what the contact reads.
    Delivered(ContactText),
    /// Another flow was played.
    Flow(String),
    /// A tag was added.
    TagAdded(String),
    /// A tag was removed.
    TagRemoved(String),
    /// A field other than the reply field was written.
    FieldSet {
        /// Its name.
        name: String,
        /// What it holds now; `None` for a value that nobody may see, as the contact token is.
        value: Option<ContactText>,
    },
    /// A call failed, by [`Trouble`] or because ManyChat would refuse it.
    Failed(ManyChatError),
}

/// A contact as a person may see it.
#[derive(Clone, Debug, Default)]
pub struct ContactView {
    /// Tag names, in the order in which they were added.
    pub tags: Vec<String>,
    /// Fields by name; `None` for a value that nobody may see, as the contact token is.
    pub fields: Vec<(String, Option<ContactText>)>,
}

/// The account: a real implementation of [`DeliveryClient`] in this process (ARC-3). Nothing of it is stored.
pub struct DevelopmentAccount {
    names: Names,
    residents: Residents,
    state: Mutex<State>,
    watcher: mpsc::UnboundedSender<Happening>,
    told: AtomicU64,
}

#[derive(Default)]
struct State {
    trouble: Trouble,
    contacts: HashMap<SubscriberId, Contact>,
}

#[derive(Default)]
struct Contact {
    tags: Vec<String>,
    fields: Vec<(String, Value)>,
}

/// A field's value. A token stays wrapped, so that no view can show it (TOK-24).
enum Value {
    Text(ContactText),
    Token(Redacted<String>),
}

impl DevelopmentAccount {
    /// An empty account with these names, and the other end of what it tells.
    #[must_use]
    pub fn new(names: Names, residents: Residents) -> (Arc<Self>, mpsc::UnboundedReceiver<Happening>) {
        let (watcher, happenings) = mpsc::unbounded_channel();
        let told = AtomicU64::new(0);
        (Arc::new(Self { names, residents, state: Mutex::default(), watcher, told }), happenings)
    }

    /// How many happenings it has told so far, so that a watcher can keep them in order with what it sees elsewhere.
    #[must_use]
    pub fn told(&self) -> u64 {
        self.told.load(Ordering::Acquire)
    }

    /// How the account treats calls that start from now on.
    pub fn set_trouble(&self, trouble: Trouble) {
        self.with(|state| state.trouble = trouble);
    }

    /// How it treats calls.
    #[must_use]
    pub fn trouble(&self) -> Trouble {
        self.with(|state| state.trouble)
    }

    /// The contact without what nobody may see; empty for one the account does not know.
    #[must_use]
    pub fn view(&self, contact: &SubscriberId) -> ContactView {
        self.with(|state| state.contacts.get(contact).map(Contact::view).unwrap_or_default())
    }

    /// What `{{ai_token}}` is rendered to for this contact, for the request that ManyChat would send (OUT-3).
    #[must_use]
    pub fn token(&self, contact: &SubscriberId) -> Option<Redacted<String>> {
        self.with(|state| {
            let fields = &state.contacts.get(contact)?.fields;
            fields.iter().find_map(|(name, value)| match value {
                Value::Token(token) if *name == self.names.token_field => Some(token.clone()),
                _ => None,
            })
        })
    }

    fn with<T>(&self, work: impl FnOnce(&mut State) -> T) -> T {
        work(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn is_resident(&self, contact: &SubscriberId) -> bool {
        self.residents == Residents::Everybody || contact.expose().starts_with(DEVELOPMENT_CONTACT)
    }

    /// Nobody may be watching any longer, which changes nothing for the caller.
    fn tell(&self, contact: &SubscriberId, what: Happened) {
        if self.watcher.send(Happening { contact: contact.clone(), what }).is_ok() {
            self.told.fetch_add(1, Ordering::Release);
        }
    }

    async fn answer(&self, call: &Call) -> Result<Answer, ManyChatError> {
        let trouble = self.trouble();
        match trouble {
            Trouble::Slow => tokio::time::sleep(SLOW).await,
            Trouble::Timeout => tokio::time::sleep(CALL_LIMIT).await,
            _ => {}
        }
        match failure(trouble, call) {
            Some(error) => Err(error),
            None => self.carry_out(call),
        }
    }

    fn carry_out(&self, call: &Call) -> Result<Answer, ManyChatError> {
        if matches!(&call.command, Command::SendFlow { flow_ns } if flow_ns.is_empty()) {
            return Err(refused(call, 400, "flow_ns is required"));
        }
        let happened = self.with(|state| {
            if state.contacts.len() >= MOST_CONTACTS && !state.contacts.contains_key(&call.contact) {
                state.contacts.clear();
            }
            let contact = state.contacts.entry(call.contact.clone()).or_default();
            contact.apply(&call.command, &self.names)
        });
        if let Some(what) = happened {
            self.tell(&call.contact, what);
        }
        Ok(match &call.command {
            Command::GetInfo => Answer::Contact(
                self.with(|state| state.contacts.get(&call.contact).map(Contact::info).unwrap_or_default()),
            ),
            _ => Answer::Accepted,
        })
    }
}

impl DeliveryClient for DevelopmentAccount {
    fn call(&self, call: Call) -> BoxFuture<'_, Result<Answer, ManyChatError>> {
        Box::pin(async move {
            if !self.is_resident(&call.contact) {
                return Err(ManyChatError::NoToken);
            }
            let outcome = self.answer(&call).await;
            if let Err(error) = &outcome {
                self.tell(&call.contact, Happened::Failed(error.clone()));
            }
            outcome
        })
    }
}

impl Contact {
    /// Carries a command out and says what there is to see of it.
    fn apply(&mut self, command: &Command, names: &Names) -> Option<Happened> {
        match command {
            Command::SetField { field, value } if *field == names.token_field => {
                self.set(field, Value::Token(Redacted::new(value.expose().to_owned())));
                Some(Happened::FieldSet { name: field.clone(), value: None })
            }
            Command::SetField { field, value } => {
                self.set(field, Value::Text(value.clone()));
                // The reply field is scratch space; what it held is seen when the flow shows it (DEL-2).
                let written = || Happened::FieldSet { name: field.clone(), value: Some(value.clone()) };
                (*field != names.reply_field).then(written)
            }
            Command::WriteToken { field, token } => {
                self.set(field, Value::Token(token.clone()));
                Some(Happened::FieldSet { name: field.clone(), value: None })
            }
            Command::SendFlow { flow_ns } if *flow_ns == names.reply_flow_ns => {
                Some(Happened::Delivered(self.text(&names.reply_field)))
            }
            Command::SendFlow { flow_ns } => Some(Happened::Flow(flow_ns.clone())),
            Command::AddTag { tag } if self.tags.contains(tag) => None,
            Command::AddTag { tag } => {
                self.tags.push(tag.clone());
                Some(Happened::TagAdded(tag.clone()))
            }
            Command::RemoveTag { tag } => {
                let before = self.tags.len();
                self.tags.retain(|known| known != tag);
                (self.tags.len() < before).then(|| Happened::TagRemoved(tag.clone()))
            }
            Command::GetInfo => None,
        }
    }

    fn set(&mut self, field: &str, value: Value) {
        match self.fields.iter_mut().find(|(name, _)| name == field) {
            Some((_, known)) => *known = value,
            None => self.fields.push((field.to_owned(), value)),
        }
    }

    /// A field's text; empty when it was never written, as a flow would show it.
    fn text(&self, field: &str) -> ContactText {
        let found = self.fields.iter().find_map(|(name, value)| match value {
            Value::Text(text) if name == field => Some(text.clone()),
            _ => None,
        });
        found.unwrap_or_default()
    }

    fn view(&self) -> ContactView {
        let shown = |value: &Value| match value {
            Value::Text(text) => Some(text.clone()),
            Value::Token(_) => None,
        };
        let fields = self.fields.iter().map(|(name, value)| (name.clone(), shown(value))).collect();
        ContactView { tags: self.tags.clone(), fields }
    }

    /// As `getInfo` reports it: the service sees every field, and picks what it may read itself (READ-2).
    fn info(&self) -> ContactInfo {
        let fields = self.fields.iter().map(|(name, value)| {
            let text = match value {
                Value::Text(text) => text.clone(),
                Value::Token(token) => ContactText::new(token.expose().clone()),
            };
            (name.clone(), Some(text))
        });
        ContactInfo { tags: self.tags.clone(), fields: fields.collect() }
    }
}

/// The failure of this trouble; `None` when the call is accepted.
fn failure(trouble: Trouble, call: &Call) -> Option<ManyChatError> {
    let lost = |reason, sent| ManyChatError::Connection { endpoint: call.endpoint(), reason, sent };
    match trouble {
        Trouble::None | Trouble::Slow => None,
        Trouble::TooManyRequests => Some(refused(call, 429, "Too many requests")),
        Trouble::ServerError => Some(refused(call, 500, "Internal server error")),
        Trouble::Timeout => Some(lost(LostBy::Timeout, true)),
        Trouble::Unreachable => Some(lost(LostBy::Network, false)),
        Trouble::Refused => Some(refused(call, 400, "The account was told to refuse every call")),
    }
}

fn refused(call: &Call, status: u16, message: &str) -> ManyChatError {
    let said = Said::plainly(message);
    ManyChatError::Api { endpoint: call.endpoint(), status, code: None, said, retry_after: None }
}

#[cfg(test)]
#[path = "development_tests.rs"]
mod tests;
