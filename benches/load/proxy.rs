//! A slow wire in front of Postgres that counts flights: client bursts that follow a received answer.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::mpsc;

/// One flight over one connection.
#[derive(Clone, Copy, Debug)]
pub struct Flight {
    /// When its first byte left the service.
    pub sent: Instant,
    /// When the first byte of its answer reached the service.
    pub answered: Instant,
}

/// Listens where the service takes Postgres to be.
pub struct Proxy {
    /// The directory of its socket.
    pub directory: PathBuf,
    flights: Arc<Mutex<Vec<Flight>>>,
}

/// What is on its way, and when it arrives.
type Wire = mpsc::UnboundedSender<(Instant, Vec<u8>)>;

impl Proxy {
    /// Opens the socket `.s.PGSQL.5432` in `directory`; every byte takes `delay` each way. Must run in a runtime.
    pub fn open(directory: PathBuf, server: &Path, delay: Duration) -> anyhow::Result<Self> {
        std::fs::create_dir_all(&directory)?;
        let listener = UnixListener::bind(directory.join(".s.PGSQL.5432"))?;
        let server = server.join(".s.PGSQL.5432");
        let flights = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&flights);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                if let Ok(upstream) = UnixStream::connect(&server).await {
                    join(client, upstream, delay, Arc::clone(&seen));
                }
            }
        });
        Ok(Self { directory, flights })
    }

    /// All answered flights since the last call.
    pub fn take(&self) -> Vec<Flight> {
        std::mem::take(&mut *lock(&self.flights))
    }
}

fn join(client: UnixStream, server: UnixStream, delay: Duration, flights: Arc<Mutex<Vec<Flight>>>) {
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    // When this connection's flight under way began; `None` when it has been answered.
    let under_way = Arc::new(Mutex::new(None));
    let began = Arc::clone(&under_way);
    let (up, upward) = mpsc::unbounded_channel();
    let (down, downward) = mpsc::unbounded_channel();
    tokio::spawn(pump(from_client, up, delay, move || {
        lock(&began).get_or_insert_with(Instant::now);
    }));
    tokio::spawn(pump(from_server, down, delay, || {}));
    tokio::spawn(deliver(upward, to_server, || {}));
    tokio::spawn(deliver(downward, to_client, move || {
        if let Some(sent) = lock(&under_way).take() {
            lock(&flights).push(Flight { sent, answered: Instant::now() });
        }
    }));
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Puts what is read onto the wire.
async fn pump(mut from: OwnedReadHalf, wire: Wire, delay: Duration, on_bytes: impl Fn()) {
    let mut buffer = vec![0; 65_536];
    while let Ok(length @ 1..) = from.read(&mut buffer).await {
        on_bytes();
        let bytes = buffer.get(..length).unwrap_or_default().to_vec();
        if wire.send((Instant::now() + delay, bytes)).is_err() {
            return;
        }
    }
}

/// Takes it off the wire at the other end.
async fn deliver(
    mut wire: mpsc::UnboundedReceiver<(Instant, Vec<u8>)>,
    mut to: OwnedWriteHalf,
    on_bytes: impl Fn(),
) {
    while let Some((at, bytes)) = wire.recv().await {
        tokio::time::sleep_until(at.into()).await;
        on_bytes();
        if to.write_all(&bytes).await.is_err() {
            return;
        }
    }
}
