//! What operators may see (DEC-14, ARC-24): `/admin` and everything below it.

use actix_web::body::{BoxBody, MessageBody};
use actix_web::dev::{ServiceRequest, ServiceResponse};
use actix_web::middleware::{Next, from_fn};
use actix_web::{Error, HttpResponse, web};

use super::server::{Door, missing, readable};
use super::{auth, errors};

/// The whole tree behind one lock, so that no path of it, known or not, is told about without the token.
pub(super) fn routes(config: &mut web::ServiceConfig) {
    let admin = web::scope("/admin")
        .wrap(from_fn(lock))
        .service(readable("/actors", web::get().to(actors), web::head().to(actors)))
        .default_service(missing());
    config.service(admin);
}

/// 404 while `ADMIN_TOKEN` is unset, 401 without it (DEC-14, DEC-35).
async fn lock<B: MessageBody + 'static>(
    request: ServiceRequest,
    next: Next<B>,
) -> Result<ServiceResponse<BoxBody>, Error> {
    let token = request.app_data::<web::Data<Door>>().and_then(|door| door.admin_token.clone());
    match token {
        None => Ok(request.into_response(errors::not_found())),
        Some(token) if !auth::carries(request.headers(), &token) => {
            Ok(request.into_response(errors::unauthorized()))
        }
        Some(_) => Ok(next.call(request).await?.map_into_boxed_body()),
    }
}

/// `GET /admin/actors`: totals and the conversations that have been busy longest.
async fn actors(door: web::Data<Door>) -> HttpResponse {
    match door.services.observe().await {
        Some(report) => HttpResponse::Ok().json(report),
        None => errors::internal(),
    }
}
