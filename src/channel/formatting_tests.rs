use proptest::prelude::*;

use super::*;

fn whatsapp(text: &str) -> String {
    convert(text, MarkStyle::Whatsapp)
}

fn plain(text: &str) -> String {
    convert(text, MarkStyle::Plain)
}

/// DEC-4: what may be passed over without parsing, and what may not.
#[test]
fn only_lines_of_words_are_passed_over() {
    for text in
        ["", "It is $310.00 - or two of $160.\n\nShall I book you in?", "Ärger = 1 > 0 #x", "www.a-b.c"]
    {
        assert!(holds_no_markup(text), "{text:?}");
    }
    for text in
        ["- one", "1. one", "a\n- b", "a\n  b", "# a", "> a", "a\n===", "a*b", "a_b", "a`b", "a~b", "a\\b"]
    {
        assert!(!holds_no_markup(text), "{text:?}");
    }
    for text in ["[a](b)", "a <b>", "a &lt; b", "a | b\n:- | -", "a\r- b", "a\tb", "a\n\u{a0}b"] {
        assert!(!holds_no_markup(text), "{text:?}");
    }
}

/// Source, on WhatsApp, on a plain channel.
type Case = (&'static str, &'static str, &'static str);

fn check(cases: &[Case]) {
    for (source, marked, unmarked) in cases {
        assert_eq!(whatsapp(source), *marked, "WhatsApp, from {source:?}");
        assert_eq!(plain(source), *unmarked, "plain, from {source:?}");
    }
}

const NOT_MARKUP: &[&str] = &[
    "",
    " ",
    "Hello!",
    "2 * 3 * 4",
    "2*3*4 = 24",
    "2**3**4",
    "2**\"3\"**4",
    "f(**a, **b)",
    "https://a.example/**b:**c",
    "3*4=12 and 5*6=30",
    "snake_case_name and other_snake_case",
    "~80 %",
    "between ~5 and ~9 units, ~ 3",
    "10~20~30",
    "~one~",
    "*",
    "a lone * here",
    "price* (*incl. tax)",
    "4* hotel, 5* hotel",
    "Rating: *****",
    "*****",
    "**",
    "#",
    "#1 in town, #promo",
    "👩‍👩‍👧 🇪🇸 👍🏽 ❤️",
    "שלום, המחיר 450 ש״ח",
    "مرحبا ١٢٣",
    "https://example.org/a_b_c?x=_y_&z=*w*#k~",
    "https://example.org/_a_/b and www.example.org/__init__/x",
    "see https://example.org/*x*/y.",
    "line one\nline two\n\nline four",
    "line one\r\nline two\r\n",
    "\n\n leading and trailing \n",
    "I <3 you, a < b > c, 5 > 3",
    "<b>kept</b> <br> <unknown tag>",
    "AT&T, R&amp;B, &lt;tag&gt; &copy; &#42;",
    "50% off & more",
    "a \\ b, C:\\dir",
    "[not a link] [1] (see below)",
    "[ ] todo [x] done",
    "[text] (https://example.org)",
    "!important",
    "a | b | c",
    "1 - 2 - 3",
    "- one\n- two",
    "+ 20 %\n+ tax",
    "1. one\n2. two\n10. ten",
    "3) three\n4) four",
    "2026. It was a good year",
    "-",
    "> quoted\n> text",
    "=====",
    "a = b == c",
    "---",
    "Q: what?\nA: this.",
    "tab\tseparated",
    "`",
    "a ` b",
    "$5, €6, 450.00 USD (+21 %)",
    "[Note]: parking",
    "\u{200f}rtl mark\u{200e}",
    "_",
    "__",
    "snake_ case _ x",
    "@user_name_ and user_name@example.org",
    "Two  spaces   inside",
    "Soft  \nbreak with two spaces",
    "it's 5'4\" -- \"quoted\" ...",
    "    indented line",
    "{{first_name}} {a_b_c}",
    "¿Sí? ¡No! ñandú",
    "价格：四百五十元。＊星号＊",
    "a^b^c x^2^",
    "H~2~O",
];

/// DEC-4: what is not markup survives byte for byte on every channel.
#[test]
fn text_that_is_not_markup_is_unchanged() {
    for text in NOT_MARKUP {
        assert_eq!(whatsapp(text), *text, "WhatsApp");
        assert_eq!(plain(text), *text, "plain");
    }
}

const EMPHASIS_GETS_THE_MARKS_OF_THE_CHANNEL: &[Case] = &[
    ("**x**", "*x*", "x"),
    ("__x__", "*x*", "x"),
    ("*x*", "_x_", "x"),
    ("_x_", "_x_", "x"),
    ("~~x~~", "~x~", "x"),
    ("***x***", "*_x_*", "x"),
    ("**_x_**", "*_x_*", "x"),
    ("_**x**_", "*_x_*", "x"),
    ("___x___", "*_x_*", "x"),
    ("***a** b*", "_*a* b_", "a b"),
    ("**a *b* c**", "*a _b_ c*", "a b c"),
    ("**~~x~~**", "*~x~*", "x"),
    ("**a** **b**", "*a* *b*", "a b"),
    ("**Price:** 450", "*Price:* 450", "Price: 450"),
    ("(**x**)", "(*x*)", "(x)"),
    ("**a\nb**", "*a*\n*b*", "a\nb"),
    ("> **a\n> b**", "> *a*\n> *b*", "> a\n> b"),
    ("**2 \\* 3**", "*2 * 3*", "2 * 3"),
    ("**R&amp;B**", "*R&amp;B*", "R&amp;B"),
    ("**`x`**", "*`x`*", "x"),
    ("**重要**です", "*重要*です", "重要です"),
    ("**👍🏽 ok**", "*👍🏽 ok*", "👍🏽 ok"),
    ("**Ready?**", "*Ready?*", "Ready?"),
    ("**Precio:**450 y **\"oferta\"**hoy", "*Precio:*450 y *\"oferta\"*hoy", "Precio:450 y \"oferta\"hoy"),
    ("价格**（含税）**是", "价格*（含税）*是", "价格（含税）是"),
    ("**unclosed", "**unclosed", "**unclosed"),
    ("un*frigging*believable", "un*frigging*believable", "un*frigging*believable"),
    (
        "**Price:** 2 * 3 * 4 for snake_case_name, ~80 %",
        "*Price:* 2 * 3 * 4 for snake_case_name, ~80 %",
        "Price: 2 * 3 * 4 for snake_case_name, ~80 %",
    ),
];

/// DEC-4: bold, italic, strike and their combinations.
#[test]
fn emphasis_gets_the_marks_of_the_channel() {
    check(EMPHASIS_GETS_THE_MARKS_OF_THE_CHANNEL);
}

const HEADINGS_BECOME_BOLD_LINES: &[Case] = &[
    ("# Title", "*Title*", "Title"),
    ("### Title ###\n\nText", "*Title*\n\nText", "Title\n\nText"),
    ("## A **b** c\nText", "*A b c*\nText", "A b c\nText"),
    ("## A *b*", "*A _b_*", "A b"),
    ("Title\n=====\nText", "*Title*\nText", "Title\nText"),
    ("Two\nlines\n---", "*Two*\n*lines*", "Two\nlines"),
    ("Title\r\n---\r\nText", "*Title*\r\nText", "Title\r\nText"),
    ("> # Quoted", "> *Quoted*", "> Quoted"),
    ("- # In a list", "- *In a list*", "- In a list"),
    ("# [Book](https://a.example)", "*Book*: https://a.example", "Book: https://a.example"),
    ("a\n\n***\n\nb\n\n* * *", "a\n\n---\n\nb\n\n---", "a\n\n---\n\nb\n\n---"),
];

/// DEC-4, DEC-35: headings of both kinds become bold lines.
#[test]
fn headings_become_bold_lines() {
    check(HEADINGS_BECOME_BOLD_LINES);
}

const LINKS_BECOME_TEXT_AND_ADDRESS: &[Case] = &[
    ("[Join](https://a.example/a_b_c)", "Join: https://a.example/a_b_c", "Join: https://a.example/a_b_c"),
    ("[https://a.example](https://a.example)", "https://a.example", "https://a.example"),
    ("<https://a.example/x_y_z>", "https://a.example/x_y_z", "https://a.example/x_y_z"),
    ("<me@a.example>", "me@a.example", "me@a.example"),
    ("[me@a.example](mailto:me@a.example)", "me@a.example", "me@a.example"),
    ("[Call](tel:+15550107788)", "Call: +15550107788", "Call: +15550107788"),
    ("[](https://a.example)", "https://a.example", "https://a.example"),
    ("[Join](https://a.example \"title\") now", "Join: https://a.example now", "Join: https://a.example now"),
    (
        "[Join](https://a.example/?a=1&amp;b=2)",
        "Join: https://a.example/?a=1&b=2",
        "Join: https://a.example/?a=1&b=2",
    ),
    ("![Map](https://a.example/m.png)", "Map: https://a.example/m.png", "Map: https://a.example/m.png"),
    ("![](https://a.example/m.png)", "https://a.example/m.png", "https://a.example/m.png"),
    ("**[Join](https://a.example)**", "*Join*: https://a.example", "Join: https://a.example"),
    ("[**Join**](https://a.example)", "*Join*: https://a.example", "Join: https://a.example"),
    ("**see https://a.example/x now**", "*see* https://a.example/x *now*", "see https://a.example/x now"),
    ("_https://a.example/a_b_", "https://a.example/a_b", "https://a.example/a_b"),
    ("https://a.example/a\\_b", "https://a.example/a_b", "https://a.example/a_b"),
    ("[Join][x]\n\n[x]: https://a.example\n", "Join: https://a.example\n\n", "Join: https://a.example\n\n"),
    ("[t]()", "t", "t"),
];

/// DEC-4, DEC-35: links and images; no mark touches an address.
#[test]
fn links_become_text_and_address() {
    check(LINKS_BECOME_TEXT_AND_ADDRESS);
}

const LISTS_KEEP_A_DASH_OR_THEIR_NUMBER: &[Case] = &[
    ("* one\n* two", "- one\n- two", "- one\n- two"),
    ("*   wide", "-   wide", "-   wide"),
    ("* a\n    * b\n        * c", "- a\n  - b\n    - c", "- a\n  - b\n    - c"),
    ("1. a\n   - b\n2. c", "1. a\n  - b\n2. c", "1. a\n  - b\n2. c"),
    ("1. a\n   1. b", "1. a\n  1. b", "1. a\n  1. b"),
    ("- a\n\t- b", "- a\n  - b", "- a\n  - b"),
    ("* **Yoga**: 450\n* *Tai chi*", "- *Yoga*: 450\n- _Tai chi_", "- Yoga: 450\n- Tai chi"),
    ("* a\n\n  more\n* b", "- a\n\n  more\n- b", "- a\n\n  more\n- b"),
    ("1. a\n    - b:\n      c", "1. a\n  - b:\n    c", "1. a\n  - b:\n    c"),
    ("* a\nlazy", "- a\nlazy", "- a\nlazy"),
    ("- [ ] todo\n- [x] done", "- [ ] todo\n- [x] done", "- [ ] todo\n- [x] done"),
    ("5. five\n6. six", "5. five\n6. six", "5. five\n6. six"),
];

/// DEC-35: bullets, numbers, nesting.
#[test]
fn lists_keep_a_dash_or_their_number() {
    check(LISTS_KEEP_A_DASH_OR_THEIR_NUMBER);
}

const TABLES_BECOME_LINES: &[Case] = &[
    (
        "| Course | Price |\n|---|--:|\n| Yoga | **450** |\n| A \\| B | |\n\nafter",
        "Course | Price\nYoga | *450*\nA | B\n\nafter",
        "Course | Price\nYoga | 450\nA | B\n\nafter",
    ),
    ("a | b\n--- | ---\n1 | 2", "a | b\n1 | 2", "a | b\n1 | 2"),
    ("a | b\n--- | ---\n1 | 2 | 3", "a | b\n1 | 2 | 3", "a | b\n1 | 2 | 3"),
    ("| a | b | c |\n|-|-|-|\n| 1 | | 3 |", "a | b | c\n1 |  | 3", "a | b | c\n1 |  | 3"),
    ("| a | b |\n|---|---|\n", "a | b\n", "a | b\n"),
    ("> | a | b |\n> |---|---|\n> | 1 | 2 |", "> a | b\n> 1 | 2", "> a | b\n> 1 | 2"),
];

/// DEC-35: tables become lines, nothing in them is lost.
#[test]
fn tables_become_lines() {
    check(TABLES_BECOME_LINES);
}

const CODE_IS_KEPT: &[Case] = &[
    ("run `a_b *c*` now", "run `a_b *c*` now", "run a_b *c* now"),
    ("``a`b``", "``a`b``", "a`b"),
    ("```\n**x** _y_\n```", "```\n**x** _y_\n```", "**x** _y_"),
    ("before\n```json\n{}\n```\nafter", "before\n```\n{}\n```\nafter", "before\n{}\nafter"),
    ("~~~\ncode\n~~~", "```\ncode\n```", "code"),
    ("```Here is the list:\nx\n```", "```Here is the list:\nx\n```", "Here is the list:\nx"),
    ("```Price\n450\n```", "```Price\n450\n```", "Price\n450"),
    ("~~~TEXT\nx", "```\nx", "x"),
    ("```\nunclosed", "```\nunclosed", "unclosed"),
    ("```one line```", "```one line```", "one line"),
];

/// DEC-4: code is kept; a plain channel loses its marks only.
#[test]
fn code_is_kept() {
    check(CODE_IS_KEPT);
}

const ESCAPES_LOSE_THEIR_BACKSLASH: &[Case] = &[
    ("\\*not italic\\*", "*not italic*", "*not italic*"),
    ("1\\. one", "1. one", "1. one"),
    ("snake\\_case", "snake_case", "snake_case"),
    ("a\\\nb", "a\nb", "a\nb"),
    ("\\\\server", "\\server", "\\server"),
    ("\\[x\\](y)", "[x](y)", "[x](y)"),
];

/// DEC-4: escapes lose the backslash, as every reader of Markdown expects.
#[test]
fn escapes_lose_their_backslash() {
    check(ESCAPES_LOSE_THEIR_BACKSLASH);
}

/// The channel's marks are characters to a second conversion of nothing else: lists and lines stay stable.
#[test]
fn a_long_reply_keeps_its_shape() {
    let source = "## Courses\n\n1. **Yoga** (450.00 USD)\n   * evenings\n   * weekends\n2. *Tai chi*\n\nMore: [site](https://a.example)\n\nShall I save you a place?";
    let expected = "*Courses*\n\n1. *Yoga* (450.00 USD)\n  - evenings\n  - weekends\n2. _Tai chi_\n\nMore: site: https://a.example\n\nShall I save you a place?";
    assert_eq!(whatsapp(source), expected);
}

fn letters(text: &str) -> String {
    text.chars().filter(|ch| ch.is_alphanumeric()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// DEC-4: text without a character that Markdown knows is unchanged.
    #[test]
    fn plain_text_is_unchanged(text in "[a-zA-Z0-9áñ€👍🏽שم ,;:?/@%&'\"$()]{0,80}(\n[a-zA-Z][a-zA-Z0-9 ,.!?]{0,40}){0,4}") {
        prop_assume!(!text.lines().any(|line| line.starts_with("    ")) || !text.contains('*'));
        prop_assert_eq!(whatsapp(&text), text.clone());
        prop_assert_eq!(plain(&text), text);
    }

    /// DEC-4: what is passed over as holding no markup is what the parser would leave as it is.
    #[test]
    fn text_that_is_passed_over_holds_no_markup(
        text in "([a-zA-Zéñ](\\PC|[a-z0-9 #>+=:.!(){}^$'\"-]){0,12}[ ]{0,3}\n{0,2}(www\\.a-b |https://a-b\\.c/d |[a-z] {1,5})?){0,5}"
    ) {
        if holds_no_markup(&text) {
            prop_assert_eq!(convert_markup(&text, MarkStyle::Whatsapp), text.clone());
            prop_assert_eq!(convert_markup(&text, MarkStyle::Plain), text);
        }
    }

    /// ARC-62: no input panics, and letters and digits come out in order, whatever the markup around them.
    #[test]
    fn nothing_but_marks_is_lost(text in "([a-z0-9]{1,4}|[*_~`#>|\\-+=!\\\\.) \n]{1,3}|👍|é){0,40}") {
        let expected = letters(&text);
        prop_assert_eq!(letters(&whatsapp(&text)), expected.clone(), "from {:?}", text);
        prop_assert_eq!(letters(&plain(&text)), expected, "from {:?}", text);
    }

    /// ARC-62: no input at all panics.
    #[test]
    fn no_input_panics(text in "([\\PC\n\r\t]|[*_~`#>|\\[\\]()<!&:/-]{1,4}|https://a\\.b/_c_|www\\.|<br>|&amp;|\\|-\\|){0,60}") {
        whatsapp(&text);
        plain(&text);
    }

    /// DEC-4: a marked word among plain words gets exactly the channel's mark.
    #[test]
    fn a_bold_word_is_marked_once(before in "[a-z]{1,8}", word in "[a-z]{1,8}( [a-z]{1,8})?", after in "[a-z]{1,8}") {
        let source = format!("{before} **{word}** {after}");
        prop_assert_eq!(whatsapp(&source), format!("{before} *{word}* {after}"));
        prop_assert_eq!(plain(&source), format!("{before} {word} {after}"));
    }
}
