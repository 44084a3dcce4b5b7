//! What every turn needs: the process's services, its settings, and the configuration snapshot of the turn.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use super::tokens::TokenWriter;
use crate::config::{Settings, Tenant};
use crate::domain::{ChannelName, Clock, TenantId};
use crate::manychat;
use crate::model::{Figures, Runner, SystemPrompt};
use crate::store::notices::Freed;
use crate::store::{Database, Pulse};
use crate::telemetry::OncePerDay;

/// Services and settings that all turns of a process share.
pub struct TurnContext {
    /// The database.
    pub database: Database,
    /// The model.
    pub runner: Runner,
    /// ManyChat, for what a turn reads and what follows it.
    pub manychat: manychat::Handle,
    /// Writes contact tokens to ManyChat.
    pub tokens: TokenWriter,
    /// Business time.
    pub clock: Arc<dyn Clock>,
    /// This process: its id and whether its beats still count.
    pub pulse: Pulse,
    /// Where lanes are put that another process waits for (ARC-47a).
    pub freed: Arc<Freed>,
    /// What was said once today (02 section 14).
    pub said_today: OncePerDay,
    /// What the environment says about turns.
    pub settings: TurnSettings,
}

/// The part of the environment that turns depend on.
#[derive(Clone, Debug)]
pub struct TurnSettings {
    /// Value of every `tenant_id`.
    pub tenant: TenantId,
    /// The channel replies are rendered for.
    pub channel: ChannelName,
    /// Base of the callback address, without a trailing slash (OUT-2).
    pub public_base_url: String,
    /// ManyChat field that holds the contact token (OUT-3).
    pub token_field: String,
    /// `CONTACT_TOKENS_ENFORCED`.
    pub tokens_enforced: bool,
    /// `RACE_DEADLINE_MS`.
    pub race_deadline: Duration,
    /// `MODEL_ABORT_MS`.
    pub model_abort: Duration,
    /// `PROCESS_DEAD_MS`.
    pub process_dead: Duration,
    /// Most turns of dead processes at the same time: half of `MODEL_MAX_CONCURRENT`, for living contacts need the model
    /// too; at least 1.
    pub late_turns: usize,
}

impl TurnSettings {
    /// Picks what turns need.
    #[must_use]
    pub fn of(settings: &Settings) -> Self {
        Self {
            tenant: settings.tenant.clone(),
            channel: settings.channel,
            public_base_url: settings.public_base_url.clone(),
            token_field: settings.manychat.token_field.clone(),
            tokens_enforced: settings.tokens_enforced,
            race_deadline: settings.race_deadline,
            model_abort: settings.model_abort,
            process_dead: settings.process_dead,
            late_turns: (settings.model.max_concurrent / 2).max(1),
        }
    }

    /// How long a lane may be held before anybody may take it: abort + deadline + 15 s (ARC-45).
    #[must_use]
    pub fn lane_time(&self) -> Duration {
        self.model_abort + self.race_deadline + Duration::from_secs(15)
    }
}

/// One loaded configuration with the system part built from it. A turn keeps the one it started with (RLD-8,
/// PROMPT-5).
pub struct Snapshot {
    /// The tenant files.
    pub tenant: Arc<Tenant>,
    /// The system part of every request under this configuration.
    pub system: SystemPrompt,
    /// The figures a reply may name (FN-PRICE-5).
    pub figures: Figures,
}

impl Snapshot {
    /// Builds once what follows from the files.
    #[must_use]
    pub fn new(tenant: Tenant) -> Self {
        let system = SystemPrompt::build(&tenant);
        let figures = Figures::of(&tenant.catalog);
        Self { tenant: Arc::new(tenant), system, figures }
    }
}

/// The active configuration; replaced whole by a reload (RLD-2).
pub struct Snapshots(RwLock<Arc<Snapshot>>);

impl Snapshots {
    /// Starts with the configuration loaded at boot.
    #[must_use]
    pub fn new(tenant: Tenant) -> Self {
        Self(RwLock::new(Arc::new(Snapshot::new(tenant))))
    }

    /// The configuration for a request that starts now (TURN-19).
    #[must_use]
    pub fn current(&self) -> Arc<Snapshot> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Replaces the configuration for all requests that start from now on.
    pub fn replace(&self, tenant: Tenant) {
        let next = Arc::new(Snapshot::new(tenant));
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = next;
    }
}
