use proptest::prelude::*;

use super::*;

fn units(text: &str) -> usize {
    text.encode_utf16().count()
}

fn visible(texts: &[String]) -> String {
    texts.concat().split_whitespace().collect()
}

/// GAP-CH-11: a text that fits is left alone.
#[test]
fn a_text_that_fits_is_unchanged() {
    let text = "a".repeat(LONGEST_TEXT);
    assert_eq!(split_long(&text).concat(), text);
    assert_eq!(split_long(&text).len(), 1);
    assert_eq!(split_long(" padded \n"), [" padded \n"]);
    assert_eq!(split_long(""), Vec::<String>::new());
    let emoji = "😀".repeat(LONGEST_TEXT / 2);
    assert_eq!(split_long(&emoji).len(), 1);
    assert_eq!(split_long(&format!("{emoji}a")).len(), 2);
}

/// GAP-CH-11: paragraph before line before sentence before word.
#[test]
fn the_best_border_is_used() {
    assert_eq!(split_at("one two\n\nthree. four five", 20), ["one two", "three. four five"]);
    assert_eq!(split_at("one two\nthree. four five", 20), ["one two", "three. four five"]);
    assert_eq!(split_at("one two. three four five", 20), ["one two.", "three four five"]);
    assert_eq!(split_at("one two three four five", 20), ["one two three four", "five"]);
    assert_eq!(split_at("一二三。四五六七八九十", 8), ["一二三。", "四五六七八九十"]);
    // A border in the first quarter would leave a stub.
    assert_eq!(split_at("a\n\nbbbb cccc dddd eeee ffff", 20), ["a\n\nbbbb cccc dddd", "eeee ffff"]);
    assert_eq!(split_at("abcdefghij klmno", 10), ["abcdefghij", "klmno"]);
}

/// GAP-CH-11: what a reader sees as one character stays whole.
#[test]
fn no_character_is_torn_apart() {
    let family = "👩‍👩‍👧‍👦";
    for (text, limit, first) in [
        (format!("aaaa{family}"), 10, "aaaa".to_owned()),
        ("aaaaaaa👍🏽bb".to_owned(), 10, "aaaaaaa".to_owned()),
        (format!("{}b", "🇪🇸".repeat(3)), 10, "🇪🇸🇪🇸".to_owned()),
        ("aaaaaaaaae\u{301}".to_owned(), 10, "aaaaaaaaa".to_owned()),
        ("aaaaaaaaa😀".to_owned(), 10, "aaaaaaaaa".to_owned()),
    ] {
        assert_eq!(split_at(&text, limit).first(), Some(&first), "{text}");
    }
}

/// CHC-3, GAP-CH-11: WhatsApp gets one text inline, the rest follows.
#[test]
fn a_plan_keeps_what_fits_inline() {
    let short = ["One.".to_owned(), "Two.".to_owned(), "Three.".to_owned()];
    let plan = plan_inline(&short, ChannelName::Whatsapp);
    assert_eq!(plan, InlinePlan { inline: vec!["One.\n\nTwo.\n\nThree.".to_owned()], rest: vec![] });
    assert_eq!(plan_inline(&short, ChannelName::Telegram).inline, short);
    assert_eq!(plan_inline(&[], ChannelName::Whatsapp), InlinePlan { inline: vec![], rest: vec![] });

    let long = ["a".repeat(3000), "b".repeat(3000), "c".repeat(3000)];
    let plan = plan_inline(&long, ChannelName::Whatsapp);
    assert_eq!(plan.inline, ["a".repeat(3000)]);
    assert_eq!(plan.rest, ["b".repeat(3000), "c".repeat(3000)]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// ARC-62, GAP-CH-11: no piece is too long or empty, and every visible character is kept, in order.
    #[test]
    fn splitting_keeps_every_visible_character(
        text in "([a-z]{1,12}|[.!?]|[ \n]{1,3}|👩‍👧|e\u{301}|🇪🇸|漢){0,60}",
        limit in 12_usize..60,
    ) {
        let pieces = split_at(&text, limit);
        for piece in &pieces {
            prop_assert!(units(piece) <= limit && !piece.is_empty());
        }
        prop_assert_eq!(visible(&pieces), visible(&[text]));
    }

    /// The bound of the channel itself, with texts around it.
    #[test]
    fn no_piece_exceeds_the_channels_bound(word in "[a-zé😀]{1,40}", times in 200_usize..700) {
        let text = format!("{word} ").repeat(times);
        let pieces = split_long(&text);
        prop_assert!(pieces.iter().all(|piece| units(piece) <= LONGEST_TEXT));
        prop_assert_eq!(visible(&pieces), visible(&[text]));
    }
}
