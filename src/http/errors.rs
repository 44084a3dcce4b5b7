//! Bodies of the answers that are not a Dynamic Block.

use actix_web::HttpResponse;
use actix_web::http::StatusCode;
use actix_web::http::header::{HeaderValue, RETRY_AFTER};
use serde_json::json;

/// HTTP-23: tells neither whether the header was missing nor what would be right (HTTP-30).
pub(super) fn unauthorized() -> HttpResponse {
    HttpResponse::Unauthorized().json(json!({ "error": "unauthorized" }))
}

/// HTTP-27, ERR-3
pub(super) fn internal() -> HttpResponse {
    HttpResponse::InternalServerError().json(json!({ "error": "internal" }))
}

/// HTTP-28
pub(super) fn unavailable() -> HttpResponse {
    HttpResponse::ServiceUnavailable()
        .insert_header((RETRY_AFTER, "10"))
        .json(json!({ "error": "unavailable" }))
}

/// HTTP-26
pub(super) fn too_many(retry_secs: u64) -> HttpResponse {
    let mut answer = refusal(
        StatusCode::TOO_MANY_REQUESTS,
        None,
        "too many requests from this address: wait and try again",
    );
    answer.headers_mut().insert(RETRY_AFTER, HeaderValue::from(retry_secs));
    answer
}

/// HTTP-6
pub(super) fn not_found() -> HttpResponse {
    refusal(StatusCode::NOT_FOUND, None, "there is nothing at this path and method")
}

/// A 4xx with the keys of HTTP-6, HTTP-22, HTTP-24 and HTTP-25. `message` must be ours: never a caller's words.
pub(super) fn refusal(status: StatusCode, code: Option<&str>, message: &str) -> HttpResponse {
    let mut body = json!({
        "statusCode": status.as_u16(),
        "error": status.canonical_reason().unwrap_or("Error"),
        "message": message,
    });
    if let (Some(object), Some(code)) = (body.as_object_mut(), code) {
        object.insert("code".to_owned(), code.into());
    }
    HttpResponse::build(status).json(body)
}
