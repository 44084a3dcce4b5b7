//! Bodies of the answers that are not a Dynamic Block.

use actix_web::HttpResponse;
use actix_web::http::StatusCode;
use serde_json::json;

/// HTTP-23: tells neither whether the header was missing nor what would be right (HTTP-30).
pub(super) fn unauthorized() -> HttpResponse {
    HttpResponse::Unauthorized().json(json!({ "error": "unauthorized" }))
}

/// HTTP-27, ERR-3
pub(super) fn internal() -> HttpResponse {
    HttpResponse::InternalServerError().json(json!({ "error": "internal" }))
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
