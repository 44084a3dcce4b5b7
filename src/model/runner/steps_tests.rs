use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use rust_decimal::Decimal;
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use super::*;
use crate::config::{Tenant, demo};
use crate::domain::{ContactText, Provider};
use crate::manychat::ContactInfo;
use crate::model::port::{ModelAnswer, ModelProvider, Usage};
use crate::model::prompt::SystemPrompt;
use crate::model::runner::TurnResult;
use crate::model::spent::Spent;
use crate::model::test_support::{ESCALATION, offer_of, settings, shop, tools_of};
use crate::tools::{
    Action, ActionNumber, Ending, Entry, FlowMode, Offer, Reach, ReadFailure, Status, TurnTools,
};

type Outcome = Result<ModelAnswer, ModelError>;

/// Gives one outcome for each call, and keeps what it was asked; with none left it never answers.
struct Script {
    outcomes: Mutex<VecDeque<Outcome>>,
    asked: Mutex<Vec<ModelRequest>>,
}

impl Script {
    fn new(outcomes: impl IntoIterator<Item = Outcome>) -> Arc<Self> {
        Arc::new(Self { outcomes: Mutex::new(outcomes.into_iter().collect()), asked: Mutex::default() })
    }

    fn asked(&self) -> Vec<ModelRequest> {
        self.asked.lock().unwrap().clone()
    }
}

impl ModelProvider for Script {
    fn step(&self, request: ModelRequest) -> BoxFuture<'_, Outcome> {
        self.asked.lock().unwrap().push(request);
        let outcome = self.outcomes.lock().unwrap().pop_front();
        async move {
            match outcome {
                Some(outcome) => outcome,
                None => std::future::pending().await,
            }
        }
        .boxed()
    }
}

/// Accepts every flow once `open` has a permit for it.
struct Messenger {
    open: Arc<Semaphore>,
    sent: Mutex<Vec<String>>,
}

impl Messenger {
    fn new(permits: usize) -> Arc<Self> {
        Arc::new(Self { open: Arc::new(Semaphore::new(permits)), sent: Mutex::default() })
    }
}

impl Reach for Messenger {
    fn send(&self, _number: ActionNumber, action: Action) -> BoxFuture<'static, Vec<Entry>> {
        let Action::SendFlow { id, .. } = action else { panic!("only flows are sent: {action:?}") };
        self.sent.lock().unwrap().push(id.clone());
        let open = Arc::clone(&self.open);
        async move {
            open.acquire().await.unwrap().forget();
            vec![performed(&id)]
        }
        .boxed()
    }

    fn read(&self) -> BoxFuture<'static, Result<ContactInfo, ReadFailure>> {
        std::future::ready(Err(ReadFailure { class: "unreachable", timed_out: false })).boxed()
    }
}

fn performed(flow: &str) -> Entry {
    let entry = json!({ "tool": "send_flow", "id": flow, "status": Status::Performed });
    serde_json::from_value(entry).unwrap()
}

/// Heading of a section of ours.
const OPERATING_RULES: &str = "OPERATING RULES";

const USAGE: Usage = Usage { input: Some(1000), output: Some(100), cache_read: None, cache_write: None };

fn answered(output: ModelOutput) -> Outcome {
    Ok(ModelAnswer { output, usage: USAGE })
}

fn replied(text: &str) -> Outcome {
    answered(ModelOutput::Json(json!({
        "messages": [text], "escalate": false, "escalation_reason": null, "confidence": 0.9,
        "closing_question": null,
    })))
}

/// An answer that calls; without arguments the call cannot be read.
fn called(calls: &[(&str, Option<Value>)]) -> Outcome {
    let calls = calls.iter().enumerate().map(|(index, (name, arguments))| ToolCall {
        id: format!("id{index}"),
        name: (*name).to_owned(),
        arguments: arguments.clone(),
    });
    answered(ModelOutput::Calls(ToolCalls { calls: calls.collect(), opaque: None }))
}

fn tags(tag: &str) -> (&'static str, Option<Value>) {
    ("add_tag", Some(json!({ "tag": tag })))
}

fn sends(flow: &str) -> (&'static str, Option<Value>) {
    ("send_flow", Some(json!({ "flow": flow })))
}

/// A turn of the shop's contact with its tools.
fn turn(text: &str, flows: FlowMode) -> (TurnInput, Arc<TurnTools>) {
    turn_of(shop(), text, flows)
}

