//! `rules.json`: behaviour and limits (05 section 5).

/// The tenant's rules with every default filled in.
#[derive(Clone, Debug, PartialEq)]
pub struct Rules {
    /// Texts a contact can receive.
    pub messages: Messages,
    /// A model confidence strictly below this hands off; 0 to 1.
    pub confidence_threshold: f64,
    /// Turns since the last idle gap; at least 1.
    pub max_turns_per_conversation: u32,
    /// Hours of silence that restart the turn cap; at least 1.
    pub idle_reset_hours: u32,
    /// How far back history reaches, in days; at least 1.
    pub history_days: u32,
    /// Substrings that hand off before the model.
    pub escalation_keywords: Vec<String>,
    /// The scripted opening, when configured.
    pub opening_trigger: Option<OpeningTrigger>,
    /// Daily caps of the tenant.
    pub budget: Budget,
    /// Hourly limit of a contact.
    pub rate_limit: RateLimit,
    /// The weekly learning job, when configured.
    pub learning: Option<Learning>,
    /// How messages that arrive together are answered (DEC-5).
    pub burst: Burst,
    /// Silence of the agent after a handoff, when configured (DEC-9).
    pub takeover: Option<Takeover>,
    /// Tag that calls a person, when configured (DEC-25).
    pub handoff: Option<HandoffRule>,
    /// Days after which `retention run` deletes; never below `history_days` (DEC-13).
    pub retention_days: Option<u32>,
    /// Whether a turn whose message does not prove its contact is offered tools (TSET-10); off withholds them (LIM-17).
    pub unbound_tools: bool,
}

impl Rules {
    /// Every text of these rules that a contact can receive word for word.
    pub fn copy(&self) -> impl Iterator<Item = &str> {
        let messages = &self.messages;
        let opening = self.opening_trigger.as_ref().map(|trigger| trigger.message.as_str());
        let optional = [messages.media_fallback.as_deref(), messages.closer.as_deref(), opening];
        [messages.acknowledgement.as_str(), &messages.escalation]
            .into_iter()
            .chain(optional.into_iter().flatten())
    }
}

/// Texts a contact can receive; none has a default in source (CFG-7).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Messages {
    /// The holding line.
    pub acknowledgement: String,
    /// The escalation copy, sent on every handoff.
    pub escalation: String,
    /// Asks to type instead of sending media; without it media hands off.
    pub media_fallback: Option<String>,
    /// Takes the place of a reply that repeats an earlier one word for word.
    pub closer: Option<String>,
}

/// Whole messages that are answered word for word without the model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpeningTrigger {
    /// At least one; compared trimmed and lower-cased with the whole message.
    pub keywords: Vec<String>,
    /// The answer.
    pub message: String,
}

/// Daily caps per tenant, by the UTC day.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Budget {
    /// Input plus output tokens; at least 1.
    pub daily_token_cap: u64,
    /// US dollars; above zero.
    pub daily_cost_cap_usd: f64,
}

/// Limits per contact.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateLimit {
    /// Guarded messages in one UTC clock hour; at least 1.
    pub turns_per_subscriber_per_hour: u32,
}

/// Settings of the weekly learning job.
#[derive(Clone, Debug, PartialEq)]
pub struct Learning {
    /// Language the insights are written in.
    pub language: String,
    /// ManyChat tag of a converted contact; never shown to the model.
    pub converted_tag: String,
    /// Most a run may cost, in US dollars; above zero.
    pub max_run_cost_usd: f64,
}

/// Messages of one contact that wait behind a running turn (DEC-5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Burst {
    /// Whether they are answered together by one turn.
    pub answer_together: bool,
    /// How long to wait for another message before the model starts; 0 to 5000 ms.
    pub quiet_ms: u32,
}

/// When the agent stays silent after a handoff (DEC-9). At least one condition is set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Takeover {
    /// Minutes without a new message from the agent after which it answers again.
    pub pause_minutes: Option<u32>,
    /// ManyChat tag that keeps the agent silent while the contact has it.
    pub tag: Option<String>,
}

/// How a person is called after a handoff (DEC-25).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HandoffRule {
    /// ManyChat tag the service adds.
    pub tag: String,
}
