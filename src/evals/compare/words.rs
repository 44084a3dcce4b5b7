//! Which words of two texts differ.

/// What a piece of two compared texts is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece {
    /// In both.
    Same,
    /// In the first alone.
    Gone,
    /// In the second alone.
    New,
}

/// Work a comparison may take, in pairs of words; longer texts count as wholly different. Replies are far below.
const MOST: usize = 4_000_000;

/// The words and the white space of both texts in one sequence, by the longest common subsequence.
pub fn difference<'a>(before: &'a str, after: &'a str) -> Vec<(Piece, &'a str)> {
    let (left, right) = (pieces(before), pieces(after));
    if left.len().saturating_mul(right.len()) > MOST {
        return [(Piece::Gone, before), (Piece::New, after)].into();
    }
    let common = Common::of(&left, &right);
    let (mut row, mut column) = (0, 0);
    let mut found = Vec::with_capacity(left.len() + right.len());
    loop {
        match (left.get(row), right.get(column)) {
            (Some(old), Some(new)) if old == new => {
                found.push((Piece::Same, *old));
                (row, column) = (row + 1, column + 1);
            }
            (Some(old), new) if new.is_none() || common.at(row + 1, column) >= common.at(row, column + 1) => {
                found.push((Piece::Gone, *old));
                row += 1;
            }
            (_, Some(new)) => {
                found.push((Piece::New, *new));
                column += 1;
            }
            (_, None) => return found,
        }
    }
}

/// Runs of white space and runs of anything else.
fn pieces(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let blank = first.is_whitespace();
        let end = rest.find(|letter: char| letter.is_whitespace() != blank).unwrap_or(rest.len());
        let (piece, after) = rest.split_at(end);
        found.push(piece);
        rest = after;
    }
    found
}

/// Lengths of the longest common subsequences of all tails.
struct Common {
    width: usize,
    lengths: Vec<u32>,
}

impl Common {
    fn of(left: &[&str], right: &[&str]) -> Self {
        let width = right.len() + 1;
        let mut table = Self { width, lengths: vec![0; (left.len() + 1) * width] };
        for (row, old) in left.iter().enumerate().rev() {
            for (column, new) in right.iter().enumerate().rev() {
                let length = if old == new {
                    table.at(row + 1, column + 1) + 1
                } else {
                    table.at(row + 1, column).max(table.at(row, column + 1))
                };
                if let Some(cell) = table.lengths.get_mut(row * width + column) {
                    *cell = length;
                }
            }
        }
        table
    }

    fn at(&self, row: usize, column: usize) -> u32 {
        self.lengths.get(row * self.width + column).copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn side(found: &[(Piece, &str)], other: Piece) -> String {
        found.iter().filter(|(piece, _)| *piece != other).map(|(_, text)| *text).collect()
    }

    /// The words that changed, and no others.
    #[test]
    fn a_changed_word_is_the_only_difference() {
        let found = difference("It is 450 today.", "It is 999 today.");
        let marked: Vec<_> = found.into_iter().filter(|(piece, _)| *piece != Piece::Same).collect();
        assert_eq!(marked, [(Piece::Gone, "450"), (Piece::New, "999")]);
        assert_eq!(difference("", ""), []);
        assert_eq!(difference("", "new"), [(Piece::New, "new")]);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]

        /// Both texts can be read out of the sequence, whatever they hold.
        #[test]
        fn nothing_is_lost(before in "[ab \\n<&é]{0,24}", after in "[ab \\n<&é]{0,24}") {
            let found = difference(&before, &after);
            prop_assert_eq!(side(&found, Piece::New), before.as_str());
            prop_assert_eq!(side(&found, Piece::Gone), after.as_str());
        }
    }
}
