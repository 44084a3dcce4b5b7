use super::*;

fn arrived(number: u64) -> Event {
    Event::Arrived { ticket: Ticket::new(number), burst: None, answered: false, quiet: false, stored: false }
}

fn in_burst(number: u64) -> Event {
    Event::Arrived {
        ticket: Ticket::new(number),
        burst: Some(BurstKey::new(7)),
        answered: false,
        quiet: false,
        stored: false,
    }
}

fn tell(number: u64, telling: Telling) -> Effect {
    Effect::Tell(Ticket::new(number), telling)
}

fn open(numbers: &[u64]) -> Effect {
    Effect::Open(numbers.iter().copied().map(Ticket::new).collect())
}

fn store(number: u64) -> Effect {
    Effect::Store(Ticket::new(number))
}

fn decide(number: u64) -> Effect {
    Effect::Decide(Ticket::new(number))
}

fn settle(number: u64, race: Race) -> Effect {
    Effect::Settle(Ticket::new(number), race)
}

fn resolve(number: u64, told: bool) -> Effect {
    Effect::Resolve { turn: Ticket::new(number), told }
}

/// The turn that begins with this message runs, with all of its messages.
fn started(number: u64) -> Event {
    Event::Opened(Ticket::new(number), OpenResult::Started { taken: 100, beside: false })
}

fn started_beside(number: u64) -> Event {
    Event::Opened(Ticket::new(number), OpenResult::Started { taken: 1, beside: true })
}

fn waits(number: u64, gone: &[u64]) -> Event {
    let gone = gone.iter().copied().map(Ticket::new).collect();
    Event::Opened(Ticket::new(number), OpenResult::Waits { gone })
}

fn kept(number: u64) -> Event {
    Event::Stored(Ticket::new(number), StoreResult::Kept)
}

fn decided(number: u64) -> Event {
    Event::Decided(Ticket::new(number), Playing::No)
}

fn settled(number: u64, result: SettleResult) -> Event {
    Event::Settled(Ticket::new(number), result)
}

/// RACE-4
#[test]
fn a_turn_that_wins_answers_inline() {
    let mut machine = Machine::default();
    assert_eq!(machine.on(arrived(1)), [open(&[1])]);
    assert_eq!(machine.on(started(1)), [decide(1)]);
    assert_eq!(machine.on(decided(1)), [settle(1, Race::Won)]);
    assert_eq!(machine.on(settled(1, SettleResult::Inline)), [tell(1, Telling::Reply)]);
    assert!(machine.is_idle());
}

/// RACE-5, RACE-6: the deadline answers with the holding line and the reply goes through the outbox.
#[test]
fn a_turn_that_loses_is_answered_with_the_holding_line_and_deferred() {
    let mut machine = Machine::default();
    let _ = machine.on(arrived(1));
    let _ = machine.on(started(1));
    assert_eq!(machine.on(Event::DeadlinePassed(Ticket::new(1))), [tell(1, Telling::HoldingLine)]);
    assert_eq!(machine.on(decided(1)), [settle(1, Race::Lost)]);
    let queued = machine.on(settled(1, SettleResult::Queued));
    assert_eq!(queued, [Effect::ConfirmQueued(Ticket::new(1))]);
}

/// ARC-46: a deadline that passes during Settle queues the settled reply.
#[test]
fn a_deadline_during_the_settling_queues_the_reply() {
    let mut machine = Machine::default();
    let _ = machine.on(arrived(1));
    let _ = machine.on(started(1));
    assert_eq!(machine.on(decided(1)), [settle(1, Race::Won)]);
    assert_eq!(machine.on(Event::DeadlinePassed(Ticket::new(1))), [tell(1, Telling::HoldingLine)]);
    assert_eq!(machine.on(settled(1, SettleResult::Inline)), [Effect::QueueReply(Ticket::new(1))]);
}

