//! Models that refuse a part of the request, or do not do what they were asked: what is tried instead, and what is
//! remembered.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::hosted::HostedModel;
use super::request::REPLY_TOOL;
use super::test_support::{
    ALL_WIRES, Act, Asked, FakeProvider, SECRET, answer, calling, replied, reply_object, request,
};
use super::wire::Wire;
use crate::config::ModelSettings;
use crate::domain::ContactText;
use crate::model::meter::Meter;
use crate::model::port::{ModelError, ModelProvider, ModelRequest};
use crate::model::prompt::SystemPrompt;
use crate::model::runner::{Runner, TurnInput};
use crate::model::spent::Spent;
use crate::model::test_support::{settings, shop, tools_of};
use crate::model::{Trial, TrialModel, Verdict};
use crate::tools::{FlowMode, ToolDefinition};

fn refusal(status: u16, message: &str) -> Act {
    answer(status, &json!({ "error": { "message": message } }))
}

fn good(wire: Wire) -> Act {
    answer(200, &replied(wire, &reply_object().to_string()))
}

fn through_tool(wire: Wire) -> Act {
    answer(200, &calling(wire, &[(REPLY_TOOL, reply_object())]))
}

fn has_schema(asked: &Asked) -> bool {
    let body = asked.body.to_string();
    ["response_format", "output_config", "responseJsonSchema"].iter().any(|key| body.contains(key))
}

fn natives(fake: &FakeProvider) -> Vec<bool> {
    fake.asked().iter().map(has_schema).collect()
}

fn offering() -> ModelRequest {
    let parameters = json!({ "type": "object", "properties": {}, "required": [] });
    let tool = ToolDefinition {
        name: "get_contact",
        description: "Reads the contact.".to_owned(),
        parameters: Arc::new(parameters),
    };
    ModelRequest { tools: Arc::new([tool]), ..request() }
}

/// A turn of a tenant with tools.
fn acting_turn() -> TurnInput {
    let tenant = Arc::new(shop());
    TurnInput {
        system: SystemPrompt::build(&tenant),
        tools: Some(tools_of(&tenant, FlowMode::Staged)),
        tenant,
        state_lines: Vec::new(),
        texts: vec![ContactText::new("how is the wind")],
        history: Vec::new(),
        spent: Spent::default(),
    }
}

fn runner_of(wire: Wire, name: &str, model: HostedModel) -> Runner {
    let settings = settings(wire.provider(), name);
    Runner::new(Arc::new(model), &settings.agent, &settings)
}

/// 01/RUN-3: words of a refusal that the other form does not mend were somebody else's: the form stays as it was, for this
/// call's retries as well as for the next calls.
#[tokio::test]
async fn a_form_is_kept_unless_the_other_one_works() {
    for wire in ALL_WIRES {
        let quoting = refusal(400, "`tell me about your schema` is too long");
        let fake = FakeProvider::start(vec![quoting.clone(), quoting, good(wire)]).await;
        let model = fake.model(wire, "some-model");
        assert_eq!(model.step(request()).await, Err(ModelError::Status(400)), "{wire:?}");
        assert!(model.step(request()).await.is_ok(), "{wire:?}");
        assert_eq!(natives(&fake), [true, false, true], "{wire:?}");
    }
}

/// 01/RUN-3, 01/RUN-16: a retry goes on in the form that was not refused, and what it teaches is kept.
#[tokio::test]
async fn a_retry_does_not_go_back_to_what_was_refused() {
    let wire = Wire::OpenAi;
    let acts = vec![refusal(400, "response_format"), refusal(503, ""), through_tool(wire)];
    let fake = FakeProvider::start(acts).await;
    let model = fake.model(wire, "some-model");
    assert!(model.step(request()).await.is_ok() && model.step(request()).await.is_ok());
    assert_eq!(natives(&fake), [true, false, false, false]);
}

/// 01/RUN-3: a form that was learnt is given up again when it is refused in its turn.
#[tokio::test]
async fn what_was_learnt_can_be_unlearnt() {
    let wire = Wire::OpenAi;
    let schema = || refusal(400, "Invalid schema");
    let acts = vec![schema(), through_tool(wire), schema(), good(wire)];
    let fake = FakeProvider::start(acts).await;
    let model = fake.model(wire, "gpt-4o-mini");
    for _ in 0..3 {
        assert!(model.step(request()).await.is_ok());
    }
    assert_eq!(natives(&fake), [true, false, false, true, true]);
}

/// 01/RUN-3: gateways and servers that speak OpenAI's language refuse with 422.
#[tokio::test]
async fn a_422_that_names_the_schema_counts_as_well() {
    for wire in ALL_WIRES {
        let fake =
            FakeProvider::start(vec![refusal(422, "json_schema is unknown"), through_tool(wire)]).await;
        let model = fake.model(wire, "some-model");
        assert!(model.step(request()).await.is_ok() && model.step(request()).await.is_ok(), "{wire:?}");
        assert_eq!(natives(&fake), [true, false, false], "{wire:?}");
    }
}

/// 01/RUN-10: of two parts that a refusal names only the one is remembered without which the call went well.
#[tokio::test]
async fn only_what_helped_is_remembered() {
    let wire = Wire::Anthropic;
    let both = "`temperature` is deprecated (request: tell me about your schema)";
    let fake = FakeProvider::start(vec![refusal(400, both), good(wire)]).await;
    let model = fake.model(wire, "claude-next");
    assert!(model.step(request()).await.is_ok() && model.step(request()).await.is_ok());
    assert_eq!(natives(&fake), [true, true, true]);
    let warm: Vec<bool> = fake.asked().iter().map(|asked| asked.body.get("temperature").is_some()).collect();
    assert_eq!(warm, [true, false, false]);
}

