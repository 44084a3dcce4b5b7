//! The body of the message route: parsing and nothing else (03 section 5, INB-1 to INB-8).
//!
//! It accepts what the JSON parsers of the web accept and common Rust ones refuse: a repeated key (its last value
//! counts), a lone surrogate escape, integers of any length. It refuses every key it does not know.

use std::borrow::Cow;
use std::fmt;

use jiff::Timestamp;
use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;
use utoipa::ToSchema;
use utoipa::openapi::schema::{ObjectBuilder, OneOfBuilder, Schema, Type};

use crate::channel::{InboundMessage, MediaLink, recognise};
use crate::domain::{ChannelName, ContactText, Redacted, SubscriberId, TenantId};

/// Most UTF-16 units of `text` (DEC-35).
const LONGEST_TEXT: usize = 4096;
/// Most UTF-16 units of `ai_token`, `offering` and `course`.
const LONGEST_VALUE: usize = 256;
/// Longest unknown key that is named in the answer, in bytes.
const LONGEST_SHOWN_KEY: usize = 40;

/// A body that passed every check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MessageRequest {
    /// The contact.
    pub subscriber: SubscriberId,
    /// Their words, or a link to their file.
    pub text: ContactText,
    /// First and last name joined (INB-5).
    pub contact_name: Option<Redacted<String>>,
    /// As ManyChat reports it.
    pub locale: Option<String>,
    /// Overrides `CHANNEL` on the conversation.
    pub channel: Option<String>,
    /// The contact token, if one was presented (INB-3).
    pub token: Option<Redacted<String>>,
    /// The offering field; blank and unrendered values are left out (INB-4).
    pub offering: Option<String>,
}

/// Why a body is refused with 400 (HTTP-22). No variant holds a value of the body.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadBody {
    /// No byte but white space.
    #[error("body is empty: send a JSON object with subscriber_id and text")]
    Empty,
    /// Broken JSON.
    #[error(
        "body is not valid JSON (line {line}, column {column}): send a JSON object with subscriber_id and text"
    )]
    NotJson {
        /// Counted from 1.
        line: usize,
        /// Counted from 1; 0 at the start of a line.
        column: usize,
    },
    /// JSON of another kind.
    #[error("body must be a JSON object with subscriber_id and text")]
    NotAnObject,
    /// A key that is not in the schema and looks like a name (INB-1).
    #[error("body has the unknown key {0}: remove it from the request in ManyChat")]
    UnknownKey(String),
    /// A key that is not in the schema and could be anything.
    #[error("body has an unknown key: remove it from the request in ManyChat")]
    UnreadableKey,
    /// A required key is absent.
    #[error("body/{0} is missing: add it to the request in ManyChat")]
    Missing(&'static str),
    /// A value of another type.
    #[error("body/{field} must be {expected}")]
    WrongType {
        /// The key.
        field: &'static str,
        /// What it must be.
        expected: &'static str,
    },
    /// A value beyond its bound.
    #[error("body/{field} is longer than {most} characters")]
    TooLong {
        /// The key.
        field: &'static str,
        /// Bound in UTF-16 units.
        most: usize,
    },
    /// A subscriber id that several contacts would share (GAP-CH-10).
    #[error(
        "body/subscriber_id is blank or was not filled in: send {{{{contact.id}}}} as ManyChat renders it"
    )]
    NoSubscriber,
}

impl BadBody {
    /// The `code` of the answer's body.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Empty => "EMPTY_BODY",
            Self::NotJson { .. } => "INVALID_JSON",
            _ => "INVALID_BODY",
        }
    }

    /// The `message` of the answer's body: the place and what to do.
    #[must_use]
    pub fn message(&self) -> String {
        self.to_string()
    }
}

/// Reads a body.
///
/// # Errors
/// The first thing that is wrong with it, syntax before schema.
pub fn parse(body: &[u8]) -> Result<MessageRequest, BadBody> {
    let text = String::from_utf8_lossy(body);
    let text = text.strip_prefix('\u{FEFF}').unwrap_or(&text);
    let first = text.trim_start_matches([' ', '\t', '\r', '\n']).bytes().next().ok_or(BadBody::Empty)?;
    let text = with_lone_surrogates_replaced(text);
    if first != b'{' {
        serde_json::from_str::<IgnoredAny>(&text).map_err(|error| not_json(&error))?;
        return Err(BadBody::NotAnObject);
    }
    let raw: MessageBody<'_> = serde_json::from_str(&text).map_err(|error| not_json(&error))?;
    raw.check()
}

fn not_json(error: &serde_json::Error) -> BadBody {
    BadBody::NotJson { line: error.line(), column: error.column() }
}

