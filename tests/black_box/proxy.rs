//! A proxy between the service and Postgres that delays, counts and stalls.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, UnixStream};

/// Counts flights: bursts of client data that follow an answer of the server. With the delay, everything a client
/// sends without waiting arrives in one burst.
pub struct Proxy {
    pub port: u16,
    shared: Arc<Shared>,
}

struct Shared {
    socket: PathBuf,
    delay: Duration,
    flights: AtomicU64,
    stalled: AtomicBool,
    /// Grows with each failover; a connection of an earlier one hears nothing any more.
    failovers: AtomicU64,
}

impl Shared {
    /// Returns while the connection that was opened after so many failovers is not cut off.
    async fn passes(&self, opened: u64) {
        if self.failovers.load(Ordering::SeqCst) != opened {
            std::future::pending::<()>().await;
        }
    }
}

impl Proxy {
    /// A proxy in front of the Unix socket of the server that `config` names.
    pub async fn start(config: &tokio_postgres::Config, delay: Duration) -> Self {
        let socket = match config.get_hosts().first().unwrap() {
            tokio_postgres::config::Host::Unix(folder) => {
                let port = config.get_ports().first().copied().unwrap_or(5432);
                folder.join(format!(".s.PGSQL.{port}"))
            }
            tokio_postgres::config::Host::Tcp(_) => panic!("the proxy needs a server on a Unix socket"),
        };
        let (flights, stalled, failovers) = (AtomicU64::new(0), AtomicBool::new(false), AtomicU64::new(0));
        let shared = Arc::new(Shared { socket, delay, flights, stalled, failovers });
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        tokio::spawn(accept(listener, Arc::clone(&shared)));
        Self { port, shared }
    }

    /// The connection string through the proxy.
    pub fn url(&self, database: &str) -> String {
        format!("postgres://app@127.0.0.1:{}/{database}", self.port)
    }

    pub fn flights(&self) -> u64 {
        self.shared.flights.load(Ordering::SeqCst)
    }

    /// While stalled nothing comes back from the server; what was sent still reaches it.
    pub fn stall(&self, stalled: bool) {
        self.shared.stalled.store(stalled, Ordering::SeqCst);
    }

    /// As a failover that drops packets: from now on nothing passes on the connections there are, in either direction, and
    /// none of them is closed; new ones work.
    pub fn fail_over(&self) {
        self.shared.failovers.fetch_add(1, Ordering::SeqCst);
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    while let Ok((client, _)) = listener.accept().await {
        let Ok(server) = UnixStream::connect(&shared.socket).await else { continue };
        let _ = client.set_nodelay(true);
        let (from_client, to_client) = client.into_split();
        let (from_server, to_server) = server.into_split();
        let answered = Arc::new(AtomicBool::new(true));
        let opened = shared.failovers.load(Ordering::SeqCst);
        tokio::spawn(upstream((from_client, to_server), opened, Arc::clone(&shared), Arc::clone(&answered)));
        tokio::spawn(downstream((from_server, to_client), opened, Arc::clone(&shared), answered));
    }
}

async fn upstream(
    (mut from, mut to): (tokio::net::tcp::OwnedReadHalf, OwnedWriteHalf),
    opened: u64,
    shared: Arc<Shared>,
    answered: Arc<AtomicBool>,
) {
    let mut buffer = vec![0; 65_536];
    while let Ok(length) = from.read(&mut buffer).await {
        shared.passes(opened).await;
        if length == 0 || to.write_all(&buffer[..length]).await.is_err() {
            return;
        }
        if answered.swap(false, Ordering::SeqCst) {
            shared.flights.fetch_add(1, Ordering::SeqCst);
        }
    }
}

async fn downstream(
    (mut from, mut to): (OwnedReadHalf, tokio::net::tcp::OwnedWriteHalf),
    opened: u64,
    shared: Arc<Shared>,
    answered: Arc<AtomicBool>,
) {
    let mut buffer = vec![0; 65_536];
    while let Ok(length) = from.read(&mut buffer).await {
        tokio::time::sleep(shared.delay).await;
        while shared.stalled.load(Ordering::SeqCst) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        shared.passes(opened).await;
        if length == 0 || to.write_all(&buffer[..length]).await.is_err() {
            return;
        }
        answered.store(true, Ordering::SeqCst);
    }
}
