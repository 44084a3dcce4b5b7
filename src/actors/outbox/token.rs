//! The retry of one token row: a fresh token each attempt, so that a token never stands in the database (TOK-30 to
//! TOK-32, DEC-31).

use super::actor::WorkerParts;
use super::ending::{Called, Ended, Named, Next, given_back, next, record, while_held};
use crate::domain::Redacted;
use crate::domain::delivery_error::TOKEN_WRITE_FAILED;
use crate::manychat::{ManyChatError, Priority};
use crate::store::outbox::{Held, TokenClaim};
use crate::store::tokens::{self, Replaced};
use crate::turn::ContactToken;

/// Writes a fresh token for the row, unless a newer one has been issued, and records the end.
pub(super) async fn deliver(parts: &WorkerParts, claim: TokenClaim) -> Ended {
    let token = match ContactToken::fresh() {
        Ok(token) => token,
        Err(error) => {
            tracing::error!(outboxId = %claim.id, err = %error, "contact token write failed");
            return given_back(&tokens::release(&parts.database, &claim).await);
        }
    };
    match tokens::replace(&parts.database, &claim, &token.digest).await {
        Ok(Replaced::Yes) => {}
        Ok(Replaced::Outdated) => return delivered(parts, &claim).await,
        Ok(Replaced::Lost) | Err(_) => return Ended::Lost,
    }
    match write(parts, &claim, token.text).await {
        Called::Accepted => delivered(parts, &claim).await,
        Called::Failed(error) => failed(parts, &claim, &error).await,
        Called::Lost => Ended::Lost,
    }
}

/// Writes the token.
async fn write(parts: &WorkerParts, claim: &TokenClaim, token: Redacted<String>) -> Called {
    let writing = parts.manychat.write_token(&claim.subscriber, token, Priority::Background);
    let renew = || tokens::renew(&parts.database, &parts.claimant, claim);
    while_held(parts.claimant.lease, writing, renew).await
}

async fn delivered(parts: &WorkerParts, claim: &TokenClaim) -> Ended {
    match record(|| tokens::delivered(&parts.database, claim)).await {
        Held::Yes => Ended::Delivered,
        Held::Lost => Ended::Lost,
    }
}

/// Another attempt, or none (DEC-31, DEC-35).
async fn failed(parts: &WorkerParts, claim: &TokenClaim, error: &ManyChatError) -> Ended {
    let text = error_text(error);
    match next(error, claim.attempt, parts.retry_window.saturating_sub(claim.age)) {
        Next::GiveBack => given_back(&tokens::release(&parts.database, claim).await),
        Next::GiveUp => {
            let held = record(|| tokens::dead_letter(&parts.database, claim, &text)).await;
            named(claim).dead_lettered(held, &text, None)
        }
        Next::Again(pause) => {
            let held = record(|| tokens::retry(&parts.database, claim, &text, pause)).await;
            named(claim).retrying(held, &text)
        }
    }
}

const fn named(claim: &TokenClaim) -> Named {
    Named { id: claim.id, kind: "contact_token", attempts: claim.attempt }
}

/// All that is kept of a failed token write: ManyChat's answer could quote the token (BOX-15).
fn error_text(error: &ManyChatError) -> String {
    match error.status() {
        Some(status) => format!("{TOKEN_WRITE_FAILED}: {status}"),
        None => TOKEN_WRITE_FAILED.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manychat::{Endpoint, LostBy};

    /// BOX-15
    #[test]
    fn an_error_keeps_the_status_only() {
        let api = ManyChatError::Api {
            endpoint: Endpoint::SetField,
            status: 503,
            code: Some(3011),
            said: crate::manychat::Said::default(),
            retry_after: None,
        };
        assert_eq!(error_text(&api), "contact token write failed: 503");
        let lost =
            ManyChatError::Connection { endpoint: Endpoint::SetField, reason: LostBy::Timeout, sent: true };
        assert_eq!(error_text(&lost), "contact token write failed");
        assert_eq!(error_text(&ManyChatError::NoToken), "contact token write failed");
    }
}
