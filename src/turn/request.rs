//! The messages one turn answers, and under what conditions.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use super::context::Snapshot;
use super::{binding, opening};
use crate::channel::InboundMessage;
use crate::domain::{ContactText, MediaKind, MessageId, ProcessId, Redacted, TurnId};

/// A message of a dead process that came longer ago than this is answered by a person (ARC-46).
const TOO_LATE: Duration = Duration::from_secs(15 * 60);

/// Why a turn runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Run {
    /// A caller of this process asked for it.
    Asked,
    /// Its messages waited in the inbox of a dead process (ARC-45a). What the memory of that process held, such as the
    /// link of a file, is gone.
    Inherited,
    /// A dead process had begun it: no counting, no guards (ARC-46).
    Second,
}

/// What the database knows a message by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageRow {
    /// Id of its row: first in the inbox, if it has to wait, then among `turns`.
    pub id: MessageId,
    /// True when it stands in the inbox.
    pub stored: bool,
}

/// The messages one turn answers, and the configuration it runs under.
pub struct TurnRequest {
    /// Id of the turn; the first message's row takes it, so that a turn can be found from either side.
    pub id: TurnId,
    /// The process the turn belongs to. When this process has another id by now, the turn is somebody else's.
    pub process: ProcessId,
    /// Why it runs.
    pub run: Run,
    /// One message, or the messages of a burst in order (DEC-5).
    pub messages: Vec<InboundMessage>,
    /// Their rows, in the same order.
    pub rows: Vec<MessageRow>,
    /// SHA-256 of the presented token where only that is known.
    pub known_digest: Option<Redacted<String>>,
    /// The configuration of the whole turn (RLD-8).
    pub snapshot: Arc<Snapshot>,
    /// The secret that the caller who gets the reply presented (AUTH-6).
    pub presented_secret: Redacted<Arc<str>>,
}

impl TurnRequest {
    /// The message whose request gets the reply.
    pub(super) fn live(&self) -> Option<&InboundMessage> {
        self.messages.last()
    }

    /// The contact's words, media left out.
    pub(super) fn texts(&self) -> impl Iterator<Item = &ContactText> {
        self.messages.iter().filter(|message| message.media.is_none()).map(|message| &message.text)
    }

    /// True when the message starts the scripted opening; a burst never holds one (DEC-23).
    pub(super) fn is_opening(&self) -> bool {
        let trigger = self.snapshot.tenant.rules.opening_trigger.as_ref();
        self.messages.len() == 1 && self.texts().any(|text| opening::is_opening(trigger, text.expose()))
    }

    /// What kind of file came; a turn has at most one (DEC-23).
    pub(super) fn media_kind(&self) -> Option<MediaKind> {
        self.messages.iter().find_map(|message| message.media.as_ref().map(|media| media.kind))
    }

    /// SHA-256 of the presented token in lower-case hex.
    pub(super) fn token_digest(&self) -> Option<String> {
        if let Some(known) = &self.known_digest {
            return Some(known.expose().clone());
        }
        self.live()?.token.as_ref().map(|token| binding::digest(token.expose()))
    }

    /// True when the message of a dead process cannot be answered by the model any more: its file is lost, or it came
    /// too long ago.
    pub(super) fn ends_with_a_person(&self, now: Timestamp) -> bool {
        let came = self.messages.first().map_or(now, |message| message.received_at);
        let late =
            now.duration_since(came) > jiff::SignedDuration::from_secs(TOO_LATE.as_secs().cast_signed());
        self.run != Run::Asked && (late || self.messages.iter().any(|message| message.media.is_some()))
    }

    /// The same turn with its first messages only.
    #[must_use]
    pub fn first(&self, count: usize) -> Self {
        Self {
            id: self.id,
            process: self.process,
            run: self.run,
            messages: self.messages.iter().take(count).cloned().collect(),
            rows: self.rows.iter().take(count).copied().collect(),
            known_digest: self.known_digest.clone(),
            snapshot: Arc::clone(&self.snapshot),
            presented_secret: self.presented_secret.clone(),
        }
    }
}
