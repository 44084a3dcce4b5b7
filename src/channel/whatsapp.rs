//! WhatsApp. ManyChat accepts ten messages for it and delivers the first, so the limit is one (CHC-2).

use crate::domain::ChannelName;

use super::{Capabilities, MarkStyle, Profile};

pub(super) const PROFILE: Profile = Profile {
    name: ChannelName::Whatsapp,
    capabilities: Capabilities { quick_replies: false, buttons_per_message: 3, messages: 1, actions: 5 },
    marks: MarkStyle::Whatsapp,
    typed_content: true,
};
