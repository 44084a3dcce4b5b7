//! What the first run of a turn has left undone behind an action that was accepted (ARC-41, FN-LINK-1).

use std::sync::Arc;

use super::acts::HOLD_LIMIT;
use super::context::TurnContext;
use super::request::TurnRequest;
use crate::store::open::OpenTurn;
use crate::store::{StoreError, follow_ons, lanes};
use crate::tools::{Marks, Performer};

/// Makes, before anything else of a turn that was taken over, what was to follow the accepted actions of its first run and
/// was never begun; `opened` then tells what became of it, right behind its action (FN-LINK-3). Once the contact is not
/// `reachable` any more no flow is played. The lane is the turn's for as long as at first from then on (ARC-45).
///
/// # Errors
/// When the database does not answer: call again, what was begun is not made once more.
pub async fn complete_follow_ons(
    context: &TurnContext,
    request: &TurnRequest,
    opened: &mut OpenTurn,
    reachable: bool,
) -> Result<(), StoreError> {
    if opened.attempted.is_empty() {
        return Ok(());
    }
    let marks = Marks::of(Arc::clone(&request.snapshot.tenant));
    let performer =
        Performer { database: context.database.clone(), manychat: context.manychat.clone(), marks };
    let chains = performer.complete_follow_ons(request.id, request.process, reachable).await?;
    if chains > 0 {
        let (turn, conversation) = (request.id, opened.conversation);
        tracing::warn!(%turn, %conversation, chains, "follow-ons of a dead process taken over");
    }
    // Also what a call that failed half-way has made.
    opened.attempted = follow_ons::attempted(&context.database, request.id).await?;
    if let Some(fence) = opened.fence {
        let time = context.settings.lane_time();
        let holding = lanes::hold(&context.database, opened.conversation, request.id, fence, time);
        // Where it is not the turn's any more, Settle says so.
        let _ = tokio::time::timeout(HOLD_LIMIT, holding).await;
    }
    Ok(())
}
