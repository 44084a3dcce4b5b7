//! What can be asked of ManyChat for one contact, and the single calls it takes.

use std::fmt;
use std::time::Duration;

use crate::config::ManyChatSettings;
use crate::domain::{ContactText, Redacted, SubscriberId};

/// One thing to do for one contact. Every call it takes names this contact and no other (API-30).
#[derive(Clone, Debug)]
pub struct Request {
    /// Whom it is for.
    pub contact: SubscriberId,
    /// How urgent it is.
    pub priority: Priority,
    /// What to do.
    pub action: Action,
}

/// Who waits for the outcome. Calls inside a request go first (ARC-48).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Priority {
    /// A contact's open request: flows and reads that the model asks for, the token write beside it (AFTER-8).
    InRequest,
    /// Everything else: deliveries, staged actions, retries.
    Background,
}

/// What is asked for.
#[derive(Clone, Debug)]
pub enum Action {
    /// Deliver one text: write it to the reply field, then play the reply flow (DEL-1). Texts of one contact go one
    /// after the other with the gap between them (PACE-2 to PACE-4).
    SendText {
        /// The text as the contact will read it.
        text: ContactText,
        /// Earliest start, counted from when the order is taken: the contact's next-send time as the database knows
        /// it, which other processes set too. Zero: as soon as this process's own pacing allows.
        wait: Duration,
    },
    /// Write a custom field (API-26).
    SetField {
        /// The field's name in ManyChat.
        field: String,
        /// Its new value.
        value: ContactText,
    },
    /// Play a flow (API-23).
    SendFlow {
        /// The flow's namespace in ManyChat.
        flow_ns: String,
    },
    /// Add a tag (API-24).
    AddTag {
        /// The tag's name in ManyChat.
        tag: String,
    },
    /// Remove a tag (API-25).
    RemoveTag {
        /// The tag's name in ManyChat.
        tag: String,
    },
    /// Write a contact token (API-22). ManyChat's words about it are never kept (LOG-8).
    WriteToken {
        /// The token.
        token: Redacted<String>,
    },
    /// Read the contact's tags and fields (API-27).
    GetInfo,
}

/// ManyChat's names for what the service itself uses.
#[derive(Clone, Debug)]
pub struct Names {
    /// `MANYCHAT_REPLY_FIELD`.
    pub reply_field: String,
    /// `MANYCHAT_REPLY_FLOW_NS`; empty when unset, which ManyChat refuses (04 section 1.2).
    pub reply_flow_ns: String,
    /// `MANYCHAT_TOKEN_FIELD`.
    pub token_field: String,
}

/// One HTTP call for one contact.
#[derive(Clone, Debug)]
pub struct Call {
    /// Whom it is for.
    pub contact: SubscriberId,
    /// What it does.
    pub command: Command,
}

/// The commands of ManyChat's API that the service uses; there are no others (API-28, API-29).
#[derive(Clone, Debug)]
pub enum Command {
    /// `setCustomFieldByName` with a reply text, a configured value or a note.
    SetField {
        /// `field_name`.
        field: String,
        /// `field_value`.
        value: ContactText,
    },
    /// `setCustomFieldByName` with a contact token.
    WriteToken {
        /// `field_name`.
        field: String,
        /// `field_value`.
        token: Redacted<String>,
    },
    /// `sendFlow`.
    SendFlow {
        /// `flow_ns`.
        flow_ns: String,
    },
    /// `addTagByName`.
    AddTag {
        /// `tag_name`.
        tag: String,
    },
    /// `removeTagByName`.
    RemoveTag {
        /// `tag_name`.
        tag: String,
    },
    /// `getInfo`.
    GetInfo,
}

/// What a successful call says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// ManyChat accepted the command. That is not delivery by WhatsApp (API-51).
    Accepted,
    /// What a read found.
    Contact(ContactInfo),
}

/// All that leaves the client of a contact's profile (API-31, READ-5). `Debug` shows counts only.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct ContactInfo {
    /// Names of the contact's tags.
    pub tags: Vec<String>,
    /// Custom fields by name, in ManyChat's order; `None` for a field without a value. Numbers and booleans are in
    /// their text form (READ-2).
    pub fields: Vec<(String, Option<ContactText>)>,
}

impl ContactInfo {
    /// The value of the field with this name.
    #[must_use]
    pub fn field(&self, name: &str) -> Option<&ContactText> {
        self.fields.iter().find(|(known, _)| known == name).and_then(|(_, value)| value.as_ref())
    }
}

impl fmt::Debug for ContactInfo {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "ContactInfo({} tags, {} fields)", self.tags.len(), self.fields.len())
    }
}

impl Names {
    /// Picks the names out of the settings.
    #[must_use]
    pub fn of(settings: &ManyChatSettings) -> Self {
        Self {
            reply_field: settings.reply_field.clone(),
            reply_flow_ns: settings.reply_flow_ns.clone().unwrap_or_default(),
            token_field: settings.token_field.clone(),
        }
    }
}

impl Request {
    /// How many calls this takes; each must succeed before the next is made (DEL-1).
    #[must_use]
    pub const fn steps(&self) -> u8 {
        match self.action {
            Action::SendText { .. } => 2,
            _ => 1,
        }
    }

    /// The call of this step, counted from 0. Step 1 exists for a text only: it plays the reply flow.
    #[must_use]
    pub fn call(&self, step: u8, names: &Names) -> Call {
        Call { contact: self.contact.clone(), command: self.command(step, names) }
    }

    fn command(&self, step: u8, names: &Names) -> Command {
        match &self.action {
            Action::SendText { .. } if step > 0 => Command::SendFlow { flow_ns: names.reply_flow_ns.clone() },
            Action::SendText { text, .. } => {
                Command::SetField { field: names.reply_field.clone(), value: text.clone() }
            }
            Action::SetField { field, value } => {
                Command::SetField { field: field.clone(), value: value.clone() }
            }
            Action::SendFlow { flow_ns } => Command::SendFlow { flow_ns: flow_ns.clone() },
            Action::AddTag { tag } => Command::AddTag { tag: tag.clone() },
            Action::RemoveTag { tag } => Command::RemoveTag { tag: tag.clone() },
            Action::WriteToken { token } => {
                Command::WriteToken { field: names.token_field.clone(), token: token.clone() }
            }
            Action::GetInfo => Command::GetInfo,
        }
    }
}
