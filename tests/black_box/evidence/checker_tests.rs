//! The checker reports each fault it is there for, and nothing on a sound run.

use super::super::journal::subscriber;
use super::*;

const ESCALATION: &str = "A person will write.";

fn marker(number: u32) -> Marker {
    Marker { contact: 1, number }
}

fn asked(number: u32) -> What {
    What::Asked { marker: marker(number), life: "a1".to_owned() }
}

fn answered(number: u32, texts: &[&str]) -> What {
    let texts = texts.iter().map(|text| (*text).to_owned()).collect();
    What::Answered { marker: marker(number), life: "a1".to_owned(), texts }
}

fn played(life: &str, text: &str, known: bool) -> What {
    What::Played { life: life.to_owned(), contact: 1, text: text.to_owned(), known }
}

fn struck(life: &str) -> What {
    What::Struck { life: life.to_owned() }
}

fn row(number: u32) -> UserRow {
    let id = Uuid::from_u128(u128::from(number));
    UserRow { id, marker: marker(number), seq: number.cast_signed(), burst: number.to_string() }
}

fn judged(story: Vec<What>, accepted: &[u32], handoffs: &[u32]) -> Report {
    let at = Instant::now();
    let entries: Vec<Entry> = story
        .into_iter()
        .enumerate()
        .map(|(place, what)| Entry { at: at + Duration::from_millis(10 * place as u64), what })
        .collect();
    let tables = Tables {
        users: accepted.iter().map(|number| row(*number)).collect(),
        handoffs: handoffs.iter().map(|number| (subscriber(1), Some(row(*number).id))).collect(),
        entries: Vec::new(),
    };
    let facts = Facts {
        escalation: ESCALATION.to_owned(),
        lease: Duration::from_secs(1),
        window: Duration::from_secs(3),
        probes: BTreeSet::from([marker(9)]),
        outage: false,
        slow: None,
    };
    check(&entries, &tables, &facts)
}

fn kinds(report: &Report) -> Vec<Kind> {
    report.faults.iter().map(|fault| fault.kind).collect()
}

#[test]
fn a_sound_run_has_no_faults() {
    let story = vec![
        asked(1),
        answered(1, &["to q1x1"]),
        asked(2),
        answered(2, &[]),
        played("a1", "to q1x2", true),
        asked(3),
        played("a1", ESCALATION, true),
        asked(4),
        answered(4, &[ESCALATION]),
        asked(9),
        answered(9, &["to q1x9"]),
    ];
    let report = judged(story, &[1, 2, 3, 9], &[3]);
    assert!(report.is_sound(), "{report}");
    assert_eq!((report.accepted, report.answered, report.handed_off), (5, 3, 2));
}

#[test]
fn a_message_without_reply_and_handoff_is_lost() {
    assert_eq!(kinds(&judged(vec![asked(1)], &[1], &[])), [Kind::Lost]);
    assert_eq!(kinds(&judged(vec![asked(1), answered(1, &[])], &[], &[])), [Kind::Lost]);
    assert!(judged(vec![asked(1)], &[], &[]).is_sound(), "never accepted");
}

#[test]
fn half_a_handoff_is_a_fault() {
    assert_eq!(kinds(&judged(vec![asked(1)], &[1], &[1])), [Kind::HalfHandoff]);
    let told = vec![asked(1), answered(1, &[ESCALATION])];
    assert_eq!(kinds(&judged(told, &[1], &[])), [Kind::HalfHandoff]);
    let both = vec![asked(1), answered(1, &["to q1x1"]), played("b1", ESCALATION, true)];
    assert_eq!(kinds(&judged(both, &[1], &[1])), [Kind::Both]);
}

#[test]
fn duplicates_are_allowed_for_two_reasons_only() {
    let twice = |between: What| {
        judged(vec![asked(1), answered(1, &["to q1x1"]), between, played("b1", "to q1x1", true)], &[1], &[])
    };
    let allowed = twice(struck("a1"));
    assert!(allowed.is_sound() && allowed.inline_unconfirmed == 1, "{allowed}");
    assert_eq!(kinds(&twice(struck("b1"))), [Kind::Doubled]);
    let delivered = |known: bool, between: What| {
        let first = played("a1", "to q1x1", known);
        judged(vec![asked(1), first, between, played("b1", "to q1x1", true)], &[1], &[])
    };
    assert_eq!(delivered(false, struck("c1")).acceptance_unrecorded, 1);
    assert!(delivered(true, struck("a1")).is_sound());
    assert_eq!(kinds(&delivered(true, struck("c1"))), [Kind::Doubled]);
    let handoffs = vec![asked(1), played("a1", ESCALATION, true), played("b1", ESCALATION, true)];
    assert_eq!(kinds(&judged(handoffs, &[1], &[1])), [Kind::Doubled]);
}

