//! ManyChat's Dynamic Block v2: what a response on the message route consists of (OUT-1 to OUT-8, CHC-3, CHC-6,
//! CHC-7, DEC-3). The types know more than the agent emits, so that a block can be checked and read back.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa::openapi::schema::{ObjectBuilder, OneOfBuilder, Schema, Type};

use super::{Capabilities, profile};
use crate::domain::ChannelName;

/// Path of the message route, appended to `PUBLIC_BASE_URL` (OUT-2).
pub const MESSAGE_PATH: &str = "/v1/channels/manychat/message";
/// How long a callback lives: 24 hours, which is also the platform's most (OUT-2).
pub const CALLBACK_SECONDS: u32 = 86_400;

const VERSION: &str = "v2";
const MOST_MESSAGES: usize = 10;
const MOST_ACTIONS: usize = 5;
const MOST_QUICK_REPLIES: usize = 11;

/// The whole response body.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DynamicBlock {
    /// Always `v2`.
    pub version: String,
    /// What the contact gets and where the next message goes.
    pub content: Content,
}

/// The block's content.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Content {
    /// The channel's name; absent for Messenger (DEC-3).
    #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
    pub channel: Option<String>,
    /// At most ten; empty is a silent response (OUT-8).
    pub messages: Vec<Message>,
    /// At most five; never emitted by the agent (OUT-6).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actions: Option<Vec<Action>>,
    /// At most eleven; must be absent where the channel has none (OUT-6).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quick_replies: Option<Vec<QuickReply>>,
    /// Present in every answer of the message route (OUT-1).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub external_message_callback: Option<Callback>,
}

/// One message of the block (CHC-7).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum Message {
    /// Words.
    Text {
        /// At least one character.
        text: String,
        /// Buttons below it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        buttons: Option<Vec<Button>>,
    },
    /// A picture.
    Image {
        /// An `https` address.
        url: String,
        /// Buttons below it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        buttons: Option<Vec<Button>>,
    },
    /// A file.
    File {
        /// An `https` address.
        url: String,
    },
}

/// A button below a message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum Button {
    /// Opens an `https` address.
    Url {
        /// What the button says.
        caption: String,
        /// The address.
        url: String,
    },
    /// Calls a number.
    Call {
        /// What the button says.
        caption: String,
        /// The number.
        phone: String,
    },
    /// Starts a flow.
    Flow {
        /// What the button says.
        caption: String,
        /// The flow's name.
        target: String,
    },
    /// Goes to a node of the flow.
    Node {
        /// What the button says.
        caption: String,
        /// The node's name.
        target: String,
    },
}

/// Something ManyChat does to the contact.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "action", rename_all = "snake_case", deny_unknown_fields)]
pub enum Action {
    /// Adds a tag.
    AddTag {
        /// ManyChat's name of the tag.
        tag_name: String,
    },
    /// Removes a tag.
    RemoveTag {
        /// ManyChat's name of the tag.
        tag_name: String,
    },
    /// Sets a custom field.
    SetFieldValue {
        /// ManyChat's name of the field.
        field_name: String,
        /// The new value.
        #[schema(schema_with = field_value_schema)]
        value: FieldValue,
    },
    /// Empties a custom field.
    UnsetFieldValue {
        /// ManyChat's name of the field.
        field_name: String,
    },
}

/// Value of a custom field.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum FieldValue {
    /// Text.
    Text(String),
    /// A number.
    Number(serde_json::Number),
    /// Yes or no.
    Flag(bool),
}

/// CHC-7: string, number or boolean.
fn field_value_schema() -> Schema {
    let kind = |kind| ObjectBuilder::new().schema_type(kind);
    let kinds =
        OneOfBuilder::new().item(kind(Type::String)).item(kind(Type::Number)).item(kind(Type::Boolean));
    Schema::OneOf(kinds.build())
}

