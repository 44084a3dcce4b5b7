//! The steps of a turn as the actor runs them: each returns a future that owns all it needs, so that it runs on
//! the shared runtime and survives the actor.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;

use crate::actors::answer::{Told, Undecided};
use crate::actors::resolver::{Failure, Resolver};
use crate::store::open::OpenTurn;
use crate::tools::TurnTools;
use crate::turn::{
    self, Answers, KeepReport, OpenReport, SettleReport, Snapshot, TurnContext, TurnRequest, Verdict, Way,
};

/// The seam between a conversation's life and what its turns do. The randomised test of the directory plays
/// failures through it that the real steps cannot be made to show on demand (docs/adr/0003).
pub(in crate::actors) trait Steps: Send + Sync + 'static {
    /// Writes a message that has to wait into the inbox.
    fn keep(&self, request: Arc<TurnRequest>, limit: Option<Duration>) -> BoxFuture<'static, KeepReport>;
    /// The first flight.
    fn open(&self, request: Arc<TurnRequest>, limit: Option<Duration>) -> BoxFuture<'static, OpenReport>;
    /// What the turn may do besides answering. Asked for once, before its reply is decided.
    fn tools(&self, request: &TurnRequest, opened: &OpenTurn) -> Option<Arc<TurnTools>>;
    /// Opening, guards, model.
    fn decide(
        &self,
        request: Arc<TurnRequest>,
        opened: Arc<OpenTurn>,
        tools: Option<Arc<TurnTools>>,
    ) -> BoxFuture<'static, Verdict>;
    /// The second flight.
    fn settle(
        &self,
        request: Arc<TurnRequest>,
        opened: Arc<OpenTurn>,
        verdict: Verdict,
        way: Way,
        limit: Option<Duration>,
    ) -> BoxFuture<'static, SettleReport>;
    /// Ends what a failed turn left behind, in the background. `told`: whether the contact has the escalation copy. `reply`:
    /// kept until it is known what became of the turn.
    fn resolve_later(
        &self,
        request: Arc<TurnRequest>,
        told: Told,
        failure: Failure,
        reply: Option<Undecided>,
    );
    /// Failed turns whose end is not known yet, with their messages in memory.
    fn unresolved(&self) -> usize;
    /// A block of the tenant's own copy; `None` when it cannot be rendered.
    fn render(&self, copy: Copy, snapshot: &Snapshot, presented_secret: &str) -> Option<Vec<u8>>;
}

/// The blocks that hold no reply.
#[derive(Clone, Copy, Debug)]
pub(in crate::actors) enum Copy {
    /// No message.
    Silent,
    /// The holding line.
    HoldingLine,
    /// The escalation copy.
    Handoff,
}

/// The real steps.
pub(in crate::actors) struct TurnSteps {
    pub(in crate::actors) context: Arc<TurnContext>,
    pub(in crate::actors) resolver: Resolver,
}

impl Steps for TurnSteps {
    fn keep(&self, request: Arc<TurnRequest>, limit: Option<Duration>) -> BoxFuture<'static, KeepReport> {
        let context = Arc::clone(&self.context);
        Box::pin(async move { turn::keep(&context, &request, limit).await })
    }

    fn open(&self, request: Arc<TurnRequest>, limit: Option<Duration>) -> BoxFuture<'static, OpenReport> {
        let context = Arc::clone(&self.context);
        Box::pin(async move { turn::open(&context, &request, limit).await })
    }

    fn tools(&self, request: &TurnRequest, opened: &OpenTurn) -> Option<Arc<TurnTools>> {
        turn::tools_of(&self.context, request, opened)
    }

    fn decide(
        &self,
        request: Arc<TurnRequest>,
        opened: Arc<OpenTurn>,
        tools: Option<Arc<TurnTools>>,
    ) -> BoxFuture<'static, Verdict> {
        let context = Arc::clone(&self.context);
        Box::pin(async move { turn::decide(&context, &request, &opened, tools).await })
    }

    fn settle(
        &self,
        request: Arc<TurnRequest>,
        opened: Arc<OpenTurn>,
        verdict: Verdict,
        way: Way,
        limit: Option<Duration>,
    ) -> BoxFuture<'static, SettleReport> {
        let context = Arc::clone(&self.context);
        Box::pin(async move { turn::settle(&context, &request, &opened, &verdict, way, limit).await })
    }

    fn resolve_later(
        &self,
        request: Arc<TurnRequest>,
        told: Told,
        failure: Failure,
        reply: Option<Undecided>,
    ) {
        self.resolver.resolve_later(request, told, failure, reply);
    }

    fn unresolved(&self) -> usize {
        self.resolver.open()
    }

    fn render(&self, copy: Copy, snapshot: &Snapshot, presented_secret: &str) -> Option<Vec<u8>> {
        let answers = Answers::of(&self.context, snapshot);
        let rendered = match copy {
            Copy::Silent => answers.silent(presented_secret),
            Copy::HoldingLine => answers.holding_line(presented_secret),
            Copy::Handoff => answers.handoff(presented_secret),
        };
        rendered.map_err(|error| tracing::error!(err = %error, "answer not rendered")).ok()
    }
}
