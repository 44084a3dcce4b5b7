//! The HTTP client with its fixed options (04 section 1.1), and the stand-in for an account without a key.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use reqwest::header::{ACCEPT, AUTHORIZATION, DATE, HeaderMap, HeaderValue, RETRY_AFTER};
use reqwest::redirect::Policy;
use reqwest::{Client, RequestBuilder, Response, StatusCode, Url};

use super::error::{LostBy, ManyChatError};
use super::port::DeliveryClient;
use super::request::{Answer, Call};
use super::wire::{self, Received};
use crate::config::ManyChatSettings;
use crate::domain::Redacted;

/// Longest time from the start of a call to the last byte of its answer (API-3).
pub const CALL_LIMIT: Duration = Duration::from_secs(10);
/// Longest body that is read, in bytes. A contact with hundreds of fields stays far below.
const LONGEST_BODY: usize = 1024 * 1024;
/// Idle connections are given up before ManyChat's side does it in the middle of a call.
const KEEP_IDLE: Duration = Duration::from_secs(20);
/// Longest wait that a `Retry-After` can ask for.
const LONGEST_WAIT: Duration = Duration::from_secs(3600);

/// The client of these settings: ManyChat, or without a key a stand-in that fails every call (API-10). One for each
/// process (API-9).
///
/// # Errors
/// [`ManyChatError::Unusable`] when no client can be built from the settings or on this machine.
pub fn client(settings: &ManyChatSettings) -> Result<Arc<dyn DeliveryClient>, ManyChatError> {
    match settings.api_token.as_ref().filter(|token| !token.expose().trim().is_empty()) {
        Some(token) => Ok(Arc::new(ManyChat::new(&settings.api_base, token.clone(), CALL_LIMIT)?)),
        None => Ok(Arc::new(WithoutToken)),
    }
}

/// ManyChat's API over HTTP.
pub(super) struct ManyChat {
    http: Client,
    base: String,
    token: Redacted<String>,
    limit: Duration,
}

/// An account without a key: nothing is ever sent (API-10).
struct WithoutToken;

impl DeliveryClient for WithoutToken {
    fn call(&self, _: Call) -> BoxFuture<'_, Result<Answer, ManyChatError>> {
        Box::pin(std::future::ready(Err(ManyChatError::NoToken)))
    }
}

impl DeliveryClient for ManyChat {
    fn call(&self, call: Call) -> BoxFuture<'_, Result<Answer, ManyChatError>> {
        Box::pin(async move {
            let in_time = tokio::time::timeout(self.limit, self.exchange(&call)).await;
            in_time.unwrap_or_else(|_| Err(lost(&call, LostBy::Timeout, true)))
        })
    }
}

impl ManyChat {
    /// API-1, API-2, API-5, API-6, GAP-DL-13.
    pub(super) fn new(base: &str, token: Redacted<String>, limit: Duration) -> Result<Self, ManyChatError> {
        let unusable = |problem| ManyChatError::Unusable { problem };
        let mut bearer = HeaderValue::from_str(&format!("Bearer {}", token.expose().trim()))
            .map_err(|_| unusable("MANYCHAT_API_TOKEN holds a character that cannot be sent in a header"))?;
        bearer.set_sensitive(true);
        let headers = HeaderMap::from_iter([
            (AUTHORIZATION, bearer),
            (ACCEPT, HeaderValue::from_static("application/json")),
        ]);
        let builder = Client::builder()
            .default_headers(headers)
            .redirect(Policy::none())
            .referer(false)
            .retry(reqwest::retry::never())
            .pool_idle_timeout(KEEP_IDLE);
        // Without TLS there is nothing to trust, and through a proxy the key would reach another host in the clear.
        let builder =
            if base.starts_with("http://") { builder.tls_certs_only([]).no_proxy() } else { builder };
        let http = builder.build().map_err(|_| {
            unusable("the system has no usable CA certificates: install the package ca-certificates")
        })?;
        let base = base.trim_end_matches('/').to_owned();
        Url::parse(&base).map_err(|_| unusable("MANYCHAT_API_BASE is not a URL"))?;
        Ok(Self { http, base, token, limit })
    }

    /// A `GET` of the account itself, for a check and not for a contact.
    pub(super) fn get(&self, path: &str) -> RequestBuilder {
        self.http.get(format!("{}{path}", self.base))
    }

    async fn exchange(&self, call: &Call) -> Result<Answer, ManyChatError> {
        let request = self.request(call)?;
        let response = request.send().await.map_err(|error| {
            // Without a connection nothing was sent; every other failure may have come after the request.
            lost(call, LostBy::Network, !error.is_connect())
        })?;
        let status = response.status();
        let retry_after = retry_after(status, response.headers());
        let body = body(response).await.map_err(|()| lost(call, LostBy::Network, true))?;
        wire::read(call, self.token.expose().trim(), &Received { status, retry_after, body: &body })
    }

    /// API-6, API-7.
    fn request(&self, call: &Call) -> Result<RequestBuilder, ManyChatError> {
        let endpoint = call.endpoint();
        let mut url = Url::parse(&format!("{}{}", self.base, endpoint.path()))
            .map_err(|_| ManyChatError::Unusable { problem: "MANYCHAT_API_BASE is not a URL" })?;
        if endpoint.is_read() {
            url.query_pairs_mut().append_pair("subscriber_id", call.contact.expose());
            return Ok(self.http.get(url));
        }
        Ok(self.http.post(url).json(&call.parameters()))
    }
}

const fn lost(call: &Call, reason: LostBy, sent: bool) -> ManyChatError {
    ManyChatError::Connection { endpoint: call.endpoint(), reason, sent }
}

/// Reads the body, as far as it is of interest.
async fn body(mut response: Response) -> Result<Vec<u8>, ()> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(|_| ())? {
        body.extend_from_slice(&chunk);
        if body.len() > LONGEST_BODY {
            body.truncate(LONGEST_BODY);
            break;
        }
    }
    Ok(body)
}

/// Seconds or a date; a date is compared with the same answer's own, so that our clock does not matter.
fn retry_after(status: StatusCode, headers: &HeaderMap) -> Option<Duration> {
    if status != StatusCode::TOO_MANY_REQUESTS && !status.is_server_error() {
        return None;
    }
    let asked = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    let wait = match asked.parse::<u64>() {
        Ok(seconds) => Duration::from_secs(seconds),
        Err(_) => {
            let from = http_date(headers.get(DATE)?.to_str().ok()?)?;
            Duration::try_from(http_date(asked)?.duration_since(from)).ok()?
        }
    };
    Some(wait.min(LONGEST_WAIT))
}

fn http_date(text: &str) -> Option<jiff::Timestamp> {
    jiff::fmt::rfc2822::DateTimeParser::new().parse_timestamp(text.trim()).ok()
}

#[cfg(test)]
#[path = "client_tests.rs"]
mod tests;