/// An answer the contact can tap.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum QuickReply {
    /// Starts a flow.
    Flow {
        /// What it says.
        caption: String,
        /// The flow's name.
        target: String,
    },
    /// Goes to a node of the flow.
    Node {
        /// What it says.
        caption: String,
        /// The node's name.
        target: String,
    },
}

/// Where ManyChat sends the contact's next message (OUT-2).
#[derive(Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Callback {
    /// Our message route.
    pub url: String,
    /// Always `post`.
    pub method: String,
    /// The credential.
    pub headers: CallbackHeaders,
    /// What ManyChat fills in.
    pub payload: CallbackPayload,
    /// Seconds, 1 to 86 400.
    pub timeout: u32,
}

/// Headers of the callback.
#[derive(Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CallbackHeaders {
    /// `Bearer` and the secret that this caller presented (AUTH-6).
    #[serde(rename = "Authorization")]
    pub authorization: String,
}

/// Placeholders that ManyChat replaces (OUT-3, OUT-4).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CallbackPayload {
    /// The contact's next message.
    pub text: String,
    /// The contact's id.
    pub subscriber_id: String,
    /// The field of `MANYCHAT_TOKEN_FIELD`.
    pub ai_token: String,
    /// The tenant's offering field, when there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offering: Option<String>,
}

impl std::fmt::Debug for Callback {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Callback")
            .field("url", &self.url)
            .field("timeout", &self.timeout)
            .finish_non_exhaustive()
    }
}

/// What a block needs besides its texts.
#[derive(Clone, Copy)]
pub struct BlockContext<'request> {
    /// `CHANNEL`.
    pub channel: ChannelName,
    /// `PUBLIC_BASE_URL`; trailing slashes do no harm (GAP-CH-12).
    pub public_base_url: &'request str,
    /// The secret this caller presented (AUTH-6).
    pub presented_secret: &'request str,
    /// `MANYCHAT_TOKEN_FIELD`.
    pub token_field: &'request str,
    /// ManyChat's name of the tenant's offering field, when there is one (OUT-4).
    pub offering_field: Option<&'request str>,
}

/// Why a block cannot be sent; the route answers with the handoff instead (OUT-7, ERR-5).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RenderError {
    /// A text without a character.
    #[error("content.messages.{0}: the text is empty; leave the message out")]
    EmptyText(usize),
    /// More of something than the platform takes.
    #[error("content.{what}: {count} are more than the {most} the channel takes")]
    TooMany {
        /// Which list.
        what: &'static str,
        /// How many there are.
        count: usize,
        /// How many are allowed.
        most: usize,
    },
    /// Quick replies on a channel that has none.
    #[error("content.quick_replies: the channel has none; leave the key out")]
    QuickReplies,
    /// An address that is not `https`.
    #[error("{0}: the address must begin with https://")]
    NotHttps(&'static str),
    /// A callback that would never or always be valid.
    #[error("content.external_message_callback.timeout: must be 1 to 86400 seconds")]
    Timeout,
    /// The version is not the one we speak.
    #[error("version: must be \"v2\"")]
    Version,
    /// The block could not be written as JSON.
    #[error("the block cannot be written as JSON")]
    Json,
}

/// Folds a reply to at most `limit` texts: the first stay, the others are joined to the last with a blank line
/// (CHC-3). Nothing is dropped. A `limit` of 0 counts as 1.
#[must_use]
pub fn fold(texts: &[String], limit: usize) -> Vec<String> {
    let limit = limit.max(1);
    if texts.len() <= limit {
        return texts.to_vec();
    }
    let (kept, folded) = texts.split_at(limit - 1);
    kept.iter().cloned().chain([folded.join("\n\n")]).collect()
}

