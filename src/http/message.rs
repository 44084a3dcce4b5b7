//! `POST /v1/channels/manychat/message`: the checks in their order, then the turn (HTTP-10).

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use actix_web::http::StatusCode;
use actix_web::http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use actix_web::{HttpRequest, HttpResponse, web};
use bytes::{Bytes, BytesMut};
use futures_util::{FutureExt, StreamExt};
use tokio::sync::oneshot;
use tokio::sync::oneshot::error::RecvError;
use tokio::time::error::Elapsed;
use tracing::Span;

use super::body::AnswerBody;
use super::connections::Connection;
use super::gate::Caller;
use super::request::{self, BadBody};
use super::server::Door;
use super::{errors, overload};
use crate::actors::{Accepted, Answer, IsGone, Message};
use crate::channel::{DynamicBlock, InboundMessage};
use crate::domain::{Deadline, Redacted};
use crate::turn::{Answers, Snapshot};

/// Largest body (HTTP-24).
const MAX_BODY: usize = 65_536;
/// How long after the deadline an answer is still waited for before the request gives up by itself. The platform
/// hangs up 10 s after the request.
const GRACE: Duration = Duration::from_millis(500);
/// A wait that ends so long after its time says that the whole process stood still.
const STOOD_STILL: Duration = Duration::from_millis(100);

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

/// The route. What goes wrong behind a valid secret, a panic included, becomes a handoff (ERR-1).
#[utoipa::path(
    post,
    path = "/v1/channels/manychat/message",
    summary = "ManyChat Dynamic Block webhook",
    request_body = request::MessageBody,
    responses(
        (status = 200, description = "A Dynamic Block; without messages when the reply comes later", body = DynamicBlock),
        (status = 400, description = "The body is empty, not JSON, or not this schema"),
        (status = 401, description = "The secret is missing or wrong"),
        (status = 413, description = "The body is larger than 65536 bytes"),
        (status = 415, description = "The content type is not application/json"),
        (status = 429, description = "Too many requests from this address"),
        (status = 503, description = "Overload, and no valid secret"),
    ),
    security(("sharedSecret" = [])),
)]
pub(super) async fn message(
    request: HttpRequest,
    payload: web::Payload,
    caller: web::ReqData<Caller>,
    door: web::Data<Door>,
) -> HttpResponse {
    let caller = caller.into_inner();
    let Some(secret) = caller.secret.clone() else { return errors::unauthorized() };
    let snapshot = door.services.snapshots.current();
    let answering = answer(&door, &request, payload, &caller, &secret, &snapshot);
    AssertUnwindSafe(answering).catch_unwind().await.unwrap_or_else(|_| {
        tracing::error!(err = "the request's own code panicked", code = "panic", "unhandled error");
        overload::handoff(&door, &snapshot, &secret)
    })
}

async fn answer(
    door: &Door,
    request: &HttpRequest,
    payload: web::Payload,
    caller: &Caller,
    secret: &Redacted<Arc<str>>,
    snapshot: &Arc<Snapshot>,
) -> HttpResponse {
    let deadline = Deadline::after(caller.arrival, door.services.context.settings.race_deadline);
    match (read(request, payload, door, deadline).await, caller.over_limit) {
        // DEC-26: our own limit must not silence a tenant; only what is no message at all is told to slow down.
        (Ok(_), Some(_)) => {
            overload::report("rate limit");
            overload::handoff(door, snapshot, secret)
        }
        (Err(_), Some(quota)) => errors::too_many(quota.reset_secs),
        (Ok(inbound), None) => {
            let peer = Connection::of(request);
            run(door, inbound, secret, snapshot, deadline, peer).await
        }
        (Err(refusal), None) => refusal.answer(),
    }
}

async fn read(
    request: &HttpRequest,
    payload: web::Payload,
    door: &Door,
    deadline: Deadline,
) -> Result<InboundMessage, Refusal> {
    check_content_type(request)?;
    // A body that trickles in must not hold a connection for ever.
    let collected = tokio::time::timeout_at(deadline.at().into(), collect(request, payload)).await;
    let body = collected.unwrap_or(Err(Refusal::Interrupted))?;
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

/// Hands the message to its conversation and awaits the answer.
async fn run(
    door: &Door,
    inbound: InboundMessage,
    secret: &Redacted<Arc<str>>,
    snapshot: &Arc<Snapshot>,
    deadline: Deadline,
    peer: Option<Arc<Connection>>,
) -> HttpResponse {
    let (outgoing, answer) = oneshot::channel();
    let message = Message {
        inbound,
        presented_secret: secret.clone(),
        snapshot: Arc::clone(snapshot),
        deadline,
        outgoing,
        is_gone: is_gone(peer.clone()),
        span: Span::current(),
    };
    if door.services.directory.deliver(message) == Accepted::Overloaded {
        overload::report("messages waiting");
        return overload::handoff(door, snapshot, secret);
    }
    let until = tokio::time::Instant::from_std(deadline.at() + GRACE);
    match given(awaited(answer, until).await, || peer.as_ref().is_some_and(|peer| peer.is_gone())) {
        Ok(body) => overload::block(body),
        Err(silence) => {
            silence.report();
            silent(door, snapshot, secret)
        }
    }
}

/// Waits for the answer until then. When the process stood still at that moment the turn could not give its line at the
/// deadline either, and does so now: it gets the grace that it had no use of.
async fn awaited(
    mut answer: oneshot::Receiver<Answer>,
    until: tokio::time::Instant,
) -> Result<Result<Answer, RecvError>, Elapsed> {
    match tokio::time::timeout_at(until, &mut answer).await {
        Err(_) if until.elapsed() > STOOD_STILL => tokio::time::timeout(GRACE, answer).await,
        answered => answered,
    }
}

/// Why a request whose message was accepted is answered without a text. The text comes through the outbox (ARC-40).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Silence {
    /// The caller hung up. Half-closed, it might still read: the text must not reach it twice.
    Gone,
    /// The process was silent for so long that others may have sent the reply (ARC-44).
    NotOurs,
    /// The turn, or its conversation, ended otherwise. What it owes is resolved behind the request.
    Ended,
    /// The turn is not heard of, and goes on.
    Late,
}

