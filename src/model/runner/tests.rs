use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, join_all};
use rust_decimal::Decimal;
use serde_json::json;

use super::*;
use crate::domain::Provider;
use crate::model::port::{MessageRole, ModelAnswer, ModelRequest, Part};
use crate::model::registry::resolve;
use crate::model::test_support::{CLOSER, ESCALATION, settings, tenant, tenant_with};

/// A provider that gives one answer, keeps what it was asked, and counts the calls that run at the same time.
struct Scripted {
    answer: Result<ModelAnswer, ModelError>,
    takes: Duration,
    asked: Mutex<Vec<ModelRequest>>,
    running: AtomicUsize,
    most: AtomicUsize,
}

impl Scripted {
    fn new(answer: Result<ModelAnswer, ModelError>) -> Arc<Self> {
        Self::taking(Duration::ZERO, answer)
    }

    fn taking(takes: Duration, answer: Result<ModelAnswer, ModelError>) -> Arc<Self> {
        let asked = Mutex::default();
        Arc::new(Self { answer, takes, asked, running: AtomicUsize::new(0), most: AtomicUsize::new(0) })
    }

    fn asked(&self) -> Vec<ModelRequest> {
        self.asked.lock().unwrap().clone()
    }
}

impl ModelProvider for Scripted {
    fn step(&self, request: ModelRequest) -> BoxFuture<'_, Result<ModelAnswer, ModelError>> {
        self.asked.lock().unwrap().push(request);
        async move {
            let now = self.running.fetch_add(1, Ordering::SeqCst) + 1;
            self.most.fetch_max(now, Ordering::SeqCst);
            if !self.takes.is_zero() {
                tokio::time::sleep(self.takes).await;
            }
            self.running.fetch_sub(1, Ordering::SeqCst);
            self.answer.clone()
        }
        .boxed()
    }
}

const SOME_USAGE: Usage = Usage { input: Some(1000), output: Some(100), cache_read: None, cache_write: None };

fn answered(output: ModelOutput) -> Result<ModelAnswer, ModelError> {
    Ok(ModelAnswer { output, usage: SOME_USAGE })
}

fn object(messages: &[&str]) -> Value {
    json!({
        "messages": messages, "escalate": false, "escalation_reason": null, "confidence": 0.9,
        "closing_question": null,
    })
}

fn runner(provider: &Arc<Scripted>) -> Runner {
    let settings = settings(Provider::Anthropic, "claude-haiku-4-5");
    Runner::new(Arc::<Scripted>::clone(provider), &settings.agent, &settings)
}

fn asking(text: &str) -> TurnInput {
    let tenant = Arc::new(tenant());
    TurnInput {
        system: SystemPrompt::build(&tenant),
        tenant,
        state_lines: Vec::new(),
        texts: vec![ContactText::new(text)],
        history: Vec::new(),
        tools: None,
        spent: Spent::default(),
    }
}

async fn result_of(answer: Result<ModelAnswer, ModelError>) -> TurnResult {
    runner(&Scripted::new(answer)).run(asking("hello")).await
}

/// 01/AC-1, 01/MOCK-1, USE-5, 01/RUN-2: the mock's price answer goes through unchanged; nothing is appended.
#[tokio::test]
async fn the_mock_model_answers_a_question_about_the_price() {
    let runner = resolve(&settings(Provider::Mock, "demo")).unwrap();
    let result = runner.run(asking("how much is the foundation course?")).await;
    assert_eq!(
        result.reply.text(),
        "The Foundation Course is $450.00.\nIt runs 24 hours total. Want the enrolment link?"
    );
    assert_eq!(
        (result.usage.input, result.usage.output, result.usage.cache_read),
        (Some(1200), Some(60), Some(1000))
    );
    assert_eq!(result.cost.get(), Decimal::new(3, 3));
    assert_eq!((result.model.as_str(), result.tools_offered), ("mock:demo", false));
    assert_eq!((result.error, result.cause), (None, None));
    assert_eq!(result.interventions, ["closing_question_already_in_body"]);
}

