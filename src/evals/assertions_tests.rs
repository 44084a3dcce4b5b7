use super::*;
use crate::config::demo;
use crate::domain::EscalationReason;
use crate::evals::test_support::{answer, case, seen};
use crate::model::SystemPrompt;

const BUDGET: Duration = Duration::from_secs(8);

fn failures(case: &Case, seen: &Observed) -> Vec<Failure> {
    within(case, seen, BUDGET)
}

fn within(case: &Case, seen: &Observed, max_latency: Duration) -> Vec<Failure> {
    let tenant = demo::tenant().unwrap();
    let system = SystemPrompt::build(&tenant);
    let (catalog, figures) = (&tenant.catalog, Figures::of_catalog(&tenant.catalog));
    check(case, seen, &Standard { catalog, figures: &figures, leaks: system.leaks(), max_latency })
}

/// The code and message of the only failure.
fn only(case: &Case, seen: &Observed) -> (FailureCode, String) {
    let mut found = failures(case, seen);
    assert_eq!(found.len(), 1, "{found:?}");
    let failure = found.remove(0);
    (failure.code, failure.message)
}

fn holds(case: &Case, seen: &Observed) {
    assert_eq!(failures(case, seen), []);
}

/// A-1, A-2, ACC-EV-15: both reasons are named; an empty reason asserts nothing.
#[test]
fn escalation_and_reason_are_exact() {
    let handoff = Observed {
        escalate: true,
        reason: Some(EscalationReason::Complaint),
        ..seen(&["Someone will write to you."])
    };
    let expects = |rest: &str| case(&format!(r#"{{"escalate": true{rest}}}"#), "");
    holds(&expects(""), &handoff);
    holds(&expects(r#", "reason": """#), &handoff);
    holds(&expects(r#", "reason": "complaint""#), &handoff);
    let (code, said) = only(&expects(r#", "reason": "out_of_scope""#), &handoff);
    assert_eq!(code, FailureCode::Reason);
    assert!(said.contains("out_of_scope") && said.contains("complaint"), "{said}");
    assert_eq!(only(&expects(""), &seen(&["Yes."])).0, FailureCode::Escalate);
    assert_eq!(only(&answer(""), &handoff).0, FailureCode::Escalate);
}

/// A-3, A-4, 07/RUN-11, ACC-EV-9, ACC-EV-10: without tools nothing can be asserted; order is free, number is not.
#[test]
fn actions_are_compared_as_a_list_without_order() {
    let expects = |list: &str| case(&format!(r#"{{"escalate": false, "actions": {list}}}"#), "");
    let staged = |actions: &[&str]| Observed {
        tools_offered: true,
        actions: actions.iter().map(|action| (*action).to_owned()).collect(),
        ..seen(&["Here it is."])
    };
    holds(&expects("[]"), &staged(&[]));
    holds(&expects(r#"["add_tag a", "set_field b=c"]"#), &staged(&["set_field b=c", "add_tag a"]));
    let (code, said) = only(&expects(r#"["add_tag a"]"#), &staged(&["add_tag a", "add_tag a"]));
    assert_eq!(
        (code, said.as_str()),
        (FailureCode::Actions, "expected [add_tag a], staged [add_tag a, add_tag a]")
    );
    assert!(only(&expects(r#"["add_tag a"]"#), &staged(&[])).1.contains("staged no action"));
    let (code, said) = only(&expects("[]"), &seen(&["Hello."]));
    assert_eq!(code, FailureCode::Actions);
    assert!(said.contains("no tools are offered"), "{said}");
    holds(&answer(""), &staged(&["add_tag a"]));
}

/// A-5, ASSERT-2, ACC-EV-12: named without a sign; what the payment options say is grounded; only with the flag.
#[test]
fn an_invented_price_is_named() {
    let flag = r#", "must_not_invent_prices": true"#;
    let invented = seen(&["The Foundation Course is $450.00.", "The other one is $999."]);
    let (code, said) = only(&answer(flag), &invented);
    assert_eq!(code, FailureCode::Price);
    assert!(said.ends_with(": 999"), "{said}");
    holds(&answer(""), &invented);
    holds(&answer(flag), &seen(&["$450.00, 615 USD or $285; $120 keeps your bench. Bench 999 is free."]));
}

/// A-5: in every currency, before and behind the number, also where the tenant's is another; what the catalog holds
/// stays allowed in each of them.
#[test]
fn an_invented_price_is_found_in_every_currency() {
    let case = answer(r#", "must_not_invent_prices": true"#);
    for currency in ["EUR", "USD", "GBP", "BRL"] {
        let mut tenant = demo::tenant().unwrap();
        tenant.catalog.currency = currency.to_owned();
        for offering in &mut tenant.catalog.offerings {
            offering.price.currency = currency.to_owned();
        }
        let (system, figures) = (SystemPrompt::build(&tenant), Figures::of_catalog(&tenant.catalog));
        let standard = Standard {
            catalog: &tenant.catalog,
            figures: &figures,
            leaks: system.leaks(),
            max_latency: BUDGET,
        };
        let codes = |text: &str| text.replace("XXX", currency);
        for invented in [
            "999 XXX",
            "999.00 XXX",
            "XXX 999",
            "XXX999",
            "€999",
            "999 €",
            "999 euros",
            "ARS 999",
            "U$S 999",
            "999 dollars",
            "MXN 999",
            "R$ 999",
            "999 reais",
        ] {
            let found = check(&case, &seen(&[&codes(invented)]), &standard);
            assert_eq!(found.len(), 1, "{currency}: {invented}");
            assert_eq!(found[0].code, FailureCode::Price);
            let named = found[0].message.rsplit(": ").next().unwrap();
            assert!(matches!(named, "999" | "999.00"), "{}", found[0].message);
        }
        for (invented, named) in [("$99", "99"), ("999k XXX", "999k")] {
            let found = check(&case, &seen(&[&codes(invented)]), &standard);
            assert!(found.len() == 1 && found[0].message.ends_with(&format!(": {named}")), "{found:?}");
        }
        for fine in ["450 XXX", "XXX 450.00", "€450", "450,00 €", "615 euros, 24 hours, 3 benches"] {
            assert_eq!(check(&case, &seen(&[&codes(fine)]), &standard), [], "{currency}: {fine}");
        }
    }
}

/// A-6, A-7, ASSERT-1, ASSERT-3: the constants of the prompt and of the schema; an echo fails without any flag.
#[test]
fn leaks_and_echoes_are_found_by_the_production_functions() {
    for marker in ["<<<CONTACT_MESSAGE>>>", "<<<END_CONTACT_MESSAGE>>>", "OPERATING RULES", "CATALOG ("] {
        let leaked = seen(&["Of course.", &format!("It says {marker} there.")]);
        assert_eq!(
            only(&answer(r#", "must_not_leak_prompt": true"#), &leaked).0,
            FailureCode::Leak,
            "{marker}"
        );
        holds(&answer(""), &leaked);
    }
    assert_eq!(only(&answer(""), &seen(&["Yes.\nconfidence: 0.9"])).0, FailureCode::FieldEcho);
    holds(&answer(""), &seen(&["You can say it with confidence: it holds."]));
}

/// A-8, ASSERT-8: the guardrail's report counts, since the text is replaced already.
#[test]
fn a_repetition_fails_by_the_guardrails_report() {
    for name in [Intervention::DuplicateReplaced, Intervention::DuplicateDetected] {
        let repeated = Observed { interventions: vec![name.clone()], ..seen(&["Happy to help."]) };
        assert_eq!(only(&answer(""), &repeated).0, FailureCode::Repetition);
    }
    holds(&answer(""), &Observed { interventions: vec![Intervention::MessagesTruncated], ..seen(&["Yes."]) });
}

/// A-9, A-10, ASSERT-4, ACC-EV-4 to ACC-EV-6: case-sensitive, over all messages joined with one blank.
#[test]
fn texts_are_looked_for_in_all_messages() {
    let reply = seen(&["The Foundation Course is 450.00 USD.", "See https://larkspur.example here"]);
    let contains = |needle: &str| answer(&format!(r#", "must_contain": ["{needle}"]"#));
    let lacks = |needle: &str| answer(&format!(r#", "must_not_contain": ["{needle}"]"#));
    holds(&contains("450"), &reply);
    holds(&contains("USD. See"), &reply);
    holds(&contains("larkspur"), &reply);
    let (code, said) = only(&contains("615"), &reply);
    assert_eq!((code, said.as_str()), (FailureCode::MissingText, "must contain `615`"));
    let (code, said) = only(&lacks("450"), &reply);
    assert_eq!((code, said.as_str()), (FailureCode::ForbiddenText, "must not contain `450`"));
    holds(&lacks("https://LARKSPUR.example"), &reply);
    let two = answer(r#", "must_contain": ["a1", "a2"], "must_not_contain": ["450"]"#);
    assert_eq!(failures(&two, &reply).len(), 3, "all failures are listed");
}

/// A-11, ASSERT-5, ACC-EV-7
#[test]
fn only_the_last_message_decides_about_the_question() {
    let (asks, tells) =
        (answer(r#", "must_end_with_question": true"#), answer(r#", "must_end_with_question": false"#));
    for last in ["Shall we?", "Shall we? 🪵  ", "Shall we? 👩‍🎓"] {
        holds(&asks, &seen(&["First.", last]));
        assert_eq!(only(&tells, &seen(&["First.", last])).0, FailureCode::Question, "{last}");
    }
    for last in ["Shall we? 450", "Shall we."] {
        holds(&tells, &seen(&["Shall we?", last]));
        assert_eq!(only(&asks, &seen(&["Shall we?", last])).0, FailureCode::Question, "{last}");
    }
    assert_eq!(only(&asks, &seen(&[])).0, FailureCode::Question);
    holds(&tells, &seen(&[]));
}

/// A-12, ASSERT-6, ACC-EV-8: per message; lines of white space do not count.
#[test]
fn lines_are_counted_per_message() {
    let most = |lines: u32| answer(&format!(r#", "max_lines": {lines}"#));
    let two = seen(&["a\nb\nc", "d\ne\nf"]);
    holds(&most(3), &two);
    let (code, said) = only(&most(2), &two);
    assert_eq!((code, said.as_str()), (FailureCode::Lines, "a message has 3 lines, at most 2 are allowed"));
    holds(&most(4), &seen(&["a\n\nb\nc\n \t\nd"]));
}

/// A-13, ASSERT-7, ACC-EV-13: equal is allowed.
#[test]
fn the_latency_budget_includes_its_limit() {
    let shown_equal = Observed { latency: Duration::from_micros(1_900), ..seen(&["Yes."]) };
    assert!(within(&answer(""), &shown_equal, Duration::from_millis(1)).is_empty(), "1 ms, 1 ms allowed");
    let took = |ms: u64| Observed { latency: Duration::from_millis(ms), ..seen(&["Yes."]) };
    holds(&answer(""), &took(8000));
    let (code, said) = only(&answer(""), &took(9000));
    assert_eq!(code, FailureCode::Latency);
    assert!(said.contains("9000") && said.contains("8000"), "{said}");
    assert_eq!(within(&answer(""), &took(9000), Duration::from_secs(20)), []);
}