fn turn_of(tenant: Tenant, text: &str, flows: FlowMode) -> (TurnInput, Arc<TurnTools>) {
    let tenant = Arc::new(tenant);
    let tools = tools_of(&tenant, flows);
    let input = TurnInput {
        system: SystemPrompt::build(&tenant),
        tenant,
        state_lines: Vec::new(),
        texts: vec![ContactText::new(text)],
        history: Vec::new(),
        tools: Some(Arc::clone(&tools)),
        spent: Spent::default(),
    };
    (input, tools)
}

fn staging() -> (TurnInput, Arc<TurnTools>) {
    turn("hello", FlowMode::Staged)
}

fn runner(provider: &Arc<Script>) -> Runner {
    let settings = settings(Provider::Anthropic, "claude-haiku-4-5");
    Runner::new(Arc::<Script>::clone(provider), &settings.agent, &settings)
}

fn runner_of_two(first: &Arc<Script>, fallback: &Arc<Script>) -> Runner {
    let openai = settings(Provider::OpenAi, "nobody-priced-it");
    let anthropic = settings(Provider::Anthropic, "claude-haiku-4-5");
    Runner::new(Arc::<Script>::clone(first), &openai.agent, &openai).with_fallback(
        Arc::<Script>::clone(fallback),
        &anthropic.agent,
        &openai,
    )
}

fn results_in(message: &ModelMessage) -> Vec<(&str, &Value, bool)> {
    assert_eq!(message.role, MessageRole::ToolResults);
    message.parts.iter().map(result_in).collect()
}

fn result_in(part: &Part) -> (&str, &Value, bool) {
    let Part::Result(result) = part else { panic!("no result: {part:?}") };
    (result.call_id.as_str(), &result.content, result.is_error)
}

fn note_in(message: &ModelMessage) -> &str {
    assert_eq!(message.role, MessageRole::StepNote);
    message.parts[0].as_text().unwrap()
}

fn charged(result: &TurnResult) -> (Option<u64>, Option<u64>) {
    (result.usage.input, result.usage.output)
}

/// 01/RUN-4, LOOP-1, LOOP-5, LOOP-6: calls, their results, and the reply that ends the loop; all steps are charged.
#[tokio::test]
async fn a_reply_after_calls_ends_the_loop() {
    let provider = Script::new([called(&[tags("likes_glaze"), tags("has_kiln")]), replied("Noted.")]);
    let (input, tools) = staging();
    let result = runner(&provider).run(input).await;
    assert_eq!((result.reply.text().as_str(), result.error.as_deref()), ("Noted.", None));
    assert_eq!((charged(&result), result.tools_offered), ((Some(2000), Some(200)), true));
    assert_eq!(result.cost.get(), Decimal::new(3, 3));
    let asked = provider.asked();
    assert_eq!(asked.len(), 2);
    assert_eq!(asked[0].tools, tools.definitions());
    let [original, calls, results] = asked[1].messages.as_slice() else { panic!("{:?}", asked[1]) };
    assert_eq!(std::slice::from_ref(original), asked[0].messages);
    assert!(matches!(&calls.parts[..], [Part::Calls(calls)] if calls.calls.len() == 2));
    let staged = json!({ "staged": true });
    assert_eq!(results_in(results), [("id0", &staged, false), ("id1", &staged, false)]);
    assert_eq!(tools.finish(Ending::Answered).await.staged.len(), 2);
}

/// 01/AC-14, 01/RUN-6, LOOP-2, STATE-7: the fourth step offers nothing and sees a note in place of the calls.
#[tokio::test]
async fn the_fourth_step_must_reply() {
    let again = || called(&[tags("likes_glaze")]);
    let provider = Script::new([again(), again(), again(), replied("Noted.")]);
    let (input, _tools) = staging();
    let result = runner(&provider).run(input).await;
    assert_eq!((result.reply.text().as_str(), charged(&result).0), ("Noted.", Some(4000)));
    let asked = provider.asked();
    let offered: Vec<bool> = asked.iter().map(|request| !request.tools.is_empty()).collect();
    assert_eq!(offered, [true, true, true, false]);
    assert_eq!(asked[2].messages.len(), 5);
    let [original, note] = asked[3].messages.as_slice() else { panic!("{:?}", asked[3]) };
    assert_eq!(original, &asked[0].messages[0]);
    assert!(note_in(note).contains("ACTIONS: add_tag likes_glaze."), "{}", note_in(note));
}

