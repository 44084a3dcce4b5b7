//! Parameters of which some models refuse the name or the whole: the output limit and the reasoning effort (RUN-10).

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::test_support::{Act, FakeProvider, answer, replied, reply_object, request};
use super::wire::Wire;
use crate::config::ReasoningEffort;
use crate::domain::{ContactText, Provider};
use crate::model::port::{ModelError, ModelProvider, ModelRequest};
use crate::model::prompt::SystemPrompt;
use crate::model::runner::{Runner, TurnInput};
use crate::model::spent::Spent;
use crate::model::test_support::{settings, tenant};

const WIRE: Wire = Wire::OpenAi;
const OLD_LIMIT: &str = "Unsupported parameter: 'max_tokens' is not supported with this model. Use \
                         'max_completion_tokens' instead.";

fn refusal(message: &str) -> Act {
    answer(400, &json!({ "error": { "message": message } }))
}

fn failed(headers: &'static str) -> Act {
    Act::Answer { status: 503, headers, body: String::new() }
}

fn good() -> Act {
    answer(200, &replied(WIRE, &reply_object().to_string()))
}

fn thinking() -> ModelRequest {
    ModelRequest { reasoning_effort: Some(ReasoningEffort::Low), ..request() }
}

/// The values of `key` in everything that was asked.
fn sent(fake: &FakeProvider, key: &str) -> Vec<Value> {
    fake.asked().iter().map(|asked| asked.body.get(key).cloned().unwrap_or_default()).collect()
}

fn turn() -> TurnInput {
    let tenant = Arc::new(tenant());
    TurnInput {
        system: SystemPrompt::build(&tenant),
        tenant,
        state_lines: Vec::new(),
        texts: vec![ContactText::new("hi")],
        history: Vec::new(),
        tools: None,
        spent: Spent::default(),
    }
}

/// 01/RUN-10: reasoning models get the limit by the name they know, wherever their own name stands.
#[tokio::test]
async fn the_limit_has_the_name_the_model_knows() {
    let cases = [
        ("o9-mini", true),
        ("openai/gpt-5-mini", true),
        ("ft:o4-mini:org::id", true),
        ("gpt-4o-mini", false),
        ("ft:gpt-4o-mini:org::id", false),
        ("some-model", false),
    ];
    for (model, is_new) in cases {
        let fake = FakeProvider::start(vec![good()]).await;
        assert!(fake.model(WIRE, model).step(request()).await.is_ok(), "{model}");
        let limits = (sent(&fake, "max_completion_tokens"), sent(&fake, "max_tokens"));
        let (known, other) = if is_new { limits } else { (limits.1, limits.0) };
        assert_eq!((known, other), (vec![json!(400)], vec![Value::Null]), "{model}");
    }
}

/// 01/RUN-10: a model that nobody knows to reason teaches the other name of the limit, once; and an old server the other
/// way round.
#[tokio::test]
async fn the_other_name_of_the_limit_is_learnt() {
    let fake = FakeProvider::start(vec![refusal(OLD_LIMIT), good()]).await;
    let model = fake.model(WIRE, "my-deployment");
    assert!(model.step(request()).await.is_ok() && model.step(request()).await.is_ok());
    assert_eq!(sent(&fake, "max_tokens"), [json!(400), Value::Null, Value::Null]);
    assert_eq!(sent(&fake, "max_completion_tokens"), [Value::Null, json!(400), json!(400)]);

    let old = "max_completion_tokens: Extra inputs are not permitted";
    let fake = FakeProvider::start(vec![refusal(old), good()]).await;
    let model = fake.model(WIRE, "gpt-5-mini");
    assert!(model.step(request()).await.is_ok() && model.step(request()).await.is_ok());
    assert_eq!(sent(&fake, "max_tokens"), [Value::Null, json!(400), json!(400)]);
}

/// 01/RUN-10: words that the other name does not mend were somebody else's, and nothing is learnt from them.
#[tokio::test]
async fn a_limit_that_both_names_do_not_mend_stays() {
    let acts = vec![refusal(OLD_LIMIT), refusal(OLD_LIMIT), good()];
    let fake = FakeProvider::start(acts).await;
    let model = fake.model(WIRE, "my-deployment");
    assert_eq!(model.step(request()).await, Err(ModelError::Status(400)));
    assert!(model.step(request()).await.is_ok());
    assert_eq!(sent(&fake, "max_tokens"), [json!(400), Value::Null, json!(400)]);
    // Where there is but one name, there is no other to try.
    let fake = FakeProvider::start(vec![refusal(OLD_LIMIT), good()]).await;
    assert!(fake.model(Wire::Ollama, "llama3.1:8b").step(request()).await.is_err());
    assert_eq!(fake.asked().len(), 1);
}

