//! The blocks a request can be answered with, rendered before anything is recorded (GAP-CH-6).

use crate::channel::{self, BlockContext, InlinePlan, RenderError};

use super::context::{Snapshot, TurnContext};

/// What of a reply goes where.
#[derive(Debug)]
pub struct Delivery {
    /// Texts of the response.
    pub inline: Vec<String>,
    /// Texts that follow the response through the outbox; usually none.
    pub rest: Vec<String>,
    /// Texts of the outbox when nothing goes into a response: one delivery each, none too long.
    pub all: Vec<String>,
}

/// Renders answers under one configuration.
pub struct Answers<'ctx> {
    context: &'ctx TurnContext,
    snapshot: &'ctx Snapshot,
}

impl<'ctx> Answers<'ctx> {
    /// Answers under this configuration.
    #[must_use]
    pub fn of(context: &'ctx TurnContext, snapshot: &'ctx Snapshot) -> Self {
        Self { context, snapshot }
    }

    /// How a reply with these texts is delivered on this channel (CHC-3, CHC-4, GAP-CH-11).
    #[must_use]
    pub fn delivery(&self, texts: &[String]) -> Delivery {
        let InlinePlan { inline, rest } = channel::plan_inline(texts, self.context.settings.channel);
        let all = texts.iter().flat_map(|text| channel::split_long(text)).collect();
        Delivery { inline, rest, all }
    }

    /// The block of a reply that starts with these texts.
    ///
    /// # Errors
    /// As [`Self::texts`], and when a text of the whole reply is empty.
    pub fn reply(
        &self,
        texts: &[String],
        delivery: &Delivery,
        presented_secret: &str,
    ) -> Result<Vec<u8>, RenderError> {
        // The plan leaves empty texts out, but a reply that has one was never valid (OUT-7).
        match texts.iter().position(String::is_empty) {
            Some(empty) => Err(RenderError::EmptyText(empty)),
            None => self.texts(&delivery.inline, presented_secret),
        }
    }

    /// A block with these texts, folded to what the channel delivers (CHC-3).
    ///
    /// # Errors
    /// When the block breaks the platform's rules (OUT-7): answer the handoff.
    pub fn texts(&self, texts: &[String], presented_secret: &str) -> Result<Vec<u8>, RenderError> {
        let tools = self.snapshot.tenant.tools.as_ref();
        let offering = tools.and_then(crate::config::Tools::offering_field);
        let settings = &self.context.settings;
        let block = BlockContext {
            channel: settings.channel,
            public_base_url: &settings.public_base_url,
            presented_secret,
            token_field: &settings.token_field,
            offering_field: offering.map(|field| field.field.as_str()),
        };
        channel::render(texts, &block)
    }

    /// A block without messages (OUT-8).
    ///
    /// # Errors
    /// As [`Self::texts`].
    pub fn silent(&self, presented_secret: &str) -> Result<Vec<u8>, RenderError> {
        self.texts(&[], presented_secret)
    }

    /// The holding line (RACE-5).
    ///
    /// # Errors
    /// As [`Self::texts`].
    pub fn holding_line(&self, presented_secret: &str) -> Result<Vec<u8>, RenderError> {
        self.texts(
            std::slice::from_ref(&self.snapshot.tenant.rules.messages.acknowledgement),
            presented_secret,
        )
    }

    /// The escalation copy (ERR-1).
    ///
    /// # Errors
    /// As [`Self::texts`]; the caller answers HTTP-27 then.
    pub fn handoff(&self, presented_secret: &str) -> Result<Vec<u8>, RenderError> {
        self.texts(std::slice::from_ref(&self.snapshot.tenant.rules.messages.escalation), presented_secret)
    }
}
