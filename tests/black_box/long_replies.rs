//! Replies that are longer than one text of the channel.

use serde_json::{Value, json};

use crate::answers::{free_lane, hold_lane};
use crate::app::{LOST, Setup, TestApp};

/// Three paragraphs of 3000 letters: on WhatsApp three texts.
pub fn long_opening(rules: &mut Value) {
    let message = ["a", "b", "c"].map(|letter| letter.repeat(3000)).join("\n\n");
    rules["openingTrigger"] = json!({ "keywords": ["tell me all"], "message": message });
}

fn paragraph(letter: &str) -> Value {
    json!(letter.repeat(3000))
}

async fn queued(app: &TestApp) -> Vec<Value> {
    let rows = app.await_rows("select payload from outbox where kind = 'reply' order by created_at").await;
    rows.into_iter().map(|row| row["payload"].clone()).collect()
}

/// GAP-CH-11, CHC-3, CHC-4, LANE-6: the response holds what fits, the rest follows through the outbox, and the next
/// reply waits behind it.
#[tokio::test]
async fn a_long_reply_begins_in_the_response_and_goes_on_through_the_outbox() {
    let app = Setup::default().rules(long_opening).start().await;
    let answer = app.send("tell me all").await;
    assert_eq!(json!(answer.texts()), json!([paragraph("a")]));
    assert_eq!(queued(&app).await, [json!({ "messages": [paragraph("b"), paragraph("c")] })]);
    app.await_that("select 1 from rs_owed", <[_]>::is_empty).await;
    let recorded = app.turns().await[1]["text"].as_str().unwrap().len();
    assert_eq!(recorded, 9004, "history has the whole reply");
    let line = app.log_line("reply continues after its response").await;
    assert_eq!((&line["texts"], &line["path"]), (&json!(2), &json!("outbox")));
    assert_eq!(app.send("how much is it?").await.texts().len(), 0, "behind the rest");
    assert_eq!(queued(&app).await.len(), 2);
    app.run("update outbox set status = 'delivered'").await;
    assert_eq!(app.send("when does it start?").await.texts().len(), 1);
}

/// GAP-CH-11, CHC-4: a late long reply goes through the outbox whole, in texts that the channel takes.
#[tokio::test]
async fn a_late_long_reply_is_split_for_the_outbox() {
    let app = Setup::default().rules(long_opening).env("RACE_DEADLINE_MS", LOST).start().await;
    app.send("hello").await;
    hold_lane(&app).await;
    assert_eq!(app.send("tell me all").await.texts().len(), 0);
    free_lane(&app).await;
    let all = json!({ "messages": [paragraph("a"), paragraph("b"), paragraph("c")] });
    assert_eq!(queued(&app).await, [all]);
    app.await_that("select 1 from rs_owed", <[_]>::is_empty).await;
    assert_eq!(queued(&app).await.len(), 1, "nothing follows it");
}

/// GAP-CH-11, CHC-2: a channel that delivers ten texts needs no outbox for three.
#[tokio::test]
async fn a_channel_with_more_texts_takes_a_long_reply_inline() {
    let app = Setup::default().rules(long_opening).env("CHANNEL", "telegram").start().await;
    let answer = app.send("tell me all").await;
    assert_eq!(json!(answer.texts()), json!([paragraph("a"), paragraph("b"), paragraph("c")]));
    app.await_that("select 1 from rs_owed", <[_]>::is_empty).await;
    assert_eq!(app.rows("select 1 from outbox where kind = 'reply'").await.len(), 0);
}
