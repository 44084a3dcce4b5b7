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
        let shared =
            Arc::new(Shared { socket, delay, flights: AtomicU64::new(0), stalled: AtomicBool::new(false) });
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
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    while let Ok((client, _)) = listener.accept().await {
        let Ok(server) = UnixStream::connect(&shared.socket).await else { continue };
        let _ = client.set_nodelay(true);
        let (from_client, to_client) = client.into_split();
        let (from_server, to_server) = server.into_split();
        let answered = Arc::new(AtomicBool::new(true));
        tokio::spawn(upstream(from_client, to_server, Arc::clone(&shared), Arc::clone(&answered)));
        tokio::spawn(downstream(from_server, to_client, Arc::clone(&shared), answered));
    }
}

async fn upstream(
    mut from: tokio::net::tcp::OwnedReadHalf,
    mut to: OwnedWriteHalf,
    shared: Arc<Shared>,
    answered: Arc<AtomicBool>,
) {
    let mut buffer = vec![0; 65_536];
    while let Ok(length) = from.read(&mut buffer).await {
        if length == 0 || to.write_all(&buffer[..length]).await.is_err() {
            return;
        }
        if answered.swap(false, Ordering::SeqCst) {
            shared.flights.fetch_add(1, Ordering::SeqCst);
        }
    }
}

async fn downstream(
    mut from: OwnedReadHalf,
    mut to: tokio::net::tcp::OwnedWriteHalf,
    shared: Arc<Shared>,
    answered: Arc<AtomicBool>,
) {
    let mut buffer = vec![0; 65_536];
    while let Ok(length) = from.read(&mut buffer).await {
        tokio::time::sleep(shared.delay).await;
        while shared.stalled.load(Ordering::SeqCst) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        if length == 0 || to.write_all(&buffer[..length]).await.is_err() {
            return;
        }
        answered.store(true, Ordering::SeqCst);
    }
}
