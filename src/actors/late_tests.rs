use super::*;
use crate::config::demo;
use crate::domain::MessageId;

fn waits(process: ProcessId, digest: Option<&str>, text: &str) -> WaitingMessage {
    WaitingMessage {
        id: MessageId::fresh(),
        process,
        text: ContactText::new(text),
        media: None,
        token_digest: digest.map(|digest| Redacted::new(digest.to_owned())),
        offering: None,
        received_at: Timestamp::UNIX_EPOCH,
    }
}

fn texts(burst: &[WaitingMessage]) -> Vec<&str> {
    burst.iter().map(|one| one.text.expose()).collect()
}

/// ARC-45a, DEC-23: a burst ends at another process, another proof, a file, and the scripted opening.
#[test]
fn a_burst_ends_where_its_process_would_have_ended_it() {
    let snapshot = Snapshot::new(demo::tenant().unwrap());
    let (one, two) = (ProcessId::fresh(), ProcessId::fresh());
    let of = |waiting: Vec<WaitingMessage>| first_burst(waiting, &snapshot);
    let opening = snapshot.tenant.rules.opening_trigger.as_ref().unwrap().keywords[0].clone();
    let all =
        vec![waits(one, None, "a"), waits(one, None, "b"), waits(two, None, "c"), waits(one, None, "d")];
    assert_eq!(texts(&of(all)), ["a", "b"]);
    assert_eq!(texts(&of(vec![waits(one, Some("x"), "a"), waits(one, Some("y"), "b")])), ["a"]);
    assert_eq!(texts(&of(vec![waits(one, None, "a"), waits(one, None, &opening)])), ["a"]);
    assert_eq!(texts(&of(vec![waits(one, None, &opening), waits(one, None, "a")])), [opening.as_str()]);
    let file = WaitingMessage { media: Some(MediaKind::Audio), ..waits(one, None, "[voice note]") };
    assert_eq!(texts(&of(vec![file.clone(), waits(one, None, "a")])), ["[voice note]"]);
    assert_eq!(texts(&of(vec![waits(one, None, "a"), file])), ["a"]);
    assert!(of(Vec::new()).is_empty());
}

/// DEC-5: with bursts switched off every message is a turn of its own.
#[test]
fn without_bursts_every_message_runs_alone() {
    let mut tenant = demo::tenant().unwrap();
    tenant.rules.burst.answer_together = false;
    let one = ProcessId::fresh();
    let burst = first_burst(vec![waits(one, None, "a"), waits(one, None, "b")], &Snapshot::new(tenant));
    assert_eq!(texts(&burst), ["a"]);
}

/// ARC-46, QUIET-3: nothing is sent to a contact who wrote more than 24 hours ago.
#[test]
fn a_day_is_the_limit_of_reach() {
    let now: Timestamp = "2026-03-02T12:00:00Z".parse().unwrap();
    assert!(!is_out_of_reach("2026-03-01T12:00:00Z".parse().unwrap(), now));
    assert!(is_out_of_reach("2026-03-01T11:59:59Z".parse().unwrap(), now));
}
