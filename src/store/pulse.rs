//! What a process knows of its own beats, and the id it has by them (ARC-44).

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use crate::domain::ProcessId;
use crate::telemetry::crash_points::{self, Sabotage};

/// A process that others may count as dead after `PROCESS_DEAD_MS` starts no call within its last 11 s: the call has
/// a limit of 10 s and must be over by then (ARC-44).
const CALL_AND_MARGIN: Duration = Duration::from_secs(11);
/// No beat is ever this old.
const NEVER_SECS: f64 = 1e9;

/// The beats of this process and its id; cheap to clone, all clones show the same.
#[derive(Clone, Debug)]
pub struct Pulse {
    shared: Arc<PulseState>,
    /// Oldest beat with which a call may start.
    limit: Duration,
    /// Oldest beat with which others count the process as alive.
    dead: Duration,
}

#[derive(Debug)]
struct PulseState {
    /// When the last confirmed beat was sent, in milliseconds of [`boot_clock_ms`]; 0 before the first of an id.
    last_sent: AtomicU64,
    /// Grows whenever two confirmed beats were further apart than the limit, and with each new id.
    life: AtomicU64,
    /// When the first beat of this life was sent; 0 before it.
    life_began: AtomicU64,
    process: RwLock<ProcessId>,
}

impl Pulse {
    /// The pulse of a process that has not beaten yet. `dead`: `PROCESS_DEAD_MS`.
    #[must_use]
    pub fn new(process: ProcessId, dead: Duration) -> Self {
        let state = PulseState {
            last_sent: AtomicU64::new(0),
            life: AtomicU64::new(0),
            life_began: AtomicU64::new(0),
            process: RwLock::new(process),
        };
        Self { shared: Arc::new(state), limit: call_limit(dead), dead }
    }

    /// The id under which this process takes lanes, claims and messages now.
    #[must_use]
    pub fn process(&self) -> ProcessId {
        *self.shared.process.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether what was taken under `process` is still this process's own: others may have it as soon as they count
    /// the id as dead (ARC-44).
    #[must_use]
    pub fn holds(&self, process: ProcessId) -> bool {
        // In this order: the beat of a new id shows after the id.
        !self.is_silent() && self.process() == process
    }

    /// True when the last confirmed beat is so old that others count this id as dead.
    #[must_use]
    pub fn is_silent(&self) -> bool {
        self.age().is_some_and(|age| age >= self.dead)
    }

    /// Leaves the old id and everything that was taken under it to others, and goes on as somebody new whose first beat
    /// was sent then (by [`boot_clock_ms`]) and is confirmed. Until now the process had no id to take anything under:
    /// others count an id that has not beaten as dead. False: that beat is so old already that they may count this id as
    /// dead too, and nothing has changed.
    #[must_use]
    pub fn take_new_id(&self, process: ProcessId, sent: u64) -> bool {
        if self.is_too_old(sent) {
            return false;
        }
        self.shared.life.fetch_add(1, Ordering::AcqRel);
        self.shared.life_began.store(sent, Ordering::Release);
        *self.shared.process.write().unwrap_or_else(PoisonError::into_inner) = process;
        // Last: it ends the silence for all who look.
        self.shared.last_sent.store(sent, Ordering::Release);
        true
    }

    /// After how long without a beat an id counts as dead: `PROCESS_DEAD_MS`.
    #[must_use]
    pub const fn dead(&self) -> Duration {
        self.dead
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
            || crash_points::is_sabotaged(Sabotage::Fencing)
    }

    /// Whether this process has beaten without a break for as long as a silence makes others dead: only then may it
    /// call them so, or an outage of the database would (ARC-44).
    #[must_use]
    pub fn may_judge(&self) -> bool {
        let began = self.shared.life_began.load(Ordering::Acquire);
        let lived = Duration::from_millis(boot_clock_ms().saturating_sub(began));
        began != 0
            && lived >= self.dead
            && self.age().is_some_and(|age| age <= self.limit)
            && !crash_points::is_sabotaged(Sabotage::Recovery)
    }

    /// After how many seconds without a beat others count as dead to this process now.
    #[must_use]
    pub fn others_dead_secs(&self) -> f64 {
        if self.may_judge() { self.dead.as_secs_f64() } else { NEVER_SECS }
    }

    /// Time since the last confirmed beat was sent, by a clock that counts suspend; `None` before the first.
    #[must_use]
    pub fn age(&self) -> Option<Duration> {
        match self.shared.last_sent.load(Ordering::Acquire) {
            0 => None,
            at => Some(Duration::from_millis(boot_clock_ms().saturating_sub(at))),
        }
    }

    /// A beat of this id that was sent then (by [`boot_clock_ms`]) is confirmed. False: the process has been silent for so
    /// long meanwhile that others may count the id as dead, whatever the database says now; it needs a new one.
    pub fn confirmed(&self, sent: u64) -> bool {
        if self.is_silent() || self.is_too_old(sent) {
            return false;
        }
        let before = self.shared.last_sent.load(Ordering::Acquire);
        if before == 0 || Duration::from_millis(sent.saturating_sub(before)) > self.limit {
            self.shared.life.fetch_add(u64::from(before != 0), Ordering::AcqRel);
            self.shared.life_began.store(sent, Ordering::Release);
        }
        self.shared.last_sent.store(sent, Ordering::Release);
        true
    }

    /// The same for a beat before which the database's clock was set forward. The beats of others look too old until their next
    /// one: nobody is called dead before this process has beaten without a break for long enough again (ARC-44).
    pub fn confirmed_after_step(&self, sent: u64) -> bool {
        let counts = self.confirmed(sent);
        if counts {
            self.shared.life_began.store(sent, Ordering::Release);
        }
        counts
    }

    fn is_too_old(&self, sent: u64) -> bool {
        Duration::from_millis(boot_clock_ms().saturating_sub(sent)) >= self.dead
    }
}

/// `PROCESS_DEAD_MS` minus 11 s, at least 45 % of it (DEC-35).
fn call_limit(process_dead: Duration) -> Duration {
    process_dead.saturating_sub(CALL_AND_MARGIN).max(process_dead * 45 / 100)
}

/// Milliseconds since the machine started, suspend included.
#[must_use]
pub fn boot_clock_ms() -> u64 {
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

    const DEAD: Duration = Duration::from_secs(20);

    fn pulse() -> Pulse {
        Pulse::new(ProcessId::fresh(), DEAD)
    }

    /// The pulse of a process whose last confirmed beat was sent that long ago.
    fn silent_since(process: ProcessId, millis: u64) -> Pulse {
        let silent = Pulse::new(process, DEAD);
        silent.shared.last_sent.store(ago(millis), Ordering::Release);
        silent
    }

    /// A moment that long ago.
    fn ago(millis: u64) -> u64 {
        boot_clock_ms().saturating_sub(millis).max(1)
    }

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
        let young = pulse();
        let life = young.life();
        assert!(!young.allows(life), "no beat yet");
        young.confirmed(ago(8000));
        assert!(young.allows(life));
        let old = pulse();
        old.shared.last_sent.store(ago(9500), Ordering::Release);
        assert!(!old.allows(life), "the beat is too old");
    }