/// What the response says. A copy that nobody has recorded would reach the contact beside the reply that the turn still
/// owes, so a turn that is not heard of says nothing here (ARC-40, ARC-43).
fn given(
    answered: Result<Result<Answer, RecvError>, Elapsed>,
    is_gone: impl FnOnce() -> bool,
) -> Result<AnswerBody, Silence> {
    let Answer { body, owed } = answered.map_err(|_| Silence::Late)?.map_err(|_| Silence::Ended)?;
    if owed.as_ref().is_some_and(|owed| !owed.is_ours()) {
        return Err(Silence::NotOurs);
    }
    // What a caller who hung up should have read goes through the outbox: dropping what is owed does that (GAP-CH-7).
    if owed.is_some() && is_gone() {
        return Err(Silence::Gone);
    }
    Ok(AnswerBody::new(body, owed))
}

impl Silence {
    /// The turn's own end is reported where it happened; these lines say what the request came to (ERR-2).
    fn report(self) {
        match self {
            Self::Gone => {}
            Self::NotOurs => tracing::warn!("reply left to others after a silence of its process"),
            Self::Ended => {
                tracing::error!(
                    err = "the turn ended without an answer",
                    code = "turn_ended",
                    "unhandled error"
                );
            }
            Self::Late => {
                tracing::error!(
                    err = "the turn did not answer in time",
                    code = "turn_late",
                    "unhandled error"
                );
            }
        }
    }
}

/// Tells the conversation whether this caller is still there.
fn is_gone(peer: Option<Arc<Connection>>) -> IsGone {
    Arc::new(move || peer.as_ref().is_some_and(|peer| peer.is_gone()))
}

/// A block without a message (OUT-8).
fn silent(door: &Door, snapshot: &Snapshot, secret: &Redacted<Arc<str>>) -> HttpResponse {
    match Answers::of(&door.services.context, snapshot).silent(secret.expose()) {
        Ok(body) => overload::block(AnswerBody::new(body, None)),
        Err(_) => errors::internal(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn waited_for(answer: oneshot::Receiver<Answer>) -> Result<Result<Answer, RecvError>, Elapsed> {
        tokio::time::timeout(Duration::from_secs(1), answer).await
    }

    /// RACE-5, ARC-40: a process that stood still over the deadline still gives the line; a turn that is only late does not
    /// get more time.
    #[tokio::test(start_paused = true)]
    async fn a_line_is_given_after_a_standstill() {
        let now = tokio::time::Instant::now();
        let line = || Answer { body: b"line".to_vec(), owed: None };
        let late = async |until| {
            let (outgoing, answer) = oneshot::channel();
            let telling = async {
                tokio::time::sleep_until(now + Duration::from_millis(1100)).await;
                outgoing.send(line()).is_ok()
            };
            tokio::join!(awaited(answer, until), telling).0
        };
        assert!(late(now + Duration::from_secs(1)).await.is_err(), "in its own time");
        // The clock stands at 1.1 s: a wait until half a second ago is one that woke up late.
        let (outgoing, answer) = oneshot::channel();
        let telling = async {
            tokio::time::sleep(Duration::from_millis(50)).await;
            outgoing.send(line()).is_ok()
        };
        let (answered, told) = tokio::join!(awaited(answer, now + Duration::from_millis(600)), telling);
        assert!(told && answered.is_ok_and(|answer| answer.is_ok()));
    }

    /// ARC-40, ERR-1: a turn that is late or gone is answered for without a text: what it owes would follow one.
    #[tokio::test(start_paused = true)]
    async fn a_turn_that_is_not_heard_of_is_answered_without_a_text() {
        let (outgoing, answer) = oneshot::channel();
        assert_eq!(given(waited_for(answer).await, || false).err(), Some(Silence::Late));
        drop(outgoing);
        let (outgoing, answer) = oneshot::channel();
        drop(outgoing);
        assert_eq!(given(waited_for(answer).await, || false).err(), Some(Silence::Ended));
        let (outgoing, answer) = oneshot::channel();
        assert!(outgoing.send(Answer { body: b"line".to_vec(), owed: None }).is_ok());
        assert!(given(waited_for(answer).await, || true).is_ok(), "nothing depends on who reads it");
    }
}
