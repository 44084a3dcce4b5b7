//! What providers keep in their prompt caches is found by its bytes: the beginning of a request must be the same for
//! all contacts and turns (PROMPT-4, RUN-12, 01/AC-6).

use std::sync::Arc;

use serde_json::{Value, json};

use super::test_support::{ALL_WIRES, Asked, FakeProvider, answer, replied, reply_object, request, text};
use super::wire::Wire;
use crate::config::Tenant;
use crate::domain::{ContactText, Role};
use crate::model::port::{MessageRole, ModelProvider, ModelRequest};
use crate::model::prompt::{HistoryTurn, SystemPrompt};
use crate::model::runner::{Runner, TurnInput};
use crate::model::spent::Spent;
use crate::model::test_support::{settings, shop, tenant, tools_of};
use crate::tools::{FlowMode, ToolDefinition};

/// A model of each wire whose reply is asked for beside the tools, or through one.
const fn model_of(wire: Wire) -> &'static str {
    match wire {
        Wire::Anthropic => "claude-haiku-4-5",
        Wire::OpenAi => "gpt-5.6-mini",
        Wire::Google => "gemini-2.5-flash",
        Wire::Ollama => "llama3.1:8b",
    }
}

/// What stands before the messages, or decides how it is cached: system part, tools, form of the reply, cache key.
fn beginning(wire: Wire, asked: &Asked) -> String {
    let part = |key: &str| asked.body.get(key).cloned().unwrap_or_default();
    let parts = match wire {
        Wire::Anthropic => vec![part("tools"), part("system"), part("output_config"), part("tool_choice")],
        Wire::OpenAi | Wire::Ollama => vec![
            part("tools"),
            asked.body["messages"][0].clone(),
            part("response_format"),
            part("prompt_cache_key"),
            part("tool_choice"),
        ],
        Wire::Google => vec![
            part("tools"),
            part("systemInstruction"),
            asked.body.pointer("/generationConfig/responseJsonSchema").cloned().unwrap_or_default(),
            part("toolConfig"),
        ],
    };
    Value::Array(parts).to_string()
}

/// All requests begin with the same bytes; returns them.
fn shared_beginning(wire: Wire, fake: &FakeProvider, least: usize) -> String {
    let asked = fake.asked();
    assert!(asked.len() >= least, "{wire:?}: {} requests", asked.len());
    let first = beginning(wire, &asked[0]);
    for other in &asked {
        assert_eq!(beginning(wire, other), first, "{wire:?}");
    }
    first
}

async fn good_provider(wire: Wire) -> FakeProvider {
    FakeProvider::start(vec![answer(200, &replied(wire, &reply_object().to_string()))]).await
}

/// A turn of one contact: words, history and state lines are its own.
fn turn_of(contact: usize, number: usize, tenant: &Arc<Tenant>) -> TurnInput {
    let history = (0..number).flat_map(|earlier| {
        let turn = |role, words: String| HistoryTurn { role, text: ContactText::new(words), actions: None };
        [
            turn(Role::User, format!("question {earlier} of guest-{contact}")),
            turn(Role::Agent, format!("answer {earlier}")),
        ]
    });
    TurnInput {
        system: SystemPrompt::build(tenant),
        tenant: Arc::clone(tenant),
        state_lines: vec![format!("INTENT: guest-{contact}")],
        texts: vec![ContactText::new(format!("words {number} of guest-{contact}"))],
        history: history.collect(),
        tools: Some(tools_of(tenant, FlowMode::Staged)),
        spent: Spent::default(),
    }
}

