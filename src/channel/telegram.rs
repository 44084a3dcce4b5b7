//! Telegram.

use crate::domain::ChannelName;

use super::{Capabilities, MarkStyle, Profile};

pub(super) const PROFILE: Profile = Profile {
    name: ChannelName::Telegram,
    capabilities: Capabilities { quick_replies: false, buttons_per_message: 10, messages: 10, actions: 5 },
    marks: MarkStyle::Plain,
    typed_content: true,
};
