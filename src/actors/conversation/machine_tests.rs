use std::collections::HashMap;

use proptest::prelude::*;

use super::*;

fn arrived(number: u64) -> Event {
    Event::Arrived { ticket: Ticket::new(number), burst: None, answered: false, quiet: false }
}

fn in_burst(number: u64) -> Event {
    Event::Arrived {
        ticket: Ticket::new(number),
        burst: Some(BurstKey::new(7)),
        answered: false,
        quiet: false,
    }
}

fn tell(number: u64, telling: Telling) -> Effect {
    Effect::Tell(Ticket::new(number), telling)
}

fn open(numbers: &[u64]) -> Effect {
    Effect::Open(numbers.iter().copied().map(Ticket::new).collect())
}

/// RACE-4
#[test]
fn a_turn_that_wins_answers_inline() {
    let mut machine = Machine::default();
    assert_eq!(machine.on(arrived(1)), [open(&[1])]);
    assert_eq!(machine.on(Event::Opened(OpenResult::Started)), [Effect::Decide]);
    assert_eq!(machine.on(Event::Decided), [Effect::Settle { deferred: false }]);
    assert_eq!(machine.on(Event::Settled(SettleResult::Inline)), [tell(1, Telling::Reply)]);
    assert!(machine.is_idle());
}

/// RACE-5, RACE-6: the deadline answers with the holding line and the reply goes through the outbox.
#[test]
fn a_turn_that_loses_is_answered_with_the_holding_line_and_deferred() {
    let mut machine = Machine::default();
    let _ = machine.on(arrived(1));
    let _ = machine.on(Event::Opened(OpenResult::Started));
    assert_eq!(machine.on(Event::DeadlinePassed(Ticket::new(1))), [tell(1, Telling::HoldingLine)]);
    assert_eq!(machine.on(Event::Decided), [Effect::Settle { deferred: true }]);
    assert_eq!(machine.on(Event::Settled(SettleResult::Queued)), [Effect::ConfirmQueued]);
}

/// ARC-46: a deadline that passes during Settle queues the settled reply.
#[test]
fn a_deadline_during_the_settling_queues_the_reply() {
    let mut machine = Machine::default();
    let _ = machine.on(arrived(1));
    let _ = machine.on(Event::Opened(OpenResult::Started));
    assert_eq!(machine.on(Event::Decided), [Effect::Settle { deferred: false }]);
    assert_eq!(machine.on(Event::DeadlinePassed(Ticket::new(1))), [tell(1, Telling::HoldingLine)]);
    assert_eq!(machine.on(Event::Settled(SettleResult::Inline)), [Effect::QueueReply]);
}

/// LANE-1, LANE-2: the second message waits until the first has settled.
#[test]
fn a_second_message_waits_its_turn() {
    let mut machine = Machine::default();
    let _ = machine.on(arrived(1));
    assert_eq!(machine.on(arrived(2)), []);
    let _ = machine.on(Event::Opened(OpenResult::Started));
    let _ = machine.on(Event::Decided);
    assert_eq!(machine.on(Event::Settled(SettleResult::Inline)), [tell(1, Telling::Reply), open(&[2])]);
}

/// LANE-4: a message that still waits at its deadline is answered silently and runs late.
#[test]
fn a_waiting_message_is_answered_silently_at_its_deadline_and_runs_late() {
    let mut machine = Machine::default();
    let _ = machine.on(arrived(1));
    let _ = machine.on(arrived(2));
    assert_eq!(machine.on(Event::DeadlinePassed(Ticket::new(2))), [tell(2, Telling::Silent)]);
    let _ = machine.on(Event::Opened(OpenResult::Started));
    let _ = machine.on(Event::Decided);
    let _ = machine.on(Event::Settled(SettleResult::Inline));
    assert_eq!(machine.on(Event::Opened(OpenResult::Started)), [Effect::Decide]);
    assert_eq!(machine.on(Event::Decided), [Effect::Settle { deferred: true }]);
}

/// DEC-5: waiting messages of one burst are one turn; the last request gets the reply, the others silence.
#[test]
fn a_burst_is_answered_together() {
    let mut machine = Machine::default();
    let _ = machine.on(arrived(1));
    for number in 2..=4 {
        let _ = machine.on(in_burst(number));
    }
    let _ = machine.on(arrived(5));
    let _ = machine.on(Event::Opened(OpenResult::Started));
    let _ = machine.on(Event::Decided);
    assert_eq!(machine.on(Event::Settled(SettleResult::Inline)), [tell(1, Telling::Reply), open(&[2, 3, 4])]);
    assert_eq!(
        machine.on(Event::Opened(OpenResult::Started)),
        [tell(2, Telling::Silent), tell(3, Telling::Silent), Effect::Decide]
    );
    let _ = machine.on(Event::Decided);
    assert_eq!(machine.on(Event::Settled(SettleResult::Inline)), [tell(4, Telling::Reply), open(&[5])]);
}