#[test]
fn replies_out_of_order_are_seen() {
    let story =
        vec![asked(1), answered(1, &[]), asked(2), answered(2, &["to q1x2"]), played("a1", "to q1x1", true)];
    assert_eq!(kinds(&judged(story, &[2, 1], &[])), [Kind::Disorder], "by what the client knew");
    let story = vec![asked(1), asked(2), answered(2, &["to q1x2"]), answered(1, &["to q1x1"])];
    assert_eq!(kinds(&judged(story.clone(), &[1, 2], &[])), [Kind::Disorder], "by acceptance");
    let together = vec![asked(1), asked(2), answered(2, &["to q1x2 q1x1"])];
    assert_eq!(kinds(&judged(together, &[1, 2], &[])), [Kind::Disorder], "inside one text");
}

/// A handoff's text has its place among the replies, in a response and from ManyChat.
#[test]
fn handoffs_out_of_order_are_seen() {
    let inline = vec![asked(1), asked(2), answered(2, &[ESCALATION]), answered(1, &["to q1x1"])];
    assert_eq!(kinds(&judged(inline, &[1, 2], &[2])), [Kind::Disorder]);
    let delivered = |first: What, second: What| vec![asked(1), asked(2), first, second];
    let (copy, reply) = (|| played("a1", ESCALATION, true), |text| played("a1", text, true));
    assert_eq!(kinds(&judged(delivered(reply("to q1x2"), copy()), &[1, 2], &[1])), [Kind::Disorder]);
    assert_eq!(kinds(&judged(delivered(copy(), reply("to q1x2")), &[1, 2], &[1])), []);
    assert_eq!(kinds(&judged(delivered(copy(), reply("to q1x1")), &[1, 2], &[2])), [Kind::Disorder]);
}

/// Told of a person, then answered, with nothing recorded.
#[test]
fn a_correction_is_a_fault() {
    let story = vec![asked(1), answered(1, &[ESCALATION]), played("b1", "to q1x1", true)];
    let report = judged(story, &[1], &[]);
    assert_eq!((kinds(&report), report.corrected), (vec![Kind::Corrected], 1));
}

/// A model that finds no message to answer makes the verdict worthless.
#[test]
fn a_blind_model_is_a_fault() {
    assert_eq!(kinds(&judged(vec![What::Thought { markers: Vec::new() }], &[], &[])), [Kind::Blind]);
}

#[test]
fn a_contact_who_is_not_heard_is_silenced() {
    assert_eq!(kinds(&judged(vec![asked(9)], &[], &[])), [Kind::Silenced]);
    let mut late = vec![asked(9)];
    late.resize(150, asked(8));
    late.push(answered(9, &["to q1x9"]));
    assert_eq!(kinds(&judged(late, &[9], &[])), [Kind::Silenced]);
}

fn judged_acts(acts: &[(&str, bool)], entries: &[(&str, &str)]) -> Vec<Kind> {
    let at = Instant::now();
    let entry = |(name, known): &(&str, bool)| {
        let (life, name) = ("a1".to_owned(), (*name).to_owned());
        Entry { at, what: What::Acted { life, contact: 1, name, known: *known } }
    };
    let story: Vec<Entry> = acts.iter().map(entry).collect();
    let entry = |(id, status): &(&str, &str)| (subscriber(1), (*id).to_owned(), (*status).to_owned());
    let tables = Tables { entries: entries.iter().map(entry).collect(), ..Tables::default() };
    let facts = Facts {
        escalation: ESCALATION.to_owned(),
        lease: Duration::from_secs(1),
        window: Duration::from_secs(3),
        probes: BTreeSet::new(),
        outage: false,
        slow: None,
    };
    kinds(&check(&story, &tables, &facts))
}

/// ARC-41: an action twice, one that the record does not have or has falsely, one that is still to come.
#[test]
fn actions_are_judged_by_what_manychat_saw() {
    assert_eq!(judged_acts(&[("f1", true), ("t1", false)], &[("f1", "performed"), ("t1", "failed")]), []);
    assert_eq!(judged_acts(&[], &[("t1", "discarded"), ("t2", "failed")]), []);
    assert_eq!(judged_acts(&[("f1", false), ("f1", true)], &[("f1", "performed")]), [Kind::Repeated]);
    assert_eq!(judged_acts(&[("f1", true)], &[]), [Kind::FalseRecord]);
    assert_eq!(judged_acts(&[("f1", true)], &[("f1", "discarded")]), [Kind::FalseRecord]);
    assert_eq!(judged_acts(&[("f1", false)], &[("f1", "performed")]), [Kind::FalseRecord]);
    assert_eq!(judged_acts(&[], &[("t1", "staged")]), [Kind::FalseRecord]);
}
