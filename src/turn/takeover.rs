//! Silence while a person has taken over (DEC-9): from a handoff until the agent has been quiet for some minutes, or
//! until ManyChat no longer shows a tag at the contact. The pause's state is the open handoff (DEC-35).

use std::time::Duration;

use super::context::TurnContext;
use super::request::TurnRequest;
use super::steps::is_bound;
use crate::config::{Rules, Takeover};
use crate::domain::Binding;
use crate::store::handoffs::{self, PauseEnd};
use crate::store::open::{OpenHandoff, OpenTurn};

/// Longest contact read, its wait for ManyChat's rate included (READ-6).
const READ_LIMIT: Duration = Duration::from_millis(1500);
/// Longest write of the pause's end.
const WRITE_LIMIT: Duration = Duration::from_secs(2);

/// Whether the turn may end in silence: what is known before ManyChat is asked.
#[must_use]
pub fn may_be_silent(request: &TurnRequest, opened: &OpenTurn) -> bool {
    request.snapshot.tenant.rules.takeover.is_some() && opened.handoff.is_some() && opened.fence.is_some()
}

/// Whether the agent says nothing. Ends the pause when its time has come.
pub(super) async fn is_silent(context: &TurnContext, request: &TurnRequest, opened: &OpenTurn) -> bool {
    let rules = &request.snapshot.tenant.rules;
    let (Some(rule), Some(handoff)) = (&rules.takeover, &opened.handoff) else { return false };
    // An unbound message is answered from itself alone and neither sees nor changes the contact's state (TOK-13).
    if !is_bound(context, opened) {
        return false;
    }
    let end = if minutes_are_over(rule, handoff) {
        Some(PauseEnd::PauseOver)
    } else if tag_is_gone(context, request, opened, rules).await {
        Some(PauseEnd::TagGone)
    } else {
        None
    };
    match end {
        Some(end) => !end_pause(context, opened, handoff, end).await,
        None => true,
    }
}

fn minutes_are_over(rule: &Takeover, handoff: &OpenHandoff) -> bool {
    rule.pause_minutes.is_some_and(|minutes| handoff.quiet >= Duration::from_secs(u64::from(minutes) * 60))
}

/// Asks ManyChat whether the contact still has the tag; of the answer nothing else is looked at. What cannot be asked,
/// or is not answered in time, leaves the pause as it is.
async fn tag_is_gone(context: &TurnContext, request: &TurnRequest, opened: &OpenTurn, rules: &Rules) -> bool {
    let tag = rules.takeover.as_ref().and_then(|rule| rule.tag.as_deref());
    let (Some(tag), Some(live)) = (tag, request.live()) else { return false };
    // A contact read is made for a proved contact only (04 section 8.1).
    if opened.binding != Binding::Bound && context.settings.tokens_enforced {
        return false;
    }
    if waits_for_own_tag(rules, opened) {
        return false;
    }
    match context.manychat.read_contact(&live.subscriber, READ_LIMIT).await {
        Ok(contact) => !contact.tags.iter().any(|found| found == tag),
        Err(error) => {
            let conversation = opened.conversation;
            tracing::warn!(%conversation, error = error.name(), reason = error.reason(), "contact read failed");
            false
        }
    }
}

/// The tag that is waited for is the one that calls the person, and it is not there yet.
fn waits_for_own_tag(rules: &Rules, opened: &OpenTurn) -> bool {
    let calls = rules.handoff.as_ref().map(|rule| rule.tag.as_str());
    let waits = rules.takeover.as_ref().and_then(|rule| rule.tag.as_deref());
    calls == waits && opened.handoff.is_some_and(|handoff| handoff.tag_pending)
}

/// Closes the handoff. False when that was not written: the pause goes on, so that it can end for good later.
async fn end_pause(context: &TurnContext, opened: &OpenTurn, handoff: &OpenHandoff, end: PauseEnd) -> bool {
    let conversation = opened.conversation;
    let closing = handoffs::end_pause(&context.database, conversation, end, handoff.called_seq);
    match tokio::time::timeout(WRITE_LIMIT, closing).await {
        Ok(Ok(())) => {
            tracing::info!(%conversation, reason = end.as_str(), "takeover ended");
            true
        }
        Ok(Err(error)) => {
            tracing::warn!(%conversation, err = %error, "takeover not ended");
            false
        }
        Err(_) => {
            tracing::warn!(%conversation, "takeover not ended in time");
            false
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(seconds: u64) -> OpenHandoff {
        OpenHandoff { quiet: Duration::from_secs(seconds), tag_pending: false, called_seq: 1 }
    }

    fn rule(minutes: Option<u32>) -> Takeover {
        Takeover { pause_minutes: minutes, tag: None }
    }

    /// DEC-9: exactly n minutes end the pause, a second less does not; without minutes time ends nothing.
    #[test]
    fn the_pause_ends_after_its_minutes() {
        assert!(!minutes_are_over(&rule(Some(30)), &after(1799)));
        assert!(minutes_are_over(&rule(Some(30)), &after(1800)));
        assert!(!minutes_are_over(&rule(None), &after(1_000_000)));
    }
}
