//! The server: routes, headers, start and stop.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use actix_web::dev::ServerHandle;
use actix_web::middleware::from_fn;
use actix_web::{App, HttpServer, web};
use tokio::runtime::Handle;
use tokio::task::JoinHandle;

use super::auth::Secrets;
use super::gate::gate;
use super::panics::answer_panics;
use super::peer::Peer;
use super::rate_limit::RateLimit;
use super::{MESSAGE_PATH, admin, errors, hardening, health, message, openapi};
use crate::actors::Services;
use crate::config::{Settings, TrustedProxies};
use crate::domain::Redacted;
use crate::playground::{self, Playground};

/// What the routes need; shared by all workers.
pub struct Door {
    /// The actors.
    pub services: Services,
    /// Valid shared secrets.
    pub secrets: Secrets,
    /// `ADMIN_TOKEN`.
    pub admin_token: Option<Redacted<String>>,
    /// The shared runtime: database work never runs on a worker's own.
    pub io: Handle,
    pub(super) limit: RateLimit,
    pub(super) proxies: TrustedProxies,
    playground: Option<Playground>,
    requests: AtomicU64,
    draining: AtomicBool,
}

/// The server could not start.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// The port cannot be listened on: stop whoever uses it or set `PORT`.
    #[error("cannot listen on port {port}: {reason}; stop the program that uses it or set PORT")]
    Listen {
        /// The port.
        port: u16,
        /// What the system says.
        reason: std::io::Error,
    },
}

/// A running server.
pub struct Server {
    handle: ServerHandle,
    task: JoinHandle<std::io::Result<()>>,
    door: web::Data<Door>,
}

/// Longest wait for open requests when the server stops, in seconds. A request is answered at its deadline at the
/// latest, so this only bounds connections that never ask anything.
const STOP_SECS: u64 = 15;

impl Door {
    /// The door of a process.
    #[must_use]
    pub fn new(services: Services, settings: &Settings, io: Handle) -> Self {
        Self {
            services,
            secrets: Secrets::new(&settings.shared_secrets),
            admin_token: settings.admin_token.clone(),
            io,
            limit: RateLimit::new(settings.rate_limit_per_minute),
            proxies: settings.trusted_proxies(),
            playground: None,
            requests: AtomicU64::new(0),
            draining: AtomicBool::new(false),
        }
    }

    /// The same with the playground's page (DEC-16).
    #[must_use]
    pub fn with_playground(mut self, playground: Option<Playground>) -> Self {
        self.playground = playground;
        self
    }

    /// The number of a new request, from 1 (OPS-1).
    pub(super) fn next_request(&self) -> u64 {
        self.requests.fetch_add(1, Ordering::Relaxed) + 1
    }

    pub(super) fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Acquire)
    }
}

/// Listens on `0.0.0.0:port` (HTTP-7).
///
/// # Errors
/// [`ServerError::Listen`] when the port cannot be had.
pub fn start(door: Door, port: u16, workers: usize) -> Result<Server, ServerError> {
    let door = web::Data::from(Arc::new(door));
    let shared = door.clone();
    let server = HttpServer::new(move || {
        let playground = shared.playground.clone();
        App::new()
            .app_data(shared.clone())
            .wrap(from_fn(gate))
            .wrap(hardening::headers())
            .wrap(from_fn(answer_panics))
            .configure(|config| playground.into_iter().for_each(|page| playground::routes(config, page)))
            .configure(routes)
    });
    let server =
        server.on_connect(Peer::remember).workers(workers).disable_signals().shutdown_timeout(STOP_SECS);
    let server = server.bind(("0.0.0.0", port)).map_err(|reason| ServerError::Listen { port, reason })?;
    Ok(Server::run(server.run(), door))
}

/// Listens on `0.0.0.0:port` and answers `/health` and `/ready`, and nothing else (CLI-32).
///
/// # Errors
/// [`ServerError::Listen`] when the port cannot be had.
pub fn start_health(door: Door, port: u16) -> Result<Server, ServerError> {
    let door = web::Data::from(Arc::new(door));
    let shared = door.clone();
    let server = HttpServer::new(move || {
        App::new()
            .app_data(shared.clone())
            .wrap(hardening::headers())
            .wrap(from_fn(answer_panics))
            .configure(health_routes)
            .default_service(missing())
    });
    let server = server.workers(1).disable_signals().shutdown_timeout(STOP_SECS);
    let server = server.bind(("0.0.0.0", port)).map_err(|reason| ServerError::Listen { port, reason })?;
    Ok(Server::run(server.run(), door))
}

/// Each known path with its one method; anything else is a 404 (HTTP-6).
fn routes(config: &mut web::ServiceConfig) {
    let message =
        web::resource(MESSAGE_PATH).route(web::post().to(message::message)).default_service(missing());
    config
        .service(message)
        .configure(health_routes)
        .configure(admin::routes)
        .service(readable(openapi::PATH, web::get().to(openapi::openapi), web::head().to(openapi::openapi)))
        .default_service(missing());
}

fn health_routes(config: &mut web::ServiceConfig) {
    config
        .service(readable("/health", web::get().to(health::health), web::head().to(health::health)))
        .service(readable("/ready", web::get().to(health::ready), web::head().to(health::ready)));
}

pub(super) fn missing() -> actix_web::Route {
    web::to(|| async { errors::not_found() })
}

/// `HEAD` works where `GET` works (HTTP-6).
pub(super) fn readable(path: &str, get: actix_web::Route, head: actix_web::Route) -> actix_web::Resource {
    web::resource(path).route(get).route(head).default_service(missing())
}

impl Server {
    fn run(server: actix_web::dev::Server, door: web::Data<Door>) -> Self {
        let handle = server.handle();
        Self { handle, task: tokio::spawn(server), door }
    }

    /// Makes `/ready` say 503 from now on (DEC-28).
    pub fn begin_drain(&self) {
        self.door.draining.store(true, Ordering::Release);
        if let Some(playground) = &self.door.playground {
            playground.close();
        }
    }

    /// Stops accepting and waits until open requests are answered (OPS-5).
    pub async fn stop(self) {
        self.handle.stop(true).await;
        // Its error would be one of accepting, which is over.
        let _ = self.task.await;
    }

    /// Ends at once; open requests get no answer.
    pub async fn abort(self) {
        self.handle.stop(false).await;
    }
}
