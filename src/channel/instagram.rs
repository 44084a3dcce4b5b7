//! Instagram direct messages.

use crate::domain::ChannelName;

use super::{Capabilities, MarkStyle, Profile};

pub(super) const PROFILE: Profile = Profile {
    name: ChannelName::Instagram,
    capabilities: Capabilities { quick_replies: true, buttons_per_message: 3, messages: 10, actions: 5 },
    marks: MarkStyle::Plain,
    typed_content: true,
};