/// PROMPT-4, PROMPT-5, 01/AC-6: many contacts and turns, and a reload of the same files in between, with tools and
/// without: the same beginning, with nothing of a contact in it.
#[tokio::test]
async fn many_contacts_and_turns_share_the_beginning() {
    for (wire, build) in
        ALL_WIRES.into_iter().flat_map(|wire| [(wire, tenant as fn() -> Tenant), (wire, shop)])
    {
        let fake = good_provider(wire).await;
        let settings = settings(wire.provider(), model_of(wire));
        let runner = Runner::new(Arc::new(fake.model(wire, model_of(wire))), &settings.agent, &settings);
        for contact in 0..6 {
            let tenant = Arc::new(build());
            for number in 0..3 {
                assert_eq!(runner.run(turn_of(contact, number, &tenant)).await.error, None, "{wire:?}");
            }
        }
        let shared = shared_beginning(wire, &fake, 18);
        assert!(shared.contains("Northside Pottery") && !shared.contains("guest-"), "{shared}");
        assert_eq!(shared.contains("likes_glaze"), build().tools.is_some(), "{wire:?}");
    }
}

fn tools() -> Arc<[ToolDefinition]> {
    let tool = |name, choices: Value| ToolDefinition {
        name,
        description: format!("Does {name}."),
        parameters: Arc::new(json!({
            "type": "object",
            "properties": { "choice": { "type": "string", "enum": choices }, "why": { "type": "string" } },
            "required": ["choice"], "additionalProperties": false,
        })),
    };
    Arc::new([tool("send_flow", json!(["a", "b"])), tool("add_tag", json!(["c", "d"]))])
}

/// 01/RUN-12, 01 section 17: with tools the beginning holds their definitions, which providers put before the system part
/// or behind it; equal definitions make equal bytes, whoever writes what.
#[tokio::test]
async fn tools_stand_in_the_shared_beginning() {
    for wire in ALL_WIRES {
        let fake = good_provider(wire).await;
        let model = fake.model(wire, model_of(wire));
        for contact in 0..4 {
            let messages = vec![text(MessageRole::User, &format!("words of guest-{contact}"))];
            let request = ModelRequest { tools: tools(), messages, ..request() };
            model.step(request).await.unwrap();
        }
        let shared = shared_beginning(wire, &fake, 4);
        assert!(shared.contains("add_tag") && !shared.contains("guest-"), "{wire:?}: {shared}");
    }
}

/// 01/RUN-12: Anthropic's one breakpoint ends the system part, with tools and without; everything before it, the tools
/// included, is what is cached. A breakpoint on a tool or a message would cache what differs from contact to contact.
#[tokio::test]
async fn the_breakpoint_stands_at_the_end_of_the_system_part() {
    let fake = good_provider(Wire::Anthropic).await;
    let model = fake.model(Wire::Anthropic, model_of(Wire::Anthropic));
    for tools in [tools(), Arc::new([])] {
        model.step(ModelRequest { tools, ..request() }).await.unwrap();
    }
    for asked in fake.asked() {
        let system = asked.body["system"].as_array().unwrap();
        assert_eq!(system.last().unwrap()["cache_control"], json!({ "type": "ephemeral" }));
        assert_eq!(asked.body.to_string().matches("cache_control").count(), 1, "{}", asked.body);
    }
}

/// 01 section 17: definitions that differ for one contact leave the system part as it is, so that providers that put it
/// first, and the requests without tools, still share it.
#[tokio::test]
async fn other_tools_leave_the_system_part_alone() {
    for wire in ALL_WIRES {
        let fake = good_provider(wire).await;
        let model = fake.model(wire, model_of(wire));
        let all = tools();
        let fewer: Arc<[ToolDefinition]> = all.iter().skip(1).cloned().collect();
        for offered in [all, fewer, Arc::new([]) as Arc<[ToolDefinition]>] {
            model.step(ModelRequest { tools: offered, ..request() }).await.unwrap();
        }
        let system = |asked: &Asked| match wire {
            Wire::Anthropic => asked.body["system"].to_string(),
            Wire::OpenAi | Wire::Ollama => asked.body["messages"][0].to_string(),
            Wire::Google => asked.body["systemInstruction"].to_string(),
        };
        let asked = fake.asked();
        assert!(asked.iter().all(|other| system(other) == system(&asked[0])), "{wire:?}");
    }
}
