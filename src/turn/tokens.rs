//! The write of an issued token beside the turn that issued it (TOK-23, TOK-24). Nobody waits for it: when it fails,
//! the outbox row that Open has queued does its work.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::runtime::Handle;
use tracing::Instrument;
use uuid::Uuid;

use crate::domain::{ConversationId, Redacted, SubscriberId};
use crate::manychat::{self, ManyChatError, Priority};
use crate::store::{Database, tokens};

/// Writes issued tokens in the background; cheap to clone.
#[derive(Clone)]
pub struct TokenWriter {
    database: Database,
    manychat: manychat::Handle,
    io: Handle,
    open: Arc<AtomicUsize>,
}

/// A token that was issued and has not reached ManyChat yet.
pub struct IssuedToken {
    /// The contact's conversation, for the log.
    pub conversation: ConversationId,
    /// Whose field it goes to.
    pub contact: SubscriberId,
    /// The token.
    pub text: Redacted<String>,
    /// The outbox row that stands behind the write.
    pub row: Uuid,
}

impl TokenWriter {
    /// A writer whose work runs on `io`, the runtime that outlives every request.
    #[must_use]
    pub fn new(database: Database, manychat: manychat::Handle, io: Handle) -> Self {
        Self { database, manychat, io, open: Arc::default() }
    }

    /// Writes which have not ended.
    #[must_use]
    pub fn open(&self) -> usize {
        self.open.load(Ordering::Acquire)
    }

    /// Starts the write and returns at once.
    pub fn write_later(&self, issued: IssuedToken) {
        self.open.fetch_add(1, Ordering::AcqRel);
        let guard = Open(Arc::clone(&self.open));
        let writer = self.clone();
        let writing = async move {
            writer.write(issued).await;
            drop(guard);
        };
        self.io.spawn(writing.in_current_span());
    }

    async fn write(&self, issued: IssuedToken) {
        let IssuedToken { conversation, contact, text, row } = issued;
        if let Err(error) = self.manychat.write_token(&contact, text, Priority::InRequest).await {
            report(conversation, &error);
        } else if let Err(error) = tokens::written(&self.database, row).await {
            tracing::warn!(%conversation, err = %error, "contact token write not recorded; the worker repeats it");
        }
    }
}

/// Names the kind of failure and never its words: ManyChat's answer could quote the token (TOK-24, LOG-8).
fn report(conversation: ConversationId, error: &ManyChatError) {
    tracing::error!(
        %conversation,
        err = error.name(),
        status = error.status(),
        reason = error.reason(),
        endpoint = error.endpoint(),
        "contact token write failed"
    );
}

/// Lowers the count also when a write panics.
struct Open(Arc<AtomicUsize>);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}
