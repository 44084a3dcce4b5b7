//! The wire: endpoints, parameters, and what an answer means. Pure, so that every rule of reading can be tested
//! without a socket (04 sections 1.2 and 1.3).

use std::fmt;
use std::time::Duration;

use reqwest::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::error::ManyChatError;
use super::request::{Action, Answer, Call, Command, ContactInfo};
use super::said::{Said, Unspeakable};
use crate::domain::ContactText;

/// An endpoint of ManyChat's API. Nothing below `/fb/page/` and no `sendContent` is among them (API-28, API-29).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Endpoint {
    /// Writes one custom field of one contact.
    SetField,
    /// Plays a flow for one contact.
    SendFlow,
    /// Adds a tag.
    AddTag,
    /// Removes a tag.
    RemoveTag,
    /// Reads a contact.
    GetInfo,
}

impl Endpoint {
    /// The path behind `MANYCHAT_API_BASE`.
    #[must_use]
    pub const fn path(self) -> &'static str {
        match self {
            Self::SetField => "/fb/subscriber/setCustomFieldByName",
            Self::SendFlow => "/fb/sending/sendFlow",
            Self::AddTag => "/fb/subscriber/addTagByName",
            Self::RemoveTag => "/fb/subscriber/removeTagByName",
            Self::GetInfo => "/fb/subscriber/getInfo",
        }
    }

    /// True for `GET`, whose parameters are the query; all others are `POST` with a JSON body (API-7).
    pub(super) const fn is_read(self) -> bool {
        matches!(self, Self::GetInfo)
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.path())
    }
}

/// A body. The subscriber id is a JSON string always (API-7).
#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum Parameters<'call> {
    Field { subscriber_id: &'call str, field_name: &'call str, field_value: &'call str },
    Flow { subscriber_id: &'call str, flow_ns: &'call str },
    Tag { subscriber_id: &'call str, tag_name: &'call str },
    Contact { subscriber_id: &'call str },
}

impl Action {
    /// Where its first call goes.
    #[must_use]
    pub const fn endpoint(&self) -> Endpoint {
        match self {
            Self::SendText { .. } | Self::SetField { .. } | Self::WriteToken { .. } => Endpoint::SetField,
            Self::SendFlow { .. } => Endpoint::SendFlow,
            Self::AddTag { .. } => Endpoint::AddTag,
            Self::RemoveTag { .. } => Endpoint::RemoveTag,
            Self::GetInfo => Endpoint::GetInfo,
        }
    }
}

impl Call {
    /// Where this call goes.
    #[must_use]
    pub const fn endpoint(&self) -> Endpoint {
        match &self.command {
            Command::SetField { .. } | Command::WriteToken { .. } => Endpoint::SetField,
            Command::SendFlow { .. } => Endpoint::SendFlow,
            Command::AddTag { .. } => Endpoint::AddTag,
            Command::RemoveTag { .. } => Endpoint::RemoveTag,
            Command::GetInfo => Endpoint::GetInfo,
        }
    }

    pub(super) fn parameters(&self) -> Parameters<'_> {
        let subscriber_id = self.contact.expose();
        match &self.command {
            Command::SetField { field, value } => {
                Parameters::Field { subscriber_id, field_name: field, field_value: value.expose() }
            }
            Command::WriteToken { field, token } => {
                Parameters::Field { subscriber_id, field_name: field, field_value: token.expose() }
            }
            Command::SendFlow { flow_ns } => Parameters::Flow { subscriber_id, flow_ns },
            Command::AddTag { tag } | Command::RemoveTag { tag } => {
                Parameters::Tag { subscriber_id, tag_name: tag }
            }
            Command::GetInfo => Parameters::Contact { subscriber_id },
        }
    }

    /// What ManyChat's words must not repeat to anybody: whom it is for and the contact's or model's words. Names
    /// that the tenant configured stay: the operator needs them to find the mistake.
    fn unspeakable<'call>(&'call self, key: &'call str) -> Unspeakable<'call> {
        let mut parts = vec![key];
        let mut names = Vec::new();
        match &self.command {
            Command::SetField { field, value } => {
                parts.push(value.expose());
                names.push(field.as_str());
            }
            Command::WriteToken { token, .. } => parts.push(token.expose()),
            Command::SendFlow { flow_ns: name }
            | Command::AddTag { tag: name }
            | Command::RemoveTag { tag: name } => names.push(name.as_str()),
            Command::GetInfo => {}
        }
        parts.push(self.contact.expose());
        Unspeakable { parts, names, all: matches!(self.command, Command::WriteToken { .. }) }
    }
}

/// An answer as it came.
pub(super) struct Received<'wire> {
    pub(super) status: StatusCode,
    pub(super) retry_after: Option<Duration>,
    pub(super) body: &'wire [u8],
}

/// The keys of any answer, each looked at only when it matters.
#[derive(Default, Deserialize)]
struct Envelope<'body> {
    #[serde(borrow, default)]
    status: Option<&'body RawValue>,
    #[serde(borrow, default)]
    message: Option<&'body RawValue>,
    #[serde(borrow, default)]
    code: Option<&'body RawValue>,
    #[serde(borrow, default)]
    details: Option<&'body RawValue>,
    #[serde(borrow, default)]
    data: Option<&'body RawValue>,
}

