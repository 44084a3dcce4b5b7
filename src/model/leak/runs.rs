//! Runs of letters that a text has in common with what is secret: an index of short windows, looked up at every place.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hasher};

use super::{ALL_RUNS, OWN_RUN, SHORT_RUN};

/// Letters of a window. Shorter ones occur by chance, longer ones miss scripts that say more with a letter.
pub const WINDOW: usize = 16;
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

type Hashes<Value> = HashMap<u64, Value, BuildHasherDefault<Hashed>>;

/// The windows of all secret texts, by their hash.
#[derive(Default)]
pub struct Runs {
    windows: Hashes<Part>,
    /// How much of the persona is too much; nothing is, before it was measured.
    persona_limit: Option<usize>,
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

    /// Sets how much of the persona is too much, from what of it is secret in the end.
    pub fn measure(&mut self, persona: &[u32], limit: fn(usize) -> usize) {
        let mut all = Given::default();
        for (place, hash) in hashes(persona).enumerate() {
            if self.windows.get(&hash) == Some(&Part::Persona) {
                all.note(place, hash, persona);
            }
        }
        self.persona_limit = Some(limit(all.weight));
    }

    /// Number of windows.
    pub fn len(&self) -> usize {
        self.windows.len()
    }

    /// Whether one run of ours, all runs together, or the share of the persona is more than what may be repeated.
    pub fn give_away(&self, view: &[u32]) -> bool {
        let mut seen = Seen::default();
        let mut persona = Given::default();
        for (place, hash) in hashes(view).enumerate() {
            match self.windows.get(&hash) {
                Some(Part::Own) => seen.go_on(place),
                Some(Part::Persona) => {
                    seen.close();
                    persona.note(place, hash, view);
                }
                None => seen.close(),
            }
        }
        seen.close();
        seen.too_much || self.persona_limit.is_some_and(|limit| persona.weight >= limit)
    }
}

/// Runs of ours.
#[derive(Default)]
struct Seen {
    /// The run under way: places of its first letter and of the one behind its last.
    open: Option<(usize, usize)>,
    all: usize,
    too_much: bool,
}

impl Seen {
    fn go_on(&mut self, place: usize) {
        let (start, _) = self.open.unwrap_or((place, place));
        self.open = Some((start, place + WINDOW));
    }

    fn close(&mut self) {
        let Some((start, end)) = self.open.take() else { return };
        let length = end - start;
        if length >= SHORT_RUN {
            self.all += length;
        }
        self.too_much |= length >= OWN_RUN || self.all >= ALL_RUNS;
    }
}

/// Windows of the persona, each once: who says an address twice gives no more away.
#[derive(Default)]
struct Given {
    windows: HashSet<u64, BuildHasherDefault<Hashed>>,
    /// About as many letters, those of some scripts counted for what they say.
    weight: usize,
}

impl Given {
    fn note(&mut self, place: usize, hash: u64, view: &[u32]) {
        if self.windows.insert(hash) {
            let is_wide = view.get(place).is_some_and(|letter| *letter >= WIDE_FROM);
            self.weight += if is_wide { WIDE } else { 1 };
        }
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

    /// 01 section 17: the limit of our own sections, to the letter.
    #[test]
    fn a_run_is_given_away_from_its_limit_on() {
        let secret = text(300);
        let cut = |length: usize| letters(&secret.chars().skip(7).take(length).collect::<String>());
        assert!(!of(&secret, Part::Own).give_away(&cut(OWN_RUN - 1)));
        assert!(of(&secret, Part::Own).give_away(&cut(OWN_RUN)));
    }

    /// 01 section 17: of the persona the share counts, wherever it comes from, and each part of it once.
    #[test]
    fn the_persona_is_given_away_from_its_share_on() {
        let secret = text(315);
        let mut runs = of(&secret, Part::Persona);
        runs.measure(&letters(&secret), |all| all / 2);
        let cut = |from: usize, length: usize| secret.chars().skip(from).take(length).collect::<String>();
        assert!(!runs.give_away(&letters(&cut(7, 149 + WINDOW - 1))));
        assert!(runs.give_away(&letters(&cut(7, 150 + WINDOW - 1))));
        let twice = format!("{} {}", cut(7, 100), cut(7, 100));
        assert!(!runs.give_away(&letters(&twice)));
        let halves = format!("{} {}", cut(0, 90), cut(200, 90));
        assert!(runs.give_away(&letters(&halves)));
        let mut none = of(&secret, Part::Persona);
        assert!(!none.give_away(&letters(&secret)));
        none.remove(&[letters(&secret)]);
        none.measure(&letters(&secret), |all| all.max(1));
        assert!(!none.give_away(&letters(&secret)));
    }

    /// 01 section 17: a persona's last sentence, followed by a word that begins like our first, is still the persona's.
    #[test]
    fn a_run_that_just_reaches_ours_is_not_ours() {
        let all = text(200);
        let persona: String = all.chars().take(100).collect();
        let mut runs = of(&persona, Part::Persona);
        runs.add(&[letters(&all)], Part::Own);
        let reply = |to: usize| letters(&all.chars().skip(20).take(to - 20).collect::<String>());
        assert!(!runs.give_away(&reply(110)));
        assert!(runs.give_away(&reply(140)));
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

    /// 01 section 17: a letter of a script that says much with few letters weighs more.
    #[test]
    fn wide_letters_weigh_more() {
        let secret: String = (0..55).filter_map(|place| char::from_u32(0x4e00 + place)).collect();
        let mut runs = of(&secret, Part::Persona);
        runs.measure(&letters(&secret), |all| {
            assert_eq!(all, 40 * WIDE);
            60
        });
        let start = |length: usize| letters(&secret.chars().take(length).collect::<String>());
        assert!(!runs.give_away(&start(34)));
        assert!(runs.give_away(&start(35)));
    }
}
