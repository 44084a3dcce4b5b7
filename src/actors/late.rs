//! Turns that no caller waits for: what dead processes have left unfinished or unread is answered late, through the
//! outbox (ARC-45a, ARC-46, DEC-20).

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use jiff::{SignedDuration, Timestamp};

use super::acting::{Acting, Path};
use super::answer::Told;
use super::confirmer::{Confirmer, Watched};
use super::outbox::OutboxWaker;
use super::resolver::{Failure, Left, Resolver};
use crate::channel::{InboundMessage, Media};
use crate::domain::{
    AgentRowId, ContactText, ConversationId, MediaKind, ProcessId, Redacted, SubscriberId, TurnId,
};
use crate::store::actions;
use crate::store::inbox::{self, OrphanedContact, Repeated, WaitingMessage};
use crate::store::open::OpenTurn;
use crate::store::second_run::{self, SecondRun, Taker};
use crate::store::{StoreError, owed};
use crate::turn::{
    self, MessageRow, OpenReport, Run, SettleReport, Snapshot, Snapshots, TurnContext, TurnError,
    TurnRequest, Way, is_opening,
};

/// Nothing reaches a contact who wrote longer ago than this: the channel does not allow it (ARC-46).
const UNREACHABLE: SignedDuration = SignedDuration::from_hours(24);

/// How long the server may still be at work on a statement that did not answer: longer than its wait for a lock.
const IN_DOUBT: Duration = Duration::from_secs(10);

/// Runs late turns; cheap to clone.
#[derive(Clone)]
pub(super) struct LateTurns {
    pub(super) context: Arc<TurnContext>,
    pub(super) snapshots: Arc<Snapshots>,
    pub(super) confirmer: Confirmer,
    pub(super) resolver: Resolver,
    pub(super) waker: OutboxWaker,
    pub(super) acting: Acting,
}

impl LateTurns {
    /// Ends the actions that a dead process has left open: those it has begun keep what is known of them, the others are
    /// performed now, unless a later turn of the contact has settled (ARC-41). Nothing is done when another process has
    /// them.
    pub(super) async fn act_for_the_dead(&self, row: AgentRowId) -> Result<(), StoreError> {
        let settings = &self.context.settings;
        let (process, dead) = (self.context.pulse.process(), settings.process_dead.as_secs_f64());
        if !self.context.pulse.may_judge() {
            return Ok(());
        }
        let taken = actions::take_over(&self.context.database, row, &settings.tenant, process, dead).await?;
        if let Some(open) = taken {
            tracing::warn!(turn = %row, conversation = %open.conversation, outrun = open.outrun,
                "actions of a dead process taken over");
            // From now on they are this process's own, and their performing keeps no place from other work.
            self.acting.perform_later(open, Path::Deferred);
        }
        Ok(())
    }

    /// Runs a turn once more that a dead process had begun. Nothing is done when another process has it, or when the
    /// contact's lane is held.
    pub(super) async fn run_again(&self, turn: TurnId) -> Result<(), StoreError> {
        // A look may have found it long ago; what a silent process takes is anybody's (ARC-44).
        if !self.context.pulse.may_judge() {
            return Ok(());
        }
        let snapshot = self.snapshots.current();
        let taker = self.taker(&snapshot);
        let run = match second_run::take_over(&self.context.database, turn, &taker).await {
            Ok(Some(run)) => run,
            Ok(None) => return Ok(()),
            // It is the dead process's still: the next look finds it.
            Err(error) if error.wrote_nothing() => return Err(error),
            Err(error) => {
                self.give_up(turn, taker.process, &snapshot).await;
                return Err(error);
            }
        };
        tracing::warn!(%turn, conversation = %run.opened.conversation, found = "running",
            again = run.again, "reply of a dead process taken over");
        let request = Arc::new(self.request_of(turn, taker.process, snapshot, &run));
        let conversation = run.opened.conversation;
        let ended = self.second_run(&request, run).await;
        if let Err(error) = ended {
            tracing::warn!(%turn, %conversation, err = %error, "recovery of a contact not finished");
            self.end(request, conversation, error.into());
        }
        Ok(())
    }

    async fn second_run(&self, request: &Arc<TurnRequest>, mut run: SecondRun) -> Result<(), StoreError> {
        let now = self.context.clock.now();
        if is_out_of_reach(run.last_message_at.max(run.received_at), now) {
            return self.end_silently(request.id, &run.opened, request.process).await;
        }
        if run.again || run.messages.is_empty() {
            return self.hand_off(request).await;
        }
        self.join_repeats(&run, request).await?;
        turn::mend_summary(&self.context, &mut run.opened).await;
        self.finish(Arc::clone(request), run.opened).await;
        Ok(())
    }

