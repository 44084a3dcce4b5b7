//! Calls in flight, at most `MODEL_MAX_CONCURRENT` at a time (DEC-27, ARC-23).

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Room for so many calls; who finds none waits, in order.
pub(super) struct Slots(Arc<Room>);

struct Room {
    free: Arc<Semaphore>,
    most: usize,
    waiting: AtomicUsize,
}

/// A call's place, whether it has it now or not; free again when this is dropped.
pub(super) struct Slot(Arc<Held>);

struct Held {
    room: Arc<Room>,
    permit: Mutex<Option<OwnedSemaphorePermit>>,
}

/// A call's place, for whoever makes the call: it can be given back for a while (DEC-27). It says nothing and bounds
/// nothing once the call is over, nor when it is the default.
#[derive(Clone, Default)]
pub struct Place(Weak<Held>);

impl Slots {
    pub(super) fn new(most: usize) -> Self {
        let most = most.min(Semaphore::MAX_PERMITS);
        let free = Arc::new(Semaphore::new(most));
        Self(Arc::new(Room { free, most, waiting: AtomicUsize::new(0) }))
    }

    /// For one call, which has no place yet.
    pub(super) fn slot(&self) -> Slot {
        Slot(Arc::new(Held { room: Arc::clone(&self.0), permit: Mutex::default() }))
    }

    /// Calls that hold a place.
    pub(super) fn running(&self) -> usize {
        self.0.most.saturating_sub(self.0.free.available_permits())
    }

    /// Calls that wait for one.
    pub(super) fn waiting(&self) -> usize {
        self.0.waiting.load(Ordering::Relaxed)
    }
}

impl Room {
    /// Waits for a place, behind those that wait already. The semaphore is never closed, so its error cannot occur and
    /// stands for "no limit".
    async fn take(&self) -> Option<OwnedSemaphorePermit> {
        if let Ok(permit) = Arc::clone(&self.free).try_acquire_owned() {
            return Some(permit);
        }
        let _counted = Waiting::one_of(&self.waiting);
        Arc::clone(&self.free).acquire_owned().await.ok()
    }
}

impl Slot {
    /// Waits for the place, unless the call has it.
    pub(super) async fn take(&self) {
        self.place().take().await;
    }

    /// The same place for whoever makes the call.
    pub(super) fn place(&self) -> Place {
        Place(Arc::downgrade(&self.0))
    }
}

impl Held {
    fn put(&self, permit: Option<OwnedSemaphorePermit>) {
        *self.permit.lock().unwrap_or_else(PoisonError::into_inner) = permit;
    }

    fn is_empty(&self) -> bool {
        self.permit.lock().unwrap_or_else(PoisonError::into_inner).is_none()
    }
}

impl Place {
    /// Waits for `pause` without the place, and then for a place behind everybody who waits for one. False, and without
    /// a place, when there is none `within` this time from now on.
    pub async fn pause(&self, pause: Duration, within: Option<Duration>) -> bool {
        if let Some(held) = self.0.upgrade() {
            held.put(None);
        }
        tokio::time::sleep(pause).await;
        match within.map(|within| within.saturating_sub(pause)) {
            Some(left) => tokio::time::timeout(left, self.take()).await.is_ok(),
            None => {
                self.take().await;
                true
            }
        }
    }

    async fn take(&self) {
        // Whoever waits here must not keep the slot: it may be dropped meanwhile, and others with it.
        let room = self.0.upgrade().filter(|held| held.is_empty()).map(|held| Arc::clone(&held.room));
        let Some(room) = room else { return };
        let permit = room.take().await;
        if let Some(held) = self.0.upgrade() {
            held.put(permit);
        }
    }
}

impl fmt::Debug for Place {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Place")
    }
}

/// Counts one that waits, also when it gives up.
struct Waiting<'a>(&'a AtomicUsize);

impl<'a> Waiting<'a> {
    fn one_of(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    /// A slot with its place.
    async fn taken(slots: &Slots) -> Slot {
        let slot = slots.slot();
        slot.take().await;
        slot
    }

    /// DEC-27, ARC-24: what runs and what waits can be seen; who gives up waits no longer.
    #[tokio::test]
    async fn running_and_waiting_calls_are_counted() {
        let slots = Slots::new(1);
        let first = taken(&slots).await;
        first.take().await;
        assert_eq!((slots.running(), slots.waiting()), (1, 0));
        let mut second = Box::pin(taken(&slots));
        assert!((&mut second).now_or_never().is_none());
        assert_eq!((slots.running(), slots.waiting()), (1, 1));
        drop(second);
        assert_eq!(slots.waiting(), 0);
        drop(first);
        assert_eq!(slots.running(), 0);
        assert!(taken(&slots).now_or_never().is_some());
    }

    /// DEC-27: a call that only waits for its provider leaves its place to others, and queues for one behind them.
    #[tokio::test(start_paused = true)]
    async fn a_pause_gives_the_place_back() {
        let slots = Slots::new(1);
        let first = taken(&slots).await;
        let place = first.place();
        let mut pause = Box::pin(place.pause(Duration::from_secs(8), None));
        assert!((&mut pause).now_or_never().is_none());
        assert_eq!((slots.running(), slots.waiting()), (0, 0));
        let second = taken(&slots).now_or_never().expect("the place is free");
        tokio::time::advance(Duration::from_secs(9)).await;
        assert!((&mut pause).now_or_never().is_none(), "the second one holds it");
        assert_eq!((slots.running(), slots.waiting()), (1, 1));
        let mut third = Box::pin(taken(&slots));
        assert!((&mut third).now_or_never().is_none());
        drop(second);
        assert!((&mut third).now_or_never().is_none(), "the pausing one came before");
        assert!(pause.await);
        drop(first);
        assert!(third.now_or_never().is_some());
    }

    /// DEC-27, RUN-13: who finds no place in time goes on without; who is gone gets none.
    #[tokio::test(start_paused = true)]
    async fn a_pause_ends_within_its_bound() {
        let (slots, second) = (Slots::new(1), Duration::from_secs(1));
        let first = taken(&slots).await;
        let mut pause = Box::pin(async { first.place().pause(second, Some(second * 3)).await });
        assert!((&mut pause).now_or_never().is_none());
        let other = taken(&slots).await;
        let begun = tokio::time::Instant::now();
        assert!(!pause.await);
        assert_eq!((begun.elapsed(), slots.waiting()), (second * 3, 0));
        let place = first.place();
        drop((first, other));
        assert!(place.pause(second, None).await);
        assert_eq!((slots.running(), slots.waiting()), (0, 0));
    }
}
