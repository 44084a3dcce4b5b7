use std::sync::Mutex;

use serde_json::json;

use super::*;
use crate::evals::test_support::{Scripted, answer, bench_of, call, reply, tenant};
use crate::model::{MessageRole, ModelError, ModelOutput, Part};

/// Texts of the messages a model was sent for a case, joined.
async fn sent_for(case: &Case) -> String {
    let seen = Arc::new(Mutex::new(String::new()));
    let kept = Arc::clone(&seen);
    let model = Scripted::new(move |request| {
        let parts = request.messages.iter().flat_map(|message| &message.parts);
        *kept.lock().unwrap() = parts.filter_map(Part::as_text).collect::<Vec<_>>().join("\n---\n");
        Ok(reply(&["Fine."]))
    });
    bench_of(model, tenant()).observe(case).await;
    seen.lock().unwrap().clone()
}

/// 07/RUN-1, CASE-6, ACC-EV-20: history and the message are sent as in production; a follow-up has the note instead, the
/// same one in every run.
#[tokio::test]
async fn a_case_is_one_turn_of_the_agent() {
    let history = r#", "history": [{"role": "user", "text": "hi"}, {"role": "agent", "text": "Hello."}]"#;
    let sent = sent_for(&answer(history)).await;
    assert_eq!(
        sent,
        "<<<CONTACT_MESSAGE>>>\nhi\n<<<END_CONTACT_MESSAGE>>>\n---\nHello.\n---\nINTENT: nothing recorded yet.\n---\n\
         FUNNEL: new\n---\nOFFERING: none recorded yet\n---\n\
         <<<CONTACT_MESSAGE>>>\nhow much?\n<<<END_CONTACT_MESSAGE>>>"
    );
    let quiet = answer(&format!(r#"{history}, "nudge": true"#));
    let first = sent_for(&quiet).await;
    assert!(first.ends_with("since 2026-01-15T10:00:00Z; decide whether to follow up]"), "{first}");
    assert!(!first.contains("how much?"), "{first}");
    assert_eq!(first, sent_for(&quiet).await);
}

/// 07/RUN-4, DEC-4, DEC-32: what is checked is what a contact reads: guardrails first, then the marks of the channel.
#[tokio::test]
async fn the_reply_is_the_one_a_contact_would_get() {
    let model = Scripted::new(|_| Ok(reply(&["**450** USD\nconfidence: 0.9"])));
    let seen = bench_of(model, tenant()).observe(&answer("")).await;
    assert_eq!(
        (seen.messages, seen.interventions),
        (vec!["*450* USD".to_owned()], vec![Intervention::FieldEchoStripped])
    );
}

/// 07/RUN-7, 07/RUN-8: the time of the whole turn counts; a failing call, and one that never ends, are the handoff of
/// production.
#[tokio::test(start_paused = true)]
async fn a_failing_model_hands_off() {
    let copy = tenant().rules.messages.escalation;
    let failing = Scripted::new(|_| Err(ModelError::Status(401)));
    let seen = bench_of(failing, tenant()).observe(&answer("")).await;
    assert_eq!((seen.messages.as_slice(), seen.escalate), ([copy.clone()].as_slice(), true));
    assert_eq!(seen.interventions, ["model_error: provider_status_401"]);
    assert_eq!(seen.reason, Some(EscalationReason::LowConfidence));

    let hanging = bench_of(Arc::new(crate::model::MockModel::new("slow")), tenant());
    assert_eq!(hanging.observe(&answer("")).await.latency, Duration::from_secs(12));
    let bench = Bench { limits: Limits { abort: Duration::from_secs(9), ..hanging.limits }, ..hanging };
    let seen = bench.observe(&answer("")).await;
    assert_eq!((seen.messages.as_slice(), seen.latency), ([copy].as_slice(), Duration::from_secs(9)));
    assert_eq!(seen.interventions, ["model_error: aborted"]);
}

/// 07/RUN-10
#[test]
fn actions_are_written_by_tool_and_configured_id() {
    let id = || "x".to_owned();
    let ns = || "content1".to_owned();
    let actions = [
        (
            Action::SendFlow { id: id(), flow_ns: ns(), follow_on: None, contact_asked: true, origin: None },
            "send_flow x",
        ),
        (Action::AddTag { id: id(), tag: ns() }, "add_tag x"),
        (Action::RemoveTag { id: id(), tag: ns() }, "remove_tag x"),
        (
            Action::SetField {
                id: id(),
                field: ns(),
                value: "v".to_owned(),
                offering: false,
                follow_on: None,
            },
            "set_field x=v",
        ),
        (
            Action::WriteNote {
                id: id(),
                field: ns(),
                text: ContactText::new("secret"),
                on_escalation: false,
            },
            "write_note x",
        ),
        (Action::ScheduleNudge { id: id(), minutes: 3 }, "schedule_nudge x"),
    ];
    for (action, written) in actions {
        assert_eq!(notation(&action), written);
    }
}

/// CASE-7, GAP-EV-9: an absent contact is new; nothing was sent unless the case says so.
#[test]
fn what_is_known_is_what_the_case_says() {
    assert_eq!(known(None), Known { opening_spent: true, ..Known::default() });
    let case = answer(
        r#", "contact": {"funnel_stage": "offered", "intent": "prospect", "offering": "advanced", "opening_due": true,
           "sent_flows": ["advanced_brochure"]}"#,
    );
    let known = known(case.contact.as_ref());
    assert_eq!(known.stage, Some(crate::domain::Stage::Offered));
    assert_eq!(known.intent, Some(crate::domain::Intent::Prospect));
    assert_eq!(known.offering.as_deref(), Some("advanced"));
    assert!(!known.opening_spent && known.sent_flows.contains_key("advanced_brochure"));
    assert!(super::known(answer(r#", "contact": {}"#).contact.as_ref()).sent_flows.is_empty());
}

/// 07/RUN-1, 07/RUN-2, 07/RUN-3: the tools of production are offered, but for the contact read; what is called is staged,
/// and compared also when the reply escalates (07/RUN-5).
#[tokio::test]
async fn tools_are_offered_and_only_stage() {
    let offered = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&offered);
    let model = Scripted::answering(move |request| {
        let results = request.messages.iter().any(|message| message.role == MessageRole::ToolResults);
        if !results && !request.tools.is_empty() {
            *kept.lock().unwrap() = request.tools.iter().map(|tool| tool.name.to_owned()).collect();
            return Ok(call("set_field", json!({ "field": "intent", "value": "not_prospect" })));
        }
        let mut handoff = reply(&["A person will write to you."]);
        handoff["escalate"] = true.into();
        handoff["escalation_reason"] = "out_of_scope".into();
        Ok(ModelOutput::Json(handoff))
    });
    let seen = bench_of(model, tenant()).observe(&answer("")).await;
    assert!(seen.escalate && seen.tools_offered);
    assert_eq!(seen.actions, ["set_field intent=not_prospect"]);
    let offered = offered.lock().unwrap();
    assert!(offered.iter().any(|name| name == "send_flow"), "{offered:?}");
    assert!(!offered.iter().any(|name| name == "get_contact"), "{offered:?}");
}

/// EVAL-3: the model is asked as in production.
#[tokio::test]
async fn the_settings_of_the_model_are_those_of_production() {
    let seen = Arc::new(Mutex::new(None));
    let kept = Arc::clone(&seen);
    let model = Scripted::new(move |request| {
        *kept.lock().unwrap() =
            Some((request.max_output_tokens, request.temperature, request.reasoning_effort));
        Ok(reply(&["Fine."]))
    });
    bench_of(model, tenant()).observe(&answer("")).await;
    let settings = crate::evals::test_support::model_settings();
    let set = (settings.max_output_tokens, Some(settings.temperature), settings.reasoning_effort);
    assert_eq!(seen.lock().unwrap().take(), Some(set));
}

/// 07/MOCK-1, 07/REP-4: what the mock counts is billed by nobody.
#[tokio::test]
async fn the_mock_is_free() {
    let name: crate::config::ModelName = "mock:demo".parse().unwrap();
    let settings = crate::evals::test_support::model_settings();
    let runner = Runner::new(Arc::new(crate::model::MockModel::new("demo")), &name, &settings);
    let priced = bench_of(Scripted::new(|_| Ok(reply(&["Fine."]))), tenant());
    assert!(priced.observe(&answer("")).await.cost > Usd::ZERO);
    let free = Bench { runner, ..priced };
    assert_eq!(free.observe(&answer("")).await.cost, Usd::ZERO);
}

/// 07/RUN-6: what counts as said before is the history of the case.
#[tokio::test]
async fn repetition_is_judged_against_the_cases_history() {
    let bench = bench_of(Scripted::new(|_| Ok(reply(&["It is $450.00."]))), tenant());
    let said =
        r#", "history": [{"role": "user", "text": "price?"}, {"role": "agent", "text": "It is $450.00."}]"#;
    let repeated = bench.observe(&answer(said)).await;
    assert_eq!(repeated.interventions, ["duplicate_replaced"]);
    let other = said.replace("450", "615");
    assert!(bench.observe(&answer(&other)).await.interventions.is_empty());
}
