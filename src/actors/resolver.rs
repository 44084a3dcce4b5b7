//! Ends turns whose flight did not answer: behind the request, repeated until the database knows (ARC-31).

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;

use crate::store::owed::{self, Resolved};
use crate::turn::{self, TurnContext, TurnRequest};

/// When the database is asked. A flight that was cut off may still be carried out by the server for a while, so
/// "nothing there" is believed only at the end.
const ASK_AFTER: [Duration; 5] = [
    Duration::from_millis(50),
    Duration::from_secs(1),
    Duration::from_secs(5),
    Duration::from_secs(15),
    Duration::from_secs(40),
];
const RETRY: Duration = Duration::from_secs(2);

/// Resolves a turn in the background. `told`: the contact has read the escalation copy.
pub(super) fn resolve_later(io: &Handle, context: Arc<TurnContext>, request: Arc<TurnRequest>, told: bool) {
    io.spawn(async move { resolve(&context, &request, told).await });
}

async fn resolve(context: &TurnContext, request: &TurnRequest, told: bool) {
    for pause in ASK_AFTER {
        tokio::time::sleep(pause).await;
        match ask(context, request, told).await {
            Resolved::NothingThere => {}
            found => {
                tracing::warn!(turn = %request.id, found = ?found, "failed turn resolved");
                return;
            }
        }
    }
    if !told {
        hand_off(context, request).await;
    }
}

async fn ask(context: &TurnContext, request: &TurnRequest, told: bool) -> Resolved {
    loop {
        match turn::resolve(context, request, told).await {
            Ok(resolved) => return resolved,
            Err(error) => {
                tracing::warn!(turn = %request.id, err = %error, "failed turn not resolved yet");
                tokio::time::sleep(RETRY).await;
            }
        }
    }
}

/// The message was never recorded and nobody was told: the contact still hears from us (LANE-9).
async fn hand_off(context: &TurnContext, request: &TurnRequest) {
    let Some(handoff) = turn::handoff(context, request, false) else { return };
    while let Err(error) = owed::hand_off_without_turn(&context.database, &handoff).await {
        tracing::error!(turn = %request.id, err = %error, "waiting turn handoff not queued");
        tokio::time::sleep(RETRY).await;
    }
}
