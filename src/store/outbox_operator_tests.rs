use super::*;

/// GAP-DL-10, BOX-15: a class, never the words.
#[test]
fn an_error_is_shown_as_its_class() {
    for (stored, class) in [
        ("ManyChat refused /fb/sending/sendFlow with 400: Contact Ann has left", "refused 400"),
        (
            "ManyChat answered /fb/sending/sendFlow with 200, but the body is not JSON",
            "unexpected answer 200",
        ),
        ("no answer from ManyChat to /fb/sending/sendFlow: timeout", "no answer (timeout)"),
        ("MANYCHAT_API_TOKEN is not set: set it so that", "no API token"),
        ("contact token write failed: 503", "token write failed 503"),
        ("contact token write failed", "token write failed"),
        ("Ann (+49 170 1234567) said something", "other"),
        ("Ann said something", "other"),
    ] {
        assert_eq!(class_of(stored), class, "{stored}");
    }
}