/// The body of a 200: the texts folded for the channel, the callback registered (OUT-1). No text is a silent
/// response (OUT-8).
///
/// # Errors
/// When the block would break the platform's schema; nothing must be sent then (OUT-7).
pub fn render(texts: &[String], context: &BlockContext<'_>) -> Result<Vec<u8>, RenderError> {
    let profile = profile(context.channel);
    if let Some(empty) = texts.iter().position(String::is_empty) {
        return Err(RenderError::EmptyText(empty));
    }
    let messages = fold(texts, profile.capabilities.messages)
        .into_iter()
        .map(|text| Message::Text { text, buttons: None })
        .collect();
    let block = DynamicBlock {
        version: VERSION.to_owned(),
        content: Content {
            channel: profile.typed_content.then(|| profile.name.as_str().to_owned()),
            messages,
            actions: None,
            quick_replies: None,
            external_message_callback: Some(callback(context)),
        },
    };
    validate(&block, &profile.capabilities)?;
    serde_json::to_vec(&block).map_err(|_| RenderError::Json)
}

fn callback(context: &BlockContext<'_>) -> Callback {
    let placeholder = |name: &str| format!("{{{{{name}}}}}");
    Callback {
        url: format!("{}{MESSAGE_PATH}", context.public_base_url.trim_end_matches('/')),
        method: "post".to_owned(),
        headers: CallbackHeaders { authorization: format!("Bearer {}", context.presented_secret) },
        payload: CallbackPayload {
            text: placeholder("last_input_text"),
            subscriber_id: placeholder("contact.id"),
            ai_token: placeholder(context.token_field),
            offering: context.offering_field.map(placeholder),
        },
        timeout: CALLBACK_SECONDS,
    }
}

/// Checks a block against the platform's limits and the channel's (CHC-6, OUT-6, OUT-7).
///
/// # Errors
/// The first limit that is broken, with its place.
pub fn validate(block: &DynamicBlock, capabilities: &Capabilities) -> Result<(), RenderError> {
    let content = &block.content;
    if block.version != VERSION {
        return Err(RenderError::Version);
    }
    at_most("messages", content.messages.len(), MOST_MESSAGES)?;
    for (index, message) in content.messages.iter().enumerate() {
        validate_message(index, message, capabilities)?;
    }
    at_most("actions", content.actions.as_ref().map_or(0, Vec::len), MOST_ACTIONS.min(capabilities.actions))?;
    match &content.quick_replies {
        Some(_) if !capabilities.quick_replies => return Err(RenderError::QuickReplies),
        Some(replies) => at_most("quick_replies", replies.len(), MOST_QUICK_REPLIES)?,
        None => {}
    }
    content.external_message_callback.as_ref().map_or(Ok(()), validate_callback)
}

fn validate_message(index: usize, message: &Message, capabilities: &Capabilities) -> Result<(), RenderError> {
    let (buttons, url) = match message {
        Message::Text { text, .. } if text.is_empty() => return Err(RenderError::EmptyText(index)),
        Message::Text { buttons, .. } => (buttons.as_deref(), None),
        Message::Image { url, buttons } => (buttons.as_deref(), Some(url)),
        Message::File { url } => (None, Some(url)),
    };
    url.map_or(Ok(()), |url| https("content.messages.url", url))?;
    let buttons = buttons.unwrap_or_default();
    at_most("messages.buttons", buttons.len(), capabilities.buttons_per_message)?;
    buttons.iter().try_for_each(|button| match button {
        Button::Url { url, .. } => https("content.messages.buttons.url", url),
        Button::Call { .. } | Button::Flow { .. } | Button::Node { .. } => Ok(()),
    })
}

fn validate_callback(callback: &Callback) -> Result<(), RenderError> {
    https("content.external_message_callback.url", &callback.url)?;
    if (1..=CALLBACK_SECONDS).contains(&callback.timeout) { Ok(()) } else { Err(RenderError::Timeout) }
}

fn at_most(what: &'static str, count: usize, most: usize) -> Result<(), RenderError> {
    if count <= most { Ok(()) } else { Err(RenderError::TooMany { what, count, most }) }
}

fn https(place: &'static str, url: &str) -> Result<(), RenderError> {
    if url.starts_with("https://") { Ok(()) } else { Err(RenderError::NotHttps(place)) }
}

#[cfg(test)]
#[path = "dynamic_block_tests.rs"]
mod tests;
