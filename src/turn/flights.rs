//! How long a turn's flights to the database may take.

use std::time::{Duration, Instant};

use futures_util::FutureExt;

use crate::store::{Database, StoreError};

/// A flight that no request waits for any longer.
pub(super) const LATE_FLIGHT: Duration = Duration::from_secs(10);

/// A flight that would have less than this is not started: it would be cut off, and its outcome unknown.
const LAST_START: Duration = Duration::from_millis(20);

/// The database for a flight of this limit: a connection that cannot be had at once is asked for again as long as there is
/// time for the flight (DEC-26). What no connection was had for was never sent, and is known not to be there (LANE-9).
pub(super) fn patient(database: &Database, limit: Option<Duration>) -> Database {
    let time = limit.unwrap_or(LATE_FLIGHT).saturating_sub(LAST_START);
    database.until(Instant::now() + time)
}

/// Bounds a flight; `None`: no request waits for it. One that is cut off closes its connection, and what became of it is looked
/// up afterwards (ARC-31). No `async fn`: that would keep the flight, some kilobytes, a second time beside the timer.
pub(super) fn within<T>(
    limit: Option<Duration>,
    flight: impl Future<Output = Result<T, StoreError>>,
) -> impl Future<Output = Result<T, StoreError>> {
    let timed = tokio::time::timeout(limit.unwrap_or(LATE_FLIGHT), flight);
    timed.map(|outcome| outcome.unwrap_or(Err(StoreError::InDoubt)))
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