/// LANE-1, LANE-2, ARC-45a: the second message is written down, and waits until the first has settled.
#[test]
fn a_second_message_waits_its_turn_in_the_inbox() {
    let mut machine = Machine::default();
    let _ = machine.on(arrived(1));
    assert_eq!(machine.on(arrived(2)), [], "it must not get ahead of the message that is being opened");
    assert_eq!(machine.on(started(1)), [decide(1), store(2)]);
    assert_eq!(machine.on(kept(2)), []);
    let _ = machine.on(decided(1));
    let settled = machine.on(settled(1, SettleResult::Inline));
    assert_eq!(settled, [tell(1, Telling::Reply), open(&[2])]);
}

/// ARC-45a: rows are written one after the other, in order of arrival, and what is being written is waited for.
#[test]
fn messages_are_written_to_the_inbox_in_order() {
    let mut machine = Machine::default();
    let _ = machine.on(arrived(1));
    let _ = machine.on(started(1));
    assert_eq!(machine.on(arrived(2)), [store(2)]);
    assert_eq!(machine.on(arrived(3)), [], "one at a time");
    let _ = machine.on(decided(1));
    let settled = machine.on(settled(1, SettleResult::Inline));
    assert_eq!(settled, [tell(1, Telling::Reply)], "the next message is just being written");
    assert_eq!(machine.on(kept(2)), [open(&[2])]);
    assert_eq!(machine.on(started(2)), [decide(2), store(3)]);
}

/// ARC-31, LANE-9: a message that could not be written ends with a person, and the turn before it goes on.
#[test]
fn a_message_that_cannot_be_kept_ends_with_a_person() {
    for answered in [false, true] {
        let mut machine = Machine::default();
        let _ = machine.on(arrived(1));
        let _ = machine.on(started(1));
        let _ = machine.on(arrived(2));
        if answered {
            let _ = machine.on(Event::DeadlinePassed(Ticket::new(2)));
        }
        let failed = machine.on(Event::Stored(Ticket::new(2), StoreResult::Failed));
        let wanted = [tell(2, Telling::Handoff), resolve(2, true)];
        assert_eq!(failed, if answered { vec![resolve(2, false)] } else { wanted.to_vec() });
        let _ = machine.on(decided(1));
        assert_eq!(machine.on(settled(1, SettleResult::Inline)), [tell(1, Telling::Reply)]);
        assert!(machine.is_idle());
    }
}

/// LANE-3: what proves nothing runs beside the contact's turn: it does not wait, and the next message does not wait for
/// it.
#[test]
fn an_unbound_message_neither_waits_nor_is_waited_for() {
    let mut machine = Machine::default();
    let _ = machine.on(arrived(1));
    let _ = machine.on(started(1));
    assert_eq!(machine.on(arrived(2)), [store(2)]);
    assert_eq!(machine.on(Event::Stored(Ticket::new(2), StoreResult::Beside)), [open(&[2])]);
    assert_eq!(machine.on(started_beside(2)), [decide(2)]);
    let _ = machine.on(decided(2));
    assert_eq!(machine.on(settled(2, SettleResult::Inline)), [tell(2, Telling::Reply)]);
    assert_eq!(machine.phase(), Phase::Deciding, "the bound turn still runs");
    // The other way round: it came first.
    let mut machine = Machine::default();
    let _ = machine.on(arrived(1));
    assert_eq!(machine.on(arrived(2)), []);
    assert_eq!(machine.on(started_beside(1)), [decide(1), open(&[2])]);
    assert_eq!(machine.on(Event::DeadlinePassed(Ticket::new(1))), [tell(1, Telling::HoldingLine)]);
    assert_eq!(machine.on(started(2)), [decide(2)]);
    let _ = machine.on(decided(1));
    let queued = machine.on(settled(1, SettleResult::Queued));
    assert_eq!(queued, [Effect::ConfirmQueued(Ticket::new(1))]);
}

