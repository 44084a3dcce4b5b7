//! The day's caps: turns that run at the same time, and the warning before (02 sections 7.4 and 14).

use std::time::Duration;

use serde_json::json;

use crate::app::{ADMIN, Setup, TestApp, time_in_this_hour};
use crate::stub_providers::{KEY, StubProviders};

/// A model that takes 30 tokens a turn, and a cap of 300 tokens a day.
async fn capped(stub: &StubProviders) -> TestApp {
    let mut setup = Setup::default().rules(|rules| rules["budget"] = json!({ "dailyTokenCap": 300 }));
    for (name, value) in stub.variables(KEY) {
        setup.env.push((Box::leak(name.into_boxed_str()), value));
    }
    let app = setup.env("AGENT_MODEL", "openai:gpt-4o-mini").start().await;
    time_in_this_hour().await;
    app
}

/// 02 section 14, BUD-2, ARC-33: of many turns at once as many reach the model as the cap has room for, and the rest is
/// handed off; the cap is not passed grossly.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn turns_at_the_same_time_do_not_pass_the_cap() {
    let stub = StubProviders::start();
    let app = capped(&stub).await;
    app.run("insert into budget_counters (tenant_id, day, tokens) values ('test', (now() at time zone 'utc')::date, 0)")
        .await;
    // The first turn shows what a turn takes.
    assert_eq!(app.send_as("1", "hello").await.texts(), ["Hello."]);
    app.await_that("select tokens from budget_counters", |rows| rows == [json!({ "tokens": 30 })]).await;
    stub.pause(Duration::from_secs(3));
    let mut running = Vec::new();
    for contact in 0..20 {
        running.push(app.send_later(&format!("8000{contact}"), "hello"));
        let under_way = format!("select 1 from turns where role = 'user' offset {}", contact + 1);
        app.await_rows(&under_way).await;
    }
    for answer in running {
        assert_eq!(answer.await.unwrap().status, 200);
    }
    let outcomes = app
        .rows("select outcome, count(*)::int as turns from turns where role = 'agent' group by outcome order by outcome")
        .await;
    assert_eq!(
        outcomes,
        [
            json!({ "outcome": "answered_inline", "turns": 10 }),
            json!({ "outcome": "escalated_precheck", "turns": 11 })
        ]
    );
    let denied = app.log_line("turn escalated before model").await;
    assert_eq!(denied["detail"], "daily token cap, with the turns under way");
    app.await_that("select tokens from budget_counters", |rows| rows == [json!({ "tokens": 300 })]).await;
}

/// 02 section 14: the log warns once a day when four fifths of a cap are used.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_log_warns_once_before_a_cap() {
    let stub = StubProviders::start();
    let app = capped(&stub).await;
    let spend = |tokens: i32| {
        format!(
            "insert into budget_counters (tenant_id, day, tokens) values ('test', (now() at time zone 'utc')::date, {tokens})
             on conflict (tenant_id, day) do update set tokens = excluded.tokens"
        )
    };
    app.run(&spend(200)).await;
    app.send_as("1", "hello").await;
    app.await_that("select 1 from rs_owed", <[_]>::is_empty).await;
    app.run(&spend(245)).await;
    for contact in ["2", "3"] {
        assert_eq!(app.send_as(contact, "hello").await.texts(), ["Hello."]);
        app.await_that("select 1 from rs_owed", <[_]>::is_empty).await;
        app.run(&spend(245)).await;
    }
    let line = app.log_line("daily budget nearly used").await;
    assert_eq!((&line["cap"], &line["used_percent"]), (&json!("daily token cap"), &json!(81)), "{line}");
    app.log_lines("turn complete", 3).await;
    assert_eq!(app.logs("daily budget nearly used").len(), 1);
}

/// DEC-27, ARC-24: the models and their breakers can be seen.
#[tokio::test]
async fn operators_see_the_models() {
    let setup = Setup::default().env("AGENT_FALLBACK_MODEL", "mock:second");
    let app = setup.start().await;
    let report = app.get_as("/admin/actors", Some(ADMIN)).await.unwrap().json();
    let model = |name: &str| json!({ "model": name, "breaker": "closed", "failures": 0 });
    let expected =
        json!({ "running": 0, "waiting": 0, "models": [model("mock:demo"), model("mock:second")] });
    assert_eq!(report["models"], expected);
}
