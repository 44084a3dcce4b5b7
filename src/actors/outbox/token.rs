//! The retry of one token row: a fresh token each attempt, so that a token never stands in the database (TOK-30 to
//! TOK-32, DEC-31).

use super::actor::WorkerParts;
use super::delivery::{Ended, delay, random_share, record};
use crate::domain::Redacted;
use crate::manychat::{Class, ManyChatError, Priority};
use crate::store::outbox::{Held, TokenClaim};
use crate::store::tokens::{self, Replaced};
use crate::turn::ContactToken;

/// Writes a fresh token for the row, unless a newer one has been issued, and records the end.
pub(super) async fn deliver(parts: &WorkerParts, claim: TokenClaim) -> Ended {
    let token = match ContactToken::fresh() {
        Ok(token) => token,
        Err(error) => {
            tracing::error!(outboxId = %claim.id, err = %error, "contact token write failed");
            return release(parts, &claim).await;
        }
    };
    match tokens::replace(&parts.database, &claim, &token.digest).await {
        Ok(Replaced::Yes) => {}
        Ok(Replaced::Outdated) => return delivered(parts, &claim).await,
        Ok(Replaced::Lost) | Err(_) => return Ended::Lost,
    }
    match write(parts, &claim, token.text).await {
        Written::Yes => delivered(parts, &claim).await,
        Written::Failed(error) => failed(parts, &claim, &error).await,
        Written::Lost => Ended::Lost,
    }
}

enum Written {
    Yes,
    Failed(ManyChatError),
    Lost,
}

/// Writes the token and keeps the claim alive while it waits for its turn at ManyChat.
async fn write(parts: &WorkerParts, claim: &TokenClaim, token: Redacted<String>) -> Written {
    let writing = parts.manychat.write_token(&claim.subscriber, token, Priority::Background);
    tokio::pin!(writing);
    let mut renewals = tokio::time::interval(parts.claimant.lease / 3);
    renewals.tick().await;
    loop {
        tokio::select! {
            outcome = &mut writing => return outcome.map_or_else(Written::Failed, |()| Written::Yes),
            _ = renewals.tick() => {
                if let Ok(Held::Lost) = tokens::renew(&parts.database, &parts.claimant, claim).await {
                    return Written::Lost;
                }
            }
        }
    }
}

async fn delivered(parts: &WorkerParts, claim: &TokenClaim) -> Ended {
    match record(|| tokens::delivered(&parts.database, claim)).await {
        Held::Yes => Ended::Delivered,
        Held::Lost => Ended::Lost,
    }
}

async fn release(parts: &WorkerParts, claim: &TokenClaim) -> Ended {
    match tokens::release(&parts.database, claim).await {
        Ok(Held::Yes) => Ended::Released,
        _ => Ended::Lost,
    }
}

/// Another attempt, or none: by the kind of failure and the age of the row (DEC-31, DEC-35).
async fn failed(parts: &WorkerParts, claim: &TokenClaim, error: &ManyChatError) -> Ended {
    if matches!(error, ManyChatError::NotStarted { .. }) {
        return release(parts, claim).await;
    }
    let text = error_text(error);
    if error.class() == Class::Final || claim.age >= parts.retry_window {
        return give_up(parts, claim, &text).await;
    }
    let delay = delay(claim.attempt, error.retry_after(), random_share());
    if record(|| tokens::retry(&parts.database, claim, &text, delay)).await == Held::Lost {
        return Ended::Lost;
    }
    tracing::warn!(
        outboxId = %claim.id,
        kind = "contact_token",
        attempts = claim.attempt,
        err = text.as_str(),
        "outbox delivery retrying"
    );
    Ended::Retrying
}

async fn give_up(parts: &WorkerParts, claim: &TokenClaim, text: &str) -> Ended {
    if record(|| tokens::dead_letter(&parts.database, claim, text)).await == Held::Lost {
        return Ended::Lost;
    }
    tracing::error!(
        outboxId = %claim.id,
        kind = "contact_token",
        attempts = claim.attempt,
        err = text,
        "outbox dead-lettered"
    );
    Ended::DeadLettered
}

/// All that is kept of a failed token write: ManyChat's answer could quote the token (BOX-15).
fn error_text(error: &ManyChatError) -> String {
    match error.status() {
        Some(status) => format!("contact token write failed: {status}"),
        None => "contact token write failed".to_owned(),
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
