//! Dates, hours and prices that have the shape of a phone number and are none (LIM-10). Whatever is not surely one of them
//! counts as a phone number.

use std::ops::Range;

use jiff::civil::Date;

/// Most digits of a price without a currency beside it, and of the prices of a range together. Identity numbers are written
/// in the same groups from eight on.
const MOST_DIGITS: usize = 7;
/// Most digits of a price with a currency beside it.
const MOST_DIGITS_OF_MONEY: usize = 12;
/// Most days without a year beside each other, `30/11 - 05/12`: more could be the pairs of a number.
const MOST_SHORT_DATES: usize = 2;
/// What stands beside an amount, in small letters.
const CURRENCIES: [&str; 14] =
    ["usd", "u$s", "eur", "gbp", "ars", "mxn", "clp", "cop", "brl", "pen", "uyu", "pyg", "pesos", "reais"];

/// Whether the run of digits and marks at `range` of `text` consists of dates, hours and prices only.
pub(super) fn is_date_or_price(text: &str, range: Range<usize>) -> bool {
    let before = text.get(..range.start).unwrap_or_default();
    let after = text.get(range.end..).unwrap_or_default();
    let run = text.get(range).unwrap_or_default();
    plain(run)
        .is_some_and(|run| Line::read(&run, has_currency(before, after)).is_some_and(|line| line.holds()))
}

/// The run with one kind of dash, slash and space, without invisible characters. `None` when it has another sign: neither
/// dates nor prices have brackets or a plus.
fn plain(run: &str) -> Option<String> {
    let mut plain = String::with_capacity(run.len());
    for sign in run.chars() {
        match sign {
            '0'..='9' | '.' | '-' | '/' => plain.push(sign),
            '０'..='９' => plain.push(char::from_digit(u32::from(sign) - u32::from('０'), 10)?),
            '‐'..='―' | '−' | '﹘' | '﹣' | '－' => plain.push('-'),
            '⁄' | '∕' | '／' => plain.push('/'),
            '．' => plain.push('.'),
            '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' => {}
            '\u{2060}'..='\u{2064}' | '\u{2066}'..='\u{2069}' | '\u{feff}' => {}
            _ if sign.is_whitespace() => plain.push(' '),
            _ => return None,
        }
    }
    Some(plain)
}

/// What stands before a figure.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Joint {
    Space,
    Dash,
    Slash,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Figure {
    /// `2031-04-05`, `30/11/2031`.
    Date,
    /// `30/11`.
    ShortDate,
    /// `2031`, of a span of years.
    Year(u64),
    /// `18.30`, in minutes.
    Clock(u64),
    /// `1.250.000`.
    Price(Amount),
    /// `450` or `450.00`, which is a price in a range and beside a currency only.
    Plain(Amount),
    /// One or two digits: an hour or a day.
    Small(u64),
}

