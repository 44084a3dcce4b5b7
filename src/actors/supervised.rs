//! Tasks that must not end by a panic: restarted and counted (ARC-22).

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::FutureExt;

/// Pause before a task that panicked starts again, so that a panic at its first step costs little.
pub(super) const PAUSE: Duration = Duration::from_millis(100);

/// How often tasks of this process were started again; cheap to clone.
#[derive(Clone, Debug, Default)]
pub(super) struct Restarts(Arc<AtomicU64>);

impl Restarts {
    pub(super) fn count(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }

    /// Counts one and says so. The panic itself has been reported where it happened.
    pub(super) fn note(&self, task: &'static str) {
        self.0.fetch_add(1, Ordering::AcqRel);
        tracing::error!(task, "task panicked and was started again");
    }

    /// Runs a task until it ends by itself; `start` makes it anew after a panic.
    pub(super) async fn supervise<F: Future>(
        &self,
        task: &'static str,
        mut start: impl FnMut() -> F,
    ) -> F::Output {
        loop {
            match AssertUnwindSafe(start()).catch_unwind().await {
                Ok(ended) => return ended,
                Err(_) => {
                    self.note(task);
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// ARC-22: a task that panics is started again and counted, until it ends by itself.
    #[tokio::test(start_paused = true)]
    async fn a_panic_starts_the_task_again() {
        crate::telemetry::panic_hook::silence_played();
        let restarts = Restarts::default();
        let mut starts = 0;
        let ended = restarts.supervise("test", || {
            starts += 1;
            let start = starts;
            async move {
                assert!(start >= 3, "played failure of a task");
                start
            }
        });
        assert_eq!(ended.await, 3);
        assert_eq!(restarts.count(), 2);
    }
}
