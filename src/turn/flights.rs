//! How long a turn's flights to the database may take.

use std::time::Duration;

use crate::store::StoreError;

/// A flight that no request waits for any longer.
pub(super) const LATE_FLIGHT: Duration = Duration::from_secs(10);

/// Bounds a flight; `None`: no request waits for it. One that is cut off closes its connection, and what became of it is looked
/// up afterwards (ARC-31).
pub(super) async fn within<T>(
    limit: Option<Duration>,
    flight: impl Future<Output = Result<T, StoreError>>,
) -> Result<T, StoreError> {
    tokio::time::timeout(limit.unwrap_or(LATE_FLIGHT), flight).await.unwrap_or(Err(StoreError::InDoubt))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// ARC-31: a flight that does not answer in time is in doubt, also when nobody waits for it.
    #[tokio::test(start_paused = true)]
    async fn a_flight_without_an_answer_is_in_doubt() {
        for limit in [Some(Duration::from_millis(300)), None] {
            let started = tokio::time::Instant::now();
            let flown = within(limit, std::future::pending::<Result<(), StoreError>>()).await;
            assert!(matches!(flown, Err(StoreError::InDoubt)));
            assert_eq!(started.elapsed().as_millis(), limit.unwrap_or(LATE_FLIGHT).as_millis());
        }
        assert!(matches!(within(None, async { Ok(1) }).await, Ok(1)));
    }
}
