//! Identifiers. The ones that could identify a contact cannot be printed.

use std::fmt;
use std::sync::Arc;

use uuid::Uuid;

macro_rules! uuid_newtype {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(Uuid);

        impl $name {
            /// A fresh id; version 7, so that ids made later sort later.
            #[must_use]
            pub fn fresh() -> Self {
                Self(Uuid::now_v7())
            }

            /// The plain UUID, as the database stores it.
            #[must_use]
            pub const fn as_uuid(&self) -> &Uuid {
                &self.0
            }

            /// The plain UUIDs of these, for an array in the database.
            #[must_use]
            pub fn uuids(ids: &[Self]) -> Vec<Uuid> {
                ids.iter().map(|id| id.0).collect()
            }
        }

        impl From<Uuid> for $name {
            fn from(id: Uuid) -> Self {
                Self(id)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, out)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, out)
            }
        }
    };
}

uuid_newtype! {
    /// Row id of a conversation: the only contact id that may stand in a log (LOG-2).
    ConversationId
}
uuid_newtype! {
    /// Id of one turn: the handling of one inbound message or burst. Also the id of its user row.
    TurnId
}
uuid_newtype! {
    /// Id of an inbound message's row: in the inbox, if it has to wait, then among `turns`.
    MessageId
}
uuid_newtype! {
    /// Id of the row that holds a turn's reply among `turns`. What follows a reply, such as its actions, is named by it.
    AgentRowId
}
uuid_newtype! {
    /// Random id of one running process, new at every start (ARC-44).
    ProcessId
}

impl From<MessageId> for TurnId {
    /// The turn whose first message this is: it can be found from either side.
    fn from(first: MessageId) -> Self {
        Self(first.0)
    }
}

/// Value of every `tenant_id` column. Never empty.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct TenantId(Arc<str>);

impl TenantId {
    /// `None` when the text is empty.
    #[must_use]
    pub fn new(text: &str) -> Option<Self> {
        (!text.is_empty()).then(|| Self(text.into()))
    }

    /// The text as stored.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// ManyChat's id of a contact. Stored in `conversations`, `outbox` and `rate_counters` only (CONV-7) and never
/// printed: it has no `Display` and its `Debug` shows nothing of it (LOG-2).
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct SubscriberId(Arc<str>);

impl SubscriberId {
    /// `None` when the text is blank or a placeholder that ManyChat did not fill in (GAP-CH-10): such ids would
    /// share one conversation.
    #[must_use]
    pub fn new(text: &str) -> Option<Self> {
        let blank = text.trim().is_empty();
        let unrendered = text.contains("{{");
        (!blank && !unrendered).then(|| Self(text.into()))
    }

    /// An id that a row holds already, whatever it looks like: ManyChat is asked and says what it thinks of it.
    #[must_use]
    pub fn stored(text: &str) -> Self {
        Self(text.into())
    }

    /// The id for a database parameter or a ManyChat request; never for a log.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for SubscriberId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("SubscriberId(hidden)")
    }
}

/// Counts the takings of a contact's lane; a write that carries an old fence changes nothing (ARC-45).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Fence(i64);

impl Fence {
    /// The fence as the lane row holds it.
    #[must_use]
    pub const fn new(value: i64) -> Self {
        Self(value)
    }

    /// The number for a database parameter.
    #[must_use]
    pub const fn get(self) -> i64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// LOG-2, CONV-7: nothing of a subscriber id can be printed.
    #[test]
    fn a_subscriber_id_prints_nothing_of_itself() {
        let id = SubscriberId::new("7301144").unwrap();
        assert_eq!(format!("{id:?}"), "SubscriberId(hidden)");
        assert_eq!(id.expose(), "7301144");
    }

    /// GAP-CH-10
    #[test]
    fn blank_and_unrendered_subscriber_ids_are_refused() {
        for text in ["", "   ", "{{contact.id}}", "x{{id}}"] {
            assert!(SubscriberId::new(text).is_none(), "{text:?} must be refused");
        }
    }
}
