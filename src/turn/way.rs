//! How a decided reply leaves the turn: in the response, or why not.

/// Where the conversation sends a reply. Through the outbox Settle sends it all the same when a reply of the contact is
/// queued already (ARC-43).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// It is in time: into the response.
    Response,
    /// It is in time, but the reply before it has not left our hands yet: behind that one, through the outbox (LANE-6,
    /// ARC-43).
    BehindReply,
    /// It is in time, but a flow of the turn plays past the deadline: through the outbox, due when that ends (WAIT-2).
    BehindFlow,
    /// The race is lost, or no request waits: through the outbox.
    Late {
        /// The request was answered without a message; false when it got the holding line, and where there is none.
        silenced: bool,
    },
}

impl Way {
    /// True when the request cannot have the reply any more (RACE-4).
    #[must_use]
    pub const fn is_late(self) -> bool {
        matches!(self, Self::Late { .. })
    }

    /// True when the reply goes through the outbox whatever Settle finds there.
    pub(super) const fn is_outbox(self) -> bool {
        !matches!(self, Self::Response)
    }

    /// Whether the request of a reply that was queued is answered without a message.
    pub(super) const fn leaves_silence(self) -> bool {
        match self {
            Self::Response | Self::BehindReply | Self::BehindFlow => true,
            Self::Late { silenced } => silenced,
        }
    }
}