impl Figure {
    const fn is_date(self) -> bool {
        matches!(self, Self::Date | Self::ShortDate)
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct Amount {
    /// All digits as one number.
    value: u64,
    digits: usize,
}

/// The figures of a run in order, each with what stands before it.
struct Line {
    figures: Vec<(Joint, Figure)>,
    money: bool,
}

impl Line {
    /// `None` when a word is no figure.
    fn read(run: &str, money: bool) -> Option<Self> {
        let (mut line, mut joint) = (Self { figures: Vec::new(), money }, Joint::Space);
        for word in run.split_whitespace() {
            let figure = word.trim_end_matches(['.', '-', '/']);
            if !figure.is_empty() {
                line.push(joint, figure)?;
                joint = Joint::Space;
            }
            match word.trim_end_matches('.').chars().next_back() {
                Some('-') => joint = Joint::Dash,
                Some('/') => joint = Joint::Slash,
                _ => {}
            }
        }
        Some(line)
    }

    /// One figure, or a range of two.
    fn push(&mut self, joint: Joint, word: &str) -> Option<()> {
        if let Some(figure) = self.figure(word) {
            self.figures.push((joint, figure));
            return Some(());
        }
        let range =
            word.char_indices().filter(|(_, sign)| matches!(sign, '-' | '/')).find_map(|(at, sign)| {
                let low = self.figure(word.get(..at)?)?;
                let high = self.figure(word.get(at + 1..)?)?;
                let alike = std::mem::discriminant(&low) == std::mem::discriminant(&high);
                let fits = alike
                    || (low.is_date() && high.is_date())
                    || matches!((low, high), (Figure::Small(_), Figure::Date | Figure::ShortDate));
                let between = if sign == '-' { Joint::Dash } else { Joint::Slash };
                fits.then_some([(joint, low), (between, high)])
            });
        self.figures.extend(range?);
        Some(())
    }

    fn figure(&self, word: &str) -> Option<Figure> {
        if is_iso_date(word) {
            return Some(Figure::Date);
        }
        if word.contains('/') {
            return slashed_date(word);
        }
        if let Some(amount) = grouped(word) {
            return Some(Figure::Price(amount));
        }
        let (whole, fraction) = word.split_once('.').unwrap_or((word, ""));
        let value = number(whole)?;
        match (whole.len(), fraction.len()) {
            (1 | 2, 0) => Some(Figure::Small(value)),
            (2..=MOST_DIGITS, 0) | (1..=MOST_DIGITS, 2) if self.money && !whole.starts_with('0') => {
                let digits = whole.len() + fraction.len();
                Some(Figure::Plain(Amount { value: number(&format!("{whole}{fraction}"))?, digits }))
            }
            (4, 0) if (1990..=2060).contains(&value) => Some(Figure::Year(value)),
            (1 | 2, 2) => {
                let minutes =
                    number(fraction).filter(|minutes| *minutes < 60 && minutes.is_multiple_of(5))?;
                (value <= 24).then_some(Figure::Clock(value * 60 + minutes))
            }
            _ => None,
        }
    }

    /// Whether the figures make sense beside each other, and their prices are no groups of a number.
    fn holds(&self) -> bool {
        let short = self.figures.iter().filter(|(_, figure)| *figure == Figure::ShortDate).count();
        !self.figures.is_empty()
            && short <= MOST_SHORT_DATES
            && (0..self.figures.len()).all(|at| self.stands(at))
            && self.are_prices()
    }

    fn stands(&self, at: usize) -> bool {
        let Some((joint, figure)) = self.at(Some(at)) else { return false };
        let before = self.at(at.checked_sub(1)).map(|(_, figure)| figure);
        let last = at + 1 == self.figures.len();
        match figure {
            Figure::Date | Figure::ShortDate => true,
            Figure::Year(_) => self.is_in_range(at),
            Figure::Clock(_) => {
                let of_a_day = joint == Joint::Space && last && before.is_some_and(Figure::is_date);
                of_a_day || self.is_in_range(at)
            }
            // Two prices side by side could be the groups of a number; a range of prices is not.
            Figure::Price(_) => joint != Joint::Space || !matches!(before, Some(Figure::Price(_))),
            Figure::Plain(_) => self.figures.len() == 2 && self.is_in_range(at),
            Figure::Small(_) => self.small_stands(at, joint, before),
        }
    }

    /// An hour behind a date or a price, a number before a date, the days of `10-14/12/2031`, the hours of `10-14`.
    fn small_stands(&self, at: usize, joint: Joint, before: Option<Figure>) -> bool {
        let next = self.at(Some(at + 1));
        match (joint, before, next) {
            (Joint::Space, Some(Figure::Date | Figure::ShortDate | Figure::Price(_)), None)
            | (Joint::Space, None, Some((Joint::Space | Joint::Dash, Figure::Date | Figure::ShortDate))) => {
                true
            }
            (Joint::Dash, Some(Figure::Small(_)), _) => self.is_in_range(at),
            (Joint::Space, None | Some(Figure::Date | Figure::ShortDate), _)
            | (Joint::Slash, Some(Figure::Small(_)), _) => self.is_in_range(at),
            _ => false,
        }
    }

    /// Whether the figure is one end of a range that rises, and of one only.
    fn is_in_range(&self, at: usize) -> bool {
        self.is_range(at.checked_sub(1), Some(at)) != self.is_range(Some(at), Some(at + 1))
    }

    fn is_range(&self, low: Option<usize>, high: Option<usize>) -> bool {
        let (Some((_, low)), Some((joint, high))) = (self.at(low), self.at(high)) else { return false };
        let dash = joint == Joint::Dash;
        match (low, high) {
            (Figure::Year(low), Figure::Year(high)) => {
                let most = if dash { 10 } else { 1 };
                joint != Joint::Space && low < high && high - low <= most
            }
            (Figure::Clock(low), Figure::Clock(high)) => dash && low < high,
            (Figure::Small(low), Figure::Small(high)) => dash && low < high && high <= 24,
            (Figure::Plain(low), Figure::Plain(high)) => {
                let round = |amount: Amount| amount.value.is_multiple_of(10);
                joint != Joint::Space && low.value < high.value && round(low) && round(high)
            }
            _ => false,
        }
    }

    /// A range without a currency is one of prices when it is short, or when round amounts rise.
    fn are_prices(&self) -> bool {
        let prices: Vec<Amount> = self
            .figures
            .iter()
            .filter_map(|(_, figure)| match figure {
                Figure::Price(amount) => Some(*amount),
                _ => None,
            })
            .collect();
        let most = if self.money { MOST_DIGITS_OF_MONEY } else { MOST_DIGITS };
        let together: usize = prices.iter().map(|amount| amount.digits).sum();
        let rise = prices.is_sorted_by(|low, high| low.value < high.value);
        prices.iter().all(|amount| amount.digits <= most)
            && (self.money
                || together <= MOST_DIGITS
                || prices.len() < 2
                || (rise && prices.iter().all(|amount| amount.value.is_multiple_of(100))))
    }

    fn at(&self, at: Option<usize>) -> Option<(Joint, Figure)> {
        self.figures.get(at?).copied()
    }
}

/// Digits alone.
fn number(digits: &str) -> Option<u64> {
    let all = !digits.is_empty() && digits.bytes().all(|at| at.is_ascii_digit());
    all.then(|| digits.parse().ok()).flatten()
}

/// `1.250.000`: groups of three digits, the first without a leading nought.
fn grouped(amount: &str) -> Option<Amount> {
    let mut groups = amount.split('.');
    let first = groups.next().unwrap_or_default();
    let begins = (1..=3).contains(&first.len()) && !first.starts_with('0');
    let mut further = groups.peekable();
    let fits = begins && further.peek().is_some() && further.all(|group| group.len() == 3);
    let digits = fits.then(|| amount.replace('.', ""))?;
    Some(Amount { value: number(&digits)?, digits: digits.len() })
}

/// `2031-04-05`, of the centuries that a conversation can be about.
fn is_iso_date(word: &str) -> bool {
    let written = word.len() == 10 && word.bytes().filter(|at| *at == b'-').count() == 2;
    let date: Option<Date> = written.then(|| word.parse().ok()).flatten();
    date.is_some_and(|date| (1900..2200).contains(&date.year()))
}

/// `30/11`, `30/11/2031`, `30/11/31`, `2031/11/30`, the month before the day too.
fn slashed_date(word: &str) -> Option<Figure> {
    let parts: Vec<u64> = word
        .split('/')
        .map(|part| number(part).filter(|_| matches!(part.len(), 1 | 2 | 4)))
        .collect::<Option<_>>()?;
    let day = |first: u64, second: u64| {
        (1..=31).contains(&first.max(second)) && (1..=12).contains(&first.min(second))
    };
    let year = |year: u64| (20..50).contains(&year) || (1900..2200).contains(&year);
    match parts[..] {
        [first, second] if day(first, second) => Some(Figure::ShortDate),
        [first, second, last]
            if (day(first, second) && year(last)) || (first >= 1900 && year(first) && day(second, last)) =>
        {
            Some(Figure::Date)
        }
        _ => None,
    }
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
#[path = "figures_tests.rs"]
mod tests;
