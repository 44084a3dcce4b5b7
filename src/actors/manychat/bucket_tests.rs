//! The bucket alone.

use proptest::prelude::*;

use super::*;

const MS: Duration = Duration::from_millis(1);

/// AC-DL-6, BUCKET-1, BUCKET-3: six at once leave at 0, 0, 0, 0, 0 and 100 ms.
#[test]
fn five_leave_at_once_and_the_sixth_after_a_tenth_of_a_second() {
    let start = Instant::now();
    let mut bucket = Bucket::full(Rate::MANYCHAT, start);
    assert!((0..5).all(|_| bucket.take(start)));
    assert!(!bucket.take(start));
    assert_eq!(bucket.wait(start), 100 * MS);
    assert!(!bucket.take(start + 99 * MS), "BUCKET-2: not before there is a whole token");
    assert!(bucket.take(start + 100 * MS));
}

/// BUCKET-1: a pause of any length fills it to five and no further.
#[test]
fn a_pause_fills_the_bucket_and_no_more() {
    let start = Instant::now();
    let mut bucket = Bucket::empty(Rate::MANYCHAT, start);
    assert!(bucket.level(start).abs() < 1e-6);
    let later = start + Duration::from_secs(3600);
    assert!((bucket.level(later) - 5.0).abs() < 1e-6);
    assert_eq!((0..9).filter(|_| bucket.take(later)).count(), 5);
}

/// ARC-48: without the database each of three processes has a third of ten a second, one at a time.
#[test]
fn a_share_has_no_burst() {
    let start = Instant::now();
    let mut bucket = Bucket::full(Rate::MANYCHAT.share(3), start);
    assert!(bucket.take(start) && !bucket.take(start));
    assert_eq!(bucket.wait(start), 300 * MS);
    assert_eq!(Rate::MANYCHAT.share(0), Rate::MANYCHAT.share(1), "at least this process is alive");
}

/// GAP-DL-8: after a pause one call goes, not a burst.
#[test]
fn a_pause_empties_the_bucket() {
    let start = Instant::now();
    let mut bucket = Bucket::full(Rate::MANYCHAT, start);
    bucket.pause(start + 2000 * MS);
    assert!(bucket.level(start) < 0.0);
    assert_eq!(bucket.wait(start), 2000 * MS);
    assert!(bucket.take(start + 2000 * MS));
    assert_eq!(bucket.wait(start + 2000 * MS), 100 * MS);
    bucket.pause(start);
    assert_eq!(bucket.wait(start + 2000 * MS), 100 * MS, "a pause that is over changes nothing");
}

/// GAP-DL-8: a pause lasts as long as ManyChat asked, also when the rate changes meanwhile (ARC-48) or a token comes back.
#[test]
fn nothing_shortens_a_pause() {
    let start = Instant::now();
    let mut bucket = Bucket::full(Rate::MANYCHAT.share(2), start);
    assert!(bucket.take(start));
    bucket.pause(start + 2000 * MS);
    bucket.set_rate(Rate::MANYCHAT);
    bucket.put_back();
    assert_eq!(bucket.wait(start), 2000 * MS);
    assert!(!bucket.take(start + 1999 * MS) && bucket.take(start + 2000 * MS));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// BUCKET-1, API-4: whatever is asked when, no window holds more than the burst and what flows in during it.
    #[test]
    fn no_window_holds_more_than_the_rate_allows(
        steps in proptest::collection::vec((0_u64..400, 0_u8..10), 1..200),
        burst in 1_u32..8,
        interval in 1_u64..200,
    ) {
        let rate = Rate { interval: Duration::from_millis(interval), burst };
        let start = Instant::now();
        let mut bucket = Bucket::full(rate, start);
        let mut now = start;
        let mut taken = Vec::new();
        for (pause, what) in steps {
            now += Duration::from_millis(pause);
            let got = bucket.take(now);
            prop_assert_eq!(got, bucket.wait(now).is_zero() || got);
            if got && what == 0 {
                bucket.put_back();
            } else if got {
                taken.push(now);
            }
        }
        for (first, from) in taken.iter().enumerate() {
            for (last, to) in taken.iter().enumerate().skip(first) {
                let window = to.duration_since(*from).as_secs_f64() * 1000.0;
                let allowed = f64::from(burst) + window / interval as f64;
                prop_assert!((last - first + 1) as f64 <= allowed + 1e-6);
            }
        }
    }
}
