//! What was to follow, as the tables tell it.

use serde_json::json;

use super::super::attempts::{Finish, Under, begin, finish};
use super::super::testing::ActingTurn;
use super::*;

fn attempt(acting: &ActingTurn, action: i32, follow_on: Option<&Value>) -> Attempt {
    let mut entry = json!({ "tool": "send_flow", "id": format!("f{action}") });
    if let Some(follow_on) = follow_on {
        entry["followOn"] = follow_on.clone();
    }
    Attempt {
        under: Under::Turn(acting.turn),
        action,
        conversation: ConversationId::from(*acting.turn.as_uuid()),
        process: acting.process,
        entry,
        claims_opening: false,
        again: false,
        values_above: None,
        once: false,
    }
}

/// ARC-41, FN-LINK-2, FN-LINK-3: of all attempts those count that were accepted, name what follows, and are followed by
/// none; one that is given up is on record, where it was not begun.
#[tokio::test]
async fn only_what_nobody_has_begun_is_left() {
    let acting = ActingTurn::of("7").await;
    let database = &acting.database;
    let next = json!({ "tool": "set_field", "id": "stage", "field": "f", "value": "link_sent" });
    let numbers = async || -> Vec<i32> {
        let left = left(database, acting.turn, acting.process).await.unwrap();
        left.iter().map(|one| one.number).collect()
    };
    for (action, error) in [(0, None), (8, Some("refused")), (16, None), (32, None)] {
        let one = attempt(&acting, action, Some(&next));
        begin(database, &one).await.unwrap();
        finish(database, &one, &Finish { error, ..Finish::default() }).await.unwrap();
    }
    begin(database, &attempt(&acting, 24, Some(&next))).await.unwrap();
    begin(database, &attempt(&acting, 17, None)).await.unwrap();
    assert_eq!(numbers().await, [1, 33]);
    let left = left(database, acting.turn, acting.process).await.unwrap();
    assert_eq!((&left[0].action, left[0].subscriber.expose()), (&next, "7"));

    give_up(database, &attempt(&acting, 17, None), "not this").await.unwrap();
    give_up(database, &attempt(&acting, 33, None), "never").await.unwrap();
    give_up(database, &attempt(&acting, 33, None), "never again").await.unwrap();
    assert_eq!(numbers().await, [1]);
    let record = attempted(database, acting.turn).await.unwrap();
    let errors: Vec<_> = record.iter().map(|entry| entry["error"].as_str().unwrap_or_default()).collect();
    let unknown = "outcome unknown: the process ended before ManyChat answered";
    assert_eq!(errors, ["", "refused", "", unknown, unknown, "", "never"]);
    assert!(record.iter().all(|entry| entry.get("followOn").is_none()), "REC-3");
}
