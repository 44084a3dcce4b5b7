//! The streams of letters a text is compared as: forward, backward, by words, and shifted through the alphabet.

use crate::model::fold::{self, Digits};

/// Letters of the Latin alphabet.
const ALPHABET: u32 = 26;

/// Views of a secret text: its letters without digits (first), doubled letters once, the steps from each Latin letter to
/// the next, which are the same however far the alphabet was shifted, and with digits read as letters.
pub fn of_secret(text: &str) -> Vec<Vec<u32>> {
    let letters = fold::letters(text, Digits::Dropped);
    let mut views = vec![letters.clone(), once(&letters), steps(text)];
    let read = fold::letters(text, Digits::Read);
    if Some(&read) != views.first() {
        views.push(read);
    }
    views
}

/// Views of a reply, in each of which a secret may stand as [`of_secret`] shows it.
pub fn of_reply(text: &str) -> Vec<Vec<u32>> {
    let letters = fold::letters(text, Digits::Dropped);
    if letters.len() < super::OWN_RUN / 3 {
        return Vec::new();
    }
    let read = fold::letters(text, Digits::Read);
    let mut views = by_words(text);
    views.extend(shifted(text));
    if read != letters {
        views.push(backward(&read));
        views.push(read);
    }
    views.push(once(&letters));
    views.push(backward(&letters));
    views.push(letters);
    views
}

/// A letter that is written twice or more, once.
fn once(letters: &[u32]) -> Vec<u32> {
    let mut kept = letters.to_vec();
    kept.dedup();
    kept
}

/// The words in the other order, and each word spelled backward.
fn by_words(text: &str) -> Vec<Vec<u32>> {
    let words: Vec<Vec<u32>> =
        text.split_whitespace().map(|word| fold::letters(word, Digits::Dropped)).collect();
    vec![
        words.iter().rev().flatten().copied().collect(),
        words.iter().flat_map(|word| word.iter().rev()).copied().collect(),
    ]
}

/// The steps as they stand, mirrored (the alphabet turned round), and both read backward.
fn shifted(text: &str) -> Vec<Vec<u32>> {
    let forward = steps(text);
    let mirrored: Vec<u32> = forward.iter().map(|step| mirror(*step)).collect();
    vec![backward(&mirrored), backward(&forward), mirrored, forward]
}

/// From 0 to 25, which no letter is.
fn steps(text: &str) -> Vec<u32> {
    let letters = fold::latin_letters(text);
    let pairs = letters.iter().zip(letters.iter().skip(1));
    pairs.map(|(from, to)| (ALPHABET + u32::from(*to) - u32::from(*from)) % ALPHABET).collect()
}

const fn mirror(step: u32) -> u32 {
    (ALPHABET - step) % ALPHABET
}

fn backward(view: &[u32]) -> Vec<u32> {
    view.iter().rev().copied().collect()
}
