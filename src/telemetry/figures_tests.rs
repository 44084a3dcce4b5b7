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
        "30/11/2026",
        "from 30/11/2026 18.30 on",
        "30/11/2026 10-14 h",
        "30/11 - 05/12, 30/11–5/12/2026",
        "10-14/12/2026",
        "11/30/2026 to 2026/12/05",
        "2 pupils. 2. 30/11/2026",
        "2031–04–05 – 2031–04–12",
        "open 10 - 14 / 16 - 20",
        "9.00–18.30, 9.00 - 13.00 / 16.00 - 20.00",
        "season 2026/2027, or 2026–2029",
        "950.000–1.250.000",
        "950.000/1.250.000",
        "1.250-1.500 USD",
        "$ 1.250.000–1.500.000",
        "4500–5000 USD, EUR 450/500, 310.00 – 450.00 usd",
        "450 / 615",
        "24/7, 10–14 h",
        "３０/１１/２０２６",
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
        "555.010-338.801",
        "555.010 - 338.801",
        "338.010–555.801",
        "338.000/222.000",
        "612/345/678",
        "0475/12.34.56",
        "02/123.45.67",
        "0475/123456",
        "04/12 10/11 12/05",
        "10-14 16-20",
        "10.20 - 11.30 - 12.40",
        "4500–5000",
        "4567-8899 USD",
        "30/11/2026 612 345 678",
        "612·345·678",
        "\u{202a}+54 9 11\u{202c} 5555\u{2011}1234",
        "+34–612–345–678",
        "612\u{ad}345\u{ad}678",
        "402\u{ad}2334",
        "6\u{200b}1\u{200b}2\u{200b}3\u{200b}4\u{200b}5\u{200b}6",
        "+1 (555) 010\u{2011}3388",
        "＋５４ ９ １１ ５５５５－１２３４",
        "（１１）２３４５　６７８９",
        "+\u{2066}54 9 11 5555 1234\u{2069}",
        "555\u{1}010\u{7f}3388",
    ] {
        let clean = scrub_with(text, &Marks::uniform("[removed]"));
        assert!(!clean.chars().any(char::is_numeric), "{text} became {clean}");
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

fn mark() -> impl Strategy<Value = &'static str> {
    prop::sample::select(
        &[" ", "-", ".", "/", "·", "‐", "‑", "–", "—", " – ", " / ", "\u{a0}", "\u{ad}", "－", "."][..],
    )
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

    /// NOTE-2, PII-3: no spelling of a phone number comes through, whatever its marks are and whatever stands around it.
    #[test]
    fn no_mark_carries_a_phone_through(
        groups in prop::collection::vec("[0-9]{2,4}", 3..5), marks in prop::collection::vec(mark(), 4),
        plus in "\\+?", hidden in "[\u{ad}\u{200b}\u{202a}\u{202c}\u{2060}]?", before in "[a-z]{0,6}", after in "[a-z]{0,6}",
    ) {
        let digits: usize = groups.iter().map(String::len).sum();
        // Pairs can be days and hours, and groups of three can be prices: those are the business of the tests above.
        prop_assume!(digits >= 9 && groups.iter().any(|group| group.len() == 4 && !group.starts_with(['1', '2'])));
        let mut number = plus;
        for (group, mark) in groups.iter().zip(&marks) {
            number += &format!("{group}{hidden}{mark}");
        }
        number.truncate(number.rfind(|sign: char| sign.is_ascii_digit()).map_or(0, |last| last + 1));
        let text = format!("{before} {number} {after}");
        let clean = scrub_text(&text);
        prop_assert!(!clean.bytes().any(|byte| byte.is_ascii_digit()), "{:?} became {}", text, clean);
    }

    /// LIM-10: dates, hours, spans of them and prices with any dash stay as they are.
    #[test]
    fn dates_hours_and_prices_stay_with_any_dash(
        dash in "[-‐‑–—]", wide in " ?", (day, month, year) in (1_u32..=28, 1_u32..=12, 2024_u32..2049),
        (from, hours) in (0_u32..12, 1_u32..12), (low, more) in (1_u32..900, 1_u32..99), currency in "(USD|EUR|pesos)",
    ) {
        let till = from + hours;
        for text in [
            format!("{day:02}/{month:02}/{year}"),
            format!("{day}/{month}/{year} {from}{dash}{till} h"),
            format!("{year}-{month:02}-{day:02} {dash} {year}-{month:02}-{day:02}"),
            format!("{day}/{month}{wide}{dash}{wide}{day}/{month}/{year}"),
            format!("{from}.30{wide}{dash}{wide}{till}.45"),
            format!("{low}.000{wide}{dash}{wide}{}.000", low + more),
            format!("{low}0{wide}{dash}{wide}{}0 {currency}", low + more),
            format!("{currency} {low}.500.000{wide}{dash}{wide}{}.000.000", low + more),
            format!("{low}.{:03} {currency}", more),
        ] {
            prop_assert_eq!(scrub_text(&text), text.as_str());
        }
    }
}