fn quiet(number: u64) -> Event {
    Event::Arrived {
        ticket: Ticket::new(number),
        burst: Some(BurstKey::new(7)),
        answered: false,
        quiet: true,
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
    for failure in [Event::Opened(OpenResult::Failed), Event::Settled(SettleResult::Failed), Event::Panicked]
    {
        let mut machine = Machine::default();
        let _ = machine.on(arrived(1));
        let _ = machine.on(arrived(2));
        assert_eq!(
            machine.on(failure),
            [tell(1, Telling::Handoff), Effect::Resolve { told: true }, open(&[2])]
        );
    }
}

/// LANE-9: a failure of a turn whose request is answered leaves the handoff to be sent.
#[test]
fn a_late_failure_leaves_the_handoff_to_be_sent() {
    let mut machine = Machine::default();
    let _ = machine.on(arrived(1));
    let _ = machine.on(Event::Opened(OpenResult::Started));
    let _ = machine.on(Event::DeadlinePassed(Ticket::new(1)));
    assert_eq!(machine.on(Event::Panicked), [Effect::Resolve { told: false }]);
}

/// ARC-45: a lane that another process holds is asked for again; never started beside.
#[test]
fn a_held_lane_is_waited_for() {
    let mut machine = Machine::default();
    let _ = machine.on(arrived(1));
    assert_eq!(machine.on(Event::Opened(OpenResult::LaneHeld)), [Effect::WaitForLane]);
    assert_eq!(machine.on(Event::DeadlinePassed(Ticket::new(1))), [tell(1, Telling::Silent)]);
    assert_eq!(machine.on(Event::LaneTimerFired), [Effect::Reopen]);
    assert_eq!(machine.on(Event::LaneTimerFired), [], "a second timer finds nothing to do");
}

/// ARC-45: a superseded turn is answered silently and sends nothing.
#[test]
fn a_superseded_turn_is_silent() {
    let mut machine = Machine::default();
    let _ = machine.on(arrived(1));
    let _ = machine.on(Event::Opened(OpenResult::Started));
    let _ = machine.on(Event::Decided);
    assert_eq!(machine.on(Event::Settled(SettleResult::Superseded)), [tell(1, Telling::Silent)]);
}

/// Plays random outcomes and deadlines against the machine and checks what must hold whatever happens.
struct Play {
    machine: Machine,
    told: HashMap<Ticket, Vec<Telling>>,
    opened: Vec<Ticket>,
    /// The follow-up the shell owes the machine, if any.
    pending: Option<Effect>,
}

impl Play {
    fn feed(&mut self, event: Event) {
        for effect in self.machine.on(event) {
            match effect {
                Effect::Tell(ticket, telling) => self.told.entry(ticket).or_default().push(telling),
                Effect::WaitForQuiet(first) => {
                    assert!(
                        matches!(self.pending, None | Some(Effect::WaitForQuiet(_))),
                        "two steps at once"
                    );
                    self.pending = Some(Effect::WaitForQuiet(first));
                }
                Effect::Open(tickets) => {
                    self.opened.extend(&tickets);
                    assert!(
                        matches!(self.pending, None | Some(Effect::WaitForQuiet(_))),
                        "two turns at once"
                    );
                    self.pending = Some(Effect::Open(tickets));
                }
                Effect::QueueReply | Effect::ConfirmQueued | Effect::Resolve { .. } => {}
                step => {
                    assert!(self.pending.is_none(), "two steps at once");
                    self.pending = Some(step);
                }
            }
        }
    }

    fn answer_pending(&mut self, choice: u8) {
        let Some(step) = self.pending.take() else { return };
        let event = match step {
            Effect::Open(_) | Effect::Reopen => Event::Opened(match choice % 6 {
                0 => OpenResult::Failed,
                1 => OpenResult::LaneHeld,
                _ => OpenResult::Started,
            }),
            Effect::WaitForLane => Event::LaneTimerFired,
            Effect::WaitForQuiet(_) => Event::QuietOver,
            Effect::Decide if choice.is_multiple_of(9) => Event::Panicked,
            Effect::Decide => Event::Decided,
            _ => Event::Settled(match choice % 8 {
                0 => SettleResult::Failed,
                1 => SettleResult::Superseded,
                2 | 3 => SettleResult::Queued,
                _ => SettleResult::Inline,
            }),
        };
        self.feed(event);
    }
}

proptest! {
    /// ARC-19, ARC-40: every request is told exactly one thing, messages run in order of arrival, one turn at a
    /// time, and the machine comes to rest.
    #[test]
    fn every_request_is_answered_once_and_in_order(steps in prop::collection::vec((0u8..4, any::<u8>()), 1..120)) {
        let mut play =
            Play { machine: Machine::default(), told: HashMap::new(), opened: Vec::new(), pending: None };
        let mut arrivals = 0u64;
        for (kind, choice) in steps {
            match kind {
                0 => {
                    let burst = (choice % 3 > 0).then(|| BurstKey::new(u64::from(choice % 2)));
                    let quiet = choice.is_multiple_of(2);
                    play.feed(Event::Arrived { ticket: Ticket::new(arrivals), burst, answered: false, quiet });
                    arrivals += 1;
                }
                1 if arrivals > 0 => play.feed(Event::DeadlinePassed(Ticket::new(u64::from(choice) % arrivals))),
                _ => play.answer_pending(choice),
            }
        }
        for _ in 0..=(arrivals * 5) {
            play.answer_pending(5);
        }
        prop_assert!(play.machine.is_idle());
        prop_assert_eq!(play.opened.len() as u64, arrivals);
        prop_assert!(play.opened.is_sorted(), "messages must run in order of arrival");
        for number in 0..arrivals {
            prop_assert_eq!(play.told.get(&Ticket::new(number)).map(Vec::len), Some(1), "ticket {}", number);
        }
    }
}