/// LANE-4: a message that still waits at its deadline is answered silently and runs late.
#[test]
fn a_waiting_message_is_answered_silently_at_its_deadline_and_runs_late() {
    let mut machine = Machine::default();
    let _ = machine.on(arrived(1));
    let _ = machine.on(started(1));
    let _ = machine.on(arrived(2));
    let _ = machine.on(kept(2));
    assert_eq!(machine.on(Event::DeadlinePassed(Ticket::new(2))), [tell(2, Telling::Silent)]);
    let _ = machine.on(decided(1));
    let _ = machine.on(settled(1, SettleResult::Inline));
    assert_eq!(machine.on(started(2)), [decide(2)]);
    assert_eq!(machine.on(decided(2)), [settle(2, Race::Lost)]);
}

/// Messages 1 to `last` are there, 1 runs and the others stand in the inbox; 2 to 4 are of one burst.
fn with_waiting(last: u64) -> Machine {
    let mut machine = Machine::default();
    let _ = machine.on(arrived(1));
    let _ = machine.on(started(1));
    for number in 2..=last {
        let _ = machine.on(if number <= 4 { in_burst(number) } else { arrived(number) });
        let _ = machine.on(kept(number));
    }
    let _ = machine.on(decided(1));
    machine
}

/// DEC-5: waiting messages of one burst are one turn; the last request gets the reply, the others silence.
#[test]
fn a_burst_is_answered_together() {
    let mut machine = with_waiting(5);
    let first = machine.on(settled(1, SettleResult::Inline));
    assert_eq!(first, [tell(1, Telling::Reply), open(&[2, 3, 4])]);
    assert_eq!(machine.on(started(2)), [tell(2, Telling::Silent), tell(3, Telling::Silent), decide(2)]);
    let _ = machine.on(decided(2));
    let burst = machine.on(settled(2, SettleResult::Inline));
    assert_eq!(burst, [tell(4, Telling::Reply), open(&[5])]);
}

/// ARC-45a: another process's message stands between those of a burst: the turn ends before it, and the rest waits.
#[test]
fn a_burst_ends_where_another_process_is_next() {
    let mut machine = with_waiting(4);
    let _ = machine.on(settled(1, SettleResult::Inline));
    let part = Event::Opened(Ticket::new(2), OpenResult::Started { taken: 2, beside: false });
    assert_eq!(machine.on(part), [tell(2, Telling::Silent), decide(2)]);
    let _ = machine.on(decided(2));
    assert_eq!(machine.on(settled(2, SettleResult::Inline)), [tell(3, Telling::Reply), open(&[4])]);
    assert_eq!(machine.on(waits(4, &[])), [Effect::WaitForLane]);
    assert_eq!(machine.on(Event::LaneTimerFired), [open(&[4])]);
}

fn quiet(number: u64) -> Event {
    Event::Arrived {
        ticket: Ticket::new(number),
        burst: Some(BurstKey::new(7)),
        answered: false,
        quiet: true,
        stored: false,
    }
}

/// DEC-5: with a quiet time the turn waits for another message, from each message anew, and gathers what comes.
#[test]
fn a_burst_is_gathered_until_it_is_quiet() {
    let mut machine = Machine::default();
    assert_eq!(machine.on(quiet(1)), [Effect::WaitForQuiet(Ticket::new(1))]);
    assert_eq!(machine.phase(), Phase::Gathering);
    assert_eq!(machine.on(quiet(2)), [Effect::WaitForQuiet(Ticket::new(1))]);
    assert_eq!(machine.on(Event::QuietOver), [open(&[1, 2])]);
    assert_eq!(machine.on(Event::QuietOver), [], "a timer that fires twice");
}

/// DEC-23: a message that belongs to no burst ends the gathering.
#[test]
fn another_kind_of_message_ends_the_gathering() {
    let mut machine = Machine::default();
    let _ = machine.on(quiet(1));
    assert_eq!(machine.on(arrived(2)), [open(&[1])]);
}

