use super::*;
use crate::config::demo;
use crate::domain::MessageId;
use crate::store::second_run::RecordedMessage;
use crate::turn::steps::tests::opened;

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

/// ARC-46: a turn is run a second time, never a third; whoever wrote last too long ago is told nothing, whatever else holds.
#[test]
fn a_turn_that_killed_two_processes_ends_with_a_person() {
    let now: Timestamp = "2026-03-02T12:00:00Z".parse().unwrap();
    let long_ago: Timestamp = "2026-02-27T12:00:00Z".parse().unwrap();
    let message = RecordedMessage { id: MessageId::fresh(), text: ContactText::new("a"), media: None };
    let run = |messages: &[RecordedMessage], again, last_message_at| SecondRun {
        opened: opened(),
        subscriber: SubscriberId::stored("7301144"),
        channel: "whatsapp".to_owned(),
        messages: messages.to_vec(),
        received_at: long_ago,
        last_message_at,
        again,
        dead: ProcessId::fresh(),
    };
    let one = std::slice::from_ref(&message);
    for (run, course) in [
        (run(one, false, now), Course::Answer),
        (run(one, true, now), Course::HandOff),
        (run(&[], false, now), Course::HandOff),
        (run(one, false, long_ago), Course::OutOfReach),
        (run(one, true, long_ago), Course::OutOfReach),
    ] {
        assert_eq!(course_of_second_run(&run, now), course, "{run:?}");
    }
}

/// DEC-30: one message can have been sent again, a burst or no message cannot.
#[test]
fn a_single_message_may_have_been_sent_again() {
    let opened = opened();
    let one = ProcessId::fresh();
    let burst = [waits(one, None, "a"), waits(one, None, "b")];
    let texts = |count| repeatable_of_burst(&burst[..count], &opened).map(|first| first.text.expose());
    assert_eq!([0, 1, 2].map(texts), [None, Some("a"), None]);
}