/// 01/RUN-3: calls that are refused at the same time learn the same.
#[tokio::test]
async fn calls_at_the_same_time_learn_the_same() {
    let wire = Wire::OpenAi;
    let schema = || refusal(400, "Invalid schema");
    let acts = vec![schema(), schema(), through_tool(wire)];
    let fake = FakeProvider::start(acts).await;
    let model = fake.model(wire, "gpt-4o-mini");
    let (one, other) = tokio::join!(model.step(request()), model.step(request()));
    // Who asks when is up to the scheduler; a call that is refused twice fails and teaches nothing.
    assert!(one.is_ok() || other.is_ok());
    assert!(model.step(request()).await.is_ok());
    assert_eq!(natives(&fake).last(), Some(&false));
}

/// DEC-10, DEC-27, FAIL-17, DEC-19: a model that chats, and then is down when it is held to the schema, is down: the
/// breaker hears of it, and the tokens of the chat are charged.
#[tokio::test]
async fn an_outage_after_a_chat_is_an_outage() {
    let chat = answer(200, &replied(Wire::Ollama, SECRET));
    let fake = FakeProvider::start(vec![chat.clone(), refusal(503, "")]).await;
    let spent = Spent::default();
    let asking = ModelRequest { meter: Meter::of(&spent), ..offering() };
    let outcome = fake.model(Wire::Ollama, "llama3.1:8b").step(asking).await;
    assert_eq!((outcome, fake.asked().len()), (Err(ModelError::Status(503)), 4), "RUN-16");
    assert_eq!(spent.bill().usage.input, Some(2000));

    let fake = FakeProvider::start(vec![chat, refusal(503, "")]).await;
    let second = FakeProvider::start(vec![good(Wire::Anthropic)]).await;
    let anthropic = settings(Wire::Anthropic.provider(), "claude-haiku-4-5");
    let fallback = Arc::new(second.model(Wire::Anthropic, "claude-haiku-4-5"));
    let runner = runner_of(Wire::Ollama, "llama3.1:8b", fake.model(Wire::Ollama, "llama3.1:8b"))
        .with_fallback(fallback, &anthropic.agent, &anthropic);
    let result = runner.run(acting_turn()).await;
    assert_eq!((result.model.as_str(), result.error), ("anthropic:claude-haiku-4-5", None));
    assert_eq!(result.usage.input, Some(4000), "the chat and the reply");
    assert_eq!(runner.report().models[0].failures, 1);
}

/// The name of every tool in a body.
fn tools_of_body(asked: &Asked) -> Option<&Value> {
    asked.body.get("tools")
}

/// 01/RUN-5, 01/RUN-3: a model that takes no tools at all replies without them, in this turn and in the next, which says that
/// none were offered.
#[tokio::test]
async fn a_model_that_takes_no_tools_replies_without() {
    let cases = [
        (Wire::Ollama, 400, "registry.ollama.ai/library/gemma:2b does not support tools"),
        (Wire::OpenAi, 400, "\"auto\" tool choice requires --enable-auto-tool-choice to be set"),
        (Wire::OpenAi, 422, "Function calling is not supported by this model"),
        (Wire::Google, 400, "Function calling is not enabled for models/gemma-3"),
    ];
    for (wire, status, words) in cases {
        let refused = refusal(status, words);
        let acts = vec![refused.clone(), good(wire), refused, good(wire)];
        let fake = FakeProvider::start(acts).await;
        let runner = runner_of(wire, "some-model", fake.model(wire, "some-model"));
        for _ in 0..2 {
            let result = runner.run(acting_turn()).await;
            assert_eq!((result.reply.text().as_str(), result.error), ("On Mondays.", None), "{words}");
            assert!(!result.tools_offered, "{words}");
        }
        let offered: Vec<bool> = fake.asked().iter().map(|asked| tools_of_body(asked).is_some()).collect();
        assert_eq!(offered, [true, false, true, false], "{words}");
        assert!(has_schema(&fake.asked()[1]), "{words}");
    }
}

/// PROV-3: `agent model check` says so, although such a model answers.
#[tokio::test]
async fn a_check_tells_that_a_model_takes_no_tools() {
    let wire = Wire::Ollama;
    let fake = FakeProvider::start(vec![refusal(400, "gemma:2b does not support tools"), good(wire)]).await;
    let settings =
        ModelSettings { ollama_base_url: fake.url("/v1"), ..settings(wire.provider(), "gemma:2b") };
    let model = TrialModel::new(&settings, &settings.agent).unwrap();
    let limit = Duration::from_secs(20);
    let Verdict::Failed { reason, .. } = model.run(Trial::Tool, limit).await.verdict else {
        panic!("passed")
    };
    assert!(reason.contains("refused tools"), "{reason}");
    assert!(matches!(model.run(Trial::Result, limit).await.verdict, Verdict::Skipped(_)));
}

/// FAIL-2: a refusal of one tool, or of a request that offers none, is none of tools as such.
#[tokio::test]
async fn other_refusals_of_tools_stay_refusals() {
    let fake = FakeProvider::start(vec![refusal(400, "tools.0.name: must be shorter")]).await;
    let outcome = fake.model(Wire::OpenAi, "some-model").step(offering()).await;
    assert_eq!((outcome, fake.asked().len()), (Err(ModelError::Status(400)), 1));
    let fake = FakeProvider::start(vec![refusal(400, "this model does not support tools")]).await;
    let outcome = fake.model(Wire::OpenAi, "some-model").step(request()).await;
    assert_eq!((outcome, fake.asked().len()), (Err(ModelError::Status(400)), 1));
}
