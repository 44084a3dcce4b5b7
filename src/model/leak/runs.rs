//! Runs of letters that a text has in common with what is secret: an index of short windows, looked up at every place.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use super::{ALL_RUNS, OWN_RUN, PERSONA_RUN, SHORT_RUN};

/// Letters of a window. Shorter ones occur by chance, longer ones miss scripts that say more with a letter.
const WINDOW: usize = 16;
/// An odd factor; products wrap at 64 bits.
const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
/// From here on a letter stands for a syllable or a word (Kana, Han).
const WIDE_FROM: u32 = 0x2e80;
const WIDE: usize = 3;

/// Whose words they are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Part {
    /// The tenant's persona.
    Persona,
    /// Our own sections.
    Own,
}

/// The windows of all secret texts, by their hash.
#[derive(Default)]
pub struct Runs {
    windows: HashMap<u64, Part, BuildHasherDefault<Hashed>>,
}

impl Runs {
    /// Adds the windows of a secret text's views; one that is there already stays whose it is.
    pub fn add(&mut self, views: &[Vec<u32>], part: Part) {
        for hash in views.iter().flat_map(|view| hashes(view)) {
            self.windows.entry(hash).or_insert(part);
        }
    }

    /// Takes out what a quotable text has as well.
    pub fn remove(&mut self, views: &[Vec<u32>]) {
        for hash in views.iter().flat_map(|view| hashes(view)) {
            self.windows.remove(&hash);
        }
    }

    /// Number of windows.
    pub fn len(&self) -> usize {
        self.windows.len()
    }

    /// Whether one run, or all runs together, are longer than what may be repeated.
    pub fn give_away(&self, view: &[u32]) -> bool {
        let mut seen = Seen::default();
        let mut run: Option<Run> = None;
        for (start, hash) in hashes(view).enumerate() {
            let Some(part) = self.windows.get(&hash) else {
                seen.close(run.take(), view);
                continue;
            };
            let open = run.get_or_insert(Run { start, end: start, own: false });
            open.end = start + WINDOW;
            open.own |= *part == Part::Own;
        }
        seen.close(run, view);
        seen.too_much
    }
}

/// A run under way: places of its first letter and of the one behind its last.
struct Run {
    start: usize,
    end: usize,
    /// Whether any of it is ours.
    own: bool,
}

#[derive(Default)]
struct Seen {
    all: usize,
    too_much: bool,
}

impl Seen {
    fn close(&mut self, run: Option<Run>, view: &[u32]) {
        let Some(run) = run else { return };
        let letters = view.get(run.start..run.end).unwrap_or_default();
        let length: usize = letters.iter().map(|letter| if *letter < WIDE_FROM { 1 } else { WIDE }).sum();
        let limit = if run.own { OWN_RUN } else { PERSONA_RUN };
        if length >= SHORT_RUN {
            self.all += length;
        }
        self.too_much |= length >= limit || self.all >= ALL_RUNS;
    }
}

/// The hash of every window, in order. Each follows from the one before.
fn hashes(view: &[u32]) -> impl Iterator<Item = u64> {
    let leaving = (0..WINDOW).fold(1u64, |power, _| power.wrapping_mul(FACTOR));
    let add = |hash: u64, letter: &u32| hash.wrapping_mul(FACTOR).wrapping_add(u64::from(*letter) + 1);
    let first = view.get(..WINDOW).map(|window| window.iter().fold(0, add));
    let rest = view.iter().zip(view.get(WINDOW..).unwrap_or_default());
    let following = rest.scan(first.unwrap_or_default(), move |hash, (left, entered)| {
        *hash = add(*hash, entered).wrapping_sub((u64::from(*left) + 1).wrapping_mul(leaving));
        Some(*hash)
    });
    first.into_iter().chain(following)
}

/// The keys are hashes already.
#[derive(Default)]
struct Hashed(u64);

impl Hasher for Hashed {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u64(&mut self, hash: u64) {
        // The table takes its bits from both ends.
        self.0 = hash ^ (hash >> 32);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn letters(text: &str) -> Vec<u32> {
        text.chars().map(u32::from).collect()
    }

    fn of(text: &str, part: Part) -> Runs {
        let mut runs = Runs::default();
        runs.add(&[letters(text)], part);
        runs
    }

    /// Different letters all the way, so that no window occurs twice.
    fn text(length: u32) -> String {
        (0..length).filter_map(|place| char::from_u32(0x100 + place)).collect()
    }

    /// 01 section 17: a window's hash depends on its letters alone.
    #[test]
    fn the_hash_of_a_window_follows_from_the_one_before() {
        let view = letters("all that is here is here all that is here is here");
        let all: Vec<u64> = hashes(&view).collect();
        for (place, hash) in all.iter().enumerate() {
            assert_eq!(hashes(&view[place..place + WINDOW]).next(), Some(*hash), "{place}");
        }
        assert_eq!(hashes(&view[..WINDOW - 1]).count(), 0);
    }

    /// 01 section 17: the limits, to the letter.
    #[test]
    fn a_run_is_given_away_from_its_limit_on() {
        let secret = text(300);
        let cut = |length: usize| letters(&secret.chars().skip(7).take(length).collect::<String>());
        let cases = [(Part::Own, OWN_RUN), (Part::Persona, PERSONA_RUN)];
        for (part, limit) in cases {
            assert!(!of(&secret, part).give_away(&cut(limit - 1)), "{part:?}");
            assert!(of(&secret, part).give_away(&cut(limit)), "{part:?}");
        }
    }

    /// 01 section 17: pieces count together, but short ones not at all.
    #[test]
    fn pieces_count_together() {
        let secret: Vec<char> = text(300).chars().collect();
        let pieces = |length: usize| {
            let all: Vec<String> = secret.chunks(length).map(|piece| piece.iter().collect()).collect();
            letters(&all.join(" no "))
        };
        assert!(of(&text(300), Part::Own).give_away(&pieces(SHORT_RUN)));
        assert!(!of(&text(300), Part::Own).give_away(&pieces(SHORT_RUN - 1)));
    }

    /// 01 section 17: what a quotable text holds as well is free.
    #[test]
    fn quotable_runs_are_taken_out() {
        let mut runs = of(&text(200), Part::Own);
        runs.remove(&[letters(&text(100))]);
        assert!(!runs.give_away(&letters(&text(100))));
        assert!(runs.give_away(&letters(&text(200))));
    }

    /// A letter of a script that says much with few letters weighs more.
    #[test]
    fn wide_letters_weigh_more() {
        let secret: String = (0..40).filter_map(|place| char::from_u32(0x4e00 + place)).collect();
        assert!(of(&secret, Part::Own).give_away(&letters(&secret[..3 * 16])));
        assert!(!of(&secret, Part::Own).give_away(&letters(&secret[..3 * 15])));
    }
}
