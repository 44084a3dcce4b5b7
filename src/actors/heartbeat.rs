//! The process's heartbeat: its own thread and its own connection, so that neither a busy runtime nor a busy pool
//! makes a living process look dead (ARC-44).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::sync::watch;
use tokio_postgres::Client;

use crate::domain::{ProcessId, TenantId};
use crate::store::{Address, StoreError, connect, processes};

/// Pause before another try when the database does not answer.
const RETRY: Duration = Duration::from_millis(250);

/// Beats until it is stopped.
pub struct Heartbeat {
    /// When the last confirmed beat was sent, in milliseconds of [`boot_clock_ms`]; 0 before the first.
    last_sent: Arc<AtomicU64>,
    stop: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
}

struct Beating {
    address: Address,
    process: ProcessId,
    tenant: TenantId,
    every: Duration,
    last_sent: Arc<AtomicU64>,
    stop: watch::Receiver<bool>,
}

impl Heartbeat {
    /// Registers the process and starts to beat; returns after the first confirmed beat.
    ///
    /// # Errors
    /// When the thread cannot be started or the database does not answer within 10 s.
    pub fn start(
        address: Address,
        process: ProcessId,
        tenant: TenantId,
        every: Duration,
    ) -> Result<Self, StoreError> {
        let last_sent = Arc::new(AtomicU64::new(0));
        let (stop, stopped) = watch::channel(false);
        let beating =
            Beating { address, process, tenant, every, last_sent: Arc::clone(&last_sent), stop: stopped };
        let (first, first_beat) = std::sync::mpsc::channel();
        let thread = std::thread::Builder::new()
            .name("heartbeat".to_owned())
            .spawn(move || run(beating, &first))
            .map_err(|_| StoreError::Unavailable { reason: "the heartbeat's thread could not be started" })?;
        let heartbeat = Self { last_sent, stop, thread: Some(thread) };
        first_beat
            .recv_timeout(Duration::from_secs(10))
            .map_err(|_| StoreError::Unavailable { reason: "the first heartbeat was not answered" })?;
        Ok(heartbeat)
    }

    /// Milliseconds since the last confirmed beat was sent, by a clock that counts suspend.
    #[must_use]
    pub fn age(&self) -> Option<Duration> {
        match self.last_sent.load(Ordering::Acquire) {
            0 => None,
            at => Some(Duration::from_millis(boot_clock_ms().saturating_sub(at))),
        }
    }

    /// Takes the process off the list and ends the thread. Blocks for the one statement.
    pub fn stop(&mut self) {
        // A receiver that is gone has ended by itself.
        let _ = self.stop.send(true);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for Heartbeat {
    fn drop(&mut self) {
        self.stop();
    }
}

fn run(beating: Beating, first: &std::sync::mpsc::Sender<()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    match runtime {
        Ok(runtime) => runtime.block_on(beat_until_stopped(beating, first)),
        Err(error) => tracing::error!(err = %error, "heartbeat without a runtime"),
    }
}

async fn beat_until_stopped(mut beating: Beating, first: &std::sync::mpsc::Sender<()>) {
    let mut client = None;
    loop {
        let pause = match beat(&beating, &mut client).await {
            Ok(()) => {
                // Only the first one is awaited.
                let _ = first.send(());
                beating.every
            }
            Err(error) => {
                tracing::warn!(err = %error, "heartbeat failed");
                client = None;
                RETRY
            }
        };
        tokio::select! {
            _ = beating.stop.changed() => break,
            () = tokio::time::sleep(pause) => {}
        }
    }
    leave(&beating, client).await;
}

async fn beat(beating: &Beating, client: &mut Option<Client>) -> Result<(), StoreError> {
    let limit = beating.every.max(Duration::from_secs(1));
    let sent = boot_clock_ms();
    let work = async {
        let connected = match client.take() {
            Some(connected) => connected,
            None => connect(&beating.address).await?,
        };
        processes::beat(&connected, beating.process, &beating.tenant).await?;
        *client = Some(connected);
        Ok(())
    };
    tokio::time::timeout(limit, work).await.unwrap_or(Err(StoreError::InDoubt))?;
    beating.last_sent.store(sent, Ordering::Release);
    Ok(())
}

async fn leave(beating: &Beating, client: Option<Client>) {
    let Some(client) = client else { return };
    let left = tokio::time::timeout(Duration::from_secs(2), processes::leave(&client, beating.process)).await;
    if !matches!(left, Ok(Ok(()))) {
        tracing::warn!("process not taken off the list");
    }
}

/// Milliseconds since the machine started, suspend included.
fn boot_clock_ms() -> u64 {
    let mut at = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `at` is a valid timespec for the call to fill in.
    let result = unsafe { libc::clock_gettime(libc::CLOCK_BOOTTIME, &raw mut at) };
    if result != 0 {
        return 1;
    }
    let seconds = u64::try_from(at.tv_sec).unwrap_or(0);
    let nanos = u64::try_from(at.tv_nsec).unwrap_or(0);
    seconds * 1000 + nanos / 1_000_000
}