impl MessageRequest {
    /// The normalised message (INB-6). Recognises media, and warns when a link of the media host has a form that
    /// is not known (CHM-3, MEDIA-107).
    #[must_use]
    pub fn into_inbound(
        self,
        tenant: TenantId,
        default_channel: ChannelName,
        received_at: Timestamp,
    ) -> InboundMessage {
        let media = match recognise(self.text.expose()) {
            MediaLink::None => None,
            MediaLink::Media(media) => Some(media),
            MediaLink::Unmatched { shape } => {
                tracing::warn!(shape, "media_url_unmatched");
                None
            }
        };
        InboundMessage {
            tenant,
            subscriber: self.subscriber,
            text: self.text,
            channel: self.channel.unwrap_or_else(|| default_channel.as_str().to_owned()),
            contact_name: self.contact_name,
            locale: self.locale,
            token: self.token,
            media,
            offering: self.offering,
            received_at,
        }
    }
}

/// The value of each known key as it stands in the body; the last one when a key is repeated (INB-8). The comments
/// and attributes of its members are what the OpenAPI document says of them (OPS-3).
#[derive(Default, ToSchema)]
pub(super) struct MessageBody<'body> {
    /// ManyChat's id of the contact, `{{contact.id}}`
    #[schema(schema_with = subscriber_schema, required)]
    subscriber_id: Option<&'body RawValue>,
    /// What the contact wrote, `{{last_input_text}}`; at most 4096 UTF-16 units
    #[schema(value_type = String, max_length = 4096)]
    text: Option<&'body RawValue>,
    /// The contact's first name
    #[schema(value_type = Option<String>)]
    first_name: Option<&'body RawValue>,
    /// The contact's last name
    #[schema(value_type = Option<String>)]
    last_name: Option<&'body RawValue>,
    /// The contact's language and country, such as `en_GB`
    #[schema(value_type = Option<String>)]
    locale: Option<&'body RawValue>,
    /// Stored with a new conversation in place of `CHANNEL`
    #[schema(value_type = Option<String>)]
    channel: Option<&'body RawValue>,
    /// The contact token
    #[schema(value_type = Option<String>, max_length = 256)]
    ai_token: Option<&'body RawValue>,
    /// What the contact is buying
    #[schema(value_type = Option<String>, max_length = 256)]
    offering: Option<&'body RawValue>,
    /// Earlier name of `offering`
    #[schema(value_type = Option<String>, max_length = 256)]
    course: Option<&'body RawValue>,
    /// The first key that is none of these.
    #[schema(ignore)]
    unknown: Option<String>,
}

/// Text or a non-negative integer (DEC-35).
fn subscriber_schema() -> Schema {
    let number = ObjectBuilder::new().schema_type(Type::Integer).minimum(Some(0));
    Schema::OneOf(
        OneOfBuilder::new().item(ObjectBuilder::new().schema_type(Type::String)).item(number).build(),
    )
}

impl<'body> MessageBody<'body> {
    fn slot(&mut self, key: &str) -> Option<&mut Option<&'body RawValue>> {
        match key {
            "subscriber_id" => Some(&mut self.subscriber_id),
            "text" => Some(&mut self.text),
            "first_name" => Some(&mut self.first_name),
            "last_name" => Some(&mut self.last_name),
            "locale" => Some(&mut self.locale),
            "channel" => Some(&mut self.channel),
            "ai_token" => Some(&mut self.ai_token),
            "offering" => Some(&mut self.offering),
            "course" => Some(&mut self.course),
            _ => None,
        }
    }

    fn check(self) -> Result<MessageRequest, BadBody> {
        if let Some(key) = self.unknown {
            return Err(unknown_key(key));
        }
        let subscriber = subscriber("subscriber_id", self.subscriber_id)?;
        let text = required_text("text", self.text)?;
        let first_name = optional_text("first_name", self.first_name, usize::MAX)?;
        let last_name = optional_text("last_name", self.last_name, usize::MAX)?;
        let locale = optional_text("locale", self.locale, usize::MAX)?;
        let channel = optional_text("channel", self.channel, usize::MAX)?;
        let token = optional_text("ai_token", self.ai_token, LONGEST_VALUE)?;
        let offering = optional_text("offering", self.offering, LONGEST_VALUE)?;
        let course = optional_text("course", self.course, LONGEST_VALUE)?;
        Ok(MessageRequest {
            subscriber,
            text: ContactText::new(text),
            contact_name: joined_name(first_name, last_name),
            locale,
            channel: channel.filter(|name| !trim(name).is_empty()),
            token: token.filter(|token| !token.is_empty()).map(Redacted::new),
            offering: offering.or(course).filter(|value| !trim(value).is_empty() && !value.contains("{{")),
        })
    }
}

impl<'de: 'body, 'body> Deserialize<'de> for MessageBody<'body> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members;

        impl<'de> Visitor<'de> for Members {
            type Value = MessageBody<'de>;

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<MessageBody<'de>, A::Error> {
                let mut fields = MessageBody::default();
                while let Some(key) = members.next_key::<String>()? {
                    let value = members.next_value::<&'de RawValue>()?;
                    match fields.slot(&key) {
                        Some(slot) => *slot = Some(value),
                        None => fields.unknown = fields.unknown.or(Some(key)),
                    }
                }
                Ok(fields)
            }
        }

        deserializer.deserialize_map(Members)
    }
}