/// 01/RUN-10, ENV-12: an effort is for models that reason.
#[tokio::test]
async fn only_models_that_reason_get_an_effort() {
    for (model, effort) in
        [("gpt-5-mini", json!("low")), ("gpt-4.1-mini", Value::Null), ("some-model", Value::Null)]
    {
        let fake = FakeProvider::start(vec![good()]).await;
        assert!(fake.model(WIRE, model).step(thinking()).await.is_ok(), "{model}");
        assert_eq!(sent(&fake, "reasoning_effort"), [effort], "{model}");
    }
}

/// 01/RUN-10: an effort that a model refuses is left out from then on. Without one there is nothing to leave out.
#[tokio::test]
async fn a_refused_effort_is_left_out() {
    let words = "Unsupported value: 'reasoning_effort' does not support 'low' with this model.";
    let fake = FakeProvider::start(vec![refusal(words), good()]).await;
    let model = fake.model(WIRE, "gpt-5-chat-latest");
    assert!(model.step(thinking()).await.is_ok() && model.step(thinking()).await.is_ok());
    assert_eq!(sent(&fake, "reasoning_effort"), [json!("low"), Value::Null, Value::Null]);
    let fake = FakeProvider::start(vec![refusal(words), good()]).await;
    assert!(fake.model(WIRE, "gpt-5-mini").step(request()).await.is_err());
    assert_eq!(fake.asked().len(), 1);
}

/// 01/RUN-10: of several refusals one after the other each is learnt, so that in the end a turn costs one request.
#[tokio::test]
async fn several_refusals_are_learnt_one_after_the_other() {
    let warm = "Unsupported value: 'temperature' does not support 0.3 with this model.";
    let acts = vec![refusal(OLD_LIMIT), refusal(warm), good(), refusal(OLD_LIMIT), good()];
    let fake = FakeProvider::start(acts).await;
    let model = fake.model(WIRE, "my-deployment");
    for requests in [3, 5, 6] {
        assert!(model.step(request()).await.is_ok());
        assert_eq!(fake.asked().len(), requests);
    }
    assert_eq!(fake.asked()[5].body.get("temperature"), None);
}

/// DEC-10, 01/RUN-16: the first model is tried three times, the fallback once, with parameters of its own.
#[tokio::test]
async fn the_fallback_is_tried_once() {
    let first = FakeProvider::start(vec![failed("")]).await;
    let second = FakeProvider::start(vec![failed("retry-after: 0\r\n"), good()]).await;
    let mut settings = settings(Provider::OpenAi, "gpt-5-mini");
    settings.reasoning_effort = Some(ReasoningEffort::Low);
    let fallback = "openai:gpt-4.1-mini".parse().unwrap();
    let runner = Runner::new(Arc::new(first.model(WIRE, "gpt-5-mini")), &settings.agent, &settings)
        .with_fallback(Arc::new(second.model(WIRE, "gpt-4.1-mini")), &fallback, &settings)
        .within(Duration::from_secs(30));
    let result = runner.run(turn()).await;
    assert_eq!(result.error.as_deref(), Some("provider_status_503"));
    assert_eq!((first.asked().len(), second.asked().len()), (3, 1));
    assert_eq!(sent(&first, "reasoning_effort"), [json!("low"), json!("low"), json!("low")]);
    assert_eq!(sent(&second, "reasoning_effort"), [Value::Null]);
    assert_eq!(runner.run(turn()).await.error, None);
}

/// DEC-27: turns that only wait for their provider leave their places to others.
#[tokio::test]
async fn a_pause_between_attempts_frees_the_place() {
    let mut settings = settings(Provider::OpenAi, "gpt-4o-mini");
    settings.max_concurrent = 1;
    let fake = FakeProvider::start(vec![failed("retry-after: 3\r\n"), good()]).await;
    let model = fake.model(WIRE, "gpt-4o-mini");
    let runner = Runner::new(Arc::new(model), &settings.agent, &settings).within(Duration::from_secs(60));
    let pausing = runner.run(turn());
    tokio::pin!(pausing);
    while fake.asked().is_empty() || runner.report().running > 0 {
        tokio::select! {
            _ = &mut pausing => panic!("it waits for three seconds"),
            () = tokio::time::sleep(Duration::from_millis(10)) => {}
        }
    }
    let other = tokio::select! {
        _ = &mut pausing => panic!("it waits for three seconds"),
        other = runner.run(turn()) => other,
    };
    assert_eq!((other.error, fake.asked().len()), (None, 2));
    assert_eq!(pausing.await.error, None);
    assert_eq!((fake.asked().len(), runner.report().running), (3, 0));
}
