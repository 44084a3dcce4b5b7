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

/// A process that others may count as dead after `PROCESS_DEAD_MS` starts no call within its last 11 s: the call has
/// a limit of 10 s and must be over by then (ARC-44).
const CALL_AND_MARGIN: Duration = Duration::from_secs(11);

/// Beats until it is stopped.
pub struct Heartbeat {
    pulse: Pulse,
    stop: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
}

struct Beating {
    address: Address,
    process: ProcessId,
    tenant: TenantId,
    every: Duration,
    pulse: Pulse,
    stop: watch::Receiver<bool>,
}

/// What the process knows of its own beats; cheap to clone.
#[derive(Clone, Debug)]
pub struct Pulse {
    shared: Arc<PulseState>,
    /// Oldest beat with which a call may start.
    limit: Duration,
}

#[derive(Debug, Default)]
struct PulseState {
    /// When the last confirmed beat was sent, in milliseconds of [`boot_clock_ms`]; 0 before the first.
    last_sent: AtomicU64,
    /// Grows whenever two confirmed beats were further apart than the limit.
    life: AtomicU64,
    /// When the first beat of this life was sent; 0 before it.
    life_began: AtomicU64,
}

impl Pulse {
    /// Without a beat yet.
    pub(super) fn new(process_dead: Duration) -> Self {
        Self { shared: Arc::default(), limit: call_limit(process_dead) }
    }

    /// A number that changes when the process was silent for so long that others may have taken over meanwhile.
    #[must_use]
    pub fn life(&self) -> u64 {
        self.shared.life.load(Ordering::Acquire)
    }

    /// Whether a call to ManyChat may start that was asked for in this life (ARC-44).
    #[must_use]
    pub fn allows(&self, life: u64) -> bool {
        // In this order: a beat that ends a silence raises `life` before it shows.
        self.age().is_some_and(|age| age <= self.limit) && self.life() == life
    }

    /// Whether this process has beaten without a break for `time`: only then may it call others dead (ARC-44).
    #[must_use]
    pub fn unbroken_for(&self, time: Duration) -> bool {
        let began = self.shared.life_began.load(Ordering::Acquire);
        let lived = Duration::from_millis(boot_clock_ms().saturating_sub(began));
        began != 0 && lived >= time && self.age().is_some_and(|age| age <= self.limit)
    }

    /// Time since the last confirmed beat was sent, by a clock that counts suspend.
    fn age(&self) -> Option<Duration> {
        match self.shared.last_sent.load(Ordering::Acquire) {
            0 => None,
            at => Some(Duration::from_millis(boot_clock_ms().saturating_sub(at))),
        }
    }

    /// A beat that was sent then is confirmed.
    pub(super) fn confirmed(&self, sent: u64) {
        let before = self.shared.last_sent.load(Ordering::Acquire);
        if before == 0 || Duration::from_millis(sent.saturating_sub(before)) > self.limit {
            self.shared.life.fetch_add(u64::from(before != 0), Ordering::AcqRel);
            self.shared.life_began.store(sent, Ordering::Release);
        }
        self.shared.last_sent.store(sent, Ordering::Release);
    }
}

/// `PROCESS_DEAD_MS` minus 11 s, at least 45 % of it (DEC-35).
fn call_limit(process_dead: Duration) -> Duration {
    process_dead.saturating_sub(CALL_AND_MARGIN).max(process_dead * 45 / 100)
}

impl Heartbeat {
    /// Registers the process and starts to beat; returns after the first confirmed beat. `dead`: `PROCESS_DEAD_MS`.
    ///
    /// # Errors
    /// When the thread cannot be started or the database does not answer within 10 s.
    pub fn start(
        address: Address,
        process: ProcessId,
        tenant: TenantId,
        every: Duration,
        dead: Duration,
    ) -> Result<Self, StoreError> {
        let pulse = Pulse::new(dead);
        let (stop, stopped) = watch::channel(false);
        let beating = Beating { address, process, tenant, every, pulse: pulse.clone(), stop: stopped };
        let (first, first_beat) = std::sync::mpsc::channel();
        let thread = std::thread::Builder::new()
            .name("heartbeat".to_owned())
            .spawn(move || run(beating, &first))
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

    /// For those who may only act while the process is known to be alive.
    #[must_use]
    pub fn pulse(&self) -> Pulse {
        self.pulse.clone()
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
    beating.pulse.confirmed(sent);
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
pub(super) fn boot_clock_ms() -> u64 {
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

#[cfg(test)]
mod tests {
    use super::*;

    /// ARC-44, DEC-35: 9 s of 20 s; with short times, as tests use, 45 %.
    #[test]
    fn a_call_may_start_until_eleven_seconds_before_the_process_is_dead() {
        assert_eq!(call_limit(Duration::from_secs(20)), Duration::from_secs(9));
        assert_eq!(call_limit(Duration::from_secs(60)), Duration::from_secs(49));
        assert_eq!(call_limit(Duration::from_secs(10)), Duration::from_millis(4500));
        assert_eq!(call_limit(Duration::from_millis(900)), Duration::from_millis(405));
    }

    /// ARC-44: nothing before the first beat, nothing after a beat that is too old.
    #[test]
    fn a_pulse_allows_calls_while_its_beat_is_young() {
        let pulse = Pulse::new(Duration::from_secs(20));
        let life = pulse.life();
        assert!(!pulse.allows(life), "no beat yet");
        let now = boot_clock_ms();
        pulse.confirmed(now.saturating_sub(8000).max(1));
        assert!(pulse.allows(life));
        let old = Pulse::new(Duration::from_secs(20));
        old.shared.last_sent.store(now.saturating_sub(9500).max(1), Ordering::Release);
        assert!(!old.allows(life), "the beat is too old");
    }

    /// ARC-44: what was asked for before a silence that was too long stays forbidden after it, because others may
    /// have done it meanwhile.
    #[test]
    fn a_silence_ends_a_life() {
        let pulse = Pulse::new(Duration::from_secs(20));
        let now = boot_clock_ms();
        pulse.confirmed(now.saturating_sub(30_000).max(1));
        let before = pulse.life();
        pulse.confirmed(now);
        assert!(!pulse.allows(before));
        assert!(pulse.allows(pulse.life()));
        pulse.confirmed(now + 5000);
        assert_eq!(pulse.life(), before + 1, "an ordinary pause between beats changes nothing");
    }
}
