//! What the account itself has, for `config check --online` alone (DEC-25). The service never calls below `/fb/page/`
//! (API-28): what could be written there is one value for all contacts. This reads, and only an operator asks for it.

use std::time::Duration;

use serde::Deserialize;

use super::client::{CALL_LIMIT, ManyChat};
use super::error::ManyChatError;
use crate::config::ManyChatSettings;

const TAGS: &str = "/fb/page/getTags";
/// Longest answer that is read, in bytes: tens of thousands of tags.
const LONGEST_BODY: usize = 4 * 1024 * 1024;

/// Why the account could not be asked.
#[derive(Debug, thiserror::Error)]
pub enum AccountError {
    /// There is no key: set `MANYCHAT_API_TOKEN`.
    #[error("--online asks ManyChat and needs MANYCHAT_API_TOKEN: set it")]
    NoToken,
    /// No client can be made; the text says what to correct.
    #[error(transparent)]
    Client(#[from] ManyChatError),
    /// ManyChat refused: with 401 or 403 the key is wrong or the account is not Pro.
    #[error(
        "ManyChat refused to list its tags with {0}: check MANYCHAT_API_TOKEN and that the account is Pro"
    )]
    Refused(u16),
    /// No whole answer within the limit: try again.
    #[error("no answer from ManyChat: check the connection and MANYCHAT_API_BASE, or try again")]
    NoAnswer,
    /// An answer that is no list of tags.
    #[error("ManyChat answered, but not with a list of tags: check MANYCHAT_API_BASE")]
    Unreadable,
}

#[derive(Deserialize)]
struct Answer {
    #[serde(default)]
    data: Option<Vec<Tag>>,
}

#[derive(Deserialize)]
struct Tag {
    name: String,
}

/// The names of the account's tags.
///
/// # Errors
/// [`AccountError`] says what to do.
pub async fn tag_names(settings: &ManyChatSettings) -> Result<Vec<String>, AccountError> {
    let token = settings.api_token.as_ref().filter(|token| !token.expose().trim().is_empty());
    let token = token.ok_or(AccountError::NoToken)?.clone();
    let account = ManyChat::new(&settings.api_base, token, CALL_LIMIT)?;
    in_time(CALL_LIMIT, ask(&account)).await
}

async fn in_time<T>(
    limit: Duration,
    asking: impl Future<Output = Result<T, AccountError>>,
) -> Result<T, AccountError> {
    tokio::time::timeout(limit, asking).await.unwrap_or(Err(AccountError::NoAnswer))
}

async fn ask(account: &ManyChat) -> Result<Vec<String>, AccountError> {
    let mut response = account.get(TAGS).send().await.map_err(|_| AccountError::NoAnswer)?;
    if !response.status().is_success() {
        return Err(AccountError::Refused(response.status().as_u16()));
    }
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(|_| AccountError::NoAnswer)? {
        body.extend_from_slice(&chunk);
        if body.len() > LONGEST_BODY {
            return Err(AccountError::Unreadable);
        }
    }
    let answer: Answer = serde_json::from_slice(&body).map_err(|_| AccountError::Unreadable)?;
    let tags = answer.data.ok_or(AccountError::Unreadable)?;
    Ok(tags.into_iter().map(|tag| tag.name).collect())
}