/// 01/RUN-3, 01/REP-5: an answer in text is read like an object.
#[tokio::test]
async fn text_and_object_are_the_same_answer() {
    let reply = object(&["Hello."]);
    let text = result_of(answered(ModelOutput::Text(format!(" {reply}\n")))).await;
    let object = result_of(answered(ModelOutput::Json(reply))).await;
    assert_eq!(text.reply, object.reply);
    assert_eq!((text.error, text.usage, text.cost), (None, SOME_USAGE, object.cost));
    assert_eq!(object.cost.get(), Decimal::new(15, 4));
}

/// FAIL-3, DEC-4: a reply that shows nothing is none, whatever its question says; the tokens are charged.
#[tokio::test]
async fn a_reply_that_shows_nothing_is_missing() {
    for messages in [&[" "][..], &["\u{200b}"], &["**"], &["```\n```", "---", "\n"]] {
        let mut reply = object(messages);
        reply["closing_question"] = json!("Shall we?");
        let result = result_of(answered(ModelOutput::Json(reply))).await;
        assert_eq!(result.error.as_deref(), Some("reply_missing"), "{messages:?}");
        assert_eq!((result.cause, result.usage), (Some(Cause::Error), SOME_USAGE), "{messages:?}");
        assert_eq!(result.reply.messages, [ESCALATION], "{messages:?}");
    }
}

/// FAIL-1, FAIL-2, FAIL-17, 01/AC-11, 01/REP-9: the handoff, no tokens, no cost, and the name of the failure.
#[tokio::test]
async fn a_provider_failure_hands_off_and_is_named() {
    for (error, name) in
        [(ModelError::Unreachable, "provider_unreachable"), (ModelError::Status(401), "provider_status_401")]
    {
        let result = result_of(Err(error)).await;
        assert_eq!(result.reply, Reply::handoff(ESCALATION, EscalationReason::LowConfidence));
        assert_eq!((result.usage, result.cost), (Usage::default(), Usd::ZERO));
        assert_eq!(result.interventions, [format!("model_error: {name}")]);
        assert_eq!((result.error.as_deref(), result.cause), (Some(name), Some(Cause::Error)));
        assert_eq!(result.model, "anthropic:claude-haiku-4-5");
    }
}

/// FAIL-3, DEC-19: an answer that is no reply fails closed; the tokens that were reported are charged.
#[tokio::test]
async fn an_unusable_answer_hands_off_and_is_charged() {
    let four = object(&["1", "2", "3", "4"]);
    let cases = [
        (ModelOutput::Missing, "reply_missing"),
        (ModelOutput::Text(" \n".to_owned()), "reply_missing"),
        (ModelOutput::Text("I would rather not answer in JSON.".to_owned()), "reply_invalid"),
        (ModelOutput::Text("{\"messages\": [\"cut".to_owned()), "reply_invalid"),
        (ModelOutput::Json(json!({ "messages": ["no other key"] })), "reply_invalid"),
        (ModelOutput::Json(four), "reply_invalid"),
    ];
    for (output, name) in cases {
        let result = result_of(answered(output.clone())).await;
        assert_eq!(result.error.as_deref(), Some(name), "{output:?}");
        assert_eq!(result.interventions, [format!("model_error: {name}")]);
        assert_eq!(result.reply.messages, [ESCALATION]);
        assert_eq!((result.usage, result.cost.get()), (SOME_USAGE, Decimal::new(15, 4)));
        assert_eq!(result.cause, Some(Cause::Error));
    }
}

/// FAIL-17: what the operator is told names the place of the fault and holds no word of the answer.
#[tokio::test]
async fn the_detail_of_a_failure_names_the_place() {
    let mut wrong = object(&["Secret words."]);
    wrong["confidence"] = json!("Secret number");
    let detail = result_of(answered(ModelOutput::Json(wrong))).await.error_detail.unwrap();
    assert!(detail.contains(" at confidence:") && !detail.contains("Secret"), "{detail}");
}

/// FAIL-4, 01/REP-5: a reason that disagrees is no failed call; the guardrails hand it off.
#[tokio::test]
async fn a_disagreeing_reason_is_judged_by_the_guardrails() {
    let mut muddled = object(&["Well."]);
    muddled["escalation_reason"] = json!("complaint");
    let result = result_of(answered(ModelOutput::Json(muddled))).await;
    assert_eq!((result.error, result.cause), (None, Some(Cause::Schema)));
    assert_eq!(result.interventions, ["schema_invalid: escalation_reason"]);
    assert_eq!(result.usage, SOME_USAGE);
}

