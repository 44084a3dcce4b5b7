//! Which connections have no request under way, and since when. actix-web limits the head of a connection's first request
//! and the silence after an answer, but not half a head after it: whoever had asked once could keep a place for ever.

use std::any::Any;
use std::io::ErrorKind;
use std::net::{Shutdown, TcpStream};
use std::os::fd::AsFd;
use std::pin::Pin;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use actix_web::body::{BodySize, MessageBody};
use actix_web::dev::{Extensions, ServiceRequest, ServiceResponse};
use actix_web::middleware::Next;
use actix_web::{Error, HttpRequest, rt};
use bytes::Bytes;

use crate::domain::millis;

/// How often connections are looked at.
const EVERY: Duration = Duration::from_secs(1);

/// All connections of a server.
#[derive(Default)]
pub(super) struct Connections(Mutex<Vec<Weak<Connection>>>);

/// One caller's connection.
pub(super) struct Connection {
    /// A duplicate: actix-web neither tells whether a caller is still there nor lets anybody close (ARC-32).
    socket: TcpStream,
    opened: Instant,
    /// Requests that are read, answered or handed over.
    under_way: AtomicU32,
    /// Milliseconds after `opened` at which the last of them was over.
    idle_since: AtomicU64,
}

impl Connections {
    /// Keeps a duplicate of a new connection's socket. Without one (no file descriptor left) the caller counts as there,
    /// and only actix-web's own limits hold.
    pub(super) fn remember(&self, connection: &dyn Any, extensions: &mut Extensions) {
        let socket = connection.downcast_ref::<rt::net::TcpStream>();
        let duplicate = socket.and_then(|socket| socket.as_fd().try_clone_to_owned().ok());
        if let Some(duplicate) = duplicate {
            let connection = Arc::new(Connection::new(duplicate.into()));
            self.all().push(Arc::downgrade(&connection));
            extensions.insert(connection);
        }
    }

    /// Closes, again and again, what has had nothing under way for longer than `limit`. Ends never.
    pub(super) async fn sweep(self: Arc<Self>, limit: Duration) {
        let mut ticks = tokio::time::interval(EVERY);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            self.close_idle(Instant::now(), limit);
        }
    }

    fn close_idle(&self, now: Instant, limit: Duration) {
        self.all().retain(|connection| {
            let Some(connection) = connection.upgrade() else { return false };
            if connection.idle_for(now) >= limit {
                // The server reads the end and lets the connection go.
                let _ = connection.socket.shutdown(Shutdown::Both);
            }
            true
        });
    }

    fn all(&self) -> std::sync::MutexGuard<'_, Vec<Weak<Connection>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Connection {
    fn new(socket: TcpStream) -> Self {
        Self { socket, opened: Instant::now(), under_way: AtomicU32::new(0), idle_since: AtomicU64::new(0) }
    }

    /// The connection of this request.
    pub(super) fn of(request: &HttpRequest) -> Option<Arc<Self>> {
        request.conn_data::<Arc<Self>>().cloned()
    }

    /// True when the caller is known to have closed the connection, or at least its sending side. The socket does not
    /// block: "would block" is what a caller who waits looks like.
    pub(super) fn is_gone(&self) -> bool {
        match self.socket.peek(&mut [0]) {
            Ok(length) => length == 0,
            Err(error) => !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted),
        }
    }

    /// Since when nothing is under way; zero while something is.
    fn idle_for(&self, now: Instant) -> Duration {
        if self.under_way.load(Ordering::Acquire) > 0 {
            return Duration::ZERO;
        }
        let since = self.opened + Duration::from_millis(self.idle_since.load(Ordering::Acquire));
        now.saturating_duration_since(since)
    }
}

/// A request, from its head until its answer's last chunk was taken or dropped.
struct UnderWay(Arc<Connection>);

impl UnderWay {
    fn of(request: &HttpRequest) -> Option<Self> {
        let connection = Connection::of(request)?;
        connection.under_way.fetch_add(1, Ordering::AcqRel);
        Some(Self(connection))
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        let idle_since = millis(self.0.opened.elapsed());
        self.0.idle_since.store(idle_since, Ordering::Release);
        self.0.under_way.fetch_sub(1, Ordering::AcqRel);
    }
}

/// The outermost middleware: notes what is under way.
pub(super) async fn watch<B: MessageBody + Unpin + 'static>(
    request: ServiceRequest,
    next: Next<B>,
) -> Result<ServiceResponse<Watched<B>>, Error> {
    let under_way = UnderWay::of(request.request());
    let response = next.call(request).await?;
    Ok(response.map_body(|_, body| Watched { body, _under_way: under_way }))
}

/// An answer's body; its request is over with it.
pub(super) struct Watched<B> {
    body: B,
    _under_way: Option<UnderWay>,
}

impl<B: MessageBody + Unpin> MessageBody for Watched<B> {
    type Error = B::Error;

    fn size(&self) -> BodySize {
        self.body.size()
    }

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, B::Error>>> {
        Pin::new(&mut self.get_mut().body).poll_next(cx)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::net::TcpListener;

    use super::*;

    const LIMIT: Duration = Duration::from_secs(8);

    /// A connection of the server, and its caller.
    fn pair() -> (Arc<Connection>, TcpStream) {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let caller = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        caller.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        (Arc::new(Connection::new(listener.accept().unwrap().0)), caller)
    }

    fn is_closed(mut caller: &TcpStream) -> bool {
        matches!(caller.read(&mut [0]), Ok(0))
    }

    /// SHED-1: a connection without a request is closed when its time is over, one with a request never.
    #[test]
    fn only_idle_connections_are_closed() {
        let connections = Connections::default();
        let ((idle, idle_caller), (busy, busy_caller)) = (pair(), pair());
        connections.all().extend([Arc::downgrade(&idle), Arc::downgrade(&busy)]);
        busy.under_way.store(1, Ordering::Release);
        let opened = idle.opened;
        connections.close_idle(opened + LIMIT - Duration::from_millis(1), LIMIT);
        assert!(!is_closed(&idle_caller), "its time is not over");
        connections.close_idle(opened + LIMIT * 10, LIMIT);
        assert!(is_closed(&idle_caller));
        assert!(!is_closed(&busy_caller), "its request is being answered");
    }

    /// The time begins anew with the end of each request, and what is closed is forgotten.
    #[test]
    fn the_end_of_a_request_starts_the_time() {
        let connections = Connections::default();
        let (connection, caller) = pair();
        connections.all().push(Arc::downgrade(&connection));
        for _ in 0..2 {
            connection.under_way.fetch_add(1, Ordering::AcqRel);
        }
        drop(UnderWay(Arc::clone(&connection)));
        assert_eq!(connection.idle_for(Instant::now() + LIMIT), Duration::ZERO, "one is still under way");
        std::thread::sleep(Duration::from_millis(5));
        drop(UnderWay(Arc::clone(&connection)));
        assert!(connection.idle_since.load(Ordering::Acquire) >= 5);
        assert!(connection.idle_for(connection.opened + LIMIT) < LIMIT);
        assert!(!is_closed(&caller));
        drop(connection);
        connections.close_idle(Instant::now(), LIMIT);
        assert!(connections.all().is_empty());
    }
}
