//! Dates and prices that have the shape of a phone number and are none (LIM-10). Whatever is not surely one of them counts
//! as a phone number.

use std::ops::Range;

use jiff::civil::Date;

/// Most digits of a price without a currency beside it. Identity numbers are written in the same groups from eight on.
const MOST_DIGITS: usize = 7;
/// Most digits of a price with a currency beside it.
const MOST_DIGITS_OF_MONEY: usize = 12;
/// What stands beside an amount, in small letters.
const CURRENCIES: [&str; 14] =
    ["usd", "u$s", "eur", "gbp", "ars", "mxn", "clp", "cop", "brl", "pen", "uyu", "pyg", "pesos", "reais"];

/// Whether the run of digits and marks at `range` of `text` consists of dates and prices only, perhaps with an hour behind
/// the last.
pub(super) fn is_date_or_price(text: &str, range: Range<usize>) -> bool {
    let before = text.get(..range.start).unwrap_or_default();
    let after = text.get(range.end..).unwrap_or_default();
    Figures { money: has_currency(before, after) }.all(text.get(range).unwrap_or_default())
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Date,
    Price,
    Dash,
}

struct Figures {
    money: bool,
}

impl Figures {
    fn all(&self, run: &str) -> bool {
        let mut words = run.split_whitespace().peekable();
        let mut last = None;
        while let Some(word) = words.next() {
            let hour =
                words.peek().is_none() && word.len() <= 2 && word.bytes().all(|at| at.is_ascii_digit());
            let kind = match self.kind(word) {
                Some(kind) => kind,
                None => return hour && matches!(last, Some(Kind::Date | Kind::Price)),
            };
            // Two prices side by side could be the groups of a number; a range of prices is not.
            if kind == Kind::Price && last == Some(Kind::Price) {
                return false;
            }
            last = Some(kind);
        }
        last.is_some()
    }

    fn kind(&self, word: &str) -> Option<Kind> {
        if word == "-" {
            return Some(Kind::Dash);
        }
        let word = word.trim_end_matches(['.', '-']);
        if is_date(word) {
            Some(Kind::Date)
        } else {
            word.split('-').all(|amount| self.is_price(amount)).then_some(Kind::Price)
        }
    }

    /// `1.250.000`: groups of three digits, the first without a leading nought.
    fn is_price(&self, amount: &str) -> bool {
        let digits = amount.bytes().filter(u8::is_ascii_digit).count();
        let most = if self.money { MOST_DIGITS_OF_MONEY } else { MOST_DIGITS };
        let mut groups = amount.split('.');
        let first = groups.next().unwrap_or_default();
        let numeric = |group: &str| group.bytes().all(|at| at.is_ascii_digit());
        let begins = (1..=3).contains(&first.len()) && numeric(first) && !first.starts_with('0');
        let mut further = groups.peekable();
        begins
            && digits <= most
            && further.peek().is_some()
            && further.all(|group| group.len() == 3 && numeric(group))
    }
}

/// `2031-04-05`, of the centuries that a conversation can be about.
fn is_date(word: &str) -> bool {
    let written = word.len() == 10 && word.bytes().filter(|at| *at == b'-').count() == 2;
    let date: Option<Date> = written.then(|| word.parse().ok()).flatten();
    date.is_some_and(|date| (1900..2200).contains(&date.year()))
}

