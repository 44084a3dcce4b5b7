//! Pauses and places that are far away, and callers that wait for a limited time (ARC-48, GAP-DL-7, GAP-DL-8).

use super::*;

const SECOND: Duration = Duration::from_secs(1);

fn limited(world: &World, limit: Duration, facts: Facts) -> Facts {
    Facts { until: Some(world.now + limit), ..facts }
}

/// A world in which ManyChat has just asked for this pause.
fn paused(pause: Duration) -> World {
    let mut world = World::new();
    world.endings.insert(id(0), Ending::TooMany(pause));
    world.place(0, read("busy"));
    world.run(10 * MS);
    world
}

fn given_up(world: &World) -> Vec<(OrderId, u128)> {
    world.given_up.iter().map(|(order, at, _)| (*order, at.duration_since(world.start).as_millis())).collect()
}

/// GAP-DL-8: a 429 slows this process at once and tells the others.
#[test]
fn a_refusal_for_too_many_calls_pauses_everything() {
    let mut world = World::new();
    world.endings.insert(id(0), Ending::TooMany(Duration::from_secs(3)));
    world.place(0, read("one"));
    world.run(10 * MS);
    world.place(1, read("two"));
    world.place(2, read("three"));
    world.run(Duration::from_secs(5));
    assert_eq!(world.pushed, [Duration::from_secs(3)]);
    assert_eq!((world.started(1, 0), world.started(2, 0)), (Some(3000), Some(3100)));
}

/// GAP-DL-8: with a pause longer than the call's limit a turn's sends end at once, one after the other in no time, and take
/// no place in the rate of all processes; what waits in the background is started when the pause is over.
#[test]
fn in_a_long_pause_a_turns_calls_end_at_once() {
    let mut world = paused(60 * SECOND);
    world.place(1, action("one", Priority::Background));
    let reserved = world.reserved;
    for number in 2..6 {
        let facts = limited(&world, 10 * SECOND, action("other", Priority::InRequest));
        world.place(number, facts);
    }
    assert_eq!(given_up(&world), [2, 3, 4, 5].map(|number| (id(number), 10)));
    assert_eq!(world.closed.len(), 5, "and are answered");
    assert_eq!((world.reserved, world.machine.ready()), (reserved, 1));
    world.run(70 * SECOND);
    assert_eq!(world.started(1, 0), Some(60_000));
    assert!((2..6).all(|number| world.started(number, 0).is_none()));
}

/// BUCKET-2: a pause that ends in time is waited for, and one that ends after a read's limit is not by the read (READ-6).
#[test]
fn a_short_pause_is_waited_for() {
    let mut world = paused(9 * SECOND);
    let facts = limited(&world, 10 * SECOND, action("one", Priority::InRequest));
    world.place(1, facts);
    let facts = limited(&world, 1500 * MS, read("one"));
    world.place(2, facts);
    world.run(10 * SECOND);
    assert_eq!(world.started(1, 0), Some(9000));
    assert_eq!((given_up(&world), world.started(2, 0)), (vec![(id(2), 10)], None));
}

/// Who already waits when the pause begins ends as well: in a lane behind another order of its contact too.
#[test]
fn a_pause_that_begins_ends_what_waits() {
    let mut world = World::new();
    world.latency = 500 * MS;
    world.endings.insert(id(0), Ending::TooMany(30 * SECOND));
    world.place(0, action("one", Priority::Background));
    let facts = limited(&world, 10 * SECOND, action("one", Priority::InRequest));
    world.place(1, action("one", Priority::Background));
    world.place(2, facts);
    world.run(SECOND);
    assert_eq!(given_up(&world), [(id(2), 500)]);
    world.run(60 * SECOND);
    assert_eq!((world.started(1, 0), world.started(2, 0)), (Some(30_500), None));
    assert_eq!((world.machine.open(), world.machine.contacts()), (0, 0));
}

/// A database that never answers at all counts as silent too.
#[test]
fn a_place_that_never_comes_is_not_waited_for() {
    let mut world = World::new();
    let effects = world.machine.on(Event::Placed(id(0), read("one")), world.now);
    assert_eq!(effects, [Effect::Reserve]);
    world.run(Duration::from_secs(2));
    assert_eq!(world.started(0, 0), Some(1000));
}

/// ARC-48: a process that learns of the pause from the shared rate takes one place, however many calls of its turns end
/// meanwhile: each further place would make all processes wait longer. The place serves who comes when it is due.
#[test]
fn calls_that_end_at_once_take_no_places() {
    let mut world = World::new();
    world.shared = world.now + 60 * SECOND;
    for number in 0..50 {
        let facts = limited(&world, 10 * SECOND, read(&number.to_string()));
        world.place(number, facts);
        world.run(SECOND);
    }
    assert_eq!((world.given_up.len(), world.reserved), (50, 1));
    world.place(50, action("one", Priority::Background));
    world.run(20 * SECOND);
    assert_eq!((world.started(50, 0), world.reserved), (Some(59_600), 1));
}

/// ARC-48: a place that came due unused is not there for a later burst.
#[test]
fn an_unused_place_is_not_kept() {
    let mut world = World::new();
    world.shared = world.now + 60 * SECOND;
    let facts = limited(&world, 10 * SECOND, read("one"));
    world.place(0, facts);
    world.run(100 * SECOND);
    world.place(1, read("one"));
    world.run(SECOND);
    assert_eq!((world.started(1, 0), world.reserved), (Some(100_000), 2));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    /// GAP-DL-8: who is given up could not have started in time: nobody at all starts from then until its caller's time is
    /// over. Who waits without a limit is never given up, and no call that was begun is.
    #[test]
    fn only_what_could_not_start_in_time_is_given_up(script in steps(), latency in 0_u64..3000) {
        let (world, placed, _) = play(&script, latency);
        for (order, at, started) in &world.given_up {
            let until = placed[order].until;
            prop_assert!(until.is_some_and(|until| until > *at), "{:?} had no limit, or was over", order);
            let meanwhile = world.starts[*started..].iter().find(|start| Some(start.at) <= until);
            prop_assert!(meanwhile.is_none(), "{:?} was given up, and yet {:?}", order, meanwhile);
            prop_assert!(world.starts.iter().all(|start| start.order != *order), "{:?} was begun", order);
        }
    }

    /// GAP-DL-8: nobody waits in vain: at no moment is there an order whose caller's time ends before a pause that ManyChat
    /// has asked for.
    #[test]
    fn nobody_waits_in_vain(script in steps(), latency in 0_u64..3000) {
        let (world, _, _) = play(&script, latency);
        prop_assert_eq!(world.vain, None);
    }
}