/// LOOP-3, 01/RUN-8: whatever is no reply in the last step fails closed, and every step is charged.
#[tokio::test]
async fn no_reply_after_the_last_step_fails_closed() {
    let again = || called(&[tags("likes_glaze")]);
    let endings = [
        (again(), "reply_missing"),
        (answered(ModelOutput::Missing), "reply_missing"),
        (answered(ModelOutput::Text("well".to_owned())), "reply_invalid"),
    ];
    for (ending, name) in endings {
        let provider = Script::new([again(), again(), again(), ending]);
        let result = runner(&provider).run(staging().0).await;
        assert_eq!(result.reply.messages, [ESCALATION]);
        assert_eq!((result.error.as_deref(), charged(&result)), (Some(name), (Some(4000), Some(400))));
        assert_eq!(provider.asked().len(), 4);
    }
}

/// FAIL-13, USE-1, DEC-19: tokens of the steps before a failure are charged.
#[tokio::test]
async fn a_failure_in_a_later_step_forgets_no_tokens() {
    let provider = Script::new([called(&[tags("likes_glaze")]), Err(ModelError::Status(401))]);
    let result = runner(&provider).run(staging().0).await;
    assert_eq!(result.error.as_deref(), Some("provider_status_401"));
    assert_eq!((charged(&result), result.cost.get()), ((Some(1000), Some(100)), Decimal::new(15, 4)));
    assert!(result.tools_offered);
}

/// 01/RUN-7, TSET-14: what cannot be read, names no tool or does not fit is answered with an error; the rest stands.
#[tokio::test]
async fn invalid_calls_are_answered_with_errors() {
    let wrong = ("add_tag", Some(json!({ "tag": "nobody_knows" })));
    let calls = [("add_tag", None), tags("has_kiln"), ("fly", Some(json!({}))), wrong];
    let provider = Script::new([called(&calls), replied("Noted.")]);
    let (input, tools) = staging();
    assert_eq!(runner(&provider).run(input).await.error, None);
    let asked = provider.asked();
    let results = results_in(asked[1].messages.last().unwrap());
    let errors: Vec<bool> = results.iter().map(|(_, _, is_error)| *is_error).collect();
    assert_eq!(errors, [true, false, true, true]);
    assert_eq!((results[1].0, results[1].1), ("id1", &json!({ "staged": true })));
    assert!(results[0].1["error"].is_string());
    assert_eq!(tools.finish(Ending::Answered).await.staged.len(), 1);
}

/// 08/NOTE-1, GUARD-4, PROMPT-7: a note with a passage of the prompt is refused, whatever spelling it has, and stands in the
/// way of no other call; a note about the contact is taken.
#[tokio::test]
async fn a_note_that_gives_the_prompt_away_is_refused() {
    let mut tenant = shop();
    tenant.tools.get_or_insert_default().notes = demo::tenant().unwrap().tools.unwrap().notes;
    let (input, tools) = turn_of(tenant, "hello", FlowMode::Staged);
    let prompt = input.system.text();
    let begin = prompt.find(OPERATING_RULES).unwrap() + OPERATING_RULES.len();
    let passage: String = prompt[begin..].chars().take(300).collect();
    let writes = |text: &str| (WRITE_NOTE, Some(json!({ "note": "aim", "text": text })));
    let backward: String = passage.chars().rev().collect();
    let calls = [writes(&passage), tags("has_kiln"), writes(&backward), writes("Likes blue glaze.")];
    let provider = Script::new([called(&calls), replied("Noted.")]);
    assert_eq!(runner(&provider).run(input).await.error, None);
    let asked = provider.asked();
    let results = results_in(asked[1].messages.last().unwrap());
    let (no, yes) = (json!({ "staged": false }), json!({ "staged": true }));
    let expected = [("id0", &no, false), ("id1", &yes, false), ("id2", &no, false), ("id3", &yes, false)];
    assert_eq!(results, expected);
    assert_eq!(tools.finish(Ending::Answered).await.staged.len(), 2);
}

/// 01/RUN-7: a model that tried to call and named nothing goes on from where it was.
#[tokio::test]
async fn a_call_that_names_nothing_is_no_end() {
    let provider = Script::new([called(&[]), replied("Hello.")]);
    let result = runner(&provider).run(staging().0).await;
    assert_eq!((result.reply.text().as_str(), charged(&result).0), ("Hello.", Some(2000)));
    let asked = provider.asked();
    assert_eq!(asked[0].messages, asked[1].messages);
}

