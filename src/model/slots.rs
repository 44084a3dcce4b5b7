//! Calls in flight, at most `MODEL_MAX_CONCURRENT` at a time (DEC-27, ARC-23).

use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::{Semaphore, SemaphorePermit};

/// Room for so many calls; who finds none waits, in order.
pub(super) struct Slots {
    free: Semaphore,
    most: usize,
    waiting: AtomicUsize,
}

/// A call's place; free again when it is dropped.
pub(super) struct Slot<'a>(#[expect(dead_code, reason = "held, not read")] Option<SemaphorePermit<'a>>);

impl Slots {
    pub(super) fn new(most: usize) -> Self {
        let most = most.min(Semaphore::MAX_PERMITS);
        Self { free: Semaphore::new(most), most, waiting: AtomicUsize::new(0) }
    }

    /// Waits for a place. The semaphore is never closed, so its error cannot occur and stands for "no limit".
    pub(super) async fn take(&self) -> Slot<'_> {
        if let Ok(permit) = self.free.try_acquire() {
            return Slot(Some(permit));
        }
        let _counted = Waiting::one_of(&self.waiting);
        Slot(self.free.acquire().await.ok())
    }

    /// Calls that hold a place.
    pub(super) fn running(&self) -> usize {
        self.most.saturating_sub(self.free.available_permits())
    }

    /// Calls that wait for one.
    pub(super) fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
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

    /// DEC-27, ARC-24: what runs and what waits can be seen; who gives up waits no longer.
    #[tokio::test]
    async fn running_and_waiting_calls_are_counted() {
        let slots = Slots::new(1);
        let first = slots.take().await;
        assert_eq!((slots.running(), slots.waiting()), (1, 0));
        let mut second = Box::pin(slots.take());
        assert!((&mut second).now_or_never().is_none());
        assert_eq!((slots.running(), slots.waiting()), (1, 1));
        drop(second);
        assert_eq!(slots.waiting(), 0);
        drop(first);
        assert_eq!(slots.running(), 0);
        assert!(slots.take().now_or_never().is_some());
    }
}
