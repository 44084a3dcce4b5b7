use proptest::prelude::*;

use super::*;

/// PII-5: the documented examples.
#[test]
fn the_documented_examples() {
    assert_eq!(scrub_text("write to li.wei+art@example.org"), "write to [email]");
    assert_eq!(scrub_text("ID 40223344"), "ID [number]");
    assert_eq!(scrub_text("24 hours over 4 weeks"), "24 hours over 4 weeks");
    assert_eq!(scrub_text(""), "");
    for phone in
        ["+54 9 11 5555 0188", "011 4567 8899", "(11) 2345 6789", "+1 555 010 3388", "555.010.3388.1"]
    {
        let clean = scrub_text(phone).into_owned();
        assert!(!clean.bytes().any(|byte| byte.is_ascii_digit()), "{phone} became {clean}");
    }
}

/// PII-6: prices and short numbers survive.
#[test]
fn prices_and_short_numbers_survive() {
    for text in [
        "450.00 USD",
        "$1,250.00",
        "10-14 h",
        "6 weeks, 2 x 90 min",
        "call 112",
        "404",
        "v1.2.3",
        "a@b",
        "web",
    ] {
        assert_eq!(scrub_text(text), text);
    }
}

/// PII-2, MEDIA-711: links to contacts' files in every region, case and form.
#[test]
fn media_links_go_first() {
    let tails = ["/1048/wa/2026/11/30/original_ab.ogg", "", ":443/x?y=z#w", "/a%20b"];
    let hosts = [
        "https://manybot-files.s3.eu-central-1.amazonaws.com",
        "http://MANYBOT-FILES.S3.amazonaws.com",
        "HTTPS://manybot-files.s3-us_west.2.amazonaws.com",
    ];
    for host in hosts {
        for tail in tails {
            let text = format!("got <{host}{tail}> and \"{host}{tail}\" x");
            assert_eq!(scrub_text(&text), "got <[media-url]> and \"[media-url]\" x");
            assert_eq!(scrub_media_links(&text), "got <[media-url]> and \"[media-url]\" x");
        }
    }
    assert_eq!(scrub_media_links("https://example.org/x"), "https://example.org/x");
}

/// PII-3, PII-4: links before addresses before phones.
#[test]
fn links_addresses_and_numbers_in_this_order() {
    let cases = [
        ("see http://a.example/?m=li@a.example&p=+15550103388 now", "see [url] now"),
        ("WWW.Studio.example/a,b", "[url]"),
        ("(https://a.example)", "([url]"),
        ("it's 'https://a.example' \\https://b.example", "it's '[url]' \\[url]"),
        ("john.5550103388@a.example", "[email]"),
        ("josé@exämple.org", "[email]"),
        ("mia＠studio.example", "[email]"),
        ("mia@studio．example", "[email]"),
        ("mia\u{200b}@studio\u{ad}.example", "[email]"),
        ("www．studio.example/a", "[url]"),
        ("+1 (555) 010\u{2011}3388", "[phone]"),
        ("call +1 (555) 010-3388!", "call [phone]!"),
        ("+1 555 010 3388", "[phone]"),
        ("n\u{b0} 1234567.", "n\u{b0} [number]."),
        ("اتصل ٠١٢٣٤٥٦٧٨٩", "اتصل [phone]"),
        ("123456", "123456"),
        ("ab1234567", "ab1234567"),
        ("xwww.a.example", "xwww.a.example"),
    ];
    for (text, expected) in cases {
        assert_eq!(scrub_text(text), expected, "{text}");
    }
}

/// PII-7, NOTE-2, NOTE-4: notes use the same shapes with their own mark.
#[test]
fn notes_use_the_same_shapes() {
    let note = "Ring +1 555 010 3388, or mia@studio.example, or www.studio.example/a";
    assert_eq!(scrub_with(note, &Marks::uniform("[removed]")), "Ring [removed], or [removed], or [removed]");
}

/// PII-1: keys that are removed, however they are written.
#[test]
fn removed_keys_are_known_in_every_spelling() {
    let removed = [
        "authorization",
        "Authorization",
        "cookie",
        "x-api-key",
        "X-API-KEY",
        "text",
        "first_name",
        "last_name",
        "ai_token",
        "set-cookie",
        "apiKey",
        "apiToken",
        "secret",
        "password",
        "ANTHROPIC_API_KEY",
        "OPENAI_API_KEY",
        "GOOGLE_GENERATIVE_AI_API_KEY",
        "MANYCHAT_SHARED_SECRET",
        "MANYCHAT_API_TOKEN",
        "DATABASE_URL",
        "subscriber_id",
        "subscriberId",
    ];
    for key in removed {
        assert!(is_removed_key(key), "{key}");
    }
    for key in ["conversation", "outcome", "tokens", "texts", "detail", "err", "transcript", "tool", ""] {
        assert!(!is_removed_key(key), "{key}");
    }
}

/// A shape that does not compile would blank every suspicious text.
#[test]
fn the_shapes_compile() {
    assert!(Shapes::compile().is_ok());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// PII-3, ARC-62: whatever surrounds them, planted phones, addresses and links do not survive.
    #[test]
    fn planted_shapes_never_survive(
        before in "[a-zA-Z ,.:;éñ日]{0,20}",
        after in "[a-zA-Z ,.:;éñ日]{0,20}",
        phone in "\\+[1-9]{1,2}[ .-]\\(?[0-9]{2,3}\\)?[ .-][0-9]{3,4}[ -]?[0-9]{3,4}",
        user in "[a-z]{3,8}[0-9]{0,3}", domain in "[a-z]{3,8}",
        path in "[a-z]{6,12}",
    ) {
        let email = format!("{user}@{domain}.example");
        let link = format!("https://{domain}.example/{path}q?tel={}", phone.replace(' ', ""));
        let text = format!("{before} {phone} {after} {email} {before} {link} {after}");
        let clean = scrub_text(&text);
        prop_assert!(!clean.contains(&phone) && !clean.contains(&email), "{}", clean);
        prop_assert!(!clean.contains(&format!("/{path}q")) && !clean.contains(".example/"), "{}", clean);
        prop_assert!(!clean.bytes().any(|byte| byte.is_ascii_digit()), "{}", clean);
    }

    /// No input panics, and nothing grows by more than its marks.
    #[test]
    fn any_input_is_answered(text in "([\\PC]|[0-9+() .-]{1,12}|@|https://|www\\.){0,40}") {
        let clean = scrub_text(&text);
        prop_assert!(clean.len() <= 8 * text.len());
    }
}
