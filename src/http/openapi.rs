//! The OpenAPI document, made from the very types that check requests and write answers (OPS-3). It describes the
//! schema, so it is shown only to who holds a shared secret or the operators' token (HTTP-11).

use actix_web::http::header::ContentType;
use actix_web::{HttpRequest, HttpResponse, web};
use utoipa::openapi::schema::{AdditionalProperties, Schema};
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::openapi::{OpenApi as Document, RefOr};
use utoipa::{Modify, OpenApi};

use super::server::Door;
use super::{auth, errors, message};

/// Path of the document.
pub(super) const PATH: &str = "/openapi.json";

#[derive(OpenApi)]
#[openapi(
    info(title = "ManyChat AI Agent", version = "0.1.0", description = "Answers ManyChat's webhook calls."),
    paths(message::message),
    modifiers(&SharedSecret, &NoOtherKeys)
)]
struct Api;

/// The one way to authenticate (AUTH-1).
struct SharedSecret;

impl Modify for SharedSecret {
    fn modify(&self, document: &mut Document) {
        let scheme = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).build();
        let components = document.components.get_or_insert_default();
        components.add_security_scheme("sharedSecret", SecurityScheme::Http(scheme));
    }
}

/// Unknown keys of a message are refused (INB-1); the parser does that by hand, so no attribute says it.
struct NoOtherKeys;

impl Modify for NoOtherKeys {
    fn modify(&self, document: &mut Document) {
        let components = document.components.get_or_insert_default();
        if let Some(RefOr::T(Schema::Object(body))) = components.schemas.get_mut("MessageBody") {
            body.additional_properties = Some(Box::new(AdditionalProperties::FreeForm(false)));
        }
    }
}

/// The document as JSON; empty when it cannot be written, which a test excludes.
pub(super) fn document() -> String {
    Api::openapi().to_json().unwrap_or_default()
}

/// `GET /openapi.json`
pub(super) async fn openapi(request: HttpRequest, door: web::Data<Door>) -> HttpResponse {
    let headers = request.headers();
    let is_operator = door.admin_token.as_ref().is_some_and(|token| auth::carries(headers, token));
    if !is_operator && door.secrets.presented(headers).is_none() {
        return errors::unauthorized();
    }
    HttpResponse::Ok().content_type(ContentType::json()).body(document())
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::super::{MESSAGE_PATH, request};
    use super::*;

    fn parsed() -> Value {
        serde_json::from_str(&document()).unwrap()
    }

    /// OPS-3: title, version, security scheme, the route with its summary, body and answer.
    #[test]
    fn the_document_describes_the_message_route() {
        let document = parsed();
        assert_eq!(document["info"]["title"], "ManyChat AI Agent");
        assert_eq!(document["info"]["version"], "0.1.0");
        assert_eq!(document["components"]["securitySchemes"]["sharedSecret"]["scheme"], "bearer");
        let route = &document["paths"][MESSAGE_PATH]["post"];
        assert_eq!(route["summary"], "ManyChat Dynamic Block webhook");
        let schema = |part: &Value| part["content"]["application/json"]["schema"]["$ref"].clone();
        assert_eq!(schema(&route["requestBody"]), "#/components/schemas/MessageBody");
        assert_eq!(schema(&route["responses"]["200"]), "#/components/schemas/DynamicBlock");
        assert_eq!(document["paths"].as_object().unwrap().len(), 1);
    }

    /// OPS-3, INB-1: the document and the parser agree on keys, on what is required, and on bounds.
    #[test]
    fn the_body_is_described_as_it_is_checked() {
        let document = parsed();
        let body = &document["components"]["schemas"]["MessageBody"];
        assert_eq!(body["additionalProperties"], false);
        assert_eq!(body["required"], serde_json::json!(["subscriber_id", "text"]));
        let keys: Vec<&String> = body["properties"].as_object().unwrap().keys().collect();
        assert_eq!(keys.len(), 9, "{keys:?}");
        for key in keys {
            let property = &body["properties"][key];
            if let Some(most) = property["maxLength"].as_u64() {
                let text = |length| {
                    let value = "x".repeat(usize::try_from(length).unwrap());
                    let other = if key == "text" { "subscriber_id" } else { "text" };
                    let rest = format!(r#""{other}":"1""#);
                    let subscriber = if key == "text" { "" } else { r#","subscriber_id":"1""# };
                    request::parse(format!(r#"{{{rest}{subscriber},"{key}":"{value}"}}"#).as_bytes()).is_ok()
                };
                assert!(text(most) && !text(most + 1), "{key} {most}");
            }
            let alone = format!(r#"{{"subscriber_id":"1","text":"a","{key}":null}}"#);
            let nullable =
                property["type"].as_array().is_some_and(|types| types.iter().any(|kind| kind == "null"));
            assert_eq!(request::parse(alone.as_bytes()).is_ok(), nullable, "{key}: null");
        }
    }
}
