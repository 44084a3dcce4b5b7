//! Facebook Messenger, the one channel whose Dynamic Block does not name itself (DEC-3).

use crate::domain::ChannelName;

use super::{Capabilities, MarkStyle, Profile};

pub(super) const PROFILE: Profile = Profile {
    name: ChannelName::Messenger,
    capabilities: Capabilities { quick_replies: true, buttons_per_message: 3, messages: 10, actions: 5 },
    marks: MarkStyle::Plain,
    typed_content: false,
};