/// ARC-31, ARC-22, DEC-20: a failure is told as a handoff, resolved, and the next message goes on.
#[test]
fn a_failure_is_told_as_a_handoff_and_the_next_message_runs() {
    let one = Ticket::new(1);
    let failures =
        [Event::Opened(one, OpenResult::Failed), settled(1, SettleResult::Failed), Event::Panicked(one)];
    for failure in failures {
        let mut machine = Machine::default();
        let _ = machine.on(arrived(1));
        let _ = machine.on(arrived(2));
        assert_eq!(machine.on(failure), [tell(1, Telling::Handoff), resolve(1, true), open(&[2])]);
    }
}

/// LANE-9: a failure of a turn whose request is answered leaves the handoff to be sent.
#[test]
fn a_late_failure_leaves_the_handoff_to_be_sent() {
    let mut machine = Machine::default();
    let _ = machine.on(arrived(1));
    let _ = machine.on(started(1));
    let _ = machine.on(Event::DeadlinePassed(Ticket::new(1)));
    assert_eq!(machine.on(Event::Panicked(Ticket::new(1))), [resolve(1, false)]);
}

/// ARC-45, PROC-4: a lane that another process holds is asked for again, with what has joined the burst meanwhile; no
/// turn is ever started beside it.
#[test]
fn a_held_lane_is_waited_for() {
    let mut machine = Machine::default();
    let _ = machine.on(in_burst(1));
    assert_eq!(machine.on(waits(1, &[])), [Effect::WaitForLane]);
    assert_eq!(machine.phase(), Phase::WaitingForLane);
    assert_eq!(machine.on(Event::DeadlinePassed(Ticket::new(1))), [tell(1, Telling::Silent)]);
    assert_eq!(machine.on(in_burst(2)), [store(2)]);
    assert_eq!(machine.on(kept(2)), []);
    assert_eq!(machine.on(Event::LaneTimerFired), [open(&[1, 2])]);
    assert_eq!(machine.on(Event::LaneTimerFired), [], "a second timer finds nothing to do");
}

/// ARC-45a, ARC-44: a message that another process has taken over is answered silently here and forgotten.
#[test]
fn a_message_that_was_taken_over_is_let_go() {
    let mut machine = Machine::default();
    let _ = machine.on(in_burst(1));
    let _ = machine.on(waits(1, &[]));
    let _ = machine.on(in_burst(2));
    let _ = machine.on(kept(2));
    assert_eq!(machine.on(Event::LaneTimerFired), [open(&[1, 2])]);
    let forgotten = Effect::Forget(Ticket::new(1));
    assert_eq!(machine.on(waits(1, &[1])), [tell(1, Telling::Silent), forgotten, Effect::WaitForLane]);
    assert_eq!(machine.on(Event::LaneTimerFired), [open(&[2])]);
    assert_eq!(machine.on(waits(2, &[2])), [tell(2, Telling::Silent), Effect::Forget(Ticket::new(2))]);
    assert!(machine.is_idle());
}

/// ARC-45, ARC-40: a superseded turn is answered silently, and ended unless another process runs it; one that a silence
/// of the process has cost it belongs to others.
#[test]
fn a_superseded_turn_is_silent() {
    for (result, left) in [
        (SettleResult::Superseded, vec![tell(1, Telling::Silent), resolve(1, false)]),
        (SettleResult::Dropped, vec![tell(1, Telling::Silent)]),
    ] {
        let mut machine = Machine::default();
        let _ = machine.on(arrived(1));
        let _ = machine.on(started(1));
        let _ = machine.on(decided(1));
        assert_eq!(machine.on(settled(1, result)), left);
    }
}

/// ARC-20: what a failed actor leaves to its successor is not written a second time.
#[test]
fn a_successor_goes_on_with_what_stands_in_the_inbox() {
    let mut machine = Machine::default();
    let _ = machine.on(arrived(1));
    let _ = machine.on(started(1));
    let left =
        Event::Arrived { ticket: Ticket::new(2), burst: None, answered: true, quiet: false, stored: true };
    assert_eq!(machine.on(left), []);
    let _ = machine.on(decided(1));
    assert_eq!(machine.on(settled(1, SettleResult::Queued))[2..], [open(&[2])]);
}

