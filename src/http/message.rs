//! `POST /v1/channels/manychat/message`: the checks in their order, then the turn (HTTP-10).

use std::sync::Arc;
use std::time::{Duration, Instant};

use actix_web::http::StatusCode;
use actix_web::http::header::{CONTENT_LENGTH, CONTENT_TYPE, ContentType};
use actix_web::{HttpRequest, HttpResponse, web};
use bytes::{Bytes, BytesMut};
use futures_util::StreamExt;
use tokio::sync::oneshot;

use super::body::AnswerBody;
use super::errors;
use super::peer::Peer;
use super::request::{self, BadBody};
use super::server::Door;
use crate::actors::{Accepted, Answer, Message};
use crate::channel::InboundMessage;
use crate::domain::{Deadline, Redacted};
use crate::turn::{Answers, Snapshot};

/// Largest body (HTTP-24).
const MAX_BODY: usize = 65_536;
/// How long after the deadline an answer is still waited for before the request gives up by itself. The platform
/// hangs up 10 s after the request.
const GRACE: Duration = Duration::from_millis(500);

/// What a request is refused with; none of these is a handoff (HTTP-29).
enum Refusal {
    /// Not `application/json` (HTTP-25).
    MediaType { is_text: bool },
    /// More than 65 536 bytes (HTTP-24).
    TooLarge,
    /// The body did not arrive whole.
    Interrupted,
    /// Not JSON, or not the schema (HTTP-22).
    Body(BadBody),
}

/// The route.
pub(super) async fn message(
    request: HttpRequest,
    payload: web::Payload,
    door: web::Data<Door>,
) -> HttpResponse {
    let arrival = Instant::now();
    let Some(secret) = door.secrets.presented(request.headers()) else { return errors::unauthorized() };
    let snapshot = door.services.snapshots.current();
    match read(&request, payload, &door).await {
        Ok(inbound) => {
            let caller = Caller { secret, snapshot, peer: Peer::of(&request) };
            run(&door, inbound, caller, arrival).await
        }
        Err(refusal) => refusal.answer(),
    }
}

async fn read(request: &HttpRequest, payload: web::Payload, door: &Door) -> Result<InboundMessage, Refusal> {
    check_content_type(request)?;
    let body = collect(request, payload).await?;
    let parsed = request::parse(&body).map_err(Refusal::Body)?;
    let context = &door.services.context;
    let settings = &context.settings;
    Ok(parsed.into_inbound(settings.tenant.clone(), settings.channel, context.clock.now()))
}

fn check_content_type(request: &HttpRequest) -> Result<(), Refusal> {
    let value = request.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or("");
    let essence = value.split(';').next().unwrap_or("").trim().to_ascii_lowercase();
    match essence.as_str() {
        "application/json" => Ok(()),
        "text/plain" => Err(Refusal::MediaType { is_text: true }),
        _ => Err(Refusal::MediaType { is_text: false }),
    }
}

async fn collect(request: &HttpRequest, mut payload: web::Payload) -> Result<Bytes, Refusal> {
    let announced = request.headers().get(CONTENT_LENGTH).and_then(|value| value.to_str().ok());
    if announced.and_then(|length| length.parse::<usize>().ok()).is_some_and(|length| length > MAX_BODY) {
        return Err(Refusal::TooLarge);
    }
    let mut body = BytesMut::new();
    while let Some(chunk) = payload.next().await {
        let chunk = chunk.map_err(|_| Refusal::Interrupted)?;
        if body.len() + chunk.len() > MAX_BODY {
            return Err(Refusal::TooLarge);
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body.freeze())
}

impl Refusal {
    fn answer(self) -> HttpResponse {
        match self {
            Self::MediaType { is_text: true } => errors::refusal(
                StatusCode::BAD_REQUEST,
                Some("INVALID_BODY"),
                "the body must be JSON: send the header Content-Type: application/json",
            ),
            Self::MediaType { is_text: false } => errors::refusal(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                Some("UNSUPPORTED_MEDIA_TYPE"),
                "send the header Content-Type: application/json",
            ),
            Self::TooLarge => errors::refusal(
                StatusCode::PAYLOAD_TOO_LARGE,
                Some("BODY_TOO_LARGE"),
                "the body is larger than 65536 bytes",
            ),
            Self::Interrupted => errors::refusal(
                StatusCode::BAD_REQUEST,
                Some("INVALID_BODY"),
                "the body ended before its announced length",
            ),
            Self::Body(bad) => errors::refusal(StatusCode::BAD_REQUEST, Some(bad.code()), &bad.message()),
        }
    }
}

/// Who is answered, and with what configuration.
struct Caller {
    secret: Redacted<Arc<str>>,
    snapshot: Arc<Snapshot>,
    peer: Option<Peer>,
}

impl Caller {
    fn is_gone(&self) -> bool {
        self.peer.as_ref().is_some_and(Peer::is_gone)
    }
}

/// Hands the message to its conversation and awaits the answer.
async fn run(door: &Door, inbound: InboundMessage, caller: Caller, arrival: Instant) -> HttpResponse {
    let deadline = Deadline::after(arrival, door.services.context.settings.race_deadline);
    let (outgoing, answer) = oneshot::channel();
    let message = Message {
        inbound,
        presented_secret: caller.secret.clone(),
        snapshot: Arc::clone(&caller.snapshot),
        deadline,
        outgoing,
    };
    if door.services.directory.deliver(message) == Accepted::Overloaded {
        tracing::warn!("load shed");
        return handoff(door, &caller);
    }
    let until = tokio::time::Instant::from_std(deadline.at() + GRACE);
    match tokio::time::timeout_at(until, answer).await {
        Ok(Ok(answer)) => hand_over(answer, &caller),
        Ok(Err(_)) | Err(_) => {
            tracing::error!("unhandled error");
            handoff(door, &caller)
        }
    }
}

/// A reply to a caller who hung up goes through the outbox: dropping what is owed does that (GAP-CH-7).
fn hand_over(answer: Answer, caller: &Caller) -> HttpResponse {
    let owed = answer.owed.filter(|_| !caller.is_gone());
    block(AnswerBody::new(answer.body, owed))
}

/// A server error becomes a handoff for a caller with a valid secret (ERR-1).
fn handoff(door: &Door, caller: &Caller) -> HttpResponse {
    match Answers::of(&door.services.context, &caller.snapshot).handoff(caller.secret.expose()) {
        Ok(body) => block(AnswerBody::new(body, None)),
        Err(error) => {
            tracing::error!(err = %error, "handoff failed");
            errors::internal()
        }
    }
}

fn block(body: AnswerBody) -> HttpResponse {
    HttpResponse::Ok().content_type(ContentType::json()).body(body)
}