/// GUARD-12, DEC-18: the guardrails compare with every agent turn, also one the request leaves out.
#[tokio::test]
async fn repetition_is_judged_against_all_agent_turns() {
    let provider = Scripted::new(answered(ModelOutput::Json(object(&["Welcome."]))));
    let tenant = Arc::new(tenant_with(|tenant| tenant.rules.messages.closer = Some(CLOSER.to_owned())));
    let turn = |role, text: &str| HistoryTurn { role, text: ContactText::new(text), actions: None };
    let history = vec![turn(Role::Agent, "Welcome."), turn(Role::User, "hi"), turn(Role::Agent, "Yes?")];
    let result = runner(&provider).run(TurnInput { tenant, history, ..asking("start") }).await;
    assert_eq!(result.reply.messages, [CLOSER]);
    assert_eq!(result.interventions, ["duplicate_replaced"]);
    let roles: Vec<MessageRole> = provider.asked()[0].messages.iter().map(|message| message.role).collect();
    assert_eq!(roles, [MessageRole::User, MessageRole::Assistant, MessageRole::User]);
}

/// GUARD-12: words of the contact are no earlier reply.
#[tokio::test]
async fn a_reply_may_repeat_the_contact() {
    let provider = Scripted::new(answered(ModelOutput::Json(object(&["On Mondays."]))));
    let turn = HistoryTurn { role: Role::User, text: ContactText::new("on mondays."), actions: None };
    let result = runner(&provider).run(TurnInput { history: vec![turn], ..asking("right?") }).await;
    assert!(result.interventions.is_empty());
}

/// PROMPT-4, 01/AC-6, PRIN-C4: two contacts, one system part, in which nothing of either stands.
#[tokio::test]
async fn nothing_of_a_turn_enters_the_system_part() {
    let provider = Scripted::new(answered(ModelOutput::Json(object(&["Hello."]))));
    let runner = runner(&provider);
    runner.run(TurnInput { state_lines: vec!["FUNNEL: qualifying".to_owned()], ..asking("marmalade") }).await;
    runner.run(asking("papaya")).await;
    let asked = provider.asked();
    assert_eq!(asked[0].system, asked[1].system);
    for word in ["marmalade", "papaya", "FUNNEL"] {
        assert!(!asked[0].system.contains(word), "{word}");
    }
    let parts = &asked[0].messages.last().unwrap().parts;
    assert_eq!(parts[0], Part::Text("FUNNEL: qualifying".to_owned()));
    assert!(matches!(&parts[1], Part::Contact(fenced) if fenced.inner() == "marmalade"));
}

/// 01/RUN-10, 01/AC-16
#[tokio::test]
async fn reasoning_models_get_no_temperature() {
    let cases = [
        (Provider::OpenAi, "gpt-5-mini", None),
        (Provider::OpenAi, "o3", None),
        (Provider::OpenAi, "o4-mini", None),
        (Provider::OpenAi, "gpt-4o-mini", Some(0.3)),
        (Provider::OpenAi, "openai/gpt-5-mini", None),
        (Provider::OpenAi, "ft:o4-mini:org::id", None),
        (Provider::OpenAi, "ft:gpt-4o-mini:org::id", Some(0.3)),
        (Provider::OpenAi, "omni", Some(0.3)),
        (Provider::Ollama, "gpt-5", Some(0.3)),
        (Provider::Anthropic, "claude-haiku-4-5", Some(0.3)),
    ];
    for (vendor, model, temperature) in cases {
        let provider = Scripted::new(answered(ModelOutput::Missing));
        let mut settings = settings(vendor, model);
        settings.reasoning_effort = Some(ReasoningEffort::Low);
        Runner::new(Arc::<Scripted>::clone(&provider), &settings.agent, &settings).run(asking("hi")).await;
        let request = &provider.asked()[0];
        assert_eq!(request.temperature, temperature, "{model}");
        assert_eq!((request.max_output_tokens, request.reasoning_effort), (400, Some(ReasoningEffort::Low)));
    }
}

