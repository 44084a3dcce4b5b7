//! The channel port: what comes in from a messaging channel and what goes back to it.
//! Owns: the inbound message, capabilities, media links, formatting, folding and splitting, the Dynamic Block.
//! Never: speaks HTTP, asks a model, reads the database, or calls ManyChat.

mod capabilities;
mod dynamic_block;
mod formatting;
mod inbound;
mod instagram;
mod media_link;
mod messenger;
mod split;
mod telegram;
mod whatsapp;

pub use capabilities::{Capabilities, Profile, profile};
pub use dynamic_block::{
    Action, BlockContext, Button, CALLBACK_SECONDS, Callback, CallbackHeaders, CallbackPayload, Content,
    DynamicBlock, FieldValue, MESSAGE_PATH, Message, QuickReply, RenderError, fold, render, validate,
};
pub use formatting::{MarkStyle, convert};
pub use inbound::{InboundMessage, Media};
pub use media_link::{MEDIA_HOST, MediaLink, recognise};
pub use split::{InlinePlan, LONGEST_TEXT, plan_inline, split_long};
