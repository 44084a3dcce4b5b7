//! The tenant of the documents' examples, for the tests of this room.

use std::sync::Arc;

use jiff::Timestamp;

use crate::config::{
    Budget, Burst, Catalog, Faq, FlowTool, Messages, ModelName, ModelSettings, Offering, PaymentOption,
    Price, RateLimit, Rules, TagTool, Tenant, Tools,
};
use crate::domain::{ConversationId, MinorUnits, Provider};
use crate::tools::{FlowMode, Known, Offer, TurnTools};

pub const ESCALATION: &str = "I am handing you to a colleague.";
pub const CLOSER: &str = "Happy to help any time.";

pub fn tenant() -> Tenant {
    Tenant {
        prompt: "You are the studio's assistant.".to_owned(),
        catalog: catalog(),
        rules: rules(),
        tools: None,
        hashes: Vec::new(),
    }
}

pub fn tenant_with(change: impl FnOnce(&mut Tenant)) -> Tenant {
    let mut tenant = tenant();
    change(&mut tenant);
    tenant
}

/// The same tenant with two tags and a flow.
pub fn shop() -> Tenant {
    let tag = |id: &str| TagTool {
        id: id.to_owned(),
        tag: format!("shop-{id}"),
        description: format!("About {id}."),
    };
    let flow = FlowTool {
        id: "leaflet".to_owned(),
        description: "Something to read.".to_owned(),
        flow_ns: "content_1".to_owned(),
        repeatable: false,
        role: None,
        on_stage: None,
        offering: None,
        settle_seconds: 0,
    };
    let tools =
        Tools { tags: vec![tag("likes_glaze"), tag("has_kiln")], flows: vec![flow], ..Tools::default() };
    tenant_with(|tenant| tenant.tools = Some(tools))
}

/// The tools of a turn of that tenant's contact.
pub fn tools_of(tenant: &Arc<Tenant>, flows: FlowMode) -> Arc<TurnTools> {
    Arc::new(TurnTools::new(offer_of(tenant, flows)))
}

pub fn offer_of(tenant: &Arc<Tenant>, flows: FlowMode) -> Offer {
    Offer {
        conversation: ConversationId::fresh(),
        tenant: Arc::clone(tenant),
        known: Known::default(),
        offering: None,
        window_from: Timestamp::UNIX_EPOCH,
        may_read: true,
        nudge: false,
        follow_ups: true,
        flows,
        earlier: Vec::new(),
    }
}

pub fn rules() -> Rules {
    Rules {
        messages: Messages {
            acknowledgement: "Looking that up for you.".to_owned(),
            escalation: ESCALATION.to_owned(),
            media_fallback: None,
            closer: None,
        },
        confidence_threshold: 0.6,
        max_turns_per_conversation: 25,
        idle_reset_hours: 24,
        history_days: 30,
        escalation_keywords: Vec::new(),
        opening_trigger: None,
        budget: Budget { daily_token_cap: 400_000, daily_cost_cap_usd: 3.0 },
        rate_limit: RateLimit { turns_per_subscriber_per_hour: 30 },
        learning: None,
        burst: Burst { answer_together: true, quiet_ms: 0 },
        takeover: None,
        handoff: None,
        retention_days: None,
        unbound_tools: true,
    }
}

fn catalog() -> Catalog {
    Catalog {
        business_name: "Northside Pottery".to_owned(),
        currency: "USD".to_owned(),
        offerings: vec![Offering {
            id: "wheel-basics".to_owned(),
            name: "Wheel Throwing Basics".to_owned(),
            description: "First steps on the wheel.".to_owned(),
            price: Price { amount: MinorUnits::new(31_000), currency: "USD".to_owned() },
            duration_hours: Some(18.0),
            schedule: Some("Mondays 7pm".to_owned()),
            url: Some("https://example.org/wheel".to_owned()),
        }],
        faq: vec![Faq { question: "Is clay included?".to_owned(), answer: "Yes, two bags.".to_owned() }],
        payment_options: vec![PaymentOption {
            id: "two-parts".to_owned(),
            description: "Half now, half before week three.".to_owned(),
        }],
    }
}

/// Settings of a process that runs `provider:model`, everything else as by default.
pub fn settings(provider: Provider, model: &str) -> ModelSettings {
    ModelSettings {
        agent: ModelName { provider, model: model.to_owned() },
        fallback: None,
        max_output_tokens: 400,
        temperature: 0.3,
        reasoning_effort: None,
        transcription: None,
        insight: None,
        anthropic_key: None,
        openai_key: None,
        google_key: None,
        anthropic_base_url: "https://api.anthropic.com/v1".to_owned(),
        openai_base_url: "https://api.openai.com/v1".to_owned(),
        google_base_url: "https://generativelanguage.googleapis.com/v1beta".to_owned(),
        ollama_base_url: "http://localhost:11434/v1".to_owned(),
        pricing_overrides: None,
        max_concurrent: 64,
    }
}
