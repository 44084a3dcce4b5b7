//! What a caller with a valid secret gets instead of a turn: the tenant's handoff copy (ERR-1, SHED-2).

use std::sync::Arc;

use actix_web::HttpResponse;
use actix_web::http::header::ContentType;

use super::body::AnswerBody;
use super::errors;
use super::server::Door;
use crate::domain::Redacted;
use crate::turn::{Answers, Snapshot};

/// SHED-4. `cause` names the bound that was reached.
pub(super) fn report(cause: &'static str) {
    tracing::warn!(cause, "load shed");
}

/// A block with the escalation copy; HTTP-27 when even that cannot be rendered (ERR-4).
pub(super) fn handoff(door: &Door, snapshot: &Snapshot, secret: &Redacted<Arc<str>>) -> HttpResponse {
    match Answers::of(&door.services.context, snapshot).handoff(secret.expose()) {
        Ok(body) => block(AnswerBody::new(body, None)),
        Err(error) => {
            tracing::error!(err = %error, "handoff failed");
            errors::internal()
        }
    }
}

/// A 200 with a Dynamic Block.
pub(super) fn block(body: AnswerBody) -> HttpResponse {
    HttpResponse::Ok().content_type(ContentType::json()).body(body)
}
