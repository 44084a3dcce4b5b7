//! The channel-neutral message that a turn is about (INB-6, IN-1).

use jiff::Timestamp;

use crate::domain::{ContactText, MediaKind, Redacted, SubscriberId, TenantId};

/// One message of a contact, as the turn gets it. Nothing in it that belongs to the contact can be printed.
#[derive(Clone, Debug)]
pub struct InboundMessage {
    /// `TENANT_ID`.
    pub tenant: TenantId,
    /// The contact.
    pub subscriber: SubscriberId,
    /// What the contact wrote; for media the link, which must go nowhere (IN-3).
    pub text: ContactText,
    /// Stored on the conversation: the request's value, else `CHANNEL`.
    pub channel: String,
    /// First and last name joined; never shown to the model (IN-2).
    pub contact_name: Option<Redacted<String>>,
    /// As the channel reports it, for example `en_GB`.
    pub locale: Option<String>,
    /// The contact token that the request presented, right or wrong.
    pub token: Option<Redacted<String>>,
    /// Present when the text is a link to the contact's file (MEDIA-101).
    pub media: Option<Media>,
    /// The contact's offering field as the request filled it in; it may be no known offering (INB-4).
    pub offering: Option<String>,
    /// When the request arrived, by the business clock.
    pub received_at: Timestamp,
}

impl InboundMessage {
    /// What is recorded and shown for this message until a transcript replaces it: the words, or the marker of
    /// the media kind (CHM-5). The link itself is never returned.
    #[must_use]
    pub fn recorded_text(&self) -> ContactText {
        match &self.media {
            Some(media) => ContactText::new(media.kind.marker()),
            None => self.text.clone(),
        }
    }
}

/// A file of a contact.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Media {
    /// By its extension (MEDIA-105).
    pub kind: MediaKind,
    /// Opens the file for anybody, for ever: a credential.
    pub url: Redacted<String>,
}