#[path = "machine_random_tests.rs"]
mod random;

fn decided_playing(number: u64, playing: Playing) -> Event {
    Event::Decided(Ticket::new(number), playing)
}

fn flow_over(number: u64) -> Event {
    Event::FlowOver(Ticket::new(number))
}

/// WAIT-2, WAIT-3, RACE-10: a reply whose flow ends before the deadline is recorded, held, and then answers inline; the
/// contact's next message waits until it has.
#[test]
fn a_reply_waits_for_the_flow_before_it() {
    let mut machine = Machine::default();
    let _ = machine.on(arrived(1));
    let _ = machine.on(started(1));
    assert_eq!(machine.on(decided_playing(1, Playing::UntilDeadline)), [settle(1, Race::Won)]);
    assert_eq!(machine.on(settled(1, SettleResult::Inline)), [Effect::Hold(Ticket::new(1))]);
    assert_eq!((machine.phase(), machine.is_idle()), (Phase::Holding, false));
    assert_eq!(machine.on(arrived(2)), [store(2)]);
    assert_eq!(machine.on(kept(2)), []);
    assert_eq!(machine.on(flow_over(1)), [tell(1, Telling::Reply), open(&[2])]);
    assert_eq!(machine.on(flow_over(1)), [], "once");
}

/// WAIT-2: the deadline cuts the wait off; the reply goes out all the same, and once.
#[test]
fn a_held_reply_goes_out_at_the_deadline() {
    let mut machine = Machine::default();
    let _ = machine.on(arrived(1));
    let _ = machine.on(started(1));
    let _ = machine.on(decided_playing(1, Playing::UntilDeadline));
    let _ = machine.on(settled(1, SettleResult::Inline));
    assert_eq!(machine.on(Event::DeadlinePassed(Ticket::new(1))), [tell(1, Telling::Reply)]);
    assert_eq!(machine.on(flow_over(1)), []);
    assert!(machine.is_idle());
}

/// WAIT-2, AC-CH-16: a flow that plays past the deadline silences the response; the reply stands in the outbox.
#[test]
fn a_flow_beyond_the_deadline_silences_the_response() {
    let mut machine = Machine::default();
    let _ = machine.on(arrived(1));
    let _ = machine.on(started(1));
    assert_eq!(machine.on(decided_playing(1, Playing::Longer)), [settle(1, Race::WonBehindFlow)]);
    let queued = machine.on(settled(1, SettleResult::Queued));
    assert_eq!(queued, [tell(1, Telling::Silent), Effect::ConfirmQueued(Ticket::new(1))]);
}

/// WAIT-5: a lost race is lost whatever plays, and a reply that is queued behind another is not held twice.
#[test]
fn a_flow_changes_nothing_for_a_reply_that_goes_through_the_outbox() {
    for playing in [Playing::UntilDeadline, Playing::Longer] {
        let mut machine = Machine::default();
        let _ = machine.on(arrived(1));
        let _ = machine.on(started(1));
        let _ = machine.on(Event::DeadlinePassed(Ticket::new(1)));
        assert_eq!(machine.on(decided_playing(1, playing)), [settle(1, Race::Lost)]);
        assert_eq!(machine.on(settled(1, SettleResult::Queued)), [Effect::ConfirmQueued(Ticket::new(1))]);
    }
    let mut machine = Machine::default();
    let _ = machine.on(arrived(1));
    let _ = machine.on(started(1));
    let _ = machine.on(decided_playing(1, Playing::UntilDeadline));
    let _ = machine.on(Event::DeadlinePassed(Ticket::new(1)));
    assert_eq!(machine.on(settled(1, SettleResult::Inline)), [Effect::QueueReply(Ticket::new(1))]);
}
