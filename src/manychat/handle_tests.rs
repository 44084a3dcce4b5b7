//! The handle without an actor: what goes through the channel, and what callers learn.

use std::task::Waker;

use super::*;
use crate::manychat::Class;

fn contact() -> SubscriberId {
    SubscriberId::new("7301144").unwrap()
}

fn tag() -> Request {
    Request {
        contact: contact(),
        priority: Priority::Background,
        action: Action::AddTag { tag: "tag".into() },
    }
}

/// The next letter, if there is one.
fn letter(orders: &mut Orders) -> Option<Letter> {
    match orders.poll_next(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(letter) => letter,
        Poll::Pending => None,
    }
}

fn order(orders: &mut Orders) -> Order {
    match letter(orders) {
        Some(Letter::Place(order)) => order,
        other => panic!("no order: {other:?}"),
    }
}

/// ARC-1: an order goes in, its answer comes out, and is counted as open until then (ARC-23).
#[tokio::test]
async fn an_order_is_answered_through_its_slot() {
    let (handle, mut orders) = channel();
    let asking = tokio::spawn({
        let handle = handle.clone();
        async move { handle.submit(tag()).await }
    });
    tokio::task::yield_now().await;
    let order = order(&mut orders);
    assert_eq!(handle.open(), 1);
    assert!(order.slot.start());
    order.slot.answer(Ok(Answer::Accepted));
    assert_eq!(asking.await.unwrap(), Ok(Answer::Accepted));
    assert_eq!(handle.open(), 0);
    assert!(letter(&mut orders).is_none(), "an answered order is not withdrawn");
}

/// BUCKET-4, API-46: dropping the future withdraws the order.
#[tokio::test]
async fn a_dropped_future_withdraws_its_order() {
    let (handle, mut orders) = channel();
    let mut asking = Box::pin(handle.submit(tag()));
    assert!(futures_util::poll!(&mut asking).is_pending());
    let placed = order(&mut orders);
    drop(asking);
    match letter(&mut orders) {
        Some(Letter::Withdraw(id)) => assert_eq!(id, placed.id),
        other => panic!("not withdrawn: {other:?}"),
    }
}

/// ARC-41: an order that gets lost tells its caller truthfully whether it may have been carried out.
#[tokio::test]
async fn a_lost_order_tells_what_is_known() {
    for started in [false, true] {
        let (handle, mut orders) = channel();
        let mut asking = Box::pin(handle.submit(tag()));
        assert!(futures_util::poll!(&mut asking).is_pending());
        let order = order(&mut orders);
        if started {
            assert!(order.slot.start());
        }
        drop(order);
        let error = asking.await.unwrap_err();
        assert_eq!((error.class(), error.may_have_acted()), (Class::Retryable, started), "{error}");
    }
    let (handle, orders) = channel();
    drop(orders);
    let error = handle.submit(tag()).await.unwrap_err();
    assert_eq!((error.name(), error.class(), handle.open()), ("not_started", Class::Retryable, 0));
}

/// API-45, GAP-DL-7: inside a request ten seconds count from the asking; in the background waiting costs no attempt.
#[tokio::test(start_paused = true)]
async fn waiting_counts_only_inside_a_request() {
    let (handle, mut orders) = channel();
    let begun = tokio::time::Instant::now();
    let flow = Action::SendFlow { flow_ns: "ns".into() };
    let error = handle.perform(&contact(), flow, Priority::InRequest).await.unwrap_err();
    assert_eq!(begun.elapsed(), CALL_LIMIT);
    assert_eq!(error, ManyChatError::NotStarted { reason: Unstarted::OutOfTime }, "ManyChat was not asked");
    let Order { slot, until, .. } = order(&mut orders);
    assert_eq!(until, Some((begun + CALL_LIMIT).into_std()));
    assert!(!slot.start(), "ARC-41: and is not asked afterwards");
    assert!(matches!(letter(&mut orders), Some(Letter::Withdraw(_))));
    let waiting = tokio::time::timeout(CALL_LIMIT * 10, handle.submit(tag()));
    assert!(waiting.await.is_err(), "still waiting");
    assert_eq!(order(&mut orders).until, None);
}

/// API-45, ARC-41: what was begun and not answered within ten seconds is a lost connection, and may have been carried out.
#[tokio::test(start_paused = true)]
async fn a_call_that_was_begun_in_time_and_not_answered_is_in_doubt() {
    let (handle, mut orders) = channel();
    let flow = Action::SendFlow { flow_ns: "ns".into() };
    let who = contact();
    let mut asking = Box::pin(handle.perform(&who, flow, Priority::InRequest));
    assert!(futures_util::poll!(&mut asking).is_pending());
    let placed = order(&mut orders);
    assert!(placed.slot.start());
    let error = asking.await.unwrap_err();
    assert_eq!((error.reason(), error.endpoint()), (Some("timeout"), Some("/fb/sending/sendFlow")));
    assert!(error.may_have_acted());
    assert!(placed.slot.start(), "a text's second call is the machine's to refuse");
}

/// API-46, READ-6: a read keeps to the limit of its caller.
#[tokio::test(start_paused = true)]
async fn a_read_ends_at_its_callers_limit() {
    let (handle, mut orders) = channel();
    let begun = tokio::time::Instant::now();
    let error = handle.read_contact(&contact(), Duration::from_millis(1500)).await.unwrap_err();
    assert_eq!((error.reason(), error.class()), (Some("aborted"), Class::Final));
    assert_eq!(begun.elapsed(), Duration::from_millis(1500));
    let placed = order(&mut orders);
    assert!(matches!(letter(&mut orders), Some(Letter::Withdraw(id)) if id == placed.id));
}

/// ARC-23: the queue is bounded, and says so.
#[tokio::test]
async fn a_full_queue_refuses() {
    let (handle, _orders) = channel();
    let mut kept = Vec::new();
    for _ in 0..MOST_OPEN {
        kept.push(handle.place(tag(), None, None).unwrap());
    }
    let error = handle.submit(tag()).await.unwrap_err();
    assert_eq!(
        (error.name(), error.class(), error.may_have_acted()),
        ("not_started", Class::Retryable, false)
    );
}
