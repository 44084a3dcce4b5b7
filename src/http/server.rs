//! The server: routes, headers, start and stop.

use std::any::Any;
use std::net::{Ipv4Addr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use actix_web::dev::{Extensions, ServerHandle};
use actix_web::middleware::{Condition, from_fn};
use actix_web::{App, HttpServer, web};
use tokio::net::TcpSocket;
use tokio::runtime::Handle;
use tokio::task::{AbortHandle, JoinHandle};

use super::auth::Secrets;
use super::connections::{Connections, watch};
use super::gate::gate;
use super::panics::answer_panics;
use super::rate_limit::RateLimit;
use super::refused::Refused;
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
    pub(super) refused: Refused,
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
    sweeper: AbortHandle,
    door: web::Data<Door>,
}

/// Longest wait for open requests when the server stops, in seconds. A request is answered at its deadline at the
/// latest, so this only bounds connections that never ask anything.
const STOP_SECS: u64 = 15;
/// Longest wait for the head of a request, so that a connection that says nothing does not keep its place. A body has
/// until the deadline.
const HEAD_LIMIT: Duration = Duration::from_secs(3);
/// How long a connection may say nothing after an answer.
const KEEP_ALIVE: Duration = Duration::from_secs(5);
/// Longest time of a connection without a request: one that begins in the last moment of the silence has its head's time.
const IDLE_LIMIT: Duration = KEEP_ALIVE.saturating_add(HEAD_LIMIT);
/// Connections that the system keeps for us until they are accepted.
const BACKLOG: u32 = 1024;
/// Connections to a worker's health port.
const HEALTH_CONNECTIONS: usize = 64;

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
            refused: Refused::default(),
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

/// A port that is ours and not open yet: nobody is accepted, and a port that somebody else uses is noticed before
/// anything is started (CLI-20).
#[derive(Debug)]
pub struct Port {
    socket: TcpSocket,
    number: u16,
}

impl Port {
    /// Takes `0.0.0.0:port` (HTTP-7).
    ///
    /// # Errors
    /// [`ServerError::Listen`] when the port cannot be had.
    pub fn take(number: u16) -> Result<Self, ServerError> {
        let taken = TcpSocket::new_v4().and_then(|socket| {
            socket.set_reuseaddr(true)?;
            socket.bind((Ipv4Addr::UNSPECIFIED, number).into())?;
            Ok(socket)
        });
        let socket = taken.map_err(|reason| ServerError::Listen { port: number, reason })?;
        Ok(Self { socket, number })
    }

    /// Its number.
    #[must_use]
    pub const fn number(&self) -> u16 {
        self.number
    }

    fn open(self) -> Result<TcpListener, ServerError> {
        let opened = self.socket.listen(BACKLOG).and_then(tokio::net::TcpListener::into_std);
        opened.map_err(|reason| ServerError::Listen { port: self.number, reason })
    }
}

/// Opens the port. `connections`: most of them at once; more wait to be accepted.
///
/// # Errors
/// [`ServerError::Listen`] when the port cannot be listened on.
pub fn start(door: Door, port: Port, workers: usize, connections: usize) -> Result<Server, ServerError> {
    open(door, port, Offer::Everything, (workers, connections))
}

/// Opens the port and answers `/health` and `/ready`, and nothing else (CLI-32).
///
/// # Errors
/// [`ServerError::Listen`] when the port cannot be listened on.
pub fn start_health(door: Door, port: Port) -> Result<Server, ServerError> {
    open(door, port, Offer::Health, (1, HEALTH_CONNECTIONS))
}

/// What is answered at a port.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Offer {
    Everything,
    Health,
}

/// `most`: workers, and connections of all of them.
fn open(door: Door, port: Port, offer: Offer, most: (usize, usize)) -> Result<Server, ServerError> {
    let (door, number) = (web::Data::from(Arc::new(door)), port.number());
    let shared = door.clone();
    let server = HttpServer::new(move || {
        let playground = shared.playground.clone();
        App::new()
            .app_data(shared.clone())
            .wrap(Condition::new(offer == Offer::Everything, from_fn(gate)))
            .wrap(hardening::headers())
            .wrap(from_fn(answer_panics))
            .wrap(from_fn(watch))
            .configure(move |config| match offer {
                Offer::Everything => {
                    playground.into_iter().for_each(|page| playground::routes(config, page));
                    routes(config);
                }
                Offer::Health => health_routes(config),
            })
            .default_service(missing())
    });
    let (known, (workers, connections)) = (Arc::new(Connections::default()), most);
    let server = server
        .on_connect(remember(&known))
        .workers(workers)
        .max_connections((connections / workers.max(1)).max(1))
        .client_request_timeout(HEAD_LIMIT)
        .keep_alive(KEEP_ALIVE)
        .disable_signals()
        .shutdown_timeout(STOP_SECS);
    let listen = |reason| ServerError::Listen { port: number, reason };
    let server = server.listen(port.open()?).map_err(listen)?;
    Ok(Server::run(server.run(), door, known))
}

/// What is done with a new connection.
fn remember(known: &Arc<Connections>) -> impl Fn(&dyn Any, &mut Extensions) + Send + Sync + use<> {
    let known = Arc::clone(known);
    move |connection, extensions| known.remember(connection, extensions)
}

/// Each known path with its one method; anything else is a 404 (HTTP-6).
fn routes(config: &mut web::ServiceConfig) {
    let message =
        web::resource(MESSAGE_PATH).route(web::post().to(message::message)).default_service(missing());
    config.service(message).configure(health_routes).configure(admin::routes).service(readable(
        openapi::PATH,
        web::get().to(openapi::openapi),
        web::head().to(openapi::openapi),
    ));
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
    fn run(server: actix_web::dev::Server, door: web::Data<Door>, known: Arc<Connections>) -> Self {
        let handle = server.handle();
        let sweeper = tokio::spawn(known.sweep(IDLE_LIMIT)).abort_handle();
        Self { handle, task: tokio::spawn(server), sweeper, door }
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
        self.sweeper.abort();
    }
}