/// TSET-7, 01/RUN-3, 08/REC-1: with nothing to offer there is one step, and calls are no reply.
#[tokio::test]
async fn without_an_offer_there_is_one_step() {
    let none = TurnInput { tools: None, ..staging().0 };
    let provider = Script::new([called(&[tags("likes_glaze")]), replied("never asked")]);
    let result = runner(&provider).run(none).await;
    assert_eq!((result.error.as_deref(), result.tools_offered), (Some("reply_missing"), false));
    assert_eq!(provider.asked().len(), 1);
}

/// DEC-10: the second model goes on with the same tools: it is told what was done, sees no call of the first, and a call
/// for the same does nothing twice. Each model's tokens have their own price.
#[tokio::test]
async fn the_fallback_goes_on_without_repeating() {
    let first = Script::new([called(&[tags("likes_glaze")]), Err(ModelError::Status(503))]);
    let fallback = Script::new([called(&[tags("likes_glaze"), tags("has_kiln")]), replied("Noted.")]);
    let (input, tools) = staging();
    let result = runner_of_two(&first, &fallback).run(input).await;
    assert_eq!(
        (result.reply.text().as_str(), result.model.as_str()),
        ("Noted.", "anthropic:claude-haiku-4-5")
    );
    assert_eq!((first.asked().len(), charged(&result).0), (2, Some(3000)));
    // 0.0075 for a step of a model nobody priced, 0.0015 for each of the other's.
    assert_eq!(result.cost.get(), Decimal::new(105, 4));

    let asked = fallback.asked();
    let [original, note] = asked[0].messages.as_slice() else { panic!("{:?}", asked[0]) };
    assert_eq!(std::slice::from_ref(original), first.asked()[0].messages);
    assert!(note_in(note).contains("add_tag likes_glaze"));
    assert!(!note_in(note).contains("Write the reply now."));
    assert_eq!((asked[0].tools.is_empty(), asked[1].messages.len()), (false, 4));
    let staged = tools.finish(Ending::Answered).await.staged;
    let ids: Vec<Action> = staged.into_iter().map(|staged| staged.action).collect();
    assert!(matches!(&ids[..], [Action::AddTag { id: one, .. }, Action::AddTag { id: two, .. }]
        if one == "likes_glaze" && two == "has_kiln"));
}

/// DEC-10: nothing was done, so there is nothing to tell; and there is no third model.
#[tokio::test]
async fn the_fallback_begins_afresh_when_nothing_was_done() {
    let first = Script::new([called(&[("fly", Some(json!({})))]), Err(ModelError::Unreachable)]);
    let fallback = Script::new([Err(ModelError::Status(503))]);
    let result = runner_of_two(&first, &fallback).run(staging().0).await;
    assert_eq!(result.interventions, ["model_error: provider_status_503"]);
    assert_eq!(fallback.asked()[0].messages, first.asked()[0].messages);
    assert_eq!(charged(&result).0, Some(1000));
}

/// DEC-10: in the last step the fallback gets the note of that step.
#[tokio::test]
async fn the_fallback_replies_in_the_last_step() {
    let again = || called(&[tags("likes_glaze")]);
    let first = Script::new([again(), again(), again(), Err(ModelError::Unreachable)]);
    let fallback = Script::new([replied("Noted.")]);
    let result = runner_of_two(&first, &fallback).run(staging().0).await;
    assert_eq!(result.reply.text(), "Noted.");
    let (last, asked) = (first.asked().pop().unwrap(), fallback.asked());
    assert_eq!((&asked[0].messages, asked[0].tools.len()), (&last.messages, 0));
}

/// DEC-10, LOOP-4: one abort bound covers all steps; a step that hangs late still leaves half of the rest.
#[tokio::test(start_paused = true)]
async fn a_step_that_hangs_late_leaves_time_for_the_fallback() {
    let abort = Duration::from_secs(30);
    let first = Script::new([called(&[sends("leaflet")])]);
    let fallback = Script::new([replied("Have a look.")]);
    let messenger = Messenger::new(0);
    let (input, _) = turn("hello", FlowMode::AtCall(Arc::<Messenger>::clone(&messenger) as Arc<dyn Reach>));
    let playing = async {
        tokio::time::sleep(Duration::from_secs(14)).await;
        messenger.open.add_permits(1);
    };
    let runner = runner_of_two(&first, &fallback).within(abort);
    let (result, ()) = tokio::join!(tokio::time::timeout(abort, runner.run(input)), playing);
    let result = result.unwrap();
    assert_eq!((result.reply.text().as_str(), result.latency.as_secs()), ("Have a look.", 22));
    assert!(note_in(&fallback.asked()[0].messages[1]).starts_with("SENT: send_flow leaflet."));
}

