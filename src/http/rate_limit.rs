//! The limit per client address (03 RATE-1 to RATE-4, DEC-26): fixed windows in the memory of this process.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use moka::policy::EvictionPolicy;
use moka::sync::Cache;

/// Length of a window, from its key's first request.
const WINDOW: Duration = Duration::from_secs(60);
/// Most keys that are remembered; a flood from more addresses forgets the ones seen longest ago.
const MOST_KEYS: u64 = 100_000;
/// The bits of an IPv6 address that name a network.
const NETWORK: u128 = !0 << 64;

/// Whose budget a request uses. Callers with a valid secret have one of their own, so that a flood without it cannot
/// lock out ManyChat even when both come from one address (RATE-2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Key {
    /// Whether the request carries a valid secret.
    has_secret: bool,
    /// The client's address, or the first address of its network.
    address: IpAddr,
}

impl Key {
    /// The budget of this client. In IPv6 one client has a network of 2^64 addresses, so the network counts.
    pub(super) fn of(has_secret: bool, client: IpAddr) -> Self {
        let address = match client.to_canonical() {
            IpAddr::V6(full) => IpAddr::V6(Ipv6Addr::from_bits(full.to_bits() & NETWORK)),
            IpAddr::V4(full) => IpAddr::V4(full),
        };
        Self { has_secret, address }
    }
}

/// How a key stands after one more request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Quota {
    /// Requests of one window.
    pub(super) limit: u32,
    /// How many of them are left.
    pub(super) remaining: u32,
    /// Whole seconds until the window ends, at least 1.
    pub(super) reset_secs: u64,
    /// Whether this request is over the limit.
    pub(super) exceeded: bool,
}

/// The windows of all keys.
pub(super) struct RateLimit {
    limit: u32,
    windows: Cache<Key, Arc<Mutex<Window>>>,
}

struct Window {
    started: Instant,
    count: u32,
}

impl RateLimit {
    /// `limit`: requests of one key in one window, at least 1.
    pub(super) fn new(limit: u32) -> Self {
        let windows = Cache::builder()
            .max_capacity(MOST_KEYS)
            // A key that was idle for a whole window has none any more.
            .time_to_idle(WINDOW)
            .eviction_policy(EvictionPolicy::lru())
            .build();
        Self { limit, windows }
    }

    /// Counts a request of this key.
    pub(super) fn count(&self, key: Key, now: Instant) -> Quota {
        let window = self.windows.get_with(key, || Arc::new(Mutex::new(Window { started: now, count: 0 })));
        let mut window = window.lock().unwrap_or_else(PoisonError::into_inner);
        if now.saturating_duration_since(window.started) >= WINDOW {
            *window = Window { started: now, count: 0 };
        }
        window.count = window.count.saturating_add(1);
        let left = WINDOW.saturating_sub(now.saturating_duration_since(window.started));
        Quota {
            limit: self.limit,
            remaining: self.limit.saturating_sub(window.count),
            reset_secs: left.as_secs() + u64::from(left.subsec_nanos() > 0),
            exceeded: window.count > self.limit,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(has_secret: bool, last: u8) -> Key {
        Key::of(has_secret, IpAddr::from([192, 0, 2, last]))
    }

    /// 03/RATE-1, RATE-4: the first request starts a window; one over the limit is over until the window ends.
    #[test]
    fn a_window_starts_with_the_first_request_and_ends_after_a_minute() {
        let limit = RateLimit::new(3);
        let start = Instant::now();
        let at = |secs: u64| start + Duration::from_secs(secs);
        let seen: Vec<(u32, u64, bool)> = [0, 10, 20, 30, 59]
            .into_iter()
            .map(|secs| limit.count(key(false, 1), at(secs)))
            .map(|quota| (quota.remaining, quota.reset_secs, quota.exceeded))
            .collect();
        assert_eq!(
            seen,
            [(2, 60, false), (1, 50, false), (0, 40, false), (0, 30, true), (0, 1, true)],
            "remaining, seconds to the end, over"
        );
        let next = limit.count(key(false, 1), at(60));
        assert_eq!((next.limit, next.remaining, next.reset_secs, next.exceeded), (3, 2, 60, false));
    }

    /// 03/RATE-2: the secret and the address make separate budgets.
    #[test]
    fn every_key_has_a_budget_of_its_own() {
        let limit = RateLimit::new(1);
        let now = Instant::now();
        assert!(!limit.count(key(false, 1), now).exceeded);
        assert!(limit.count(key(false, 1), now).exceeded);
        assert!(!limit.count(key(true, 1), now).exceeded);
        assert!(!limit.count(key(false, 2), now).exceeded);
    }

    /// 03/RATE-1, RATE-5: one IPv6 network is one client; an IPv4 address inside IPv6 is itself.
    #[test]
    fn an_ipv6_network_has_one_budget() {
        let key = |address: &str| Key::of(false, address.parse().unwrap());
        assert_eq!(key("2001:db8:1:2::1"), key("2001:db8:1:2:ffff:ffff:ffff:ffff"));
        assert_ne!(key("2001:db8:1:2::1"), key("2001:db8:1:3::1"));
        assert_ne!(key("::ffff:192.0.2.1"), key("::ffff:192.0.2.2"));
        assert_eq!(key("::ffff:192.0.2.1"), key("192.0.2.1"));
    }

    /// 03/RATE-1: requests at the same time are all counted.
    #[test]
    fn no_request_is_missed_when_many_come_at_once() {
        let limit = RateLimit::new(1000);
        let now = Instant::now();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..250 {
                        limit.count(key(true, 1), now);
                    }
                });
            }
        });
        assert!(limit.count(key(true, 1), now).exceeded, "request 1001");
    }
}
