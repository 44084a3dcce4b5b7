//! Closed vocabularies. The database stores them as plain text without a check constraint (06 section 2), so
//! these types are what keeps a wrong word out.

use std::fmt;
use std::str::FromStr;

/// A word that is not in its vocabulary; it names the vocabulary and the words that are.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown {kind}, known are: {known}")]
pub struct UnknownName {
    /// What was looked for, for example `channel`.
    pub kind: &'static str,
    /// All words of the vocabulary, separated by commas.
    pub known: String,
}

macro_rules! vocabulary {
    ($(#[$doc:meta])* $name:ident, $kind:literal, { $($(#[$vdoc:meta])* $variant:ident = $word:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, serde::Serialize, serde::Deserialize)]
        pub enum $name {
            $($(#[$vdoc])* #[serde(rename = $word)] $variant),+
        }

        impl $name {
            /// All values, in the order their documents list them.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The word as stored and as written in files.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word),+ }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str(self.as_str())
            }
        }

        impl FromStr for $name {
            type Err = UnknownName;

            fn from_str(word: &str) -> Result<Self, UnknownName> {
                Self::ALL.iter().copied().find(|value| value.as_str() == word).ok_or_else(|| UnknownName {
                    kind: $kind,
                    known: Self::ALL.iter().map(|value| value.as_str()).collect::<Vec<_>>().join(", "),
                })
            }
        }
    };
}

vocabulary! {
    /// Messaging channels with a capability profile (CHC-1).
    ChannelName, "channel", {
        /// WhatsApp, the default.
        Whatsapp = "whatsapp",
        /// Instagram direct messages.
        Instagram = "instagram",
        /// Facebook Messenger.
        Messenger = "messenger",
        /// Telegram.
        Telegram = "telegram",
    }
}

vocabulary! {
    /// Providers a model name may begin with (PROV-2).
    Provider, "model provider", {
        /// Anthropic's Messages API.
        Anthropic = "anthropic",
        /// OpenAI.
        OpenAi = "openai",
        /// Google's Generative Language API.
        Google = "google",
        /// A local model behind Ollama.
        Ollama = "ollama",
        /// The built-in model that answers offline (01 section 15).
        Mock = "mock",
    }
}

vocabulary! {
    /// How a request proved its contact (TOK-10).
    Binding, "binding", {
        /// It carried the contact's current or previous token.
        Bound = "bound",
        /// The contact has no token yet.
        First = "first",
        /// A token exists and the request did not carry it.
        Unbound = "unbound",
    }
}

vocabulary! {
    /// Why a person must take over (ESC-1).
    EscalationReason, "escalation reason", {
        /// A discount, haggling, or a payment plan nobody published.
        PriceNegotiation = "price_negotiation",
        /// Dissatisfaction, dispute or refund.
        Complaint = "complaint",
        /// The catalog cannot answer.
        OutOfScope = "out_of_scope",
        /// The contact asks for a person.
        ExplicitRequest = "explicit_request",
        /// Ambiguous, or something went wrong.
        LowConfidence = "low_confidence",
        /// The contact says they paid.
        PaymentReported = "payment_reported",
    }
}

vocabulary! {
    /// What became of a turn; `turns.outcome` of agent rows (REP-8).
    Outcome, "outcome", {
        /// The model won the race and did not escalate.
        AnsweredInline = "answered_inline",
        /// The scripted opening matched.
        AnsweredScripted = "answered_scripted",
        /// The race was lost and the result settled afterwards.
        Deferred = "deferred",
        /// A guard denied the turn before the model.
        EscalatedPrecheck = "escalated_precheck",
        /// The settled model result escalates.
        EscalatedModel = "escalated_model",
        /// Reserved; never written.
        FailedValidation = "failed_validation",
        /// The model call failed, or the turn ended in an error.
        Error = "error",
        /// The tenant's "please type it" text was sent.
        MediaFallback = "media_fallback",
        /// A follow-up was sent.
        NudgeSent = "nudge_sent",
        /// A follow-up was decided against.
        NudgeSkipped = "nudge_skipped",
    }
}

vocabulary! {
    /// Whose words a turn row holds.
    Role, "role", {
        /// The contact.
        User = "user",
        /// This service.
        Agent = "agent",
    }
}

vocabulary! {
    /// What kind of file a message was (CHM-2).
    MediaKind, "media kind", {
        /// A voice note.
        Audio = "audio",
        /// A picture.
        Image = "image",
        /// A video.
        Video = "video",
        /// Anything else.
        Unsupported = "unsupported",
    }
}

vocabulary! {
    /// Sales funnel stages in order (TOOL-10).
    Stage, "funnel stage", {
        /// Nothing recorded yet.
        New = "new",
        /// Needs are being found out.
        Qualifying = "qualifying",
        /// Interest is being built.
        Nurturing = "nurturing",
        /// An offering was proposed.
        Offered = "offered",
        /// Ready to pay.
        Prepared = "prepared",
        /// The payment link went out; written by the server alone.
        LinkSent = "link_sent",
    }
}

vocabulary! {
    /// Whether the contact means to buy (TOOL-11).
    Intent, "intent", {
        /// Came for another reason.
        NotProspect = "not_prospect",
        /// Thinks of buying.
        Prospect = "prospect",
    }
}

impl MediaKind {
    /// What stands in `turns.text` until a transcript replaces it (CHM-5, WRITE-1).
    #[must_use]
    pub const fn marker(self) -> &'static str {
        match self {
            Self::Audio => "[voice note]",
            Self::Image => "[image]",
            Self::Video => "[video]",
            Self::Unsupported => "[media]",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// ENV-24, CHC-1: an unknown word lists the known ones.
    #[test]
    fn an_unknown_word_lists_the_vocabulary() {
        let error = "signal".parse::<ChannelName>().unwrap_err();
        assert_eq!(error.to_string(), "unknown channel, known are: whatsapp, instagram, messenger, telegram");
    }

    /// LANG-3, ESC-1, 01/REP-8, GAP-DB-4: the words are English identifiers, the same for every tenant, and no others can be
    /// written.
    #[test]
    fn the_words_are_fixed() {
        fn words<T: fmt::Display>(all: &[T]) -> String {
            all.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
        }
        let known =
            "price_negotiation complaint out_of_scope explicit_request low_confidence payment_reported";
        assert_eq!(words(EscalationReason::ALL), known);
        let known = "answered_inline answered_scripted deferred escalated_precheck escalated_model failed_validation \
                     error media_fallback nudge_sent nudge_skipped";
        assert_eq!(words(Outcome::ALL), known);
        assert!("Deferred".parse::<Outcome>().is_err() && "queja".parse::<EscalationReason>().is_err());
    }

    /// ESC-1, REP-8: words round-trip.
    #[test]
    fn every_word_parses_back_to_its_value() {
        for reason in EscalationReason::ALL {
            assert_eq!(reason.as_str().parse(), Ok(*reason));
        }
        for outcome in Outcome::ALL {
            assert_eq!(outcome.as_str().parse(), Ok(*outcome));
        }
    }
}
