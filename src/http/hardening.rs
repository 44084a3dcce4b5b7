//! Headers that every answer carries (HTTP-8).

use actix_web::http::header::{HeaderMap, HeaderName, HeaderValue};
use actix_web::middleware::DefaultHeaders;

const HEADERS: [(&str, &str); 11] = [
    ("x-content-type-options", "nosniff"),
    ("x-frame-options", "SAMEORIGIN"),
    ("referrer-policy", "no-referrer"),
    ("strict-transport-security", "max-age=31536000; includeSubDomains"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
    ("origin-agent-cluster", "?1"),
    ("x-dns-prefetch-control", "off"),
    ("x-download-options", "noopen"),
    ("x-permitted-cross-domain-policies", "none"),
    ("x-xss-protection", "0"),
];

/// The middleware that adds them.
pub(super) fn headers() -> DefaultHeaders {
    HEADERS.into_iter().fold(DefaultHeaders::new(), DefaultHeaders::add)
}

/// Adds them to an answer that passes no middleware.
pub(super) fn add(headers: &mut HeaderMap) {
    for (name, value) in HEADERS {
        headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
}