    /// ARC-44: what was asked for before a silence that was too long stays forbidden after it, because others may
    /// have done it meanwhile.
    #[test]
    fn a_silence_ends_a_life() {
        let pulse = pulse();
        let now = boot_clock_ms();
        pulse.confirmed(ago(15_000));
        let before = pulse.life();
        assert!(pulse.confirmed(now));
        assert!(!pulse.allows(before));
        assert!(pulse.allows(pulse.life()));
        pulse.confirmed(now + 5000);
        assert_eq!(pulse.life(), before + 1, "an ordinary pause between beats changes nothing");
    }

    /// ARC-44: what was taken under an id is nobody's own once others may count the id as dead, and a new id holds
    /// none of it; nothing may be called or judged before the new id has beaten.
    #[test]
    fn a_dead_id_holds_nothing_and_a_new_one_starts_afresh() {
        let pulse = pulse();
        let old = pulse.process();
        pulse.confirmed(ago(19_000));
        assert!(pulse.holds(old) && !pulse.is_silent());
        let silent = silent_since(old, 20_001);
        assert!(silent.is_silent() && !silent.holds(old));
        let (life, fresh) = (silent.life(), ProcessId::fresh());
        assert!(silent.take_new_id(fresh, boot_clock_ms()));
        assert!(!silent.is_silent() && !silent.holds(old) && silent.holds(fresh));
        assert!(silent.allows(silent.life()) && !silent.allows(life));
        assert!(!silent.may_judge(), "its own beats are too young to call others dead");
    }

    /// ARC-44: a beat whose confirmation comes only when others may count the id as dead revives nothing, even if the
    /// database took it in time; nor does it make a new id.
    #[test]
    fn a_late_confirmation_revives_no_id() {
        let old = ProcessId::fresh();
        let silent = silent_since(old, 20_001);
        let life = silent.life();
        assert!(!silent.confirmed(boot_clock_ms()), "its beats are too far apart");
        assert!(!silent.take_new_id(ProcessId::fresh(), ago(20_001)), "the first beat is too old already");
        assert!(silent.is_silent() && !silent.holds(old) && silent.process() == old);
        assert!(!silent.allows(life) && !silent.allows(silent.life()) && !silent.may_judge());
        let mute = pulse();
        assert!(!mute.confirmed(ago(20_001)), "nor does one begin with such a beat");
        assert_eq!(mute.age(), None);
    }

    /// ARC-44: others are called dead only after an unbroken row of own beats.
    #[test]
    fn only_unbroken_beats_may_judge() {
        let pulse = pulse();
        pulse.shared.life_began.store(ago(27_000), Ordering::Release);
        pulse.shared.last_sent.store(ago(17_000), Ordering::Release);
        for millis in [12_000, 7000, 2000] {
            assert!(pulse.confirmed(ago(millis)));
        }
        assert!(pulse.may_judge());
        assert!((pulse.others_dead_secs() - 20.0).abs() < f64::EPSILON);
        assert!(pulse.confirmed_after_step(ago(1000)) && pulse.allows(pulse.life()));
        assert!(!pulse.may_judge(), "others look old until their next beat");
        let broken = Pulse::new(ProcessId::fresh(), DEAD);
        broken.shared.life_began.store(ago(27_000), Ordering::Release);
        broken.shared.last_sent.store(ago(17_000), Ordering::Release);
        for millis in [7000, 2000] {
            assert!(broken.confirmed(ago(millis)));
        }
        assert!(!broken.may_judge());
        assert!(broken.others_dead_secs() > 1e8);
    }
}
