//! How many files and sockets the process may have open: without enough of them, connections of strangers take what the
//! database, the model and ManyChat need.

use std::io;

/// Below this the limit is worth a warning.
const ENOUGH: u64 = 4096;
/// What macOS accepts at most where the hard limit says "no limit".
const MODEST: u64 = 10_240;
/// Kept for log, listener, event queues, heartbeat, notices, pool, ManyChat and the embedded server.
const RESERVE: u64 = 160;
/// Each connection has its socket and a duplicate that tells whether the caller is still there (ARC-32).
const FILES_PER_CONNECTION: u64 = 2;
/// Never fewer connections, and never more.
const CONNECTIONS: (u64, u64) = (16, 25_000);

/// Raises the soft limit to the hard one. Returns what holds now, `None` when the system does not say.
pub(super) fn raise() -> Option<u64> {
    let (soft, hard) = limits().ok()?;
    if soft >= hard || set(hard, hard).is_ok() || set(MODEST.clamp(soft, hard), hard).is_ok() {
        return limits().ok().map(|(soft, _)| soft);
    }
    Some(soft)
}

/// Says what to do about a limit that is too low.
pub(super) fn report(limit: Option<u64>) {
    if let Some(limit) = limit.filter(|limit| *limit < ENOUGH) {
        tracing::warn!(
            limit,
            wanted = ENOUGH,
            "few open files allowed: raise the hard limit (LimitNOFILE of systemd, nofile of the container)"
        );
    }
}

/// Most connections of callers at once, with a reserve for everything else. `model_calls`: `MODEL_MAX_CONCURRENT`.
pub(super) fn connections(limit: Option<u64>, model_calls: usize) -> usize {
    let (least, most) = CONNECTIONS;
    let kept = RESERVE.saturating_add(u64::try_from(model_calls).unwrap_or(u64::MAX));
    let left = limit.map_or(most, |limit| limit.saturating_sub(kept) / FILES_PER_CONNECTION);
    usize::try_from(left.clamp(least, most)).unwrap_or(usize::MAX)
}

fn limits() -> io::Result<(u64, u64)> {
    let mut found = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the pointer is to a value of ours that lives through the call.
    if unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut found) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok((found.rlim_cur, found.rlim_max))
}

fn set(soft: u64, hard: u64) -> io::Result<()> {
    let wanted = libc::rlimit { rlim_cur: soft, rlim_max: hard };
    // SAFETY: the pointer is to a value of ours that lives through the call.
    if unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const wanted) } == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// SHED-1: connections never take the last file.
    #[test]
    fn connections_leave_a_reserve() {
        assert_eq!(connections(Some(1024), 64), 400);
        assert_eq!(connections(Some(20_000), 64), 9888);
        assert_eq!(connections(Some(1_048_576), 64), 25_000);
        assert_eq!(connections(Some(100), 64), 16);
        assert_eq!(connections(None, 64), 25_000);
    }

    /// The soft limit is the hard one afterwards.
    #[test]
    fn the_soft_limit_is_raised() {
        let (_, hard) = limits().unwrap();
        assert!(raise().unwrap() >= hard.min(MODEST));
    }
}