    /// Answers the first messages that wait for this contact while their process is dead: those of one process with
    /// one proof of the contact, as one turn (ARC-45a).
    pub(super) async fn answer_waiting(&self, contact: OrphanedContact) -> Result<(), StoreError> {
        let snapshot = self.snapshots.current();
        let burst =
            first_burst(inbox::waiting(&self.context.database, contact.conversation).await?, &snapshot);
        let conversation = contact.conversation;
        let (Some(first), process) = (burst.first(), self.context.pulse.process()) else { return Ok(()) };
        if !self.context.pulse.may_judge() {
            return Ok(());
        }
        let repeated = (burst.len() == 1).then(|| (first.process, first.text.clone(), first.received_at));
        let request = Arc::new(self.inherited(contact, process, snapshot, burst));
        let opened = match turn::open(&self.context, &request, None).await {
            OpenReport::Started(opened) => *opened,
            // The lane is held, or the messages are gone: nothing of it is ours yet.
            OpenReport::Waiting(_) => return Ok(()),
            OpenReport::Failed(error) => {
                tracing::warn!(%conversation, err = %error, "recovery of a contact not finished");
                let failure = Failure::before_open(error, Some(conversation));
                self.resolver.resolve_later(request, Told::No, failure, None);
                return Ok(());
            }
        };
        tracing::warn!(turn = %request.id, conversation = %opened.conversation, messages = opened.taken,
            "waiting messages of a dead process taken over");
        let request = if opened.taken < request.messages.len() {
            Arc::new(request.first(opened.taken))
        } else {
            request
        };
        let ended = self.answer_opened(&request, opened, process, repeated).await;
        if let Err(error) = ended {
            // The turn is ours and running: nobody else would end it.
            tracing::warn!(%conversation, err = %error, "recovery of a contact not finished");
            self.end(request, conversation, error.into());
        }
        Ok(())
    }

    /// Ends a turn that inherited its messages; `repeated` is the one message that the contact may have sent again since.
    async fn answer_opened(
        &self,
        request: &Arc<TurnRequest>,
        opened: OpenTurn,
        process: ProcessId,
        repeated: Option<(ProcessId, ContactText, Timestamp)>,
    ) -> Result<(), StoreError> {
        let came = request.messages.last().map(|message| message.received_at);
        if came.is_some_and(|came| is_out_of_reach(came, self.context.clock.now())) {
            return self.end_silently(request.id, &opened, process).await;
        }
        if let Some((process, text, received_at)) = repeated {
            let (conversation, binding) = (opened.conversation, opened.binding);
            let first = Repeated { conversation, process, text: &text, binding, received_at };
            inbox::join_repeats(&self.context.database, &first).await?;
        }
        self.finish(Arc::clone(request), opened).await;
        Ok(())
    }

    /// The takeover may have been committed without our hearing of it: the turn is then ours, and nobody would end it.
    async fn give_up(&self, turn: TurnId, process: ProcessId, snapshot: &Snapshot) {
        loop {
            tokio::time::sleep(IN_DOUBT).await;
            let failed = owed::Failed {
                turn,
                process,
                held: self.context.pulse.holds(process),
                text: &snapshot.tenant.rules.messages.escalation,
                told: false,
                tokens_enforced: self.context.settings.tokens_enforced,
                messages: Vec::new(),
                now: self.context.clock.now(),
            };
            match owed::end_opened(&self.context.database, &failed).await {
                Ok(_) => return self.waker.wake(),
                Err(error) => tracing::warn!(%turn, err = %error, "failed turns not resolved yet"),
            }
        }
    }

    /// Decides and settles; whatever goes wrong ends with a person.
    async fn finish(&self, request: Arc<TurnRequest>, opened: OpenTurn) {
        let conversation = opened.conversation;
        let way = Way::Late { silenced: false };
        let work = async {
            let tools = turn::tools_of(&self.context, &request, &opened);
            let verdict = turn::decide(&self.context, &request, &opened, tools).await;
            turn::settle(&self.context, &request, &opened, &verdict, way, None).await
        };
        match AssertUnwindSafe(work).catch_unwind().await {
            Ok(SettleReport::Inline { .. } | SettleReport::Queued) => {
                self.confirmer.confirm(request.id, Watched::default());
                self.waker.wake();
            }
            // Nothing is owed any more, or it is somebody else's.
            Ok(SettleReport::Hushed | SettleReport::Dropped) => {}
            Ok(SettleReport::Failed(error)) => self.end(request, conversation, error),
            Ok(SettleReport::Superseded) => self.end(request, conversation, TurnError::Superseded),
            Err(_) => self.end(request, conversation, TurnError::CutShort),
        }
    }

    fn end(&self, request: Arc<TurnRequest>, conversation: ConversationId, cause: TurnError) {
        let failure = Failure { left: Left::Opened, cause, conversation: Some(conversation) };
        self.resolver.resolve_later(request, Told::No, failure, None);
    }

    /// A turn that has killed two processes, or has no message any more.
    async fn hand_off(&self, request: &TurnRequest) -> Result<(), StoreError> {
        if let Some(handoff) = turn::handoff(&self.context, request, false) {
            owed::resolve(&self.context.database, &handoff).await?;
            self.waker.wake();
        }
        Ok(())
    }

