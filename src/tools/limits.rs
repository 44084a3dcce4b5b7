//! The numbers of 08 section 0.

use std::time::Duration;

/// Actions of one turn, staged and sent together; follow-ons do not count (STAGE-3).
pub const MOST_ACTIONS: usize = 8;
/// Actions over that limit that a turn remembers; what comes after them leaves no entry.
pub(super) const MOST_DROPPED: usize = 32;
/// Contact reads of one turn, failed ones counted (READ-7).
pub const MOST_READS: u8 = 2;
/// How long one read may take, from the call (READ-6).
pub const READ_LIMIT: Duration = Duration::from_millis(1500);
/// How long a turn that ended waits for the request in flight and its follow-ons (FLOW-5, FLOW-7): three requests of 10 s
/// each, the wait of one for an earlier turn's write, and a little more than what the attempts take to be written down.
pub const IN_FLIGHT_LIMIT: Duration = Duration::from_secs(48);
