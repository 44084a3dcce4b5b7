//! What each channel can do, as data keyed by its name (CHC-1, CAP-1 to CAP-3).

use crate::domain::ChannelName;

use super::{MarkStyle, instagram, messenger, telegram, whatsapp};

/// Everything that differs between channels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Profile {
    /// The channel's name.
    pub name: ChannelName,
    /// Its limits.
    pub capabilities: Capabilities,
    /// How it shows emphasis (DEC-4).
    pub marks: MarkStyle,
    /// Whether the Dynamic Block names the channel in `content.type` (DEC-3).
    pub typed_content: bool,
}

/// Limits of one response on a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// Whether the key `quick_replies` may be present (OUT-6).
    pub quick_replies: bool,
    /// Most buttons below one message.
    pub buttons_per_message: usize,
    /// Messages that are really delivered, at least 1; more are folded into the last (CHC-2, CHC-3).
    pub messages: usize,
    /// Most actions.
    pub actions: usize,
}

/// The profile of a channel.
#[must_use]
pub const fn profile(channel: ChannelName) -> &'static Profile {
    match channel {
        ChannelName::Whatsapp => &whatsapp::PROFILE,
        ChannelName::Instagram => &instagram::PROFILE,
        ChannelName::Messenger => &messenger::PROFILE,
        ChannelName::Telegram => &telegram::PROFILE,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// CHC-1, CHC-2, 05/CAP-1: the table of 03 section 6.1, line by line.
    #[test]
    fn the_table_of_capabilities_is_the_documented_one() {
        let rows = [
            (ChannelName::Whatsapp, false, 3, 1, 5),
            (ChannelName::Instagram, true, 3, 10, 5),
            (ChannelName::Messenger, true, 3, 10, 5),
            (ChannelName::Telegram, false, 10, 10, 5),
        ];
        for (channel, quick_replies, buttons_per_message, messages, actions) in rows {
            let profile = profile(channel);
            let expected = Capabilities { quick_replies, buttons_per_message, messages, actions };
            assert_eq!((profile.name, profile.capabilities), (channel, expected));
        }
    }

    /// DEC-3, DEC-4: only Messenger leaves the type out; only WhatsApp shows marks.
    #[test]
    fn marks_and_content_type_follow_the_channel() {
        for channel in ChannelName::ALL {
            let profile = profile(*channel);
            assert_eq!(profile.typed_content, *channel != ChannelName::Messenger);
            let marks =
                if *channel == ChannelName::Whatsapp { MarkStyle::Whatsapp } else { MarkStyle::Plain };
            assert_eq!(profile.marks, marks);
        }
    }
}