/// Applies API-42 to API-44 in their order. `key` is cut out of whatever ManyChat says.
pub(super) fn read(call: &Call, key: &str, received: &Received<'_>) -> Result<Answer, ManyChatError> {
    let envelope = envelope(received.body);
    let says_error = envelope.as_ref().is_some_and(|body| text(body.status).as_deref() == Some("error"));
    if !received.status.is_success() || says_error {
        return Err(refusal(call, key, received, &envelope.unwrap_or_default()));
    }
    let wrong = |problem| ManyChatError::Response {
        endpoint: call.endpoint(),
        status: received.status.as_u16(),
        problem,
    };
    let Some(envelope) = envelope else { return Err(wrong(what_is_it(received.body))) };
    match call.command {
        Command::GetInfo => {
            envelope.data.and_then(contact).map(Answer::Contact).ok_or_else(|| wrong(NO_CONTACT))
        }
        _ => Ok(Answer::Accepted),
    }
}

const NO_CONTACT: &str = "without the contact's data";

/// `None` when the body is not a JSON object.
fn envelope(body: &[u8]) -> Option<Envelope<'_>> {
    let is_object = body.trim_ascii_start().first() == Some(&b'{');
    is_object.then(|| serde_json::from_slice(body).ok()).flatten()
}

fn what_is_it(body: &[u8]) -> &'static str {
    match serde_json::from_slice::<serde::de::IgnoredAny>(body) {
        Ok(_) => "the body is not a JSON object as promised",
        Err(_) => "the body is not JSON",
    }
}

fn refusal(call: &Call, key: &str, received: &Received<'_>, envelope: &Envelope<'_>) -> ManyChatError {
    let hidden = call.unspeakable(key);
    let said = |words: &str, details: &[String]| Said::clean(words, details, &hidden);
    let details = details(envelope.details);
    let message = text(envelope.message).filter(|message| !message.trim().is_empty());
    let body = readable(received.body);
    let said = match message {
        Some(message) => said(&message, &details),
        None if body.trim().is_empty() => {
            Said::plainly(received.status.canonical_reason().unwrap_or("no reason given"))
        }
        None => said(&body, &details),
    };
    ManyChatError::Api {
        endpoint: call.endpoint(),
        status: received.status.as_u16(),
        code: envelope.code.and_then(number),
        said,
        retry_after: received.retry_after,
    }
}

/// A body as it can be quoted. JSON is written anew, without escapes that would hide what must not be repeated.
fn readable(body: &[u8]) -> String {
    let json: Result<serde_json::Value, _> = serde_json::from_slice(body);
    json.map_or_else(|_| String::from_utf8_lossy(body).into_owned(), |value| value.to_string())
}

/// The string behind a key; `None` for anything else (GAP-DL-11).
fn text(value: Option<&RawValue>) -> Option<String> {
    serde_json::from_str(value?.get()).ok()
}

/// A number, also one that is written as a string (API-32).
fn number(value: &RawValue) -> Option<i64> {
    value.get().trim_matches('"').parse().ok()
}

#[derive(Deserialize)]
struct Details {
    #[serde(default)]
    messages: Vec<Detail>,
}

#[derive(Deserialize)]
struct Detail {
    #[serde(default)]
    message: String,
}

fn details(value: Option<&RawValue>) -> Vec<String> {
    let parsed: Option<Details> = value.and_then(|raw| serde_json::from_str(raw.get()).ok());
    parsed.map_or_else(Vec::new, |found| found.messages.into_iter().map(|detail| detail.message).collect())
}

/// Of a contact, only what may leave the client (API-31). Every other key is skipped unread.
#[derive(Deserialize)]
struct Profile<'body> {
    #[serde(default)]
    tags: Option<Vec<Tag>>,
    #[serde(borrow, default)]
    custom_fields: Option<Vec<Field<'body>>>,
}

#[derive(Deserialize)]
struct Tag {
    name: String,
}

#[derive(Deserialize)]
struct Field<'body> {
    name: String,
    #[serde(borrow, default)]
    value: Option<&'body RawValue>,
}

/// `None` when it has not the promised shape.
fn contact(data: &RawValue) -> Option<ContactInfo> {
    if !data.get().starts_with('{') {
        return None;
    }
    let profile: Profile<'_> = serde_json::from_str(data.get()).ok()?;
    let tags = profile.tags.unwrap_or_default().into_iter().map(|tag| tag.name).collect();
    let fields = profile.custom_fields.unwrap_or_default();
    let fields = fields.into_iter().map(|field| (field.name, field.value.map(value_text))).collect();
    Some(ContactInfo { tags, fields })
}

/// A value in its text form: strings as they are, numbers without a needless fraction, everything else as written
/// (READ-2).
fn value_text(value: &RawValue) -> ContactText {
    let written = value.get();
    if let Ok(string) = serde_json::from_str::<String>(written) {
        return ContactText::new(string);
    }
    let fraction = written.contains(['.', 'e', 'E']).then(|| written.parse::<f64>().ok()).flatten();
    fraction.map_or_else(|| ContactText::new(written), |number| ContactText::new(number.to_string()))
}

#[cfg(test)]
#[path = "wire_tests.rs"]
mod tests;