/// A key is shown only when it is short and looks like a name: anything else could be the contact's words.
fn unknown_key(key: String) -> BadBody {
    let part = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    let begins = key.bytes().next().is_some_and(|byte| byte.is_ascii_alphabetic() || byte == b'_');
    if begins && key.len() <= LONGEST_SHOWN_KEY && key.bytes().all(part) {
        BadBody::UnknownKey(key)
    } else {
        BadBody::UnreadableKey
    }
}

/// Text or a non-negative integer, whose digits are kept whatever their number (INB-7, DEC-35).
fn subscriber(field: &'static str, raw: Option<&RawValue>) -> Result<SubscriberId, BadBody> {
    let raw = raw.ok_or(BadBody::Missing(field))?.get();
    let wrong = BadBody::WrongType { field, expected: "a text or a non-negative integer" };
    let id = if raw.starts_with('"') {
        string(raw).ok_or(wrong)?
    } else if raw.bytes().all(|byte| byte.is_ascii_digit()) {
        raw.to_owned()
    } else {
        return Err(wrong);
    };
    let id = id.replace('\0', "");
    SubscriberId::new(&id).filter(|_| !trim(&id).is_empty()).ok_or(BadBody::NoSubscriber)
}

fn required_text(field: &'static str, raw: Option<&RawValue>) -> Result<String, BadBody> {
    let raw = raw.ok_or(BadBody::Missing(field))?.get();
    let text = string(raw).ok_or(BadBody::WrongType { field, expected: "a text" })?;
    bounded(field, text, LONGEST_TEXT)
}

/// `null` and absence are the same (INB-2).
fn optional_text(
    field: &'static str,
    raw: Option<&RawValue>,
    most: usize,
) -> Result<Option<String>, BadBody> {
    let Some(raw) = raw.map(RawValue::get).filter(|raw| *raw != "null") else { return Ok(None) };
    let text = string(raw).ok_or(BadBody::WrongType { field, expected: "a text or null" })?;
    bounded(field, text, most).map(Some)
}

fn bounded(field: &'static str, text: String, most: usize) -> Result<String, BadBody> {
    // A UTF-16 unit takes at least one byte of UTF-8.
    let fits = text.len() <= most || text.encode_utf16().count() <= most;
    // NUL characters count in the bound, as they were sent; the database refuses them (GAP-CH-16).
    if fits { Ok(text.replace('\0', "")) } else { Err(BadBody::TooLong { field, most }) }
}

fn string(raw: &str) -> Option<String> {
    raw.starts_with('"').then(|| serde_json::from_str(raw).ok()).flatten()
}

/// INB-5
fn joined_name(first: Option<String>, last: Option<String>) -> Option<Redacted<String>> {
    let parts: Vec<String> = [first, last]
        .into_iter()
        .flatten()
        .map(|part| trim(&part).to_owned())
        .filter(|part| !part.is_empty())
        .collect();
    (!parts.is_empty()).then(|| Redacted::new(parts.join(" ")))
}

/// White space as the web's languages see it: a byte order mark is one.
fn trim(text: &str) -> &str {
    text.trim_matches(|ch: char| ch.is_whitespace() || ch == '\u{FEFF}')
}

/// Replaces escapes of lone surrogates by that of U+FFFD: the same number of UTF-16 units (INB-8).
fn with_lone_surrogates_replaced(json: &str) -> Cow<'_, str> {
    if !(json.contains("\\ud") || json.contains("\\uD")) {
        return Cow::Borrowed(json);
    }
    let mut clean = String::with_capacity(json.len());
    let mut rest = json;
    while let Some(at) = rest.find('\\') {
        let (before, escape) = rest.split_at_checked(at).unwrap_or((rest, ""));
        clean.push_str(before);
        let taken = match surrogate(escape) {
            None => escape.char_indices().nth(2).map_or(escape.len(), |(end, _)| end),
            Some(Half::High) if surrogate(escape.get(6..).unwrap_or_default()) == Some(Half::Low) => 12,
            Some(_) => {
                clean.push_str("\\ufffd");
                rest = escape.get(6..).unwrap_or_default();
                continue;
            }
        };
        clean.push_str(escape.get(..taken).unwrap_or(escape));
        rest = escape.get(taken..).unwrap_or_default();
    }
    clean.push_str(rest);
    Cow::Owned(clean)
}

#[derive(PartialEq, Eq)]
enum Half {
    High,
    Low,
}

/// The half that the escape at the start of the text stands for, if it stands for one.
fn surrogate(escape: &str) -> Option<Half> {
    let hex = escape.strip_prefix("\\u")?.get(..4)?;
    match u16::from_str_radix(hex, 16).ok()? {
        0xD800..=0xDBFF => Some(Half::High),
        0xDC00..=0xDFFF => Some(Half::Low),
        _ => None,
    }
}

#[cfg(test)]
#[path = "request_tests.rs"]
mod tests;
