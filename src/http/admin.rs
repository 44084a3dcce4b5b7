//! What operators may see (DEC-14, ARC-24).

use actix_web::{HttpRequest, HttpResponse, web};

use super::auth;
use super::errors;
use super::server::Door;

/// `GET /admin/actors`: totals and the conversations that have been busy longest. 404 while `ADMIN_TOKEN` is unset,
/// 401 without it.
pub(super) async fn actors(request: HttpRequest, door: web::Data<Door>) -> HttpResponse {
    let Some(token) = &door.admin_token else { return errors::not_found() };
    if !auth::carries(request.headers(), token) {
        return errors::unauthorized();
    }
    match door.services.observe().await {
        Some(report) => HttpResponse::Ok().json(report),
        None => errors::internal(),
    }
}
