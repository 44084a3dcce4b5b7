//! Hours, days and windows of business time.

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;

/// Start of the UTC clock hour (02/RATE-1).
pub(super) fn hour_of(at: Timestamp) -> Timestamp {
    let seconds = at.as_second();
    Timestamp::from_second(seconds - seconds.rem_euclid(3600)).unwrap_or(at)
}

/// The UTC day (BUD-1).
pub(super) fn day_of(at: Timestamp) -> Date {
    at.to_zoned(TimeZone::UTC).date()
}

/// `at` minus whole hours; the earliest representable time when that is out of range.
pub(super) fn back(at: Timestamp, hours: i64) -> Timestamp {
    at.checked_sub(jiff::SignedDuration::from_hours(hours)).unwrap_or(Timestamp::UNIX_EPOCH)
}
