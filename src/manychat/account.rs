//! What the account itself has, for `config check --online` alone (DEC-25). The service never calls below `/fb/page/`
//! (API-28): what could be written there is one value for all contacts. This reads, and only an operator asks for it.

use std::time::Duration;

use serde::Deserialize;

use super::client::{CALL_LIMIT, ManyChat};
use super::error::ManyChatError;
use crate::config::ManyChatSettings;

/// Longest answer that is read, in bytes: tens of thousands of names.
const LONGEST_BODY: usize = 4 * 1024 * 1024;

/// A list of names that the account has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccountList {
    /// Names of tags.
    Tags,
    /// Names of custom fields.
    Fields,
    /// Namespaces of flows. Whether a flow is published, the list does not say (08 LIM-12).
    Flows,
}

impl AccountList {
    const fn path(self) -> &'static str {
        match self {
            Self::Tags => "/fb/page/getTags",
            Self::Fields => "/fb/page/getCustomFields",
            Self::Flows => "/fb/page/getFlows",
        }
    }

    /// The plural, for messages.
    #[must_use]
    pub const fn noun(self) -> &'static str {
        match self {
            Self::Tags => "tags",
            Self::Fields => "fields",
            Self::Flows => "flows",
        }
    }
}

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
    #[error("ManyChat refused to list its {list} with {status}: {}", what_to_check(*status))]
    Refused {
        /// What was asked for.
        list: &'static str,
        /// The status of the answer.
        status: u16,
    },
    /// No whole answer within the limit: try again.
    #[error("no answer from ManyChat: check the connection and MANYCHAT_API_BASE, or try again")]
    NoAnswer,
    /// An answer that is no such list.
    #[error("ManyChat answered, but not with a list of {0}: check MANYCHAT_API_BASE")]
    Unreadable(&'static str),
}

/// A redirect is never followed (GAP-DL-13), and comes from something before ManyChat's API or in its place.
fn what_to_check(status: u16) -> &'static str {
    match status {
        300..400 => "that is a redirect, which ManyChat's API never answers: correct MANYCHAT_API_BASE",
        404 => "check MANYCHAT_API_BASE, then MANYCHAT_API_TOKEN and that the account is Pro",
        _ => "check MANYCHAT_API_TOKEN and that the account is Pro",
    }
}

#[derive(Deserialize)]
struct Answer {
    data: Data,
}

/// Flows come with their folders around them, the others do not.
#[derive(Deserialize)]
#[serde(untagged)]
enum Data {
    Entries(Vec<Entry>),
    Flows { flows: Vec<Entry> },
}

#[derive(Deserialize)]
struct Entry {
    #[serde(default)]
    ns: Option<String>,
    #[serde(default)]
    name: Option<String>,
}

/// What the account's list holds, by the names that the other calls use.
///
/// # Errors
/// [`AccountError`] says what to do.
pub async fn account_names(
    settings: &ManyChatSettings,
    list: AccountList,
) -> Result<Vec<String>, AccountError> {
    let token = settings.api_token.as_ref().filter(|token| !token.expose().trim().is_empty());
    let token = token.ok_or(AccountError::NoToken)?.clone();
    let account = ManyChat::new(&settings.api_base, token, CALL_LIMIT)?;
    in_time(CALL_LIMIT, ask(&account, list)).await
}

async fn in_time<T>(
    limit: Duration,
    asking: impl Future<Output = Result<T, AccountError>>,
) -> Result<T, AccountError> {
    tokio::time::timeout(limit, asking).await.unwrap_or(Err(AccountError::NoAnswer))
}

async fn ask(account: &ManyChat, list: AccountList) -> Result<Vec<String>, AccountError> {
    let mut response = account.get(list.path()).send().await.map_err(|_| AccountError::NoAnswer)?;
    if !response.status().is_success() {
        return Err(AccountError::Refused { list: list.noun(), status: response.status().as_u16() });
    }
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(|_| AccountError::NoAnswer)? {
        body.extend_from_slice(&chunk);
        if body.len() > LONGEST_BODY {
            return Err(AccountError::Unreadable(list.noun()));
        }
    }
    names(&body, list).ok_or(AccountError::Unreadable(list.noun()))
}

fn names(body: &[u8], list: AccountList) -> Option<Vec<String>> {
    let answer: Answer = serde_json::from_slice(body).ok()?;
    let entries = match answer.data {
        Data::Entries(entries) | Data::Flows { flows: entries } => entries,
    };
    let name = |entry: Entry| if list == AccountList::Flows { entry.ns } else { entry.name };
    entries.into_iter().map(name).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// GAP-CFG-10: tags and fields by name, flows by namespace out of their folders; anything else is no list.
    #[test]
    fn lists_are_read_by_the_names_that_calls_use() {
        let read = |list, data: serde_json::Value| {
            names(json!({ "status": "success", "data": data }).to_string().as_bytes(), list)
        };
        let named = json!([{ "id": 1, "name": "a" }, { "id": 2, "name": "b", "type": "text" }]);
        let both = Some(vec!["a".to_owned(), "b".to_owned()]);
        assert_eq!(read(AccountList::Tags, named.clone()), both);
        assert_eq!(read(AccountList::Fields, named.clone()), both);
        let flows = json!({ "flows": [{ "ns": "content_1", "name": "Hello", "folder_id": 3 }], "folders": [{ "id": 3 }] });
        assert_eq!(read(AccountList::Flows, flows), Some(vec!["content_1".to_owned()]));
        assert_eq!(read(AccountList::Flows, named), None, "no namespaces");
        assert_eq!(read(AccountList::Tags, json!({})), None);
        assert_eq!(names(b"<html>", AccountList::Tags), None);
    }
}
