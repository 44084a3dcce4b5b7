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
        ("not sent: the contact wrote more than 24 hours ago", "too late"),
        (
            "1 of 3 texts reached ManyChat; the rest: not sent: the contact wrote more than 24 hours ago",
            "too late",
        ),
        (
            "2 of 3 texts reached ManyChat; the rest: no answer from ManyChat to /fb: network",
            "no answer (network)",
        ),
        ("Ann (+49 170 1234567) said something", "other"),
        ("Ann said something", "other"),
    ] {
        assert_eq!(class_of(stored), class, "{stored}");
    }
}

/// GAP-DL-10: the count stands before the reason where something is out, and only there.
#[test]
fn a_reason_says_how_much_is_out() {
    let refused = "ManyChat refused /fb/sending/sendFlow with 400";
    assert_eq!(outbox::reason_of(0, 3, refused), refused);
    let partly = outbox::reason_of(2, 3, refused);
    assert!(partly.starts_with("2 of 3 texts reached ManyChat; "), "{partly}");
    assert_eq!(outbox::error_in(&partly), refused);
    assert_eq!(outbox::error_in(refused), refused);
}