/// USE-4, 01/AC-12: a local model costs nothing.
#[tokio::test]
async fn a_local_model_costs_nothing() {
    let provider = Scripted::new(answered(ModelOutput::Json(object(&["Hello."]))));
    let settings = settings(Provider::Ollama, "llama3.1:8b");
    let runner = Runner::new(Arc::<Scripted>::clone(&provider), &settings.agent, &settings);
    let result = runner.run(asking("hi")).await;
    assert_eq!((result.cost, result.usage), (Usd::ZERO, SOME_USAGE));
}

/// DEC-27: no more calls at a time than allowed; those that wait are answered too, and their wait is latency.
#[tokio::test(start_paused = true)]
async fn calls_wait_for_a_free_place() {
    let provider = Scripted::taking(Duration::from_secs(1), answered(ModelOutput::Json(object(&["Hello."]))));
    let mut settings = settings(Provider::Anthropic, "claude-haiku-4-5");
    settings.max_concurrent = 2;
    let runner = Runner::new(Arc::<Scripted>::clone(&provider), &settings.agent, &settings);
    let results = join_all((0..5).map(|_| runner.run(asking("hi")))).await;
    assert_eq!(provider.most.load(Ordering::SeqCst), 2);
    let mut seconds: Vec<u64> = results.iter().map(|result| result.latency.as_secs()).collect();
    seconds.sort_unstable();
    assert_eq!(seconds, [1, 1, 2, 2, 3]);
}

/// 01/RUN-13, 01/RUN-14, DEC-27: a dropped turn is no result, and it gives its place back.
#[tokio::test(start_paused = true)]
async fn an_aborted_turn_frees_its_place() {
    let provider =
        Scripted::taking(Duration::from_secs(60), answered(ModelOutput::Json(object(&["Hello."]))));
    let mut settings = settings(Provider::Anthropic, "claude-haiku-4-5");
    settings.max_concurrent = 1;
    let runner = Runner::new(Arc::<Scripted>::clone(&provider), &settings.agent, &settings);
    for _ in 0..3 {
        assert!(tokio::time::timeout(Duration::from_secs(1), runner.run(asking("hi"))).await.is_err());
    }
    assert_eq!(provider.asked().len(), 3);
    assert_eq!((runner.report().running, runner.report().waiting), (0, 0));
}

/// A runner whose first model is `openai:gpt-4o-mini` and whose fallback is the cheap `anthropic:claude-haiku-4-5`.
fn runner_of_two(first: &Arc<Scripted>, fallback: &Arc<Scripted>) -> Runner {
    let openai = settings(Provider::OpenAi, "gpt-4o-mini");
    let anthropic = settings(Provider::Anthropic, "claude-haiku-4-5");
    Runner::new(Arc::<Scripted>::clone(first), &openai.agent, &openai).with_fallback(
        Arc::<Scripted>::clone(fallback),
        &anthropic.agent,
        &openai,
    )
}

/// DEC-10, PROV-9, USE-3: the second model is asked the same thing once, and the turn is its turn.
#[tokio::test]
async fn the_fallback_is_tried_when_the_provider_fails() {
    let failures =
        [ModelError::Unreachable].into_iter().chain([408, 429, 500, 503, 529].map(ModelError::Status));
    for failure in failures {
        let first = Scripted::new(Err(failure));
        let fallback = Scripted::new(answered(ModelOutput::Json(object(&["Hello."]))));
        let result = runner_of_two(&first, &fallback).run(asking("hi")).await;
        assert_eq!((result.reply.text().as_str(), result.error), ("Hello.", None));
        assert_eq!(result.model, "anthropic:claude-haiku-4-5");
        assert_eq!((result.usage, result.cost.get()), (SOME_USAGE, Decimal::new(15, 4)));
        let (asked, again) = (first.asked(), fallback.asked());
        assert_eq!((asked.len(), again.len()), (1, 1));
        assert_eq!(asked[0].messages, again[0].messages);
    }
}

