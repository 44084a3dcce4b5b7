//! Liveness and readiness (HTTP-2 to HTTP-5). They log nothing below `warn`.

use std::time::Duration;

use actix_web::{HttpResponse, web};
use serde_json::json;

use super::server::Door;
use crate::telemetry::Seldom;

/// Longest wait for `select 1`.
const READY_LIMIT: Duration = Duration::from_secs(3);

/// `GET /health`: the process answers. Touches nothing.
pub(super) async fn health() -> HttpResponse {
    HttpResponse::Ok().json(json!({ "status": "ok" }))
}

/// `GET /ready`: the database answers and the process is not draining (DEC-28).
pub(super) async fn ready(door: web::Data<Door>) -> HttpResponse {
    if door.is_draining() || !database_answers(&door).await {
        return HttpResponse::ServiceUnavailable().json(json!({ "status": "unavailable" }));
    }
    HttpResponse::Ok().json(json!({ "status": "ready" }))
}

async fn database_answers(door: &Door) -> bool {
    static TOLD: Seldom = Seldom::new();
    let database = door.services.context.database.clone();
    let ping = door.io.spawn(async move { tokio::time::timeout(READY_LIMIT, database.ping()).await });
    match ping.await {
        Ok(Ok(Ok(()))) => true,
        Ok(Ok(Err(error))) => {
            if TOLD.now() {
                tracing::warn!(err = %error, "not ready");
            }
            false
        }
        _ => {
            if TOLD.now() {
                tracing::warn!("not ready: the database did not answer in time");
            }
            false
        }
    }
}
