//! What every request passes before its route: its number, the overload check, the limit per address (HTTP-10), and
//! what every response carries of it.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Instant;

use actix_web::body::{BoxBody, MessageBody};
use actix_web::dev::{ServiceRequest, ServiceResponse};
use actix_web::http::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};
use actix_web::http::{ConnectionType, Method};
use actix_web::middleware::Next;
use actix_web::{Error, HttpMessage, HttpResponse, web};
use tracing::{Instrument, Span};

use super::client_address::client_address;
use super::rate_limit::{Key, Quota};
use super::server::Door;
use super::{MESSAGE_PATH, errors, overload};
use crate::actors::Overload;
use crate::domain::Redacted;

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const LIMIT: HeaderName = HeaderName::from_static("x-ratelimit-limit");
const REMAINING: HeaderName = HeaderName::from_static("x-ratelimit-remaining");
const RESET: HeaderName = HeaderName::from_static("x-ratelimit-reset");
/// Longest id that is taken over from a proxy, in bytes.
const LONGEST_REQUEST_ID: usize = 128;

/// What the gate found out about a request, for its route.
#[derive(Clone)]
pub(super) struct Caller {
    /// The valid secret it presented.
    pub(super) secret: Option<Redacted<Arc<str>>>,
    /// When it arrived.
    pub(super) arrival: Instant,
    /// Set when it is over its limit and its route decides what that means (DEC-35).
    pub(super) over_limit: Option<Quota>,
}

/// Where a request is refused, or on to its route.
enum Verdict {
    Answer(HttpResponse),
    Pass(Caller),
}

/// The middleware.
pub(super) async fn gate<B: MessageBody + 'static>(
    request: ServiceRequest,
    next: Next<B>,
) -> Result<ServiceResponse<BoxBody>, Error> {
    let Some(door) = request.app_data::<web::Data<Door>>().cloned() else {
        return Ok(request.into_response(errors::internal()));
    };
    // DEC-28: liveness is told whatever else holds.
    if request.path() == "/health" {
        let response = next.call(request).await?.map_into_boxed_body();
        return Ok(parted(response));
    }
    let proxied_id = proxied_id(&door, &request);
    let span = span(&door, proxied_id.as_ref());
    let (verdict, quota) = span.in_scope(|| judge(&door, &request));
    let mut response = match verdict {
        Verdict::Answer(answer) => parted(request.into_response(answer)),
        Verdict::Pass(caller) => {
            let stays = caller.secret.is_some();
            request.extensions_mut().insert(caller);
            let response = next.call(request).instrument(span).await?.map_into_boxed_body();
            if stays { response } else { parted(response) }
        }
    };
    let headers = response.headers_mut();
    if let Some(quota) = quota {
        add_quota(headers, quota);
    }
    if let Some(id) = proxied_id {
        headers.insert(REQUEST_ID, id);
    }
    Ok(response)
}

/// An answer that ends its connection: places are for those who know the secret (SHED-1).
fn parted(mut response: ServiceResponse<BoxBody>) -> ServiceResponse<BoxBody> {
    response.response_mut().head_mut().set_connection_type(ConnectionType::Close);
    response
}

/// The first two checks of HTTP-10, in their order.
fn judge(door: &Door, request: &ServiceRequest) -> (Verdict, Option<Quota>) {
    let arrival = Instant::now();
    let secret = door.secrets.presented(request.headers());
    let is_message = request.method() == Method::POST && request.path() == MESSAGE_PATH;
    if is_message && secret.is_none() {
        door.refused.count(!request.headers().contains_key(AUTHORIZATION), &door.io);
    }
    if let Some(cause) = door.services.overload(arrival) {
        return (Verdict::Answer(shed(door, secret.filter(|_| is_message), cause)), None);
    }
    let mut caller = Caller { secret, arrival, over_limit: None };
    if request.path() == "/metrics" {
        return (Verdict::Pass(caller), None);
    }
    let key = Key::of(caller.secret.is_some(), address_of(door, request));
    let quota = door.limit.count(key, arrival);
    if !quota.exceeded {
        return (Verdict::Pass(caller), Some(quota));
    }
    if is_message && caller.secret.is_some() {
        caller.over_limit = Some(quota);
        return (Verdict::Pass(caller), Some(quota));
    }
    (Verdict::Answer(errors::too_many(quota.reset_secs)), Some(quota))
}

/// SHED-2 for a message with a valid secret, SHED-3 for everything else.
fn shed(door: &Door, secret: Option<Redacted<Arc<str>>>, cause: Overload) -> HttpResponse {
    overload::report(cause.as_str());
    match secret {
        Some(secret) => overload::handoff(door, &door.services.snapshots.current(), &secret),
        None => errors::unavailable(),
    }
}

/// RATE-5. A connection without a peer address, as a Unix socket has none, counts as local.
fn address_of(door: &Door, request: &ServiceRequest) -> IpAddr {
    client_address(peer_of(request), request.headers(), &door.proxies)
}

fn peer_of(request: &ServiceRequest) -> IpAddr {
    request.peer_addr().map_or(IpAddr::V4(Ipv4Addr::LOCALHOST), |peer| peer.ip())
}

/// Requests are numbered per process, and the number stands on their log lines (OPS-1); with the id that a trusted
/// proxy gave, they can be found in its log too (GAP-CH-14).
fn span(door: &Door, proxied_id: Option<&HeaderValue>) -> Span {
    let number = door.next_request();
    match proxied_id.and_then(|id| id.to_str().ok()) {
        Some(id) => tracing::info_span!("request", request = number, requestId = id),
        None => tracing::info_span!("request", request = number),
    }
}

/// The `x-request-id` of a trusted proxy, when it looks like an id; it is sent back as it came.
fn proxied_id(door: &Door, request: &ServiceRequest) -> Option<HeaderValue> {
    let id = request.headers().get(REQUEST_ID).filter(|_| door.proxies.trusts(peer_of(request)))?;
    let part = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.".contains(byte);
    let bytes = id.as_bytes();
    ((1..=LONGEST_REQUEST_ID).contains(&bytes.len()) && bytes.iter().all(part)).then(|| id.clone())
}

/// RATE-4
fn add_quota(headers: &mut HeaderMap, quota: Quota) {
    headers.insert(LIMIT, HeaderValue::from(quota.limit));
    headers.insert(REMAINING, HeaderValue::from(quota.remaining));
    headers.insert(RESET, HeaderValue::from(quota.reset_secs));
}
