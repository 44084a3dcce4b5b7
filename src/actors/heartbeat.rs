//! The process's heartbeat: its own thread and its own connection, so that neither a busy runtime nor a busy pool
//! makes a living process look dead (ARC-44).

use std::thread::JoinHandle;
use std::time::Duration;

use tokio::sync::watch;
use tokio_postgres::Client;

use super::supervised::Restarts;
use crate::domain::{ProcessId, TenantId};
use crate::store::processes::{self, Beat};
use crate::store::{Address, Pulse, StoreError, boot_clock_ms, connect};
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

/// What the thread keeps between two beats.
#[derive(Default)]
struct Between {
    client: Option<Client>,
    /// The id that this process takes next, while it has none that others count as alive.
    next: Option<ProcessId>,
}

async fn beat_until_stopped(beating: &Beating, first: &std::sync::mpsc::Sender<()>) {
    let mut between = Between::default();
    let mut stop = beating.stop.clone();
    while !*stop.borrow_and_update() {
        let pause = match beat(beating, &mut between).await {
            Ok(Beat::Alive | Beat::AliveAfterStep) => {
                // Only the first one is awaited.
                let _ = first.send(());
                beating.every
            }
            // At once under another id.
            Ok(Beat::Dead) => Duration::ZERO,
            Err(error) => {
                static TOLD: Seldom = Seldom::new();
                if TOLD.now() {
                    tracing::warn!(err = %error.brief(), "heartbeat failed");
                }
                between.client = None;
                RETRY
            }
        };
        tokio::select! {
            changed = stop.changed() => if changed.is_err() { break },
            () = tokio::time::sleep(pause) => {}
        }
    }
    leave(beating, between.client).await;
}

/// One beat: of the id this process has, or the first of its next one. That shows only when the beat is confirmed: what
/// was taken before under an id without a beat would be anybody's (ARC-44).
async fn beat(beating: &Beating, between: &mut Between) -> Result<Beat, StoreError> {
    let pulse = &beating.pulse;
    let next = next_id(pulse, between);
    let sent = boot_clock_ms();
    let limit = beating.every.max(Duration::from_secs(1));
    let told = tokio::time::timeout(limit, tell(beating, between, next.unwrap_or_else(|| pulse.process())));
    let counts = match (told.await.unwrap_or(Err(StoreError::InDoubt))?, next) {
        (Beat::Dead, _) => false,
        (Beat::AliveAfterStep, None) => {
            if pulse.allows(pulse.life()) {
                tracing::warn!(process = %pulse.process(), "the database's clock was set forward: nobody counts as dead");
            }
            pulse.confirmed_after_step(sent)
        }
        (Beat::Alive, None) => pulse.confirmed(sent),
        (_, Some(next)) => take(pulse, next, sent),
    };
    // An id whose beat does not count is never tried again.
    between.next = (!counts).then(ProcessId::fresh);
    Ok(if counts { Beat::Alive } else { Beat::Dead })
}

/// The id to go on under after a silence that made this process dead to the others. The old id never beats again:
/// whatever was taken under it belongs to those who recover it (ARC-44).
fn next_id(pulse: &Pulse, between: &mut Between) -> Option<ProcessId> {
    if pulse.is_silent() && between.next.is_none() {
        tracing::warn!(process = %pulse.process(), "silent for too long: what this process held is left to others");
        between.next = Some(ProcessId::fresh());
    }
    between.next
}

fn take(pulse: &Pulse, next: ProcessId, sent: u64) -> bool {
    let before = pulse.process();
    let taken = pulse.take_new_id(next, sent);
    if taken {
        tracing::warn!(%before, process = %next, "silent for too long: going on under a new process id");
    }
    taken
}

async fn tell(beating: &Beating, between: &mut Between, process: ProcessId) -> Result<Beat, StoreError> {
    let connected = match between.client.take() {
        Some(connected) => connected,
        None => connect(&beating.address).await?,
    };
    let dead = beating.pulse.dead().as_secs_f64();
    let is_registered = between.next.is_none() && beating.pulse.age().is_some();
    let beat = if is_registered {
        processes::beat(&connected, process, dead).await?
    } else {
        processes::enter(&connected, process, &beating.tenant, dead).await?
    };
    between.client = Some(connected);
    Ok(beat)
}

async fn leave(beating: &Beating, client: Option<Client>) {
    let Some(client) = client else { return };
    let leaving = processes::leave(&client, beating.pulse.process());
    let left = tokio::time::timeout(Duration::from_secs(2), leaving).await;
    if !matches!(left, Ok(Ok(()))) {
        tracing::warn!("process not taken off the list");
    }
}
