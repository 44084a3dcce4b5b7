use tokio::runtime::Handle;

use super::*;
use crate::config::{Settings, demo};
use crate::domain::{ConversationId, ProcessId, Redacted, SystemClock, TurnId};
use crate::model;
use crate::store::notices::Freed;
use crate::store::{Database, PoolLimits, Pulse};
use crate::turn::context::{Snapshot, TurnSettings};
use crate::turn::tokens::TokenWriter;

/// A turn's surroundings with a database that nobody reaches.
fn context() -> TurnContext {
    let vars = [
        ("AGENT_MODEL", "mock:demo"),
        ("PUBLIC_BASE_URL", "https://agent.example.com"),
        ("MANYCHAT_SHARED_SECRET", "a-shared-secret-of-some-length"),
        ("DATABASE_URL", "postgres://app@127.0.0.1:1/none"),
    ];
    let vars = vars.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    let (settings, _) = Settings::from_vars(&vars).unwrap();
    let address = "postgres://app@127.0.0.1:1/none".parse().unwrap();
    let database = Database::new(address, Handle::current(), PoolLimits::default()).unwrap();
    let (manychat, _) = crate::manychat::channel();
    TurnContext {
        tokens: TokenWriter::new(database.clone(), manychat.clone(), Handle::current()),
        database,
        runner: model::resolve_with(&settings.model, None).unwrap(),
        manychat,
        clock: Arc::new(SystemClock),
        pulse: Pulse::new(ProcessId::fresh(), settings.process_dead),
        freed: Arc::new(Freed::default()),
        said_today: crate::telemetry::OncePerDay::default(),
        settings: TurnSettings::of(&settings),
    }
}

fn opened() -> OpenTurn {
    OpenTurn {
        conversation: ConversationId::fresh(),
        binding: Binding::First,
        fence: None,
        taken: 0,
        turn_count: None,
        hourly_count: None,
        spent_tokens: 0,
        spent_usd: rust_decimal::Decimal::ZERO,
        running_before: 0,
        reply_queued: false,
        handoff: None,
        token_row: None,
        history: Vec::new(),
        offering: None,
        acted: None,
        attempted: Vec::new(),
    }
}

/// GAP-CH-6, OUT-7, ERR-5: a reply that cannot be rendered fails before anything is recorded.
#[tokio::test]
async fn a_reply_that_cannot_be_rendered_is_never_recorded() {
    let context = context();
    let request = TurnRequest {
        id: TurnId::fresh(),
        process: context.pulse.process(),
        run: Run::Asked,
        messages: Vec::new(),
        rows: Vec::new(),
        known_digest: None,
        snapshot: Arc::new(Snapshot::new(demo::tenant().unwrap())),
        presented_secret: Redacted::new("secret".into()),
    };
    let way = Way {
        deferred: false,
        held: false,
        behind: false,
        silenced: false,
        limit: Some(Duration::from_secs(5)),
    };
    let settled = |text: &str| Draft::of_copy(Reply::scripted(text), Decision::Scripted);
    let report = settle(&context, &request, &opened(), &settled(""), way).await;
    assert!(matches!(report, SettleReport::Failed(StoreError::Unexpected { what: "the rendered reply" })));
    let report = settle(&context, &request, &opened(), &settled("hello"), way).await;
    assert!(matches!(report, SettleReport::Failed(StoreError::Unavailable { .. })), "this one is sent");
}