fn has_currency(before: &str, after: &str) -> bool {
    let is_currency = |word: &str| {
        let word = word.to_lowercase();
        CURRENCIES.contains(&word.as_str())
    };
    let last = before.split_whitespace().next_back().unwrap_or_default();
    let next = after.split_whitespace().next().unwrap_or_default();
    let next = next.trim_end_matches(|mark: char| mark.is_ascii_punctuation() && mark != '$');
    let sign = |mark: char| matches!(mark, '$' | '€' | '£');
    before.trim_end().ends_with(sign)
        || next.starts_with(['€', '£'])
        || is_currency(last)
        || is_currency(next)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::redaction::{Marks, scrub_text, scrub_with};

    /// LIM-10: dates and prices keep their place in a note and in the log.
    #[test]
    fn dates_and_prices_stay() {
        for text in [
            "Starts 2031-04-05.",
            "2031-04-05 10:30",
            "2031-04-05T10:30",
            "from 2031-04-05 - 2031-04-12",
            "2031-04-05 2031-04-12 2031-04-19",
            "offered 1.250.000 in parts",
            "between 950.000 - 1.250.000",
            "between 950.000-1.250.000.",
            "$12.500.000",
            "U$S 12.500.000,00",
            "12.500.000 pesos, all in",
            "1.250.000 24 h",
        ] {
            assert_eq!(scrub_text(text), text);
        }
    }

    /// LIM-10, NOTE-2, PII-5: what could be a phone or an identity number goes, dates beside it or not.
    #[test]
    fn phones_in_the_same_clothes_go() {
        for text in [
            "+54 9 11 5555 0188",
            "011 4567 8899",
            "(11) 2345 6789",
            "555.010.3388.1",
            "611.222.333",
            "40.223.344",
            "+1.250.000",
            "011.250.000",
            "11.234 567.890",
            "2031-04-05 555 010 3388",
            "2031-04-05-1234",
            "2031-14-05 1",
            "1.250.000 2345",
            "11 23 45 67 89",
            "1.250.00055 1",
        ] {
            let clean = scrub_with(text, &Marks::uniform("[removed]"));
            assert!(!clean.bytes().any(|byte| byte.is_ascii_digit()), "{text} became {clean}");
        }
    }

    fn phone() -> impl Strategy<Value = String> {
        prop_oneof![
            "\\+[1-9][0-9]{0,2} [0-9]{2,3} [0-9]{3,4}[ -]?[0-9]{4}",
            "\\+[1-9]{1,2}\\.[0-9]{3}\\.[0-9]{3}\\.[0-9]{3,4}",
            "0[0-9]{2} [0-9]{4} [0-9]{4}",
            "\\([0-9]{2}\\) [0-9]{4}[ -][0-9]{4}",
            "[0-9]{4}-[0-9]{5}",
            "[0-9]{2} [0-9]{2} [0-9]{2} [0-9]{2} [0-9]{2}",
            "[0-9]{3}\\.[0-9]{3}\\.[0-9]{4}",
        ]
    }

    fn figure() -> impl Strategy<Value = String> {
        prop_oneof![
            "20[2-3][0-9]-0[1-9]-[0-2][1-8]",
            "[1-9]\\.[0-9]{3}\\.[0-9]{3}",
            "\\$ [1-9][0-9]\\.[0-9]{3}\\.[0-9]{3}",
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(400))]

        /// LIM-10, ARC-62: no date and no price beside a phone number lets it through, whatever joins them.
        #[test]
        fn a_figure_hides_no_phone(
            phone in phone(), figure in figure(), joint in "( | - |, |\\. |: |\n| / )", figure_first: bool,
        ) {
            let text = if figure_first { format!("{figure}{joint}{phone}") } else { format!("{phone}{joint}{figure}") };
            let clean = scrub_text(&text);
            prop_assert!(!clean.contains(&phone), "{} became {}", text, clean);
            let digits = |text: &str| text.bytes().filter(u8::is_ascii_digit).count();
            prop_assert!(digits(&clean) <= digits(&figure), "{} became {}", text, clean);
        }

        /// LIM-10: a date or a price alone stays, in any sentence.
        #[test]
        fn a_figure_among_words_stays(figure in figure(), before in "[a-z]{0,8}", after in "[a-z]{0,8}") {
            let text = format!("{before} {figure} {after}.");
            prop_assert_eq!(scrub_text(&text), text.as_str());
        }
    }
}