/// DEC-10: what the request or the model itself did wrong would go wrong again.
#[tokio::test]
async fn the_fallback_is_not_tried_for_a_fault_of_the_request() {
    let refused = [400, 401, 403, 404, 413, 422].map(|code| Err(ModelError::Status(code)));
    let unusable = [answered(ModelOutput::Missing), answered(ModelOutput::Json(json!({})))];
    for outcome in refused.into_iter().chain(unusable) {
        let (first, fallback) = (Scripted::new(outcome), Scripted::new(answered(ModelOutput::Missing)));
        let result = runner_of_two(&first, &fallback).run(asking("hi")).await;
        assert_eq!(result.reply.messages, [ESCALATION]);
        assert_eq!((result.model.as_str(), fallback.asked().len()), ("openai:gpt-4o-mini", 0));
    }
}

/// DEC-10, FAIL-2: when both are down the turn hands off, once.
#[tokio::test]
async fn two_models_that_are_down_hand_off() {
    let first = Scripted::new(Err(ModelError::Unreachable));
    let fallback = Scripted::new(Err(ModelError::Status(503)));
    let result = runner_of_two(&first, &fallback).run(asking("hi")).await;
    assert_eq!(result.interventions, ["model_error: provider_status_503"]);
    assert_eq!((result.model.as_str(), fallback.asked().len()), ("anthropic:claude-haiku-4-5", 1));
}

/// DEC-27, FAIL-17: after five failures in a row the provider is left alone for 30 s; turns hand off at once and tell
/// why it is left alone.
#[tokio::test(start_paused = true)]
async fn a_provider_that_keeps_failing_is_left_alone() {
    let provider = Scripted::new(Err(ModelError::Status(503)));
    let runner = runner(&provider);
    for _ in 0..7 {
        let result = runner.run(asking("hi")).await;
        assert_eq!(result.error.as_deref(), Some("provider_status_503"));
        assert_eq!(result.reply.messages, [ESCALATION]);
    }
    assert_eq!(provider.asked().len(), 5);
    tokio::time::advance(Duration::from_secs(30)).await;
    runner.run(asking("hi")).await;
    assert_eq!(provider.asked().len(), 6);
}

/// DEC-27: while the breaker is open calls go to the fallback at once.
#[tokio::test(start_paused = true)]
async fn an_open_breaker_leaves_the_fallback_answering() {
    let first = Scripted::new(Err(ModelError::Unreachable));
    let fallback = Scripted::new(answered(ModelOutput::Json(object(&["Hello."]))));
    let runner = runner_of_two(&first, &fallback);
    for _ in 0..7 {
        assert_eq!(runner.run(asking("hi")).await.error, None);
    }
    assert_eq!((first.asked().len(), fallback.asked().len()), (5, 7));
}

/// DEC-27: refusals and unusable replies show that the provider works.
#[tokio::test(start_paused = true)]
async fn a_provider_that_answers_is_not_left_alone() {
    for outcome in
        [Err(ModelError::Status(400)), Err(ModelError::Status(401)), answered(ModelOutput::Missing)]
    {
        let provider = Scripted::new(outcome);
        let runner = runner(&provider);
        for _ in 0..7 {
            runner.run(asking("hi")).await;
        }
        assert_eq!(provider.asked().len(), 7);
    }
}

/// DEC-27, 01/RUN-13: a provider that hangs fails too, though only the abort ends its calls; a call that was given up
/// early says nothing about it.
#[tokio::test(start_paused = true)]
async fn a_provider_that_hangs_is_left_alone() {
    for (patience, expected) in [(30, 5), (4, 7)] {
        let hours = Duration::from_secs(7200);
        let provider = Scripted::taking(hours, answered(ModelOutput::Json(object(&["Hello."]))));
        let runner = runner(&provider);
        let mut refused = 0;
        for _ in 0..7 {
            let limited = tokio::time::timeout(Duration::from_secs(patience), runner.run(asking("hi")));
            if let Ok(result) = limited.await {
                assert_eq!(result.error.as_deref(), Some("provider_unreachable"));
                assert_eq!(result.latency, Duration::ZERO);
                refused += 1;
            }
        }
        assert_eq!((provider.asked().len(), refused), (expected, 7 - expected), "after {patience} s");
    }
}

