//! The routes below `/playground`.

use actix_web::http::StatusCode;
use actix_web::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use actix_web::middleware::{DefaultHeaders, from_fn};
use actix_web::{HttpRequest, HttpResponse, guard, web};
use serde::Deserialize;
use serde_json::json;

use super::access::{self, refusal};
use super::chat::Playground;
use super::{events, page};
use crate::domain::ChannelName;
use crate::manychat::Trouble;
use crate::model::MockMood;

/// Where the page is.
pub const PATH: &str = "/playground";
/// Largest body, in bytes: the longest message in its longest spelling.
const MOST_BYTES: usize = 65_536;

/// Adds the playground to a server. For a caller from another machine there is nothing here: the server's own 404
/// answers.
pub fn routes(config: &mut web::ServiceConfig, playground: Playground) {
    let scope = web::scope(PATH)
        .guard(guard::fn_guard(access::is_local))
        .app_data(web::Data::new(playground))
        .app_data(web::JsonConfig::default().limit(MOST_BYTES).error_handler(unreadable))
        .wrap(from_fn(access::check))
        .wrap(hardening())
        .route("", web::get().to(page::html))
        .route("/app.js", web::get().to(page::script))
        .route("/lines.js", web::get().to(page::lines))
        .route("/style.css", web::get().to(page::style))
        .route("/icon.svg", web::get().to(page::icon))
        .route("/events", web::get().to(stream))
        .route("/contacts", web::post().to(add_contact))
        .route("/messages", web::post().to(say))
        .route("/switches", web::post().to(switch));
    config.service(scope);
}

/// Over the server's own headers (HTTP-8), which add only what is missing.
fn hardening() -> DefaultHeaders {
    DefaultHeaders::new().add(("Content-Security-Policy", page::POLICY)).add(("X-Frame-Options", "DENY"))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewContact {
    channel: ChannelName,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Words {
    contact: String,
    text: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Positions {
    model: Option<MockMood>,
    manychat: Option<Trouble>,
}

async fn stream(playground: web::Data<Playground>) -> HttpResponse {
    HttpResponse::Ok()
        .insert_header((CONTENT_TYPE, "text/event-stream"))
        .insert_header((CACHE_CONTROL, "no-store"))
        .streaming(events::stream(playground.board()))
}

async fn add_contact(playground: web::Data<Playground>, body: web::Json<NewContact>) -> HttpResponse {
    match playground.add_contact(body.channel) {
        Some(id) => HttpResponse::Created().json(json!({ "id": id })),
        None => refusal(StatusCode::INTERNAL_SERVER_ERROR, "no contact could be made"),
    }
}

/// The answer comes over the stream; this says only that the message is on its way.
async fn say(playground: web::Data<Playground>, body: web::Json<Words>) -> HttpResponse {
    let Words { contact, text } = body.into_inner();
    if playground.say(&contact, text) {
        return HttpResponse::Accepted().json(json!({}));
    }
    refusal(StatusCode::NOT_FOUND, "this contact is gone: the service was started anew; reload the page")
}

async fn switch(playground: web::Data<Playground>, body: web::Json<Positions>) -> HttpResponse {
    let model = body.model.is_none_or(|mood| playground.set_model(mood));
    let manychat = body.manychat.is_none_or(|trouble| playground.set_manychat(trouble));
    if model && manychat {
        return HttpResponse::Ok().json(json!({}));
    }
    refusal(StatusCode::CONFLICT, "there is nothing to switch: the real model or the real ManyChat is in use")
}

/// Also what keeps another site's form away: a form cannot send JSON.
fn unreadable(error: actix_web::error::JsonPayloadError, _: &HttpRequest) -> actix_web::Error {
    let answer = refusal(StatusCode::BAD_REQUEST, "this is not what the playground's page sends");
    actix_web::error::InternalError::from_response(error, answer).into()
}