/// ARC-46, DEC-10: the second run of a turn is told what the first has sent, and does not send it again.
#[tokio::test]
async fn a_second_run_is_told_what_was_sent() {
    let provider = Script::new([called(&[sends("leaflet")]), replied("Have a look.")]);
    let messenger = Messenger::new(9);
    let (mut input, _) = turn("hello", FlowMode::Staged);
    let tools = TurnTools::new(Offer {
        earlier: vec![performed("leaflet")],
        ..offer_of(&input.tenant, FlowMode::AtCall(Arc::<Messenger>::clone(&messenger) as Arc<dyn Reach>))
    });
    input.tools = Some(Arc::new(tools));
    assert_eq!(runner(&provider).run(input).await.reply.text(), "Have a look.");
    let asked = provider.asked();
    assert!(note_in(&asked[0].messages[1]).starts_with("SENT: send_flow leaflet."));
    assert_eq!(results_in(asked[1].messages.last().unwrap())[0].1, &json!({ "sent": true }));
    assert!(messenger.sent.lock().unwrap().is_empty());
}

/// DEC-27: a turn whose flow is being sent holds no place; another turn is answered meanwhile.
#[tokio::test]
async fn a_flow_is_sent_without_holding_a_place() {
    let provider = Script::new([called(&[sends("leaflet")]), replied("One."), replied("Two.")]);
    let messenger = Messenger::new(0);
    let mut settings = settings(Provider::Anthropic, "claude-haiku-4-5");
    settings.max_concurrent = 1;
    let runner = Runner::new(Arc::<Script>::clone(&provider), &settings.agent, &settings);
    let (sending, _) = turn("hello", FlowMode::AtCall(Arc::<Messenger>::clone(&messenger) as Arc<dyn Reach>));
    let sending = runner.run(sending);
    tokio::pin!(sending);
    assert!(sending.as_mut().now_or_never().is_none(), "the flow is on its way");
    assert_eq!(runner.run(staging().0).await.reply.text(), "One.");
    messenger.open.add_permits(1);
    assert_eq!(sending.await.reply.text(), "Two.");
    assert_eq!(*messenger.sent.lock().unwrap(), ["leaflet"]);
    let asked = provider.asked();
    let results = results_in(asked[2].messages.last().unwrap());
    assert_eq!(results, [("id0", &json!({ "sent": true }), false)]);
}

/// 01/RUN-1, 01/RUN-13, 01/RUN-14, DEC-19: a turn that is aborted in its second step has a bill and knows what it staged.
#[tokio::test(start_paused = true)]
async fn an_aborted_turn_leaves_its_bill() {
    let provider = Script::new([called(&[tags("likes_glaze")])]);
    let (input, tools) = staging();
    let spent = input.spent.clone();
    let runner = runner(&provider);
    let limited = tokio::time::timeout(Duration::from_secs(1), runner.run(input)).await;
    assert!(limited.is_err());
    let bill = spent.bill();
    assert_eq!((bill.usage, bill.cost.get()), (USAGE, Decimal::new(15, 4)));
    assert_eq!((bill.model.as_str(), bill.tools_offered), ("anthropic:claude-haiku-4-5", true));
    assert_eq!(tools.summary().staged, ["add_tag likes_glaze"]);
    assert_eq!(runner.report().running, 0, "its place is free again");
}

/// DEC-27: failures of later steps count for the breaker like any other, and an answered step takes them back.
#[tokio::test(start_paused = true)]
async fn the_breaker_hears_of_every_step() {
    let failing = || [called(&[tags("likes_glaze")]), Err(ModelError::Status(503))];
    let provider = Script::new((0..6).flat_map(|_| failing()));
    let runner = runner(&provider);
    for _ in 0..6 {
        assert_eq!(runner.run(staging().0).await.error.as_deref(), Some("provider_status_503"));
    }
    assert_eq!(provider.asked().len(), 12, "it answered between the failures");
}