    /// Marks the contact and calls a person; the operator finds the open handoff.
    async fn end_silently(
        &self,
        turn: TurnId,
        opened: &OpenTurn,
        process: ProcessId,
    ) -> Result<(), StoreError> {
        let enforced = self.context.settings.tokens_enforced;
        let now = self.context.clock.now();
        second_run::end_silently(&self.context.database, turn, process, enforced, now).await?;
        tracing::error!(%turn, conversation = %opened.conversation, "too late to answer: a person has to write");
        Ok(())
    }

    /// DEC-30: the caller whose process died may have asked another one meanwhile.
    async fn join_repeats(&self, run: &SecondRun, request: &TurnRequest) -> Result<(), StoreError> {
        let [only] = run.messages.as_slice() else { return Ok(()) };
        let first = Repeated {
            conversation: run.opened.conversation,
            process: run.dead,
            text: &only.text,
            binding: run.opened.binding,
            received_at: run.received_at,
        };
        let joined = inbox::join_repeats(&self.context.database, &first).await?;
        if joined > 0 {
            tracing::info!(turn = %request.id, joined, "repeated request joins the turn of the first");
        }
        Ok(())
    }

    fn taker(&self, snapshot: &Snapshot) -> Taker {
        let settings = &self.context.settings;
        Taker {
            tenant: settings.tenant.clone(),
            process: self.context.pulse.process(),
            lane_secs: settings.lane_time().as_secs_f64(),
            dead_secs: settings.process_dead.as_secs_f64(),
            tokens_enforced: settings.tokens_enforced,
            now: self.context.clock.now(),
            history_days: snapshot.tenant.rules.history_days,
            acted_by: turn::acted_by(&snapshot.tenant),
        }
    }

    fn request_of(
        &self,
        turn: TurnId,
        process: ProcessId,
        snapshot: Arc<Snapshot>,
        run: &SecondRun,
    ) -> TurnRequest {
        let place = (&run.subscriber, run.channel.as_str());
        let message = |text: &ContactText, media| self.message(place, text, media, run.received_at);
        TurnRequest {
            id: turn,
            process,
            run: Run::Second,
            messages: run.messages.iter().map(|one| message(&one.text, one.media)).collect(),
            rows: run.messages.iter().map(|one| MessageRow { id: one.id, stored: false }).collect(),
            known_digest: None,
            snapshot,
            presented_secret: Redacted::new("".into()),
        }
    }

    fn inherited(
        &self,
        contact: OrphanedContact,
        process: ProcessId,
        snapshot: Arc<Snapshot>,
        burst: Vec<WaitingMessage>,
    ) -> TurnRequest {
        let place = (&contact.subscriber, contact.channel.as_str());
        let id = burst.first().map_or_else(TurnId::fresh, |first| TurnId::from(first.id));
        let known_digest = burst.first().and_then(|first| first.token_digest.clone());
        let rows = burst.iter().map(|one| MessageRow { id: one.id, stored: true }).collect();
        let messages = burst.into_iter().map(|one| {
            let message = self.message(place, &one.text, one.media, one.received_at);
            InboundMessage { offering: one.offering, ..message }
        });
        TurnRequest {
            id,
            process,
            run: Run::Inherited,
            messages: messages.collect(),
            rows,
            known_digest,
            snapshot,
            presented_secret: Redacted::new("".into()),
        }
    }

    /// A message as its rows tell it: what only the request knew is gone.
    fn message(
        &self,
        (subscriber, channel): (&SubscriberId, &str),
        text: &ContactText,
        media: Option<MediaKind>,
        received_at: Timestamp,
    ) -> InboundMessage {
        InboundMessage {
            tenant: self.context.settings.tenant.clone(),
            subscriber: subscriber.clone(),
            text: text.clone(),
            channel: channel.to_owned(),
            contact_name: None,
            locale: None,
            token: None,
            media: media.map(|kind| Media { kind, url: Redacted::default() }),
            offering: None,
            received_at,
        }
    }
}

/// Whether the channel delivers nothing any more to a contact whose last message came then.
fn is_out_of_reach(came: Timestamp, now: Timestamp) -> bool {
    now.duration_since(came) > UNREACHABLE
}

/// The first of these messages with those right behind it that the same process would have answered with it (DEC-5,
/// DEC-23).
fn first_burst(waiting: Vec<WaitingMessage>, snapshot: &Snapshot) -> Vec<WaitingMessage> {
    let rules = &snapshot.tenant.rules;
    let alone = |one: &WaitingMessage| {
        one.media.is_some()
            || !rules.burst.answer_together
            || is_opening(rules.opening_trigger.as_ref(), one.text.expose())
    };
    let mut burst: Vec<WaitingMessage> = Vec::new();
    for next in waiting {
        let joins = burst.first().is_none_or(|first| {
            first.process == next.process
                && first.token_digest == next.token_digest
                && !alone(first)
                && !alone(&next)
        });
        if !joins {
            break;
        }
        burst.push(next);
    }
    burst
}

#[cfg(test)]
#[path = "late_tests.rs"]
mod tests;
