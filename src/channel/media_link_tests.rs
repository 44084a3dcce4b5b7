use proptest::prelude::*;

use super::*;

const LINK: &str =
    "https://manybot-files.s3.eu-central-1.amazonaws.com/1048/wa/2026/11/30/original_0aF9c3.ogg";

fn with_extension(extension: &str) -> String {
    LINK.replace("ogg", extension)
}

/// MEDIA-102, MEDIA-105, CHM-1, CHM-2
#[test]
fn the_whole_trimmed_text_is_a_media_link_of_the_extensions_kind() {
    let kinds = [
        ("ogg", MediaKind::Audio),
        ("jpeg", MediaKind::Image),
        ("jpg", MediaKind::Image),
        ("PNG", MediaKind::Image),
        ("mp4", MediaKind::Video),
        ("3gp", MediaKind::Video),
        ("pdf", MediaKind::Unsupported),
        ("webp", MediaKind::Unsupported),
    ];
    for (extension, kind) in kinds {
        let link = with_extension(extension);
        for text in [link.clone(), format!(" \u{FEFF}\n{link}\t ")] {
            let expected = MediaLink::Media(Media { kind, url: Redacted::new(link.clone()) });
            assert_eq!(recognise(&text), expected, "{extension}");
        }
    }
}

/// MEDIA-103: ASCII case is ignored everywhere, other letters and digits are not folded.
#[test]
fn only_ascii_case_is_folded() {
    assert!(matches!(recognise(&LINK.to_uppercase()), MediaLink::Media(_)));
    for text in [
        LINK.replace("files", "file\u{17F}"),
        LINK.replace("1048", "١٠٤٨"),
        LINK.replace("/wa/", "/\u{FF57}a/"),
    ] {
        assert!(!matches!(recognise(&text), MediaLink::Media(_)), "{text}");
    }
}

/// MEDIA-104, MEDIA-106: near misses stay plain text.
#[test]
fn near_misses_are_typed_text() {
    let changes = [
        ("https://", "http://"),
        ("manybot-files", "other-files"),
        ("eu-central-1", "us-east-1"),
        (".com/", ".com:443/"),
        ("https://", "https://user@"),
        ("/1048/", "/10a8/"),
        ("/1048/", "//"),
        ("/wa/", "/ig/"),
        ("/2026/", "/202/"),
        ("/11/", "/1/"),
        ("/30/", "/300/"),
        ("original_", ""),
        ("original_0aF9c3", "original_"),
        ("original_0aF9c3", "original_xyz"),
        (".ogg", ""),
        (".ogg", "."),
        (".ogg", ".ogg?x=1"),
        (".ogg", ".ogg#x"),
        (".ogg", ".ogg/"),
        (".ogg", ".o-g"),
        (".ogg", ".tar.gz"),
        (".ogg", ".ogg look"),
        ("https://", "see https://"),
    ];
    for (from, to) in changes {
        let text = LINK.replacen(from, to, 1);
        assert!(!matches!(recognise(&text), MediaLink::Media(_)), "{text}");
    }
}

/// MEDIA-107, MEDIA-108, MEDIA-110, CHM-3
#[test]
fn an_unknown_form_on_the_media_host_tells_its_shape() {
    let host = MEDIA_HOST;
    let cases = [
        (
            format!("https://{host}/1048/x/2026/11/30/f_0123456789abcdef.ogg"),
            "/<n>/x/<n>/<n>/<n>/f_<hex>.ogg",
        ),
        (format!("http://{host}/77/wa/2026/11/30/nothing_abc.bin"), "/<n>/wa/<n>/<n>/<n>/nothing_abc.bin"),
        (format!("look: HTTPS://{host}/a?secret=1#part there"), "/<w>"),
        (format!("https://x.example/ and https://{host}/123456789012345/z"), "/<n>/<w>"),
        (format!("https://{host}:8443/12ab"), "/<n><w>"),
        (
            format!("https://{host}/1/wa/2026/my-name-is-Noor/call%20me.ogg"),
            "/<n>/wa/<n>/<w>-<w>-<w>-<w>/<w><n><w>.ogg",
        ),
        (
            format!("https://{host}/1/wa/2026/11/30/original_0123456789abcdef/noor.mp4"),
            "/<n>/wa/<n>/<n>/<n>/original_<hex>/<w>.mp<n>",
        ),
        (format!("{LINK}?x=1"), "/<n>/wa/<n>/<n>/<n>/original_<n>aF<n>c<n>.ogg"),
    ];
    for (text, shape) in cases {
        assert_eq!(recognise(&text), MediaLink::Unmatched { shape: shape.to_owned() }, "{text}");
    }
    let long = format!("https://{host}/{}", "p/".repeat(200));
    assert!(matches!(recognise(&long), MediaLink::Unmatched { shape } if shape.chars().count() == 120));
}

/// MEDIA-109: a look-alike raises no alarm.
#[test]
fn look_alikes_raise_no_alarm() {
    let host = MEDIA_HOST;
    let texts = [
        format!("https://{host}.example.com/1/wa/x"),
        format!("https://example.com/{host}/1"),
        format!("https://example.com/?next=https://{host}/1"),
        format!("{host}/1/wa/2026"),
        format!("ftp://{host}/1"),
        "https://".to_owned(),
        "just words".to_owned(),
        String::new(),
    ];
    for text in texts {
        assert_eq!(recognise(&text), MediaLink::None, "{text}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// MEDIA-110, LOG-9: words that a contact typed into a link on the media host are in no shape of it.
    #[test]
    fn a_shape_shows_no_word(words in proptest::collection::vec("[a-z]{4,9}|é[a-z]{5}|日本語文", 1..6), joint in "[/_.-]|%20") {
        let text = format!("see https://{MEDIA_HOST}/{}", words.join(&joint));
        let MediaLink::Unmatched { shape } = recognise(&text) else { panic!("{text}") };
        for word in words.iter().filter(|word| !KNOWN_WORDS.contains(&word.as_str())) {
            prop_assert!(!shape.contains(word.as_str()), "{} in {}", word, shape);
        }
        prop_assert!(!shape.contains("%C3") && !shape.contains("%E6"), "{}", shape);
    }

    /// MEDIA-110: no shape holds a digit run, a long hash or the host, and nothing panics.
    #[test]
    fn a_shape_shows_no_number(path in "[a-z0-9/_.é%-]{0,200}") {
        let text = format!("https://{MEDIA_HOST}/{path}");
        if let MediaLink::Unmatched { shape } = recognise(&text) {
            prop_assert!(!shape.bytes().any(|byte| byte.is_ascii_digit()) , "{}", shape);
            prop_assert!(shape.chars().count() <= 120 && !shape.contains("manybot"));
        }
    }
}
