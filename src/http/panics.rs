//! The last resort of every route: a panic is answered, not a connection closed (ERR-3).

use std::panic::AssertUnwindSafe;

use actix_web::Error;
use actix_web::body::MessageBody;
use actix_web::dev::{ServiceRequest, ServiceResponse};
use actix_web::error::InternalError;
use actix_web::middleware::Next;
use futures_util::FutureExt;

use super::{errors, hardening};

/// The outermost middleware: what panics inside becomes the 500 of HTTP-27. The panic itself is in the log already. The
/// request is gone with it, so the answer is made here whole, its headers too.
pub(super) async fn answer_panics<B: MessageBody + 'static>(
    request: ServiceRequest,
    next: Next<B>,
) -> Result<ServiceResponse<B>, Error> {
    AssertUnwindSafe(next.call(request)).catch_unwind().await.unwrap_or_else(|_| {
        tracing::error!("unhandled error");
        let mut answer = errors::internal();
        hardening::add(answer.headers_mut());
        Err(InternalError::from_response("panic", answer).into())
    })
}

#[cfg(test)]
mod tests {
    use actix_web::middleware::from_fn;
    use actix_web::{App, HttpResponse, HttpServer, web};

    use super::*;

    async fn broken() -> HttpResponse {
        panic!("planted words of a contact")
    }

    /// ERR-3, HTTP-8, HTTP-31: any route, over a real connection, which then serves the next request.
    #[actix_web::test]
    async fn a_panic_is_answered_on_a_connection_that_stays() {
        let server = HttpServer::new(|| {
            App::new()
                .wrap(from_fn(answer_panics))
                .service(web::scope("/below").route("/broken", web::get().to(broken)))
                .route("/well", web::get().to(HttpResponse::Ok))
        });
        let server = server.workers(1).disable_signals().bind(("127.0.0.1", 0)).unwrap();
        let port = server.addrs()[0].port();
        let server = server.run();
        let handle = server.handle();
        actix_web::rt::spawn(server);
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = reqwest::Client::builder().no_proxy().pool_max_idle_per_host(1).build().unwrap();
        let get = async |path: &str| client.get(format!("http://127.0.0.1:{port}{path}")).send().await;
        let answer = get("/below/broken").await.unwrap();
        assert_eq!(answer.status(), 500);
        assert_eq!(answer.headers()["x-content-type-options"], "nosniff");
        assert_eq!(answer.text().await.unwrap(), r#"{"error":"internal"}"#);
        assert_eq!(get("/well").await.unwrap().status(), 200);
        handle.stop(false).await;
    }
}
