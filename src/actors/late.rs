//! Runs the turns that no caller waits for: what dead processes have left unfinished or unread is answered late, through the
//! outbox (ARC-45a, ARC-46, DEC-20). What becomes of each is decided in [`crate::turn::late`].

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;

use super::acting::{Acting, Path};
use super::answer::Told;
use super::confirmer::{Confirmer, Watched};
use super::outbox::OutboxWaker;
use super::resolver::{Failure, Left, Resolver};
use crate::domain::{AgentRowId, ConversationId, ProcessId, TurnId};
use crate::store::actions;
use crate::store::inbox::{self, OrphanedContact, WaitingMessage};
use crate::store::open::OpenTurn;
use crate::store::second_run::{self, SecondRun};
use crate::store::{StoreError, owed};
use crate::tools::{Marks, Performer};
use crate::turn::late::{self, Course};
use crate::turn::{
    self, OpenReport, SettleReport, Snapshot, Snapshots, TurnContext, TurnError, TurnRequest, Way,
};

/// How long the server may still be at work on a statement that did not answer: longer than its wait for a lock.
const IN_DOUBT: Duration = Duration::from_secs(10);

/// Pause while the database does not answer a turn that was taken over, and how often it is asked: for longer than an outage
/// that leaves the turn to this process.
const FOLLOW_ONS_PAUSE: Duration = Duration::from_secs(1);
const FOLLOW_ONS_TRIES: u32 = 30;

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
        let taker = late::taker(&self.context, &snapshot);
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
        let request = late::request_of_second_run(&self.context, turn, taker.process, snapshot, &run);
        let request = Arc::new(request);
        let conversation = run.opened.conversation;
        let ended = self.second_run(&request, run).await;
        if let Err(error) = ended {
            tracing::warn!(%turn, %conversation, err = %error, "recovery of a contact not finished");
            self.end(request, conversation, error.into());
        }
        Ok(())
    }

    async fn second_run(&self, request: &Arc<TurnRequest>, mut run: SecondRun) -> Result<(), StoreError> {
        let course = late::course_of_second_run(&run, self.context.clock.now());
        let reachable = course != Course::OutOfReach;
        if !self.complete_follow_ons(request, &mut run.opened, reachable).await {
            return Ok(());
        }
        match course {
            Course::OutOfReach => self.end_silently(request, &run.opened).await,
            Course::HandOff => self.hand_off(request).await,
            Course::Answer => {
                self.join_repeats(&run, request).await?;
                turn::mend_summary(&self.context, &mut run.opened).await;
                self.finish(Arc::clone(request), run.opened).await;
                Ok(())
            }
        }
    }

    /// Makes what was to follow the accepted actions of the first run, however the turn then ends (ARC-41). While the database
    /// is away it asks again: as long as this process lives nobody else does it. False when the process was silent for too
    /// long, and the turn is anybody's again. What the database refuses for good keeps nobody from an answer (ARC-40).
    async fn complete_follow_ons(
        &self,
        request: &TurnRequest,
        opened: &mut OpenTurn,
        reachable: bool,
    ) -> bool {
        for _ in 0..FOLLOW_ONS_TRIES {
            match turn::complete_follow_ons(&self.context, request, opened, reachable).await {
                Ok(()) => return true,
                Err(error) => {
                    let (turn, conversation) = (request.id, opened.conversation);
                    tracing::warn!(%turn, %conversation, err = %error, "follow-ons of a dead process wait");
                }
            }
            if !self.context.pulse.holds(request.process) {
                return false;
            }
            tokio::time::sleep(FOLLOW_ONS_PAUSE).await;
        }
        true
    }

    /// Answers the first messages that wait for this contact while their process is dead: those of one process with
    /// one proof of the contact, as one turn (ARC-45a).
    pub(super) async fn answer_waiting(&self, contact: OrphanedContact) -> Result<(), StoreError> {
        let snapshot = self.snapshots.current();
        let waiting = inbox::waiting(&self.context.database, contact.conversation).await?;
        let burst = late::first_burst(waiting, &snapshot);
        let (conversation, process) = (contact.conversation, self.context.pulse.process());
        let request = late::request_of_burst(&self.context, &contact, process, snapshot, &burst);
        let Some(request) = request.filter(|_| self.context.pulse.may_judge()) else { return Ok(()) };
        let request = Arc::new(request);
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
        let ended = self.answer_opened(&request, opened, &burst).await;
        if let Err(error) = ended {
            // The turn is ours and running: nobody else would end it.
            tracing::warn!(%conversation, err = %error, "recovery of a contact not finished");
            self.end(request, conversation, error.into());
        }
        Ok(())
    }

    /// Ends a turn that inherited its messages from this burst.
    async fn answer_opened(
        &self,
        request: &Arc<TurnRequest>,
        opened: OpenTurn,
        burst: &[WaitingMessage],
    ) -> Result<(), StoreError> {
        match late::course_of_inherited(request, self.context.clock.now()) {
            Course::OutOfReach => self.end_silently(request, &opened).await,
            Course::HandOff => self.hand_off(request).await,
            Course::Answer => {
                if let Some(first) = late::repeatable_of_burst(burst, &opened) {
                    inbox::join_repeats(&self.context.database, &first).await?;
                }
                self.finish(Arc::clone(request), opened).await;
                Ok(())
            }
        }
    }

    /// The takeover may have been committed without our hearing of it: the turn is then ours, and nobody would end it.
    async fn give_up(&self, turn: TurnId, process: ProcessId, snapshot: &Snapshot) {
        loop {
            tokio::time::sleep(IN_DOUBT).await;
            let failed = late::lost_takeover(&self.context, turn, process, snapshot);
            if failed.held {
                self.complete_blindly(turn, process).await;
            }
            match owed::end_opened(&self.context.database, &failed).await {
                Ok(_) => return self.waker.wake(),
                Err(error) => tracing::warn!(%turn, err = %error, "failed turns not resolved yet"),
            }
        }
    }

    /// As [`Self::complete_follow_ons`], for a turn of which nothing is known but its id.
    async fn complete_blindly(&self, turn: TurnId, process: ProcessId) {
        let (database, manychat) = (self.context.database.clone(), self.context.manychat.clone());
        let marks = Marks::of(Arc::clone(&self.snapshots.current().tenant));
        let completed =
            Performer { database, manychat, marks }.complete_follow_ons(turn, process, true).await;
        if let Err(error) = completed {
            tracing::warn!(%turn, err = %error, "follow-ons of a dead process wait");
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

    /// Ends a turn with a person, without running it.
    async fn hand_off(&self, request: &TurnRequest) -> Result<(), StoreError> {
        if let Some(handoff) = turn::handoff(&self.context, request, false) {
            owed::resolve(&self.context.database, &handoff).await?;
            self.waker.wake();
        }
        Ok(())
    }

    /// Marks the contact and calls a person; the operator finds the open handoff.
    async fn end_silently(&self, request: &TurnRequest, opened: &OpenTurn) -> Result<(), StoreError> {
        let TurnRequest { id: turn, process, .. } = *request;
        let enforced = self.context.settings.tokens_enforced;
        let now = self.context.clock.now();
        second_run::end_silently(&self.context.database, turn, process, enforced, now).await?;
        tracing::error!(%turn, conversation = %opened.conversation, "too late to answer: a person has to write");
        Ok(())
    }

    /// DEC-30: the caller whose process died may have asked another one meanwhile.
    async fn join_repeats(&self, run: &SecondRun, request: &TurnRequest) -> Result<(), StoreError> {
        let Some(first) = late::repeatable_of_second_run(run) else { return Ok(()) };
        let joined = inbox::join_repeats(&self.context.database, &first).await?;
        if joined > 0 {
            tracing::info!(turn = %request.id, joined, "repeated request joins the turn of the first");
        }
        Ok(())
    }
}