/// DEC-10: a first model that hangs has timed out after half of the abort bound, and the fallback answers within it.
/// Without a fallback only the abort ends a call.
#[tokio::test(start_paused = true)]
async fn a_model_that_hangs_leaves_time_for_the_fallback() {
    let abort = Duration::from_secs(30);
    let hours = Duration::from_secs(7200);
    let first = Scripted::taking(hours, answered(ModelOutput::Missing));
    let fallback = Scripted::new(answered(ModelOutput::Json(object(&["Hello."]))));
    let both = runner_of_two(&first, &fallback).within(abort);
    let result = tokio::time::timeout(abort, both.run(asking("hi"))).await.unwrap();
    assert_eq!((result.reply.text().as_str(), result.latency), ("Hello.", abort / 2));
    assert_eq!(result.model, "anthropic:claude-haiku-4-5");
    let alone = runner(&first).within(abort);
    assert!(tokio::time::timeout(abort, alone.run(asking("hi"))).await.is_err());
}

/// 01/RUN-16, DEC-10: a wait that a provider asks for may last until the abort, but not while another model could answer;
/// the fallback is tried once.
#[tokio::test(start_paused = true)]
async fn retries_have_less_time_while_another_model_stands_by() {
    let abort = Duration::from_secs(30);
    let first = Scripted::new(Err(ModelError::Unreachable));
    let fallback = Scripted::new(answered(ModelOutput::Json(object(&["Hello."]))));
    runner_of_two(&first, &fallback).within(abort).run(asking("hi")).await;
    runner(&first).within(abort).run(asking("hi")).await;
    let within: Vec<_> =
        first.asked().iter().chain(&fallback.asked()).map(|request| request.retry_within).collect();
    assert_eq!(within, [Some(Duration::from_secs(5)), Some(abort), Some(Duration::ZERO)]);
}

/// DEC-27, ARC-24: after the pause one call finds out whether the provider works again, the others are refused
/// meanwhile; all of it can be seen.
#[tokio::test(start_paused = true)]
async fn one_call_probes_a_provider_that_failed() {
    let provider = Scripted::taking(Duration::from_secs(1), Err(ModelError::Status(503)));
    let runner = runner(&provider);
    let breaker = || runner.report().models[0].breaker;
    assert_eq!(breaker(), "closed");
    for _ in 0..5 {
        runner.run(asking("hi")).await;
    }
    assert_eq!((breaker(), runner.report().models[0].failures), ("open", 5));
    tokio::time::advance(Duration::from_secs(30)).await;
    assert_eq!(breaker(), "probing");
    let results = join_all((0..4).map(|_| runner.run(asking("hi")))).await;
    assert!(results.iter().all(|result| result.error.as_deref() == Some("provider_status_503")));
    assert_eq!((provider.asked().len(), breaker()), (6, "open"));
}

/// 02 section 14: what a turn takes is known from the turns before it.
#[tokio::test]
async fn typical_turns_are_learnt() {
    let provider = Scripted::new(answered(ModelOutput::Json(object(&["Hello."]))));
    let runner = runner(&provider);
    let input = asking("hi");
    let guess = runner.typical_turn(&input.system);
    assert!(guess.tokens > 400 && guess.cost > Usd::ZERO, "{guess:?}");
    let result = runner.run(input.clone()).await;
    let typical = runner.typical_turn(&input.system);
    assert_eq!((typical.tokens, typical.cost), (1100, result.cost));
}

/// LOG-9, PRIN-C5
#[tokio::test]
async fn debug_shows_no_words() {
    let provider = Scripted::new(answered(ModelOutput::Json(object(&["Secret answer."]))));
    let turn = HistoryTurn { role: Role::User, text: ContactText::new("Secret past"), actions: None };
    let input = TurnInput {
        tenant: Arc::new(tenant_with(|tenant| tenant.prompt = "Secret persona".to_owned())),
        state_lines: vec!["Secret state".to_owned()],
        history: vec![turn],
        ..asking("Secret words")
    };
    let runner = runner(&provider);
    let printed = format!("{input:?} {runner:?}");
    let result = runner.run(input).await;
    let printed = format!("{printed} {result:?} {:?}", provider.asked());
    assert!(!printed.contains("Secret"), "{printed}");
}
