use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::evals::assertions::FailureCode;
use crate::evals::test_support::{Scripted, answer, bench_of, reply, tenant};

/// STAT-1, STAT-2, ACC-EV-11: a criterion for a person asserts nothing and excuses nothing.
#[tokio::test]
async fn a_review_neither_passes_nor_excuses() {
    let bench = bench_of(Scripted::new(|_| Ok(reply(&["Fine."]))), tenant());
    let run = async |rest: &str| run_case(&bench, None, &answer(rest), NonZeroU32::MIN).await.status();
    assert_eq!(run("").await, Status::Passed);
    assert_eq!(run(r#", "review": "Friendly.""#).await, Status::Reviewed);
    let broken = run(r#", "review": "Friendly.", "must_contain": ["450"]"#).await;
    assert_eq!(broken, Status::Failed);
    assert!(broken.fails_the_run() && !Status::Reviewed.fails_the_run());
}

/// 07/REP-9: a case passes when all its runs do, and the run that failed is shown.
#[tokio::test]
async fn one_bad_run_of_several_fails_the_case() {
    let count = AtomicUsize::new(0);
    let moody = Scripted::new(move |_| {
        let bad = count.fetch_add(1, Ordering::Relaxed) == 2;
        Ok(reply(&[if bad { "It is $999." } else { "It is $450.00." }]))
    });
    let bench = bench_of(moody, tenant());
    let flag = answer(r#", "must_not_invent_prices": true"#);
    let outcome = run_case(&bench, None, &flag, NonZeroU32::new(5).unwrap()).await;
    assert_eq!((outcome.status(), outcome.tally()), (Status::Failed, (5, 4)));
    assert_eq!(outcome.shown().failures[0].code, FailureCode::Price);
    assert_eq!(outcome.shown().seen.messages, ["It is $999."]);
}

/// JUDGE-35: records know three words.
#[test]
fn records_know_three_words() {
    let all = [Status::Passed, Status::JudgedPass, Status::Reviewed, Status::JudgedFail, Status::Failed];
    assert_eq!(all.map(Status::recorded), ["passed", "reviewed", "reviewed", "failed", "failed"]);
    assert!(all.is_sorted());
}
