//! Percentiles, medians and ranges.

use std::fmt;
use std::time::Duration;

/// Sorted durations of one run.
pub struct Latencies(Vec<Duration>);

impl Latencies {
    /// Sorts them.
    pub fn new(mut all: Vec<Duration>) -> Self {
        all.sort_unstable();
        Self(all)
    }

    /// The value below which this share of all lies, `share` from 0 to 1.
    pub fn at(&self, share: f64) -> Duration {
        let last = self.0.len().saturating_sub(1);
        let place = (last as f64 * share).round() as usize;
        self.0.get(place.min(last)).copied().unwrap_or_default()
    }
}

/// The same figure of several rounds, shown as `median (least to most)`.
pub struct Spread {
    sorted: Vec<f64>,
    digits: usize,
}

impl Spread {
    /// `digits` behind the point are shown.
    pub fn new(values: impl IntoIterator<Item = f64>, digits: usize) -> Self {
        let mut sorted: Vec<f64> = values.into_iter().collect();
        sorted.sort_unstable_by(f64::total_cmp);
        Self { sorted, digits }
    }

    /// The middle one; the upper of the two middle ones of an even number.
    pub fn median(&self) -> f64 {
        self.sorted.get(self.sorted.len() / 2).copied().unwrap_or(f64::NAN)
    }
}

impl fmt::Display for Spread {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = self.digits;
        let least = self.sorted.first().copied().unwrap_or(f64::NAN);
        let most = self.sorted.last().copied().unwrap_or(f64::NAN);
        let text = format!("{:.digits$} ({least:.digits$}-{most:.digits$})", self.median());
        out.pad(&text)
    }
}

/// A duration in milliseconds.
pub fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1000.0
}
