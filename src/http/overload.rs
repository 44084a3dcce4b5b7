//! What a caller with a valid secret gets instead of a turn: the tenant's handoff copy (ERR-1, SHED-2).

use std::sync::Arc;

use actix_web::HttpResponse;
use actix_web::http::header::ContentType;

use super::body::AnswerBody;
use super::errors;
use super::server::Door;
use crate::channel::RenderError;
use crate::domain::Redacted;
use crate::turn::{Answers, Snapshot};

/// SHED-4. `cause` names the bound that was reached.
pub(super) fn report(cause: &'static str) {
    tracing::warn!(cause, "load shed");
}

/// A block with the escalation copy; HTTP-27 when even that cannot be rendered (ERR-4).
pub(super) fn handoff(door: &Door, snapshot: &Snapshot, secret: &Redacted<Arc<str>>) -> HttpResponse {
    rendered(Answers::of(&door.services.context, snapshot).handoff(secret.expose()))
}

fn rendered(handoff: Result<Vec<u8>, RenderError>) -> HttpResponse {
    match handoff {
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

#[cfg(test)]
mod tests {
    use std::fmt::Debug;
    use std::sync::Mutex;

    use actix_web::body::to_bytes;
    use tracing::field::{Field, Visit};
    use tracing::{Event, Level, Subscriber};
    use tracing_subscriber::layer::{Context, Layer, SubscriberExt};

    use super::*;

    #[derive(Clone, Default)]
    struct Heard(Arc<Mutex<Vec<(Level, String)>>>);

    struct Words(String);

    impl Visit for Words {
        fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
            if field.name() == "message" {
                self.0 = format!("{value:?}");
            }
        }
    }

    impl<S: Subscriber> Layer<S> for Heard {
        fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
            let mut words = Words(String::new());
            event.record(&mut words);
            self.0.lock().unwrap().push((*event.metadata().level(), words.0));
        }
    }

    /// HTTP-27, ERR-4: when not even the handoff can be rendered, the body names nothing, and the log says what failed.
    #[actix_web::test]
    async fn a_handoff_that_cannot_be_rendered_is_a_500() {
        let heard = Heard::default();
        let subscriber = tracing_subscriber::registry().with(heard.clone());
        let answer =
            tracing::subscriber::with_default(subscriber, || rendered(Err(RenderError::EmptyText(0))));
        assert_eq!(answer.status(), 500);
        assert_eq!(to_bytes(answer.into_body()).await.unwrap(), r#"{"error":"internal"}"#);
        assert_eq!(*heard.0.lock().unwrap(), [(Level::ERROR, "handoff failed".to_owned())]);
    }
}
