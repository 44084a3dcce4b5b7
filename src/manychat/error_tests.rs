//! What each failure means.

use super::*;

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
    for reason in [Unstarted::HeartbeatTooOld, Unstarted::QueueFull, Unstarted::NotWanted, Unstarted::Stopped]
    {
        let error = ManyChatError::NotStarted { reason };
        assert_eq!((error.class(), error.may_have_acted()), (Class::Retryable, false), "{error}");
    }
}
