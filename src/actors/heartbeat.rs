//! The process's heartbeat: its own thread and its own connection, so that neither a busy runtime nor a busy pool
//! makes a living process look dead (ARC-44).

use std::thread::JoinHandle;
use std::time::Duration;

use tokio::sync::watch;
use tokio_postgres::Client;

use super::supervised::Restarts;
use crate::domain::{ProcessId, TenantId};
use crate::store::{Address, Pulse, StoreError, boot_clock_ms, connect, processes};
use crate::telemetry::Seldom;

/// Pause before another try when the database does not answer.
const RETRY: Duration = Duration::from_millis(250);

/// Beats until it is stopped.
pub struct Heartbeat {
    pulse: Pulse,
    stop: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
}

struct Beating {
    address: Address,
    tenant: TenantId,
    every: Duration,
    pulse: Pulse,
    stop: watch::Receiver<bool>,
}

impl Heartbeat {
    /// Registers the process of `pulse` and starts to beat; returns after the first confirmed beat.
    ///
    /// # Errors
    /// When the thread cannot be started or the database does not answer within 10 s.
    pub(super) fn start(
        address: Address,
        pulse: Pulse,
        tenant: TenantId,
        every: Duration,
        restarts: Restarts,
    ) -> Result<Self, StoreError> {
        let (stop, stopped) = watch::channel(false);
        let beating = Beating { address, tenant, every, pulse: pulse.clone(), stop: stopped };
        let (first, first_beat) = std::sync::mpsc::channel();
        let thread = std::thread::Builder::new()
            .name("heartbeat".to_owned())
            .spawn(move || run(&beating, &first, &restarts))
            .map_err(|_| StoreError::Unavailable { reason: "the heartbeat's thread could not be started" })?;
        let heartbeat = Self { pulse, stop, thread: Some(thread) };
        first_beat
            .recv_timeout(Duration::from_secs(10))
            .map_err(|_| StoreError::Unavailable { reason: "the first heartbeat was not answered" })?;
        Ok(heartbeat)
    }

    /// Time since the last confirmed beat was sent, by a clock that counts suspend.
    #[must_use]
    pub fn age(&self) -> Option<Duration> {
        self.pulse.age()
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

fn run(beating: &Beating, first: &std::sync::mpsc::Sender<()>, restarts: &Restarts) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    match runtime {
        Ok(runtime) => {
            let beating = restarts.supervise("heartbeat", || beat_until_stopped(beating, first));
            runtime.block_on(beating);
        }
        Err(error) => tracing::error!(err = %error, "heartbeat without a runtime"),
    }
}

async fn beat_until_stopped(beating: &Beating, first: &std::sync::mpsc::Sender<()>) {
    let mut client = None;
    let mut stop = beating.stop.clone();
    while !*stop.borrow_and_update() {
        let pause = match beat(beating, &mut client).await {
            Ok(()) => {
                // Only the first one is awaited.
                let _ = first.send(());
                beating.every
            }
            Err(error) => {
                static TOLD: Seldom = Seldom::new();
                if TOLD.now() {
                    tracing::warn!(err = %error.brief(), "heartbeat failed");
                }
                client = None;
                RETRY
            }
        };
        tokio::select! {
            changed = stop.changed() => if changed.is_err() { break },
            () = tokio::time::sleep(pause) => {}
        }
    }
    leave(beating, client).await;
}

async fn beat(beating: &Beating, client: &mut Option<Client>) -> Result<(), StoreError> {
    let limit = beating.every.max(Duration::from_secs(1));
    renew_id(&beating.pulse);
    let sent = boot_clock_ms();
    let work = async {
        let connected = match client.take() {
            Some(connected) => connected,
            None => connect(&beating.address).await?,
        };
        processes::beat(&connected, beating.pulse.process(), &beating.tenant).await?;
        *client = Some(connected);
        Ok(())
    };
    tokio::time::timeout(limit, work).await.unwrap_or(Err(StoreError::InDoubt))?;
    beating.pulse.confirmed(sent);
    Ok(())
}

/// After a silence that made this process dead to the others it goes on as a new one. The old id never beats again:
/// whatever was taken under it belongs to those who recover it (ARC-44).
fn renew_id(pulse: &Pulse) {
    if pulse.is_silent() {
        let before = pulse.process();
        pulse.take_new_id(ProcessId::fresh());
        tracing::warn!(%before, process = %pulse.process(), "silent for too long: going on under a new process id");
    }
}

async fn leave(beating: &Beating, client: Option<Client>) {
    let Some(client) = client else { return };
    let leaving = processes::leave(&client, beating.pulse.process());
    let left = tokio::time::timeout(Duration::from_secs(2), leaving).await;
    if !matches!(left, Ok(Ok(()))) {
        tracing::warn!("process not taken off the list");
    }
}
