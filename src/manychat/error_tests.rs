//! What each failure means.

use super::*;
use crate::store::outbox;
use crate::store::outbox_operator::class_of;

fn api(status: u16) -> ManyChatError {
    ManyChatError::Api {
        endpoint: Endpoint::SendFlow,
        status,
        code: Some(3011),
        said: Said::plainly("Too late"),
        retry_after: Some(Duration::from_secs(7)),
    }
}

fn lost(reason: LostBy, sent: bool) -> ManyChatError {
    ManyChatError::Connection { endpoint: Endpoint::AddTag, reason, sent }
}

/// API-10, API-42 to API-47, DEL-6, AC-DL-5: what may be tried again, and what may have been done.
#[test]
fn each_failure_has_its_class() {
    let response = ManyChatError::Response {
        endpoint: Endpoint::SetField,
        status: 200,
        problem: "the body is not JSON",
    };
    let cases = [
        (ManyChatError::NoToken, Class::Retryable, false),
        (api(429), Class::Retryable, false),
        (api(500), Class::Retryable, true),
        (api(503), Class::Retryable, true),
        (api(200), Class::Final, false),
        (api(302), Class::Final, false),
        (api(400), Class::Final, false),
        (api(401), Class::Final, false),
        (response, Class::Final, true),
        (lost(LostBy::Timeout, true), Class::Retryable, true),
        (lost(LostBy::Timeout, false), Class::Retryable, false),
        (lost(LostBy::Network, false), Class::Retryable, false),
        (lost(LostBy::Aborted, true), Class::Final, true),
        (ManyChatError::NotStarted { reason: Unstarted::HeartbeatTooOld }, Class::Retryable, false),
    ];
    for (error, class, acted) in cases {
        assert_eq!((error.class(), error.may_have_acted()), (class, acted), "{error}");
    }
}

/// API-49, API-50, TOK-24: the parts that may be logged, and the text.
#[test]
fn an_error_shows_its_parts() {
    let error = api(429);
    assert_eq!((error.name(), error.status(), error.code()), ("api_error", Some(429), Some(3011)));
    assert_eq!(error.endpoint(), Some("/fb/sending/sendFlow"));
    assert_eq!((error.reason(), error.retry_after()), (None, Some(Duration::from_secs(7))));
    assert_eq!(error.to_string(), "ManyChat refused /fb/sending/sendFlow with 429: Too late");
    let error = lost(LostBy::Timeout, true);
    assert_eq!((error.name(), error.status(), error.reason()), ("connection_error", None, Some("timeout")));
    assert_eq!(error.to_string(), "no answer from ManyChat to /fb/subscriber/addTagByName: timeout");
    assert!(ManyChatError::NoToken.to_string().contains("MANYCHAT_API_TOKEN is not set"), "API-10");
}

/// BOX-18, API-48: a failure that says nothing about the request is tried again, also one that nobody has named: a status
/// beyond the known ones, or a call that we did not even start.
#[test]
fn a_failure_that_nobody_knows_is_tried_again() {
    for status in [500, 505, 520, 529, 599, 600, 999] {
        assert_eq!(api(status).class(), Class::Retryable, "{status}");
    }
    for reason in [
        Unstarted::HeartbeatTooOld,
        Unstarted::QueueFull,
        Unstarted::NotWanted,
        Unstarted::Paused,
        Unstarted::OutOfTime,
        Unstarted::Stopped,
    ] {
        let error = ManyChatError::NotStarted { reason };
        assert_eq!((error.class(), error.may_have_acted()), (Class::Retryable, false), "{error}");
    }
}

/// GAP-DL-10: an operator reads the class of every kind of error, by the words that a delivery has stored of it. What was not
/// sent at all for a reason of ours has none: its row waits, or its text names the setting.
#[test]
fn an_operator_reads_the_class_of_every_error() {
    let answered = ManyChatError::Response {
        endpoint: Endpoint::SetField,
        status: 200,
        problem: "the body is not JSON",
    };
    let not_started = |reason| ManyChatError::NotStarted { reason };
    for (error, class) in [
        (ManyChatError::NoToken, "no API token"),
        (ManyChatError::Unusable { problem: "the proxy" }, "other"),
        (api(400), "refused 400"),
        (answered, "unexpected answer 200"),
        (lost(LostBy::Timeout, true), "no answer (timeout)"),
        (lost(LostBy::Aborted, true), "no answer (aborted)"),
        (lost(LostBy::Network, false), "no answer (network)"),
        (not_started(Unstarted::HeartbeatTooOld), "other"),
        (not_started(Unstarted::QueueFull), "other"),
        (not_started(Unstarted::NotWanted), "other"),
        (not_started(Unstarted::Paused), "other"),
        (not_started(Unstarted::OutOfTime), "other"),
        (not_started(Unstarted::Stopped), "other"),
    ] {
        let stored = [error.to_string(), outbox::reason_of(1, 3, &error.to_string())];
        for stored in stored {
            assert_eq!(class_of(&stored), class, "{stored}");
        }
    }
}

/// API-49, GAP-DL-10: stored rows are read by these very words.
#[test]
fn an_error_keeps_its_words() {
    let words = |error: ManyChatError| error.to_string();
    assert_eq!(
        words(lost(LostBy::Network, false)),
        "no answer from ManyChat to /fb/subscriber/addTagByName: network"
    );
    assert_eq!(
        words(lost(LostBy::Aborted, false)),
        "no answer from ManyChat to /fb/subscriber/addTagByName: aborted"
    );
    assert_eq!(
        words(ManyChatError::NoToken),
        "MANYCHAT_API_TOKEN is not set: set it so that the service can reach contacts"
    );
    let answered = ManyChatError::Response {
        endpoint: Endpoint::SetField,
        status: 200,
        problem: "the body is not JSON",
    };
    let paused = ManyChatError::NotStarted { reason: Unstarted::Paused };
    assert_eq!(
        words(paused),
        "the call to ManyChat was not started: ManyChat wants fewer calls for longer than this one can wait"
    );
    let text = "ManyChat answered /fb/subscriber/setCustomFieldByName with 200, but the body is not JSON";
    assert_eq!(words(answered), text);
}
