//! Days, hours and windows of Open.

use super::*;

/// 02/RATE-1, BUD-1: windows are UTC hours and days.
#[test]
fn windows_are_utc_hours_and_days() {
    let at: Timestamp = "2026-03-01T23:59:59.5Z".parse().unwrap();
    assert_eq!(hour_of(at).to_string(), "2026-03-01T23:00:00Z");
    assert_eq!(day_of(at).to_string(), "2026-03-01");
    let before_1970: Timestamp = "1969-12-31T23:30:00Z".parse().unwrap();
    assert_eq!(hour_of(before_1970).to_string(), "1969-12-31T23:00:00Z");
}

/// HISTW-1: the window reaches back whole days; an absurd number of days does not overflow.
#[test]
fn the_window_reaches_back_without_overflow() {
    let at: Timestamp = "2026-03-01T12:00:00Z".parse().unwrap();
    assert_eq!(back(at, 48), at - jiff::SignedDuration::from_hours(48));
    assert_eq!(back(at, i64::from(u32::MAX) * 24), Timestamp::UNIX_EPOCH);
}
